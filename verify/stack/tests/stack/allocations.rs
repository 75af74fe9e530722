//! Allocations through the whole stack: the driver's calls and their order, the processes that may open a resource, when memory comes
//! back, and later changes.

mod answers;
mod ends;
mod kept;
mod sections;
mod surfaces;

use std::sync::Arc;

use d3dkmt::{
    AllocationRequest, CreateAllocationFlags, DestroyFlags, MakeResidentFlags, PropertyMask, PropertyRequest,
    Residency, ResidencyStatus, Resource, ResourceRequest, ShareName,
};
use ddi::{DestroyAllocationFlags, OpenAllocationFlags};
use dxgk_host::{Host, ProcessLink};
use kmt_calls::{AllocationCall, AllocationTarget, Call, LockCall, PropertyCall, Refusal, Reply, ShareCall};
use kmt_link::Link;
use softgpu_spec::pattern;
use softgpu_spec::private_data::{self, Details, Kind};
use softgpu_umd::{Gpu, SurfaceKind};
use wddm_types::{NtStatus, PAGE_BYTES, RawHandle, SegmentId, SegmentSet};

use crate::stubborn::{Shared, Step, Whims, host_with};
use stack::world::{Client, MIB, VIRTUAL, client, host};

const LOCAL: SegmentSet = SegmentSet::only(SegmentId(1));
const APERTURE: SegmentSet = SegmentSet::only(SegmentId(2));
const SHARED: CreateAllocationFlags =
    CreateAllocationFlags::CREATE_RESOURCE.union(CreateAllocationFlags::CREATE_SHARED);

fn data(kind: Kind, size_bytes: u64) -> private_data::AllocationRequest {
    let cpu_visible = kind == Kind::System;
    private_data::AllocationRequest { kind, cpu_visible, cached: false, accessed_physically: false, size_bytes }
}

fn request(kind: Kind, size_bytes: u64) -> AllocationRequest {
    AllocationRequest { private_data: data(kind, size_bytes).encode().to_vec(), ..AllocationRequest::default() }
}

fn resource(flags: CreateAllocationFlags) -> ResourceRequest {
    ResourceRequest { flags, ..ResourceRequest::default() }
}

fn gpu(host: &Arc<Host>) -> Gpu {
    Gpu::open(ProcessLink::new(Arc::clone(host)) as Arc<dyn Link>).expect("the adapter opens")
}

fn status<T>(result: Result<T, Refusal>) -> NtStatus {
    result.err().expect("it is refused").status
}

/// A host whose driver is heard.
fn recorded() -> (Arc<Host>, Shared<Step>) {
    let steps: Shared<Step> = Arc::default();
    let heard = Arc::clone(&steps);
    let whims = Whims { hear: Box::new(move |step| heard.lock().expect("a test").push(step)), ..Whims::default() };
    (host_with(8 * MIB, whims), steps)
}

#[test]
fn a_driver_creates_opens_closes_and_destroys_in_this_order() {
    // spec: memory §2.7
    let (host, steps) = recorded();
    let gpu = gpu(&host);
    steps.lock().unwrap().clear();
    let requests = vec![request(Kind::Local, 4096), request(Kind::System, 8192)];
    let made = Resource::create(gpu.device(), requests, resource(CreateAllocationFlags::CREATE_RESOURCE)).unwrap();
    // The user-mode driver sees the private data that the kernel-mode driver wrote at the first open.
    assert_eq!(made.private_data(0).map(private_data::granted_alignment), Some(Some(4096)));
    made.destroy(DestroyFlags::SYNCHRONOUS_DESTROY).unwrap();
    let steps = steps.lock().unwrap();
    let [
        Step::Create(created, kmd),
        Step::Open(device, opens, how),
        Step::Close(closer, closed),
        Step::Destroy(gone, what),
    ] = &steps[..]
    else {
        panic!("{steps:?}")
    };
    assert_eq!((created.len(), opens.len()), (2, 2), "one call each for all allocations of the resource");
    assert_ne!(kmd.0, 0);
    assert_eq!((how, device, opens), (&OpenAllocationFlags::CREATE, closer, closed));
    assert_eq!((gone, what), (created, &DestroyAllocationFlags::DESTROY_RESOURCE));
}

