//! The features that the kernel knows by id (sync §2.10), which of them it has, and what each needs. Data only.

use ddi::FeatureId;

/// One feature.
pub struct Known {
    pub feature: FeatureId,
    /// Its name, `DXGK_FEATURE_` left out.
    pub name: &'static str,
    /// Lowest and highest version that this kernel has; `None`: it knows the name only.
    pub versions: Option<(u16, u16)>,
    /// A driver has a part in it, and is asked.
    pub of_driver: bool,
    /// Of the whole machine, not of an adapter.
    pub global: bool,
    /// Features that must be on before. The documents say that 0, 4 and 37 have needs and do not list them; these are the recommended
    /// ones (sync §6 B21).
    pub needs: &'static [FeatureId],
}

/// A driver feature that this kernel does not have.
const fn name_only(id: u32, name: &'static str) -> Known {
    Known { feature: FeatureId(id), name, versions: None, of_driver: true, global: false, needs: &[] }
}

/// The same of the operating system: category 1, or said to be none of a driver's.
const fn of_os(id: u32, name: &'static str) -> Known {
    Known { of_driver: false, ..name_only(id, name) }
}

/// One that this kernel has, in version 1.
const fn had(feature: FeatureId, name: &'static str, needs: &'static [FeatureId]) -> Known {
    Known { feature, name, versions: Some((1, 1)), of_driver: true, global: false, needs }
}

/// All features; a needed one stands before those that need it.
// spec: sync §2.10, sync §6 B21
pub const KNOWN: &[Known] = &[
    had(FeatureId::HWSCH, "HWSCH", &[]),
    had(FeatureId::NATIVE_FENCE, "NATIVE_FENCE", &[FeatureId::HWSCH]),
    had(FeatureId::USER_MODE_SUBMISSION, "USER_MODE_SUBMISSION", &[FeatureId::HWSCH, FeatureId::NATIVE_FENCE]),
    // spec: sync §4.6, released drivers have it with hardware scheduling only
    had(FeatureId::HWFLIPQUEUE, "HWFLIPQUEUE", &[FeatureId::HWSCH]),
    name_only(2, "LDA_GPUPV"),
    name_only(3, "KMD_SIGNAL_CPU_EVENT"),
    had(FeatureId::SHARE_BACKING_STORE_WITH_KMD, "SHARE_BACKING_STORE_WITH_KMD", &[]),
    name_only(31, "SAMPLE"),
    name_only(32, "PAGE_BASED_MEMORY_MANAGER"),
    name_only(33, "KERNEL_MODE_TESTING"),
    of_os(34, "64K_PT_DEMOTION_FIX"),
    of_os(35, "GPUPV_PRESENT_HWQUEUE"),
    Known { global: true, ..name_only(36, "GPUVAIOMMU") },
    name_only(38, "EXTENDED_SEGMENT_FLAGS"),
    name_only(39, "FAULT_AND_STALL"),
    name_only(40, "SINGLE_ADAPTER_HYBRID_MODE"),
    name_only(41, "SYNC_PRESENT_RENDER_HWQ_ONLY"),
    name_only(42, "UNIFIED_SCHEDULING_MODEL"),
    name_only(43, "NOTIFY_RESIDENCY2"),
    name_only(45, "PROCESS_DEBUG_BLOB_COLLECTION"),
    name_only(46, "PANEL_BUFFER_CONTROL"),
    of_os(0x1000_0000, "QUERYSTATISTICS_EXTENSIONS"),
    of_os(0x1000_0001, "RESERVE_GPUVA_ZERO_BASE_ADDRESS"),
    of_os(0x1000_0002, "PER_PTE_PAGE_SIZE"),
    of_os(0x1000_0003, "FENCE_SIGNAL_FROM_SWS_NODE"),
    of_os(0x1000_0004, "SUPPRESSVSYNC_INTERRUPTS"),
    of_os(0x1000_0005, "FEATURE_INTERFACE_EXTENSIONS"),
    of_os(0x1000_0006, "READONLY_EXISTINGSYSMEM"),
    of_os(0x1000_0007, "OPPORTUNISTIC_64KB_PAGES"),
];

/// The name of a feature in the table.
pub fn name(feature: FeatureId) -> &'static str {
    KNOWN.iter().find(|known| known.feature == feature).map_or("an unknown feature", |known| known.name)
}
