//! How long engines have executed for hardware queues, as the hardware itself counts it
//! ([`ddi::HardwareQueues::hw_queue_running_ns`]). Work that a process brings by doorbell enters no kernel, and what the kernel
//! brings executes beside it: only the hardware knows which of them an engine has run. The kernel asks it when a call wants figures
//! and when a queue goes, so that nothing of this costs a submission.
//!
//! Where the hardware does not count, the kernel meters the work that it feeds by its turns, and no figure holds the work
//! that processes feed.

use ddi::KmdQueue;
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::object::QueueNumber;
use crate::statistics::Statistics;

impl Statistics {
    /// An engine has executed for a process.
    fn charge(&mut self, node: NodeId, process: ProcessId, ns: u64) {
        let add = |to: &mut u64| *to = to.saturating_add(ns);
        add(&mut self.nodes[usize::from(node.0)].work.running_ns);
        if let Some(known) = self.processes.get_mut(&process) {
            add(&mut known.nodes.entry(node).or_default().running_ns);
        }
    }
}

impl Adapter {
    /// The hardware's count of a queue. The kernel does not ask a driver that has broken the contract, or whose device has no power: its
    /// queues run nothing.
    pub fn hardware_count(&mut self, queue: KmdQueue) -> Option<u64> {
        if self.life.has_stopped() || self.life.is_off() {
            return None;
        }
        self.driver.hardware_queues()?.hw_queue_running_ns(queue).ok()
    }

    /// All hardware queues have run until now.
    pub fn charge_queues(&mut self) {
        let queues: Vec<_> = self.queues.iter().map(|(number, _)| number).collect();
        queues.into_iter().for_each(|number| self.charge_queue(number));
        self.charge_ring();
    }

    /// Charges a queue's process with what the queue has run since the last charge.
    pub fn charge_queue(&mut self, number: QueueNumber) {
        let queue = &self.queues[number];
        let (kmd, before, context, device) = (queue.kmd, queue.counted_ns, queue.context, queue.device);
        let Some((ns, now)) = self.counted_since(kmd, before) else { return };
        self.queues[number].counted_ns = Some(now);
        self.statistics.charge(self.contexts[context].node, self.devices[device].process, ns);
    }

    /// Charges the kernel with what the paging ring's hardware queue has run.
    pub fn charge_ring(&mut self) {
        let (kmd, before) = (self.ring.kmd_queue(), self.ring.counted_ns());
        let Some((ns, now)) = kmd.and_then(|kmd| self.counted_since(kmd, before)) else { return };
        self.ring.note_counted(now);
        self.statistics.charge(self.paging_node(), ProcessId::SYSTEM, ns);
    }

    /// The increase of a count, and the count. One that has fallen, which breaks the contract, says nothing of this time.
    fn counted_since(&mut self, queue: KmdQueue, before: Option<u64>) -> Option<(u64, u64)> {
        let before = before?;
        let now = self.hardware_count(queue)?;
        Some((now.saturating_sub(before), now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hardware_counts_is_the_process_s_and_the_node_s() {
        let process = ProcessId(1);
        let mut known = Statistics::new(2);
        known.begin(process);
        known.charge(NodeId(1), process, 30);
        known.charge(NodeId(1), ProcessId::SYSTEM, 12);
        let of = |known: &Statistics, process| known.processes[&process].nodes[&NodeId(1)].running_ns;
        assert_eq!((of(&known, process), of(&known, ProcessId::SYSTEM)), (30, 12));
        known.forget(process);
        known.charge(NodeId(1), process, 8);
        assert_eq!((known.nodes[1].work.running_ns, known.nodes[0].work.running_ns), (50, 0), "the node's own stays");
        // A driver may say what it likes.
        known.charge(NodeId(1), ProcessId::SYSTEM, u64::MAX);
        assert_eq!(known.nodes[1].work.running_ns, u64::MAX);
    }
}
