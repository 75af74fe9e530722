//! Where fence words lie (sync §1.5): slabs of two pages a process, one for CurrentValues, one for MonitoredValues.

use kmt_calls::Refusal;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, ProcessId, WordAddress};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::refusal::no_memory;
use crate::word_page::WORD_STRIDE;

/// Fences of one slab.
const SLAB_FENCES: u16 = (PAGE_BYTES / WORD_STRIDE) as u16;
/// Most slabs of one process: 4,096 fences.
const SLABS_MAX: usize = 64;

/// Two pages of fence words of one process.
#[derive(Debug)]
pub struct FenceSlab {
    current: PageRun,
    monitored: PageRun,
    current_va: GpuVa,
    monitored_va: GpuVa,
    system_current_va: GpuVa,
    system_monitored_va: GpuVa,
    free: Vec<u16>,
}

/// Where one fence's words lie.
#[derive(Clone, Copy, Debug)]
pub struct FenceSlot {
    owner: ProcessId,
    slab: usize,
    index: u16,
    pub current: WordAddress,
    pub monitored: WordAddress,
    pub current_va: GpuVa,
    pub monitored_va: GpuVa,
    pub system_current_va: GpuVa,
    pub system_monitored_va: GpuVa,
}

impl FenceSlot {
    /// Whose page the words lie on.
    pub fn owner(&self) -> ProcessId {
        self.owner
    }
}

impl Adapter {
    pub(super) fn take_fence_slot(&mut self, cx: &mut Cx<'_>, owner: ProcessId) -> Result<FenceSlot, Refusal> {
        let slabs = &self.processes[&owner].fences;
        let slab = match slabs.iter().position(|slab| !slab.free.is_empty()) {
            Some(slab) => slab,
            None if slabs.len() < SLABS_MAX => self.grow_fences(cx, owner)?,
            None => {
                return Err(no_memory(format!(
                    "a process has at most {} fences",
                    SLABS_MAX * usize::from(SLAB_FENCES)
                )));
            }
        };
        let slab_number = slab;
        let slab = &mut self.processes.get_mut(&owner).expect("just found").fences[slab];
        let index = slab.free.pop().expect("a slab with a free slot");
        let offset = u64::from(index) * WORD_STRIDE;
        Ok(FenceSlot {
            owner,
            slab: slab_number,
            index,
            current: WordAddress(slab.current.first * PAGE_BYTES + offset),
            monitored: WordAddress(slab.monitored.first * PAGE_BYTES + offset),
            current_va: slab.current_va.offset(offset),
            monitored_va: slab.monitored_va.offset(offset),
            system_current_va: slab.system_current_va.offset(offset),
            system_monitored_va: slab.system_monitored_va.offset(offset),
        })
    }

    /// Adds a slab: two pages, mapped in the process's space and in the paging process (sync §1.5).
    // spec: sync §1.5, sync §1.4
    fn grow_fences(&mut self, cx: &mut Cx<'_>, owner: ProcessId) -> Result<usize, Refusal> {
        let out_of_pages = || no_memory("the kernel's pages for fence words are used up");
        let current = self.pages.take(Pages(1)).ok_or_else(out_of_pages)?;
        let Some(monitored) = self.pages.take(Pages(1)) else {
            self.pages.give_back(current);
            return Err(out_of_pages());
        };
        for run in [current, monitored] {
            self.memory.fill(run.first * PAGE_BYTES, PAGE_BYTES, 0);
        }
        let system_space = self.processes[&ProcessId::SYSTEM].space;
        let translates = self.miniport.gpu_va().is_some();
        let mapped = (|| {
            if !translates {
                // Nothing but the CPU reaches them.
                return Ok((GpuVa::NULL, GpuVa::NULL, GpuVa::NULL, GpuVa::NULL));
            }
            let system_current_va = self.map_pages(cx, system_space, current, true)?;
            let system_monitored_va = self.map_pages(cx, system_space, monitored, true)?;
            if owner == ProcessId::SYSTEM {
                return Ok((system_current_va, system_monitored_va, system_current_va, system_monitored_va));
            }
            let space = self.processes[&owner].space;
            let current_va = self.map_pages(cx, space, current, true)?;
            let monitored_va = self.map_pages(cx, space, monitored, false)?;
            Ok((system_current_va, system_monitored_va, current_va, monitored_va))
        })();
        let (system_current_va, system_monitored_va, current_va, monitored_va) = match mapped {
            Ok(addresses) => addresses,
            Err(refusal) => {
                // What was mapped stays mapped in tables of a process that gets no slab: the pages are not given back,
                // so that nothing else is ever reached through it.
                return Err(refusal);
            }
        };
        let slab = FenceSlab {
            current,
            monitored,
            current_va,
            monitored_va,
            system_current_va,
            system_monitored_va,
            free: (0..SLAB_FENCES).rev().collect(),
        };
        let mapped_at = self.ring.queued();
        let process = self.processes.get_mut(&owner).expect("the owner is on the adapter");
        process.words_mapped_at = mapped_at;
        process.fences.push(slab);
        Ok(process.fences.len() - 1)
    }

    /// Whether the GPU reaches all fence words of a process.
    pub fn fence_words_mapped(&self, process: ProcessId) -> bool {
        self.processes.get(&process).is_none_or(|on_adapter| on_adapter.words_mapped_at <= self.ring.done())
    }

    pub(super) fn give_back_slot(&mut self, slot: FenceSlot) {
        // A process that has gone has given its slabs back whole.
        let Some(process) = self.processes.get_mut(&slot.owner) else { return };
        // Nor does one that has come again since own the slab: its pages tell, for they are not given out again before this.
        let Some(slab) = process.fences.get_mut(slot.slab) else { return };
        if slab.current.first * PAGE_BYTES + u64::from(slot.index) * WORD_STRIDE == slot.current.0 {
            slab.free.push(slot.index);
        }
    }

    /// Gives the slabs of a process back that has gone: their system mappings are freed, and the pages when the paging ring
    /// has got past every use of them.
    pub fn release_fence_slabs(&mut self, slabs: Vec<FenceSlab>) {
        for slab in slabs {
            // Works that are still to come signal fences of the process by these addresses.
            let mapped = [slab.system_current_va, slab.system_monitored_va].into_iter().filter(|va| !va.is_null());
            mapped.for_each(|va| self.defer_system_mapping(va));
            self.defer_pages(slab.current);
            self.defer_pages(slab.monitored);
        }
    }
}
