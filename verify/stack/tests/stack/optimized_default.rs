//! DEFAULT fences whose MonitoredValue lies in video memory, next to the engines that read it (sync §1.4, "DEFAULT optimized").

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::{Fence, FenceFlags, MakeResidentFlags, NativeFenceRequest};
use ddi::{AllocationFlags, FenceResidency, PagingOp, PowerState};
use dxgk_host::{Host, HostConfig, Pending, Profile};
use kmt_calls::{Call, SyncCall, WaitFlags};
use shared_words::Word;
use softgpu_spec::register::counter::INTERRUPTS_RAISED as RAISED;
use softgpu_umd::{Commands, Surface, SurfaceKind};
use wddm_types::{NtStatus, PAGE_BYTES, RawHandle, SegmentId, WordAddress};

use crate::stubborn::{Shared, Whims, wrapped};
use stack::world::{Client, MIB, VIRTUAL, client};

fn host_of(profile: &str, whims: Whims) -> Arc<Host> {
    let profile = Profile::named(profile).expect("a built-in profile");
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(wrapped(whims)),
        ..HostConfig::new(profile, VIRTUAL)
    };
    Host::start(config).expect("the host starts")
}

/// Notes the words that the driver is lent: the address of each, and whether the value was in it.
fn notes_lent(lent: &Shared<(usize, bool)>) -> Whims {
    let lent = Arc::clone(lent);
    Whims {
        lent: Box::new(move |updates| {
            lent.lock().unwrap().extend(updates.iter().map(|update| {
                let place = std::ptr::from_ref(update.monitored) as usize;
                (place, Word::load(update.monitored) == update.value)
            }));
        }),
        ..Whims::default()
    }
}

fn fence_of(of: &Client) -> Fence {
    of.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence")
}

fn local_usage(of: &Client) -> u64 {
    of.gpu.adapter().video_memory_info(true).unwrap().current_usage_bytes
}

fn waits(host: &Host, of: &Client, fence: &Fence, value: u64) -> Result<(), Pending> {
    let (device, points) = (of.gpu.device().handle(), vec![(fence.handle(), value)]);
    let (async_event, flags) = (RawHandle::NONE, WaitFlags::empty());
    let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu { device, points, async_event, flags });
    host.begin_call(of.link.process(), call).map(|answer| drop(answer.expect("a wait")))
}

/// The same when the value has not come.
fn sleeps(host: &Host, of: &Client, fence: &Fence, value: u64) -> Pending {
    waits(host, of, fence, value).expect_err("the value has not come")
}

fn signals(of: &mut Client, fence: &Fence, value: u64) {
    let mut commands = Commands::new();
    commands.signal(fence, value);
    of.stream.submit(&of.gpu, &[], &commands).expect("a submission");
}

/// Where the words of system memory are.
fn system_range(host: &Host) -> std::ops::RangeInclusive<usize> {
    let system = host.system_memory();
    let [first, last] = [0, system.bytes() - 8].map(|offset| std::ptr::from_ref(system.word(offset)) as usize);
    first..=last
}

fn drain(host: &Host) {
    while host.step() {}
}

/// The word at an address, as an engine reads it.
fn read_by_gpu(of: &mut Client, va: wddm_types::GpuVa) -> u64 {
    let report = of.pinned(SurfaceKind::System, PAGE_BYTES);
    of.run(|commands| {
        commands.checksum(va, 8, report.va());
    });
    report.lock().expect("a lock").read_word(0)
}

/// All of video memory for one client, but for the page of its own words; the work is queued.
fn demand_everything(other: &Client) -> Vec<Surface> {
    let sizes = [vec![MIB; 7], vec![65536; 15]].concat();
    let new = |bytes| other.gpu.create_surface(SurfaceKind::Local, bytes).expect("a surface");
    let all: Vec<_> = sizes.into_iter().map(new).collect();
    let insists = MakeResidentFlags::CANT_TRIM_FURTHER | MakeResidentFlags::MUST_SUCCEED;
    for surface in &all {
        other.gpu.paging().make_resident(vec![surface.allocation().handle()], insists).expect("at the others' cost");
    }
    all
}

