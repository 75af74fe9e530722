//! The nodes that take packets: what each has in flight, which packet it is handed next, and what becomes of what it had when it is
//! preempted or reset. `dxgkrnl`, its only caller, carries the steps out: it calls the driver, keeps DMA buffers and lists, and puts what
//! comes back in front of its queues. `C` names a context, `P` is the caller's packet, given back unread.
//!
//! ```text
//! next_paging, next ─▶ the driver takes it ─▶ handed_over ─▶ in flight ─▶ completed
//!       │                                                     │    │
//!       └▶ Preempt ─▶ the driver is asked ─▶ preempted ◀──────┘    └─▶ reset_begins ─▶ completed … ─▶ aborted
//!                                               │ what is done                                          │ whose packets are lost
//!                                               └────────▶ give_back: the youngest first ◀──────────────┘
//!                                                                    │ the caller has put each in front of its queue
//!                                                                    └▶ goes_on
//! ```
//! # The law
//! - The packets of one context at a time are on a node, and paging buffers: a fault costs exactly one device its packets.
//! - Packets complete in the order in which they were handed over. A report of one is a report of all before it.
//! - Ids rise in that order ([`PacketFenceId`]). A packet that comes back gets a new one, a paging buffer keeps its own.
//! - Between the request for what a node has and [`goes_on`](Nodes::goes_on) the node is handed nothing.
//! - A paging buffer goes before every packet of a context (memory §7.4): it takes the node from them, and no context is charged for it.
//! - A driver that says of a reset that nothing was lost is believed once for the same packet in front.
//!
//! # Blame
//! The caller passes on reports of the driver, and the driver is to blame for a [breach](ReportBreach). The caller itself is to blame when
//! it names a node that does not exist in any other call, or an event that the node's life does not know; both panic.

mod breach;
mod id;
mod report;
mod state;
mod step;
mod taken;

use std::collections::{BTreeMap, VecDeque};

use engine_time::{Contender, Policy};
use wddm_types::NodeId;

pub use breach::{AbortBreach, AnswerBreach, ReportBreach};
pub use id::{PacketFenceId, PreemptionNumber};
pub use report::{Aborted, AfterReset, Faulted};
use state::{Event, NodeState};
pub use step::{InFlight, NodeStep, NodeTerms, PacketOf, PagingStep, PreemptFor, Running, Seen};
pub use taken::TakenOut;

use crate::queues::QueueId;
use crate::turn::{NodeDecision, NodeTime, Occupied};

/// One node.
struct Node<C, P> {
    state: NodeState,
    /// Oldest first.
    in_flight: VecDeque<InFlight<C, P>>,
    /// The id that was given out last.
    handed_last: PacketFenceId,
    /// The packet that was done last; 0: none.
    completed_last: PacketFenceId,
    /// Packets that the driver had when their context was dropped, and of which it may have said nothing yet.
    dropped: Vec<PacketFenceId>,
    /// The time of the contexts that take turns on it.
    time: NodeTime<C>,
    /// When to decide again which context has the node.
    again_ns: Option<u64>,
    /// The last request.
    asked_last: PreemptionNumber,
    /// The packet in front when a reset of the node lost nothing.
    spared: Option<Running<C>>,
}

impl<C: Copy + Ord, P> Node<C, P> {
    fn new(policy: Policy) -> Self {
        Node {
            state: NodeState::Fed,
            in_flight: VecDeque::new(),
            handed_last: PacketFenceId::default(),
            completed_last: PacketFenceId::default(),
            dropped: Vec::new(),
            time: NodeTime::new(policy),
            again_ns: None,
            asked_last: PreemptionNumber::default(),
            spared: None,
        }
    }

    fn happens(&mut self, event: Event) {
        self.state = self
            .state
            .after(event)
            .unwrap_or_else(|| panic!("{event:?} in {:?}: the kernel acted on a node out of turn", self.state));
    }

    fn holder(&self) -> Option<C> {
        self.in_flight.iter().find_map(|packet| packet.of.context())
    }

    fn find(&self, id: PacketFenceId) -> Option<&InFlight<C, P>> {
        self.in_flight.iter().find(|packet| packet.id == id)
    }

    /// The driver is to be asked for what the node has.
    fn ask(&mut self) -> PreemptionNumber {
        let before = self.asked_last;
        self.asked_last = before.next();
        debug_assert_ne!(self.asked_last, before, "two requests have one number");
        self.happens(Event::Ask(self.asked_last));
        self.asked_last
    }
}

