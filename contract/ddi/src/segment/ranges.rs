//! Ranges of a memory segment that VidMm must not use: broken pages, and the pages of the firmware's frame buffer (memory §1.4, queries
//! 12 and 18).

use wddm_types::SegmentId;

/// `DXGK_MEMORYRANGE` (memory §1.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryRange {
    /// Bytes from the segment's start; a multiple of the segment's page.
    pub segment_offset: u64,
    /// Bytes; a multiple of the segment's page.
    pub size_bytes: u64,
}

/// `DXGK_QUERYSEGMENTMEMORYSTATE` (memory §1.4): asks for as many ranges as the descriptor announced.
#[derive(Debug)]
pub struct QueryMemoryRanges<'a> {
    /// The memory segment.
    pub segment: SegmentId,
    /// Physical adapter in a link; 0 otherwise.
    pub physical_adapter: u16,
    /// In: all zero, as many as announced. Out: the ranges.
    pub ranges: &'a mut [MemoryRange],
}
