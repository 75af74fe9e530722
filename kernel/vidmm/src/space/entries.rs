//! Page-table entries of what spaces show, as content comes and goes: valid exactly while the page is resident (memory §4.10). It decides
//! nothing; whatever moves content or maps says what is to be shown.

use ddi::{GpuMmuFlags, KmdAllocation, Pte, PteFlags};
use wddm_types::{PAGE_BYTES, PhysicalAddress, SegmentId, SegmentSet};

use super::{AddressSpaces, Mapping, Protection, Shown};
use crate::allocation::Allocation;
use crate::page_table::LeafEntry;
use crate::paging::{Batch, Hull, Section};
use crate::slab::{AllocationId, SpaceId};

/// Consecutive pages that are mapped.
#[derive(Clone, Copy, Debug)]
struct Piece {
    first: u64,
    pages: u64,
    segment: SegmentId,
    frame: u64,
    protection: Protection,
    cacheable: bool,
    behind: Option<(KmdAllocation, u64)>,
    native_fence: bool,
    large_allowed: bool,
}

/// Writes entries of mapped allocations into a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryWriter {
    flags: GpuMmuFlags,
    /// Segments of 64-KB pages.
    coarse: SegmentSet,
}

impl EntryWriter {
    /// By the flags of the MMU, on an adapter with these segments of 64-KB pages.
    pub fn new(flags: GpuMmuFlags, coarse: SegmentSet) -> Self {
        EntryWriter { flags, coarse }
    }

    /// Whether zeros need a page of memory.
    // spec: memory §4.10
    pub fn needs_zero_page(self) -> bool {
        !self.flags.contains(GpuMmuFlags::ZERO_IN_PTE_SUPPORTED)
    }

    /// Whether a segment's pages are those of 64-KB entries.
    pub fn is_coarse(self, segment: SegmentId) -> bool {
        self.coarse.contains(segment)
    }

    /// The flags for accesses that a protection forbids, as far as entries can express them.
    // spec: memory §4.2, memory §4.4
    fn flags_of(self, protection: Protection) -> PteFlags {
        let mut flags = PteFlags::empty();
        if !protection.write && self.flags.contains(GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED) {
            flags |= PteFlags::READ_ONLY;
        }
        if !protection.execute && self.flags.contains(GpuMmuFlags::NO_EXECUTE_MEMORY_SUPPORTED) {
            flags |= PteFlags::NO_EXECUTE;
        }
        flags
    }
}

impl AddressSpaces {
    /// Makes the entries of the allocation's resident pages within `count` pages from page `first` valid, in all its
    /// mappings or only in one.
    pub fn show<F: Copy + Eq>(
        &mut self,
        allocation: &Allocation<F>,
        id: AllocationId,
        only: Option<(SpaceId, u64)>,
        first: u64,
        count: u64,
        batch: &mut Batch<F>,
    ) {
        let pieces = allocation.resident_pieces(first, count);
        let cacheable = allocation.info.flags.contains(ddi::AllocationFlags::CACHED);
        // spec: memory §4.5
        let large_allowed = !allocation.info.flags.contains(ddi::AllocationFlags::DISABLE_LARGE_PAGE_MAPPING);
        for &(space, start) in &allocation.mappings {
            if only.is_some_and(|only| only != (space, start)) {
                continue;
            }
            let mapping = self.spaces[space].mapped[&start];
            let Shown::Allocation(shown, from) = mapping.shown else {
                unreachable!("the mapping shows this allocation")
            };
            assert_eq!(shown, id, "the mapping shows this allocation");
            for &(page, pages, segment, frame) in &pieces {
                let (low, high) = (page.max(from), (page + pages).min(from + mapping.pages));
                if low < high {
                    let piece = Piece {
                        first: start + (low - from),
                        pages: high - low,
                        segment,
                        frame: frame + (low - page),
                        protection: mapping.protection,
                        cacheable,
                        // The kernel's own has no handle of the driver's.
                        behind: allocation.named().map(|named| (named, low)),
                        native_fence: allocation.stores_fences(),
                        large_allowed,
                    };
                    self.valid(space, piece, batch);
                }
            }
            if only.is_none() && self.spaces[space].is_paging() {
                // The entries there showed another place until now.
                batch.relinked.insert(space);
            }
        }
    }

