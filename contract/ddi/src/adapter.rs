//! Statuses and nodes of an adapter. Capabilities are in `caps`, features in the file of that name.

mod caps;

pub use caps::{AdapterCaps, DdiVersion, DriverModel, PowerState, VidMmCaps};

/// Why a driver refuses; the statuses that the contract allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverStatus {
    /// `STATUS_INVALID_PARAMETER`.
    #[error("the driver says: invalid parameter ({0})")]
    InvalidParameter(&'static str),
    /// `STATUS_NO_MEMORY`.
    #[error("the driver says: no memory ({0})")]
    NoMemory(&'static str),
    /// `STATUS_NOT_SUPPORTED`.
    #[error("the driver says: not supported ({0})")]
    NotSupported(&'static str),
    /// `STATUS_UNSUCCESSFUL`.
    #[error("the driver says: failed ({0})")]
    Unsuccessful(&'static str),
    /// `STATUS_BUFFER_TOO_SMALL`.
    #[error("the driver says: buffer too small ({0})")]
    BufferTooSmall(&'static str),
    /// `STATUS_GRAPHICS_DRIVER_MISMATCH`. Its severity is informational, and it is a failure all the same (memory §9.1): nothing
    /// of the call exists. For `CreateAllocation`, `OpenAllocation` and the creation of contexts.
    #[error("the driver says: a user-mode driver of another version ({0})")]
    DriverMismatch(&'static str),
}

/// `DXGK_NODEMETADATA` (sync §2.9).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMetadata {
    /// For people.
    pub name: &'static str,
    /// `GpuMmuSupported`: the node runs contexts in GPU address spaces. Without it contexts of packet scheduling name memory by
    /// lists and are patched (memory §5.6).
    pub gpu_mmu_supported: bool,
    /// `UserModeSubmission`.
    pub user_mode_submission: bool,
    /// Its engines interrupt when they have signalled a monitored fence ("advanced" engines, sync §3.7). No bit of WDDM says
    /// it; a driver knows. Without, the kernel looks at each command buffer that completes.
    pub fence_interrupt: bool,
    /// `MaxInFlightHwQueueBuffers`; 0 = unlimited.
    pub max_in_flight_buffers: u16,
}
