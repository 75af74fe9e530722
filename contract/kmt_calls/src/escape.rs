//! Private calls to a driver (`D3DKMTEscape`).

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

/// Most bytes of a private call.
pub const ESCAPE_BYTES_MAX: usize = 1 << 16;
/// `D3DKMT_ESCAPE_DRIVERPRIVATE`: the data are the driver's.
pub const ESCAPE_DRIVER_PRIVATE: u32 = 0;

bitflags::bitflags! {
    /// `D3DDDI_ESCAPEFLAGS`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct EscapeFlags: u32 {
        /// The driver needs its hardware for it.
        const HARDWARE_ACCESS = 1 << 0;
        /// For the runtime, which answers it itself.
        const DEVICE_STATUS_QUERY = 1 << 1;
        /// The same.
        const CHANGE_FRAME_LATENCY = 1 << 2;
        /// The kernel is to call the driver without quiescing the adapter for it.
        const NO_ADAPTER_SYNCHRONIZATION = 1 << 3;
        /// The data come out of a virtual machine.
        const VIRTUAL_MACHINE_DATA = 1 << 5;
        /// A form that all drivers are told of.
        const DRIVER_KNOWN_ESCAPE = 1 << 6;
        /// A form that drivers share.
        const DRIVER_COMMON_ESCAPE = 1 << 7;
    }
}

/// `D3DKMT_ESCAPE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscapeCall {
    /// The adapter.
    pub adapter: RawHandle,
    /// A device on it, or NONE.
    pub device: RawHandle,
    /// A context of the device, or NONE.
    pub context: RawHandle,
    /// `D3DKMT_ESCAPETYPE`.
    pub kind: u32,
    /// Flags of the call.
    pub flags: EscapeFlags,
    /// The question to the driver, at most [`ESCAPE_BYTES_MAX`]; the answer is as long.
    pub private_data: Vec<u8>,
}
