//! Values of paging queues that are reached with the next turn of their device. A call's effect on the list counts at once, and the
//! device is quiesced until all of its list can be there. The paging queue signals nothing from there on before the turn,
//! so that its values keep their order. Three calls come to that:
//! - MakeResident of what may not enter a memory segment while it is locked (memory §6.3, memory §10.1 row 23). A client that
//!   never unlocks waits for itself; the event says so;
//! - UpdateAllocationProperty of content that may not stay where it is (memory §2.8);
//! - Reclaim of what does not fit beside others any more (memory §5.9).

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::{DeviceNumber, PagingQueueNumber};

impl Adapter {
    /// Promises the next value of a paging queue for its device's next turn.
    // spec: memory §10.1 row 23
    pub fn promise_with_turn(&mut self, paging_queue: PagingQueueNumber) -> u64 {
        let queue = &mut self.paging_queues[paging_queue];
        queue.last_value += 1;
        queue.awaits_turn = true;
        queue.last_value
    }

    /// Whether a paging queue waits for a device's turn: then the device has something to run, whatever its queues hold.
    pub fn has_promised(&self, device: DeviceNumber) -> bool {
        self.devices[device].paging_queues.iter().any(|queue| self.paging_queues[*queue].awaits_turn)
    }

    /// A device's turn is decided, and its work is queued: the promised values stand behind it, by the priorities of the queues.
    /// Elsewhere these say nothing: the memory manager decides while a call runs, and the ring keeps that order.
    // spec: memory §4.9
    pub fn keep_promises(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        let process = self.owners.process_of(device);
        let mut queues: Vec<_> = self.devices[device].paging_queues.iter().copied().collect();
        queues.sort_by_key(|queue| std::cmp::Reverse(self.paging_queues[*queue].priority));
        for queue in queues {
            let known = &mut self.paging_queues[queue];
            if std::mem::take(&mut known.awaits_turn) {
                // The last value promised says that everything before it is there.
                known.last_value -= 1;
                self.queue_work(cx, process, Some(queue), None, Vec::new());
            }
        }
    }
}
