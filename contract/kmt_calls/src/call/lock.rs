//! Calls about the CPU's access to allocations (memory §6.3, §6.5).

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

use super::flags::LockFlags;

/// A call by which the CPU gets or gives back its access to allocations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockCall {
    /// `D3DKMTLock`, the legacy lock → `Locked` (memory §6.5).
    Lock {
        /// The device.
        device: RawHandle,
        /// The allocation.
        allocation: RawHandle,
        /// For the driver's swizzling range.
        private_driver_data: u32,
        /// Pages wanted; empty with LOCK_ENTIRE.
        pages: Vec<u32>,
        /// Flags of the lock.
        flags: LockFlags,
    },
    /// `D3DKMTUnlock`: one lock of each.
    Unlock {
        /// The device.
        device: RawHandle,
        /// The allocations.
        allocations: Vec<RawHandle>,
    },
    /// `D3DKMTLock2` → `Mapped`.
    Lock2 {
        /// The device.
        device: RawHandle,
        /// The allocation.
        allocation: RawHandle,
        /// Must be 0.
        flags: u32,
    },
    /// `D3DKMTUnlock2`.
    Unlock2 {
        /// The device.
        device: RawHandle,
        /// The allocation.
        allocation: RawHandle,
    },
}

impl LockCall {
    /// The function's name.
    pub const fn name(&self) -> &'static str {
        match self {
            LockCall::Lock { .. } => "Lock",
            LockCall::Unlock { .. } => "Unlock",
            LockCall::Lock2 { .. } => "Lock2",
            LockCall::Unlock2 { .. } => "Unlock2",
        }
    }
}
