//! Several calls with one way to the kernel and back, and calls without an answer.

use conformance::{MIB, World};
use d3dkmt::{EvictFlags, FenceFlags, NativeFenceRequest};
use kmt_calls::{Call, LockCall, Reply, SyncCall};
use softgpu_umd::SurfaceKind;
use wddm_types::{NtStatus, RawHandle};

conformance::over_every_link!(
    each_is_answered_in_its_place,
    lists_are_evicted_one_after_the_other,
    posted_calls_are_made_before_later_ones,
    whichever_thread_asks,
);

fn each_is_answered_in_its_place(world: &World) {
    let client = world.client();
    let device = client.gpu.device().handle();
    let create = || Call::Sync(SyncCall::CreateNativeFence { device, request: NativeFenceRequest::default() });
    // More than a message takes, and one in the middle is refused.
    let mut calls: Vec<Call> = (0..40).map(|_| create()).collect();
    calls[20] = Call::Lock(LockCall::Lock2 { device, allocation: RawHandle(64), flags: 0 });
    let results = client.link.calls(calls);
    assert_eq!(results.len(), 40);
    let mut handles = Vec::new();
    for (nth, result) in results.into_iter().enumerate() {
        match result {
            Ok(Reply::Fence(made)) if nth != 20 => handles.push(made.fence.0),
            Err(refusal) if nth == 20 => assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER),
            other => panic!("call {nth} answered {other:?}"),
        }
    }
    assert!(handles.is_sorted_by(|a, b| a < b), "they were made in their order: {handles:x?}");
    assert!(client.link.calls(Vec::new()).is_empty());
}

fn lists_are_evicted_one_after_the_other(world: &World) {
    let client = world.client();
    let surfaces = [0, 1].map(|_| client.pinned(SurfaceKind::LocalThenSystem, MIB));
    let [first, second] = [0, 1].map(|at| surfaces[at].allocation().handle());
    let lists = |list: [Vec<RawHandle>; 3]| list.map(|handles| (handles, EvictFlags::empty())).into();
    // The one in the middle names nothing of this process; the others are evicted, and not twice.
    let wrong = client.gpu.device().evict_lists(lists([vec![first], vec![RawHandle(64)], vec![second]]));
    assert_eq!(super::status(wrong), NtStatus::INVALID_PARAMETER);
    for handle in [first, second] {
        assert!(client.gpu.device().evict(vec![handle], EvictFlags::empty()).is_err(), "it has left the list");
    }
    assert_eq!(client.gpu.device().evict_lists(Vec::new()), Ok(0));
}

fn posted_calls_are_made_before_later_ones(world: &World) {
    let client = world.client();
    let wanted = NativeFenceRequest { flags: FenceFlags::empty(), ..NativeFenceRequest::default() };
    for _ in 0..200 {
        let surface = client.gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
        let list = vec![surface.allocation().handle()];
        // Its end is not waited for.
        drop(surface);
        let gone = client.gpu.paging().make_resident(list, d3dkmt::MakeResidentFlags::empty());
        assert_eq!(super::status(gone), NtStatus::INVALID_PARAMETER);
    }
    client.gpu.device().create_native_fence(wanted).expect("it goes on");
}

fn whichever_thread_asks(world: &World) {
    let client = world.client();
    let (tell, told) = std::sync::mpsc::sync_channel::<RawHandle>(0);
    std::thread::scope(|scope| {
        let paging = client.gpu.paging();
        // Which has a lane of its own.
        scope.spawn(move || {
            for handle in told {
                let gone = paging.make_resident(vec![handle], d3dkmt::MakeResidentFlags::empty());
                assert_eq!(super::status(gone), NtStatus::INVALID_PARAMETER);
            }
        });
        for _ in 0..500 {
            let surface = client.gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
            let handle = surface.allocation().handle();
            drop(surface);
            tell.send(handle).expect("it listens");
        }
        drop(tell);
    });
}