#[test]
fn a_resource_grows_until_it_is_shared_and_may_be_empty() {
    // spec: memory §2.7
    let host = host(VIRTUAL, 8 * MIB);
    let gpu = gpu(&host);
    let (device, link) = (gpu.device(), gpu.device().link());
    let empty = Resource::create(device, Vec::new(), resource(CreateAllocationFlags::CREATE_RESOURCE)).unwrap();
    assert!(empty.allocations().is_empty());
    let add = |to: RawHandle| {
        Call::Allocation(AllocationCall::CreateAllocation {
            device: device.handle(),
            allocations: vec![request(Kind::Local, 4096)],
            resource: ResourceRequest { resource: to, ..ResourceRequest::default() },
        })
    };
    let Reply::Allocations(added) = link.call(add(empty.handle())).unwrap() else { panic!("another reply") };
    assert_eq!((added.resource, added.allocations.len()), (empty.handle(), 1));
    let shared = Resource::create(device, vec![request(Kind::Local, 4096)], resource(SHARED)).unwrap();
    assert_eq!(status(link.call(add(shared.handle()))), NtStatus::INVALID_PARAMETER, "never to a shared one");
    // A list with one of a resource has only that resource's.
    let loose = device.create_allocation(data(Kind::Local, 4096).encode().to_vec()).unwrap();
    let destroy = |allocations: Vec<RawHandle>, resource: RawHandle| {
        Call::Allocation(AllocationCall::DestroyAllocation {
            device: device.handle(),
            target: AllocationTarget { resource, allocations },
            flags: DestroyFlags::empty(),
        })
    };
    let member = added.allocations[0].handle;
    for (wrong, why) in [
        (destroy(vec![member, loose.handle()], RawHandle::NONE), "a list with one of a resource and another"),
        (destroy(vec![loose.handle()], empty.handle()), "a list of others beside a resource"),
        (destroy(vec![member, loose.handle()], empty.handle()), "and one that has others, too"),
        (destroy(vec![member, member], RawHandle::NONE), "twice"),
        (destroy(Vec::new(), member), "an allocation as a resource"),
    ] {
        assert_eq!(status(link.call(wrong)), NtStatus::INVALID_PARAMETER, "{why}");
    }
    link.call(destroy(Vec::new(), RawHandle::NONE)).expect("there is nothing to destroy");
    link.call(destroy(vec![member], RawHandle::NONE)).expect("a member alone; the resource stays");
    link.call(destroy(Vec::new(), empty.handle())).expect("the resource itself");
    assert_eq!(status(link.call(add(empty.handle()))), NtStatus::INVALID_HANDLE, "it is gone");
    // With a list of its own it goes, with all that it has.
    let two =
        Resource::create(device, vec![request(Kind::Local, 4096); 2], resource(CreateAllocationFlags::CREATE_RESOURCE));
    let two = two.unwrap();
    let members: Vec<RawHandle> = two.allocations().iter().map(|allocation| allocation.handle()).collect();
    link.call(destroy(vec![members[0]], two.handle())).expect("a list of its own beside it");
    let gone = |call| assert_eq!(status(link.call(call)), NtStatus::INVALID_PARAMETER, "it is gone");
    gone(destroy(Vec::new(), two.handle()));
    gone(destroy(vec![members[1]], RawHandle::NONE));
}

#[test]
fn two_processes_share_an_allocation_truly_and_longer_than_its_creator() {
    // spec: memory §2.7, memory §10.1
    let host = host(VIRTUAL, 8 * MIB);
    let (mut ours, mut theirs) = (client(&host), client(&host));
    let request_of = |flags| ResourceRequest { flags, runtime_data: b"runtime".to_vec(), ..ResourceRequest::default() };
    let made = Resource::create(ours.gpu.device(), vec![request(Kind::Local, 65536)], request_of(SHARED)).unwrap();
    let name = made.global_share();
    let info = theirs.gpu.device().query_resource_info(name).unwrap();
    assert_eq!(
        (info.allocations, info.runtime_data.as_slice(), info.total_private_data_bytes),
        (1, &b"runtime"[..], 24)
    );
    let opened = Resource::open(theirs.gpu.device(), name).unwrap();
    assert_eq!(opened.runtime_data(), b"runtime");
    assert_eq!(
        opened.private_data(0).map(private_data::granted_alignment),
        Some(Some(4096)),
        "as the driver left them"
    );
    let va = |client: &Client, resource: &Resource| pin(client, &resource.allocations()[0], 16);
    let (here, there) = (va(&ours, &made), va(&theirs, &opened));
    let seed = pattern::seed(7, 7);
    ours.run(|commands| {
        commands.pattern(here, 65536, seed);
    });
    // Only its creator may lock a shared allocation.
    let lock = |client: &Client, resource: &Resource| {
        let (device, allocation) = (client.gpu.device().handle(), resource.allocations()[0].handle());
        client.link.call(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 }))
    };
    assert_eq!(status(lock(&theirs, &opened)), NtStatus::INVALID_PARAMETER);
    made.destroy(DestroyFlags::empty()).unwrap();
    drop(ours);
    let report = theirs.pinned(SurfaceKind::System, 4096);
    theirs.run(|commands| {
        commands.check(there, 65536, seed, report.va(), 1);
    });
    assert_eq!(report.lock().unwrap().read_word(0), 0, "the same bytes, after its creator has gone");
    drop(opened);
    assert_eq!(
        status(theirs.gpu.device().query_resource_info(name)),
        NtStatus::INVALID_PARAMETER,
        "gone with the last"
    );
}

