//! Mutexes, semaphores, packet fences and CPU notifications of several processes: the names that they go by, contexts that take turns by
//! them, and processes that die in the middle.

use d3dkmt::{Context, FenceFlags as F, NtHandle, SyncObject, SyncObjectAccess as A, SyncObjectKind as Kind};
use kmt_calls::{Call, OpenSyncObjectRequest, SyncCall};
use wddm_types::RawHandle;

use super::*;
use stack::world::{gpu_on, host_of_several};

const BY_NT_HANDLE: F = F::SHARED.union(F::NT_SECURITY_SHARING);
const INVALID: NtStatus = NtStatus::INVALID_PARAMETER;

fn kinds(event: &Event) -> [Kind; 4] {
    [
        Kind::MutexObject { owned: false },
        Kind::Semaphore { max_count: 2, initial_count: 1 },
        Kind::Fence { value: 0 },
        Kind::CpuNotification { event: event.handle() },
    ]
}

fn context(gpu: &Gpu) -> Context {
    Context::create(gpu.device(), NODE, Vec::new()).expect("a context")
}

fn status<T>(result: Result<T, kmt_calls::Refusal>) -> NtStatus {
    result.err().expect("it is refused").status
}

fn named(object: &SyncObject) -> NtHandle {
    object.share(A::ALL_ACCESS).expect("a name")
}

/// Has a context wait for an object, and then signal `done`.
fn takes(gpu: &Gpu, context: &Context, object: &SyncObject, done: &Fence) {
    gpu.device().wait_objects(context.handle(), &[object], 1).unwrap();
    context.signal(done, 1).unwrap();
}

#[test]
fn a_global_handle_goes_with_the_last_open() {
    // spec: sync §2.2, sync §2.3, sync §3.4
    for profile in ["wddm1-banks", "wddm2-packets", "discrete-4k"] {
        let (host, gpu) = world(profile, VIRTUAL);
        let (other, link) = open(&host);
        let link = link as Arc<dyn Link>;
        for kind in kinds(&event(&gpu)) {
            let mine = gpu.device().create_sync_object(kind, F::SHARED).unwrap();
            let global = mine.global_share();
            assert_eq!(global.0 & 0x3f, 2, "{profile}: {kind:?}");
            assert_eq!(status(mine.share(A::ALL_ACCESS)), INVALID, "{kind:?}: not created with NtSecuritySharing");
            let theirs = SyncObject::open(&link, global).unwrap();
            let again = SyncObject::open(&link, global).unwrap();
            assert_ne!(theirs.handle(), again.handle());
            drop(mine);
            drop(again);
            let third = SyncObject::open(&link, global).expect("one open is left");
            drop((theirs, third));
            assert_eq!(status(SyncObject::open(&link, global)), INVALID, "{kind:?}");
            host.check_invariants().unwrap();
        }
        for kind in kinds(&event(&gpu)) {
            for flags in [F::empty(), BY_NT_HANDLE] {
                let mine = gpu.device().create_sync_object(kind, flags).unwrap();
                assert_eq!(mine.global_share(), RawHandle::NONE, "{kind:?} with {flags:?}");
            }
            assert_eq!(status(gpu.device().create_sync_object(kind, F::NT_SECURITY_SHARING)), INVALID);
            assert_eq!(status(gpu.device().create_sync_object(kind, BY_NT_HANDLE | F::CROSS_ADAPTER)), INVALID);
        }
        drop(other);
    }
}

