//! Page-table entries of mapped allocations as their content comes and goes: valid exactly while the page is resident
//! (memory §4.10). It decides nothing; called by `mapping`, `reserve`, `update`, `residency` and `victim`.

use ddi::{GpuMmuFlags, KmdAllocation, Pte, PteFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PhysicalAddress, SegmentId, SegmentSet};

use crate::allocation::{Allocation, Placement};
use crate::paging::{Batch, Hull, Section};
use crate::slab::{AllocationId, Slab, SpaceId};
use crate::space::{Mapping, Protection, Shown, Space, SpaceKind};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// How entries are written on this adapter.
    pub(crate) fn writer(&self) -> EntryWriter {
        EntryWriter { flags: self.mmu.flags, coarse: self.segments.of_large_pages() }
    }
}

/// The content of leaf entries: the first entry, and the driver's information about it (memory §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafEntry {
    pub pte: Pte,
    /// All entries are the same; else they name consecutive pages.
    pub repeat: bool,
    /// The allocation behind the first entry, and the page of it.
    pub behind: Option<(KmdAllocation, u64)>,
    pub driver_protection: u64,
    /// Words of native fences lie there.
    pub native_fence: bool,
    /// A large page may stand for it.
    pub large_allowed: bool,
    /// A 64-KB entry may stand for sixteen of them.
    pub coarse_allowed: bool,
}

impl LeafEntry {
    /// Nothing there.
    pub const INVALID: LeafEntry = LeafEntry {
        pte: Pte::INVALID,
        repeat: true,
        behind: None,
        driver_protection: 0,
        native_fence: false,
        large_allowed: false,
        coarse_allowed: false,
    };

    /// The entry `pages` further on.
    pub fn advanced(self, pages: u64) -> LeafEntry {
        let mut pte = self.pte;
        if !self.repeat {
            pte.address.offset += pages * PAGE_BYTES;
        }
        LeafEntry { pte, behind: self.behind.map(|(allocation, page)| (allocation, page + pages)), ..self }
    }
}

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
pub(crate) struct EntryWriter {
    flags: GpuMmuFlags,
    /// Segments of 64-KB pages.
    coarse: SegmentSet,
}

impl EntryWriter {
    /// Makes the entries of the allocation's resident pages within `count` pages from page `first` valid, in all its
    /// mappings or only in one.
    #[allow(clippy::too_many_arguments)] // A leaf; a struct for it would be named after its arguments.
    pub fn show<F: Copy + Eq>(
        self,
        spaces: &mut Slab<SpaceId, Space>,
        allocation: &Allocation<F>,
        id: AllocationId,
        only: Option<(SpaceId, u64)>,
        first: u64,
        count: u64,
        batch: &mut Batch<F>,
    ) {
        let pieces = resident_pieces(allocation, first, count);
        let cacheable = allocation.info.flags.contains(ddi::AllocationFlags::CACHED);
        // spec: memory §4.5
        let large_allowed = !allocation.info.flags.contains(ddi::AllocationFlags::DISABLE_LARGE_PAGE_MAPPING);
        for &(space, start) in &allocation.mappings {
            if only.is_some_and(|only| only != (space, start)) {
                continue;
            }
            let mapping = spaces[space].mapped[&start];
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
                    self.valid(spaces, space, piece, batch);
                }
            }
            if only.is_none() && spaces[space].kind == SpaceKind::Paging {
                // The entries there showed another place until now.
                batch.relinked.insert(space);
            }
        }
    }

    /// Makes the entries of the allocation's pages `first..first + count` invalid in all its mappings, but for those in the
    /// paging process: it sees the words of fences all along, at the old place until it sees them at the new one.
    pub fn hide<F: Copy + Eq>(
        self,
        spaces: &mut Slab<SpaceId, Space>,
        allocation: &Allocation<F>,
        first: u64,
        count: u64,
        batch: &mut Batch<F>,
    ) {
        let invalid = LeafEntry { native_fence: allocation.stores_fences(), ..LeafEntry::INVALID };
        for &(space, start) in &allocation.mappings {
            let entry = &mut spaces[space];
            if entry.kind == SpaceKind::Paging {
                continue;
            }
            let mapping = entry.mapped[&start];
            let Shown::Allocation(_, from) = mapping.shown else { unreachable!("the mapping shows this allocation") };
            let (low, high) = (first.max(from), (first + count).min(from + mapping.pages));
            if low < high && entry.table.is_resident() {
                let at = start + (low - from);
                entry.table.write(space, at, high - low, invalid, batch, Section::Invalid);
                Hull::note(&mut batch.stale, space, hull(entry.table.root(), at, high - low));
            }
        }
    }

    /// Makes the entries of system pages or zeros valid.
    pub fn fixed<F: Copy + Eq>(
        self,
        spaces: &mut Slab<SpaceId, Space>,
        space: SpaceId,
        first: u64,
        mapping: Mapping,
        batch: &mut Batch<F>,
    ) {
        let frame = match mapping.shown {
            Shown::System(page) | Shown::Words(page) => page,
            Shown::Zero => return self.zeros(spaces, space, first, mapping.pages, batch),
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
        self.valid(spaces, space, piece, batch);
    }

    /// Whether zeros need a page of memory.
    // spec: memory §4.10
    pub fn needs_zero_page(self) -> bool {
        !self.flags.contains(GpuMmuFlags::ZERO_IN_PTE_SUPPORTED)
    }

    fn zeros<F: Copy + Eq>(
        self,
        spaces: &mut Slab<SpaceId, Space>,
        space: SpaceId,
        first: u64,
        count: u64,
        batch: &mut Batch<F>,
    ) {
        let pte = match spaces[space].zero_page {
            None => Pte { flags: PteFlags::VALID | PteFlags::ZERO, ..Pte::INVALID },
            Some(page) => {
                let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: page.first * PAGE_BYTES };
                Pte { flags: PteFlags::VALID | self.flags_of(Protection::default()), address }
            }
        };
        let entry = LeafEntry { pte, ..LeafEntry::INVALID };
        let table = &mut spaces[space].table;
        if !table.is_resident() {
            return;
        }
        table.write(space, first, count, entry, batch, Section::Valid);
        Hull::note(&mut batch.fresh, space, hull(table.root(), first, count));
    }

    /// Makes entries valid.
    fn valid<F: Copy + Eq>(
        self,
        spaces: &mut Slab<SpaceId, Space>,
        space: SpaceId,
        piece: Piece,
        batch: &mut Batch<F>,
    ) {
        let mut flags = PteFlags::VALID | self.flags_of(piece.protection);
        let cacheable = piece.segment.is_system() && piece.cacheable;
        if cacheable && self.flags.contains(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED) {
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
            coarse_allowed: self.coarse.contains(piece.segment),
        };
        let table = &mut spaces[space].table;
        if !table.is_resident() {
            return;
        }
        table.write(space, piece.first, piece.pages, entry, batch, Section::Valid);
        Hull::note(&mut batch.fresh, space, hull(table.root(), piece.first, piece.pages));
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