/// Makes an allocation resident and maps it.
fn pin(client: &Client, allocation: &d3dkmt::Allocation, pages: u64) -> wddm_types::GpuVa {
    let paging = client.gpu.paging();
    let (va, mapped_at) = paging.map(allocation, pages, true).unwrap();
    let resident = paging.make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).unwrap();
    let value = match resident {
        Residency::Resident => mapped_at,
        Residency::Pending { paging_fence_value, .. } => paging_fence_value.max(mapped_at),
    };
    client.gpu.device().wait(&[(paging.fence(), value)]).unwrap();
    va
}

#[test]
fn names_of_shared_resources_are_checked() {
    // spec: memory §2.7, memory §9.3
    let host = host(VIRTUAL, 8 * MIB);
    let (ours, theirs) = (gpu(&host), gpu(&host));
    let by_nt = resource(SHARED | CreateAllocationFlags::NT_SECURITY_SHARING | CreateAllocationFlags::READ_ONLY);
    let made = Resource::create(ours.device(), vec![request(Kind::Local, 4096)], by_nt).unwrap();
    assert_eq!(made.global_share(), ShareName::Global(RawHandle::NONE), "not by global handle");
    let name = made.share().unwrap();
    let opened = Resource::open(theirs.device(), name).unwrap();
    // Shared for reading: a process that opened it cannot map it for writing.
    let map = |write| theirs.paging().map(&opened.allocations()[0], 1, write);
    assert_eq!(status(map(true)), NtStatus::ACCESS_DENIED);
    assert!(map(false).is_ok());
    assert!(ours.paging().map(&made.allocations()[0], 1, true).is_ok(), "its creator writes it");
    for wrong in
        [ShareName::Global(RawHandle(0x8000_0001)), ShareName::Global(RawHandle(7)), ShareName::Global(opened.handle())]
    {
        assert_eq!(status(Resource::open(theirs.device(), wrong)), NtStatus::INVALID_PARAMETER);
    }
    let ShareName::NtHandle(handle) = name else { panic!("an NT handle") };
    for wrong in [0, handle ^ 1, handle ^ 1 << 40] {
        assert_eq!(status(Resource::open(theirs.device(), ShareName::NtHandle(wrong))), NtStatus::INVALID_HANDLE);
    }
    assert_eq!(
        status(theirs.device().link().call(Call::Share(ShareCall::CloseNtHandle { handle }))),
        NtStatus::INVALID_HANDLE,
        "not theirs"
    );
    ours.device().link().call(Call::Share(ShareCall::CloseNtHandle { handle })).unwrap();
    assert_eq!(status(Resource::open(theirs.device(), name)), NtStatus::INVALID_HANDLE);
    let plain = Resource::create(ours.device(), vec![request(Kind::Local, 4096)], resource(SHARED)).unwrap();
    assert_eq!(status(plain.share()), NtStatus::INVALID_PARAMETER, "without NtSecuritySharing");
}

