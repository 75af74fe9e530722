//! The set in which a keyed mutex goes round with its resource, and the quota that each part counts against.

use std::sync::Arc;

use dxgk_host::{AccountId, Admission, Host, ProcessLink, Quota};
use kmt_calls::{
    AdapterCall, AllocationCall, AllocationTarget, Call, CreateAllocationFlags, DestroyFlags, DeviceCall, FenceFlags,
    KeyedMutexFlags, OpenedResource, Reply, ResourceRequest, ShareCall, ShareName, SyncCall, SyncObjectAccess,
    SyncObjectKind, SyncObjectRequest,
};
use kmt_link::Link;
use wddm_types::{NtStatus, RawHandle};

use super::{ABANDONED, INVALID, Process};
use stack::world::{MIB, VIRTUAL, host};

const BY_NT_HANDLE: FenceFlags = FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING);

/// A resource, a keyed mutex and a synchronization object of a process.
struct Set {
    process: Process,
    device: RawHandle,
    resource: RawHandle,
    mutex: RawHandle,
    sync: RawHandle,
}

fn device(process: &Process) -> RawHandle {
    let adapter = handle(process, Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: process.host.luid() }));
    handle(process, Call::Device(DeviceCall::CreateDevice { adapter }))
}

fn handle(process: &Process, call: Call) -> RawHandle {
    match process.link.call(call) {
        Ok(Reply::Handle(handle)) => handle,
        other => panic!("{other:?}"),
    }
}

fn sync_object(process: &Process, device: RawHandle, flags: FenceFlags) -> RawHandle {
    let request = SyncObjectRequest { kind: SyncObjectKind::Fence { value: 0 }, flags };
    match process.link.call(Call::Sync(SyncCall::CreateSynchronizationObject2 { device, request })) {
        Ok(Reply::SyncObject(created)) => created.object,
        other => panic!("{other:?}"),
    }
}

impl Set {
    fn new(host: &Arc<Host>, shared: bool) -> Set {
        let process = Process::new(host);
        let device = device(&process);
        let mut flags = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED;
        flags.set(CreateAllocationFlags::NT_SECURITY_SHARING, shared);
        let resource = ResourceRequest { flags, ..ResourceRequest::default() };
        let created = process.link.call(Call::Allocation(AllocationCall::CreateAllocation {
            device,
            allocations: Vec::new(),
            resource,
        }));
        let Ok(Reply::Allocations(created)) = created else { panic!("{created:?}") };
        let (mutex, _) = process.create_with(KeyedMutexFlags::NT_SECURITY_SHARING, b"data");
        let sync = sync_object(&process, device, BY_NT_HANDLE);
        Set { process, device, resource: created.resource, mutex, sync }
    }

    fn share(&self, objects: &[RawHandle]) -> Result<u64, NtStatus> {
        let access = SyncObjectAccess::from_bits_retain(0x1f_0000);
        match self.process.link.call(Call::Share(ShareCall::ShareObjects {
            objects: objects.to_vec(),
            access,
            name: None,
        })) {
            Ok(Reply::NtHandle(token)) => Ok(token),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.status),
        }
    }
}

fn open_set_with(
    process: &Process,
    device: RawHandle,
    token: u64,
    keyed_mutex_data: &[u8],
) -> Result<OpenedResource, NtStatus> {
    let keyed_mutex_data = keyed_mutex_data.to_vec();
    match process.link.call(Call::Allocation(AllocationCall::OpenResource {
        device,
        share: ShareName::NtHandle(token),
        keyed_mutex_data,
    })) {
        Ok(Reply::OpenedResource(opened)) => Ok(opened),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal.status),
    }
}

fn open_set(process: &Process, device: RawHandle, token: u64) -> OpenedResource {
    open_set_with(process, device, token, b"").expect("its name is there")
}

