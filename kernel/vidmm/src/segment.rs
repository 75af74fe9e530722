//! The segments of one adapter: what the driver described, with the frames of each. It does not place anything:
//! `residency` does. Called when an adapter starts, and wherever a frame becomes an address.
//!
//! `set` is all of them, `frames` what takes and gives the pages of one, `group` the budget that it counts in;
//! `description` is what a driver said in whichever form, `check`, `levels` and
//! `mmu_caps` the rules that it must keep, `bank` the
//! division of a segment, `totals` the memory of the adapter as a whole.

mod bank;
mod check;
mod description;
mod error;
mod frames;
mod group;
mod levels;
mod mmu_caps;
mod placement;
mod set;
mod totals;

use ddi::{CpuHostAperture, SegmentFlags};
use wddm_types::{PAGE_BYTES, PageRun, Pages, SegmentId};

pub use bank::BankTable;
pub(crate) use check::{check_pitches, check_segments};
pub use description::{MemoryLayout, SegmentDescription};
pub use error::SegmentError;
pub(crate) use levels::check_levels;
pub(crate) use mmu_caps::check_mmu_caps;
pub(crate) use placement::Wish;
pub(crate) use set::Segments;
pub use totals::MemoryTotals;

use crate::pool::FramePool;
use crate::rank::Victims;

/// One segment.
#[derive(Debug)]
pub struct Segment {
    /// Its number.
    pub id: SegmentId,
    /// The driver's description, without the flags that mean nothing on this kind of segment.
    pub descriptor: SegmentDescription,
    /// The flags as the driver said them.
    pub reported: SegmentFlags,
    /// Its banks, if it has any.
    pub banks: Option<BankTable>,
    pool: FramePool,
    /// Runs in which the kernel shows pages of its own: no turn of a device moves them.
    kernels: Vec<PageRun>,
    /// The allocations with pages here, in the order in which they lose them.
    victims: Victims,
    /// Free pages that were cleared ahead.
    cleared_ahead: u64,
}

impl Segment {
    /// Whether it only redirects to system pages.
    pub fn is_aperture(&self) -> bool {
        self.descriptor.is_aperture()
    }

    /// Whether allocations lie in it with their pitches aligned: by PitchAlignedSize, in a layout that only the driver knows.
    // spec: memory §1.5, bit 5; memory §2.6
    pub fn aligns_pitches(&self) -> bool {
        self.descriptor.flags.contains(SegmentFlags::PITCH_ALIGNMENT)
    }

    /// Bytes of its page: 4 KB or 64 KB (memory §1.5 bit 11).
    pub fn page_bytes(&self) -> u64 {
        self.descriptor.page_bytes()
    }

    /// Bytes that allocations can have here: the size without page tables and invalid ranges; for an aperture the commit
    /// limit.
    pub fn capacity_bytes(&self) -> u64 {
        Pages(self.pool.capacity_pages()).bytes()
    }

    /// Bytes that allocations have here now, lazily evicted ones included.
    pub fn resident_bytes(&self) -> u64 {
        Pages(self.used_pages()).bytes()
    }

    /// The GPU's address of a page (`SegmentAddress`).
    // spec: memory §0, memory §1.7
    pub fn gpu_address(&self, frame: u64) -> u64 {
        self.descriptor.base_address + frame * PAGE_BYTES
    }

    /// The bus address of a page, when the CPU reaches the segment linearly: offset in the segment and offset in the
    /// window are the same. The host translates it once more before it maps it.
    // spec: memory §1.7
    pub fn bus_address(&self, frame: u64) -> Option<u64> {
        let origin = self.descriptor.cpu.translated()?;
        self.descriptor.flags.contains(SegmentFlags::CPU_VISIBLE).then_some(origin + frame * PAGE_BYTES)
    }

    /// The bus address of a page of an aperture that the CPU reaches, which counts for primaries and for nothing else.
    // spec: memory §1.5 bit 2, memory §1.7
    pub fn primary_address(&self, frame: u64) -> Option<u64> {
        let told = self.is_aperture() && self.reported.contains(SegmentFlags::CPU_VISIBLE);
        let origin = self.descriptor.cpu.translated().filter(|_| told)?;
        origin.checked_add(frame * PAGE_BYTES)
    }

    /// The programmable window of the CPU, if the segment has one.
    pub fn host_aperture(&self) -> Option<CpuHostAperture> {
        self.descriptor.cpu.host_aperture()
    }
}

fn open_one(id: SegmentId, descriptor: &SegmentDescription, bytes: u64) -> Segment {
    let whole = PageRun { first: 0, count: Pages(bytes / PAGE_BYTES) };
    let mut pool = FramePool::new(whole);
    for run in descriptor.hidden_runs() {
        // spec: memory §1.4, out of the pool for ever; what lies in the page-table reserve is kept out there
        let end = run.end().min(whole.end());
        if run.first < end {
            pool.exclude(PageRun { first: run.first, count: Pages(end - run.first) });
        }
    }
    debug_assert_eq!(pool.free_pages(), pool.capacity_pages(), "nothing has a page of segment {} yet", id.0);
    let flags = descriptor.flags;
    let meaningless = if descriptor.is_aperture() {
        // spec: memory §1.5, memory §10.1
        SegmentFlags::CPU_VISIBLE
            | SegmentFlags::USE_64KB_PAGES
            | SegmentFlags::POPULATED_FROM_SYSTEM_MEMORY
            | SegmentFlags::SUPPORTS_CPU_HOST_APERTURE
            | SegmentFlags::SUPPORTS_CACHED_CPU_HOST_APERTURE
    } else {
        SegmentFlags::CACHE_COHERENT
    };
    Segment {
        id,
        descriptor: SegmentDescription { flags: flags - meaningless, ..descriptor.clone() },
        reported: flags,
        banks: BankTable::of(descriptor),
        pool,
        kernels: Vec::new(),
        victims: Victims::default(),
        cleared_ahead: 0,
    }
}

fn id_of(index: usize) -> SegmentId {
    debug_assert!(index < 32, "at most 31 segments, and the number behind the last: {index}");
    // CAST: at most 31 segments.
    SegmentId(index as u8 + 1)
}
