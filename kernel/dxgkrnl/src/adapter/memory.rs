//! What calls about memory (memory §2, §4.8, §5, §6.2) ask of two parts at once: the work that a device's queues hold, which is the last
//! use of what the device evicts, and the allocations that a list of a call names.

use gpu_fence::FenceId;
use kmt_calls::Refusal;
use wddm_types::FencePoint;

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::memory::LIST_MAX;
use crate::number::{AllocationNumber, DeviceNumber};
use crate::refusal::invalid;

/// The most that a queue's last-queued word may run ahead of its progress fence. The word is user-writable, so it is a
/// hint (sync §3.11); a value beyond this is a lie, and paging work must not wait for it.
const IN_FLIGHT_MAX: u64 = 1 << 20;

impl Adapter {
    /// The work that the device's queues have been given and not finished: the last use of anything that it evicts now.
    // spec: sync §3.11
    pub(super) fn queued_work(&self, cx: &Cx<'_>, device: DeviceNumber) -> Result<Vec<FencePoint<FenceId>>, Refusal> {
        let mut points = Vec::new();
        for queue in self.queues.of_device(device).map(|(_, queue)| queue) {
            let current = self.sync.current_value(cx.memory, queue.progress);
            let last = self.doorbells.queued(cx.memory, queue.doorbell).unwrap_or(queue.feed.submitted());
            if last > current {
                if last - current > IN_FLIGHT_MAX && current != u64::MAX {
                    return Err(invalid(format!("the last-queued word says {last} while the queue is at {current}")));
                }
                points.push(self.sync.point(queue.progress, last));
            }
        }
        for context in self.packets.of_device(device) {
            let (progress, last) = (self.packets[context].progress, self.packets.last_submitted(context));
            if last > self.sync.current_value(cx.memory, progress) {
                points.push(self.sync.point(progress, last));
            }
        }
        Ok(points)
    }

    /// The allocations of a list, as the memory manager knows them. Each is of this device.
    pub(super) fn vidmm_list(
        &self,
        device: DeviceNumber,
        list: &[AllocationNumber],
    ) -> Result<Vec<vidmm::AllocationId>, Refusal> {
        if list.is_empty() || list.len() > LIST_MAX {
            return Err(invalid(format!("a list has 1 to {LIST_MAX} allocations, not {}", list.len())));
        }
        list.iter()
            .map(|number| {
                let allocation = &self.memory.allocations[*number];
                // spec: memory §9.3
                if allocation.device == device {
                    Ok(allocation.vidmm)
                } else {
                    Err(invalid("an allocation of another device"))
                }
            })
            .collect()
    }
}
