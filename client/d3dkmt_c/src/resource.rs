//! Shared resources: naming, queries, opening.

use d3dkmt_abi::*;
use kmt_calls::{
    AllocationCall, Call, OpenedResource, Refusal, Reply, ResourceInfo, ShareCall, ShareName, SyncObjectAccess,
};
use wddm_types::{NtStatus, ProcessId, RawHandle};

use crate::adapter::luid_in_c;
use crate::border::{Answer, Caller, ResultBuffer};
use crate::event::handle::{nt_handle, nt_handle_in_c};
use crate::event::nt_handle_behind_device;
use crate::handle::handles;
use crate::name::object_name;
use crate::refusal::{expect_reply, invalid, refuse, unsuccessful};

/// `D3DKMTShareObjects`, the one function with more than one parameter.
// spec: sync §2.2
pub fn share_objects(
    caller: &Caller<'_>,
    (count, objects, access): (u32, *const D3DKMT_HANDLE, DWORD),
    attributes: *const OBJECT_ATTRIBUTES,
    handle: *mut HANDLE,
) -> Answer {
    let room = caller.room(handle, 1)?;
    let call = Call::Share(ShareCall::ShareObjects {
        objects: handles(caller, objects, count)?,
        access: SyncObjectAccess::from_bits_retain(access),
        name: object_name(caller, attributes)?,
    });
    let token = expect_reply!(caller.process.call(call)?, Reply::NtHandle(token) => token);
    room.write(&[nt_handle_in_c(caller, token)?]);
    Ok(NtStatus::SUCCESS)
}

fn info(caller: &Caller<'_>, device: u32, share: ShareName) -> Result<ResourceInfo, Refusal> {
    let call = Call::Allocation(AllocationCall::QueryResourceInfo { device: RawHandle(device), share });
    Ok(expect_reply!(caller.process.call(call)?, Reply::ResourceInfo(info) => info))
}

/// How long the runtime's blob is, whatever room the caller has for it: nothing is written to its place.
// spec: memory §2.7 (QueryResourceInfo)
fn runtime_data_bytes(info: &ResourceInfo) -> u32 {
    // CAST: it came in with a length of 32 bits.
    info.runtime_data.len() as u32
}

pub fn query_resource_info(caller: &Caller<'_>, arguments: &mut D3DKMT_QUERYRESOURCEINFO) -> Answer {
    let info = info(caller, arguments.hDevice, ShareName::Global(RawHandle(arguments.hGlobalShare)))?;
    arguments.PrivateRuntimeDataSize = runtime_data_bytes(&info);
    arguments.TotalPrivateDriverDataSize = info.total_private_data_bytes;
    arguments.ResourcePrivateDriverDataSize = info.private_data_bytes;
    arguments.NumAllocations = info.allocations;
    Ok(NtStatus::SUCCESS)
}

pub fn query_resource_info_from_nt_handle(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE,
) -> Answer {
    let share = ShareName::NtHandle(nt_handle_behind_device(caller, arguments.hNtHandle));
    let info = info(caller, arguments.hDevice, share)?;
    arguments.PrivateRuntimeDataSize = runtime_data_bytes(&info);
    arguments.TotalPrivateDriverDataSize = info.total_private_data_bytes;
    arguments.ResourcePrivateDriverDataSize = info.private_data_bytes;
    arguments.NumAllocations = info.allocations;
    Ok(NtStatus::SUCCESS)
}

/// The input and the places for output that all forms of opening have.
struct Opening<'call> {
    runtime_data: ResultBuffer<'call, u8>,
    private_data: ResultBuffer<'call, u8>,
    /// Runtime data for the keyed mutex that goes with it, if that has none yet.
    keyed_mutex_data: Vec<u8>,
    /// Where the blobs of the allocations go, one behind the other.
    total: *mut VOID,
    total_room: ResultBuffer<'call, u8>,
}