// spec: sync §2.2 (allowed sets)
#[test]
fn a_mutex_goes_round_with_its_resource_and_a_synchronization_object() {
    let host = host(VIRTUAL, MIB);
    let set = Set::new(&host, true);
    let (resource, mutex, sync) = (set.resource, set.mutex, set.sync);
    let orders = [
        &[mutex][..],
        &[resource, mutex],
        &[resource, sync],
        &[mutex, sync],
        &[resource, sync, mutex],
        &[mutex, resource, sync],
        &[resource; 3],
        &[resource, mutex, sync, sync],
        &[],
    ];
    let before = host.state_digest();
    for wrong in orders {
        assert_eq!(set.share(wrong), Err(INVALID), "{wrong:?}");
        assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new(), "{wrong:?}");
    }
    // Each of them must be for NT handles.
    let (plain, _) = set.process.create();
    assert_eq!(set.share(&[resource, plain, sync]), Err(INVALID));
    let alone = sync_object(&set.process, set.device, FenceFlags::SHARED);
    assert_eq!(set.share(&[resource, mutex, alone]), Err(INVALID));
    let unshared = Set::new(&host, false);
    assert_eq!(unshared.share(&[unshared.resource, unshared.mutex, unshared.sync]), Err(INVALID));

    let token = set.share(&[resource, mutex, sync]).unwrap();
    host.check_invariants().unwrap();
    set.process.acquire(mutex, 3).unwrap();
    set.process.release(mutex, 4, 11).unwrap();
    let other = Process::new(&host);
    let theirs = device(&other);
    assert_eq!(open_set_with(&other, theirs, token, b"other").err(), Some(INVALID), "the mutex has 4 bytes");
    host.check_invariants().unwrap();
    let opened = open_set_with(&other, theirs, token, b"same").unwrap();
    assert_eq!(other.data(opened.keyed_mutex, 4), b"data", "it had some");
    other.release(opened.keyed_mutex, 4, 11).unwrap();
    assert_eq!(other.acquire(opened.keyed_mutex, 4), Ok(11));
    other.release(opened.keyed_mutex, 5, 12).unwrap();
    other.destroy(opened.keyed_mutex).unwrap();
    let destroy = Call::Sync(SyncCall::DestroySynchronizationObject { fence: opened.sync_object });
    assert_eq!(other.link.call(destroy), Ok(Reply::Done));
    // The name keeps the mutex with its key, and the resource.
    let again = open_set(&other, device(&other), token);
    set.process.destroy(mutex).unwrap();
    other.destroy(again.keyed_mutex).unwrap();
    host.check_invariants().unwrap();
    let third = open_set(&other, device(&other), token);
    assert_eq!(other.acquire(third.keyed_mutex, 5), Ok(12));
    other.release(third.keyed_mutex, 5, 12).unwrap();
    let destroy = Call::Allocation(AllocationCall::DestroyAllocation {
        device: set.device,
        target: AllocationTarget { resource: set.resource, allocations: Vec::new() },
        flags: DestroyFlags::empty(),
    });
    assert_eq!(set.process.link.call(destroy), Ok(Reply::Done));
    host.check_invariants().unwrap();
    let last = device(&other);
    assert_ne!(open_set(&other, last, token).resource, RawHandle::NONE, "its maker has destroyed it");
    drop(set);
    host.check_invariants().unwrap();
    assert_eq!(other.acquire(third.keyed_mutex, 5), Ok(12), "open, though its name has gone with the process");
}

// spec: sync §2.2 (allowed sets)
#[test]
fn a_mutex_opened_with_a_resource_goes_with_the_device() {
    let host = host(VIRTUAL, MIB);
    let set = Set::new(&host, true);
    let token = set.share(&[set.resource, set.mutex, set.sync]).unwrap();
    let other = Process::new(&host);
    let theirs = device(&other);
    let [idle, owner] = [(), ()].map(|()| open_set(&other, theirs, token));
    assert_eq!(other.acquire(owner.keyed_mutex, 3), Ok(0));
    assert_eq!(other.link.call(Call::Device(DeviceCall::DestroyDevice { device: theirs })), Ok(Reply::Done));
    for gone in [idle.keyed_mutex, owner.keyed_mutex] {
        assert_eq!(other.destroy(gone), Err(INVALID));
    }
    assert_eq!(set.process.acquire(set.mutex, 3), Err(ABANDONED));
    host.check_invariants().unwrap();
}

#[test]
fn keyed_mutexes_count_as_sync_objects() {
    // spec: sync §5
    let host = host(VIRTUAL, MIB);
    let quota = Quota { sync_objects: 2, ..Quota::NONE };
    let admission = Admission { account: AccountId(7), process: quota, together: Quota::NONE };
    let limited = Process { host: Arc::clone(&host), link: ProcessLink::admitted(Arc::clone(&host), admission) };
    let (mine, global) = limited.create();
    let again = limited.open(global);
    assert_eq!(limited.open_with(global, b""), Err(NtStatus::NO_MEMORY));
    limited.destroy(again).unwrap();
    let set = Set::new(&host, true);
    let token = set.share(&[set.resource, set.mutex, set.sync]).unwrap();
    let device = device(&limited);
    let opened = Call::Allocation(AllocationCall::OpenResource {
        device,
        share: ShareName::NtHandle(token),
        keyed_mutex_data: Vec::new(),
    });
    let before = host.state_digest();
    assert_eq!(limited.link.call(opened.clone()).unwrap_err().status, NtStatus::NO_MEMORY, "it brings two");
    assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new());
    limited.destroy(mine).unwrap();
    assert!(limited.link.call(opened).is_ok());
    host.check_invariants().unwrap();
}
