//! Allocations as a driver describes them (memory §2).

use wddm_types::{SegmentId, SegmentSet};

/// The driver's handle of an allocation (`hAllocation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KmdAllocation(pub u64);

/// `D3DDDI_ALLOCATIONPRIORITY_NORMAL` (memory §2.3).
pub const PRIORITY_NORMAL: u32 = 0x7800_0000;

bitflags::bitflags! {
    /// `DXGK_ALLOCATIONINFOFLAGS_WDDM2_0` (memory §2.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AllocationFlags: u32 {
        /// The CPU may lock it.
        const CPU_VISIBLE = 1 << 0;
        /// Keep the system copy while in a memory segment.
        const PERMANENT_SYS_MEM = 1 << 1;
        /// Backing store is cacheable; requires CPU_VISIBLE.
        const CACHED = 1 << 2;
        /// Backing store in kernel space.
        const PROTECTED = 1 << 3;
        /// Backing store is the caller's memory.
        const EXISTING_SYS_MEM = 1 << 4;
        /// Backing store is kernel memory that exists.
        const EXISTING_KERNEL_SYS_MEM = 1 << 5;
        /// Search free space from the top.
        const FROM_END_OF_SEGMENT = 1 << 6;
        /// Never use a large-page entry.
        const DISABLE_LARGE_PAGE_MAPPING = 1 << 7;
        /// Contiguous in memory segments, mapped in the aperture when in system memory.
        const ACCESSED_PHYSICALLY = 1 << 15;
        /// NOTIFY_RESIDENCY is wanted; needs ACCESSED_PHYSICALLY.
        const EXPLICIT_RESIDENCY_NOTIFICATION = 1 << 16;
    }
}

/// `DXGK_SEGMENTPREFERENCE` (memory §2.4): up to five ids, strongest first; 0 ends the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentPreference(pub [SegmentId; 5]);

/// `DXGK_ALLOCATIONINFO` (memory §2.1): the outputs of a driver's CreateAllocation for one allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationInfo {
    /// Required alignment in bytes; a multiple of 64 KB where a supported segment has 64-KB pages. 0: a page.
    pub alignment_bytes: u64,
    /// Bytes, not 0; VidMm rounds up to pages.
    pub size_bytes: u64,
    /// Placement order.
    pub preferred_segment: SegmentPreference,
    /// Where it may be (`SupportedWriteSegmentSet`, the set that counts from WDDM 2.0 on).
    pub supported_segments: SegmentSet,
    /// Aperture segments that it may be evicted through; empty: straight to system memory.
    pub eviction_segments: SegmentSet,
    /// The driver's handle.
    pub allocation: KmdAllocation,
    /// Flags.
    pub flags: AllocationFlags,
    /// Starting priority; 0 is invalid.
    pub priority: u32,
}

/// `DXGKARG_CREATEALLOCATION` for one allocation: the user-mode driver's private data go in, [`AllocationInfo`] comes out.
#[derive(Debug)]
pub struct CreateAllocation<'a> {
    /// Per-allocation blob from the user-mode driver; untrusted.
    pub private_data: &'a [u8],
    /// Filled by the driver.
    pub info: AllocationInfo,
}
