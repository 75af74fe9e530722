//! Pages of fence words in system memory, out of the kernel's own: where they come from, and how they are mapped for the GPU
//! (sync §1.5). Which words of them are free, `sync` knows. Called by `storage`.

use kmt_calls::Refusal;
use shared_words::ClientAccess;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, ProcessId, WordAddress};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::platform::Viewers;
use crate::refusal::no_memory;
use crate::sync::{Home, MappedPage, TakenWord, Which};
use crate::word_page::WORD_STRIDE;

/// Why there is no word, where no quota says so before.
pub(super) const NO_PAGES: &str = "no system memory left for fence words";
/// `MonitoredValueStride` 0 (sync §6 A3).
const NATURAL_STRIDE: u64 = 8;

impl Adapter {
    /// Gives the packed words of a process back that has gone: their system mappings are freed, and the pages when the paging
    /// ring has got past every use of them.
    pub(in crate::adapter) fn release_fence_words(&mut self, process: ProcessId) {
        for page in self.sync.release_packed_words(process) {
            // Works that are still to come signal fences of the process by these addresses.
            if !page.system_va.is_null() {
                self.defer_system_mapping(page.system_va, page.run.count);
            }
            self.defer_pages(page.run);
        }
    }

    /// Bytes between two packed MonitoredValues.
    pub(super) fn monitored_stride(&mut self) -> u64 {
        self.word_stride(Which::Monitored)
    }

    /// Bytes between two packed words.
    // spec: sync §1.5, sync §6 A2, sync §6 A3
    fn word_stride(&mut self, which: Which) -> u64 {
        match (which, self.fence_caps().monitored_value_stride) {
            (Which::Current, _) => WORD_STRIDE,
            (Which::Monitored, 0) => NATURAL_STRIDE,
            (Which::Monitored, stride) => u64::from(stride),
        }
    }

    pub(super) fn take_word(&mut self, cx: &mut Cx<'_>, owner: ProcessId, which: Which) -> Result<TakenWord, Refusal> {
        let stride = self.word_stride(which);
        match self.sync.take_packed_word(owner, which, stride) {
            Some(word) => Ok(word),
            None => self.add_word_page(cx, owner, which, stride),
        }
    }

    /// Adds a page of words, mapped in the process's space and in the paging process, and takes the first word.
    // spec: sync §1.5, sync §1.4
    fn add_word_page(
        &mut self,
        cx: &mut Cx<'_>,
        owner: ProcessId,
        which: Which,
        stride: u64,
    ) -> Result<TakenWord, Refusal> {
        let run = self.take_word_page(cx)?;
        if which == Which::Current && owner != ProcessId::SYSTEM {
            self.show_word_page(cx, Viewers::One(owner), run);
        }
        // The tables of a process that gets no words there keep the mappings made before a failure: the kernel does not give the page
        // back, so that nothing else is ever reached through it.
        let system = self.owners.space_of(ProcessId::SYSTEM);
        let space = self.owners.space_of(owner);
        let (va, system_va) = if !self.has_addresses() {
            // Nothing but the CPU reaches them.
            (GpuVa::NULL, GpuVa::NULL)
        } else {
            let system_va = self.map_word_page(cx, system, run, true)?;
            match owner {
                ProcessId::SYSTEM => (system_va, system_va),
                _ => (self.map_word_page(cx, space, run, which == Which::Current)?, system_va),
            }
        };
        let mapped_at = self.memory.ring.queued();
        self.sync.mapped_at(owner, mapped_at);
        Ok(self.sync.add_packed_page(owner, which, stride, MappedPage { run, va, system_va }))
    }

    pub(super) fn give_back_word(&mut self, owner: ProcessId, which: Which, home: Home, word: WordAddress) {
        let stride = self.word_stride(which);
        self.sync.give_back_packed_word(owner, which, home, word, stride);
    }

    /// Shows a fresh page of CurrentValues to the processes that have fences there.
    // spec: sync §1.4 (User CPU VA), sync §1.5 (IoMmu adapters)
    pub(super) fn show_word_page(&mut self, cx: &Cx<'_>, viewers: Viewers, run: PageRun) {
        let access = if self.uses_cpu_addresses() { ClientAccess::ReadWrite } else { ClientAccess::Read };
        self.driver.pages().show(cx.platform(self.index).clients(), viewers, run, access);
    }

    /// A page for words, zeroed.
    // spec: sync §1.5: from the kernel's internal pool
    pub(super) fn take_word_page(&mut self, cx: &Cx<'_>) -> Result<PageRun, Refusal> {
        let run = self.take_kernel_pages(cx, Pages(1)).ok_or_else(|| no_memory(NO_PAGES))?;
        cx.memory.fill(run.first * PAGE_BYTES, PAGE_BYTES, 0);
        Ok(run)
    }

    /// Maps a page of words for the GPU, where the driver wants fences to be.
    // spec: sync §1.5 (MinimumAddress, MaximumAddress)
    pub(super) fn map_word_page(
        &mut self,
        cx: &mut Cx<'_>,
        space: vidmm::SpaceId,
        run: PageRun,
        writable: bool,
    ) -> Result<GpuVa, Refusal> {
        let caps = self.fence_caps();
        self.map_fence_page(cx, space, run, writable, (caps.minimum_address, caps.maximum_address))
    }
}
