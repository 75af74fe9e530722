//! A driver's description of its adapter as a whole: its generation, and the capability bits that no facet can tell (memory §0, §1.14).
//! This file checks nothing but whether a version belongs to a generation.

/// The generation of the contract that a driver follows. Each has its own files in the kernel (memory §10.1 row 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverModel {
    /// Descriptors 1 and 3, banks, swizzling, full locks.
    Wddm1,
    /// Descriptor 4, second-generation locks, host apertures.
    #[default]
    Wddm2,
}

/// The interface version that a driver was built for (memory §0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DdiVersion(pub u32);

impl DdiVersion {
    /// Windows Vista.
    pub const WDDM_1_0: DdiVersion = DdiVersion(0x1052);
    /// Windows 7.
    pub const WDDM_1_1: DdiVersion = DdiVersion(0x2005);
    /// Windows 8.
    pub const WDDM_1_2: DdiVersion = DdiVersion(0x300E);
    /// Windows 8.1.
    pub const WDDM_1_3: DdiVersion = DdiVersion(0x4002);
    /// The driver implements WDDM 2.0.
    pub const WDDM_2_0: DdiVersion = DdiVersion(0x5023);
    /// The driver implements WDDM 2.1.
    pub const WDDM_2_1: DdiVersion = DdiVersion(0x6003);
    /// The driver implements WDDM 2.2.
    pub const WDDM_2_2: DdiVersion = DdiVersion(0x700A);
    /// The driver implements WDDM 2.3.
    pub const WDDM_2_3: DdiVersion = DdiVersion(0x8001);
    /// The driver implements WDDM 2.4.
    pub const WDDM_2_4: DdiVersion = DdiVersion(0x9006);
    /// The driver implements WDDM 2.5.
    pub const WDDM_2_5: DdiVersion = DdiVersion(0xA00B);
    /// The driver implements WDDM 2.6.
    pub const WDDM_2_6: DdiVersion = DdiVersion(0xB004);
    /// The driver implements WDDM 2.7.
    pub const WDDM_2_7: DdiVersion = DdiVersion(0xC004);
    /// The driver implements WDDM 2.8.
    pub const WDDM_2_8: DdiVersion = DdiVersion(0xD001);
    /// The driver implements WDDM 2.9.
    pub const WDDM_2_9: DdiVersion = DdiVersion(0xE003);
    /// The driver implements WDDM 3.0.
    pub const WDDM_3_0: DdiVersion = DdiVersion(0xF003);
    /// The driver implements WDDM 3.1.
    pub const WDDM_3_1: DdiVersion = DdiVersion(0x1_0004);
    /// The driver implements WDDM 3.2.
    pub const WDDM_3_2: DdiVersion = DdiVersion(0x1_1008);

    /// The levels that people name, from the oldest, each with its version.
    // spec: memory §0, sync §0
    pub const LEVELS: [(&'static str, DdiVersion); 17] = [
        ("1.0", DdiVersion::WDDM_1_0),
        ("1.1", DdiVersion::WDDM_1_1),
        ("1.2", DdiVersion::WDDM_1_2),
        ("1.3", DdiVersion::WDDM_1_3),
        ("2.0", DdiVersion::WDDM_2_0),
        ("2.1", DdiVersion::WDDM_2_1),
        ("2.2", DdiVersion::WDDM_2_2),
        ("2.3", DdiVersion::WDDM_2_3),
        ("2.4", DdiVersion::WDDM_2_4),
        ("2.5", DdiVersion::WDDM_2_5),
        ("2.6", DdiVersion::WDDM_2_6),
        ("2.7", DdiVersion::WDDM_2_7),
        ("2.8", DdiVersion::WDDM_2_8),
        ("2.9", DdiVersion::WDDM_2_9),
        ("3.0", DdiVersion::WDDM_3_0),
        ("3.1", DdiVersion::WDDM_3_1),
        ("3.2", DdiVersion::WDDM_3_2),
    ];

    /// The generation that it belongs to.
    pub fn model(self) -> DriverModel {
        if self < DdiVersion::WDDM_2_0 { DriverModel::Wddm1 } else { DriverModel::Wddm2 }
    }
}

impl std::fmt::Display for DdiVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The state that `DxgkDdiSetPowerState` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    /// The device works: its memory has its old content only as far as the segments' flags promise (memory §1.10).
    On,
    /// The computer sleeps.
    Standby,
    /// The computer is off, or sleeps as if it were (hybrid sleep).
    Hibernate,
}

