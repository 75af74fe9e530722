//! An allocation's priority, residency and properties (memory §2.3, §2.8, §9.2).

use ddi::{UpdateAllocationPropertyFlags, UpdateAllocationPropertyMask};
use kmt_calls::{PropertyFlags, PropertyMask, PropertyRequest, Refusal, Residency, ResidencyStatus};
use vidmm::{Location, PropertyError, PropertyUpdate};

use crate::adapter::Adapter;
use crate::allocations::AllocationNumber;
use crate::effect::Cx;
use crate::number::PagingQueueNumber;
use crate::refusal::{from_driver, invalid, no_memory, not_supported};

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
        let status = |number: &AllocationNumber| match self.vidmm.location(self.memory.allocations[*number].vidmm) {
            Location::Memory => ResidencyStatus::ResidentInGpuMemory,
            Location::System => ResidencyStatus::ResidentInSharedMemory,
            Location::Nowhere => ResidencyStatus::NotResident,
        };
        numbers.iter().map(status).collect()
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
        if request.mask.is_empty() || request.mask.bits() >> 4 != 0 || request.flags.bits() >> 2 != 0 {
            return Err(invalid("property mask or flags: reserved bits, or nothing to change"));
        }
        let preferred_segment = ddi::SegmentPreference::from_bits(request.preferred_segment)
            .ok_or_else(|| invalid("reserved bits of an order of preference"))?;
        let allocation = &self.memory.allocations[number];
        let (id, device) = (allocation.vidmm, allocation.device);
        let asked = ddi::UpdateAllocationProperty {
            allocation: allocation.kmd,
            supported_segments: request.supported_segments,
            preferred_segment,
            flags: UpdateAllocationPropertyFlags::from_bits_retain(request.flags.bits()),
            mask: UpdateAllocationPropertyMask::from_bits_retain(request.mask.bits()),
        };
        let has = |flag: PropertyMask| request.mask.contains(flag);
        let flag = |flag: PropertyFlags| request.flags.contains(flag);
        let update = PropertyUpdate {
            accessed_physically: has(PropertyMask::ACCESSED_PHYSICALLY)
                .then(|| flag(PropertyFlags::ACCESSED_PHYSICALLY)),
            supported_segments: has(PropertyMask::SUPPORTED_SEGMENT_SET).then_some(request.supported_segments),
            preferred_segment: has(PropertyMask::PREFERRED_SEGMENT).then_some(preferred_segment),
            unmoveable: has(PropertyMask::UNMOVEABLE).then(|| flag(PropertyFlags::UNMOVEABLE)),
        };
        self.vidmm.check_property(id, &update).map_err(|error| from_property(&error))?;
        self.driver.call(cx).validate_update_allocation_property(asked).map_err(from_driver)?;
        let (process, owner) = (self.owners.process_of(device), self.owners.vidmm_of(device));
        let ran = !self.vidmm.is_suspended(owner);
        let work = self.vidmm.update_property(id, update).map_err(|error| from_property(&error))?;
        if work.is_none() {
            return Ok(Residency::Resident);
        }
        let paging_fence_value = if ran && self.vidmm.is_suspended(owner) {
            self.queue_work(cx, process, None, work, Vec::new());
            self.memory.paging_queues.promise_with_turn(paging_queue)
        } else {
            self.queue_for(cx, process, paging_queue, work)
        };
        Ok(Residency::Pending { paging_fence_value })
    }
}

// spec: memory §9.2
fn from_property(error: &PropertyError) -> Refusal {
    match error {
        PropertyError::SegmentFull => no_memory(error.to_string()),
        PropertyError::NotBuilt(_) => not_supported(error.to_string()),
        _ => invalid(error.to_string()),
    }
}
