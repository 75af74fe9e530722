//! The leaf tables behind the scratch area as the paging process sees them (memory §3.4): a driver of the legacy behaviour
//! SourcePageTableVaInTransfer is told with each copy by address where the tables stand that translate its two ends. They are made
//! with the area and stay, so they are shown once, one behind the other, and only read there: the CPU writes them.

use ddi::{GpuMmuCaps, GpuMmuFlags, LegacyBehaviors, PageTableLevelDesc, Pte, PteFlags};
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use crate::entry::LeafEntry;
use crate::operation::Operation;
use crate::policy::Policy;
use crate::slab::SpaceId;
use crate::space::{Mapping, Origin, Protection, Shown, SpaceKind, page_of};
use crate::tables::OutOfTables;
use crate::vidmm::VidMm;

/// Where the leaf tables of the scratch area are seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScratchTables {
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

impl<F: Copy + Eq> VidMm<F> {
    /// Shows the leaf tables of the scratch area, if the driver is to be told where they stand.
    pub(super) fn open_scratch_tables(&mut self, space: SpaceId, area: PageRun) -> Result<Vec<Operation>, OutOfTables> {
        if !self.mmu.legacy.contains(LegacyBehaviors::SOURCE_PAGE_TABLE_VA_IN_TRANSFER) {
            return Ok(Vec::new());
        }
        let entry = &mut self.spaces[space];
        let pages: u64 = entry.table.leaves_of(area).iter().map(|(_, pages)| pages).sum();
        let first = entry.find(pages, 0, u64::MAX, 1).ok_or(OutOfTables)?;
        let mut operations = entry.table.cover(space, first, pages, None, self.table_frames.of(SpaceKind::Paging))?;
        entry.take(PageRun { first, count: Pages(pages) }, Origin::Kernel);
        // Only this file writes the entries there, as with the scratch area.
        let (shown, protection) = (Shown::System(self.system.dummy_page().first), Protection::default());
        entry.show(first, Mapping { pages, shown, protection });
        self.scratch_tables = Some(ScratchTables { space, first, area });
        operations.extend(self.scratch_table_entries());
        Ok(operations)
    }

    /// The entries that show them, for a paging process whose tables are new or written anew.
    pub(crate) fn scratch_table_entries(&self) -> Vec<Operation> {
        let Some(known) = self.scratch_tables else { return Vec::new() };
        let table = &self.spaces[known.space].table;
        let snoops = self.mmu.flags.contains(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED);
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