#[test]
fn engines_ask_video_memory_and_the_kernel_publishes_there() {
    // spec: sync §1.4, sync §1.5, sync §3.9
    // seed: N22, N25, N29
    let lent = Shared::default();
    let host = host_of("local-monitored", notes_lent(&lent));
    let mut one = client(&host);
    // The stream's progress fence has brought the page.
    let before = local_usage(&one);
    let fence = fence_of(&one);
    assert_eq!(local_usage(&one), before, "words of one device are packed");
    assert!(fence.is_mapped(), "CurrentValue lies in system memory, where the CPU polls it");
    assert_eq!(read_by_gpu(&mut one, fence.monitored_va()), u64::MAX);
    lent.lock().unwrap().clear();
    let asleep = sleeps(&host, &one, &fence, 5);
    let system = system_range(&host);
    for (place, stored) in lent.lock().unwrap().drain(..) {
        assert!(!system.contains(&place), "it is the device's memory");
        assert!(stored, "the driver is lent the words that the engines see");
    }
    let raised = host.device_register(RAISED);
    signals(&mut one, &fence, 4);
    drain(&host);
    assert_eq!(host.device_register(RAISED), raised, "no wait is for 4");
    signals(&mut one, &fence, 5);
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect("and well");
    assert_eq!(host.device_register(RAISED), raised + 1);
    signals(&mut one, &fence, 6);
    drain(&host);
    assert_eq!(host.device_register(RAISED), raised + 1, "no wait is left");
    // The next fence does not find the old content of its word.
    let asleep = sleeps(&host, &one, &fence, 9);
    drop(fence);
    host.take_answer(asleep).expect("it is over").expect("and well");
    let next = fence_of(&one);
    assert_eq!(read_by_gpu(&mut one, next.monitored_va()), u64::MAX);
    drop(next);
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

#[test]
fn where_driver_or_fence_says_otherwise_they_lie_in_system_memory() {
    // spec: sync §1.4, sync §1.5
    // A window that shows pages by turns, no memory at all, an IOMMU.
    for name in ["small-bar", "integrated", "iommu"] {
        let profile = Profile::named(name).expect("a built-in profile");
        let mut config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            ..HostConfig::new(profile, VIRTUAL)
        };
        config.features.native_fence.optimized_default_fence_type = true;
        let host = Host::start(config).expect("the host starts");
        let mut one = client(&host);
        let usage = local_usage(&one);
        let fence = fence_of(&one);
        assert_eq!(local_usage(&one), usage, "{name}");
        let asleep = sleeps(&host, &one, &fence, 1);
        signals(&mut one, &fence, 1);
        drain(&host);
        host.take_answer(asleep).expect("it is over").expect("and well");
    }
    // spec: sync §1.5: shared ones lie in system memory always
    let lent = Shared::default();
    let host = host_of("local-monitored", notes_lent(&lent));
    let one = client(&host);
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
    let shared = one.gpu.device().create_native_fence(request).expect("a fence");
    drain(&host);
    lent.lock().unwrap().clear();
    let asleep = sleeps(&host, &one, &shared, 5);
    let (place, stored) = lent.lock().unwrap()[0];
    assert!(stored && system_range(&host).contains(&place));
    drop(shared);
    host.take_answer(asleep).expect("it is over").expect("and well");
}

#[test]
fn storage_that_the_cpu_does_not_see_is_refused() {
    // spec: sync §1.5
    let hide = |surface: &mut ddi::FenceStorageSurface| surface.info.flags -= AllocationFlags::CPU_VISIBLE;
    let host = host_of("local-monitored", Whims { fence_storage: Box::new(hide), ..Whims::default() });
    let link = dxgk_host::ProcessLink::new(Arc::clone(&host));
    let gpu = softgpu_umd::Gpu::open(link as Arc<dyn kmt_link::Link>).expect("paging fences lie in system memory");
    let before = host.state_digest();
    let made = gpu.device().create_native_fence(NativeFenceRequest::default());
    let refused = made.err().expect("not CPU-visible");
    assert_eq!(refused.status, NtStatus::NOT_SUPPORTED);
    assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new());
    assert_eq!(host.stopped(), None);
}

/// Notes the moves of words that the kernel tells the driver; the words that the driver is lent are at every instant those that the hardware
/// uses.
fn notes_moves(moves: &Shared<FenceResidency>) -> Whims {
    let moves = Arc::clone(moves);
    Whims {
        lent: Box::new(|updates| {
            assert!(updates.iter().all(|update| Word::load(update.monitored) == update.value), "it is elsewhere");
        }),
        build: Box::new(move |driver, build| {
            if let PagingOp::NotifyFenceResidency { fences } = build.operation {
                moves.lock().unwrap().extend(fences);
            }
            driver.build_paging_buffer(build)
        }),
        ..Whims::default()
    }
}

