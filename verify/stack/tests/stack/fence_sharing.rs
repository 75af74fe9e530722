//! Shared native fences: two levels of handles, names, access, addresses, ends. The driver is listened to.

mod driver;
mod names;
mod waits;

use std::sync::Arc;

use d3dkmt::{
    Device, Fence, FenceFlags, FencePrivateData, NativeFenceRequest, NtHandle, OpenSyncObjectRequest, Refusal,
    SyncObjectAccess,
};
use dxgk_host::{Host, HostConfig, Pending, ProcessLink, Profile, StateDigest};
use kmt_calls::{Call, DeviceState, Reply, SignalFlags, SyncCall, WaitFlags};
use kmt_link::Link;
use softgpu_umd::{Commands, Gpu};
use wddm_types::{GpuVa, NtStatus, RawHandle};

use crate::stubborn::{FenceStep, Shared, Whims, wrapped};
use stack::world::{Client, MIB, VIRTUAL, client, host, unnamed};

const SHARED: FenceFlags = FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING);

fn listened() -> (Arc<Host>, Shared<FenceStep>) {
    let heard = Shared::<FenceStep>::default();
    let into = Arc::clone(&heard);
    let whims = Whims { hear_fence: Box::new(move |step| into.lock().unwrap().push(step)), ..Whims::default() };
    (host_of(whims), heard)
}

fn host_of(whims: Whims) -> Arc<Host> {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        wrap_miniport: Some(wrapped(whims)),
        ..HostConfig::new(profile, VIRTUAL)
    };
    Host::start(config).expect("the host starts")
}

fn gpu(host: &Arc<Host>) -> Gpu {
    Gpu::open(ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>).expect("the adapter opens")
}

fn shared(device: &Device, flags: FenceFlags) -> Fence {
    let request = NativeFenceRequest { flags: SHARED | flags, ..NativeFenceRequest::default() };
    device.create_native_fence(request).expect("a shareable fence")
}

fn by(name: &NtHandle) -> OpenSyncObjectRequest {
    OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() }
}

fn status<T>(result: Result<T, Refusal>) -> NtStatus {
    result.err().expect("a refusal").status
}

fn signal(device: RawHandle, points: Vec<(RawHandle, u64)>) -> Call {
    Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu { device, points, flags: SignalFlags::empty() })
}

fn begin_wait(host: &Arc<Host>, of: &Client, fence: &Fence, value: u64) -> Pending {
    let points = vec![(fence.handle(), value)];
    let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
        device: of.gpu.device().handle(),
        points,
        async_event: RawHandle::NONE,
        flags: WaitFlags::empty(),
    });
    host.begin_call(of.link.process(), call).expect_err("the value has not come")
}

/// The steps that create, open, close or destroy.
fn lives(heard: &Shared<FenceStep>) -> Vec<FenceStep> {
    let steps = std::mem::take(&mut *heard.lock().unwrap());
    let about = |step: &FenceStep| !matches!(step, FenceStep::Monitored(_) | FenceStep::Current(..));
    steps.into_iter().filter(about).collect()
}

