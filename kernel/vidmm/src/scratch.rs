//! The scratch area of the paging process (memory §4.7): addresses through which paging work reaches content that has no
//! address of its own there. It is divided into slots of two windows, one for each end of a copy. Content larger than a window goes in
//! chunks.
//!
//! The tables behind it are made once and stay. An entry is written by the CPU at once, when the operation that needs it
//! is built; the builder of paging buffers knows when the ring is past the last use of a slot, and flushes the TLB before the next.
//! Entries are 4-KB ones always, so neither end of a copy is ever said to be mapped by 64-KB pages.

mod tables;

use ddi::{GpuMmuFlags, Pte, PteFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use crate::entry::LeafEntry;
use crate::operation::Operation;
use crate::slab::SpaceId;
use crate::space::{Mapping, Origin, Protection, Shown, SpaceKind};
use crate::tables::OutOfTables;
use crate::vidmm::VidMm;
pub(crate) use tables::{ScratchTables, window_of};

/// One slot: the addresses of its two windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScratchSlot {
    /// The first window.
    pub first: GpuVa,
    /// The second, right behind it.
    pub second: GpuVa,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Makes the scratch area in the paging process's space. The operations make its tables, by the CPU at once; its
    /// entries are invalid.
    ///
    /// # Errors
    /// Scarcity: no room for its tables.
    // spec: memory §4.7
    pub fn create_scratch(&mut self, space: SpaceId) -> Result<(Vec<ScratchSlot>, Vec<Operation>), OutOfTables> {
        let window = self.policy.scratch_window.0;
        let pages = u64::from(self.policy.scratch_slots) * 2 * window;
        let entry = &mut self.spaces[space];
        assert_eq!(entry.kind, SpaceKind::Paging, "the scratch area is the paging process's");
        let first = entry.find(pages, 0, u64::MAX, window).ok_or(OutOfTables)?;
        let mut made = entry.table.cover(space, first, pages, None, self.table_frames.of(SpaceKind::Paging))?;
        // Never unmapped: what it shows changes from chunk to chunk.
        let shown = Shown::System(self.system.dummy_page().first);
        entry.take(PageRun { first, count: Pages(pages) }, Origin::Kernel);
        entry.show(first, Mapping { pages, shown, protection: Protection::READ_WRITE });
        made.extend(self.open_scratch_tables(space, PageRun { first, count: Pages(pages) })?);
        let va = |page: u64| GpuVa(page * PAGE_BYTES);
        let slot = |index: u64| {
            let at = first + index * 2 * window;
            ScratchSlot { first: va(at), second: va(at + window) }
        };
        Ok(((0..u64::from(self.policy.scratch_slots)).map(slot).collect(), made))
    }

    /// Whether content is moved by address ([`Policy::paging_by_gpu_va`](crate::Policy::paging_by_gpu_va)).
    pub fn pages_by_gpu_va(&self) -> bool {
        self.policy.paging_by_gpu_va
    }

    /// The most that a window shows.
    pub fn scratch_window(&self) -> Pages {
        self.policy.scratch_window
    }

    /// Entries that show these pages, one behind the other, from the start of a window on; by the CPU at once.
    // spec: memory §3.4
    pub fn scratch_entries(&self, space: SpaceId, window: GpuVa, pages: &[(SegmentId, PageRun)]) -> Vec<Operation> {
        let table = &self.spaces[space].table;
        let snoops = self.mmu.flags.contains(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED);
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
        let end = GpuVa(slot.second.0 + self.policy.scratch_window.bytes() - 1);
        Operation::FlushTlb { space, root: self.spaces[space].table.root(), start: slot.first, end }
    }

    /// The GPU address of a page of a segment.
    pub fn address_of(&self, segment: SegmentId, page: u64) -> u64 {
        self.segment(segment).descriptor.base_address + page * PAGE_BYTES
    }

    /// The page of a segment at a GPU address.
    pub fn page_at(&self, segment: SegmentId, address: u64) -> u64 {
        (address - self.segment(segment).descriptor.base_address) / PAGE_BYTES
    }
}
