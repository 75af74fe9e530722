//! Maintenance of the CPU's caches (memory §6.7), where the hardware does not keep them coherent with the GPU: the adapter joins what the CPU
//! may hold of an allocation (`cpu_view`), where its pages are (`vidmm`) and the caches that the platform lends. The user-mode driver asks for
//! what it knows; the kernel does its own for what it moves, and for what lists name: those it sees. The rules are `coherency`'s.

use kmt_calls::Refusal;
use vidmm::{AllocationId, Maintenance};
use wddm_types::CpuRun;

use crate::adapter::Adapter;
use crate::coherency::{is_io_coherent, see_cached};
use crate::effect::Cx;
use crate::number::AllocationNumber;
use crate::platform::CpuCache;
use crate::refusal::invalid;

impl Adapter {
    /// Whether GPUs snoop the CPU's caches here.
    pub fn is_io_coherent(&self, cx: &Cx<'_>) -> bool {
        is_io_coherent(cx.platform(self.index), self.config.snoops)
    }

    /// `D3DKMTInvalidateCache`. Nothing to do where the hardware keeps coherency and where the CPU does not cache.
    // spec: memory §6.7
    pub fn invalidate_cache(
        &self,
        cx: &Cx<'_>,
        number: AllocationNumber,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), Refusal> {
        let id = self.memory.allocations[number].vidmm;
        let size_bytes = self.vidmm.allocation_bytes(id);
        if offset_bytes.checked_add(length_bytes).is_none_or(|end| end > size_bytes) {
            return Err(invalid(format!("{length_bytes} bytes at {offset_bytes} of an allocation of {size_bytes}")));
        }
        if let Some(cache) = self.cache_of(cx, id)
            && length_bytes > 0
            && !self.is_io_coherent(cx)
        {
            cache.invalidate(self.vidmm.backing(id), offset_bytes, length_bytes);
        }
        Ok(())
    }

    /// The kernel moves content of an allocation by GPU: the CPU's writes reach memory first, and no line survives that could be read
    /// after the move or be written over it. Physical copies snoop nowhere. Called before the move, and after one that wrote the backing
    /// store: the CPU may have mapped it meanwhile.
    // spec: memory §6.7
    pub(super) fn maintain_for_move(&self, cx: &Cx<'_>, id: AllocationId) {
        if cx.platform(self.index).cpu_cache().is_some()
            && self.memory.allocations.body(id).is_some()
            && let Some(cache) = self.cache_of(cx, id)
        {
            cache.invalidate(self.vidmm.backing(id), 0, self.vidmm.allocation_bytes(id));
        }
    }

    /// A buffer is about to run whose list reads or writes these: the CPU's writes reach memory, and no line is written
    /// over the buffer's.
    // spec: memory §6.7, memory §10.1 row 19
    pub(super) fn lists_use(&mut self, cx: &Cx<'_>, uses: &[(AllocationId, bool)]) {
        for &(id, write) in uses {
            let what = self.memory.cpu_view.list_uses(id, write);
            self.maintain(cx, id, what);
        }
    }

    /// It is done: the CPU sees what it wrote.
    // spec: memory §6.7
    pub(super) fn lists_wrote(&mut self, cx: &Cx<'_>, written: &[AllocationId]) {
        for &id in written {
            let what = self.memory.cpu_view.list_wrote(id);
            self.maintain(cx, id, what);
        }
    }

    /// The CPU is about to see an allocation, to write or to read only. Lock2 does not say that it only reads.
    // spec: memory §6.7, memory §6.5: ReadOnly keeps its meaning
    pub(super) fn lines_mapped(&mut self, cx: &Cx<'_>, id: AllocationId, writes: bool) {
        if self.cache_of(cx, id).is_some() {
            let what = self.memory.cpu_view.lines_come(id, writes);
            self.maintain(cx, id, what);
        }
    }

    /// The entries of a list whose lines the CPU's caches may hold, each with whether it is written.
    pub(super) fn cached_uses(
        &self,
        cx: &Cx<'_>,
        uses: impl Iterator<Item = (AllocationId, bool)>,
    ) -> Vec<(AllocationId, bool)> {
        if self.is_io_coherent(cx) {
            return Vec::new();
        }
        uses.filter(|(id, _)| self.memory.allocations.body(*id).is_some() && self.cache_of(cx, *id).is_some()).collect()
    }

    /// The one instruction that there is writes back and forgets, which is all of them.
    fn maintain(&self, cx: &Cx<'_>, id: AllocationId, what: Maintenance) {
        // An owner that swore that nothing is in use may have destroyed what was.
        if what != Maintenance::None
            && !self.is_io_coherent(cx)
            && self.memory.allocations.body(id).is_some()
            && let Some(cache) = self.cache_of(cx, id)
        {
            cache.invalidate(self.vidmm.backing(id), 0, self.vidmm.allocation_bytes(id));
        }
    }

    /// The pages of an allocation that goes: no line of it may be written over their next content.
    pub(super) fn discard_lines(&self, cx: &Cx<'_>, id: AllocationId) {
        if let Some(cache) = self.cache_of(cx, id) {
            cache.discard(self.vidmm.backing(id));
        }
    }

    /// The CPU's view of an allocation: it sees system pages of a cached one through its caches.
    pub(super) fn through_caches(&self, cx: &Cx<'_>, id: AllocationId, mut runs: Vec<CpuRun>) -> Vec<CpuRun> {
        if self.cache_of(cx, id).is_some() {
            see_cached(&mut runs);
        }
        runs
    }

    fn cache_of<'a>(&self, cx: &Cx<'a>, id: AllocationId) -> Option<&'a dyn CpuCache> {
        let cached = self.vidmm.info(id).flags.contains(ddi::AllocationFlags::CACHED);
        cx.platform(self.index).cpu_cache().filter(|_| cached)
    }
}
