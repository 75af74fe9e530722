//! How the address spaces of processes and of the paging process begin and end (memory §4.6, §4.7). `mapping` maps into them. Called by the
//! kernel.

use crate::page_table::OutOfTables;
use crate::paging::{Operation, Work};
use crate::slab::SpaceId;
use crate::space::SpaceKind;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Makes an address space. The operations initialise its root: in the ring for a process, by the CPU at once for
    /// the paging process (memory §4.7).
    ///
    /// # Errors
    /// Scarcity: the page-table reserve is used up.
    pub fn create_space(&mut self, kind: SpaceKind) -> Result<(SpaceId, Vec<Operation>), OutOfTables> {
        let (space, operations) = self.spaces.begin(kind, &self.segments)?;
        if kind == SpaceKind::Process {
            self.processes.begin(space);
        }
        Ok((space, operations))
    }

    /// Takes a creation back whose operations are not carried out: the space has no device yet, and shows nothing.
    pub fn abandon_space(&mut self, space: SpaceId) {
        self.processes.end(space);
        self.spaces.abandon(space);
    }

    /// Ends a space without devices; its mappings and tables go. The work makes the translations forgotten, and the
    /// entries invalid where the driver asks for that (ExplicitPageTableInvalidation). The id in its operations is
    /// stale at return.
    pub fn destroy_space(&mut self, space: SpaceId) -> Option<Work<F>> {
        if self.processes.knows(space) {
            self.processes.end(space);
        }
        self.foresee_gone(space);
        let mut batch = self.works.begin();
        for run in self.spaces[space].shown_runs() {
            self.conceal(space, run, &mut batch);
        }
        let gone = self.spaces.end(space, &mut batch);
        let work = self.finish(batch, gone.was_paging);
        if let Some(page) = gone.zero_page {
            self.retire(self.works.returned(), vec![page]);
        }
        work
    }
}
