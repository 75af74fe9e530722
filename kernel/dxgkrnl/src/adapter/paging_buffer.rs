//! How the works of the paging ring become paging buffers (memory §3): `paging` knows what comes next and asks the driver; here the other parts
//! say what the question needs, and the CPU or the platform does its part of a work between two buffers.

use ddi::{FenceResidency, PageTableUpdateMode, PagingOp};
use events::Event;
use vidmm::{AllocationId, Operation, Part};
use wddm_types::{PhysicalAddress, ProcessId};

use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::due::{DriverRefusal, RefusedWork, Verdict};
use crate::effect::Cx;
use crate::paging::{Filled, Filling, Names, Question};
use crate::store::ObjectNumber;
use crate::sync::LocalPlace;

impl Adapter {
    /// Executes operations at once by the CPU: tables of the paging process, aperture entries of paging buffers, tables that
    /// the platform keeps.
    // spec: memory §3.4 (paging-process tables)
    pub(super) fn execute_now(&mut self, cx: &Cx<'_>, operations: Vec<Operation>) -> Result<(), ()> {
        for operation in &operations {
            if self.memory.pasids.carry_out(cx.platform(self.index).io_mmu(), operation) {
                continue;
            }
            let names = Names { spaces: &self.memory.spaces, owners: &self.owners, vidmm: &self.vidmm };
            self.memory.ring.execute(self.driver.call(cx), operation, &names).map_err(|_| ())?;
        }
        Ok(())
    }

    /// Builds the works whose turn has come into buffers, as far as there are buffers that the hardware is past.
    ///
    /// # Errors
    /// The driver broke the contract.
    pub(super) fn build_buffers(&mut self, cx: &mut Cx<'_>) -> Result<(), Breach> {
        while self.may_build_buffers()
            && let Some(progress) = self.memory.ring.next_build()
        {
            if progress > self.ring_progress(cx) || !self.may_build(cx) {
                break;
            }
            self.build_one_buffer(cx).map_err(Breach)?;
        }
        Ok(())
    }

    /// Fills the next buffer from the oldest work and submits it.
    // spec: memory §3.1, memory §3.2
    fn build_one_buffer(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let mut filling = self.memory.ring.begin_buffer();
        let filled = loop {
            if let Some(filled) = self.build_one_call(cx, &mut filling).transpose() {
                break filled;
            }
        };
        let used = filling.used();
        self.memory.ring.end_buffer(filling);
        let filled = filled?;
        // A buffer without commands is submitted too where its progress value ends something: the work, or a hold of the ring.
        if self.memory.ring.is_submitted(filled, used) {
            self.submit_buffer(cx, used);
        }
        if filled == Filled::Whole {
            for gone in self.memory.ring.work_built() {
                self.destroy_in_driver(cx, &gone.allocations, gone.resource, gone.with_resource);
            }
        }
        Ok(())
    }

    /// Asks the driver once: for the part of the oldest work that comes next, or for the signal behind its last one.
    // spec: memory §3.2
    fn build_one_call(&mut self, cx: &Cx<'_>, filling: &mut Filling) -> Result<Option<Filled>, String> {
        let mut fences = Vec::new();
        match self.memory.ring.next_operation() {
            Some(operation) if self.is_between_buffers(operation) => return self.between_buffers(cx, filling),
            Some(&Operation::NotifyFenceResidency { storage, address }) => {
                fences = self.move_fences(storage, address);
                if fences.is_empty() {
                    self.memory.ring.take_operation();
                    return Ok(None);
                }
            }
            _ => {}
        }
        let part = self.memory.ring.next_part(&self.vidmm);
        if !self.show_part(cx, part)? {
            return Ok(Some(Filled::Held));
        }
        let system = self.owners.space_of(ProcessId::SYSTEM);
        let flush = self.memory.ring.to_flush().map(|windows| self.vidmm.scratch_flush(system, windows));
        let signal = self.memory.ring.to_signal().map(|(queue, value)| {
            let slot = &self.sync.fence(self.memory.paging_queues.fence_of(queue)).slot;
            let (current, monitored) = (slot.system_current_va, slot.system_monitored_va);
            PagingOp::SignalMonitoredFence { current, monitored, value }
        });
        debug_assert!(part.is_none() || signal.is_none(), "the signal stands behind the last operation: {part:?}");
        debug_assert!(part.is_some() || flush.is_none(), "windows are flushed for the part that they show");
        let names = Names { spaces: &self.memory.spaces, owners: &self.owners, vidmm: &self.vidmm };
        let (mode, fences) = (self.driver.table_update_mode(), fences.as_slice());
        let question = Question { names, mode, part, flush, fences, signal };
        self.memory.ring.ask(self.driver.call(cx), filling, question)
    }

