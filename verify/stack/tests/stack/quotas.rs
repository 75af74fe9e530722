//! The quota of a process, and of the processes of an account together: a process reaches each limit exactly, the kernel refuses one more
//! without any change, freed objects count no more, and no other process notices.

use std::sync::Arc;

use d3dkmt::{
    DestroyFlags, Event, Fence, FenceFlags, NativeFenceRequest, PropertyMask, PropertyRequest, Refusal, Section,
    SyncObjectAccess,
};
use dxgk_host::{AccountId, Admission, Host, ProcessLink, Quota};
use kmt_link::Link;
use softgpu_umd::{Gpu, Surface, SurfaceKind, UmdError};
use wddm_types::{Blame, NodeId, NtStatus, PAGE_BYTES, SegmentId, SegmentSet};

use stack::world::{MIB, VIRTUAL, host};

const ACCOUNT: AccountId = AccountId(1000);

struct Limited {
    host: Arc<Host>,
    link: Arc<ProcessLink>,
    gpu: Gpu,
}

/// A process of an account. An adapter, a device, a paging queue and its fence are four handles and one sync object.
fn limited(host: &Arc<Host>, account: AccountId, process: Quota, together: Quota) -> Limited {
    let link = ProcessLink::admitted(Arc::clone(host), Admission { account, process, together });
    let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
    Limited { host: Arc::clone(host), link, gpu }
}

/// A process with this quota, alone.
fn alone(quota: Quota) -> Limited {
    limited(&host(VIRTUAL, 8 * MIB), ACCOUNT, quota, Quota::NONE)
}

impl Limited {
    fn fence(&self) -> Result<Fence, Refusal> {
        self.gpu.device().create_native_fence(NativeFenceRequest::default())
    }

    fn surface(&self, bytes: u64) -> Result<Surface, Refusal> {
        self.gpu.create_surface(SurfaceKind::System, bytes).map_err(|error| match error {
            UmdError::Refused(refusal) => refusal,
            other => panic!("{other}"),
        })
    }

    /// The refusal of something that would be too much; it has changed nothing.
    fn refused<T>(&self, one_more: impl Fn() -> Result<T, Refusal>, parts: &[&str]) {
        // The first refusal also settles pending work.
        while self.host.step() {}
        assert!(one_more().is_err(), "one more than {parts:?}");
        let before = self.host.state_digest();
        let Err(refusal) = one_more() else { panic!("one more than {parts:?}") };
        // spec: memory §9.2, sync §5
        assert_eq!((refusal.status, refusal.blame), (NtStatus::NO_MEMORY, Blame::Quota), "{refusal}");
        parts.iter().for_each(|part| assert!(refusal.reason.contains(part), "{part} is missing in {}", refusal.reason));
        let after = self.host.state_digest();
        assert_eq!(before.differences(&after), Vec::<String>::new());
        self.host.check_invariants().expect("the kernel's invariants hold");
    }
}

/// Makes as many as may be had.
fn all<T>(count: usize, mut make: impl FnMut() -> Result<T, Refusal>) -> Vec<T> {
    (0..count).map(|nth| make().unwrap_or_else(|refusal| panic!("the {nth}th of {count}: {refusal}"))).collect()
}

#[test]
fn as_many_handles_as_the_quota_says() {
    // spec: memory §9.3
    let process = alone(Quota { handles: 10, ..Quota::NONE });
    let link = || Arc::clone(&process.link) as Arc<dyn Link>;
    let mut events = all(5, || Event::create(&link(), false));
    let fence = process
        .gpu
        .device()
        .create_native_fence(NativeFenceRequest {
            flags: FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING,
            ..NativeFenceRequest::default()
        })
        .expect("the tenth");
    let parts = ["limit of handles", "the process has 10 of 10", "1 more"];
    process.refused(|| Event::create(&link(), false), &parts);
    process.refused(|| process.surface(4096), &parts);
    process.refused(|| Section::create(process.gpu.adapter(), PAGE_BYTES), &parts);
    events.pop();
    // spec: sync §2.2: an NT handle is a handle
    let shared = fence.share(SyncObjectAccess::ALL_ACCESS).expect("the tenth");
    process.refused(|| Event::create(&link(), false), &parts);
    drop(shared);
    events.push(Event::create(&link(), false).expect("it is free again"));
}

