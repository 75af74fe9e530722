//! Devices and their state.

use d3dkmt_abi::*;
use kmt_calls::{Call, DeviceState, Reply};
use wddm_types::{NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::refusal::{expect_reply, invalid, not_supported};

/// Devices of ours have no buffers of their own, whatever the flags: those are a context's.
pub fn create_device(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATEDEVICE) -> Answer {
    const DEFINED: u32 = D3DKMT_CREATEDEVICEFLAGS::LegacyMode
        | D3DKMT_CREATEDEVICEFLAGS::RequestVSync
        | D3DKMT_CREATEDEVICEFLAGS::DisableGpuTimeout;
    if arguments.Flags.Value & !DEFINED != 0 {
        return Err(invalid("flags of a device that mean nothing"));
    }
    let adapter = RawHandle(arguments.Anonymous.hAdapter());
    arguments.hDevice =
        expect_reply!(caller.process.call(Call::CreateDevice { adapter })?, Reply::Handle(device) => device.0);
    // What work of the device is exempt from is said of each of its contexts and queues.
    let timeless = arguments.Flags.Value & D3DKMT_CREATEDEVICEFLAGS::DisableGpuTimeout != 0;
    caller.process.note_timeless(arguments.hDevice, timeless);
    arguments.pCommandBuffer = std::ptr::null_mut();
    arguments.CommandBufferSize = 0;
    arguments.pAllocationList = std::ptr::null_mut();
    arguments.AllocationListSize = 0;
    arguments.pPatchLocationList = std::ptr::null_mut();
    arguments.PatchLocationListSize = 0;
    Ok(NtStatus::SUCCESS)
}

pub fn destroy_device(caller: &Caller<'_>, arguments: &D3DKMT_DESTROYDEVICE) -> Answer {
    let device = RawHandle(arguments.hDevice);
    caller.process.call(Call::DestroyDevice { device })?;
    caller.process.program_memory().left(caller, |user| user.device == device);
    Ok(NtStatus::SUCCESS)
}

// spec: memory §5.8
pub fn get_device_state(caller: &Caller<'_>, arguments: &mut D3DKMT_GETDEVICESTATE) -> Answer {
    match arguments.StateType {
        D3DKMT_DEVICESTATE_EXECUTION => {}
        kind @ D3DKMT_DEVICESTATE_PRESENT..=D3DKMT_DEVICESTATE_PRESENT_QUEUE => {
            return Err(not_supported(format!("no answer about the state of kind {kind} of a device")));
        }
        kind => return Err(invalid(format!("no state of a device has the kind {kind}"))),
    }
    let call = Call::GetDeviceState { device: RawHandle(arguments.hDevice) };
    let state = expect_reply!(caller.process.call(call)?, Reply::DeviceState(state) => state);
    arguments.Anonymous.ExecutionState = match state {
        DeviceState::Active => D3DKMT_DEVICEEXECUTION_ACTIVE,
        DeviceState::Reset => D3DKMT_DEVICEEXECUTION_RESET,
        DeviceState::Hung => D3DKMT_DEVICEEXECUTION_HUNG,
        DeviceState::Stopped => D3DKMT_DEVICEEXECUTION_STOPPED,
        DeviceState::ErrorOutOfMemory => D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY,
        DeviceState::ErrorDmaFault => D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT,
        DeviceState::ErrorDmaPageFault => D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT,
    };
    Ok(NtStatus::SUCCESS)
}