bitflags::bitflags! {
    /// `DXGK_VIDMMCAPS` (memory §1.14).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct VidMmCaps: u32 {
        /// May lock another than the latest rename instance.
        const OUT_OF_ORDER_LOCK = 1 << 0;
        /// A driver leaves it 0.
        const DEDICATED_PAGING_ENGINE = 1 << 1;
        /// A driver leaves it 0.
        const PAGING_ENGINE_CAN_SWIZZLE = 1 << 2;
        /// Primaries are backed by sections.
        const SECTION_BACKED_PRIMARY = 1 << 3;
        /// Resources can be shared with another adapter.
        const CROSS_ADAPTER_RESOURCE = 1 << 4;
        /// GPU virtual addresses. The kernel derives it from the facet; it needs one of the two bits after it.
        const VIRTUAL_ADDRESSING_SUPPORTED = 1 << 5;
        /// The GPU has page tables of its own. The kernel derives it from the facet.
        const GPU_MMU_SUPPORTED = 1 << 6;
        /// The GPU uses the CPU's page tables through the IOMMU; excludes the bit before.
        const IO_MMU_SUPPORTED = 1 << 7;
        /// GDI content is replicated over a link.
        const REPLICATE_GDI_CONTENT = 1 << 8;
        /// Primaries may be where the CPU does not reach.
        const NON_CPU_VISIBLE_PRIMARY = 1 << 9;
        /// Can be given to a virtual machine.
        const PARAVIRTUALIZATION_SUPPORTED = 1 << 10;
        /// Works with the IOMMU isolating it.
        const IO_MMU_SECURE_MODE_SUPPORTED = 1 << 11;
        /// Video memory is not refreshed in S3.
        const DISABLE_SELF_REFRESH_VRAM_IN_S3 = 1 << 12;
        /// Works only with the IOMMU isolating it.
        const IO_MMU_SECURE_MODE_REQUIRED = 1 << 13;
        /// Understands the second form of the aperture map. The kernel derives it from the capability of that name.
        const MAP_APERTURE2_SUPPORTED = 1 << 14;
        /// Shared resources can be textures; needs CROSS_ADAPTER_RESOURCE.
        const CROSS_ADAPTER_RESOURCE_TEXTURE = 1 << 15;
        /// Shared resources can be scanned out; needs both others.
        const CROSS_ADAPTER_RESOURCE_SCANOUT = 1 << 16;
        /// Video memory keeps its power while the device is off.
        const ALWAYS_POWERED_VRAM = 1 << 17;
    }
}

/// `DXGK_DRIVERCAPS`, `DXGK_VIDMMCAPS` and `DXGK_VIDSCHCAPS` as far as no facet tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterCaps {
    /// The generation of the contract; it agrees with `ddi_version`.
    pub driver_model: DriverModel,
    /// The interface version that the driver was built for.
    pub ddi_version: DdiVersion,
    /// `MemoryManagementCaps`.
    pub memory: VidMmCaps,
    /// `HighestAcceptableAddress`: the last byte of system memory that the device reaches.
    pub highest_acceptable_address: u64,
    /// `ApertureSegmentCommitLimit`: most bytes of system memory mapped by all apertures together (memory §1.12).
    pub aperture_segment_commit_limit_bytes: u64,
    /// `NativeGpuFence`: the driver wants native fences. Legal only from version 3.2 on, with the feature enabled and the
    /// facet there.
    pub native_gpu_fence: bool,
    /// `OptimizedNativeFenceSignaledInterrupt`.
    pub optimized_native_fence_interrupt: bool,
    /// `No64BitAtomics`.
    pub no_64_bit_atomics: bool,
    /// Node that runs paging buffers (`PagingNodeIndex`).
    pub paging_node: u16,
    /// The driver pages by GPU virtual address: content is moved by operations 8 and 9 instead of 0 and 1 (memory §3.3).
    /// Only with the GPU-VA facet.
    pub paging_by_gpu_va: bool,
    /// `MovePagingSupported` (memory §1.14): a transfer may go from one place of a segment to another.
    pub move_paging_supported: bool,
}

impl Default for AdapterCaps {
    /// A WDDM 3.2 driver whose device reaches all of system memory, without any optional capability.
    fn default() -> Self {
        AdapterCaps {
            driver_model: DriverModel::Wddm2,
            ddi_version: DdiVersion::WDDM_3_2,
            memory: VidMmCaps::empty(),
            highest_acceptable_address: u64::MAX,
            aperture_segment_commit_limit_bytes: u64::MAX,
            native_gpu_fence: false,
            optimized_native_fence_interrupt: false,
            no_64_bit_atomics: false,
            paging_node: 0,
            paging_by_gpu_va: false,
            move_paging_supported: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_belongs_to_one_generation() {
        // spec: memory §0
        for version in [DdiVersion::WDDM_1_0, DdiVersion(0x1053), DdiVersion::WDDM_1_3] {
            assert_eq!(version.model(), DriverModel::Wddm1);
        }
        for version in [DdiVersion::WDDM_2_0, DdiVersion::WDDM_2_9, AdapterCaps::default().ddi_version] {
            assert_eq!(version.model(), DriverModel::Wddm2);
        }
    }
}
