//! Where fence words lie (sync §1.5): system memory out of the kernel's own pages (`page`), but for what `local` has.
//!
//! | fence | words |
//! |---|---|
//! | not shareable | packed: pages of CurrentValues and pages of MonitoredValues of one process, each at its stride; the process maps the first read/write and the second read-only for the GPU, the first read-only for the CPU |
//! | shareable | two pages of its own, or one if it is a monitored fence, mapped in each process that has it open, at one address however many devices of that process open it |
//!
//! The CurrentValue of a cross-adapter fence is a page of the adapter that created it, lent to each that opens it; MonitoredValues are
//! each adapter's own, but where one linear storage holds both (sync §3.18).
//!
//! So a page is mapped only in processes that may have every fence on it. The pages of packed words stand in the paging process too,
//! where paging buffers signal the fences of paging queues; MapToGpuSystemProcess decides whether a driver is told of that.

use ddi::{FenceValueType, NativeFenceCaps};
use kmt_calls::{CreatedFence, Refusal};
use shared_words::ClientAccess;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, ProcessId, WordAddress};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{CrossFenceNumber, DeviceNumber};
use crate::platform::Viewers;
use crate::refusal::no_memory;
use crate::sync::{CommonWord, FenceSlot, FenceView, Home, TakenWord, Which};

impl Adapter {
    /// Words for a fence that no other process will see.
    // spec: sync §1.5
    pub(super) fn take_fence_slot(&mut self, cx: &mut Cx<'_>, owner: ProcessId) -> Result<FenceSlot, Refusal> {
        let current = self.take_word(cx, owner, Which::Current)?;
        let monitored = match self.take_word(cx, owner, Which::Monitored) {
            Ok(monitored) => monitored,
            Err(refusal) => {
                self.give_back_word(owner, Which::Current, current.home, current.word);
                return Err(refusal);
            }
        };
        Ok(FenceSlot {
            owner,
            current_home: current.home,
            monitored_home: monitored.home,
            cross: None,
            linear: false,
            current: current.word,
            monitored: monitored.word,
            current_va: current.va,
            monitored_va: monitored.va,
            system_current_va: current.system_va,
            system_monitored_va: monitored.system_va,
        })
    }

    /// CurrentValue in system memory, MonitoredValue in local memory if it may lie there.
    // spec: sync §1.4 (DEFAULT optimized), sync §1.5
    pub(super) fn take_optimized_slot(
        &mut self,
        cx: &mut Cx<'_>,
        owner: ProcessId,
        device: DeviceNumber,
    ) -> Result<FenceSlot, Refusal> {
        let Some(monitored) = self.take_optimized_word(cx, device)? else { return self.take_fence_slot(cx, owner) };
        let current = match self.take_word(cx, owner, Which::Current) {
            Ok(current) => current,
            Err(refusal) => {
                self.sync.give_back_local_word(monitored);
                return Err(refusal);
            }
        };
        Ok(FenceSlot {
            owner,
            current_home: current.home,
            monitored_home: Home::Local(monitored),
            cross: None,
            linear: false,
            current: current.word,
            monitored: CreatedFence::NO_CPU_ADDRESS,
            current_va: current.va,
            monitored_va: monitored.va,
            system_current_va: current.system_va,
            system_monitored_va: monitored.system_va,
        })
    }

    /// Words in local memory, for a fence that only engines touch.
    // spec: sync §1.4, sync §1.5
    pub(super) fn take_local_slot(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) -> Result<FenceSlot, Refusal> {
        let current = self.take_intra_gpu_word(cx, device, FenceValueType::Current)?;
        let monitored = match self.take_intra_gpu_word(cx, device, FenceValueType::Monitored) {
            Ok(monitored) => monitored,
            Err(refusal) => {
                self.sync.give_back_local_word(current);
                return Err(refusal);
            }
        };
        Ok(FenceSlot {
            owner: self.owners.process_of(device),
            current_home: Home::Local(current),
            monitored_home: Home::Local(monitored),
            cross: None,
            linear: false,
            current: CreatedFence::NO_CPU_ADDRESS,
            monitored: CreatedFence::NO_CPU_ADDRESS,
            current_va: current.va,
            monitored_va: monitored.va,
            system_current_va: current.system_va,
            system_monitored_va: monitored.system_va,
        })
    }