    /// Makes the entries of the allocation's pages `first..first + count` invalid in all its mappings, but for those in the
    /// paging process: it sees the words of fences all along, at the old place until it sees them at the new one.
    pub fn hide<F: Copy + Eq>(&mut self, allocation: &Allocation<F>, first: u64, count: u64, batch: &mut Batch<F>) {
        let invalid = LeafEntry { native_fence: allocation.stores_fences(), ..LeafEntry::INVALID };
        for &(space, start) in &allocation.mappings {
            let entry = &mut self.spaces[space];
            if entry.is_paging() {
                continue;
            }
            let mapping = entry.mapped[&start];
            let Shown::Allocation(_, from) = mapping.shown else { unreachable!("the mapping shows this allocation") };
            let (low, high) = (first.max(from), (first + count).min(from + mapping.pages));
            if low < high && entry.table.is_resident() {
                let at = start + (low - from);
                entry.table.write(space, at, high - low, invalid, batch, Section::Invalid);
                Hull::note(&mut batch.stale, space, Hull::of(entry.table.root(), at, high - low));
            }
        }
    }

    /// Makes the entries of system pages or zeros valid.
    pub fn fixed<F: Copy + Eq>(&mut self, space: SpaceId, first: u64, mapping: Mapping, batch: &mut Batch<F>) {
        let frame = match mapping.shown {
            Shown::System(page) | Shown::Words(page) => page,
            Shown::Zero => return self.zeros(space, first, mapping.pages, batch),
            Shown::Allocation(..) => unreachable!("an allocation's entries follow its content"),
        };
        let piece = Piece {
            first,
            pages: mapping.pages,
            segment: SegmentId::SYSTEM,
            frame,
            protection: mapping.protection,
            cacheable: true,
            behind: None,
            native_fence: matches!(mapping.shown, Shown::Words(_)),
            large_allowed: false,
        };
        self.valid(space, piece, batch);
    }

    fn zeros<F: Copy + Eq>(&mut self, space: SpaceId, first: u64, count: u64, batch: &mut Batch<F>) {
        let pte = match self.spaces[space].zero_page {
            None => Pte { flags: PteFlags::VALID | PteFlags::ZERO, ..Pte::INVALID },
            Some(page) => {
                let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: page.first * PAGE_BYTES };
                Pte { flags: PteFlags::VALID | self.writer.flags_of(Protection::default()), address }
            }
        };
        let entry = LeafEntry { pte, ..LeafEntry::INVALID };
        let table = &mut self.spaces[space].table;
        if !table.is_resident() {
            return;
        }
        table.write(space, first, count, entry, batch, Section::Valid);
        Hull::note(&mut batch.fresh, space, Hull::of(table.root(), first, count));
    }

    /// Makes entries valid.
    fn valid<F: Copy + Eq>(&mut self, space: SpaceId, piece: Piece, batch: &mut Batch<F>) {
        debug_assert!(piece.pages > 0, "{piece:?} has no entry");
        let mut flags = PteFlags::VALID | self.writer.flags_of(piece.protection);
        let cacheable = piece.segment.is_system() && piece.cacheable;
        if cacheable && self.writer.flags.contains(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED) {
            flags |= PteFlags::CACHE_COHERENT;
        }
        let address = PhysicalAddress { segment: piece.segment, offset: piece.frame * PAGE_BYTES };
        let entry = LeafEntry {
            pte: Pte { flags, address },
            repeat: false,
            behind: piece.behind,
            driver_protection: piece.protection.driver,
            native_fence: piece.native_fence,
            large_allowed: piece.large_allowed,
            // spec: memory §4.5, in a segment of 64-KB pages allocations have whole ones
            coarse_allowed: self.writer.is_coarse(piece.segment),
        };
        let table = &mut self.spaces[space].table;
        if !table.is_resident() {
            return;
        }
        table.write(space, piece.first, piece.pages, entry, batch, Section::Valid);
        Hull::note(&mut batch.fresh, space, Hull::of(table.root(), piece.first, piece.pages));
    }
}