impl Opening<'_> {
    /// Opens, after the places have been found to be as large as the resource wants: the runtime's blob and the resource's own exactly,
    /// the allocations' at least.
    // spec: memory §2.7 (OpenResource)
    fn open(
        &self,
        caller: &Caller<'_>,
        device: u32,
        share: ShareName,
        allocations: u32,
    ) -> Result<OpenedResource, Refusal> {
        let info = info(caller, device, share)?;
        if allocations != info.allocations {
            return Err(invalid(format!(
                "NumAllocations is {allocations}, and the resource has {} allocations",
                info.allocations
            )));
        }
        let (room, length) = (self.runtime_data.count(), info.runtime_data.len());
        if room != length {
            return Err(invalid(format!("the buffer for the runtime's data has {room} bytes, and the data {length}")));
        }
        let (room, length) = (self.private_data.count(), info.private_data_bytes);
        if room != length as usize {
            return Err(invalid(format!(
                "the buffer for the driver's data of the resource has {room} bytes, and the data {length}"
            )));
        }
        let (room, length) = (self.total_room.count(), info.total_private_data_bytes);
        if room < length as usize {
            let reason =
                format!("the buffer for the driver's data of the allocations has {room} bytes, and the data {length}");
            return Err(refuse(NtStatus::NO_MEMORY, reason));
        }
        let keyed_mutex_data = self.keyed_mutex_data.clone();
        let call =
            Call::Allocation(AllocationCall::OpenResource { device: RawHandle(device), share, keyed_mutex_data });
        let opened = expect_reply!(caller.process.call(call)?, Reply::OpenedResource(opened) => opened);
        self.runtime_data.write(&opened.runtime_data);
        self.private_data.write(&opened.private_data);
        Ok(opened)
    }

    /// Writes the blobs; where each lies and how long it is.
    fn blobs(&self, opened: &OpenedResource) -> Vec<(*const VOID, u32)> {
        let (mut all, mut places) = (Vec::new(), Vec::new());
        for allocation in &opened.allocations {
            let data = allocation.private_data.as_deref().unwrap_or_default();
            // CAST: a blob came in with a length of 32 bits.
            places.push((self.total.wrapping_byte_add(all.len()).cast_const(), data.len() as u32));
            all.extend_from_slice(data);
        }
        self.total_room.write(&all);
        places
    }
}

/// Bytes of all blobs, as they were written one behind the other.
fn blob_bytes(opened: &OpenedResource) -> u32 {
    let blobs = opened.allocations.iter().filter_map(|allocation| allocation.private_data.as_ref());
    // CAST: each came in with a length of 32 bits, and their sum had room in 32.
    blobs.map(|data| data.len() as u32).sum()
}

fn infos2(opened: &OpenedResource, blobs: &[(*const VOID, u32)]) -> Vec<D3DDDI_OPENALLOCATIONINFO2> {
    let infos = opened.allocations.iter().zip(blobs).map(|(allocation, blob)| D3DDDI_OPENALLOCATIONINFO2 {
        hAllocation: allocation.handle.0,
        pPrivateDriverData: blob.0,
        PrivateDriverDataSize: blob.1,
        GpuVirtualAddress: allocation.address.0,
        Reserved: [0; 6],
    });
    infos.collect()
}

fn by_global_handle<'call>(
    caller: &'call Caller<'_>,
    arguments: &D3DKMT_OPENRESOURCE,
) -> Result<Opening<'call>, Refusal> {
    let (total, total_size) = (arguments.pTotalPrivateDriverDataBuffer, arguments.TotalPrivateDriverDataBufferSize);
    Ok(Opening {
        runtime_data: caller.room(arguments.pPrivateRuntimeData.cast(), arguments.PrivateRuntimeDataSize)?,
        private_data: caller
            .room(arguments.pResourcePrivateDriverData.cast(), arguments.ResourcePrivateDriverDataSize)?,
        keyed_mutex_data: Vec::new(),
        total,
        total_room: caller.room(total.cast(), total_size)?,
    })
}

pub fn open_resource(caller: &Caller<'_>, arguments: &mut D3DKMT_OPENRESOURCE) -> Answer {
    let room = caller.room(arguments.Anonymous.pOpenAllocationInfo(), arguments.NumAllocations)?;
    let opening = by_global_handle(caller, arguments)?;
    let share = ShareName::Global(RawHandle(arguments.hGlobalShare));
    let opened = opening.open(caller, arguments.hDevice, share, arguments.NumAllocations)?;
    let infos =
        opened.allocations.iter().zip(opening.blobs(&opened)).map(|(allocation, blob)| D3DDDI_OPENALLOCATIONINFO {
            hAllocation: allocation.handle.0,
            pPrivateDriverData: blob.0,
            PrivateDriverDataSize: blob.1,
        });
    room.write(&infos.collect::<Vec<_>>());
    arguments.TotalPrivateDriverDataBufferSize = blob_bytes(&opened);
    arguments.hResource = opened.resource.0;
    Ok(NtStatus::SUCCESS)
}

