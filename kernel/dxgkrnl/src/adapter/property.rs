//! An allocation's priority, residency and properties (memory §2.3, §2.8, §9.2). The memory manager has them; the adapter finds the allocations,
//! asks the driver, and queues the work of a change. `property` says it in the words of each.

use kmt_calls::{PropertyRequest, Refusal, Residency, ResidencyStatus};
use wddm_types::SegmentSet;

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{AllocationNumber, PagingQueueNumber};
use crate::property::{Change, from_property, residency_status};
use crate::refusal::{from_driver, invalid};

impl Adapter {
    /// `D3DKMTSetAllocationPriority`: all or none.
    // spec: memory §2.3
    pub fn set_allocation_priority(&mut self, list: &[(AllocationNumber, u32)]) -> Result<(), Refusal> {
        let list: Vec<_> =
            list.iter().map(|(number, priority)| (self.memory.allocations[*number].vidmm, *priority)).collect();
        self.vidmm.set_allocation_priority(&list).map_err(|error| invalid(error.to_string()))
    }

    /// `D3DKMTGetAllocationPriority`.
    pub fn allocation_priorities(&self, numbers: &[AllocationNumber]) -> Vec<u32> {
        numbers.iter().map(|number| self.vidmm.allocation_priority(self.memory.allocations[*number].vidmm)).collect()
    }

    /// `D3DKMTQueryAllocationResidency`.
    // spec: memory §9.2
    pub fn allocation_residency(&self, numbers: &[AllocationNumber]) -> Vec<ResidencyStatus> {
        let location = |number: &AllocationNumber| self.vidmm.location(self.memory.allocations[*number].vidmm);
        numbers.iter().map(location).map(residency_status).collect()
    }

    /// `D3DKMTUpdateAllocationProperty`: the kernel asks the driver first; changes count from the next placement on. Content that may not
    /// stay leaves now, and the value says when it is where it may be: with the next turn of a device that lists it.
    // spec: memory §2.8
    pub fn update_allocation_property(
        &mut self,
        cx: &mut Cx<'_>,
        paging_queue: PagingQueueNumber,
        number: AllocationNumber,
        request: PropertyRequest,
    ) -> Result<Residency, Refusal> {
        let change = Change::new(request)?;
        let allocation = &self.memory.allocations[number];
        let (id, device) = (allocation.vidmm, allocation.device);
        let (asked, update) = (change.for_driver(allocation.kmd), change.for_vidmm());
        let segments = self.vidmm.check_property(id, &update).map_err(|error| from_property(&error))?;
        self.may_count_as_locked(number, segments)?;
        self.driver.call(cx).validate_update_allocation_property(asked).map_err(from_driver)?;
        let (process, owner) = (self.owners.process_of(device), self.owners.vidmm_of(device));
        let ran = !self.vidmm.is_suspended(owner);
        let work = self.vidmm.update_property(id, update).map_err(|error| from_property(&error))?;
        let locked = (self.memory.allocations.body_of(id).creator, self.video_bytes(id));
        self.memory.cpu_view.recount(id, locked);
        if work.is_none() {
            return Ok(Residency::Resident);
        }
        let paging_fence_value = if ran && self.vidmm.is_suspended(owner) {
            self.queue_work(cx, process, None, work, Vec::new());
            self.memory.paging_queues.promise_with_turn(paging_queue, self.memory.ring.place())
        } else {
            self.queue_for(cx, process, paging_queue, work)
        };
        Ok(Residency::Pending { paging_fence_value, locked: None })
    }

    /// A locked allocation that may lie in video memory from now on counts as locked there. The limit is that of the process that has it locked:
    /// where another process changes it, the locks that come later find the limit reached.
    // spec: memory §6.3
    fn may_count_as_locked(&self, number: AllocationNumber, segments: SegmentSet) -> Result<(), Refusal> {
        let binding = &self.memory.allocations[number];
        let (id, process) = (binding.vidmm, self.owners.process_of(binding.device));
        let counts_more =
            self.vidmm.has_memory(segments) && self.memory.cpu_view.of(id).is_some() && self.video_bytes(id) == 0;
        if counts_more && self.memory.allocations.body_of(id).creator == process {
            self.memory.committing.may_lock(self.vidmm.allocation_bytes(id))?;
        }
        Ok(())
    }
}
