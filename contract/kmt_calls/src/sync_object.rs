//! What the calls that create synchronization objects carry (sync §2.1, §2.2).

use crate::call::FenceFlags;

/// The input of `D3DKMT_CREATENATIVEFENCE` (sync §2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeFenceRequest {
    /// Initial CurrentValue.
    pub initial_value: u64,
    /// `D3DDDI_NATIVEFENCE_TYPE` as a number: 0 DEFAULT, 1 INTRA_GPU; others are refused.
    pub fence_type: u32,
    /// `D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS`.
    pub flags: FenceFlags,
}

/// `D3DDDI_MONITORED_FENCE` (sync §1.1).
pub const MONITORED_FENCE: u32 = 5;

/// The input of `D3DDDI_SYNCHRONIZATIONOBJECTINFO2` with the arm MonitoredFence (sync §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynchronizationObjectRequest {
    /// `D3DDDI_SYNCHRONIZATIONOBJECT_TYPE` as a number.
    pub object_type: u32,
    /// `D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS`.
    pub flags: FenceFlags,
    /// InitialFenceValue.
    pub initial_value: u64,
}