#[test]
fn an_nt_handle_keeps_an_object_and_gives_its_access() {
    // spec: sync §2.2, sync §2.3, sync §5
    let (host, gpu) = world("wddm2-packets", VIRTUAL);
    let (other, link) = open(&host);
    let link = link as Arc<dyn Link>;
    let fence = gpu.device().create_sync_object(Kind::Fence { value: 0 }, BY_NT_HANDLE).unwrap();
    let (ours, theirs) = (context(&gpu), context(&other));
    gpu.device().signal_objects(&[ours.handle()], &[&fence], 7).unwrap();
    drain(&host);
    let (read, denied) = (A::STANDARD_RIGHTS_READ, NtStatus::ACCESS_DENIED);
    let unreadable = fence.share(A::WAIT | A::SIGNAL).unwrap();
    assert_eq!(status(SyncObject::open_from_nt_handle(&link, unreadable.token())), denied);
    assert_eq!(status(SyncObject::open_for(other.device(), unreadable.token())), denied);
    for (access, may_wait, may_signal) in [
        (A::ALL_ACCESS, true, true),
        (read | A::WAIT, true, false),
        (read | A::SIGNAL, false, true),
        (read, false, false),
    ] {
        let name = fence.share(access).unwrap();
        let first = SyncObject::open_from_nt_handle(&link, name.token()).unwrap();
        let second = SyncObject::open_for(other.device(), name.token()).unwrap();
        for object in [&first, &second] {
            let waited = other.device().wait_objects(theirs.handle(), &[object], 7);
            assert_eq!(waited.map_err(|refusal| refusal.status), if may_wait { Ok(()) } else { Err(denied) });
            let signalled = other.device().signal_objects(&[theirs.handle()], &[object], 7);
            assert_eq!(signalled.map_err(|refusal| refusal.status), if may_signal { Ok(()) } else { Err(denied) });
            assert_eq!(
                object.share(A::ALL_ACCESS).is_ok(),
                access == A::ALL_ACCESS,
                "a process cannot share more access than it has"
            );
        }
    }
    // The name alone keeps it, with its value.
    let name = named(&fence);
    drop((fence, unreadable));
    let again = SyncObject::open_from_nt_handle(&link, name.token()).unwrap();
    let done = monitored(other.device());
    other.device().wait_objects(theirs.handle(), &[&again], 7).unwrap();
    theirs.signal(&done, 1).unwrap();
    drain(&host);
    assert_eq!(done.current(), 1);
    let token = name.token();
    drop((name, again));
    assert_eq!(status(SyncObject::open_from_nt_handle(&link, token)), NtStatus::INVALID_HANDLE);
    host.check_invariants().unwrap();
}

#[test]
fn contexts_of_two_processes_take_turns() {
    // spec: sync §1.1, sync §2.4, sync §3.7, sync §3.8
    for profile in ["wddm1-banks", "wddm2-packets", "discrete-4k"] {
        let (host, gpu) = world(profile, VIRTUAL);
        let (other, link) = open(&host);
        let link = link as Arc<dyn Link>;
        let (ours, theirs) = (context(&gpu), context(&other));
        for kind in [
            Kind::MutexObject { owned: true },
            Kind::Semaphore { max_count: 1, initial_count: 0 },
            Kind::Fence { value: 0 },
        ] {
            let here = gpu.device().create_sync_object(kind, F::SHARED).unwrap();
            let there = SyncObject::open(&link, here.global_share()).unwrap();
            let (mine, done) = (monitored(gpu.device()), monitored(other.device()));
            takes(&other, &theirs, &there, &done);
            drain(&host);
            assert_eq!(done.current(), 0, "{profile}: {kind:?}");
            gpu.device().signal_objects(&[ours.handle()], &[&here], 1).unwrap();
            drain(&host);
            assert_eq!(done.current(), 1, "{profile}: {kind:?}");
            takes(&gpu, &ours, &here, &mine);
            drain(&host);
            let is_fence = matches!(kind, Kind::Fence { .. });
            assert_eq!(mine.current(), u64::from(is_fence), "{profile}: {kind:?}: theirs has it, ours waits for it");
            other.device().signal_objects(&[theirs.handle()], &[&there], 1).unwrap();
            drain(&host);
            assert_eq!(mine.current(), 1, "{profile}: {kind:?}");
        }
        // A notification sets its creator's event, also when another process signals.
        let event = event(&gpu);
        let kind = Kind::CpuNotification { event: event.handle() };
        let here = gpu.device().create_sync_object(kind, F::SHARED).unwrap();
        let there = SyncObject::open(&link, here.global_share()).unwrap();
        other.device().signal_objects(&[theirs.handle()], &[&there], 0).unwrap();
        drain(&host);
        assert!(event.take().unwrap(), "{profile}");
        host.check_invariants().unwrap();
    }
}