#[test]
fn as_many_sync_objects_as_the_quota_says() {
    // spec: sync §5
    let process = alone(Quota { sync_objects: 4, ..Quota::NONE });
    let mut fences = all(3, || process.fence());
    let parts = ["limit of sync objects", "4 of 4"];
    process.refused(|| process.fence(), &parts);
    let context = process.gpu.device().create_context(NodeId(0)).expect("a context has no fence");
    process.refused(|| context.create_kernel_queue(), &parts);
    fences.pop();
    let queue = context.create_kernel_queue().expect("its progress fence is the fourth");
    process.refused(|| process.fence(), &parts);
    drop(queue);
    fences.push(process.fence().expect("the queue's is free again"));
}

#[test]
fn as_many_bytes_as_the_quota_says() {
    // spec: memory §9.2
    let process = alone(Quota { committed_bytes: MIB, ..Quota::NONE });
    let mut surfaces = all(3, || process.surface(MIB / 4));
    let section = Section::create(process.gpu.adapter(), MIB / 4).expect("the last of them");
    let parts = ["limit of committed bytes", "1048576 of 1048576"];
    process.refused(|| process.surface(1), &parts);
    process.refused(|| Section::create(process.gpu.adapter(), PAGE_BYTES), &parts);
    drop(section);
    surfaces.push(process.surface(MIB / 4).expect("they are free again"));
    surfaces.clear();
    process.refused(|| process.surface(MIB + 1), &["0 of 1048576"]);
    process.surface(MIB).expect("all of it");
}

#[test]
fn as_many_locked_bytes_of_video_memory_as_the_quota_says() {
    // spec: memory §6.3, memory §9.2
    let process = alone(Quota { locked_bytes: MIB, ..Quota::NONE });
    let video = |bytes| {
        let made = process.gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, bytes, false);
        made.expect("memory enough")
    };
    let lock = |surface: &Surface| surface.allocation().lock();
    let surfaces: Vec<_> = (0..4).map(|_| video(MIB / 4)).collect();
    let mut locks: Vec<_> = surfaces.iter().map(|surface| lock(surface).expect("within the quota")).collect();
    let more = video(4096);
    let parts = [
        "limit of locked bytes of video memory",
        "the process has 1048576 of 1048576",
        "4096 more",
        "process.locked_video",
    ];
    process.refused(|| lock(&more), &parts);
    // A further lock of what is locked counts no bytes, and its end gives none back.
    drop(lock(&surfaces[0]).expect("it is locked already"));
    process.refused(|| lock(&more), &parts);
    let system = process.surface(MIB).expect("system memory");
    let elsewhere = lock(&system).expect("it never lies in video memory");
    locks.pop();
    drop(lock(&more).expect("a quarter is free again"));
    drop((elsewhere, locks));
    // Destroyed allocations give back what they had locked.
    let last = lock(&surfaces[1]).expect("all is free again");
    surfaces[1].allocation().destroy(DestroyFlags::SYNCHRONOUS_DESTROY).expect("it may go while it is locked");
    while process.host.step() {}
    let whole = video(MIB);
    drop(lock(&whole).expect("all of it"));
    drop(last);
    process.host.check_invariants().expect("the kernel's invariants hold");
}

// spec: memory §2.8, memory §6.3
#[test]
fn what_is_locked_and_may_lie_in_video_memory_later_counts_as_locked_there() {
    let process = alone(Quota { locked_bytes: MIB, ..Quota::NONE });
    let (local, aperture) = (SegmentSet::only(SegmentId(1)), SegmentSet::only(SegmentId(2)));
    let update = |surface: &Surface, supported_segments: SegmentSet| {
        // The first of the set is preferred.
        let preferred_segment = supported_segments.0.trailing_zeros() + 1;
        let mask = PropertyMask::SUPPORTED_SEGMENT_SET | PropertyMask::PREFERRED_SEGMENT;
        let request = PropertyRequest { supported_segments, preferred_segment, mask, ..PropertyRequest::default() };
        process.gpu.paging().update_allocation_property(surface.allocation(), request)
    };
    let surfaces: Vec<_> = (0..2).map(|_| process.surface(MIB).expect("system memory")).collect();
    let locks: Vec<_> = surfaces.iter().map(|surface| surface.allocation().lock().expect("no video memory")).collect();
    // spec: memory §10.2, the number after the last segment is system memory for the kernel, and no segment for this driver
    let refusal =
        update(&surfaces[0], SegmentSet::only(SegmentId(3))).expect_err("a segment that the device does not have");
    assert_eq!((refusal.status, refusal.blame), (NtStatus::INVALID_PARAMETER, Blame::Caller), "{refusal}");
    update(&surfaces[0], local.with(aperture)).expect("within the quota");
    process.host.check_invariants().expect("the first counts");
    let parts = ["limit of locked bytes of video memory", "the process has 1048576 of 1048576", "1048576 more"];
    process.refused(|| update(&surfaces[1], local.with(aperture)), &parts);
    process.host.check_invariants().expect("the second does not");
    update(&surfaces[0], aperture).expect("fewer segments");
    update(&surfaces[1], local.with(aperture)).expect("the first counts no more");
    drop(locks);
    process.host.check_invariants().expect("neither is locked");
}

