//! Objects that others open: resources by global handles, NT handles and names; keyed mutexes, alone and with their resource; cross-adapter
//! fences. The life opens its own with a second device, and the bystander's.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use d3dkmt::{
    CreateAllocationFlags as F, Device, Fence, FenceFlags, NtHandle, Resource, ResourceRequest, ShareName, SyncObject,
    SyncObjectAccess, SyncObjectKind,
};
use kmt_calls::{AllocationCall, Call, KeyedMutexCall, KeyedMutexFlags, Reply, ShareCall};
use kmt_link::Link;
use softgpu_umd::{CrossFence, Gpu, UmdError};
use wddm_types::RawHandle;

use super::memory::allocation;
use crate::lives::bystander::Offers;

const BY_NT_HANDLE: F = F::CREATE_RESOURCE.union(F::CREATE_SHARED).union(F::NT_SECURITY_SHARING);
const KEY: u64 = 3;

/// What stays until the life ends.
pub struct Shared {
    /// The bystander's keyed mutex as this process has it.
    pub theirs: RawHandle,
    _names: Vec<NtHandle>,
    _descriptor: OwnedFd,
    _cross: CrossFence,
    _resources: Vec<Resource>,
    _set: (SyncObject, Resource),
    _native: Fence,
}

pub fn live(link: &Arc<dyn Link>, gpu: &Gpu, second: &Device, offers: Offers) -> Result<Shared, UmdError> {
    let mut names = Vec::new();
    let mut resources = resources(link, gpu, second, &mut names)?;
    resources.push(Resource::open(second, ShareName::Global(offers.resource))?);
    let set = set(link, gpu, second, &mut names)?;
    let nt = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let native = gpu.device().create_native_fence(d3dkmt::NativeFenceRequest { flags: nt, ..Default::default() })?;
    let name = native.share(SyncObjectAccess::ALL_ACCESS)?;
    let descriptor = link.descriptor(name.token())?;
    link.described(descriptor.as_fd())?;
    names.push(name);
    let cross = CrossFence::create(&[gpu])?;
    gpu.device().signal(cross.on(0), 2)?;
    let theirs = mutexes(link, offers)?;
    let (_names, _descriptor, _cross, _resources) = (names, descriptor, cross, resources);
    Ok(Shared { theirs, _names, _descriptor, _cross, _resources, _set: set, _native: native })
}

fn resources(
    link: &Arc<dyn Link>,
    gpu: &Gpu,
    second: &Device,
    names: &mut Vec<NtHandle>,
) -> Result<Vec<Resource>, UmdError> {
    let create = |flags| {
        let request = ResourceRequest { flags, runtime_data: vec![1; 16], ..ResourceRequest::default() };
        Resource::create(gpu.device(), vec![allocation(), allocation()], request)
    };
    let global = create(F::CREATE_RESOURCE | F::CREATE_SHARED)?;
    let opened = Resource::open(second, global.global_share())?;
    second.create_paging_queue()?.make_resident(vec![opened.allocations()[0].handle()], Default::default())?;
    let named = create(BY_NT_HANDLE)?;
    let share = |name: Option<String>| {
        let (objects, access) = (vec![named.handle()], SyncObjectAccess::empty());
        nt_handle(link, ShareCall::ShareObjects { objects, access, name })
    };
    names.push(share(None)?);
    let by_handle = Resource::open(second, ShareName::NtHandle(names[0].token()))?;
    names.push(nt_handle(link, ShareCall::TakeNtHandle { handle: names[0].token() })?);
    names.push(share(Some("a life's resource".into()))?);
    let (name, access) = ("a life's resource".into(), 0x8000_0001);
    names.push(nt_handle(link, ShareCall::OpenNtHandleFromName { name, access, sync_object: false })?);
    // The last open of a resource keeps it, whatever goes before.
    drop(global);
    Ok(vec![opened, by_handle, named])
}

fn nt_handle(link: &Arc<dyn Link>, call: ShareCall) -> Result<NtHandle, UmdError> {
    let Reply::NtHandle(token) = link.call(Call::Share(call))? else { unreachable!("a name is an NT handle") };
    Ok(NtHandle::adopt(Arc::clone(link), token))
}

/// A resource with its keyed mutex and a synchronization object under one name, opened by the second device.
fn set(
    link: &Arc<dyn Link>,
    gpu: &Gpu,
    second: &Device,
    names: &mut Vec<NtHandle>,
) -> Result<(SyncObject, Resource), UmdError> {
    let request = ResourceRequest { flags: BY_NT_HANDLE, ..ResourceRequest::default() };
    let resource = Resource::create(gpu.device(), vec![allocation()], request)?;
    let flags = KeyedMutexFlags::NT_SECURITY_SHARING;
    let create = KeyedMutexCall::Create { initial_key: KEY, flags, runtime_data: vec![7; 8] };
    let Reply::KeyedMutex(mutex) = link.call(Call::KeyedMutex(create))? else { unreachable!("a keyed mutex") };
    let nt = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let sync = gpu.device().create_sync_object(SyncObjectKind::Fence { value: 0 }, nt)?;
    let objects = vec![resource.handle(), mutex.mutex, sync.handle()];
    let access = SyncObjectAccess::ALL_ACCESS;
    let name = nt_handle(link, ShareCall::ShareObjects { objects, access, name: None })?;
    let share = ShareName::NtHandle(name.token());
    let open = AllocationCall::OpenResource { device: second.handle(), share, keyed_mutex_data: vec![7; 8] };
    let Reply::OpenedResource(opened) = link.call(Call::Allocation(open))? else { unreachable!("a resource") };
    let (mutex, runtime_data_bytes) = (opened.keyed_mutex, 8);
    link.call(Call::KeyedMutex(KeyedMutexCall::Acquire {
        mutex,
        key: KEY,
        timeout_100ns: Some(0),
        runtime_data_bytes,
    }))?;
    names.push(name);
    Ok((sync, resource))
}

/// A keyed mutex of its own, which goes round and with which it ends; and the bystander's, which it only opens.
fn mutexes(link: &Arc<dyn Link>, offers: Offers) -> Result<RawHandle, UmdError> {
    let flags = KeyedMutexFlags::empty();
    let create = KeyedMutexCall::Create { initial_key: KEY, flags, runtime_data: vec![7; 8] };
    let Reply::KeyedMutex(own) = link.call(Call::KeyedMutex(create))? else { unreachable!("a keyed mutex") };
    let open = |shared, runtime_data| -> Result<RawHandle, UmdError> {
        match link.call(Call::KeyedMutex(KeyedMutexCall::Open { shared, runtime_data }))? {
            Reply::Handle(mutex) => Ok(mutex),
            other => unreachable!("an opened keyed mutex is a handle: {other:?}"),
        }
    };
    let again = open(own.global_share, vec![7; 8])?;
    let acquire = |mutex, key| {
        let (timeout_100ns, runtime_data_bytes) = (Some(0), 8);
        link.call(Call::KeyedMutex(KeyedMutexCall::Acquire { mutex, key, timeout_100ns, runtime_data_bytes }))
    };
    acquire(own.mutex, KEY)?;
    let runtime_data = vec![8; 8];
    link.call(Call::KeyedMutex(KeyedMutexCall::Release { mutex: own.mutex, key: 4, fence_value: 1, runtime_data }))?;
    acquire(again, 4)?;
    let spare = open(own.global_share, Vec::new())?;
    link.call(Call::KeyedMutex(KeyedMutexCall::Destroy { mutex: spare }))?;
    open(offers.mutex, Vec::new())
}
