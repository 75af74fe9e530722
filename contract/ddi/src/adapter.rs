//! Statuses, feature negotiation and nodes of an adapter (sync §2.10, §3.1). Capabilities are in `caps`.

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
}

/// `DXGK_FEATURE_ID` (sync §2.10): the ids that this kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureId(pub u32);

impl FeatureId {
    /// 0, `HWSCH`.
    pub const HWSCH: FeatureId = FeatureId(0);
    /// 4, `USER_MODE_SUBMISSION`.
    pub const USER_MODE_SUBMISSION: FeatureId = FeatureId(4);
    /// 37, `NATIVE_FENCE`.
    pub const NATIVE_FENCE: FeatureId = FeatureId(37);
}

/// `DXGKARG_QUERYFEATURESUPPORT`: a driver's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureSupport {
    /// Lowest version; 0 if not supported.
    pub min_version: u16,
    /// Highest version.
    pub max_version: u16,
    /// The driver has it.
    pub supported_by_driver: bool,
    /// And it works on this machine.
    pub supported_on_current_config: bool,
}

/// `DXGK_ISFEATUREENABLED_RESULT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureState {
    /// The version negotiated; 0 when off.
    pub version: u16,
    /// On.
    pub enabled: bool,
    /// The kernel knows the id.
    pub known: bool,
    /// The driver supports it.
    pub supported_by_driver: bool,
    /// On this machine.
    pub supported_on_current_config: bool,
}

/// `DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1`: what the kernel allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeFenceOsCaps {
    /// MonitoredValue may lie in video memory.
    pub optimized_default_fence_type: bool,
    /// INTRA_GPU fences may be created.
    pub intra_gpu_fence_type: bool,
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
    /// `MaxInFlightHwQueueBuffers`; 0 = unlimited.
    pub max_in_flight_buffers: u16,
}