/// Waits that begin at any instant of the words' way out and back are over when their value comes.
#[test]
fn who_begins_to_wait_while_the_words_move_is_woken() {
    // spec: sync §1.4, sync §1.5, sync §3.9, memory §3.4 operation 18
    // seed: N26
    for steps in 0.. {
        let moves = Shared::default();
        let host = host_of("local-monitored", notes_moves(&moves));
        let mut one = client(&host);
        let fence = fence_of(&one);
        let other = client(&host);
        drain(&host);
        let early = sleeps(&host, &one, &fence, 7);
        let all = demand_everything(&other);
        let moved = (0..steps).all(|_| host.step());
        let late = sleeps(&host, &one, &fence, 5);
        drain(&host);
        let told: Vec<_> = std::mem::take(&mut *moves.lock().unwrap());
        let of_fence: Vec<_> = told.iter().filter(|told| told.current_word == fence.address()).collect();
        assert_eq!(of_fence.len(), 1, "{told:?}");
        let FenceResidency { current, monitored, monitored_word, .. } = *of_fence[0];
        assert_eq!((current.segment, monitored.segment), (SegmentId::SYSTEM, SegmentId::SYSTEM));
        assert_eq!(WordAddress(monitored.offset), monitored_word);
        assert_eq!(Word::load(host.system_memory().word(monitored.offset)), 4, "the earliest waiter's");
        signals(&mut one, &fence, 5);
        drain(&host);
        host.take_answer(late).unwrap_or_else(|| panic!("after {steps} steps")).expect("and well");
        drop(all);
        let moved = (0..steps).all(|_| host.step()) || moved;
        let last = sleeps(&host, &one, &fence, 6);
        drain(&host);
        let back = std::mem::take(&mut *moves.lock().unwrap());
        assert!(back.iter().any(|told| told.monitored.segment == SegmentId(1)), "they come back: {back:?}");
        signals(&mut one, &fence, 6);
        drain(&host);
        host.take_answer(last).unwrap_or_else(|| panic!("after {steps} steps")).expect("and well");
        signals(&mut one, &fence, 7);
        drain(&host);
        host.take_answer(early).expect("it is over").expect("and well");
        host.check_invariants().unwrap();
        assert_eq!(host.stopped(), None);
        if !moved {
            assert!(steps > 5, "the moves have steps");
            break;
        }
    }
}

#[test]
fn they_outlive_sleep_with_their_waiters() {
    // spec: memory §1.10, sync §1.5, sync §3.9
    for state in [PowerState::Standby, PowerState::Hibernate] {
        let host = host_of("local-monitored", Whims::default());
        let mut one = client(&host);
        let fence = fence_of(&one);
        let early = sleeps(&host, &one, &fence, 3);
        let (late, gone) = (sleeps(&host, &one, &fence, 2), fence_of(&one));
        let ended = sleeps(&host, &one, &gone, 1);
        host.power_transition(state).expect("it falls asleep");
        drop(gone);
        host.take_answer(ended).expect("it is over").expect("and well");
        host.power_transition(PowerState::On).expect("it wakes");
        drain(&host);
        for (value, asleep) in [(2, late), (3, early)] {
            signals(&mut one, &fence, value);
            drain(&host);
            host.take_answer(asleep).expect("it is over").expect("and well");
        }
        let raised = host.device_register(RAISED);
        signals(&mut one, &fence, 4);
        drain(&host);
        assert_eq!(host.device_register(RAISED), raised, "no wait is left");
        host.check_invariants().unwrap();
        assert_eq!(host.stopped(), None);
    }
}

/// A reset destroys the words; their waits end, and new fences have new words.
#[test]
fn a_reset_releases_who_waited_by_them() {
    // spec: sync §3.16, sync §4.4
    let (breaks, over) = (Arc::new(Mutex::new(false)), Arc::new(AtomicBool::new(false)));
    let (next, reset, lost) = (Arc::clone(&breaks), Arc::clone(&over), Arc::clone(&over));
    let places: Shared<usize> = Shared::default();
    let seen = Arc::clone(&places);
    let host = host_of(
        "local-monitored",
        Whims {
            build: Box::new(move |driver, build| {
                driver.build_paging_buffer(build)?;
                if !build.immediate && build.written > 0 && std::mem::take(&mut *next.lock().unwrap()) {
                    build.buffer[0] = 0x7f | 1 << 8;
                }
                Ok(())
            }),
            reset: Box::new(move |driver, host, down| {
                reset.store(true, Ordering::SeqCst);
                if down { driver.reset_from_timeout(host) } else { driver.restart_from_timeout(host) }
            }),
            lent: Box::new(move |updates| {
                let mut places = seen.lock().unwrap();
                let behind = updates.iter().filter(|_| lost.load(Ordering::SeqCst));
                places.extend(behind.map(|update| std::ptr::from_ref(update.monitored) as usize));
            }),
            ..Whims::default()
        },
    );
    let one = client(&host);
    let fence = fence_of(&one);
    drain(&host);
    let asleep = sleeps(&host, &one, &fence, 3);
    *breaks.lock().unwrap() = true;
    let unlucky = softgpu_umd::Gpu::open(dxgk_host::ProcessLink::new(Arc::clone(&host)) as Arc<dyn kmt_link::Link>);
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect_err("its device is lost");
    drop((fence, one, unlucky));
    assert!(over.swap(false, Ordering::SeqCst));
    let system = system_range(&host);
    assert!(
        places.lock().unwrap().iter().all(|place| system.contains(place)),
        "the words lay in system memory, which other allocations may use"
    );
    let mut new = client(&host);
    let fence = fence_of(&new);
    let asleep = sleeps(&host, &new, &fence, 1);
    signals(&mut new, &fence, 1);
    drain(&host);
    host.take_answer(asleep).expect("it is over").expect("and well");
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}
