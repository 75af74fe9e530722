//! Paging queues and what they promise: the adapter makes a queue with its fence, queues the works that complete its values, and has the
//! fences signalled where no hardware does. `paging_queue` has the values and says which are reached.

use kmt_calls::Refusal;

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, PagingQueueNumber, PhysicalAdapterIndex};
use crate::refusal::invalid;
use crate::store::ObjectNumber;

impl Adapter {
    /// `D3DKMTCreatePagingQueue`.
    // spec: memory §4.9
    pub fn create_paging_queue(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        priority: i32,
        physical_adapter: PhysicalAdapterIndex,
    ) -> Result<PagingQueueNumber, Refusal> {
        if !(-1..=1).contains(&priority) {
            return Err(invalid(format!("Priority {priority} of a paging queue: -1, 0 or 1")));
        }
        if physical_adapter != PhysicalAdapterIndex(0) {
            return Err(invalid(format!(
                "PhysicalAdapterIndex {}: the adapter is not linked to another",
                physical_adapter.0
            )));
        }
        let process = self.owners.process_of(device);
        // The paging fence is a native fence here, so that queues with user-mode submission may wait for it on the GPU.
        let fence = self.create_fence(cx, Some(device), process, 0)?;
        self.sync.forbid_signals(fence);
        Ok(self.memory.paging_queues.create(device, fence, priority))
    }

    /// `D3DKMTDestroyPagingQueue`: its fence goes when the ring has got past its last work.
    pub fn destroy_paging_queue(&mut self, number: PagingQueueNumber) {
        self.defer_fence(self.memory.paging_queues.fence_of(number));
        self.defer_paging_queue(number);
    }

    /// Whether a paging queue waits for a device's turn: then the device has something to run, whatever its queues hold.
    pub(super) fn has_promised(&self, device: DeviceNumber) -> bool {
        let queues = &self.memory.paging_queues;
        queues.of_device(device).any(|queue| queues.awaits_turn(queue))
    }

    /// A device's turn is decided, and its work is queued: the promised values stand behind it, by the priorities of the queues.
    /// Elsewhere these say nothing: the memory manager decides while a call runs, and the ring keeps that order.
    // spec: memory §4.9
    pub(super) fn keep_promises(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        let process = self.owners.process_of(device);
        let first = self.vidmm.withheld_places(self.owners.vidmm_of(device)).map(|[first, _]| first);
        for queue in self.memory.paging_queues.by_priority(device) {
            if self.memory.paging_queues.turn_decided(queue, first) {
                self.queue_work(cx, process, Some(queue), None, Vec::new());
            }
        }
    }

    /// A device withholds content: its paging queues come no further before the turn that brings this content.
    // spec: memory §4.9, memory §8.6
    pub(super) fn withhold_values(&mut self, device: DeviceNumber) {
        let queues: Vec<PagingQueueNumber> = self.memory.paging_queues.of_device(device).collect();
        let Some(first) = self.memory.ring.first_held() else { return };
        for queue in queues {
            let kept = self.memory.paging_queues.take_kept(queue, first);
            let values = self.memory.ring.complete_no_more(queue, &kept);
            self.memory.paging_queues.withhold(queue, &values);
        }
    }

    /// Signals a paging queue for a work that is complete: only the kernel signals there.
    pub(super) fn signal_paging_queue(&mut self, cx: &mut Cx<'_>, queue: PagingQueueNumber, value: u64) {
        if let Some(fence) = self.memory.paging_queues.fence_if_there(queue) {
            self.signal_fence(cx, fence, value);
        }
    }

    /// Signals what the kernel keeps: works are done, and their processes see what has come.
    pub(super) fn send_pending_remap_signals(&mut self, cx: &mut Cx<'_>) {
        for queue in self.memory.paging_queues.kept() {
            let (owners, cpu_view, done) = (&self.owners, &self.memory.cpu_view, self.memory.ring.done());
            let reached = self.memory.paging_queues.reached(queue, |device, work| {
                let process = owners.facts_of(device).map(|facts| facts.process);
                work.raw() <= done && process.is_none_or(|process| cpu_view.sees_up_to(process, work))
            });
            if let Some(value) = reached {
                self.signal_paging_queue(cx, queue, value);
            }
        }
    }

    /// Paging queues promise nothing that could still come.
    pub(super) fn satisfy_paging_queues(&mut self, cx: &mut Cx<'_>) {
        for (fence, value) in self.memory.paging_queues.promise_nothing() {
            if self.sync.current_value(cx.memory, fence) < value {
                self.signal_fence(cx, fence, value);
            }
        }
    }
}