    /// The one word of a monitored fence that is not mapped on the GPU.
    // spec: sync §1.6, sync §2.3
    pub(super) fn take_unmapped_slot(&mut self, cx: &Cx<'_>, owner: ProcessId) -> Result<FenceSlot, Refusal> {
        self.make_kernel_room(cx, Pages(1));
        let word = self.sync.take_cpu_word(cx, self.driver.pages(), (owner, ClientAccess::Read), 0);
        let current = word.ok_or_else(|| no_memory(super::page::NO_PAGES))?;
        Ok(FenceSlot::without_monitored(owner, Home::Unmapped, current, GpuVa::NULL, GpuVa::NULL))
    }

    /// The one word of a monitored fence that the GPU reaches.
    // spec: sync §1.2, sync §1.5
    pub(super) fn take_monitored_slot(&mut self, cx: &mut Cx<'_>, owner: ProcessId) -> Result<FenceSlot, Refusal> {
        let TakenWord { home, word, va, system_va } = self.take_word(cx, owner, Which::Current)?;
        Ok(FenceSlot::without_monitored(owner, home, word, va, system_va))
    }

    /// The one word of a monitored fence that can be shared: a page of its own, `mapped` or not where GPUs see it.
    // spec: sync §1.5
    pub(super) fn take_shared_monitored_slot(
        &mut self,
        cx: &Cx<'_>,
        owner: ProcessId,
        mapped: bool,
        common: Option<CommonWord>,
    ) -> Result<FenceSlot, Refusal> {
        let page = self.current_page(cx, common)?;
        let home = if mapped { Home::Own(page) } else { Home::Apart(page) };
        let word = WordAddress(page.first * PAGE_BYTES);
        let slot = FenceSlot::without_monitored(owner, home, word, GpuVa::NULL, GpuVa::NULL);
        Ok(FenceSlot { cross: common.map(|common| common.cross), ..slot })
    }

    /// The page of a shareable fence's CurrentValue: one of the adapter's, or the one that it is lent.
    // spec: sync §1.5, sync §3.12: one CurrentValue, in system memory
    fn current_page(&mut self, cx: &Cx<'_>, common: Option<CommonWord>) -> Result<PageRun, Refusal> {
        let Some(common) = common else {
            let page = self.take_word_page(cx)?;
            self.show_word_page(cx, Viewers::Several, page);
            return Ok(page);
        };
        self.sync.common_use_begins(common.cross);
        Ok(common.page)
    }

    /// Gives it back when the ring has got past what reaches it.
    fn give_back_current_page(&mut self, page: PageRun, cross: Option<CrossFenceNumber>) {
        match cross {
            Some(cross) => self.defer_common_use(cross),
            None => self.defer_pages(page),
        }
    }

    /// Words for a fence that can be shared: two pages of its own, mapped nowhere yet but where the driver wants all fences.
    // spec: sync §1.5
    pub(super) fn take_shared_slot(
        &mut self,
        cx: &mut Cx<'_>,
        owner: ProcessId,
        common: Option<CommonWord>,
    ) -> Result<FenceSlot, Refusal> {
        let cross = common.map(|common| common.cross);
        let linear = common.and_then(|common| common.monitored);
        let monitored = match linear {
            Some(page) => page,
            None => self.take_word_page(cx)?,
        };
        let current = match self.current_page(cx, common) {
            Ok(current) => current,
            Err(refusal) => {
                if linear.is_none() {
                    self.driver.pages().give_back(cx.platform(self.index).clients(), monitored);
                }
                return Err(refusal);
            }
        };
        let mut slot = FenceSlot {
            owner,
            current_home: Home::Own(current),
            monitored_home: Home::Own(monitored),
            cross,
            linear: linear.is_some(),
            current: WordAddress(current.first * PAGE_BYTES),
            monitored: WordAddress(monitored.first * PAGE_BYTES),
            current_va: GpuVa::NULL,
            monitored_va: GpuVa::NULL,
            system_current_va: GpuVa::NULL,
            system_monitored_va: GpuVa::NULL,
        };
        if self.fence_caps().map_to_gpu_system_process {
            let system = self.owners.space_of(ProcessId::SYSTEM);
            let mapped = self.map_word_page(cx, system, current, true).and_then(|current_va| {
                let monitored_va = self.map_word_page(cx, system, monitored, true);
                if monitored_va.is_err() {
                    self.defer_system_mapping(current_va, current.count);
                }
                Ok((current_va, monitored_va?))
            });
            match mapped {
                Ok((current_va, monitored_va)) => {
                    (slot.system_current_va, slot.system_monitored_va) = (current_va, monitored_va);
                }
                Err(refusal) => {
                    self.give_back_current_page(current, cross);
                    if linear.is_none() {
                        self.defer_pages(monitored);
                    }
                    return Err(refusal);
                }
            }
        }
        Ok(slot)
    }

