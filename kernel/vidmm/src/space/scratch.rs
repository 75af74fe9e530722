//! The scratch area of the paging process (memory §4.7): addresses through which paging work reaches content that has no
//! address of its own there. It is divided into slots of two windows, one for each end of a copy. Content larger than a window goes in
//! chunks.
//!
//! The tables behind it are made once and stay. An entry is written by the CPU at once, when the operation that needs it
//! is built; the builder of paging buffers knows when the ring is past the last use of a slot, and flushes the TLB before the next.
//! Entries are 4-KB ones always, so neither end of a copy is ever said to be mapped by 64-KB pages.

use ddi::{GpuMmuCaps, GpuMmuFlags, LegacyBehaviors, PageTableLevelDesc, Pte, PteFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use super::{AddressSpaces, Protection, Shown, page_of};
use crate::operation::Operation;
use crate::page_table::{LeafEntry, OutOfTables};
use crate::policy::Policy;
use crate::slab::SpaceId;

/// One slot: the addresses of its two windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScratchSlot {
    /// The first window.
    pub first: GpuVa,
    /// The second, right behind it.
    pub second: GpuVa,
}

/// How the scratch area is cut, and what its addresses show as far as anything asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scratch {
    dummy_page: PageRun,
    window: Pages,
    slots: u32,
}

impl Scratch {
    /// So many slots of two windows.
    pub fn new(dummy_page: PageRun, policy: &Policy) -> Self {
        Scratch { dummy_page, window: policy.scratch_window, slots: policy.scratch_slots }
    }

    /// Pages of a window.
    pub fn window(self) -> Pages {
        self.window
    }

    /// What addresses show whose entries are written apart from all others.
    pub fn shown_apart(self) -> Shown {
        Shown::System(self.dummy_page.first)
    }
}

/// Where the leaf tables of the scratch area are seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScratchTables {
    space: SpaceId,
    /// First page of addresses that shows them.
    first: u64,
    /// The area that they translate.
    area: PageRun,
}

/// One end of a copy has one table: a window is no longer than what one translates.
// spec: memory §3.4
pub(crate) fn window_of(policy: Policy, mmu: &GpuMmuCaps, levels: &[PageTableLevelDesc]) -> Policy {
    match levels.first() {
        Some(leaf) if mmu.legacy.contains(LegacyBehaviors::SOURCE_PAGE_TABLE_VA_IN_TRANSFER) => {
            let reach = Pages(1 << leaf.index_bits.min(63));
            Policy { scratch_window: policy.scratch_window.min(reach), ..policy }
        }
        _ => policy,
    }
}

impl AddressSpaces {
    /// Makes the scratch area in the paging process's space. The operations make its tables, by the CPU at once; its
    /// entries are invalid.
    // spec: memory §4.7
    pub fn create_scratch(&mut self, space: SpaceId) -> Result<(Vec<ScratchSlot>, Vec<Operation>), OutOfTables> {
        let (window, slots) = (self.scratch.window.0, u64::from(self.scratch.slots));
        let count = Pages(slots * 2 * window);
        // Never unmapped: what it shows changes from chunk to chunk.
        let (first, mut made) = self.set_apart(space, count, window, Protection::READ_WRITE)?;
        made.extend(self.open_scratch_tables(space, PageRun { first, count })?);
        let va = |page: u64| GpuVa(page * PAGE_BYTES);
        let slot = |index: u64| {
            let at = first + index * 2 * window;
            ScratchSlot { first: va(at), second: va(at + window) }
        };
        Ok(((0..slots).map(slot).collect(), made))
    }

    /// Whether these system pages are only named where entries are written apart from all others.
    pub fn is_set_apart(&self, shown: Shown) -> bool {
        shown == self.scratch.shown_apart()
    }

    /// The most that a window shows.
    pub fn scratch_window(&self) -> Pages {
        self.scratch.window
    }

    /// Whether GPU accesses snoop the CPU's caches.
    pub(super) fn snoops(&self) -> bool {
        self.mmu.flags.contains(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED)
    }

