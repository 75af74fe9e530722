//! Names of shared objects: one space for all processes of a machine, in which a name is there as long as an NT handle has it.

use std::sync::Arc;

use dxgk_host::{Host, ProcessLink};
use kmt_calls::{
    AdapterCall, AllocationCall, Call, CreateAllocationFlags, DeviceCall, FenceFlags, NativeFenceRequest,
    OpenSyncObjectRequest, Reply, ResourceRequest, ShareCall, ShareName, SyncCall, SyncObjectAccess as A,
    SyncObjectKind, SyncObjectRequest,
};
use kmt_link::Link;
use wddm_types::{NtStatus, ProcessId, RawHandle};

use stack::world::{MIB, VIRTUAL, host, host_of_several};

const BY_NT_HANDLE: FenceFlags = FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING);
const NOT_FOUND: NtStatus = NtStatus::OBJECT_NAME_NOT_FOUND;
const COLLISION: NtStatus = NtStatus::OBJECT_NAME_COLLISION;
const GENERIC_ALL: u32 = 0x1000_0000;

struct Process {
    link: Arc<ProcessLink>,
    device: RawHandle,
}

impl Process {
    fn new(host: &Arc<Host>) -> Process {
        let link = ProcessLink::new(Arc::clone(host));
        let Ok(Reply::Handle(adapter)) =
            link.call(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: host.luid() }))
        else {
            panic!()
        };
        let Ok(Reply::Handle(device)) = link.call(Call::Device(DeviceCall::CreateDevice { adapter })) else { panic!() };
        Process { link, device }
    }

    fn token(&self, call: Call) -> Result<u64, NtStatus> {
        match self.link.call(call) {
            Ok(Reply::NtHandle(token)) => Ok(token),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.status),
        }
    }

    fn share(&self, object: RawHandle, access: A, name: &str) -> Result<u64, NtStatus> {
        self.token(Call::Share(ShareCall::ShareObjects { objects: vec![object], access, name: Some(name.into()) }))
    }

    fn open(&self, name: &str, access: u32) -> Result<u64, NtStatus> {
        self.token(Call::Share(ShareCall::OpenNtHandleFromName { name: name.into(), access, sync_object: true }))
    }

    fn open_resource(&self, name: &str, access: u32) -> Result<u64, NtStatus> {
        self.token(Call::Share(ShareCall::OpenNtHandleFromName { name: name.into(), access, sync_object: false }))
    }

    fn close(&self, token: u64) {
        self.link.call(Call::Share(ShareCall::CloseNtHandle { handle: token })).expect("it is this process's");
    }

    fn fence(&self, flags: FenceFlags) -> RawHandle {
        let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
        match self.link.call(Call::Sync(SyncCall::CreateNativeFence { device: self.device, request })) {
            Ok(Reply::Fence(fence)) => fence.fence,
            other => panic!("{other:?}"),
        }
    }

    fn destroy(&self, fence: RawHandle) {
        self.link.call(Call::Sync(SyncCall::DestroySynchronizationObject { fence })).expect("it is open");
    }

    fn open_fence(&self, handle: u64) -> Result<RawHandle, NtStatus> {
        let request = OpenSyncObjectRequest { handle, ..OpenSyncObjectRequest::default() };
        match self.link.call(Call::Sync(SyncCall::OpenNativeFenceFromNtHandle { device: self.device, request })) {
            Ok(Reply::Fence(fence)) => Ok(fence.fence),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.status),
        }
    }

    fn signal(&self, fence: RawHandle, value: u64) -> NtStatus {
        let call = SyncCall::SignalSynchronizationObjectFromCpu {
            device: self.device,
            points: vec![(fence, value)],
            flags: Default::default(),
        };
        self.link.call(Call::Sync(call)).map_or_else(|refusal| refusal.status, |_| NtStatus::SUCCESS)
    }
}

