//! The kind of a cross-adapter fence on each adapter (sync §3.13), the place of its words, and the cost of a signal.

use std::sync::atomic::{AtomicBool, Ordering};

use ddi::Interrupt;
use kmt_calls::Refusal;
use softgpu_umd::SurfaceKind;
use wddm_types::{GpuVa, NtStatus};

use super::*;
use stack::world::VIRTUAL;

fn status<T>(result: Result<T, Refusal>) -> NtStatus {
    result.err().expect("a refusal").status
}

fn monitored(device: &Device, flags: FenceFlags) -> Fence {
    device.create_monitored_fence(CROSS | flags, 3).expect("a cross-adapter fence")
}

/// The word at an address, as an engine reads it.
pub(super) fn read_by_engine(side: &mut Side, va: GpuVa) -> u64 {
    let surface = side.gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
    side.gpu.pin(&surface).expect("room for it");
    surface.lock().unwrap().write_words(0, &[u64::MAX]);
    let Work::Queues { stream, .. } = &mut side.work else { panic!("it has queues") };
    let mut commands = Commands::new();
    commands.copy(va, surface.va(), 8);
    let done = stream.submit(&side.gpu, &[], &commands).expect("a submission");
    stream.wait(&side.gpu, done).expect("it completes");
    surface.lock().unwrap().read_word(0)
}

#[test]
fn one_current_value_for_all_and_a_monitored_value_of_0_for_each() {
    // spec: sync §1.3, sync §1.5, sync §3.12
    // seed: N23, N63, N66, N68
    let world = World::new(VIRTUAL, &["integrated", "discrete-4k", "discrete-64k"]);
    let first = Side::new(&world, 0, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&first.fence);
    let others = [1, 2].map(|adapter| Side::new(&world, adapter, |gpu| opened(gpu, &name)));
    let mut sides: Vec<Side> = std::iter::once(first).chain(others).collect();
    let system = world.host.system_memory().bytes();
    assert!(sides.iter().all(|side| side.fence.address() == sides[0].fence.address()), "one word");
    assert!(sides[0].fence.address().0 < system, "in system memory");
    for at in 0..3 {
        let value = 100 * (at as u64 + 1);
        world.news.take();
        sides[at].signal(By::Gpu, value);
        world.drain();
        let interrupts = world.news.take().iter().filter(|event| matches!(event, Event::FenceInterrupt { .. })).count();
        assert_eq!(interrupts, 1, "the signal interrupts without a waiter");
        for side in &mut sides {
            let [current, monitored] = [side.fence.current_va(), side.fence.monitored_va()];
            assert_eq!([current, monitored].map(|va| read_by_engine(side, va)), [value, 0]);
        }
        // spec: sync §6 B6: a waiter does not change it
        let mut waiting = sides[at].wait(&world, By::Cpu, value + 1);
        let va = sides[at].fence.monitored_va();
        assert_eq!(read_by_engine(&mut sides[at], va), 0);
        sides[(at + 1) % 3].signal(By::Cpu, value + 1);
        assert!(sides[at].has_gone_on(&world, &mut waiting, value + 1));
    }
    world.host.check_invariants().unwrap();
}

#[test]
fn what_waits_and_signals_on_one_gpu_needs_no_processor() {
    // spec: sync §3.12
    // seed: N70
    let deaf = Arc::new(AtomicBool::new(false));
    let world = World::with(VIRTUAL, &["integrated", "discrete-4k"], |_, whims| {
        // The kernel hears of no signal at all from some time on.
        let deaf = Arc::clone(&deaf);
        whims.say = Box::new(move |interrupt, notify| {
            if !deaf.load(Ordering::Relaxed) || !matches!(interrupt, Interrupt::NativeFenceSignaled { .. }) {
                notify.interrupt(interrupt);
            }
        });
    });
    let mut waiter = Side::new(&world, 1, |gpu| native(gpu.device(), FenceFlags::empty()));
    let name = named(&waiter.fence);
    let mut signaller = Side::new(&world, 1, |gpu| opened(gpu, &name));
    let mut elsewhere = Side::new(&world, 0, |gpu| opened(gpu, &name));
    deaf.store(true, Ordering::Relaxed);
    let [mut here, mut there] = [&mut waiter, &mut elsewhere].map(|side| side.wait(&world, By::Gpu, 5));
    world.drain();
    signaller.signal(By::Gpu, 5);
    world.drain();
    assert!(waiter.has_gone_on(&world, &mut here, 5), "its own GPU has unparked it");
    assert!(!elsewhere.has_gone_on(&world, &mut there, 5), "the other one has the value and was not told");
}