    /// Entries that show these pages, one behind the other, from the start of a window on; by the CPU at once.
    // spec: memory §3.4
    pub fn scratch_entries(&self, space: SpaceId, window: GpuVa, pages: &[(SegmentId, PageRun)]) -> Vec<Operation> {
        let table = &self.spaces[space].table;
        let snoops = self.snoops();
        let mut operations = Vec::new();
        let mut at = window.0 / PAGE_BYTES;
        for &(segment, run) in pages {
            let address = PhysicalAddress { segment, offset: run.first * PAGE_BYTES };
            let mut flags = PteFlags::VALID;
            // The CPU may have written them through its caches.
            flags.set(PteFlags::CACHE_COHERENT, segment.is_system() && snoops);
            let entry = LeafEntry { pte: Pte { flags, address }, repeat: false, ..LeafEntry::INVALID };
            table.write_small(space, at, run.count.0, entry, &mut operations);
            at += run.count.0;
        }
        operations
    }

    /// Entries that show nothing any more.
    pub fn scratch_clear(&self, space: SpaceId, window: GpuVa, pages: Pages) -> Vec<Operation> {
        let mut operations = Vec::new();
        let table = &self.spaces[space].table;
        table.write_small(space, window.0 / PAGE_BYTES, pages.0, LeafEntry::INVALID, &mut operations);
        operations
    }

    /// Forgets the translations of a slot.
    pub fn scratch_flush(&self, space: SpaceId, slot: ScratchSlot) -> Operation {
        let bytes = slot.second.0 - slot.first.0;
        debug_assert_eq!(bytes, self.scratch.window.bytes(), "the windows of {slot:?} stand one behind the other");
        let end = GpuVa(slot.second.0 + self.scratch.window.bytes() - 1);
        Operation::FlushTlb { space, root: self.spaces[space].table.root(), start: slot.first, end }
    }

    /// Shows the leaf tables of the scratch area, if the driver is to be told where they stand.
    fn open_scratch_tables(&mut self, space: SpaceId, area: PageRun) -> Result<Vec<Operation>, OutOfTables> {
        if !self.mmu.legacy.contains(LegacyBehaviors::SOURCE_PAGE_TABLE_VA_IN_TRANSFER) {
            return Ok(Vec::new());
        }
        let pages: u64 = self.spaces[space].table.leaves_of(area).iter().map(|(_, pages)| pages).sum();
        let (first, mut operations) = self.set_apart(space, Pages(pages), 1, Protection::default())?;
        self.scratch_tables = Some(ScratchTables { space, first, area });
        operations.extend(self.scratch_table_entries());
        Ok(operations)
    }

    /// The entries that show them, for a paging process whose tables are new or written anew.
    pub fn scratch_table_entries(&self) -> Vec<Operation> {
        let Some(known) = self.scratch_tables else { return Vec::new() };
        let table = &self.spaces[known.space].table;
        let snoops = self.snoops();
        let (mut operations, mut at) = (Vec::new(), known.first);
        for (address, pages) in table.leaves_of(known.area) {
            let mut flags = PteFlags::VALID;
            flags.set(PteFlags::READ_ONLY, self.mmu.flags.contains(GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED));
            flags.set(PteFlags::CACHE_COHERENT, address.segment.is_system() && snoops);
            let entry = LeafEntry { pte: Pte { flags, address }, repeat: false, ..LeafEntry::INVALID };
            table.write_small(known.space, at, pages, entry, &mut operations);
            at += pages;
        }
        operations
    }

    /// Where the paging process sees the leaf table that translates an address of the scratch area; NULL where the driver did not
    /// ask for that.
    // spec: memory §3.4
    pub fn scratch_table_va(&self, window: GpuVa) -> GpuVa {
        let Some(known) = self.scratch_tables else { return GpuVa::NULL };
        let table = &self.spaces[known.space].table;
        let (of, _) = table.leaf_of(page_of(window.0));
        let leaves = table.leaves_of(known.area);
        let before: u64 = leaves.iter().take_while(|(address, _)| *address != of).map(|(_, pages)| pages).sum();
        GpuVa((known.first + before) * PAGE_BYTES)
    }
}
