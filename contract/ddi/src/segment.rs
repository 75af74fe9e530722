//! Segments as a driver describes them (memory §1).

use wddm_types::SegmentId;

bitflags::bitflags! {
    /// `DXGK_SEGMENTFLAGS` (memory §1.5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SegmentFlags: u32 {
        /// Address space only: needs map and unmap paging operations.
        const APERTURE = 1 << 0;
        /// GART-backed (obsolete).
        const AGP = 1 << 1;
        /// The CPU reaches it linearly at the CPU-translated address.
        const CPU_VISIBLE = 1 << 2;
        /// A bank table is valid (not with this descriptor).
        const USE_BANKING = 1 << 3;
        /// Keeps coherency with cacheable pages mapped through it (apertures only).
        const CACHE_COHERENT = 1 << 4;
        /// Sized by PitchAlignedSize.
        const PITCH_ALIGNMENT = 1 << 5;
        /// Backed by OS-visible RAM.
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
        /// Reached through a programmable host aperture.
        const SUPPORTS_CPU_HOST_APERTURE = 1 << 13;
        /// That aperture is CPU-cache-coherent.
        const SUPPORTS_CACHED_CPU_HOST_APERTURE = 1 << 14;
        /// Counts in application budgets.
        const APPLICATION_TARGET = 1 << 15;
        /// Counts in the local budget group.
        const LOCAL_BUDGET_GROUP = 1 << 19;
        /// Counts in the non-local budget group.
        const NON_LOCAL_BUDGET_GROUP = 1 << 20;
    }
}

/// `DXGK_SEGMENTDESCRIPTOR4` (memory §1.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentDescriptor4 {
    /// What it is.
    pub flags: SegmentFlags,
    /// GPU-view base: GPU address = base + offset.
    pub base_address: u64,
    /// Bytes; a multiple of the segment's page.
    pub size_bytes: u64,
    /// Apertures: most bytes mapped at once. Memory segments: ignored.
    pub commit_limit_bytes: u64,
    /// With CPU_VISIBLE: origin on the bus.
    pub cpu_translated_address: u64,
}

/// The paging-buffer members of `DXGK_QUERYSEGMENTOUT4`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagingBufferInfo {
    /// An aperture segment, or 0 for contiguous write-combined system memory.
    pub segment: SegmentId,
    /// Bytes of a paging buffer; a multiple of the host page.
    pub size_bytes: u32,
    /// Private bytes per buffer.
    pub private_data_bytes: u32,
}

/// The two-call query `QUERYSEGMENT4` (memory §1.3). On the first call `descriptors` is `None` and the driver writes
/// *only* `count`; on the second it fills each descriptor and the paging-buffer members.
#[derive(Debug)]
pub struct QuerySegment4<'a> {
    /// Physical adapter in a link; 0 otherwise.
    pub physical_adapter: u32,
    /// First call: out. Second call: in.
    pub count: u32,
    /// `None` on the first call.
    pub descriptors: Option<&'a mut [SegmentDescriptor4]>,
    /// Written on the second call only.
    pub paging_buffer: PagingBufferInfo,
}