#[test]
fn what_it_is_depends_on_who_opens_it() {
    // spec: sync §3.13, sync §6 A11
    // seed: N71, N72
    let world = World::new(VIRTUAL, &["wddm2-packets", "discrete-4k"]);
    let (legacy, modern) = (world.gpu(0), world.gpu(1));
    let here = native(modern.device(), FenceFlags::empty());
    let name = named(&here);
    assert_eq!(status(legacy.device().open_native_fence(by(&name))), NtStatus::NOT_SUPPORTED);
    let there = legacy.device().open_sync_object(by(&name)).expect("a monitored fence");
    assert_eq!((there.monitored_va(), there.bits(), there.current()), (GpuVa::NULL, 64, 0), "it has one word");
    assert!(!there.current_va().is_null());

    let here = monitored(legacy.device(), FenceFlags::empty());
    let name = named(&here);
    let there = modern.device().open_native_fence(by(&name)).expect("a native fence");
    assert!(!there.monitored_va().is_null() && there.address() == here.address());
    assert_eq!(there.current(), 3);
    // The older call tells less of the same fence.
    let again = modern.device().open_sync_object(by(&name)).expect("it opens");
    assert_eq!((again.current_va(), again.monitored_va()), (there.current_va(), GpuVa::NULL));

    // On its own adapter it keeps the kind that it was created with.
    let own = monitored(modern.device(), FenceFlags::empty());
    let name = named(&own);
    assert_eq!(status(modern.device().open_native_fence(by(&name))), NtStatus::INVALID_PARAMETER);
    assert_eq!(modern.device().open_sync_object(by(&name)).expect("it opens").monitored_va(), GpuVa::NULL);
    world.host.check_invariants().unwrap();
}

#[test]
fn engines_that_cannot_store_the_whole_word_do_not_see_it() {
    // spec: sync §3.13, sync §1.6
    for profile in ["atomics-32", "wddm1-banks"] {
        let world = World::new(VIRTUAL, &[profile, "discrete-4k"]);
        let (legacy, modern) = (world.gpu(0), world.gpu(1));
        let created = monitored(legacy.device(), FenceFlags::empty());
        assert_eq!((created.bits(), created.current_va()), (64, GpuVa::NULL), "{profile}");
        let native = native(modern.device(), FenceFlags::empty());
        let joined = legacy.device().open_sync_object(by(&named(&native))).expect("it opens");
        assert_eq!((joined.bits(), joined.current_va()), (64, GpuVa::NULL), "{profile}");
        modern.device().signal(&native, 7 << 40).unwrap();
        legacy.device().wait(&[(&joined, 7 << 40)]).unwrap();
        legacy.device().signal(&joined, 8 << 40).unwrap();
        modern.device().wait(&[(&native, 8 << 40)]).unwrap();
        world.host.check_invariants().unwrap();
    }
}

#[test]
fn only_default_fences_created_for_it_cross_adapters() {
    // spec: sync §3.2 step 1, sync §3.13, sync §6 B7, sync §5
    // seed: N65
    let world = World::new(VIRTUAL, &["discrete-4k", "discrete-4k"]);
    let (one, other) = (world.gpu(0), world.gpu(1));
    let before = world.host.state_digest();
    let intra = NativeFenceRequest { flags: CROSS, fence_type: 1, ..NativeFenceRequest::default() };
    assert_eq!(status(one.device().create_native_fence(intra)), NtStatus::INVALID_PARAMETER);
    assert!(before.differences(&world.host.state_digest()).is_empty(), "nothing of it is left");
    let at_home = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let request = NativeFenceRequest { flags: at_home, ..NativeFenceRequest::default() };
    let native = one.device().create_native_fence(request).unwrap();
    let monitored = one.device().create_monitored_fence(at_home, 0).unwrap();
    for fence in [&native, &monitored] {
        let name = named(fence);
        assert_eq!(status(other.device().open_native_fence(by(&name))), NtStatus::INVALID_PARAMETER);
        assert_eq!(status(other.device().open_sync_object(by(&name))), NtStatus::INVALID_PARAMETER);
    }
    // A fence that is not shared works on this adapter alone.
    let unshared = NativeFenceRequest { flags: FenceFlags::CROSS_ADAPTER, ..NativeFenceRequest::default() };
    let unshared = one.device().create_native_fence(unshared).unwrap();
    one.device().signal(&unshared, 4).unwrap();
    one.device().wait(&[(&unshared, 4)]).unwrap();
    assert_eq!(status(unshared.share(SyncObjectAccess::ALL_ACCESS)), NtStatus::INVALID_PARAMETER);
    world.host.check_invariants().unwrap();
}

