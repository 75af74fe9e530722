//! Native fences.

use d3dkmt_abi::*;
use kmt_calls::{
    Call, CreatedFence, FenceFlags, FencePrivateData, NativeFenceRequest, OpenSyncObjectRequest, Refusal, Reply,
    SyncCall,
};
use wddm_types::{NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::event::nt_handle_behind_device;
use crate::refusal::{expect_reply, invalid};
use crate::sync_object::for_gpu;

/// Where a fence's words are; the CPU does not reach those of every fence.
// spec: sync §2.1
fn mapping(caller: &Caller<'_>, created: &CreatedFence) -> Result<D3DDDI_NATIVEFENCEMAPPING, Refusal> {
    let current = match created.current {
        CreatedFence::NO_CPU_ADDRESS => std::ptr::null_mut(),
        address => {
            let undo = Call::Sync(SyncCall::DestroySynchronizationObject { fence: created.fence });
            caller.process.word_of_new(address, undo)?
        }
    };
    Ok(D3DDDI_NATIVEFENCEMAPPING {
        CurrentValueCpuVa: current,
        CurrentValueGpuVa: for_gpu(created.current_va, created.current_cpu_va),
        MonitoredValueGpuVa: created.monitored_va.0,
        Reserved: [0; 32],
    })
}

// spec: sync §2.1
pub fn create_native_fence(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATENATIVEFENCE) -> Answer {
    let info = &arguments.Info;
    let reserved = [&info.Reserved[..], &info.NativeFenceMapping.Reserved, &arguments.Reserved];
    if arguments.Flags.Value != 0 || reserved.concat().iter().any(|byte| *byte != 0) {
        return Err(invalid("a reserved member of D3DKMT_CREATENATIVEFENCE is not 0"));
    }
    let request = NativeFenceRequest {
        initial_value: info.InitialFenceValue,
        // CAST: a negative number is no type either.
        fence_type: info.Type as u32,
        flags: FenceFlags::from_bits_retain(info.Flags.Value),
        engine_affinity: info.EngineAffinity,
        private_data: FencePrivateData(arguments.PrivateDriverData),
    };
    let device = RawHandle(arguments.hDevice);
    let reply = caller.process.call(Call::Sync(SyncCall::CreateNativeFence { device, request }))?;
    let created = expect_reply!(reply, Reply::Fence(created) => created);
    caller.process.has_word(created.fence);
    arguments.hSyncObject = created.fence.0;
    arguments.PrivateDriverData = created.private_data.0;
    arguments.Info.NativeFenceMapping = mapping(caller, &created)?;
    Ok(NtStatus::SUCCESS)
}

/// Reads no member behind the mapping, and passes no private data to the driver: the published forms differ there, and a call does not
/// say which one it has.
// spec: sync §2.1
pub fn open_native_fence_from_nt_handle(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_OPENNATIVEFENCEFROMNTHANDLE,
) -> Answer {
    let request = OpenSyncObjectRequest {
        handle: nt_handle_behind_device(caller, arguments.hNtHandle),
        engine_affinity: arguments.EngineAffinity,
        flags: FenceFlags::from_bits_retain(arguments.Flags.Value),
        ..OpenSyncObjectRequest::default()
    };
    let device = RawHandle(arguments.hDevice);
    let reply = caller.process.call(Call::Sync(SyncCall::OpenNativeFenceFromNtHandle { device, request }))?;
    let created = expect_reply!(reply, Reply::Fence(created) => created);
    caller.process.has_word(created.fence);
    arguments.hSyncObject = created.fence.0;
    arguments.NativeFenceMapping = mapping(caller, &created)?;
    Ok(NtStatus::SUCCESS)
}
