//! An adapter provides the pages of sections that are made through it, and takes them back (memory §2.7). `crate::section` has the sections.

use kmt_calls::{Mapped, MappingId, Refusal};
use wddm_types::{CpuPlace, CpuRun, PAGE_BYTES, PageRun, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::coherency::see_cached;
use crate::effect::{Cx, MappingChange};
use crate::refusal::{invalid, no_memory, not_supported};
use crate::scarcity::{Lack, NotCreated};
use crate::section::{GoneSection, Provided};

impl Adapter {
    /// Provides the pages of a section: of zeroes, or of what a file holds that the process has handed over under this number.
    ///
    /// # Errors
    /// A size that is no multiple of the page; a file that is none; scarcity.
    pub fn provide_section(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        size_bytes: u64,
        given: Option<u64>,
    ) -> Result<(Provided, Mapped), NotCreated> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(invalid(format!("a section of {size_bytes} bytes is no multiple of the page")).into());
        }
        let pages = Pages(size_bytes / PAGE_BYTES);
        let scarce = |free: Pages| {
            let reason =
                format!("no system memory for a section of {size_bytes} bytes: {} bytes are free", free.bytes());
            NotCreated::Lacks(Lack::Pages(pages), no_memory(reason))
        };
        let runs = self.vidmm.allocate_scattered(pages.0);
        let runs = runs.ok_or_else(|| scarce(self.vidmm.free_system_pages()))?;
        if let Some(given) = given {
            if let Err(refusal) = self.take_given(cx, process, given, &runs) {
                runs.into_iter().for_each(|run| self.vidmm.free_system(run));
                return Err(refusal.into());
            }
        } else if !self.lend_system(cx, &runs) {
            self.clear_pages(cx, &runs);
        }
        let mut seen: Vec<CpuRun> = runs.iter().map(|run| CpuRun { place: CpuPlace::System, run: *run }).collect();
        if !self.is_io_coherent(cx) {
            see_cached(&mut seen);
        }
        let mapping = self.memory.cpu_view.map_section(cx, self.index, process, (seen.clone(), size_bytes));
        let mapped = Mapped { mapping, runs: seen, size_bytes };
        Ok((Provided { runs, is_given: given.is_some(), mapping }, mapped))
    }

    /// A file that a process has handed over takes the place of system pages that have just been taken.
    fn take_given(&mut self, cx: &Cx<'_>, process: ProcessId, given: u64, runs: &[PageRun]) -> Result<(), Refusal> {
        if cx.platform(self.index).cpu_cache().is_some() {
            return Err(not_supported(
                "an adapter without I/O coherency has the CPU's caches in software: what others that map the file store would not go through them",
            ));
        }
        let files = cx.platform(self.index).given();
        let files = files.ok_or_else(|| not_supported("this host takes no memory that a process hands over"))?;
        self.revoke_returned(cx);
        files.takes(process, given, runs).map_err(invalid)
    }

    /// The handle of a section is closed: its process's mapping ends.
    pub fn section_closed(&mut self, cx: &mut Cx<'_>, mapping: MappingId) {
        self.memory.cpu_view.tell(cx, mapping, MappingChange::Gone);
    }

    /// A section has gone that was made through this adapter.
    pub fn take_section_back(&mut self, cx: &Cx<'_>, gone: GoneSection) {
        let GoneSection { runs, is_given, .. } = gone;
        if let Some(cache) = cx.platform(self.index).cpu_cache() {
            cache.discard(&runs);
        }
        if let Some(given) = cx.platform(self.index).given().filter(|_| is_given) {
            given.returns(&runs);
        }
        runs.into_iter().for_each(|run| self.vidmm.free_system(run));
    }
}