/// A process that dies releases its mutexes; its other objects stay with the processes that have them open, and its own waits take nothing any
/// more.
#[test]
fn a_process_that_dies_holds_nothing() {
    // spec: sync §3.4 (process exit)
    for profile in ["wddm1-banks", "wddm2-packets", "discrete-4k"] {
        let (host, gpu) = world(profile, VIRTUAL);
        let (dying, link) = open(&host);
        let (ours, theirs) = (context(&gpu), context(&dying));
        let dyn_link = Arc::clone(&link) as Arc<dyn Link>;
        let own_link = Arc::clone(gpu.device().link());
        let taken = gpu.device().create_sync_object(Kind::MutexObject { owned: false }, F::SHARED).unwrap();
        let made = dying.device().create_sync_object(Kind::MutexObject { owned: true }, F::SHARED).unwrap();
        let semaphore =
            dying.device().create_sync_object(Kind::Semaphore { max_count: 9, initial_count: 1 }, F::SHARED).unwrap();
        let [at_ours, at_made, at_semaphore] = [&taken, &made, &semaphore].map(SyncObject::global_share);
        let theirs_of_taken = SyncObject::open(&dyn_link, at_ours).unwrap();
        let [ours_of_made, ours_of_semaphore] =
            [at_made, at_semaphore].map(|global| SyncObject::open(&own_link, global).unwrap());
        let (theirs_done, waits) = (monitored(dying.device()), context(&dying));
        takes(&dying, &theirs, &theirs_of_taken, &theirs_done);
        dying.device().wait_objects(waits.handle(), &[&theirs_of_taken], 0).unwrap();
        drain(&host);
        assert_eq!(theirs_done.current(), 1, "{profile}: it has the mutex");
        let [first, second] = [(); 2].map(|()| monitored(gpu.device()));
        takes(&gpu, &ours, &taken, &first);
        let also = context(&gpu);
        takes(&gpu, &also, &ours_of_made, &second);
        drain(&host);
        assert_eq!((first.current(), second.current()), (0, 0), "{profile}");
        host.process_died(link.process());
        drain(&host);
        assert_eq!((first.current(), second.current()), (1, 1), "{profile}");
        assert!(SyncObject::open(&own_link, at_made).is_ok(), "{profile}: the other process still has it");
        let third = monitored(gpu.device());
        let more = context(&gpu);
        takes(&gpu, &more, &ours_of_semaphore, &third);
        drain(&host);
        assert_eq!(third.current(), 1, "{profile}: and what it counts");
        host.check_invariants().unwrap();
        drop((ours_of_made, ours_of_semaphore, taken));
        for global in [at_ours, at_made, at_semaphore] {
            assert_eq!(status(SyncObject::open(&own_link, global)), INVALID, "{profile}");
        }
    }
}

