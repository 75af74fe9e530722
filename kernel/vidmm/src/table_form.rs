//! Which form page tables of a process begin with, and what their changes require: 64-KB entries or 4-KB ones, copied entries, spaces that
//! quiesce (memory §4.2, §4.5). `page_table` implements the tables. Called by `mapping` and `update`.

use std::collections::BTreeSet;

use ddi::PageTableUpdateMode;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun};

use crate::allocation::Placement;
use crate::operation::Operation;
use crate::page_table::is_coarse_run;
use crate::paging::Batch;
use crate::slab::SpaceId;
use crate::space::{Shown, SpaceKind};
use crate::vidmm::VidMm;

/// A leaf table gets 4-KB entries instead of 64-KB ones (memory §4.5), or with dual entries 64 KB of it, for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The space that the table translates.
    pub space: SpaceId,
    /// The first address that it translates.
    pub va: GpuVa,
    /// Bytes of address that it covers.
    pub size_bytes: u64,
    /// The change that its 64-KB entries could not express.
    pub cause: ConversionCause,
}

/// A change that a leaf table of 64-KB entries cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversionCause {
    /// Pages of system memory.
    SystemMemory,
    /// Part of a 64-KB page, there or not there any more.
    PartOfPage,
    /// Pages of a segment of 4-KB pages.
    SmallPages,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Whether entries are copied from table to table: by the GPU, which writes the tables and has windows onto them.
    // spec: memory §4.8
    pub(crate) fn copies_entries(&self) -> bool {
        self.mmu.update_mode != PageTableUpdateMode::CpuVirtual
    }

    /// Whether leaf tables that are made for this have 64-KB entries: no 4-KB page appears in them, as far as can be seen.
    // spec: memory §4.5
    pub(crate) fn begins_coarse(&self, space: SpaceId, run: PageRun, shown: Shown) -> bool {
        if self.spaces[space].kind == SpaceKind::Paging || !is_coarse_run(run.first, run.count.0) {
            return false;
        }
        match shown {
            Shown::System(_) | Shown::Words(_) => false,
            Shown::Zero => !self.writer().needs_zero_page(),
            Shown::Allocation(id, from) => {
                let allocation = &self.allocations[id];
                let in_segment = |id| self.segment(id).page_bytes() > PAGE_BYTES;
                is_coarse_run(from, 0)
                    && match allocation.placement {
                        Placement::None => allocation.info.supported_segments.iter().any(in_segment),
                        Placement::Memory(id, _) => in_segment(id),
                        Placement::System(_) => false,
                    }
            }
        }
    }

    /// Whether there is room for tables of 64-KB entries beside those of 4-KB ones, for the runs that want them. Without it
    /// tables begin with the second.
    pub(crate) fn room_for_coarse(&mut self, space: SpaceId, runs: &[(u64, u64)], coarse: &[bool]) -> bool {
        if !coarse.contains(&true) {
            return false;
        }
        let entry = &self.spaces[space];
        let frames = self.table_frames.of(entry.kind);
        let sizes = entry.table.lacking_coarse(runs, coarse, frames.leaf_free_pages());
        sizes.is_some_and(|sizes| frames.hold([], &sizes))
    }

    /// For hardware that needs it: quiesces every process whose tables change or whose translations are flushed.
    // spec: memory §4.2, bit 5
    pub(crate) fn idle_changed_spaces(&self, batch: &mut Batch<F>) {
        let changes = [&batch.settled, &batch.invalidations, &batch.entries].into_iter().flatten();
        let changed = changes.filter_map(|operation| match operation {
            Operation::UpdatePageTable { space, .. }
            | Operation::CopyEntries { space, .. }
            | Operation::FlushTlb { space, .. } => Some(*space),
            _ => None,
        });
        let spaces: BTreeSet<SpaceId> = changed.chain(batch.stale.keys().copied()).collect();
        let lives = |space: &SpaceId| self.spaces.get(*space).is_some_and(|known| known.kind == SpaceKind::Process);
        batch.idle_spaces.extend(spaces.into_iter().filter(lives));
    }
}