// spec: sync §2.2
#[test]
fn a_fence_is_found_by_its_name_as_long_as_an_nt_handle_has_it() {
    let host = host(VIRTUAL, MIB);
    let (ours, theirs) = (Process::new(&host), Process::new(&host));
    let fence = ours.fence(BY_NT_HANDLE);
    assert_eq!(theirs.open("Fence of ours", GENERIC_ALL), Err(NOT_FOUND));
    let token = ours.share(fence, A::ALL_ACCESS, "Fence of ours").unwrap();
    host.check_invariants().unwrap();
    let found = theirs.open("FENCE OF OURS", GENERIC_ALL).unwrap();
    assert_ne!(found, token, "a handle of its own");
    let opened = theirs.open_fence(found).unwrap();
    assert_eq!(theirs.signal(opened, 1), NtStatus::SUCCESS);
    // Taken: for this object and any other, whatever the case of its letters.
    let other = ours.fence(BY_NT_HANDLE);
    for object in [fence, other] {
        let before = host.state_digest();
        assert_eq!(ours.share(object, A::ALL_ACCESS, "fence of OURS"), Err(COLLISION));
        assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new());
    }
    // A handle of either process keeps the name.
    ours.close(token);
    ours.destroy(fence);
    host.check_invariants().unwrap();
    let again = ours.open("fence of ours", GENERIC_ALL).unwrap();
    ours.close(again);
    theirs.close(found);
    host.check_invariants().unwrap();
    assert_eq!(ours.open("Fence of ours", GENERIC_ALL), Err(NOT_FOUND), "the object is there, and has no name");
    // It can be named anew, and the name goes with its process.
    theirs.share(opened, A::ALL_ACCESS, "Fence of ours").unwrap();
    let kept = ours.open("Fence of ours", GENERIC_ALL).unwrap();
    drop(theirs);
    host.check_invariants().unwrap();
    ours.close(kept);
    assert_eq!(ours.open("Fence of ours", GENERIC_ALL), Err(NOT_FOUND));
    ours.share(other, A::ALL_ACCESS, "Fence of ours").expect("free again");
    host.check_invariants().unwrap();
}

// spec: sync §2.2, sync §5
#[test]
fn a_name_gives_what_is_asked_for_and_no_more_than_it_has() {
    let host = host(VIRTUAL, MIB);
    let (ours, theirs) = (Process::new(&host), Process::new(&host));
    let read = A::STANDARD_RIGHTS_READ;
    ours.share(ours.fence(BY_NT_HANDLE), A::ALL_ACCESS, "all").unwrap();
    ours.share(ours.fence(BY_NT_HANDLE), read | A::WAIT, "waits").unwrap();
    let denied = NtStatus::ACCESS_DENIED;
    for (name, asked, signal) in [
        ("all", GENERIC_ALL, Ok(NtStatus::SUCCESS)),
        ("all", 0x0200_0000, Ok(NtStatus::SUCCESS)),
        ("all", (read | A::SIGNAL).bits(), Ok(NtStatus::SUCCESS)),
        ("all", (read | A::WAIT).bits(), Ok(denied)),
        ("all", 0, Err(denied)),
        ("all", 0x4000_0000, Err(denied)),
        ("waits", GENERIC_ALL, Ok(denied)),
        ("waits", read.bits(), Ok(denied)),
        ("waits", (read | A::SIGNAL).bits(), Err(denied)),
        ("waits", A::ALL_ACCESS.bits(), Err(denied)),
        ("none", 0, Err(NOT_FOUND)),
    ] {
        let before = host.state_digest();
        match (theirs.open(name, asked), signal) {
            (Ok(token), Ok(signal)) => {
                let fence = theirs.open_fence(token).unwrap();
                assert_eq!(theirs.signal(fence, 9), signal, "{name} with {asked:#x}");
                theirs.destroy(fence);
                theirs.close(token);
            }
            (refused, expected) => {
                assert_eq!((refused, before.differences(&host.state_digest())), (Err(expected.unwrap_err()), vec![]));
            }
        }
    }
    let token = theirs.open("all", A::WAIT.bits()).unwrap();
    assert_eq!(theirs.open_fence(token), Err(denied), "no process opens it without STANDARD_RIGHTS_READ");
    host.check_invariants().unwrap();
}

