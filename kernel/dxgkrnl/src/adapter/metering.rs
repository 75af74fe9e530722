//! Whose work each node has, and for how long: the figures that need the queues, the packets and the paging ring together, for the tally.
//!
//! Hardware measures the work that it chooses, where it can ([`ddi::HardwareQueues::hw_queue_running_ns`], decision 0028). Work that a
//! process brings by doorbell enters no kernel, and the work that the kernel brings executes beside it: only the hardware knows which of
//! them an engine has run. The kernel asks it when a call wants figures and when a queue goes, so that nothing of this costs a submission.
//!
//! The kernel charges the rest of a node's time turn by turn: at the end of each turn it notes whose work the node has, and the time until
//! the end of the next one is theirs. Between turns the kernel learns nothing, so that is all it can know.
//!
//! | work | whose is it | since when, until when |
//! |---|---|---|
//! | packets | of the packet in front | handed over, or the one before it done; until its interrupt |
//! | hardware queues, fed by a process or by the kernel | of the queue's process; the paging ring's is the kernel's, process 0 | as long as the hardware says that it has executed |
//! | where hardware does not say: queues that the kernel feeds | in equal parts of all processes with some there: hardware chooses among them unseen | handed over; until a turn finds the progress fence there |
//! | likewise: paging | the kernel's | likewise |
//! | likewise: queues that their processes feed | of no process: no turn tells of it | |
//!
//! The kernel counts buffers where it hands them over. It does not count those that a process submits by itself: the process's values of
//! the progress fence rise as it likes, and only they pass through memory that the kernel sees.

use ddi::KmdQueue;
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{PacketContextNumber, QueueNumber};

impl Adapter {
    /// A turn is over: whose work each node has from now on.
    pub(super) fn meter_nodes(&mut self, cx: &Cx<'_>) {
        // Most turns end with nothing on any node, and make no list then.
        let mut has: Vec<(NodeId, ProcessId)> = Vec::new();
        if !self.life.has_stopped() {
            for (_, queue) in self.queues.iter() {
                let unfinished = |last: u64| self.sync.current_value(cx.memory, queue.progress) < last;
                if queue.counted_ns.is_none() && unfinished(queue.feed.last_started()) {
                    let process = self.owners.process_of(queue.device);
                    let one = (self.queues[queue.context].node, process);
                    if !has.contains(&one) {
                        has.push(one);
                    }
                }
            }
            if self.memory.ring.kmd_queue().is_some() && self.memory.ring.counted_ns().is_none() && self.is_paging(cx) {
                has.push((self.paging_node(), ProcessId::SYSTEM));
            }
            for (node, front) in self.packet_fronts() {
                let of = |context: PacketContextNumber| self.owners.process_of(self.packets[context].device);
                has.push((node, front.map_or(ProcessId::SYSTEM, of)));
            }
        }
        for node in 0..self.driver.nodes().len() {
            // CAST: at most 64 nodes.
            let node = NodeId(node as u16);
            let of_node = has.iter().filter(|(of, _)| *of == node).map(|(_, process)| *process);
            self.tally.pass(node, cx.now_ns, of_node.collect());
        }
    }

    /// The hardware's count of a queue. The kernel does not ask a driver that has broken the contract, or whose device has no power: its
    /// queues run nothing.
    pub(super) fn hardware_count(&mut self, cx: &Cx<'_>, queue: KmdQueue) -> Option<u64> {
        if self.life.has_stopped() || self.life.is_off() {
            return None;
        }
        self.driver.call(cx).hardware_queues()?.hw_queue_running_ns(queue).ok()
    }

    /// All hardware queues have run until now.
    pub(super) fn charge_queues(&mut self, cx: &Cx<'_>) {
        let queues: Vec<_> = self.queues.iter().map(|(number, _)| number).collect();
        queues.into_iter().for_each(|number| self.charge_queue(cx, number));
        self.charge_ring(cx);
    }

    /// Charges a queue's process with what the queue has run since the last charge.
    pub(super) fn charge_queue(&mut self, cx: &Cx<'_>, number: QueueNumber) {
        let (kmd, before) = (self.queues[number].kmd, self.queues[number].counted_ns);
        let Some((ns, now)) = self.counted_since(cx, kmd, before) else { return };
        self.queues.charged(number, now);
        self.tally.charge(self.queues.node_of(number), self.owners.process_of(self.queues[number].device), ns);
    }

    /// Charges the kernel with what the paging ring's hardware queue has run.
    pub(super) fn charge_ring(&mut self, cx: &Cx<'_>) {
        let (kmd, before) = (self.memory.ring.kmd_queue(), self.memory.ring.counted_ns());
        let Some((ns, now)) = kmd.and_then(|kmd| self.counted_since(cx, kmd, before)) else { return };
        self.memory.ring.note_counted(now);
        self.tally.charge(self.paging_node(), ProcessId::SYSTEM, ns);
    }

    /// The increase of a count, and the count. One that has fallen, which breaks the contract, says nothing of this time.
    fn counted_since(&mut self, cx: &Cx<'_>, queue: KmdQueue, before: Option<u64>) -> Option<(u64, u64)> {
        let before = before?;
        let now = self.hardware_count(cx, queue)?;
        Some((now.saturating_sub(before), now))
    }
}