#[test]
fn destruction_waits_for_what_was_queued_unless_told_otherwise() {
    // spec: memory §6.2
    // seed: U02, U03, U04
    let (host, steps) = recorded();
    let mut client = client(&host);
    let destroyed = || steps.lock().unwrap().iter().filter(|step| matches!(step, Step::Destroy(..))).count();
    let busy = |client: &mut Client| {
        let surface = client.pinned(SurfaceKind::Local, 4 * MIB);
        let mut commands = softgpu_umd::Commands::new();
        (0..64).for_each(|_| {
            commands.touch(surface.va(), 4 * MIB, true);
        });
        (client.stream.submit(&client.gpu, &[], &commands).unwrap(), surface)
    };
    // By default: the call returns, the allocation stays until the commands are done, and the commands succeed.
    let (value, surface) = busy(&mut client);
    let before = destroyed();
    surface.allocation().destroy(DestroyFlags::empty()).unwrap();
    assert!(client.stream.progress().current() < value, "the caller is not blocked");
    assert_eq!(destroyed(), before, "queued commands may still use it");
    assert_eq!(status(surface.allocation().residency()), NtStatus::INVALID_PARAMETER, "the handle is dead at once");
    client.stream.wait(&client.gpu, value).expect("they were allowed to");
    drop(surface);
    client.pinned(SurfaceKind::Local, 4096);
    assert!(destroyed() > before, "it went when they had finished");
    // SynchronousDestroy: the call returns when that is over.
    let (value, surface) = busy(&mut client);
    let before = destroyed();
    surface.allocation().destroy(DestroyFlags::SYNCHRONOUS_DESTROY).unwrap();
    assert!(client.stream.progress().current() >= value);
    assert_eq!(destroyed(), before + 1);
    // AssumeNotInUse: now, whatever is queued. It is not in use, so nothing faults.
    let surface = client.pinned(SurfaceKind::Local, MIB);
    let (value, other) = busy(&mut client);
    let before = destroyed();
    surface.allocation().destroy(DestroyFlags::ASSUME_NOT_IN_USE | DestroyFlags::SYNCHRONOUS_DESTROY).unwrap();
    assert_eq!(destroyed(), before + 1, "it did not wait");
    assert!(client.stream.progress().current() < value);
    client.stream.wait(&client.gpu, value).unwrap();
    // Used all the same: its owner pays.
    let (value, _) = (value, drop(other));
    let (_, surface) = busy(&mut client);
    surface.allocation().destroy(DestroyFlags::ASSUME_NOT_IN_USE).unwrap();
    assert!(client.stream.wait(&client.gpu, value + 1).is_err(), "a fault of the owner's");
    for reserved in [1 << 2, 1 << 30, 1 << 31] {
        let flags = DestroyFlags::from_bits_retain(reserved);
        let fresh = gpu(&host);
        let allocation = fresh.create_surface(SurfaceKind::Local, 4096).unwrap();
        assert_eq!(status(allocation.allocation().destroy(flags)), NtStatus::INVALID_PARAMETER, "{reserved:#x}");
        assert!(allocation.allocation().residency().is_ok(), "nothing has changed");
    }
}

#[test]
fn priorities_and_places_are_told_of_lists_and_of_resources() {
    // spec: memory §2.3, memory §9.2
    let host = host(VIRTUAL, 8 * MIB);
    let client = client(&host);
    let device = client.gpu.device();
    let requests = vec![request(Kind::Local, 4096), request(Kind::System, 4096)];
    let made = Resource::create(device, requests, resource(CreateAllocationFlags::CREATE_RESOURCE)).unwrap();
    let [local, system] = made.allocations() else { panic!("two allocations") };
    assert_eq!([local.priority(), system.priority()], [const { Ok(ddi::PRIORITY_NORMAL) }; 2]);
    assert_eq!(local.residency(), Ok(ResidencyStatus::NotResident), "nothing is resident after its creation");
    pin(&client, local, 1);
    pin(&client, system, 1);
    assert_eq!(local.residency(), Ok(ResidencyStatus::ResidentInGpuMemory));
    assert_eq!(system.residency(), Ok(ResidencyStatus::ResidentInSharedMemory));
    let whole = || AllocationTarget { resource: made.handle(), ..AllocationTarget::default() };
    let list =
        || AllocationTarget { allocations: vec![local.handle(), system.handle()], ..AllocationTarget::default() };
    let (device, link) = (device.handle(), client.gpu.device().link());
    let worst = link.call(Call::Property(PropertyCall::QueryAllocationResidency { device, target: whole() }));
    assert_eq!(worst, Ok(Reply::ResidencyStatuses(vec![ResidencyStatus::ResidentInSharedMemory])), "the worst of them");
    let set = |target, priorities: &[u32]| {
        link.call(Call::Property(PropertyCall::SetAllocationPriority {
            device,
            target,
            priorities: priorities.to_vec(),
        }))
    };
    set(whole(), &[ddi::PRIORITY_HIGH]).expect("one for all");
    assert_eq!([local.priority(), system.priority()], [const { Ok(ddi::PRIORITY_HIGH) }; 2]);
    set(list(), &[ddi::PRIORITY_NORMAL + 1, 5]).expect("any value but 0");
    for (target, priorities) in [(whole(), &[1, 2][..]), (list(), &[1]), (list(), &[1, 0]), (whole(), &[])] {
        assert_eq!(status(set(target, priorities)), NtStatus::INVALID_PARAMETER, "{priorities:?}");
    }
    assert_eq!([local.priority(), system.priority()], [Ok(ddi::PRIORITY_NORMAL + 1), Ok(5)], "nothing has changed");
}

