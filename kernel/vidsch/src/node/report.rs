//! A driver's reports about a node: packets that are done or have faulted, the answer to a request for what it has, the end of a reset.
//! Each is measured against what the node has, and changes nothing if it cannot be true.

use std::collections::BTreeSet;

use wddm_types::NodeId;

use super::state::{Event, NodeState};
use super::{
    AbortBreach, AnswerBreach, Node, Nodes, PacketFenceId, PacketOf, PreemptionNumber, ReportBreach, Running, TakenOut,
};

/// A packet has faulted.
#[derive(Debug, PartialEq, Eq)]
pub struct Faulted<C, P> {
    /// What was handed over before it is done; the oldest first.
    pub done: TakenOut<C, P>,
    /// Whose it is; `None`: its context was dropped meanwhile. The packet is in flight until that happens, or the hardware is lost.
    pub of: Option<PacketOf<C>>,
}

/// A node was reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aborted<C> {
    /// The contexts that lost packets. The caller drops them.
    pub contexts: BTreeSet<C>,
    /// How it goes on.
    pub then: AfterReset<C>,
}

/// The consequence of a node's reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterReset<C> {
    /// A paging buffer was lost: the adapter is to be reset.
    PagingLost,
    /// Nothing was lost, and the packet in front is the one that an earlier reset has spared: the adapter is to be reset.
    HungAgain,
    /// Nothing was lost, and the node is believed that this packet goes on.
    Spared(Running<C>),
    /// What is left comes back.
    GoesOn,
}

impl<C: Copy + Ord, P> Node<C, P> {
    /// A packet is done, and what was handed over before it. Takes that out.
    fn done_up_to(&mut self, id: PacketFenceId) -> TakenOut<C, P> {
        let last = self.handed_last;
        debug_assert!(!id.is_later_than(last), "{id:?} is done, and {last:?} was given out last");
        self.completed_last = id;
        self.dropped.retain(|dropped| dropped.is_later_than(id));
        let done = self.in_flight.iter().take_while(|packet| !packet.id.is_later_than(id)).count();
        let done = TakenOut::new(self.in_flight.drain(..done).collect());
        debug_assert!(self.find(id).is_none(), "{id:?} is done, and in flight");
        done
    }

    /// Whether the driver may report a packet: the node has it, or had it until its context was dropped.
    fn may_be_reported(&self, id: PacketFenceId) -> bool {
        self.find(id).is_some() || self.dropped.contains(&id)
    }

    /// Whether a packet may be the last of which the driver knows something: one that may be reported, or the one that was done last.
    fn may_be_last(&self, id: PacketFenceId) -> bool {
        self.may_be_reported(id) || id == self.completed_last
    }

    fn check_answer(&self, number: PreemptionNumber, last: PacketFenceId) -> Result<(), AnswerBreach> {
        match self.state {
            NodeState::Asked(asked) if asked == number => {}
            NodeState::Asked(asked) => return Err(AnswerBreach::OtherAsked(asked)),
            NodeState::Fed | NodeState::Answering(_) | NodeState::Resetting => return Err(AnswerBreach::NotAsked),
        }
        debug_assert_eq!(number, self.asked_last, "the request that is pending is the last one");
        if self.may_be_last(last) {
            return Ok(());
        }
        let done = self.completed_last;
        Err(if done.is_later_than(last) {
            AnswerBreach::LeftBehind { last, done }
        } else {
            AnswerBreach::NotThere(last)
        })
    }
}

impl<C: Copy + Ord, P> Nodes<C, P> {
    /// The driver reports that a packet is done. Answers with it, unless its context was dropped meanwhile, and with all that the node was
    /// handed before it; the oldest first.
    ///
    /// # Errors
    /// The node does not have the packet.
    // spec: memory §7.4, sync §4.4
    pub fn completed(&mut self, node: NodeId, id: PacketFenceId) -> Result<TakenOut<C, P>, ReportBreach> {
        let Some(known) = self.nodes.get_mut(usize::from(node.0)) else { return Err(ReportBreach::NoSuchNode) };
        if known.may_be_reported(id) { Ok(known.done_up_to(id)) } else { Err(self.why_not_there(node, id)) }
    }

