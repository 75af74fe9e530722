//! The IoMmu model (memory §4.1) joins memory and owners: allocations get the CPU's addresses in the spaces of processes, and the paging
//! ring shows them. `io_mmu` has the numbers of the processes.

use events::Event;
use kmt_calls::Refusal;
use vidmm::AllocationId;
use wddm_types::{CpuVa, ProcessId};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::AllocationNumber;
use crate::refusal::no_memory;
use crate::store::ObjectNumber;

/// The result of [`Adapter::give_addresses`].
#[derive(Debug, Default)]
pub(super) struct Given {
    /// The allocations that had none before.
    pub fresh: Vec<AllocationId>,
    /// Some of it is resident, and is shown when the ring has got so far.
    pub shown_later: bool,
}

impl Adapter {
    /// Whether the adapter is of the IoMmu model: the GPU uses the CPU's addresses of a process.
    pub fn uses_cpu_addresses(&self) -> bool {
        self.memory.pasids.are_there()
    }

    /// Whether engines have addresses of processes at all, their own or the CPU's.
    pub(super) fn has_addresses(&mut self) -> bool {
        self.uses_cpu_addresses() || self.driver.facets().gpu_va
    }

    /// Gives the allocations of a call their addresses in the process, all or none. Nothing to do on adapters of other models,
    /// and for what the process has already.
    // spec: memory §4.1
    pub(super) fn give_addresses(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        allocations: &[AllocationId],
        write: bool,
    ) -> Result<Given, Refusal> {
        let mut given = Given::default();
        if !self.uses_cpu_addresses() {
            return Ok(given);
        }
        let space = self.owners.space_of(process);
        for &id in allocations {
            if self.vidmm.cpu_address(space, id).is_some() {
                continue;
            }
            match self.vidmm.give_cpu_address(space, id, write) {
                Ok(work) => {
                    given.fresh.push(id);
                    if work.is_some() {
                        given.shown_later = true;
                        self.queue_work(cx, process, None, work, Vec::new());
                    }
                }
                Err(error) => {
                    self.take_addresses(cx, process, &given.fresh);
                    return Err(no_memory(error.to_string()));
                }
            }
        }
        Ok(given)
    }

    /// Tells traces where a process has an allocation, when that has just been decided.
    pub(super) fn announce_address(
        &self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        id: AllocationId,
        allocation: AllocationNumber,
    ) {
        let CpuVa(va) = self.address_of(process, id);
        if va != 0 {
            let size_bytes = self.vidmm.allocation_bytes(id);
            cx.emit(
                self.index,
                Event::GpuVaMapped { process: process.0, va, size_bytes, allocation: allocation.raw() },
            );
        }
    }

    /// Takes back what was given for a call that failed later.
    pub(super) fn take_addresses(&mut self, cx: &mut Cx<'_>, process: ProcessId, allocations: &[AllocationId]) {
        let space = self.owners.space_of(process);
        for &id in allocations {
            let work = self.vidmm.take_cpu_address(space, id);
            self.queue_any(cx, process, work);
        }
    }

    /// Where a process has an allocation, on an adapter of this model; else NULL.
    pub(super) fn address_of(&self, process: ProcessId, allocation: AllocationId) -> CpuVa {
        let space = self.owners.facts_of_process(process).map(|facts| facts.space);
        space.and_then(|space| self.vidmm.cpu_address(space, allocation)).unwrap_or(CpuVa::NULL)
    }
}
