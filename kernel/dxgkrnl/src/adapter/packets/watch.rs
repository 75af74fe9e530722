//! The packets that nodes run, for timeout detection (sync §4.4, `timeout`), and the names of packet contexts there.

use events::PreemptedFor;
use vidsch::PacketOf;
use wddm_types::NodeId;

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, PacketContextNumber};
use crate::packet::Running;
use crate::scheduling::Leaving;
use crate::tally::Fate;

impl Adapter {
    /// Whether the hardware may execute for a context.
    pub(super) fn runs_packets(&self, context: PacketContextNumber) -> bool {
        self.vidsch.nodes.holder(self.packets[context].node) == Some(context)
    }

    /// The contexts of a device to be quiesced that have packets with the driver.
    // spec: sync §4.1, memory §8.6
    pub(in crate::adapter) fn packets_running(&self, device: DeviceNumber) -> Vec<Leaving> {
        let contexts = self.packet_contexts_of(device).into_iter();
        contexts.filter(|context| self.runs_packets(*context)).map(Leaving::Packets).collect()
    }

    /// The packet that each node runs, of contexts whose packets may be hung. Paging is not among them.
    // spec: sync §4.4
    pub(in crate::adapter) fn running_packets(&self) -> impl Iterator<Item = (NodeId, Running)> {
        let of_context = |(node, of)| if let PacketOf::Context(running) = of { Some((node, running)) } else { None };
        self.vidsch.nodes.fronts().filter_map(of_context).filter(|(_, running)| {
            let context = &self.packets[running.context];
            !context.no_timeout && self.owners.is_active(context.device)
        })
    }

    /// The nodes that have packets, each with the context of the one in front; `None`: it is a paging buffer.
    pub(in crate::adapter) fn packet_fronts(&self) -> impl Iterator<Item = (NodeId, Option<PacketContextNumber>)> {
        self.vidsch.nodes.fronts().map(|(node, of)| (node, of.context()))
    }

    /// A packet of a context came further.
    pub(super) fn packet_counts(&mut self, context: PacketContextNumber, fate: Fate) {
        let known = &self.packets[context];
        let (node, process) = (known.node, self.owners.process_of(known.device));
        self.tally.count_buffers(node, process, fate, 1);
        if fate == Fate::Submitted {
            self.tally.note_context(node, context);
        }
    }

    /// Whether a node has a paging buffer in front.
    pub(in crate::adapter) fn is_paging_in_front(&self, node: NodeId) -> bool {
        self.vidsch.nodes.front(node) == Some(PacketOf::Paging)
    }

    /// Whether a node owes the answer to a request for its packets, or never gives any back.
    pub(in crate::adapter) fn owes_preemption(&self, node: NodeId) -> bool {
        !self.vidsch.nodes.is_fed(node) || self.packets.granularity().is_none()
    }

    /// Asks a node for what it has, unless that has been done.
    pub(in crate::adapter) fn preempt_for(&mut self, cx: &mut Cx<'_>, node: NodeId, why: PreemptedFor) {
        if let Some(number) = self.vidsch.nodes.ask(node) {
            self.preempt(cx, node, number, why, None);
        }
    }
}
