//! Every choice that the specification leaves to the implementer (its rows tagged [R]), in one place. Not a
//! configuration file: whoever starts an adapter fills it once.
//!
//! Choices that are code, not numbers, and where they live:
//! - the backing store stays committed while content lies in a memory segment (memory §8.3 lets VidMm free it): this
//!   is what makes the eviction of a clean range free of copies (`residency`);
//! - victims are the lazily evicted allocations in the order of their last evict (memory §8.2) (`victim`);
//! - a victim loses pages from its end, only as many as are needed (memory §8.3, partial residency) (`victim`);
//! - content that sits in system memory for lack of room is placed anew at the next MakeResident from count 0, instead
//!   of being promoted in the background (memory §8.1 step 4) (`residency`);
//! - a combination of power flags that the specification does not list fails adapter start (memory §1.13) (`segment`).

use wddm_types::{GpuVa, PageRun, Pages};

/// The choices of one adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// System memory for backing stores and the kernel's own pages, by page number.
    pub system_pages: PageRun,
    /// Taken from the end of the page-table segment for page tables; not available to allocations.
    pub page_table_reserve: Pages,
    /// The part of `page_table_reserve` for the tables of the paging process. They have frames of their own because
    /// the CPU writes them at once: a frame that queued work still writes must not become one of them.
    pub paging_table_reserve: Pages,
    /// The 32-bit pattern that memory holds before anybody wrote it (memory §3.3, operation 1).
    pub clear_pattern: u32,
    /// Lowest address that VidMm chooses by itself. Entry 0 of the root stays invalid whatever stands here
    /// (memory §4.6).
    pub va_start: GpuVa,
    /// Alignment in bytes of the addresses that VidMm chooses: 64 KB, so that 64-KB pages agree in their low 16 bits
    /// (memory §4.5). A power of two.
    pub va_alignment_bytes: u64,
    /// Most locks outstanding on one allocation (memory §9.3).
    pub lock_count_max: u32,
}

impl Policy {
    /// The usual choices over the given system memory.
    pub const fn new(system_pages: PageRun) -> Policy {
        Policy {
            system_pages,
            page_table_reserve: Pages(16384),
            paging_table_reserve: Pages(256),
            clear_pattern: 0,
            va_start: GpuVa(0),
            va_alignment_bytes: 65536,
            lock_count_max: u32::MAX,
        }
    }
}