    /// Shows a shareable fence's words to a process.
    // spec: sync §1.4, sync §3.3 step 2
    pub(super) fn map_fence_view(
        &mut self,
        cx: &mut Cx<'_>,
        slot: &FenceSlot,
        process: ProcessId,
        writable: bool,
    ) -> Result<FenceView, Refusal> {
        let mut view = FenceView { current_va: GpuVa::NULL, monitored_va: GpuVa::NULL, opens: 0 };
        let space = self.owners.space_of(process);
        match slot.current_home {
            Home::Own(current) => view.current_va = self.map_word_page(cx, space, current, writable)?,
            Home::Apart(_) => return Ok(view),
            _ => unreachable!("only shareable fences are shown to processes one by one"),
        }
        if let Home::Own(monitored) = slot.monitored_home {
            match self.map_word_page(cx, space, monitored, false) {
                Ok(monitored_va) => view.monitored_va = monitored_va,
                Err(refusal) => {
                    self.unmap_pages(cx, space, view.current_va, Pages(1));
                    return Err(refusal);
                }
            }
        }
        let mapped_at = self.memory.ring.queued();
        self.sync.mapped_at(process, mapped_at);
        Ok(view)
    }

    /// Takes a shareable fence's words out of a process.
    pub(super) fn unmap_fence_view(&mut self, cx: &mut Cx<'_>, process: ProcessId, view: FenceView) {
        // With the process its space has gone.
        let Some(space) = self.owners.facts_of_process(process).map(|facts| facts.space) else { return };
        for va in [view.current_va, view.monitored_va].into_iter().filter(|va| !va.is_null()) {
            self.unmap_pages(cx, space, va, Pages(1));
        }
    }

    pub(super) fn give_back_slot(&mut self, slot: FenceSlot) {
        for (which, home, word, system_va) in [
            (Which::Current, slot.current_home, slot.current, slot.system_current_va),
            (Which::Monitored, slot.monitored_home, slot.monitored, slot.system_monitored_va),
        ] {
            match home {
                // With its process its pages have gone.
                Home::Unmapped => self.sync.give_back_cpu_word(slot.owner, ClientAccess::Read, word),
                Home::Nowhere => {}
                Home::Own(run) | Home::Apart(run) => {
                    // Works that are queued still reach the pages at the addresses that have just been freed.
                    if !system_va.is_null() {
                        self.defer_system_mapping(system_va, run.count);
                    }
                    match which {
                        Which::Current => self.give_back_current_page(run, slot.cross),
                        // It goes with the word that all have.
                        Which::Monitored if slot.linear => {}
                        Which::Monitored => self.defer_pages(run),
                    }
                }
                Home::Local(word) => self.sync.give_back_local_word(word),
                Home::Packed { .. } => self.give_back_word(slot.owner, which, home, word),
            }
        }
    }

    /// Whether the GPU reaches all fence words of a process.
    pub fn fence_words_mapped(&self, process: ProcessId) -> bool {
        self.sync.are_mapped(process, self.memory.ring.done())
    }

    /// The driver's fence capabilities; nothing where it has none.
    pub(super) fn fence_caps(&mut self) -> NativeFenceCaps {
        self.driver.facets().native_fences.unwrap_or_default()
    }
}