/// The nodes of an adapter, and the contexts that take turns on them.
pub struct Nodes<C, P> {
    terms: NodeTerms,
    nodes: Vec<Node<C, P>>,
    /// The contexts by the queue that each has at the scheduler, and their nodes.
    contexts: BTreeMap<QueueId, (C, NodeId)>,
}

impl<C: Copy + Ord, P> Nodes<C, P> {
    /// So many nodes, empty, and no context.
    pub fn new(terms: NodeTerms, nodes: usize, policy: Policy) -> Self {
        Nodes { terms, nodes: (0..nodes).map(|_| Node::new(policy)).collect(), contexts: BTreeMap::new() }
    }

    /// A context takes turns on a node from now on; its packets are held by this queue.
    pub fn enter(&mut self, context: C, node: NodeId, queue: QueueId) {
        debug_assert!(usize::from(node.0) < self.nodes.len(), "{node:?} of {} takes no packets", self.nodes.len());
        let before = self.contexts.insert(queue, (context, node));
        debug_assert!(before.is_none(), "{queue:?} is of two contexts");
    }

    /// The context of this queue is gone. The caller has [dropped](Self::drop_of) its packets.
    pub fn leave(&mut self, queue: QueueId) {
        self.contexts.remove(&queue);
    }

    /// All nodes, in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = NodeId> + use<C, P> {
        // CAST: at most 64 nodes.
        (0..self.nodes.len() as u16).map(NodeId)
    }

    /// The contexts of these queues, by their names; queues of other kinds are none of them. Of those that hold packets something may be
    /// due, of the others nothing is.
    pub fn contexts_of(&self, queues: impl Iterator<Item = QueueId>) -> Vec<C> {
        self.contexts_where(queues, |_| true)
    }

    /// The same, of one node.
    pub fn contexts_on(&self, node: NodeId, queues: impl Iterator<Item = QueueId>) -> Vec<C> {
        self.contexts_where(queues, |on| on == node)
    }

    fn contexts_where(&self, queues: impl Iterator<Item = QueueId>, counts: impl Fn(NodeId) -> bool) -> Vec<C> {
        let known = queues.filter_map(|queue| self.contexts.get(&queue));
        let mut contexts: Vec<_> = known.filter(|(_, node)| counts(*node)).map(|(context, _)| *context).collect();
        contexts.sort_unstable();
        contexts
    }

    /// The step that is due for the next paging buffer, which had the id `kept` if it came back. Call until `Wait`.
    // spec: memory §7.4, sync §4.3
    pub fn next_paging(&mut self, node: NodeId, kept: Option<PacketFenceId>) -> PagingStep {
        let terms = self.terms;
        let known = self.node_mut(node);
        if known.state != NodeState::Fed {
            return PagingStep::Wait;
        }
        if known.holder().is_some() {
            return if terms.preemptible { PagingStep::Preempt(known.ask()) } else { PagingStep::Wait };
        }
        if known.in_flight.len() >= terms.in_flight_max {
            return PagingStep::Wait;
        }
        let known_id = kept.is_none_or(|id| !id.is_later_than(known.handed_last));
        debug_assert!(known_id, "{kept:?} came back to {node:?}, and {:?} was given out last", known.handed_last);
        PagingStep::Start(kept.unwrap_or_else(|| known.handed_last.next()))
    }

    /// The step that is due for the contexts of a node, of which `ready` have a packet that may start. Call until `Wait`.
    // spec: sync §4.1, sync §4.2, sync §4.3
    pub fn next(&mut self, now_ns: u64, node: NodeId, ready: &[Contender<C>], seen: Seen<C>) -> NodeStep<C> {
        let NodeTerms { in_flight_max, preemptible } = self.terms;
        let known = self.node_mut(node);
        let here = seen.holder.map(|holder| holder.context);
        assert!(here == known.holder(), "the caller asks with the holder");
        if seen.kept || known.state != NodeState::Fed {
            known.time.passes(now_ns, seen.holder);
            known.again_ns = None;
            return NodeStep::Wait;
        }
        let Seen { holder, must_quiesce, .. } = seen;
        let in_flight = known.in_flight.len();
        let occupied = Occupied { in_flight, in_flight_max, holder, must_quiesce, preemptible };
        match known.time.next_turn(now_ns, occupied, ready) {
            NodeDecision::Start(context) => NodeStep::Start(context, known.handed_last.next()),
            NodeDecision::Preempt(context) => NodeStep::Preempt(known.ask(), PreemptFor::Rank(context)),
            NodeDecision::Clear(holder) => NodeStep::Preempt(known.ask(), PreemptFor::Standstill(holder)),
            NodeDecision::Wait { again_ns } => {
                known.again_ns = again_ns;
                NodeStep::Wait
            }
        }
    }

    /// The driver has taken a packet under the id of the step.
    pub fn handed_over(&mut self, node: NodeId, id: PacketFenceId, of: PacketOf<C>, packet: P) {
        let known = self.node_mut(node);
        debug_assert_ne!(id, PacketFenceId::default(), "{node:?} is handed no packet");
        debug_assert_eq!(known.state, NodeState::Fed, "{node:?} is handed packet {id:?}");
        let last = known.in_flight.back().map(|packet| packet.id);
        debug_assert!(last.is_none_or(|last| id.is_later_than(last)), "{node:?} is handed {id:?} behind {last:?}");
        // A paging buffer that came back has the id of before.
        if id.is_later_than(known.handed_last) {
            known.handed_last = id;
        }
        known.in_flight.push_back(InFlight { id, of, packet });
    }

    /// The number under which the driver is to be asked for what a node has. `None`: it is asked already, is being reset, or gives
    /// nothing back.
    // spec: sync §4.3, sync §4.4
    pub fn ask(&mut self, node: NodeId) -> Option<PreemptionNumber> {
        let preemptible = self.terms.preemptible;
        let known = self.node_mut(node);
        (preemptible && known.state == NodeState::Fed).then(|| known.ask())
    }

    /// The driver has refused this request, if it is the one that is pending: the node has what it had, and is asked anew where that is due.
    // spec: sync §4.3
    pub fn refused(&mut self, node: NodeId, request: PreemptionNumber) {
        let known = self.node_mut(node);
        if known.state == NodeState::Asked(request) {
            known.happens(Event::Refuse);
        }
    }

    /// The context has gone, or its device is lost: its packets on the node mean nothing any more. The driver may report them still.
    pub fn drop_of(&mut self, node: NodeId, context: C) {
        let Node { in_flight, dropped, .. } = self.node_mut(node);
        in_flight.retain(|packet| {
            let is_kept = packet.of.context() != Some(context);
            if !is_kept {
                dropped.push(packet.id);
            }
            is_kept
        });
        debug_assert!(self.holder(node) != Some(context), "{node:?} has a packet of a context that was dropped");
    }

    /// The hardware has lost every packet, and will say nothing of any. Contexts and their times stay.
    // spec: sync §4.4
    pub fn lost(&mut self) {
        for node in &mut self.nodes {
            node.in_flight.clear();
            node.dropped.clear();
            node.spared = None;
            node.happens(Event::Lost);
        }
    }

    /// Neither contexts nor paging buffers want a node: no decision is due.
    pub fn rest(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.again_ns = None);
    }

    /// When to decide again which context has a node.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.nodes.iter().filter_map(|node| node.again_ns).min()
    }

    /// Changes each packet of a context that a node has: it may come back.
    pub fn change_each(&mut self, node: NodeId, context: C, change: impl FnMut(&mut P)) {
        let of_it = self.node_mut(node).in_flight.iter_mut().filter(|packet| packet.of.context() == Some(context));
        of_it.map(|packet| &mut packet.packet).for_each(change);
    }

    /// The context that has packets on a node.
    pub fn holder(&self, node: NodeId) -> Option<C> {
        self.node(node).holder()
    }

    /// The packet that a node has in front.
    pub fn front(&self, node: NodeId) -> Option<PacketOf<C>> {
        self.node(node).in_flight.front().map(|packet| packet.of)
    }

    /// The nodes that have packets, each with the one in front.
    pub fn fronts(&self) -> impl Iterator<Item = (NodeId, PacketOf<C>)> {
        self.all().filter_map(|node| Some((node, self.front(node)?)))
    }

    /// Whether packets are handed to a node as their turn comes: it neither owes the answer to a request nor is it being reset.
    pub fn is_fed(&self, node: NodeId) -> bool {
        self.node(node).state == NodeState::Fed
    }

    /// Whether a node has not given back what it was handed: packets, or the answer to a request.
    pub fn owes(&self, node: NodeId) -> bool {
        !self.is_fed(node) || self.front(node).is_some()
    }

    fn node(&self, node: NodeId) -> &Node<C, P> {
        &self.nodes[usize::from(node.0)]
    }

    fn node_mut(&mut self, node: NodeId) -> &mut Node<C, P> {
        &mut self.nodes[usize::from(node.0)]
    }
}

#[cfg(test)]
mod tests;
