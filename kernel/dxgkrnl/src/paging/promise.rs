//! Values of paging queues that promise more than that content has come: its process has locked it, and sees it where it was before. From
//! the value on the GPU may write where it is now, and what the CPU reads then is what the GPU wrote; so the value stands behind the
//! mapping's change, of which the process says that it holds. The hardware, which would signal at the end of the move, does not know that:
//! the kernel signals such a value, and the queue's later ones until it is reached, for they would be past it.
//!
//! Only work behind such a value waits for the process's answer: the ring goes on when no access reaches the places that were left.

use wddm_types::ProcessId;

use super::rotation::MediumChange;
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::PagingQueueNumber;

impl Adapter {
    /// Whether the hardware may signal a work's value itself. If not, it is noted for the kernel to do so.
    // spec: memory §4.9, memory §6.3
    pub(super) fn hardware_keeps(
        &mut self,
        (queue, value): (PagingQueueNumber, u64),
        work: u64,
        turns: &[MediumChange],
    ) -> bool {
        let process = self.owners.process_of(self.paging_queues[queue].device);
        let promises = &mut self.paging_queues[queue].pending_remap_signals;
        if promises.is_empty() && !turns.iter().any(|turn| turn.shows_to(process)) {
            return true;
        }
        promises.push_back((value, work));
        self.ring.promised.insert(queue);
        false
    }

    /// Signals what is kept: works are done, and their processes see what has come.
    pub(super) fn send_pending_remap_signals(&mut self, cx: &mut Cx<'_>) {
        let queues: Vec<_> = self.ring.promised.iter().copied().collect();
        for queue in queues {
            let mut reached = None;
            if let Some(known) = self.paging_queues.get_mut(queue) {
                let process = self.owners.facts_of(known.device).map(|facts| facts.process);
                while let Some((value, work)) = known.pending_remap_signals.front().copied()
                    && work <= self.ring.last_done
                    && process.is_none_or(|process| self.cpu_view.sees_up_to(process, work))
                {
                    known.pending_remap_signals.pop_front();
                    reached = Some(value);
                }
            }
            if self.paging_queues.get(queue).is_none_or(|known| known.pending_remap_signals.is_empty()) {
                self.ring.promised.remove(&queue);
            }
            if let Some(value) = reached {
                self.signal_paging_queue(cx, queue, value);
            }
        }
    }

    /// The hardware is not waited for any more: whatever was promised is signalled otherwise, or its queue has gone.
    pub fn forget_pending_remap_signals(&mut self) {
        for queue in std::mem::take(&mut self.ring.promised) {
            if let Some(known) = self.paging_queues.get_mut(queue) {
                known.pending_remap_signals.clear();
            }
        }
    }

    /// The first work that the hardware is to get past for a value that the kernel signals.
    pub(super) fn promised_work(&self) -> Option<u64> {
        let queues = self.ring.promised.iter().filter_map(|queue| self.paging_queues.get(*queue));
        let fronts = queues.filter_map(|queue| queue.pending_remap_signals.front().map(|(_, work)| *work));
        fronts.filter(|work| *work > self.ring.last_done).min()
    }

    /// Whether a process is quiesced, and goes on behind the ring's work: it must see the places that it is about to write.
    pub(super) fn is_quiesced(&self, process: ProcessId) -> bool {
        self.owners.devices_of(process).any(|device| self.is_suspended(device))
    }
}
