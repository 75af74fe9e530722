//! Devices and their state.

use d3dkmt_abi::*;
use kmt_calls::{Call, DeviceCall, DeviceState, DisplayCall, PresentState, Refusal, Reply};
use wddm_types::{NtStatus, RawHandle, VidPnSourceId};

use crate::border::{Answer, Caller};
use crate::refusal::{expect_reply, invalid};

/// Devices of ours have no buffers of their own, whatever the flags: those are a context's.
pub fn create_device(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATEDEVICE) -> Answer {
    const DEFINED: u32 = D3DKMT_CREATEDEVICEFLAGS::LegacyMode
        | D3DKMT_CREATEDEVICEFLAGS::RequestVSync
        | D3DKMT_CREATEDEVICEFLAGS::DisableGpuTimeout;
    if arguments.Flags.Value & !DEFINED != 0 {
        return Err(invalid(format!("device flags {:#x} are reserved", arguments.Flags.Value & !DEFINED)));
    }
    let adapter = RawHandle(arguments.Anonymous.hAdapter());
    arguments.hDevice = expect_reply!(caller.process.call(Call::Device(DeviceCall::CreateDevice { adapter }))?, Reply::Handle(device) => device.0);
    // Each context and queue of the device passes the exemption on: the kernel has none for a device.
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
    caller.process.call(Call::Device(DeviceCall::DestroyDevice { device }))?;
    caller.process.program_memory().left(caller, |user| user.device == device);
    Ok(NtStatus::SUCCESS)
}

/// Each kind has an arm of the union; a figure that the kernel does not have is 0.
// spec: memory §5.8
pub fn get_device_state(caller: &Caller<'_>, arguments: &mut D3DKMT_GETDEVICESTATE) -> Answer {
    let device = RawHandle(arguments.hDevice);
    match arguments.StateType {
        D3DKMT_DEVICESTATE_EXECUTION => arguments.Anonymous.ExecutionState = execution(caller, device)?,
        D3DKMT_DEVICESTATE_PAGE_FAULT => arguments.Anonymous.PageFaultState = page_fault(caller, device)?,
        // Asked of a device that lives. No desktop is switched here.
        D3DKMT_DEVICESTATE_RESET => {
            present(caller, device, 0)?;
            arguments.Anonymous.ResetState = D3DKMT_DEVICERESET_STATE { Value: 0 };
        }
        D3DKMT_DEVICESTATE_PRESENT => {
            let mut arm = arguments.Anonymous.PresentState();
            arm.PresentStats = D3DKMT_PRESENT_STATS::zeroed();
            arm.PresentStats.PresentCount = shown(&present(caller, device, arm.VidPnSourceId)?);
            arguments.Anonymous.PresentState = arm;
        }
        D3DKMT_DEVICESTATE_PRESENT_DWM => {
            let mut arm = arguments.Anonymous.PresentStateDWM();
            arm.PresentStatsDWM = D3DKMT_PRESENT_STATS_DWM::zeroed();
            arm.PresentStatsDWM.PresentCount = shown(&present(caller, device, arm.VidPnSourceId)?);
            arguments.Anonymous.PresentStateDWM = arm;
        }
        D3DKMT_DEVICESTATE_PRESENT_QUEUE => {
            let mut arm = arguments.Anonymous.PresentQueueState();
            arm.bQueuedPresentLimitReached = present(caller, device, arm.VidPnSourceId)?.limit_reached.into();
            arguments.Anonymous.PresentQueueState = arm;
        }
        kind => return Err(invalid(format!("no state of a device has the kind {kind}"))),
    }
    Ok(NtStatus::SUCCESS)
}

fn execution(caller: &Caller<'_>, device: RawHandle) -> Result<D3DKMT_DEVICEEXECUTION_STATE, Refusal> {
    let reply = caller.process.call(Call::Device(DeviceCall::GetDeviceState { device }))?;
    Ok(match expect_reply!(reply, Reply::DeviceState(state) => state) {
        DeviceState::Active => D3DKMT_DEVICEEXECUTION_ACTIVE,
        DeviceState::Reset => D3DKMT_DEVICEEXECUTION_RESET,
        DeviceState::Hung => D3DKMT_DEVICEEXECUTION_HUNG,
        DeviceState::Stopped => D3DKMT_DEVICEEXECUTION_STOPPED,
        DeviceState::ErrorOutOfMemory => D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY,
        DeviceState::ErrorDmaFault => D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT,
        DeviceState::ErrorDmaPageFault => D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT,
    })
}

/// Zeros of a device that was lost for no fault.
fn page_fault(caller: &Caller<'_>, device: RawHandle) -> Result<D3DKMT_DEVICEPAGEFAULT_STATE, Refusal> {
    /// `DXGK_PAGE_FAULT_WRITE`.
    const WRITE: INT = 1;
    /// `DXGK_FAULT_ERROR_CODE`: bit 0 is for codes of a device, the rest is a general one.
    const INVALID_INSTRUCTION: UINT = 1 << 1;
    let reply = caller.process.call(Call::Device(DeviceCall::GetDeviceFault { device }))?;
    let mut state = D3DKMT_DEVICEPAGEFAULT_STATE::zeroed();
    if let Some(fault) = expect_reply!(reply, Reply::DeviceFault(fault) => fault) {
        state.FaultedVirtualAddress = fault.address;
        state.PageFaultFlags = if fault.write { WRITE } else { 0 };
        state.FaultErrorCode = if fault.invalid_instruction { INVALID_INSTRUCTION } else { 0 };
    }
    Ok(state)
}

fn present(caller: &Caller<'_>, device: RawHandle, source: u32) -> Result<PresentState, Refusal> {
    let call = DisplayCall::GetPresentState { device, source: VidPnSourceId(source) };
    Ok(expect_reply!(caller.process.call(Call::Display(call))?, Reply::PresentState(state) => state))
}

/// The count goes around, as it does there.
fn shown(state: &PresentState) -> UINT {
    // CAST: the low half.
    state.shown as UINT
}

/// The device is lost from now on, whatever it does.
pub fn mark_device_as_error(caller: &Caller<'_>, arguments: &D3DKMT_MARKDEVICEASERROR) -> Answer {
    let by_driver = match arguments.Reason {
        D3DKMT_DEVICE_ERROR_REASON_GENERIC => false,
        D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR => true,
        other => return Err(invalid(format!("Reason {other:#x}: give GENERIC or DRIVER_ERROR"))),
    };
    let device = RawHandle(arguments.hDevice);
    caller.process.call(Call::Device(DeviceCall::MarkDeviceAsError { device, by_driver }))?;
    Ok(NtStatus::SUCCESS)
}

/// The calling thread waits until the GPU is done with all commands that the device was given before.
pub fn wait_for_idle(caller: &Caller<'_>, arguments: &D3DKMT_WAITFORIDLE) -> Answer {
    caller.process.call(Call::Device(DeviceCall::WaitForIdle { device: RawHandle(arguments.hDevice) }))?;
    Ok(NtStatus::SUCCESS)
}