    /// The driver reports that a packet has faulted.
    ///
    /// # Errors
    /// The node does not have the packet.
    // spec: memory §5.8, sync §4.4
    pub fn faulted(&mut self, node: NodeId, id: PacketFenceId) -> Result<Faulted<C, P>, ReportBreach> {
        let Some(known) = self.nodes.get_mut(usize::from(node.0)) else { return Err(ReportBreach::NoSuchNode) };
        if !known.may_be_reported(id) {
            return Err(self.why_not_there(node, id));
        }
        let of = known.find(id).map(|packet| packet.of);
        let before = known.in_flight.iter().take_while(|packet| id.is_later_than(packet.id)).last();
        let done =
            before.map(|packet| packet.id).map_or_else(|| TakenOut::new(Vec::new()), |before| known.done_up_to(before));
        Ok(Faulted { done, of })
    }

    fn why_not_there(&self, node: NodeId, id: PacketFenceId) -> ReportBreach {
        let known = self.node(node);
        if id == known.completed_last && id != PacketFenceId::default() {
            return ReportBreach::DoneBefore;
        }
        match self.all().find(|other| self.node(*other).find(id).is_some()) {
            Some(other) => ReportBreach::Elsewhere(other),
            None if id.is_later_than(known.handed_last) => ReportBreach::NeverHandedOver,
            None => ReportBreach::LeftBehind(known.completed_last),
        }
    }

    /// The driver answers a request: `last` was done last. Answers with what is done, the oldest first. The caller finishes it, then takes
    /// the rest [back](Self::give_back).
    ///
    /// # Errors
    /// The answer cannot be true.
    // spec: memory §7.4, sync §4.3
    pub fn preempted(
        &mut self,
        node: NodeId,
        number: PreemptionNumber,
        last: PacketFenceId,
    ) -> Result<TakenOut<C, P>, AnswerBreach> {
        let Some(known) = self.nodes.get_mut(usize::from(node.0)) else { return Err(AnswerBreach::NoSuchNode) };
        known.check_answer(number, last)?;
        known.happens(Event::Answer(last));
        Ok(known.done_up_to(last))
    }

    /// Takes everything from a node that has answered or was reset, the youngest first: the caller puts each in front of its queue, then
    /// says [`goes_on`](Self::goes_on).
    // spec: memory §7.4, sync §4.3
    pub fn give_back(&mut self, node: NodeId) -> TakenOut<C, P> {
        let known = self.node_mut(node);
        if let NodeState::Answering(last) = known.state {
            known.completed_last = last;
            known.dropped.clear();
        }
        TakenOut::new(known.in_flight.drain(..).rev().collect())
    }

    /// What came back stands in front of its queues: packets are handed over again.
    pub fn goes_on(&mut self, node: NodeId) {
        self.node_mut(node).happens(Event::GoOn);
    }

    /// A reset of the node begins: it is handed nothing, and its answer to a request will not come any more.
    // spec: sync §4.4
    pub fn reset_begins(&mut self, node: NodeId) {
        self.node_mut(node).happens(Event::Reset);
    }

    /// The node was reset, and the driver has reported what was done meanwhile; `last` was aborted last. What comes behind it never began,
    /// and comes [back](Self::give_back).
    ///
    /// # Errors
    /// The node did not have `last`.
    // spec: sync §4.4
    pub fn aborted(&mut self, node: NodeId, last: PacketFenceId) -> Result<Aborted<C>, AbortBreach> {
        let known = self.node_mut(node);
        if !known.may_be_last(last) {
            return Err(AbortBreach { completed: known.completed_last, handed_over: known.handed_last });
        }
        let began = known.in_flight.iter().take_while(|packet| !packet.id.is_later_than(last));
        let lost: Vec<_> = began.map(|packet| packet.of).collect();
        let contexts: BTreeSet<C> = lost.iter().filter_map(PacketOf::context).collect();
        debug_assert!(contexts.len() <= 1, "the packets of {} contexts are on {node:?}", contexts.len());
        let front = known.in_flight.front().map(|packet| packet.of);
        let then = match front {
            _ if lost.contains(&PacketOf::Paging) => AfterReset::PagingLost,
            Some(PacketOf::Context(front)) if lost.is_empty() => {
                let before = known.spared.replace(front);
                if before == Some(front) { AfterReset::HungAgain } else { AfterReset::Spared(front) }
            }
            _ => AfterReset::GoesOn,
        };
        debug_assert!(
            !matches!(then, AfterReset::Spared(_) | AfterReset::HungAgain) || contexts.is_empty(),
            "{node:?} has lost nothing, and packets of {} contexts",
            contexts.len()
        );
        Ok(Aborted { contexts, then })
    }
}
