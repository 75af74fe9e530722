//! The packets that nodes run, for timeout detection (sync §4.4, `timeout`), and the names of packet contexts there.

use events::PreemptedFor;
use kmt_calls::DeviceState;
use wddm_types::NodeId;

use super::{Handed, InFlight};
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::DeviceNumber;
use crate::packet::PacketContextNumber;
use crate::statistics::Fate;
use crate::suspension::Leaving;

/// A packet, or a part of one, that a node has in front. It is the same when it came back from a preemption and was handed over again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    pub context: PacketContextNumber,
    packet: u64,
    /// The number of the part; `None`: it is the last, or there are none.
    portion: Option<u64>,
}

impl Adapter {
    /// Whether the hardware may execute for a context.
    pub fn runs_packets(&self, context: PacketContextNumber) -> bool {
        let node = &self.packets.nodes[usize::from(self.packet_contexts[context].node.0)];
        node.holder() == Some(context)
    }

    /// The contexts of a device to be quiesced that have packets with the driver.
    // spec: sync §4.1, memory §8.6
    pub fn packets_running(&self, device: DeviceNumber) -> Vec<Leaving> {
        let contexts = self.packet_contexts_of(device).into_iter();
        contexts.filter(|context| self.runs_packets(*context)).map(Leaving::Packets).collect()
    }

    /// The packet that each node runs, of contexts whose packets may be hung. Paging is not among them.
    // spec: sync §4.4
    pub fn running_packets(&self) -> impl Iterator<Item = (usize, Running)> {
        let front = |(node, known): (usize, &super::Node)| Some((node, known.in_flight.front()?.running()?));
        self.packets.nodes.iter().enumerate().filter_map(front).filter(|(_, running)| {
            let context = &self.packet_contexts[running.context];
            !context.no_timeout && self.devices[context.device].state == DeviceState::Active
        })
    }
}

impl Adapter {
    /// The nodes that have packets, each with the context of the one in front; `None`: it is a paging buffer.
    pub fn packet_fronts(&self) -> impl Iterator<Item = (usize, Option<PacketContextNumber>)> {
        let front = |(node, known): (usize, &super::Node)| Some((node, known.in_flight.front()?.context()));
        self.packets.nodes.iter().enumerate().filter_map(front)
    }

    /// A packet of a context came further.
    pub(super) fn packet_counts(&mut self, context: PacketContextNumber, fate: Fate) {
        let known = &self.packet_contexts[context];
        let (node, process) = (known.node, self.devices[known.device].process);
        self.statistics.count_buffers(node, process, fate, 1);
        if fate == Fate::Submitted {
            self.statistics.note_context(node, context);
        }
    }

    /// Whether a node has a paging buffer in front.
    pub fn is_paging_in_front(&self, node: NodeId) -> bool {
        let front = self.packets.nodes[usize::from(node.0)].in_flight.front();
        front.is_some_and(|front| front.context().is_none())
    }

    /// Whether a node owes the answer to a request for its packets, or never gives any back.
    pub fn owes_preemption(&self, node: NodeId) -> bool {
        self.packets.nodes[usize::from(node.0)].asked.is_some() || self.packets.granularity().is_none()
    }

    /// Asks a node for what it has, unless that has been done.
    pub fn preempt_for(&mut self, cx: &mut Cx<'_>, node: NodeId, why: PreemptedFor) {
        let node = usize::from(node.0);
        if self.packets.nodes[node].asked.is_none() {
            self.preempt(cx, node, why, None);
        }
    }
}

impl InFlight {
    pub(super) fn running(&self) -> Option<Running> {
        match &self.what {
            Handed::Paging(_) => None,
            Handed::Portion { context, packet, portion, .. } => {
                Some(Running { context: *context, packet: *packet, portion: portion.number })
            }
            Handed::Packet { context, packet, .. } => {
                Some(Running { context: *context, packet: packet.number, portion: None })
            }
        }
    }
}