    /// Whether the CPU or the platform carries an operation out, at the ring's place of it.
    fn is_between_buffers(&self, operation: &Operation) -> bool {
        match operation {
            // spec: memory §3.4, operation 11: tables of the paging process by the CPU, whatever the mode of the others
            Operation::UpdatePageTable { space, .. } => {
                self.writes_tables() || *space == self.owners.space_of(ProcessId::SYSTEM)
            }
            Operation::EvictTable { .. } => self.writes_tables(),
            Operation::SwitchRoot { .. } => true,
            _ => self.memory.pasids.carries_out(operation),
        }
    }

    fn writes_tables(&self) -> bool {
        self.driver.table_update_mode() == PageTableUpdateMode::CpuVirtual
    }

    /// Storage of fences is somewhere else from this place of the ring on. The fences that the driver has to know of.
    fn move_fences(&mut self, storage: AllocationId, address: PhysicalAddress) -> Vec<FenceResidency> {
        let fences = self.sync.fences_moved(storage, address);
        let there_after = self.memory.ring.building_number().raw();
        self.sync.local_page_moved(storage, LocalPlace { address, there_after });
        fences
    }

    /// Has the scratch area show a part that is reached by address. False: no slot is free before the ring has made progress.
    fn show_part(&mut self, cx: &Cx<'_>, part: Option<Part>) -> Result<bool, String> {
        match part.and_then(|part| self.memory.ring.unshown(&self.vidmm, part)) {
            Some(shown) => self.borrow_slot(cx, &shown),
            None => Ok(true),
        }
    }

    /// The CPU's part of a work, at the time at which the ring would have done it, when the hardware is past all that stands before it: a
    /// page-table update, the switch to another root, or the platform's part.
    // spec: memory §4.1, memory §4.2, memory §4.6, memory §4.8
    fn between_buffers(&mut self, cx: &Cx<'_>, filling: &Filling) -> Result<Option<Filled>, String> {
        if filling.used() > 0 {
            return Ok(Some(Filled::Full));
        }
        let reached = self.ring_progress(cx);
        if !self.memory.ring.is_past_buffers(reached) {
            return Ok(Some(Filled::Held));
        }
        let operation = self.memory.ring.take_operation();
        if let Operation::SwitchRoot { space, root, entries } = operation {
            self.switch_root(cx, space, root, entries);
            return Ok(None);
        }
        self.execute_now(cx, vec![operation]).map_err(|()| "a page-table update by the CPU failed".to_owned())?;
        Ok(None)
    }

    fn submit_buffer(&mut self, cx: &mut Cx<'_>, used: usize) {
        let powered = self.raise_engine(cx, self.driver.paging_node());
        let submitted = self.memory.ring.submit_buffer(self.driver.call(cx), cx.memory, used, powered);
        let value = match submitted {
            Ok(value) => value,
            // The fault of the ring itself explains it, and has the adapter reset.
            Err(reason) => {
                return self.due.refused(DriverRefusal::new(RefusedWork::Paging, None, [], Verdict::Stop(reason)));
            }
        };
        let work = self.memory.ring.building_number().raw();
        // CAST: a paging buffer is far below 4 GiB.
        cx.emit(self.index, Event::PagingSubmitted { work, progress_value: value, words: used as u32 });
    }
}
