//! Fences: polled without a call, waited for in one, signalled by CPU and GPU, shared by name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conformance::{Client, World, over_every_link};
use d3dkmt::{Fence, FenceFlags, NativeFenceRequest, NtHandle, OpenSyncObjectRequest, SyncObjectAccess};
use kmt_calls::{Call, QueueCall, QueueFlags, Reply, SyncCall, WaitFlags};
use softgpu_spec::queue_data;
use softgpu_umd::{Commands, Stage, Stream, StreamConfig, SurfaceKind};
use wddm_types::{GpuVa, NodeId, NtStatus, RawHandle};

use super::status;

over_every_link!(
    a_value_is_seen_by_a_load,
    a_wait_ends_when_its_values_are_there,
    engines_wait_and_signal,
    progress_of_a_queue_that_its_process_feeds_wakes_who_sleeps,
    a_name_brings_the_fence_into_another_process,
    a_name_gives_no_more_than_it_says,
    a_fence_does_not_go_back
);

const SHARED: FenceFlags = FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING);

/// One of each kind.
fn both(client: &Client, flags: FenceFlags) -> [(&'static str, Fence); 2] {
    let request = NativeFenceRequest { flags, initial_value: 3, ..NativeFenceRequest::default() };
    let device = client.gpu.device();
    [
        ("native", device.create_native_fence(request).expect("a fence")),
        ("monitored", device.create_monitored_fence(flags, 3).expect("a fence")),
    ]
}

fn by(name: &NtHandle) -> OpenSyncObjectRequest {
    OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() }
}

fn opened(kind: &str, client: &Client, name: &NtHandle) -> Result<Fence, d3dkmt::Refusal> {
    let device = client.gpu.device();
    if kind == "native" { device.open_native_fence(by(name)) } else { device.open_sync_object(by(name)) }
}

// spec: sync §1.4
fn a_value_is_seen_by_a_load(world: &World) {
    let client = world.client();
    for (kind, fence) in both(&client, FenceFlags::empty()) {
        assert_eq!(fence.current(), 3, "{kind}");
        for value in [4, 9, 1 << 40] {
            client.gpu.device().signal(&fence, value).expect("it rises");
            assert_eq!(fence.current(), value, "{kind}");
        }
    }
}

// spec: sync §3.5
fn a_wait_ends_when_its_values_are_there(world: &World) {
    let client = world.client();
    let device = client.gpu.device();
    let [(_, native), (_, monitored)] = both(&client, FenceFlags::empty());
    device.wait(&[(&native, 3), (&monitored, 2)]).expect("they are there");
    std::thread::scope(|scope| {
        let all = scope.spawn(|| device.wait(&[(&native, 5), (&monitored, 6)]));
        let any = scope.spawn(|| device.wait_any(&[(&native, 5), (&monitored, 6)]));
        device.signal(&native, 5).expect("it rises");
        any.join().expect("no panic").expect("one is there");
        std::thread::sleep(Duration::from_millis(20));
        assert!(!all.is_finished(), "the other is not");
        device.signal(&monitored, 7).expect("it rises");
        all.join().expect("no panic").expect("both are there");
    });
}

// spec: sync §4.1, sync §3.7, sync §3.8
fn engines_wait_and_signal(world: &World) {
    let client = world.client();
    let device = client.gpu.device();
    for stage in [Stage::Hardware, Stage::Packet] {
        let [(_, native), (_, monitored)] = both(&client, FenceFlags::empty());
        for (kind, fence) in [("native", &native), ("monitored", &monitored)] {
            if kind == "native" && stage == Stage::Packet {
                continue;
            }
            let (mut first, mut second) = (client.lane(stage), client.lane(stage));
            let surface = client.pinned(SurfaceKind::Local, 4096);
            second.touch(&surface, true);
            let after = second.submit_synced(&client.gpu, None, &[(fence, 5)], &[(fence, 6)]).expect("it is queued");
            first.touch(&surface, true);
            first.submit_synced(&client.gpu, None, &[(fence, 4)], &[(fence, 5)]).expect("it is queued");
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!((fence.current(), second.progress().current()), (3, 0), "{kind} {stage:?}: no stream has begun");
            device.signal(fence, 4).expect("it rises");
            device.wait(&[(fence, 6)]).expect("one after the other");
            second.wait(&client.gpu, after).expect("it is done");
        }
    }
}

