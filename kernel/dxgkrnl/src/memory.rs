//! Calls about memory: allocations, addresses, residency (memory §2, §4.8, §5, §6.2).

use std::collections::VecDeque;

use gpu_fence::FenceId;
use kmt_calls::Refusal;
use wddm_types::FencePoint;

use crate::adapter::Adapter;
use crate::allocations::AllocationNumber;
use crate::machine::Cx;
use crate::object::{DeviceNumber, PagingQueue, PagingQueueNumber};
use crate::refusal::invalid;

/// Most allocations in one call.
pub const LIST_MAX: usize = 1 << 16;
/// The most that a queue's last-queued word may run ahead of its progress fence. The word is user-writable, so it is a
/// hint (sync §3.11); a value beyond this is a lie, and paging work must not wait for it.
const IN_FLIGHT_MAX: u64 = 1 << 20;

impl Adapter {
    /// `D3DKMTCreatePagingQueue`.
    // spec: memory §4.9
    pub fn create_paging_queue(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        priority: i32,
        physical_adapter: u32,
    ) -> Result<PagingQueueNumber, Refusal> {
        if !(-1..=1).contains(&priority) {
            return Err(invalid(format!("Priority {priority} of a paging queue: -1, 0 or 1")));
        }
        if physical_adapter != 0 {
            return Err(invalid(format!(
                "PhysicalAdapterIndex {physical_adapter}: the adapter is not linked to another"
            )));
        }
        let process = self.owners.process_of(device);
        // The paging fence is a native fence here, so that queues with user-mode submission may wait for it on the GPU.
        let fence = self.create_fence(cx, Some(device), process, 0)?;
        self.sync.forbid_signals(fence);
        let queue = PagingQueue {
            device,
            fence,
            priority,
            last_value: 0,
            doomed: false,
            awaits_turn: false,
            pending_remap_signals: VecDeque::new(),
        };
        let queue = self.paging_queues.insert(queue);
        self.devices[device].paging_queues.insert(queue);
        Ok(queue)
    }

    /// `D3DKMTDestroyPagingQueue`: its fence goes when the ring has got past its last work.
    pub fn destroy_paging_queue(&mut self, number: PagingQueueNumber) {
        let queue = &self.paging_queues[number];
        let (device, fence) = (queue.device, queue.fence);
        self.devices[device].paging_queues.remove(&number);
        self.defer_fence(fence);
        self.defer_paging_queue(number);
    }

    /// The work that the device's queues have been given and not finished: the last use of anything that it evicts now.
    // spec: sync §3.11
    pub fn queued_work(&self, cx: &Cx<'_>, device: DeviceNumber) -> Result<Vec<FencePoint<FenceId>>, Refusal> {
        let mut points = Vec::new();
        for queue in self.devices[device].queues.iter().map(|number| &self.queues[*number]) {
            let current = self.sync.current_value(cx.memory, queue.progress);
            let last = self.doorbells.queued(cx.memory, queue.doorbell).unwrap_or(queue.feed.submitted());
            if last > current {
                if last - current > IN_FLIGHT_MAX && current != u64::MAX {
                    return Err(invalid(format!("the last-queued word says {last} while the queue is at {current}")));
                }
                points.push(self.sync.point(queue.progress, last));
            }
        }
        for context in &self.devices[device].packet_contexts {
            let (progress, last) = (self.packets[*context].progress, self.packets.last_submitted(*context));
            if last > self.sync.current_value(cx.memory, progress) {
                points.push(self.sync.point(progress, last));
            }
        }
        Ok(points)
    }

    pub fn vidmm_list(
        &self,
        device: DeviceNumber,
        list: &[AllocationNumber],
    ) -> Result<Vec<vidmm::AllocationId>, Refusal> {
        if list.is_empty() || list.len() > LIST_MAX {
            return Err(invalid(format!("a list has 1 to {LIST_MAX} allocations, not {}", list.len())));
        }
        list.iter()
            .map(|number| {
                let allocation = &self.allocations[*number];
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
