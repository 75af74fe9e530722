//! `DXGK_SEGMENTFLAGS`: the kind and permitted uses of a segment (memory §1.5). VidMm decides which combinations are allowed.

bitflags::bitflags! {
    /// `DXGK_SEGMENTFLAGS` (memory §1.5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SegmentFlags: u32 {
        /// Address space only: needs map and unmap paging operations.
        const APERTURE = 1 << 0;
        /// GART-backed: WDDM 1 only, at most one, no other flag beside it.
        const AGP = 1 << 1;
        /// The CPU reaches it linearly at the CPU-translated address. Ignored on apertures.
        const CPU_VISIBLE = 1 << 2;
        /// A bank table is valid (descriptors 1 and 3).
        const USE_BANKING = 1 << 3;
        /// Keeps coherency with cacheable pages mapped through it. Ignored on memory segments.
        const CACHE_COHERENT = 1 << 4;
        /// Sized by PitchAlignedSize; never an eviction target.
        const PITCH_ALIGNMENT = 1 << 5;
        /// Backed by OS-visible RAM that the driver took when it started. Ignored on apertures.
        const POPULATED_FROM_SYSTEM_MEMORY = 1 << 6;
        /// Content survives standby.
        const PRESERVED_DURING_STANDBY = 1 << 7;
        /// Content survives hibernate; requires standby.
        const PRESERVED_DURING_HIBERNATE = 1 << 8;
        /// A part survives hibernate; requires standby, excludes the bit before.
        const PARTIALLY_PRESERVED_DURING_HIBERNATE = 1 << 9;
        /// Allocations can be pinned and scanned out.
        const DIRECT_FLIP = 1 << 10;
        /// Managed in 64-KB pages.
        const USE_64KB_PAGES = 1 << 11;
        /// For the OS; drivers leave it 0.
        const RESERVED_SYS_MEM = 1 << 12;
        /// Reached through a programmable host aperture; excludes CPU_VISIBLE.
        const SUPPORTS_CPU_HOST_APERTURE = 1 << 13;
        /// That aperture is CPU-cache-coherent; requires the bit before.
        const SUPPORTS_CACHED_CPU_HOST_APERTURE = 1 << 14;
        /// Counts in application budgets.
        const APPLICATION_TARGET = 1 << 15;
        /// A video-protected region exists.
        const VPR_SUPPORTED = 1 << 16;
        /// The protected region survives standby.
        const VPR_PRESERVED_DURING_STANDBY = 1 << 17;
        /// Protected content is encrypted when it is paged.
        const ENCRYPTED_PAGING_SUPPORTED = 1 << 18;
        /// Counts in the local budget group.
        const LOCAL_BUDGET_GROUP = 1 << 19;
        /// Counts in the non-local budget group.
        const NON_LOCAL_BUDGET_GROUP = 1 << 20;
        /// Memory that the firmware reserved (WDDM 2.9).
        const POPULATED_BY_RESERVED_DDR_BY_FIRMWARE = 1 << 21;
    }
}

impl SegmentFlags {
    /// The bits that no version names (22 to 31); a driver leaves them 0.
    pub const RESERVED: u32 = !0 << 22;
}