// spec: sync §2.2, sync §3.3
fn a_name_brings_the_fence_into_another_process(world: &World) {
    let (here, there) = (world.client(), world.client());
    for (kind, mine) in both(&here, SHARED) {
        let name = mine.share(SyncObjectAccess::ALL_ACCESS).expect("a name");
        let theirs = opened(kind, &there, &name).expect("it opens");
        assert_eq!(theirs.current(), 3, "{kind}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| there.gpu.device().wait(&[(&theirs, 8)]));
            here.gpu.device().signal(&mine, 8).expect("it rises");
            waits.join().expect("no panic").expect("it is there");
        });
        there.gpu.device().signal(&theirs, 9).expect("it rises");
        assert_eq!((mine.current(), theirs.current()), (9, 9), "{kind}");
        drop((mine, name));
        there.gpu.device().signal(&theirs, 10).expect("it lives as long as a process has it");
        assert_eq!(theirs.current(), 10, "{kind}");
    }
}

fn a_name_gives_no_more_than_it_says(world: &World) {
    let (here, there) = (world.client(), world.client());
    for (kind, fence) in both(&here, FenceFlags::empty()) {
        assert!(fence.share(SyncObjectAccess::ALL_ACCESS).is_err(), "{kind}: it was not made to be shared");
    }
    for (kind, mine) in both(&here, SHARED) {
        let name = mine.share(SyncObjectAccess::WAIT | SyncObjectAccess::STANDARD_RIGHTS_READ).expect("a name");
        let theirs = opened(kind, &there, &name).expect("it opens");
        there.gpu.device().wait(&[(&theirs, 3)]).expect("it may wait");
        assert_eq!(status(there.gpu.device().signal(&theirs, 9)), NtStatus::ACCESS_DENIED, "{kind}");
        assert_eq!(status(theirs.share(SyncObjectAccess::ALL_ACCESS)), NtStatus::ACCESS_DENIED, "{kind}");
        assert_eq!(mine.current(), 3, "{kind}");
        let guessed = NtHandle::adopt(there.link.clone(), name.token() ^ 1);
        assert!(opened(kind, &there, &guessed).is_err(), "{kind}: a guessed name opens nothing");
    }
}

fn a_fence_does_not_go_back(world: &World) {
    let client = world.client();
    let device = client.gpu.device();
    let [(_, native), _] = both(&client, FenceFlags::empty());
    device.signal(&native, 5).expect("it rises");
    assert_eq!(status(device.signal(&native, 4)), NtStatus::INVALID_PARAMETER);
    assert_eq!(native.current(), 5);
}

/// Where a queue's progress is monitored a process learns from the kernel, and one that has only the structures of D3DKMT from the driver:
/// both say the same. The queue's progress wakes its sleepers, whichever comes first.
// spec: sync §2.5, sync §3.11
fn progress_of_a_queue_that_its_process_feeds_wakes_who_sleeps(world: &World) {
    let client = world.client();
    let device = client.gpu.device();
    let context = device.create_context(NodeId(0)).expect("a context");
    let call = |flags, private_data| {
        let context = context.handle();
        client.link.call(Call::Queue(QueueCall::CreateHwQueue { context, flags, private_data }))
    };
    for flags in [QueueFlags::empty(), QueueFlags::USER_MODE_SUBMISSION] {
        let made = call(flags, queue_data::question().to_vec()).expect("a queue");
        let Reply::HwQueue(made) = made else { panic!("{made:?}") };
        let said = queue_data::monitored_va(&made.private_data).map(GpuVa);
        assert_eq!(said, Some(made.progress.monitored_va), "{flags:?}");
        assert_ne!(said, Some(made.progress.current_va), "{flags:?}");
        for wrong in [vec![0; 16], vec![0; 5000]] {
            let refusal = call(flags, wrong).expect_err("no question of this driver's");
            assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER);
            assert!(refusal.reason.contains("none of this driver's"), "{}", refusal.reason);
        }
        client.link.call(Call::Queue(QueueCall::DestroyHwQueue { queue: made.queue })).expect("it goes");
    }
    let mut stream = Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let (device, progress) = (device.handle(), stream.progress().handle());
    for round in 1..=50 {
        let comes = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let wait = SyncCall::WaitForSynchronizationObjectFromCpu {
                    device,
                    points: vec![(progress, round)],
                    async_event: RawHandle::NONE,
                    flags: WaitFlags::empty(),
                };
                comes.store(true, Ordering::Release);
                client.link.call(Call::Sync(wait))
            });
            while !comes.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert_eq!(stream.submit(&client.gpu, &[], &Commands::new()).expect("a submission"), round);
            sleeper.join().expect("it ends").expect("it is woken");
        });
        assert!(stream.progress().current() >= round);
    }
}
