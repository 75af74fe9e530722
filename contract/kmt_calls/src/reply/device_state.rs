//! The answers of GetDeviceState (memory §9.3). Part of `reply`.

use serde::{Deserialize, Serialize};

/// Of GetDeviceFault: where a GPU's work went wrong, as its driver has reported it (memory §5.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFault {
    /// `FaultedVirtualAddress`: of the access, or of the command.
    pub address: u64,
    /// `PageFaultFlags` WRITE.
    pub write: bool,
    /// `FaultErrorCode` INVALID_INSTRUCTION: no address but a command was wrong.
    pub invalid_instruction: bool,
}

/// Of GetPresentState.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresentState {
    /// Flips that the source has shown.
    pub shown: u64,
    /// The device has as many flips queued as it may: its next one waits.
    pub limit_reached: bool,
}

/// `D3DKMT_DEVICEEXECUTION_*` (memory §5.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceState {
    /// 1: the device works.
    Active,
    /// 2: its adapter was reset; it was not the one to blame.
    Reset,
    /// 3: its work did not end, and its engine was reset.
    Hung,
    /// 4: its adapter was stopped (PnP).
    Stopped,
    /// 5: MustSucceed failed.
    ErrorOutOfMemory,
    /// 6: a reference to non-resident memory.
    ErrorDmaFault,
    /// 7: a GPU virtual address faulted.
    ErrorDmaPageFault,
}