// spec: sync §2.2, memory §2.7
#[test]
fn every_kind_that_goes_by_nt_handle_has_names() {
    let host = host_of_several(VIRTUAL, &["discrete-4k", "discrete-4k"], |_, _| {});
    let (ours, theirs) = (Process::new(&host), Process::new(&host));
    let device = ours.device;
    let request =
        SyncObjectRequest { kind: SyncObjectKind::Semaphore { max_count: 1, initial_count: 1 }, flags: BY_NT_HANDLE };
    let create = Call::Sync(SyncCall::CreateSynchronizationObject2 { device, request });
    let Ok(Reply::SyncObject(semaphore)) = ours.link.call(create) else { panic!() };
    let kind = SyncObjectKind::MonitoredFence { initial_value: 0, engine_affinity: 0 };
    let request = SyncObjectRequest { kind, flags: BY_NT_HANDLE };
    let create = Call::Sync(SyncCall::CreateSynchronizationObject2 { device, request });
    let Ok(Reply::MonitoredFence(monitored)) = ours.link.call(create) else { panic!() };
    let cross = ours.fence(BY_NT_HANDLE | FenceFlags::CROSS_ADAPTER);
    let flags = CreateAllocationFlags::CREATE_RESOURCE
        | CreateAllocationFlags::CREATE_SHARED
        | CreateAllocationFlags::NT_SECURITY_SHARING;
    let resource = ResourceRequest { flags, ..ResourceRequest::default() };
    let create = Call::Allocation(AllocationCall::CreateAllocation { device, allocations: Vec::new(), resource });
    let Ok(Reply::Allocations(resource)) = ours.link.call(create) else { panic!() };

    for object in [semaphore.object, monitored.fence, cross] {
        let token = ours.share(object, A::ALL_ACCESS, "object").unwrap();
        assert_eq!(theirs.open_resource("object", GENERIC_ALL), Err(NtStatus::OBJECT_TYPE_MISMATCH));
        let found = theirs.open("object", GENERIC_ALL).unwrap();
        ours.close(token);
        ours.destroy(object);
        host.check_invariants().unwrap();
        let request = OpenSyncObjectRequest { handle: found, ..OpenSyncObjectRequest::default() };
        let open = SyncCall::OpenSyncObjectFromNtHandle2 { device: theirs.device, request };
        assert!(theirs.link.call(Call::Sync(open)).is_ok(), "{object}");
        theirs.close(found);
        host.check_invariants().unwrap();
        assert_eq!(theirs.open("object", GENERIC_ALL), Err(NOT_FOUND));
    }
    let token = ours.share(resource.resource, A::empty(), "memory").unwrap();
    assert_eq!(theirs.open("memory", GENERIC_ALL), Err(NtStatus::OBJECT_TYPE_MISMATCH));
    assert_eq!(theirs.open_resource("memory", 0), Err(NtStatus::ACCESS_DENIED));
    let found = theirs.open_resource("memory", 0x8000_0001).unwrap();
    ours.close(token);
    let share = ShareName::NtHandle(found);
    let open =
        Call::Allocation(AllocationCall::OpenResource { device: theirs.device, share, keyed_mutex_data: Vec::new() });
    assert!(theirs.link.call(open.clone()).is_ok());
    theirs.close(found);
    assert_eq!(theirs.link.call(open).unwrap_err().status, NtStatus::INVALID_HANDLE);
    assert_eq!(theirs.open_resource("memory", GENERIC_ALL), Err(NOT_FOUND));
    host.check_invariants().unwrap();
}

