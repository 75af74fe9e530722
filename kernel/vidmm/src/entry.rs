//! Page-table entries of mapped allocations as their content comes and goes: valid exactly while the page is resident
//! (memory §4.10). It decides nothing; called by `mapping`, `residency` and `victim`.

use ddi::{GpuMmuFlags, Pte, PteFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PhysicalAddress, SegmentId};

use crate::allocation::{Allocation, Placement};
use crate::paging::{Batch, Hull};
use crate::slab::{AllocationId, Slab, SpaceId};
use crate::space::{Shown, Space};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// How entries are written on this adapter.
    pub(crate) fn writer(&self) -> EntryWriter {
        EntryWriter { flags: self.mmu.flags }
    }
}

/// Writes entries of mapped allocations into a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryWriter {
    flags: GpuMmuFlags,
}

/// First page, pages, segment, first frame, writable, cacheable.
type Piece = (u64, u64, SegmentId, u64, bool, bool);

impl EntryWriter {
    /// Makes the entries of the allocation's resident pages within `count` pages from page `first` valid, in all its
    /// mappings or only in one.
    #[allow(clippy::too_many_arguments)] // A leaf; a struct for it would be named after its arguments.
    pub fn show<F: Copy + Eq>(
        self,
        spaces: &Slab<SpaceId, Space>,
        allocation: &Allocation<F>,
        id: AllocationId,
        only: Option<(SpaceId, u64)>,
        first: u64,
        count: u64,
        batch: &mut Batch<F>,
    ) {
        let pieces = resident_pieces(allocation, first, count);
        let cacheable = allocation.info.flags.contains(ddi::AllocationFlags::CACHED);
        for &(space, start) in &allocation.mappings {
            if only.is_some_and(|only| only != (space, start)) {
                continue;
            }
            let mapping = &spaces[space].mapped[&start];
            let Shown::Allocation(shown, from) = mapping.shown else {
                unreachable!("the mapping shows this allocation")
            };
            assert_eq!(shown, id, "the mapping shows this allocation");
            for &(page, pages, segment, frame) in &pieces {
                let (low, high) = (page.max(from), (page + pages).min(from + mapping.pages));
                if low < high {
                    let at = start + (low - from);
                    let piece = (at, high - low, segment, frame + (low - page), mapping.writable, cacheable);
                    self.valid(spaces, space, piece, batch);
                }
            }
        }
    }

    /// Makes the entries of the allocation's pages `first..first + count` invalid in all its mappings.
    pub fn hide<F: Copy + Eq>(
        self,
        spaces: &Slab<SpaceId, Space>,
        allocation: &Allocation<F>,
        first: u64,
        count: u64,
        batch: &mut Batch<F>,
    ) {
        for &(space, start) in &allocation.mappings {
            let entry = &spaces[space];
            let mapping = &entry.mapped[&start];
            let Shown::Allocation(_, from) = mapping.shown else { unreachable!("the mapping shows this allocation") };
            let (low, high) = (first.max(from), (first + count).min(from + mapping.pages));
            if low < high {
                let at = start + (low - from);
                entry.table.write(space, at, high - low, Pte::INVALID, true, &mut batch.invalidations);
                Hull::note(&mut batch.stale, space, hull(entry.table.root(), at, high - low));
            }
        }
    }

    /// Makes entries valid.
    pub fn valid<F: Copy + Eq>(
        self,
        spaces: &Slab<SpaceId, Space>,
        space: SpaceId,
        piece: Piece,
        batch: &mut Batch<F>,
    ) {
        let (first, count, segment, frame, writable, cacheable) = piece;
        let mut flags = PteFlags::VALID;
        if !writable && self.flags.contains(GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED) {
            flags |= PteFlags::READ_ONLY;
        }
        if segment.is_system() && cacheable && self.flags.contains(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED) {
            flags |= PteFlags::CACHE_COHERENT;
        }
        let entry = Pte { flags, address: PhysicalAddress { segment, offset: frame * PAGE_BYTES } };
        let table = &spaces[space].table;
        table.write(space, first, count, entry, false, &mut batch.entries);
        Hull::note(&mut batch.fresh, space, hull(table.root(), first, count));
    }
}

/// Where the allocation's resident pages among `first..first + count` are: page, pages, segment, frame.
pub(crate) fn resident_pieces<F>(
    allocation: &Allocation<F>,
    first: u64,
    count: u64,
) -> Vec<(u64, u64, SegmentId, u64)> {
    let mut pieces = Vec::new();
    match &allocation.placement {
        Placement::None => {}
        Placement::Memory(segment, extents) => {
            for extent in extents.iter() {
                let (low, high) = (extent.page.max(first), (extent.page + extent.count).min(first + count));
                if low < high {
                    pieces.push((low, high - low, *segment, extent.frame + (low - extent.page)));
                }
            }
        }
        Placement::System(_) => {
            let mut page = first;
            for run in allocation.backing_of(first, count) {
                pieces.push((page, run.count.0, SegmentId::SYSTEM, run.first));
                page += run.count.0;
            }
        }
    }
    pieces
}

/// Neighbouring ranges as one.
pub(crate) fn merged(ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (first, count) in ranges {
        match merged.last_mut() {
            Some((before, pages)) if *before + *pages == first => *pages += count,
            _ => merged.push((first, count)),
        }
    }
    merged
}

pub(crate) fn hull(root: PhysicalAddress, first: u64, count: u64) -> Hull {
    Hull { root, first: GpuVa(first * PAGE_BYTES), last: GpuVa((first + count) * PAGE_BYTES - 1) }
}