#[test]
fn the_last_close_comes_before_the_one_destroy_in_every_order() {
    // spec: sync §3.2, sync §3.3, sync §3.4
    // seed: N45, N46, N47, N48, N50, N51
    for creator_first in [true, false] {
        let (host, heard) = listened();
        let (a, b) = (gpu(&host), gpu(&host));
        lives(&heard);
        let mine = shared(a.device(), FenceFlags::empty());
        let steps = lives(&heard);
        let [FenceStep::Create(global), FenceStep::Open(opened, local_a, _)] = steps[..] else { panic!("{steps:?}") };
        assert_eq!(opened, global, "the open follows the create");
        let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
        let theirs = b.device().open_native_fence(by(&name)).unwrap();
        let steps = lives(&heard);
        let [FenceStep::Open(opened, local_b, _)] = steps[..] else { panic!("{steps:?}") };
        assert!(opened == global && local_b != local_a, "one global handle, a local one each");
        drop(name);
        let (first, second) = if creator_first { (mine, theirs) } else { (theirs, mine) };
        let (local_first, local_second) = if creator_first { (local_a, local_b) } else { (local_b, local_a) };
        drop(first);
        assert_eq!(lives(&heard), [FenceStep::Close(local_first)]);
        second.current();
        drop(second);
        assert_eq!(lives(&heard), [FenceStep::Close(local_second), FenceStep::Destroy(global)]);
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_failed_open_leaves_nothing_behind() {
    // spec: sync §3.2
    let whims = Whims { refuse_fence_open: Box::new(|open| open.private_data[0] == 77), ..Whims::default() };
    let heard = Shared::<FenceStep>::default();
    let into = Arc::clone(&heard);
    let host = host_of(Whims { hear_fence: Box::new(move |step| into.lock().unwrap().push(step)), ..whims });
    let (a, b) = (gpu(&host), gpu(&host));
    let private_data = FencePrivateData([77; 64]);
    lives(&heard);
    let before = host.state_digest();
    for flags in [FenceFlags::empty(), SHARED] {
        let request = NativeFenceRequest { flags, private_data, ..NativeFenceRequest::default() };
        assert_eq!(status(a.device().create_native_fence(request)), NtStatus::INVALID_PARAMETER);
        let steps = lives(&heard);
        let [FenceStep::Create(made), FenceStep::Destroy(gone)] = steps[..] else { panic!("{steps:?}") };
        assert_eq!(made, gone, "destroyed without a close");
    }
    host.check_invariants().unwrap();
    // Pages of words and their tables may stay with the process for the next fence.
    let differences = before.differences(&host.state_digest());
    let told = |line: &&String| ["fence", "handles", "device"].iter().any(|object| line.contains(object));
    assert_eq!(differences.iter().filter(told).count(), 0, "{differences:?}");
    // A failed open of one process does not touch the fence of the processes that have it.
    let fence = shared(a.device(), FenceFlags::empty());
    let name = fence.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    lives(&heard);
    assert_eq!(
        status(b.device().open_native_fence(OpenSyncObjectRequest { private_data, ..by(&name) })),
        NtStatus::INVALID_PARAMETER
    );
    assert_eq!(lives(&heard), [], "neither closed nor destroyed");
    b.device().open_native_fence(by(&name)).unwrap();
    host.check_invariants().unwrap();
}

#[test]
fn an_engine_of_one_process_signals_and_the_others_see_it() {
    // spec: sync §1.4, sync §1.5, sync §3.3
    // seed: N06, N46
    let host = host(VIRTUAL, 8 * MIB);
    let (mut a, mut b) = (client(&host), client(&host));
    let mine = shared(a.gpu.device(), FenceFlags::empty());
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let theirs = b.gpu.device().open_native_fence(by(&name)).unwrap();
    assert_eq!(mine.address(), theirs.address(), "one word");
    // B's engine waits for a signal of A's; the CPU only watches.
    let calls = host.counters();
    let mut wait = Commands::new();
    wait.wait(&theirs, 5).signal(&theirs, 6);
    let waited = b.stream.submit(&b.gpu, &[], &wait).unwrap();
    while host.step() {}
    assert_eq!(theirs.current(), 0, "it waits");
    a.run(|commands| {
        commands.signal(&mine, 5);
    });
    b.stream.wait(&b.gpu, waited).unwrap();
    assert_eq!((mine.current(), theirs.current()), (6, 6));
    assert_eq!(host.counters().cpu_signals, calls.cpu_signals, "no signal of the CPU's between them");
    // And the CPU of each side.
    b.gpu.device().signal(&theirs, 9).unwrap();
    a.gpu.device().wait(&[(&mine, 9)]).unwrap();
}

#[test]
fn waiters_of_all_processes_decide_about_one_monitored_value() {
    // spec: sync §1.3, sync §6 A7
    // seed: N12, N14, N18
    let (host, heard) = listened();
    let (mut a, b) = (client(&host), client(&host));
    let mine = shared(a.gpu.device(), FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY);
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let theirs = b.gpu.device().open_native_fence(by(&name)).unwrap();
    heard.lock().unwrap().clear();
    let published = || {
        let steps = std::mem::take(&mut *heard.lock().unwrap());
        let values = steps.into_iter().filter_map(|step| match step {
            FenceStep::Monitored(list) => Some(list.into_iter().map(|(_, value)| value).collect::<Vec<_>>()),
            _ => None,
        });
        values.flatten().collect::<Vec<_>>()
    };
    let of_a = begin_wait(&host, &a, &mine, 43);
    let of_b = begin_wait(&host, &b, &theirs, 42);
    assert_eq!(published(), [42, 41], "the least of both, minus one");
    a.run(|commands| {
        commands.signal(&mine, 42);
    });
    while host.step() {}
    host.take_answer(of_b).expect("released").expect("well");
    assert!(published().contains(&42));
    a.run(|commands| {
        commands.signal(&mine, 43);
    });
    while host.step() {}
    host.take_answer(of_a).expect("released").expect("well");
    assert!(published().contains(&u64::MAX), "no waiter is left");
}

#[test]
fn closing_one_open_lets_cpu_waiters_go_on_unless_told_otherwise() {
    // spec: sync §2.3, sync §3.4, sync §6 B8
    for only_on_destroy in [false, true] {
        let host = host(VIRTUAL, 8 * MIB);
        let (a, b) = (client(&host), client(&host));
        let flags = if only_on_destroy { FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY } else { FenceFlags::empty() };
        let mine = shared(a.gpu.device(), flags);
        let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
        let theirs = b.gpu.device().open_native_fence(by(&name)).unwrap();
        let waiting = begin_wait(&host, &a, &mine, 5);
        drop(theirs);
        while host.step() {}
        let answered = host.take_answer(waiting);
        assert_eq!(answered.is_some(), !only_on_destroy);
        if let Some(result) = answered {
            assert_eq!(result, Ok(Reply::Done));
        }
        let last = begin_wait(&host, &a, &mine, 7);
        drop(mine);
        assert_eq!(
            host.take_answer(last),
            Some(Ok(Reply::Done)),
            "no wait outlives the last open, also with a name left"
        );
        drop(name);
        host.check_invariants().unwrap();
    }
}

#[test]
fn devices_of_one_process_see_a_fence_at_one_address_and_processes_at_their_own() {
    // spec: sync §2.1, sync §3.3, sync §1.5
    let host = host(VIRTUAL, 8 * MIB);
    let link = ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>;
    let (first, second) = (Gpu::open(Arc::clone(&link)).unwrap(), Gpu::open(Arc::clone(&link)).unwrap());
    let stranger = gpu(&host);
    // Something that moves the stranger's addresses.
    let _own: Vec<_> = (0..3).map(|_| shared(stranger.device(), FenceFlags::empty())).collect();
    let made = shared(first.device(), FenceFlags::empty());
    let name = made.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let beside = second.device().open_native_fence(by(&name)).unwrap();
    let other = stranger.device().open_native_fence(by(&name)).unwrap();
    let addresses = |fence: &Fence| (fence.current_va(), fence.monitored_va());
    assert_eq!(addresses(&made), addresses(&beside), "the same in the same process");
    assert_ne!(addresses(&made), addresses(&other));
    assert_ne!(made.handle(), beside.handle());
    drop(made);
    second.device().signal(&beside, 1).unwrap();
    let twice = first.device().open_native_fence(by(&name)).unwrap();
    assert_eq!(addresses(&twice), addresses(&beside), "as long as one of its devices has it open");
    host.check_invariants().unwrap();
}

#[test]
fn shareable_fences_have_pages_of_their_own_and_others_are_packed() {
    // spec: sync §1.5
    // seed: N19, N20, N21
    let host = host(VIRTUAL, 8 * MIB);
    let a = gpu(&host);
    let page = |va: GpuVa| va.0 / 4096;
    let shared: Vec<_> = (0..4).map(|_| shared(a.device(), FenceFlags::empty())).collect();
    let packed: Vec<_> = (0..4).map(|_| a.device().create_native_fence(Default::default()).unwrap()).collect();
    let all = shared.iter().chain(&packed);
    let words: Vec<_> = all.flat_map(|fence| [fence.current_va(), fence.monitored_va()]).collect();
    for (index, fence) in shared.iter().enumerate() {
        let own = [fence.current_va(), fence.monitored_va()];
        let others = words.iter().enumerate().filter(|(at, _)| at / 2 != index);
        assert!(others.map(|(_, va)| page(*va)).all(|other| own.map(page).iter().all(|mine| *mine != other)));
        assert_ne!(page(own[0]), page(own[1]), "nor do the two words share one");
    }
    assert_eq!(packed.iter().map(|fence| page(fence.current_va())).collect::<std::collections::BTreeSet<_>>().len(), 1);
}

/// The same for the pages of memory behind the addresses.
#[test]
fn shareable_words_share_no_page_of_memory() {
    // spec: sync §1.5
    // seed: N21
    let lent: Shared<(u64, usize)> = Shared::default();
    let notes = Arc::clone(&lent);
    let host = host_of(Whims {
        lent: Box::new(move |updates| {
            let place = |update: &ddi::MonitoredUpdate<'_>| std::ptr::from_ref(update.monitored) as usize;
            notes.lock().unwrap().extend(updates.iter().map(|update| (update.value, place(update))));
        }),
        ..Whims::default()
    });
    let of = client(&host);
    let request = || NativeFenceRequest::default();
    let shareable: Vec<_> = (0..4).map(|_| shared(of.gpu.device(), FenceFlags::empty())).collect();
    let packed: Vec<_> = (0..4).map(|_| of.gpu.device().create_native_fence(request()).unwrap()).collect();
    let first = std::ptr::from_ref(host.system_memory().word(0)) as usize;
    let mut pages = Vec::new();
    for (nth, fence) in (1..).zip(shareable.iter().chain(&packed)) {
        // Each fence has a waiter for a value of its own, so a value tells its fence.
        begin_wait(&host, &of, fence, 100 * nth);
        let lent = std::mem::take(&mut *lent.lock().unwrap());
        let place = lent.iter().find(|(value, _)| *value == 100 * nth - 1).expect("its MonitoredValue is updated").1;
        assert!(place - first < host.system_memory().bytes() as usize, "it lies in system memory");
        pages.push([fence.address().0 / 4096, (place - first) as u64 / 4096]);
    }
    let (of_shareable, of_packed) = pages.split_at(4);
    for (nth, own) in of_shareable.iter().enumerate() {
        assert_ne!(own[0], own[1], "the two words of a fence");
        let others = pages.iter().enumerate().filter(|(other, _)| *other != nth).flat_map(|(_, pages)| pages);
        assert!(others.into_iter().all(|page| !own.contains(page)), "{pages:?}");
    }
    // The unshared ones of one process have two pages for all.
    assert!(of_packed.iter().all(|own| *own == of_packed[0]) && of_packed[0][0] != of_packed[0][1], "{pages:?}");
}

#[test]
fn a_dead_process_leaves_the_fence_to_the_others() {
    // spec: sync §3.4 (process exit)
    let (host, heard) = listened();
    let (a, b) = (client(&host), client(&host));
    let mine = shared(a.gpu.device(), FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY);
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let theirs = b.gpu.device().open_native_fence(by(&name)).unwrap();
    let token = name.token();
    let steps = lives(&heard);
    let Some(FenceStep::Open(global, ..)) = steps.last() else { panic!("{steps:?}") };
    let global = *global;
    let waiting = begin_wait(&host, &b, &theirs, 4);
    // The kernel is told of the death before any destructor of ours runs.
    host.process_died(a.link.process());
    let of_theirs = |step: &FenceStep| matches!(step, FenceStep::Destroy(gone) if *gone == global);
    assert!(!lives(&heard).iter().any(of_theirs), "the fence itself is not destroyed");
    host.check_invariants().unwrap();
    let request = OpenSyncObjectRequest { handle: token, ..Default::default() };
    assert_eq!(status(b.gpu.device().open_native_fence(request)), NtStatus::INVALID_HANDLE, "its names went with it");
    b.gpu.device().signal(&theirs, 4).unwrap();
    while host.step() {}
    assert_eq!(host.take_answer(waiting), Some(Ok(Reply::Done)));
    drop((mine, name, a));
}

/// When a device that may signal is lost, every wait passes and the value is the largest; it stays so.
#[test]
fn a_lost_device_satisfies_what_it_might_have_signalled_and_nothing_else() {
    // spec: sync §3.16, sync §6 B13
    for (flags, access, satisfied) in [
        (FenceFlags::empty(), SyncObjectAccess::ALL_ACCESS, true),
        (FenceFlags::NO_SIGNAL_MAX_VALUE_ON_TDR, SyncObjectAccess::ALL_ACCESS, false),
        (FenceFlags::NO_SIGNAL, SyncObjectAccess::ALL_ACCESS, false),
        (FenceFlags::empty(), SyncObjectAccess::STANDARD_RIGHTS_READ | SyncObjectAccess::WAIT, false),
    ] {
        let (host, heard) = listened();
        let (mut a, mut b) = (client(&host), client(&host));
        let mine = shared(a.gpu.device(), FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY);
        let name = mine.share(access).unwrap();
        let theirs = b.gpu.device().open_native_fence(OpenSyncObjectRequest { flags, ..by(&name) }).unwrap();
        let of_a = begin_wait(&host, &a, &mine, 10);
        let of_b = begin_wait(&host, &b, &theirs, 11);
        heard.lock().unwrap().clear();
        // An address without a reservation: B's device is lost.
        let mut wild = Commands::new();
        wild.signal(unnamed(GpuVa(0x7fff_0000_0000), GpuVa(0x7fff_0000_0008)), 1);
        b.stream.submit(&b.gpu, &[], &wild).unwrap();
        while host.step() {}
        assert_ne!(b.gpu.device().state().unwrap(), DeviceState::Active);
        let lost = host.take_answer(of_b).expect("its threads wait for nothing any more").expect_err("lost");
        assert_eq!(lost.status, NtStatus::DEVICE_REMOVED);
        let told = heard.lock().unwrap().iter().any(|step| {
            matches!(step, FenceStep::Current(list, ddi::UpdateCurrentFlags::ALWAYS_SIGNALED) if list.len() == 1)
        });
        assert_eq!(mine.current() == u64::MAX, satisfied, "{flags:?} {access:?}");
        assert_eq!(host.take_answer(of_a).is_some(), satisfied);
        assert!(told || !satisfied);
        if satisfied {
            a.gpu.device().wait(&[(&mine, u64::MAX)]).unwrap();
            a.gpu.device().signal(&mine, 3).expect("no effect, and no refusal");
            assert_eq!(mine.current(), u64::MAX, "for good");
            // Its engines neither wait for it nor take it back.
            a.run(|commands| {
                commands.signal(&mine, 4).wait(&mine, 50);
            });
            assert_eq!(mine.current(), u64::MAX);
        }
    }
}
