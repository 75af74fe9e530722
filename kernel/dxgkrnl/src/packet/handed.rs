//! Packets that a node has, and what becomes of them: they are done, or they come back.

use vidmm::AllocationId;
use vidsch::{PacketFenceId, PacketOf};
use wddm_types::{EngineId, NodeId};

use super::work::{Packet, Portion};
use super::{DmaBufferNumber, Nodes, Packets, Running, Starting};
use crate::number::{PacketContextNumber, PacketNumber};
use crate::paging::Ready;
use crate::store::ObjectNumber;

/// A packet that was handed over: the node keeps it until it is done, because it may come back.
pub enum Handed {
    /// A paging buffer.
    Paging(Ready),
    /// A part of a packet that is not its last, and what that writes and the CPU's caches may hold. The packet is in front of its
    /// queue still.
    Portion {
        /// Its context.
        context: PacketContextNumber,
        /// The packet's number.
        packet: PacketNumber,
        /// The part.
        portion: Portion,
        /// What it writes.
        written: Vec<AllocationId>,
    },
    /// A context's packet, or the last part of it.
    Packet {
        /// Its context.
        context: PacketContextNumber,
        /// The packet.
        packet: Packet,
        /// The part.
        portion: Option<Portion>,
        /// What it writes.
        written: Vec<AllocationId>,
    },
}

/// A packet with the driver.
pub type InFlight = vidsch::InFlight<PacketContextNumber, Handed>;
/// Packets that a node has no more.
pub type TakenOut = vidsch::TakenOut<PacketContextNumber, Handed>;

/// A driver's answer to a preemption, copied from its interrupt.
#[derive(Clone, Copy, Debug)]
pub struct NodePreempted {
    /// The node.
    pub node: NodeId,
    /// The engine of the node.
    pub engine: EngineId,
    /// The number of the request that is answered.
    pub preemption_fence_id: u32,
    /// The packet that was done last.
    pub last_completed_fence_id: u32,
}

/// A packet, or a part of one, is done.
pub enum Finished {
    /// A paging buffer.
    Paging(Ready),
    /// A part that is not the last, by its number on the context's fence of portions.
    Portion {
        /// Its context.
        context: PacketContextNumber,
        /// The part's number.
        number: u64,
        /// What it wrote.
        written: Vec<AllocationId>,
    },
    /// A packet.
    Packet {
        /// Its context.
        context: PacketContextNumber,
        /// The packet's number.
        number: PacketNumber,
        /// Its DMA buffer, which is free again.
        buffer: Option<DmaBufferNumber>,
        /// What it wrote.
        written: Vec<AllocationId>,
    },
}

/// A packet, or a part of one, has come back, and is in front of its queue again.
pub enum Back {
    /// A paging buffer, whose queue is the ring's.
    Paging(Ready),
    /// A packet, or a part of one.
    Packet {
        /// Its context.
        context: PacketContextNumber,
        /// The packet's number.
        number: PacketNumber,
        /// For the scheduler the packet has not started.
        whole: bool,
        /// What it writes, and may have written.
        written: Vec<AllocationId>,
    },
}

impl Handed {
    /// The name by which a node knows it again.
    pub fn of(&self) -> PacketOf<PacketContextNumber> {
        let (context, packet, portion) = match self {
            Handed::Paging(_) => return PacketOf::Paging,
            Handed::Portion { context, packet, portion, .. } => (*context, *packet, portion.number),
            Handed::Packet { context, packet, .. } => (*context, packet.number, None),
        };
        PacketOf::Context(Running { context, packet: packet.raw(), portion })
    }

    /// It is done.
    pub fn finish(self) -> Finished {
        match self {
            Handed::Paging(ready) => Finished::Paging(ready),
            Handed::Portion { context, portion, written, .. } => {
                let number = portion.number.expect("it is not the last");
                Finished::Portion { context, number, written }
            }
            Handed::Packet { context, packet, written, .. } => {
                Finished::Packet { context, number: packet.number, buffer: packet.work.buffer(), written }
            }
        }
    }
}

impl Packets {
    /// The driver has taken a packet, or a part of one. A packet of which parts are left is in front of its queue again.
    pub fn handed_over(
        &mut self,
        nodes: &mut Nodes,
        id: PacketFenceId,
        starting: Starting,
        written: Vec<AllocationId>,
    ) {
        let is_last = starting.is_last();
        let Starting { context, packet, portion } = starting;
        let known = &mut self.contexts[context];
        debug_assert!(
            known.queued.front().is_none_or(|behind| packet.number < behind.number),
            "packets are handed over in their order: {:?}",
            packet.number
        );
        let handed = match portion {
            Some(portion) if !is_last => {
                let number = packet.number;
                known.queued.push_front(packet);
                Handed::Portion { context, packet: number, portion, written }
            }
            portion => Handed::Packet { context, packet, portion, written },
        };
        nodes.handed_over(known.facts.node, id, handed.of(), handed);
    }

    /// A packet that was not done stands in front of its queue again.
    // spec: memory §7.4, sync §4.3
    pub fn take_back(&mut self, handed: Handed) -> Back {
        match handed {
            Handed::Paging(ready) => Back::Paging(ready),
            Handed::Portion { context, packet: number, portion, written } => {
                let front = self.contexts[context].queued.front_mut().filter(|front| front.number == number);
                front.expect("a packet is in front until its last portion is handed over").take_back(portion);
                Back::Packet { context, number, whole: false, written }
            }
            Handed::Packet { context, mut packet, portion, written } => {
                let number = packet.number;
                match portion {
                    Some(portion) => packet.take_back(portion),
                    None => packet.preempted = true,
                }
                let queued = &mut self.contexts[context].queued;
                debug_assert!(
                    queued.front().is_none_or(|behind| number < behind.number),
                    "the youngest packet comes back first: {number:?}"
                );
                queued.push_front(packet);
                Back::Packet { context, number, whole: true, written }
            }
        }
    }
}
