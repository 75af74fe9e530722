//! Periodic monitored fences on the whole stack: the display signals them each time before a vertical blank, for waits of every kind; the
//! rights to them, and their ends.

use d3dkmt::{DeviceState, Fence, FenceFlags, VirtualContext};
use ddi::Interrupt;
use kmt_calls::{OpenSyncObjectRequest, SyncObjectAccess};
use wddm_types::{NtStatus, VidPnTargetId};

use super::*;
use crate::stubborn::{Whims, wrapped};
use stack::world::{gpu_on, host_of_several};

const TARGET: VidPnTargetId = VidPnTargetId(0);

fn periodic(game: &Game, time_100ns: u64) -> Fence {
    game.gpu.device().create_periodic_fence(FenceFlags::empty(), TARGET, time_100ns).unwrap()
}

fn status<T>(result: Result<T, Refusal>) -> Option<NtStatus> {
    result.err().map(|refusal| refusal.status)
}

#[test]
fn a_periodic_fence_is_signalled_its_time_before_each_blank() {
    // spec: sync §1.1, sync §2.2, sync §2.8
    let (host, _) = host_of(&profile(), VIRTUAL);
    let game = Game::new(&host, 2);
    let early = periodic(&game, 20_000);
    let at_blank = periodic(&game, 0);
    for number in 1..=5u64 {
        game.gpu.device().wait(&[(&early, number)]).unwrap();
        let told = host.now_ns();
        assert_eq!(told, blank_at(&host, number) - 2_000_000, "2 ms before");
        assert_eq!((early.current(), at_blank.current()), (number, number - 1));
        game.gpu.device().wait(&[(&at_blank, number)]).unwrap();
        assert_eq!(host.now_ns(), blank_at(&host, number));
    }
    // It rises without a waiter, and does not rise while the display is off.
    (0..3).for_each(|_| game.blank());
    assert_eq!(at_blank.current(), blanks(&host));
    game.gpu.device().own_sources(&[]).unwrap();
    let stood = [early.current(), at_blank.current()];
    assert!(!host.step(), "nothing happens any more");
    game.gpu.device().own_sources(&[SOURCE]).unwrap();
    game.gpu.device().set_display_mode(game.primaries[0].allocation()).unwrap();
    game.gpu.device().wait(&[(&early, stood[0] + 2)]).unwrap();
    assert_eq!(at_blank.current(), stood[1] + 1);
    drop((early, at_blank));
    while host.step() {}
    host.check_invariants().unwrap();
}

/// Blanks alone do not keep a wait from the refusal that nothing will end it.
#[test]
fn a_wait_that_never_ends_is_told_so_while_a_display_goes_on() {
    let (host, _) = host_of(&profile(), VIRTUAL);
    let game = Game::new(&host, 2);
    let fence = periodic(&game, 0);
    let never = game.gpu.device().create_monitored_fence(FenceFlags::empty(), 0).unwrap();
    assert_eq!(status(game.gpu.device().wait(&[(&never, 1)])), Some(NtStatus::TIMEOUT));
    let shown = fence.current();
    assert!(shown > 1_000, "minutes have passed");
    game.gpu.device().wait(&[(&fence, shown + 3)]).unwrap();
}

#[test]
fn engines_and_contexts_wait_for_it_and_cannot_write_it() {
    // spec: sync §2.2 (GPU VA read-only), sync §1.2
    let (host, _) = host_of(&profile(), VIRTUAL);
    let mut game = Game::new(&host, 2);
    let fence = periodic(&game, 0);
    // A context behind a wait of the kernel's.
    let context = VirtualContext::create(game.gpu.device(), NodeId(1), Vec::new()).unwrap();
    let done = game.gpu.device().create_monitored_fence(FenceFlags::empty(), 0).unwrap();
    context.wait(&fence, 2).unwrap();
    context.signal(&done, 1).unwrap();
    game.gpu.device().wait(&[(&done, 1)]).unwrap();
    assert_eq!(host.now_ns(), blank_at(&host, 2));
    // An engine reads it by its address.
    let target = game.gpu.create_lockable_surface(softgpu_umd::SurfaceKind::System, 4096, false).unwrap();
    game.gpu.pin(&target).unwrap();
    let mut commands = Commands::new();
    commands.copy(fence.current_va(), target.va(), 8);
    let value = game.stream.submit(&game.gpu, None, &commands).unwrap();
    game.stream.wait(&game.gpu, value).unwrap();
    assert_eq!(target.lock().unwrap().read_word(0), 2);
    // And faults when it writes.
    let mut commands = Commands::new();
    commands.signal_monitored(fence.current_va(), 77);
    let value = game.stream.submit(&game.gpu, None, &commands).unwrap();
    assert!(game.stream.wait(&game.gpu, value).is_err());
    assert_eq!(game.gpu.device().state().unwrap(), DeviceState::ErrorDmaPageFault);
    assert!(fence.current() < 77, "no call has signalled it, and no lost device does");
}