/// A device that is lost gives its mutexes up, too: its process lives and can destroy no context of another.
#[test]
fn a_lost_device_holds_no_mutex() {
    // spec: sync §3.16, sync §3.4
    for profile in ["wddm2-packets", "discrete-4k"] {
        let (host, gpu) = world(profile, VIRTUAL);
        let (losing, link) = open(&host);
        let link = link as Arc<dyn Link>;
        let (ours, theirs) = (context(&gpu), context(&losing));
        let mutex = gpu.device().create_sync_object(Kind::MutexObject { owned: false }, F::SHARED).unwrap();
        let made = losing.device().create_sync_object(Kind::MutexObject { owned: true }, F::SHARED).unwrap();
        let there = SyncObject::open(&link, mutex.global_share()).unwrap();
        let here = SyncObject::open(gpu.device().link(), made.global_share()).unwrap();
        let had = monitored(losing.device());
        takes(&losing, &theirs, &there, &had);
        drain(&host);
        let [first, second] = [(); 2].map(|()| monitored(gpu.device()));
        takes(&gpu, &ours, &mutex, &first);
        takes(&gpu, &ours, &here, &second);
        drain(&host);
        assert_eq!((had.current(), first.current(), second.current()), (1, 0, 0), "{profile}");
        let faults = VirtualContext::create(losing.device(), NODE, Vec::new()).unwrap();
        faults.submit(GpuVa(1 << 30), 64, Vec::new()).unwrap();
        drain(&host);
        assert_ne!(losing.device().state().unwrap(), d3dkmt::DeviceState::Active, "{profile}");
        assert_eq!((first.current(), second.current()), (1, 1), "{profile}");
        host.check_invariants().unwrap();
    }
}

#[test]
fn names_of_other_things_open_nothing() {
    // spec: sync §2.2, sync §5, memory §9.3
    let host = host_of_several(VIRTUAL, &["wddm2-packets", "wddm2-packets"], |_, _| {});
    let process = ProcessLink::new(Arc::clone(&host));
    let link = Arc::clone(&process) as Arc<dyn Link>;
    let [gpu, elsewhere] = [0, 1].map(|adapter| gpu_on(&host, &process, adapter));
    let device = gpu.device();
    let global = device.create_sync_object(Kind::Fence { value: 0 }, F::SHARED).unwrap();
    let by_name = device.create_sync_object(Kind::Fence { value: 0 }, BY_NT_HANDLE).unwrap();
    let (name, word) = (named(&by_name), device.create_monitored_fence(BY_NT_HANDLE, 0).unwrap());
    let word = word.share(A::ALL_ACCESS).unwrap();
    let of_adapter = elsewhere.device().handle();
    let request = |handle| OpenSyncObjectRequest { handle, ..OpenSyncObjectRequest::default() };
    let second = |device, request| SyncCall::OpenSyncObjectFromNtHandle2 { device, request };
    let waits = F::NO_WAIT;
    let cases = [
        ("a process's own handle", SyncCall::OpenSynchronizationObject { shared: global.handle() }, INVALID),
        ("no handle", SyncCall::OpenSynchronizationObject { shared: RawHandle::NONE }, INVALID),
        (
            "one that was never given",
            SyncCall::OpenSynchronizationObject { shared: RawHandle(global.global_share().0 + 0x1000) },
            INVALID,
        ),
        (
            "a global handle as an NT handle",
            SyncCall::OpenSyncObjectFromNtHandle { handle: global.global_share().0.into() },
            NtStatus::INVALID_HANDLE,
        ),
        ("a fence with a word, for no device", SyncCall::OpenSyncObjectFromNtHandle { handle: word.token() }, INVALID),
        ("for a device of another adapter", second(of_adapter, request(name.token())), INVALID),
        (
            "flags of monitored fences",
            second(device.handle(), OpenSyncObjectRequest { flags: waits, ..request(name.token()) }),
            INVALID,
        ),
        (
            "as a native fence",
            SyncCall::OpenNativeFenceFromNtHandle { device: device.handle(), request: request(name.token()) },
            INVALID,
        ),
    ];
    for (what, call, expected) in cases {
        let before = host.state_digest();
        let refused = link.call(Call::Sync(call)).expect_err(what);
        assert_eq!(refused.status, expected, "{what}: {refused}");
        assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new(), "{what}");
    }
    // The object is its adapter's: contexts of another one do not have it.
    let there = context(&elsewhere);
    assert_eq!(status(elsewhere.device().wait_objects(there.handle(), &[&global], 0)), INVALID);
    assert_eq!(status(elsewhere.device().signal_objects(&[there.handle()], &[&by_name], 0)), INVALID);
    host.check_invariants().unwrap();
}
