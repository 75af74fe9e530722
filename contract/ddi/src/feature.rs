//! Feature negotiation between kernel and driver (sync §2.10, §3.1): ids, a driver's answer, the kernel's, and the tables of functions
//! that come with a feature. The kernel has the order of the steps and the decision.

/// `DXGK_FEATURE_ID` (sync §2.10): category in bits 28–31, number below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureId(pub u32);

impl FeatureId {
    /// 0, `HWSCH`.
    pub const HWSCH: FeatureId = FeatureId(0);
    /// 1, `HWFLIPQUEUE`.
    pub const HWFLIPQUEUE: FeatureId = FeatureId(1);
    /// 4, `USER_MODE_SUBMISSION`.
    pub const USER_MODE_SUBMISSION: FeatureId = FeatureId(4);
    /// 5, `SHARE_BACKING_STORE_WITH_KMD`.
    pub const SHARE_BACKING_STORE_WITH_KMD: FeatureId = FeatureId(5);
    /// 36, `GPUVAIOMMU`: of the whole machine, not of an adapter.
    pub const GPUVAIOMMU: FeatureId = FeatureId(36);
    /// 37, `NATIVE_FENCE`.
    pub const NATIVE_FENCE: FeatureId = FeatureId(37);
}

/// `DXGKARG_QUERYFEATURESUPPORT`: a driver's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureSupport {
    /// Lowest version; 0 if not supported.
    pub min_version: u16,
    /// Highest version; 0 if not supported.
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
    /// Whether the feature is on.
    pub enabled: bool,
    /// The kernel knows the id.
    pub known: bool,
    /// The driver supports it.
    pub supported_by_driver: bool,
    /// On this machine.
    pub supported_on_current_config: bool,
}

/// `DXGKARGCB_QUERYFEATUREINTERFACE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryFeatureInterface {
    /// Of which feature.
    pub feature: FeatureId,
    /// In which version.
    pub version: u16,
    /// In: for how many bytes the driver has room. Out: how many the table has.
    pub size: u16,
    /// Out: the table.
    pub interface: FeatureInterface,
}

impl QueryFeatureInterface {
    /// Asks for a feature's table, with room for so many bytes.
    pub fn new(feature: FeatureId, version: u16, size: u16) -> QueryFeatureInterface {
        QueryFeatureInterface { feature, version, size, interface: FeatureInterface::None }
    }
}

/// The answer of the kernel's `QueryFeatureInterface`: a feature's table of functions in one version. A later version stands beside the
/// first, it never replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FeatureInterface {
    /// The feature has no table.
    None,
    /// `DXGKCBINT_FEATURE_NATIVEFENCE_1`.
    NativeFence1(NativeFenceInterface1),
}

impl FeatureInterface {
    /// Bytes of the C table (sync §2.10).
    pub fn size(&self) -> u16 {
        match self {
            FeatureInterface::None => 0,
            FeatureInterface::NativeFence1(_) => NativeFenceInterface1::BYTES,
        }
    }
}

/// `DXGKCBINT_FEATURE_NATIVEFENCE_1`: version 1 of what comes with NATIVE_FENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeFenceInterface1 {
    os_caps: NativeFenceOsCaps,
}

impl NativeFenceInterface1 {
    /// Bytes of the C table: one pointer.
    pub const BYTES: u16 = 8;

    /// The table of a kernel with these capabilities.
    pub fn new(os_caps: NativeFenceOsCaps) -> Self {
        NativeFenceInterface1 { os_caps }
    }

    /// `GetOSCaps`, passive level.
    pub fn get_os_caps(&self) -> NativeFenceOsCaps {
        self.os_caps
    }
}

/// `DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1`: the kernel's permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeFenceOsCaps {
    /// `SupportOptimizedDefaultFenceType`: MonitoredValue may lie in video memory.
    pub optimized_default_fence_type: bool,
    /// `SupportIntraGpuFenceType`: INTRA_GPU fences may be created.
    pub intra_gpu_fence_type: bool,
}