#[test]
fn only_the_display_signals_it() {
    // spec: sync §2.2, sync §2.3, sync §5
    let (host, _) = host_of(&profile(), VIRTUAL);
    let game = Game::new(&host, 2);
    let fence = periodic(&game, 5);
    let device = game.gpu.device();
    assert_eq!(status(device.signal(&fence, 9)), Some(NtStatus::ACCESS_DENIED));
    let context = game.stream.context().unwrap();
    assert_eq!(status(context.signal(&fence, 9)), Some(NtStatus::ACCESS_DENIED));
    let create = |flags, target, time| status(device.create_periodic_fence(flags, target, time));
    let none = FenceFlags::empty();
    assert_eq!(create(none, VidPnTargetId(1), 5), Some(NtStatus::INVALID_PARAMETER));
    assert_eq!(create(none, TARGET, PERIOD / 100), None, "as much as a period");
    for time in [PERIOD / 100 + 1, u64::MAX] {
        assert_eq!(create(none, TARGET, time), Some(NtStatus::INVALID_PARAMETER));
    }
    for flags in [FenceFlags::NO_WAIT, FenceFlags::TOP_OF_PIPELINE, FenceFlags::NO_GPU_ACCESS, FenceFlags::SHARED] {
        assert_eq!(create(flags, TARGET, 5), Some(NtStatus::INVALID_PARAMETER), "{flags:?}");
    }
    // The display has eight alarms; fences with the same time share one.
    let many: Vec<Fence> = (0..7).map(|at| periodic(&game, 100 + at)).collect();
    assert_eq!(create(none, TARGET, 900), Some(NtStatus::NO_MEMORY));
    let same = periodic(&game, 100);
    game.blank();
    assert_eq!((many[0].current(), same.current()), (1, 1));
    drop(many);
    assert_eq!(create(none, TARGET, 900), None, "they are free again");
    let before = same.current();
    game.blank();
    assert_eq!(same.current(), before + 1, "the others do not end it");
    let (renders, _) = host_of(Profile::named("datacenter").unwrap(), VIRTUAL);
    let game = Game::without_display(&renders, 1);
    let refused = game.gpu.device().create_periodic_fence(none, TARGET, 5);
    assert_eq!(status(refused), Some(NtStatus::NOT_SUPPORTED));
}

#[test]
fn another_process_opens_it_and_it_outlives_its_creator() {
    // spec: sync §2.2, sync §2.3
    let (host, _) = host_of(&profile(), VIRTUAL);
    let (game, other) = (Game::new(&host, 2), Game::without_display(&host, 1));
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let fence = game.gpu.device().create_periodic_fence(flags, TARGET, 0).unwrap();
    let name = fence.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
    let opened = other.gpu.device().open_sync_object(request).unwrap();
    drop(fence);
    game.blank();
    assert_eq!(opened.current(), 1);
    assert_eq!(status(other.gpu.device().signal(&opened, 9)), Some(NtStatus::ACCESS_DENIED));
    other.gpu.device().wait(&[(&opened, 2)]).unwrap();
    drop((opened, name));
    host.check_invariants().unwrap();
}

#[test]
fn a_notification_without_a_request_stops_the_adapter() {
    // spec: sync §2.8
    let say = Box::new(|interrupt: Interrupt<'_>, notify: &mut dyn ddi::Notify| {
        notify.interrupt(interrupt);
        let notification = ddi::NotificationId(10_000);
        notify.interrupt(Interrupt::PeriodicMonitoredFenceSignaled { target: TARGET, notification });
    });
    let mut config = HostConfig { vram_bytes: 8 * MIB, ..HostConfig::new(&profile(), VIRTUAL) };
    config.wrap_miniport = Some(wrapped(Whims { packets: true, say, ..Whims::default() }));
    let host = Host::start(config).unwrap();
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>);
    assert!(gpu.is_err() && host.stopped().is_some_and(|reason| reason.contains("notification 10000")));
}

/// The display's adapter, and another one with native fences or without.
const PAIRS: [[&str; 2]; 3] =
    [["discrete-4k", "discrete-4k"], ["discrete-4k", "wddm2-packets"], ["discrete-4k", "peer-doorbells"]];
const ACROSS: FenceFlags = FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING).union(FenceFlags::CROSS_ADAPTER);

