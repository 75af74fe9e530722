//! Calls on devices, their state, and their paging queues.

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

/// A call on a device or one of its paging queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceCall {
    /// `D3DKMTCreateDevice` → `Handle`.
    CreateDevice {
        /// The adapter.
        adapter: RawHandle,
    },
    /// `D3DKMTDestroyDevice`: everything on it goes too.
    DestroyDevice {
        /// The device.
        device: RawHandle,
    },
    /// `D3DKMTGetDeviceState` of the kind PAGE_FAULT → `DeviceFault`. Works on a device in error.
    GetDeviceFault {
        /// The device.
        device: RawHandle,
    },
    /// `D3DKMTGetDeviceState` → `DeviceState`. Works on a device in error.
    GetDeviceState {
        /// The device.
        device: RawHandle,
    },
    /// `D3DKMTMarkDeviceAsError`: the device is lost, in the state Stopped, as if the kernel had found a fault.
    MarkDeviceAsError {
        /// A device that lives.
        device: RawHandle,
        /// Its user-mode driver failed (DRIVER_ERROR); else the reason is GENERIC.
        by_driver: bool,
    },
    /// `D3DKMTWaitForIdle`: the kernel answers when the GPU is done with all commands that the device's contexts and queues were given before
    /// the call. Signals, waits and empty submissions without commands behind them are not waited for.
    WaitForIdle {
        /// The device.
        device: RawHandle,
    },
    /// `D3DKMTCreatePagingQueue` → `PagingQueue`.
    CreatePagingQueue {
        /// The device.
        device: RawHandle,
        /// `D3DDDI_PAGINGQUEUE_PRIORITY`: -1, 0 or 1. Of a device's queues that come with the same turn, the higher is first.
        priority: i32,
        /// `PhysicalAdapterIndex`: 0.
        physical_adapter: u32,
    },
    /// `D3DKMTDestroyPagingQueue`: drains, then destroys the fence.
    DestroyPagingQueue {
        /// The queue.
        queue: RawHandle,
    },
}

impl DeviceCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            DeviceCall::CreateDevice { .. } => "CreateDevice",
            DeviceCall::DestroyDevice { .. } => "DestroyDevice",
            DeviceCall::GetDeviceFault { .. } | DeviceCall::GetDeviceState { .. } => "GetDeviceState",
            DeviceCall::MarkDeviceAsError { .. } => "MarkDeviceAsError",
            DeviceCall::WaitForIdle { .. } => "WaitForIdle",
            DeviceCall::CreatePagingQueue { .. } => "CreatePagingQueue",
            DeviceCall::DestroyPagingQueue { .. } => "DestroyPagingQueue",
        }
    }
}