// spec: sync §2.2
#[test]
fn who_may_not_share_gives_no_name() {
    let host = host(VIRTUAL, MIB);
    let ours = Process::new(&host);
    let plain = ours.fence(FenceFlags::empty());
    assert_eq!(ours.share(plain, A::ALL_ACCESS, "plain"), Err(NtStatus::INVALID_PARAMETER));
    assert_eq!(ours.open("plain", GENERIC_ALL), Err(NOT_FOUND));
    let shared = ours.fence(BY_NT_HANDLE);
    for wrong in ["", &"x".repeat(32_768)] {
        assert_eq!(ours.share(shared, A::ALL_ACCESS, wrong), Err(NtStatus::INVALID_PARAMETER));
    }
    host.check_invariants().unwrap();
}

// spec: memory §2.7
#[test]
fn the_kernel_says_which_process_may_use_a_shared_resource() {
    let host = host(VIRTUAL, MIB);
    let [ours, theirs, strangers] = [(); 3].map(|()| Process::new(&host));
    let create = |flags| {
        let resource = ResourceRequest { flags, ..ResourceRequest::default() };
        let call = AllocationCall::CreateAllocation { device: ours.device, allocations: Vec::new(), resource };
        match ours.link.call(Call::Allocation(call)) {
            Ok(Reply::Allocations(created)) => created,
            other => panic!("{other:?}"),
        }
    };
    let check = |from: &Process, resource: RawHandle, process| {
        let call = Call::Share(ShareCall::CheckSharedResourceAccess { resource, process });
        from.link.call(call).map_or_else(|refusal| refusal.status, |_| NtStatus::SUCCESS)
    };
    let [our_id, their_id, strange_id] = [&ours, &theirs, &strangers].map(|process| process.link.process());
    let (alone, shared) = (CreateAllocationFlags::CREATE_RESOURCE, CreateAllocationFlags::CREATE_SHARED);
    let (invalid, denied) = (NtStatus::INVALID_PARAMETER, NtStatus::ACCESS_DENIED);

    let by_nt_handle = create(alone | shared | CreateAllocationFlags::NT_SECURITY_SHARING).resource;
    assert_eq!(check(&ours, by_nt_handle, our_id), NtStatus::SUCCESS, "its creator");
    assert_eq!(check(&ours, by_nt_handle, their_id), denied);
    let token = ours.share(by_nt_handle, A::empty(), "memory").unwrap();
    assert_eq!(check(&ours, by_nt_handle, their_id), denied, "a name that it did not open");
    let found = theirs.open_resource("memory", GENERIC_ALL).unwrap();
    assert_eq!(check(&ours, by_nt_handle, their_id), NtStatus::SUCCESS, "an NT handle of it");
    let share = ShareName::NtHandle(found);
    let open = AllocationCall::OpenResource { device: theirs.device, share, keyed_mutex_data: Vec::new() };
    let Ok(Reply::OpenedResource(opened)) = theirs.link.call(Call::Allocation(open)) else { panic!() };
    theirs.close(found);
    assert_eq!(check(&ours, by_nt_handle, their_id), NtStatus::SUCCESS, "it has opened it");
    assert_eq!(check(&theirs, opened.resource, our_id), NtStatus::SUCCESS, "by the name that it has there");
    assert_eq!(check(&ours, by_nt_handle, strange_id), denied);
    assert_eq!(check(&ours, by_nt_handle, ProcessId(4711)), invalid, "no process");
    assert_eq!(check(&strangers, by_nt_handle, our_id), invalid, "a handle of another process");
    ours.close(token);
    drop(theirs);
    assert_eq!(check(&ours, by_nt_handle, their_id), invalid, "it has ended");

    let by_global = create(alone | shared);
    for resource in [by_global.resource, by_global.global_share] {
        assert_eq!(check(&ours, resource, strange_id), NtStatus::SUCCESS, "every process may open {resource}");
        assert_eq!(check(&ours, resource, ProcessId(4711)), invalid);
    }
    assert_eq!(check(&strangers, by_global.global_share, our_id), NtStatus::SUCCESS);
    assert_eq!(check(&ours, create(alone).resource, our_id), invalid, "it is not shared");
    host.check_invariants().unwrap();
}