#[test]
fn another_adapter_follows_the_blanks_of_a_display() {
    // spec: sync §2.2, sync §2.3, sync §3.12, sync §3.13
    for profiles in PAIRS {
        let host = host_of_several(VIRTUAL, &profiles, |_, _| {});
        let game = Game::new(&host, 2);
        let other = ProcessLink::new(Arc::clone(&host));
        let elsewhere = gpu_on(&host, &other, 1);
        let fence = game.gpu.device().create_periodic_fence(ACROSS, TARGET, 20_000).unwrap();
        let name = fence.share(SyncObjectAccess::ALL_ACCESS).unwrap();
        let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
        let theirs = elsewhere.device().open_sync_object(request).unwrap();
        // The CPU and a context there, each at its blank.
        let context = VirtualContext::create(elsewhere.device(), NodeId(1), Vec::new()).unwrap();
        let done = elsewhere.device().create_monitored_fence(FenceFlags::empty(), 0).unwrap();
        context.wait(&theirs, 3).unwrap();
        context.signal(&done, 1).unwrap();
        for number in 1..=2 {
            elsewhere.device().wait(&[(&theirs, number)]).unwrap();
            assert_eq!(host.now_ns(), blank_at(&host, number) - 2_000_000, "{profiles:?}");
            assert_eq!((fence.current(), theirs.current(), done.current()), (number, number, 0), "{profiles:?}");
        }
        elsewhere.device().wait(&[(&done, 1)]).unwrap();
        assert_eq!((theirs.current(), host.now_ns()), (3, blank_at(&host, 3) - 2_000_000), "{profiles:?}");
        // Neither a call nor an engine of that adapter may signal it.
        assert_eq!(status(elsewhere.device().signal(&theirs, 99)), Some(NtStatus::ACCESS_DENIED), "{profiles:?}");
        assert_eq!(status(context.signal(&theirs, 99)), Some(NtStatus::ACCESS_DENIED), "{profiles:?}");
        let mut writes = KernelFedStream::packets(&elsewhere, NodeId(0), StreamConfig::default()).unwrap();
        let mut commands = Commands::new();
        commands.store(theirs.current_va(), 99);
        let value = writes.submit(&elsewhere, None, &commands).unwrap();
        assert!(writes.wait(&elsewhere, value).is_err(), "{profiles:?}");
        assert_eq!(elsewhere.device().state().unwrap(), DeviceState::ErrorDmaPageFault, "{profiles:?}");
        assert!(fence.current() < 99, "{profiles:?}: the lost device could not have signalled it either");
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_periodic_fence_of_several_adapters_is_kept_for_every_open() {
    // spec: sync §3.4, sync §3.12
    for profiles in PAIRS {
        let host = host_of_several(VIRTUAL, &profiles, |_, _| {});
        let game = Game::new(&host, 2);
        let other = ProcessLink::new(Arc::clone(&host));
        let elsewhere = gpu_on(&host, &other, 1);
        let make = |time| game.gpu.device().create_periodic_fence(ACROSS, TARGET, time).unwrap();
        let open = |fence: &Fence| {
            let name = fence.share(SyncObjectAccess::ALL_ACCESS).unwrap();
            let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
            elsewhere.device().open_sync_object(request).unwrap()
        };
        let fences: Vec<Fence> = (0..8).map(|at| make(100 + at)).collect();
        let theirs: Vec<Fence> = fences.iter().take(7).map(open).collect();
        let full = || status(game.gpu.device().create_periodic_fence(FenceFlags::empty(), TARGET, 900));
        assert_eq!(full(), Some(NtStatus::NO_MEMORY), "{profiles:?}: the display has eight alarms");
        let name = fences[7].share(SyncObjectAccess::ALL_ACCESS).unwrap();
        drop(fences);
        host.check_invariants().unwrap();
        assert_eq!(full(), Some(NtStatus::NO_MEMORY), "{profiles:?}: seven are open elsewhere, one has a name");
        elsewhere.device().wait(&[(&theirs[6], 2)]).unwrap();
        let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
        let again = game.gpu.device().open_sync_object(request).unwrap();
        game.gpu.device().wait(&[(&again, 3)]).unwrap();
        drop((again, name));
        assert_eq!(full(), None, "{profiles:?}: the last name and open are gone, and with them an alarm");
        assert_eq!(full(), None, "{profiles:?}");
        drop(theirs);
        host.check_invariants().unwrap();
        drop((0..8).map(|at| make(500 + at)).collect::<Vec<_>>());
    }
}

/// The display's adapter is stopped: no display will ever signal the fence, so waits on other adapters end.
#[test]
fn who_waits_for_a_display_of_a_stopped_adapter_goes_on() {
    // spec: sync §3.12 derived cases, sync §3.16
    let host = host_of_several(VIRTUAL, &PAIRS[0], |_, _| {});
    let game = Game::new(&host, 2);
    let other = ProcessLink::new(Arc::clone(&host));
    let elsewhere = gpu_on(&host, &other, 1);
    let fence = game.gpu.device().create_periodic_fence(ACROSS, TARGET, 0).unwrap();
    let name = fence.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
    let theirs = elsewhere.device().open_sync_object(request).unwrap();
    let event = d3dkmt::Event::create(elsewhere.device().link(), false).unwrap();
    elsewhere.device().wait_async(&[(&theirs, 1 << 40)], &event, Default::default()).unwrap();
    host.stop_adapter().unwrap();
    assert!(event.take().unwrap());
    assert_eq!(theirs.current(), u64::MAX);
    host.check_invariants().unwrap();
}