#[test]
fn properties_change_where_content_may_be() {
    // spec: memory §2.8
    let host = host(VIRTUAL, 8 * MIB);
    let mut client = client(&host);
    let data = data(Kind::LocalThenSystem, 4096).encode().to_vec();
    let allocation = client.gpu.device().create_allocation(data).unwrap();
    let to = |set: SegmentSet, preferred: u32| PropertyRequest {
        supported_segments: set,
        preferred_segment: preferred,
        mask: PropertyMask::SUPPORTED_SEGMENT_SET | PropertyMask::PREFERRED_SEGMENT,
        ..PropertyRequest::default()
    };
    let update = |client: &Client, request| client.gpu.paging().update_allocation_property(&allocation, request);
    assert_eq!(update(&client, to(APERTURE, 2)), Ok(Residency::Resident), "effective now");
    let va = pin(&client, &allocation, 1);
    assert_eq!(allocation.residency(), Ok(ResidencyStatus::ResidentInSharedMemory));
    client.run(|commands| _ = commands.fill(va, 4096, 9));
    let wrong = [
        to(SegmentSet(1 << 20), 0),
        to(APERTURE, 1),
        to(SegmentSet::NONE, 0),
        to(LOCAL, 1 << 31),
        PropertyRequest::default(),
        PropertyRequest { mask: PropertyMask::from_bits_retain(16), ..PropertyRequest::default() },
    ];
    for request in wrong {
        assert_eq!(status(update(&client, request)), NtStatus::INVALID_PARAMETER, "{request:?}");
    }
    // On a list, where it may not stay: it moves, and the value says when it has.
    let target = client.pinned(SurfaceKind::System, 4096);
    for (request, there) in [
        (to(LOCAL, 1), ResidencyStatus::ResidentInGpuMemory),
        (to(APERTURE, 2), ResidencyStatus::ResidentInSharedMemory),
        (to(LOCAL, 1), ResidencyStatus::ResidentInGpuMemory),
    ] {
        let Ok(Residency::Pending { paging_fence_value, .. }) = update(&client, request) else { panic!("it stays") };
        client.gpu.device().wait(&[(client.gpu.paging().fence(), paging_fence_value)]).unwrap();
        assert_eq!(allocation.residency(), Ok(there));
        client.run(|commands| _ = commands.copy(va, target.va(), 4096));
        assert_eq!(target.lock().unwrap().read_word(4088), 9 << 32 | 9, "with its content");
    }
}

#[test]
fn a_description_that_breaks_a_rule_leaves_nothing_in_the_driver() {
    // spec: memory §2.1, memory §2.2
    // seed: M43, M55
    let (host, steps) = recorded();
    let gpu = gpu(&host);
    steps.lock().unwrap().clear();
    let base = data(Kind::Local, 4096);
    let wrong = [
        Details { flags: 1 << 19, ..Details::default() },
        Details { flags: 1 << 14, ..Details::default() },
        Details { supported_segments: 1 << 9, ..Details::default() },
        Details { preferred_segment: 2, ..Details::default() },
        Details { eviction_segments: 1, ..Details::default() },
        Details { flags2: 1 << 6, ..Details::default() },
        Details { pitch_aligned_size_bytes: 4095, ..Details::default() },
        Details { alignment_bytes: 12288, ..Details::default() },
    ];
    for details in &wrong {
        let refused = gpu.device().create_allocation(base.encode_with(details).to_vec());
        assert_eq!(status(refused), NtStatus::INVALID_PARAMETER, "{details:?}");
    }
    let steps = steps.lock().unwrap();
    let count = |wanted: fn(&Step) -> bool| steps.iter().filter(|step| wanted(step)).count();
    assert_eq!(count(|step| matches!(step, Step::Create(..))), wrong.len());
    assert_eq!(count(|step| matches!(step, Step::Destroy(..))), wrong.len(), "each is destroyed again");
    assert_eq!(count(|step| matches!(step, Step::Open(..))), 0);
}
