//! The packets that nodes have, the steps that are due on a node, and what the caller has to say before it asks for one. Plain values,
//! shared by `node` and `report`.

use engine_time::Contender;

use super::{PacketFenceId, PreemptionNumber};

/// The driver's terms for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTerms {
    /// A node has at most so many packets, paging buffers among them (`HwQueuePacketCap`).
    pub in_flight_max: usize,
    /// A node gives packets back.
    pub preemptible: bool,
}

/// A packet of a context, or a part of one: the name by which it is known again when it came back and was handed over once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running<C> {
    /// The context that it is of.
    pub context: C,
    /// The packet's number on its context.
    pub packet: u64,
    /// The number of the part; `None`: it is the last, or there are none.
    pub portion: Option<u64>,
}

/// The owner of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOf<C> {
    /// The kernel: it is a paging buffer.
    Paging,
    /// A context.
    Context(Running<C>),
}

impl<C: Copy> PacketOf<C> {
    /// The context that a packet is of; `None`: the kernel's own.
    pub fn context(&self) -> Option<C> {
        match self {
            PacketOf::Paging => None,
            PacketOf::Context(running) => Some(running.context),
        }
    }
}

/// A packet with the driver. The node keeps it until it is done, because it may come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight<C, P> {
    /// The id under which the driver has it.
    pub id: PacketFenceId,
    /// Whose it is.
    pub of: PacketOf<C>,
    /// The caller's description.
    pub packet: P,
}

/// The facts about a node that only the caller knows.
#[derive(Clone, Copy, Debug)]
pub struct Seen<C> {
    /// The context that has packets on the node ([`Nodes::holder`](super::Nodes::holder)), with its rank of now.
    pub holder: Option<Contender<C>>,
    /// The holder's device must quiesce.
    pub must_quiesce: bool,
    /// The node is kept for something else: paging buffers wait for it, or it is about to be reset.
    pub kept: bool,
}

/// The step that is due on a node for its contexts.
#[must_use = "a step that is not carried out stops its node"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStep<C> {
    /// Hand the context's next packet over under this id, then say [`handed_over`](super::Nodes::handed_over). The id of a packet that the driver
    /// refuses is given out again.
    Start(C, PacketFenceId),
    /// Ask the driver for what the node has, under this number.
    Preempt(PreemptionNumber, PreemptFor<C>),
    /// Nothing until something changes, or the time of [`Nodes::deadline_ns`](super::Nodes::deadline_ns) has come.
    Wait,
}

/// The reason for which a node is preempted in the course of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptFor<C> {
    /// This context should have the node.
    Rank(C),
    /// This one, the holder, must quiesce.
    Standstill(C),
}

/// The step that is due on a node for the paging buffer that is next.
#[must_use = "a step that is not carried out stops paging"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingStep {
    /// Hand it over under this id, then say [`handed_over`](super::Nodes::handed_over).
    Start(PacketFenceId),
    /// Ask the driver for what the node has, under this number.
    Preempt(PreemptionNumber),
    /// Nothing until something changes.
    Wait,
}