pub fn open_resource2(caller: &Caller<'_>, arguments: &mut D3DKMT_OPENRESOURCE) -> Answer {
    let room = caller.room(arguments.Anonymous.pOpenAllocationInfo2(), arguments.NumAllocations)?;
    let opening = by_global_handle(caller, arguments)?;
    let share = ShareName::Global(RawHandle(arguments.hGlobalShare));
    let opened = opening.open(caller, arguments.hDevice, share, arguments.NumAllocations)?;
    room.write(&infos2(&opened, &opening.blobs(&opened)));
    arguments.TotalPrivateDriverDataBufferSize = blob_bytes(&opened);
    arguments.hResource = opened.resource.0;
    Ok(NtStatus::SUCCESS)
}

/// The resource alone, or with the keyed mutex and the synchronization object that were shared with it.
// spec: sync §2.2
pub fn open_resource_from_nt_handle(caller: &Caller<'_>, arguments: &mut D3DKMT_OPENRESOURCEFROMNTHANDLE) -> Answer {
    let room = caller.room(arguments.pOpenAllocationInfo2, arguments.NumAllocations)?;
    let (total, total_size) = (arguments.pTotalPrivateDriverDataBuffer, arguments.TotalPrivateDriverDataBufferSize);
    let opening = Opening {
        runtime_data: caller.room(arguments.pPrivateRuntimeData.cast(), arguments.PrivateRuntimeDataSize)?,
        private_data: caller
            .room(arguments.pResourcePrivateDriverData.cast(), arguments.ResourcePrivateDriverDataSize)?,
        keyed_mutex_data: caller
            .bytes(arguments.pKeyedMutexPrivateRuntimeData, arguments.KeyedMutexPrivateRuntimeDataSize)?,
        total,
        total_room: caller.room(total.cast(), total_size)?,
    };
    let share = ShareName::NtHandle(nt_handle_behind_device(caller, arguments.hNtHandle));
    let opened = opening.open(caller, arguments.hDevice, share, arguments.NumAllocations)?;
    room.write(&infos2(&opened, &opening.blobs(&opened)));
    arguments.TotalPrivateDriverDataBufferSize = blob_bytes(&opened);
    arguments.hResource = opened.resource.0;
    arguments.hKeyedMutex = opened.keyed_mutex.0;
    if opened.sync_object != RawHandle::NONE {
        caller.process.has_no_word(opened.sync_object);
    }
    arguments.hSyncObject = opened.sync_object.0;
    Ok(NtStatus::SUCCESS)
}

/// The resource goes by its global handle or by an NT handle.
pub fn get_shared_resource_adapter_luid(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_GETSHAREDRESOURCEADAPTERLUID,
) -> Answer {
    let share = match (arguments.hGlobalShare, arguments.hNtHandle.is_null()) {
        (0, true) => return Err(invalid("hGlobalShare and hNtHandle are both 0; give one of them")),
        (0, false) => ShareName::NtHandle(nt_handle(caller, arguments.hNtHandle)?),
        (global, true) => ShareName::Global(RawHandle(global)),
        (_, false) => return Err(invalid("both hGlobalShare and hNtHandle are given; give one of them")),
    };
    let reply = caller.process.call(Call::Share(ShareCall::GetSharedResourceAdapterLuid { share }))?;
    let adapters = expect_reply!(reply, Reply::Adapters(adapters) => adapters);
    let (luid, _) = adapters.first().ok_or_else(|| unsuccessful("the kernel named no adapter"))?;
    arguments.AdapterLuid = luid_in_c(*luid);
    Ok(NtStatus::SUCCESS)
}

/// A refusal is `STATUS_ACCESS_DENIED` where the process may not use the resource.
// spec: memory §2.7
pub fn check_shared_resource_access(caller: &Caller<'_>, arguments: &D3DKMT_CHECKSHAREDRESOURCEACCESS) -> Answer {
    let D3DKMT_CHECKSHAREDRESOURCEACCESS { hResource, ClientPid } = *arguments;
    caller.process.call(Call::Share(ShareCall::CheckSharedResourceAccess {
        resource: RawHandle(hResource),
        process: ProcessId(ClientPid),
    }))?;
    Ok(NtStatus::SUCCESS)
}
