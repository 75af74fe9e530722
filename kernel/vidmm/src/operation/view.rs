//! What the CPU sees of content beside its memory, as values: pages of host apertures (memory §6.6), swizzling ranges and the form of what
//! they show (memory §6.5).

use ddi::KmdAllocation;
use wddm_types::SegmentId;

/// Window pages that are to be unmapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowPages {
    /// The memory segment whose window it is.
    pub segment: SegmentId,
    /// The pages.
    pub pages: Vec<u32>,
}

/// Window pages that are to be mapped: page `i` shows memory page `i`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowMap {
    /// The memory segment whose window it is.
    pub segment: SegmentId,
    /// To be unmapped before: those of others that gave up theirs.
    pub unmap: Vec<u32>,
    /// The window's pages.
    pub window_pages: Vec<u32>,
    /// The segment's pages.
    pub memory_pages: Vec<u64>,
}

/// The change that a transfer makes to the form of its content (memory §3.4, flags 0 and 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Nothing that VidMm knows of; an unmarked allocation's is the driver's own affair.
    #[default]
    Kept,
    /// Linear content becomes swizzled.
    Swizzle,
    /// Swizzled content becomes linear.
    Unswizzle,
    /// The CPU saw it through this range at an address of the driver's choice: outside it is to stand in the order in which
    /// the CPU saw it (SPECIAL_LOCK_TRANSFER, memory §3.4).
    Special(HeldRange),
}

/// A range, and what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRange {
    /// The allocation of the content.
    pub allocation: KmdAllocation,
    /// From the lock.
    pub private_driver_data: u32,
    /// Which range, from 0.
    pub range: u32,
}

/// A range that the driver is to acquire for a lock. If it does not: [`VidMm::range_failed`](crate::VidMm::range_failed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeWish {
    /// To be released before.
    pub release: Option<HeldRange>,
    /// To be acquired.
    pub acquire: HeldRange,
    /// The allocation's segment.
    pub segment: SegmentId,
    /// Bytes of the view.
    pub range_bytes: u64,
    /// Where the view begins on the bus.
    pub cpu_translated_address: u64,
}
