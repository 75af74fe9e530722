//! Allocations that a driver makes for a context or a device of its own (memory §7.5).

use wddm_types::{GpuVa, SegmentSet};

use crate::allocation::{AllocationFlags, KmdAllocation, SegmentBankPreference, SegmentPreference};

/// The kernel's handle of a context allocation (`hAllocation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsContextAllocation(pub u64);

bitflags::bitflags! {
    /// `ContextAllocationFlags` (memory §7.5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ContextAllocationFlags: u32 {
        /// It belongs to the device and serves all its contexts.
        const SHARED_ACROSS_CONTEXTS = 1 << 0;
        /// It gets an address in the application's space.
        const MAP_GPU_VIRTUAL_ADDRESS = 1 << 1;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }
}

bitflags::bitflags! {
    /// `D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE` of a context allocation's address (memory §4.8). Zero and NoAccess show no
    /// allocation, and SystemUseOnly is the kernel's: they are refused.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MapProtection: u64 {
        /// Engines write.
        const WRITE = 1 << 0;
        /// Engines execute.
        const EXECUTE = 1 << 1;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }
}

/// `DXGKARGCB_CREATECONTEXTALLOCATION` (memory §7.5), of the context or device that is being created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateContextAllocation {
    /// The purpose of the allocation.
    pub context_flags: ContextAllocationFlags,
    /// The driver's handle (`hDriverAllocation`).
    pub allocation: KmdAllocation,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Alignment in bytes; 0: a page.
    pub alignment_bytes: u64,
    /// Where it may be.
    pub supported_segments: SegmentSet,
    /// Aperture segments that it may be evicted through.
    pub eviction_segments: SegmentSet,
    /// Placement order.
    pub preferred_segment: SegmentPreference,
    /// Bank order.
    pub hinted_bank: SegmentBankPreference,
    /// Flags of the allocation.
    pub flags: AllocationFlags,
}

/// `DXGKARGCB_MAPCONTEXTALLOCATION` (memory §7.5): an address in the application's space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapContextAllocation {
    /// The context allocation to map.
    pub allocation: OsContextAllocation,
    /// Exactly here; NULL: the kernel chooses.
    pub base: GpuVa,
    /// Lowest address; NULL: no bound.
    pub minimum: GpuVa,
    /// End of the window; NULL: no bound.
    pub maximum: GpuVa,
    /// First page.
    pub offset_in_pages: u64,
    /// How many pages.
    pub size_in_pages: u64,
    /// Accesses that engines may make there beside reading (`Protection`).
    pub protection: MapProtection,
    /// Opaque bits of the entries (`DriverProtection`).
    pub driver_protection: u64,
}