#[test]
fn an_open_elsewhere_may_what_the_name_and_its_flags_allow() {
    // spec: sync §2.2, sync §2.3, sync §3.3, sync §5
    let world = World::new(VIRTUAL, &["discrete-4k", "wddm2-packets", "integrated"]);
    let creator = world.gpu(0);
    let fence = native(creator.device(), FenceFlags::empty());
    let read_and_wait = SyncObjectAccess::WAIT | SyncObjectAccess::STANDARD_RIGHTS_READ;
    let (whole, lesser) = (named(&fence), fence.share(read_and_wait).unwrap());
    let unreadable = fence.share(SyncObjectAccess::WAIT).unwrap();
    for adapter in [1, 2] {
        let gpu = world.gpu(adapter);
        let device = gpu.device();
        let with = |name, flags| device.open_sync_object(OpenSyncObjectRequest { flags, ..by(name) });
        let both = FenceFlags::NO_SIGNAL | FenceFlags::NO_WAIT;
        assert_eq!(status(with(&whole, both)), NtStatus::INVALID_PARAMETER);
        assert_eq!(status(with(&whole, FenceFlags::CROSS_ADAPTER)), NtStatus::INVALID_PARAMETER, "the object's");
        assert_eq!(status(with(&unreadable, FenceFlags::empty())), NtStatus::ACCESS_DENIED);
        let waits = with(&lesser, FenceFlags::empty()).expect("it opens");
        assert_eq!(status(device.signal(&waits, 1)), NtStatus::ACCESS_DENIED);
        let silent = with(&whole, FenceFlags::NO_SIGNAL).expect("it opens");
        assert_eq!(status(device.signal(&silent, 1)), NtStatus::ACCESS_DENIED);
        assert_eq!(silent.current_va(), waits.current_va(), "a process sees it at one address");
        let deaf = with(&whole, FenceFlags::NO_WAIT).expect("it opens");
        assert_eq!(status(device.wait(&[(&deaf, 1)])), NtStatus::ACCESS_DENIED);
        device.signal(&deaf, u64::from(adapter as u32)).unwrap();
        device.wait(&[(&waits, 1)]).unwrap();
    }
    assert_eq!(fence.current(), 2);
    world.host.check_invariants().unwrap();
}

/// How many words of system memory hold a value.
fn words_with(memory: &shared_words::Memory, value: u64) -> usize {
    let words = (0..memory.bytes()).step_by(8);
    words.filter(|at| shared_words::Word::load(memory.word(*at)) == value).count()
}

/// Where MonitoredValue follows the waiters, each adapter has a word of its own for it, unless all adapters share one. None lies in local
/// memory, on no adapter: the kernel does not build that for fences that can be shared.
#[test]
fn each_adapter_has_a_monitored_value_of_its_own() {
    // spec: sync §1.5, sync §3.12, sync §3.18
    // seed: N67
    let value = 0x005e_edca_fe00_0011;
    for (peers, words) in [(PeerMode::Doorbells, 2), (PeerMode::LinearStorage, 1)] {
        let world = World::ringing(VIRTUAL, &["integrated", "discrete-4k"], |_| peers);
        let first = Side::new(&world, 0, |gpu| native(gpu.device(), FenceFlags::empty()));
        let name = named(&first.fence);
        let mut second = Side::new(&world, 1, |gpu| opened(gpu, &name));
        assert_eq!(words_with(world.host.system_memory(), value - 1), 0);
        let _waiting = second.wait(&world, By::Cpu, value);
        world.drain();
        assert_eq!(words_with(world.host.system_memory(), value - 1), words, "{peers:?}");
    }
}
