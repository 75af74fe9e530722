//! The kernel's own pages: fence words, logs, paging buffers. Memory and quotas limit them, and no size that is set aside at the start. They grow
//! by runs of `vidmm`'s system pages, and the kernel gives back each run of which it uses no page. The driver's part hands them out; here
//! they are mapped.

use gpu_fence::FenceId;
use vidmm::{Protection, SpaceId, Target, Work};
use wddm_types::{GpuVa, PageRun, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::effect::Cx;
use crate::gpu_va::from_map;

/// The pages by which they grow, where there are so many in one piece: 1 MiB.
const GROWTH: Pages = Pages(256);

impl Adapter {
    /// Consecutive pages of the kernel's own; `None`: system memory is used up.
    pub(super) fn take_kernel_pages(&mut self, cx: &Cx<'_>, count: Pages) -> Option<PageRun> {
        self.make_kernel_room(cx, count);
        self.driver.pages().take(count)
    }

    /// Grows the kernel's pages where they have not so many in one piece.
    pub(super) fn make_kernel_room(&mut self, cx: &Cx<'_>, count: Pages) {
        if self.driver.pages().has_room(count) {
            return;
        }
        let sizes = [GROWTH.0.max(count.0), count.0];
        if let Some(run) = sizes.into_iter().find_map(|pages| self.vidmm.allocate_system(pages)) {
            self.revoke_returned(cx);
            self.driver.pages().grow(run);
        }
    }

    /// Gives back what the kernel's pages have grown by and nothing uses any more.
    pub(super) fn shrink_kernel_pages(&mut self) {
        while let Some(run) = self.driver.pages().take_unused() {
            self.vidmm.free_system(run);
        }
    }

    /// Maps the kernel's own pages into a space. Tables of the paging process are written at once; those of others by
    /// paging work.
    pub(super) fn map_pages(
        &mut self,
        cx: &mut Cx<'_>,
        space: SpaceId,
        run: PageRun,
        writable: bool,
    ) -> Result<GpuVa, kmt_calls::Refusal> {
        let target = Target::SystemPages(run);
        self.map_run(cx, space, (target, run), writable, (GpuVa::NULL, GpuVa::NULL))
    }

    /// The same for a page of fence words, within a window of addresses; NULL is no bound.
    // spec: sync §1.5: updates of entries that show native fences say so
    pub(super) fn map_fence_page(
        &mut self,
        cx: &mut Cx<'_>,
        space: SpaceId,
        run: PageRun,
        writable: bool,
        window: (GpuVa, GpuVa),
    ) -> Result<GpuVa, kmt_calls::Refusal> {
        let native = self.driver.has_native_fences();
        let target = if native { Target::FencePages(run) } else { Target::SystemPages(run) };
        self.map_run(cx, space, (target, run), writable, window)
    }

    fn map_run(
        &mut self,
        cx: &mut Cx<'_>,
        space: SpaceId,
        (target, run): (Target, PageRun),
        writable: bool,
        (minimum, maximum): (GpuVa, GpuVa),
    ) -> Result<GpuVa, kmt_calls::Refusal> {
        let request = vidmm::MapRequest {
            target,
            size_pages: run.count,
            base: None,
            minimum,
            maximum,
            protection: Protection { write: writable, ..Protection::default() },
        };
        self.map_for_kernel(cx, space, request)
    }

    /// Maps something of the kernel's own.
    pub(super) fn map_for_kernel(
        &mut self,
        cx: &mut Cx<'_>,
        space: SpaceId,
        request: vidmm::MapRequest,
    ) -> Result<GpuVa, kmt_calls::Refusal> {
        let mut made = self.vidmm.map_gpu_va(space, request);
        if made == Err(vidmm::MapError::OutOfTables) && self.note_idle_devices(cx) {
            made = self.vidmm.map_gpu_va(space, request);
        }
        let (va, work) = made.map_err(|error| from_map(&error))?;
        let performed = self.perform_mapping(cx, work);
        self.heed(cx, performed);
        Ok(va)
    }

    /// Takes the kernel's own mapping out of a space again.
    pub(super) fn unmap_pages(&mut self, cx: &mut Cx<'_>, space: SpaceId, va: GpuVa, count: Pages) {
        let work = self.vidmm.free_system_va(space, va, count);
        if work.as_ref().is_some_and(|work| work.immediate) {
            self.memory.ring.forget_entries(space, va, count);
        }
        let performed = self.perform_mapping(cx, work);
        self.heed(cx, performed);
    }

    fn perform_mapping(&mut self, cx: &mut Cx<'_>, work: Option<Work<FenceId>>) -> Result<(), Breach> {
        let Some(work) = work else { return Ok(()) };
        if work.immediate {
            return self
                .execute_now(cx, work.into_operations())
                .map_err(|()| Breach("a page-table update of the paging process by the CPU failed".into()));
        }
        self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        Ok(())
    }
}