#[test]
fn as_many_files_as_the_quota_says() {
    let process = alone(Quota { memory_files: 3, ..Quota::NONE });
    let mut sections = all(3, || Section::create(process.gpu.adapter(), PAGE_BYTES));
    let parts = ["limit of memory files", "3 of 3"];
    process.refused(|| Section::create(process.gpu.adapter(), PAGE_BYTES), &parts);
    // Allocations have no files of their own.
    let surfaces = all(40, || process.surface(4096));
    process.refused(|| Section::create(process.gpu.adapter(), PAGE_BYTES), &parts);
    sections.pop();
    sections.push(Section::create(process.gpu.adapter(), PAGE_BYTES).expect("one is free again"));
    drop((surfaces, sections));
    all(3, || Section::create(process.gpu.adapter(), PAGE_BYTES));
}

#[test]
fn as_many_packets_as_the_quota_says() {
    // spec: sync §2.5, sync §5
    let process = alone(Quota { queued: 5, ..Quota::NONE });
    let context = process.gpu.device().create_context(NodeId(0)).expect("a context");
    let queues = all(2, || context.create_kernel_queue());
    let fence = process.fence().expect("a fence");
    // Each queue waits in its first wait; the kernel holds the others behind it.
    queues.iter().for_each(|queue| queue.submit_wait(&fence, 1).expect("a wait"));
    all(3, || queues[0].submit_wait(&fence, 1));
    all(2, || queues[1].submit_wait(&fence, 1));
    let parts = ["limit of queued packets", "5 of 5"];
    for queue in &queues {
        process.refused(|| queue.submit_wait(&fence, 1), &parts);
    }
    process.gpu.device().signal(&fence, 1).expect("a signal");
    queues[0].submit_wait(&fence, 2).expect("the queued packets are done");
    all(5, || queues[0].submit_wait(&fence, 2));
    process.refused(|| queues[1].submit_wait(&fence, 2), &parts);
    drop(queues);
    let queue = context.create_kernel_queue().expect("a queue");
    queue.submit_wait(&fence, 3).expect("a wait");
    all(5, || queue.submit_wait(&fence, 3));
}

#[test]
fn the_processes_of_an_account_share_its_quota_and_others_have_theirs() {
    let host = host(VIRTUAL, 8 * MIB);
    let own = Quota { sync_objects: 3, ..Quota::NONE };
    let together = Quota { sync_objects: 5, committed_bytes: MIB, ..Quota::NONE };
    let of = |account| limited(&host, account, own, together);
    let (first, second, other) = (of(ACCOUNT), of(ACCOUNT), of(AccountId(1001)));
    let mut fences = all(2, || first.fence());
    first.refused(|| first.fence(), &["the process has 3 of 3"]);
    let its = all(1, || second.fence());
    second.refused(|| second.fence(), &["the processes of account 1000 have 5 of 5"]);
    let _fences = all(2, || other.fence());
    fences.pop();
    let _last = second.fence().expect("the other has given it back");
    first.refused(|| first.fence(), &["account 1000"]);
    let _surface = first.surface(MIB).expect("all of it");
    second.refused(|| second.surface(1), &["limit of committed bytes", "account 1000 have 1048576 of 1048576"]);
    let _surface = other.surface(MIB).expect("another account");
    // The amounts of a process go with it.
    drop((fences, _surface));
    drop(its);
    drop(first);
    second.surface(MIB).expect("the first's are free");
}
