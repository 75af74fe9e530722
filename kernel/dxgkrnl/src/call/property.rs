//! Calls about what an allocation is worth, where it is and what it is allowed (memory §2.3, §2.8, §9.2), and the range of it
//! that a CPU cache may hold (memory §6.7).

use kmt_calls::{PropertyCall, Refusal, Reply};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::number::AllocationNumber;
use crate::refusal::invalid;

impl Turn<'_> {
    pub(super) fn on_property(&mut self, cx: &mut Cx<'_>, call: PropertyCall) -> Result<Answer, Refusal> {
        match call {
            PropertyCall::SetAllocationPriority { device, target, priorities } => {
                let (index, device) = self.live_device(device)?;
                let targets = self.targets(index, device, &target)?;
                // spec: memory §2.3
                let wanted = if targets.resource.is_some() { 1 } else { targets.numbers.len() };
                if priorities.len() != wanted {
                    return Err(invalid(format!("{} priorities for {wanted}", priorities.len())));
                }
                let each = |nth: usize| priorities[if targets.resource.is_some() { 0 } else { nth }];
                let list: Vec<(AllocationNumber, u32)> =
                    targets.numbers.iter().enumerate().map(|(nth, number)| (*number, each(nth))).collect();
                self.adapters[index].set_allocation_priority(&list)?;
                done(Reply::Done)
            }
            PropertyCall::GetAllocationPriority { device, target } => {
                let (index, device) = self.live_device(device)?;
                let targets = self.targets(index, device, &target)?;
                done(Reply::Priorities(self.adapters[index].allocation_priorities(&targets.numbers)))
            }
            PropertyCall::QueryAllocationResidency { device, target } => {
                let (index, device) = self.live_device(device)?;
                let targets = self.targets(index, device, &target)?;
                let each = self.adapters[index].allocation_residency(&targets.numbers);
                // spec: memory §9.2: a resource is the worst of its allocations
                let worst = |each: Vec<_>| each.into_iter().max().into_iter().collect();
                done(Reply::ResidencyStatuses(if targets.resource.is_some() { worst(each) } else { each }))
            }
            PropertyCall::UpdateAllocationProperty { paging_queue, allocation, request } => {
                let (index, queue) = self.paging_queue(paging_queue)?;
                let device = self.adapters[index].device_of_paging_queue(queue);
                self.alive(index, device)?;
                let number = self.allocation_of(index, device, allocation)?;
                self.adapters[index]
                    .update_allocation_property(cx, queue, number, request)
                    .and_then(|residency| done(Reply::Residency(residency)))
            }
            PropertyCall::InvalidateCache { device, allocation, offset_bytes, length_bytes } => {
                let (index, device) = self.live_device(device)?;
                let number = self.allocation_of(index, device, allocation)?;
                self.adapters[index].invalidate_cache(cx, number, offset_bytes, length_bytes)?;
                done(Reply::Done)
            }
        }
    }
}
