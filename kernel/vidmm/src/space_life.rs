//! How the address spaces of processes and of the paging process begin and end (memory §4.6, §4.7). `mapping` maps into them. Called by the
//! kernel.

use ddi::{GpuMmuFlags, PageTableUpdateMode};
use wddm_types::GpuVa;

use crate::page_table::PageTable;
use crate::paging::{Operation, Work};
use crate::slab::SpaceId;
use crate::space::{Space, SpaceKind};
use crate::tables::OutOfTables;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Makes an address space. The operations initialise its root: in the ring for a process, by the CPU at once for
    /// the paging process (memory §4.7).
    ///
    /// # Errors
    /// Scarcity: the page-table reserve is used up.
    pub fn create_space(&mut self, kind: SpaceKind) -> Result<(SpaceId, Vec<Operation>), OutOfTables> {
        // The paging process's root is never replaced: it always runs.
        let reach = match kind {
            SpaceKind::Paging => {
                let most = self.table_frames.of(kind).root_capacity_pages() / 4;
                self.geometry.reach_within(self.policy.paging_space.0, most)
            }
            SpaceKind::Process => 0,
        };
        let table = PageTable::new(&self.geometry, kind, reach, self.table_frames.of(kind))?;
        if kind == SpaceKind::Process && !self.root_leaves_room((table.root(), table.root_pages())) {
            table.destroy(self.table_frames.of(kind));
            return Err(OutOfTables);
        }
        let end = self.end_of(kind, &table);
        let first = self.begin_of(kind).min(end);
        let space = self.spaces.insert(Space::new(kind, table, first, end, self.asked_alignments()));
        if kind == SpaceKind::Process {
            self.processes.begin(space);
        }
        let mut operations = self.spaces[space].table.initialize(space);
        if kind == SpaceKind::Paging && self.mmu.update_mode == PageTableUpdateMode::GpuVirtual {
            operations.extend(self.open_table_window(space)?);
        }
        Ok((space, operations))
    }

    /// The first page of a space of this kind that can be used.
    // spec: memory §4.6, entry 0 of the root is made invalid and belongs to the process; memory §4.7
    pub(crate) fn begin_of(&self, kind: SpaceKind) -> u64 {
        match kind {
            SpaceKind::Process if self.geometry.is_platforms() => self.geometry.root_entry_pages(),
            SpaceKind::Process => self.policy.invalid_pages.0,
            SpaceKind::Paging => self.geometry.root_entry_pages(),
        }
    }

    /// One past the last page of a space of this kind.
    pub(crate) fn end_of(&self, kind: SpaceKind, table: &PageTable) -> u64 {
        let whole = self.geometry.space_pages();
        if kind == SpaceKind::Process || self.geometry.is_platforms() {
            return whole;
        }
        // spec: memory §4.7; no range lies where the first entry of the root would lead
        let said = self.geometry.root_entry_pages().saturating_add(self.policy.paging_space.0);
        table.reach().min(whole).min(said)
    }

    /// Takes a creation back whose operations are not carried out: the space has no device yet, and shows nothing.
    pub fn abandon_space(&mut self, space: SpaceId) {
        self.processes.end(space);
        let gone = self.spaces.remove(space);
        let unused = gone.mapped.is_empty() && gone.zero_page.is_none() && gone.table.is_resident();
        assert!(unused, "a space that shows nothing");
        gone.table.destroy(self.table_frames.of(gone.kind));
    }

    /// Ends a space without devices; its mappings and tables go. The work makes the translations forgotten, and the
    /// entries invalid where the driver asks for that (ExplicitPageTableInvalidation). The id in its operations is
    /// stale at return.
    pub fn destroy_space(&mut self, space: SpaceId) -> Option<Work<F>> {
        if self.processes.knows(space) {
            self.processes.end(space);
        }
        let mut batch = self.works.begin();
        let explicit = self.mmu.flags.contains(GpuMmuFlags::EXPLICIT_PAGE_TABLE_INVALIDATION)
            // A process's number may be given to another one: nothing is left under it.
            || self.geometry.is_platforms();
        for run in self.spaces[space].shown_runs() {
            self.conceal(space, run, &mut batch);
        }
        let gone = self.spaces.remove(space);
        self.tables_away -= usize::from(!gone.table.is_resident());
        // Without the explicit rule a flush of the whole space says everything that the entries would say.
        if !explicit {
            batch.invalidations.clear();
        }
        // Nothing is left that could run there.
        batch.idle_spaces.clear();
        // A process's end is said even if nothing is shown any more: another process is about to get its root.
        let used = !batch.stale.is_empty() || gone.kind == SpaceKind::Process;
        batch.stale.clear();
        if used {
            let whole = Operation::FlushTlb { space, root: gone.table.root(), start: GpuVa::NULL, end: GpuVa::NULL };
            batch.invalidations.push(whole);
        }
        let kind = gone.kind;
        gone.table.destroy(self.table_frames.of(kind));
        let work = self.finish(batch, kind == SpaceKind::Paging);
        if let Some(page) = gone.zero_page {
            self.retire(self.works.returned(), vec![page]);
        }
        work
    }
}
