//! Mutexes, semaphores, packet fences and CPU notifications: contexts take turns by them, on engines with addresses and without.

use d3dkmt::{Context, Device, FenceFlags, SyncObject, SyncObjectKind};
use wddm_types::{NodeId, NtStatus, RawHandle};

use super::{drain, event, monitored, open, traced, world};
use stack::world::VIRTUAL;

/// Engines that take packets with lists are everywhere.
const ADAPTERS: [&str; 3] = ["wddm1-banks", "wddm2-packets", "discrete-4k"];

fn object(device: &Device, kind: SyncObjectKind) -> SyncObject {
    device.create_sync_object(kind, FenceFlags::empty()).expect("it can be")
}

fn contexts<const N: usize>(device: &Device) -> [Context; N] {
    std::array::from_fn(|_| Context::create(device, NodeId(0), Vec::new()).expect("a context"))
}

/// Contexts one after the other, each signalling the mutex when it has had its turn.
#[test]
fn a_mutex_gives_contexts_their_turns() {
    // spec: sync §1.1, sync §2.4
    for profile in ADAPTERS {
        let (host, gpu) = world(profile, VIRTUAL);
        let device = gpu.device();
        let mutex = object(device, SyncObjectKind::MutexObject { owned: true });
        let contexts: [Context; 3] = contexts(device);
        let turns = [monitored(device), monitored(device), monitored(device)];
        for (context, turn) in contexts.iter().zip(&turns) {
            device.wait_objects(context.handle(), &[&mutex], 0).unwrap();
            context.signal(turn, 1).unwrap();
        }
        let had = || turns.each_ref().map(|turn| turn.current());
        drain(&host);
        assert_eq!(had(), [0, 0, 0], "{profile}: it is owned from the start");
        device.signal_objects(&[contexts[2].handle()], &[&mutex], 0).unwrap();
        drain(&host);
        assert_eq!(had(), [0, 0, 0], "{profile}: context 2 itself stands behind its wait");
        let [releases] = self::contexts(device);
        for expected in [[1, 0, 0], [1, 1, 0], [1, 1, 1]] {
            device.signal_objects(&[releases.handle()], &[&mutex], 0).unwrap();
            drain(&host);
            assert_eq!(had(), expected, "{profile}");
        }
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_semaphore_lets_as_many_pass_as_it_counts() {
    // spec: sync §1.1, sync §2.2
    for profile in ADAPTERS {
        let (host, gpu) = world(profile, VIRTUAL);
        let device = gpu.device();
        let semaphore = object(device, SyncObjectKind::Semaphore { max_count: 2, initial_count: 1 });
        let contexts: [Context; 4] = contexts(device);
        let passed: Vec<_> = contexts.iter().map(|_| monitored(device)).collect();
        for (context, fence) in contexts.iter().zip(&passed) {
            device.wait_objects(context.handle(), &[&semaphore], 0).unwrap();
            context.signal(fence, 1).unwrap();
        }
        let count = || passed.iter().map(|fence| fence.current()).sum::<u64>();
        drain(&host);
        assert_eq!(count(), 1, "{profile}");
        let [releases] = self::contexts(device);
        for expected in 2..=4 {
            device.signal_objects(&[releases.handle()], &[&semaphore], 0).unwrap();
            drain(&host);
            assert_eq!(count(), expected, "{profile}");
        }
    }
}

#[test]
fn a_packet_fence_has_one_value_for_a_call() {
    // spec: sync §1.1, sync §2.4
    for profile in ADAPTERS {
        let (host, gpu) = world(profile, VIRTUAL);
        let device = gpu.device();
        let fence = object(device, SyncObjectKind::Fence { value: 5 });
        let [waits, signals] = contexts(device);
        let done = monitored(device);
        device.wait_objects(waits.handle(), &[&fence], 5).unwrap();
        device.wait_objects(waits.handle(), &[&fence], 7).unwrap();
        waits.signal(&done, 1).unwrap();
        device.signal_objects(&[signals.handle()], &[&fence], 6).unwrap();
        drain(&host);
        assert_eq!(done.current(), 0, "{profile}: 6 is not 7");
        device.signal_objects(&[signals.handle()], &[&fence], 8).unwrap();
        drain(&host);
        assert_eq!(done.current(), 1, "{profile}");
    }
}

/// Two contexts want the same two mutexes in opposite orders: neither holds one while it waits for the other.
#[test]
fn contexts_that_want_both_do_not_hold_each_other_up() {
    // spec: sync §2.4
    let (host, gpu) = world("wddm2-packets", VIRTUAL);
    let device = gpu.device();
    let [a, b] = [(); 2].map(|()| object(device, SyncObjectKind::MutexObject { owned: false }));
    let contexts: [Context; 2] = contexts(device);
    let done = [monitored(device), monitored(device)];
    for round in 1..=10u64 {
        for (nth, order) in [[&a, &b], [&b, &a]].into_iter().enumerate() {
            let context = contexts[nth].handle();
            device.wait_objects(context, &order, 0).unwrap();
            contexts[nth].signal(&done[nth], round).unwrap();
            device.signal_objects(&[context], &order, 0).unwrap();
        }
    }
    drain(&host);
    assert_eq!(done.each_ref().map(|fence| fence.current()), [10, 10]);
}

#[test]
fn a_cpu_notification_sets_its_event() {
    // spec: sync §1.1, sync §2.3, sync §5
    for profile in ADAPTERS {
        let (host, gpu) = world(profile, VIRTUAL);
        let device = gpu.device();
        let event = event(&gpu);
        let kind = SyncObjectKind::CpuNotification { event: event.handle() };
        let notification = object(device, kind);
        let [context] = contexts(device);
        let gate = monitored(device);
        context.wait(&gate, 1).unwrap();
        device.signal_objects(&[context.handle()], &[&notification], 0).unwrap();
        drain(&host);
        assert!(!event.take().unwrap(), "{profile}");
        device.signal(&gate, 1).unwrap();
        drain(&host);
        assert!(event.take().unwrap() && !event.take().unwrap(), "{profile}: once");
        let refused = device.wait_objects(context.handle(), &[&notification], 0).unwrap_err();
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{profile}: no context can wait for it");
        let none = SyncObjectKind::CpuNotification { event: RawHandle::NONE };
        let refused = device.create_sync_object(none, FenceFlags::empty()).err().unwrap();
        assert_eq!(refused.status, NtStatus::INVALID_HANDLE, "{profile}: without an event");
        let by_driver = device.create_sync_object(kind, FenceFlags::SIGNAL_BY_KMD).err().unwrap();
        assert_eq!(by_driver.status, NtStatus::NOT_SUPPORTED, "{profile}: {by_driver}");
    }
}

/// A wait for a destroyed object ends; a context that is destroyed while it waits takes nothing.
#[test]
fn objects_and_contexts_that_go() {
    // spec: sync §6 B8
    let (host, heard) = traced("wddm2-packets", VIRTUAL);
    let (gpu, _link) = open(&host);
    let device = gpu.device();
    let [mutex, gone] = [(); 2].map(|()| object(device, SyncObjectKind::MutexObject { owned: true }));
    let [first, second, third] = contexts(device);
    let (freed, kept) = (monitored(device), monitored(device));
    device.wait_objects(first.handle(), &[&gone], 0).unwrap();
    first.signal(&freed, 1).unwrap();
    device.wait_objects(second.handle(), &[&mutex], 0).unwrap();
    drain(&host);
    assert_eq!(heard.count(|e| matches!(e, events::Event::ContextHeld { .. })), 2);
    drop(gone);
    drop(second);
    drain(&host);
    assert_eq!(freed.current(), 1);
    device.signal_objects(&[first.handle()], &[&mutex], 0).unwrap();
    device.wait_objects(third.handle(), &[&mutex], 0).unwrap();
    third.signal(&kept, 1).unwrap();
    drain(&host);
    assert_eq!(kept.current(), 1, "the mutex was free for it");
    host.check_invariants().unwrap();
}
