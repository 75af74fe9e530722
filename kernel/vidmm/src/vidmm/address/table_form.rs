//! Which form page tables of a process begin with, and what their changes require: 64-KB entries or 4-KB ones, copied entries, spaces that
//! quiesce (memory §4.2, §4.5). `page_table` implements the tables. Called by `mapping` and `update`.

use std::collections::BTreeSet;

use wddm_types::{PAGE_BYTES, PageRun};

use crate::allocation::Placement;
use crate::operation::Operation;
use crate::page_table::is_coarse_run;
use crate::paging::Batch;
use crate::slab::SpaceId;
use crate::space::Shown;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Whether leaf tables that are made for this have 64-KB entries: no 4-KB page appears in them, as far as can be seen.
    // spec: memory §4.5
    pub(crate) fn begins_coarse(&self, space: SpaceId, run: PageRun, shown: Shown) -> bool {
        if !self.spaces.may_begin_coarse(space, run) {
            return false;
        }
        match shown {
            Shown::System(_) | Shown::Words(_) => false,
            Shown::Zero => self.spaces.zeros_begin_coarse(space, run),
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
        batch.idle_spaces.extend(spaces.into_iter().filter(|space| self.spaces.is_process(*space)));
    }
}
