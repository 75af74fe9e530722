//! Preemption (memory §7.4; sync §4.3): a node gives back what was handed over, for a context that goes first. `vidsch` chooses that
//! context, and measures the driver's answer; this asks the driver, and puts the returned packets in front of their queues.
//!
//! An answer is an allegation: one without a pending request, or whose last completed packet the node never had or has left behind, stops
//! the adapter, because the kernel can no longer know which packets have run.

use ddi::PreemptCommand;
use engine_time::Contender;
use events::{Event, PreemptedFor};
use vidmm::AllocationId;
use vidsch::{AnswerBreach, NodeStep, PacketFenceId, PacketOf, PreemptionNumber, Seen};
use wddm_types::{EngineId, NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::due::{DriverRefusal, RefusedWork, Verdict};
use crate::effect::Cx;
use crate::number::{PacketContextNumber, PacketNumber};
use crate::packet::{Back, InFlight, NodePreempted, TakenOut};
use crate::scheduling::Payload;
use crate::store::ObjectNumber;
use crate::tally::Fate;

impl Adapter {
    /// The step that is due on a node for its contexts.
    pub(super) fn next_turn(&mut self, cx: &Cx<'_>, node: NodeId) -> NodeStep<PacketContextNumber> {
        let holder = self.vidsch.nodes.holder(node);
        let paging_waits = self.memory.ring.waits_for_node() && node == self.paging_node();
        let kept = paging_waits || !self.vidsch.nodes.is_fed(node) || self.vidsch.timeouts.is_preparing(node);
        let seen = Seen {
            holder: holder.map(|holder| self.contenders(&[holder])[0]),
            must_quiesce: holder.is_some_and(|holder| self.is_suspended(self.packets[holder].device)),
            kept,
        };
        let ready = if kept { Vec::new() } else { self.ready_on(node) };
        self.vidsch.nodes.next(cx.now_ns, node, &ready, seen)
    }

    /// The contexts of a node whose next packet may start.
    fn ready_on(&self, node: NodeId) -> Vec<Contender<PacketContextNumber>> {
        let mut ready = self.vidsch.nodes.contexts_on(node, self.vidsch.queues.holding());
        ready.retain(|context| self.may_start(*context));
        self.contenders(&ready)
    }

    /// Asks a driver for what a node has. `context`: the context that the request is for; `None` for paging, and where there is none.
    // spec: sync §4.3
    pub(super) fn preempt(
        &mut self,
        cx: &mut Cx<'_>,
        node: NodeId,
        number: PreemptionNumber,
        why: PreemptedFor,
        context: Option<PacketContextNumber>,
    ) {
        let (PreemptionNumber(fence), of) = (number, context.map_or(0, ObjectNumber::raw));
        cx.emit(self.index, Event::PreemptionRequested { node: node.0, preemption_fence: fence, why, context: of });
        let command = PreemptCommand { node, engine: EngineId(0), preemption_fence_id: fence };
        let driver = self.driver.call(cx).packet_scheduling().expect("the node has packets of it");
        if let Err(status) = driver.preempt_command(command) {
            // Bug check 0x119, unless a packet of the node has faulted.
            let verdict = Verdict::Stop(format!("PreemptCommand failed: {status}"));
            self.due.refused(DriverRefusal::new(RefusedWork::Preemption(node, number), None, [node], verdict));
        }
    }

    /// The driver has answered: packets that are not done come back.
    // spec: memory §7.4, sync §4.3
    pub(in crate::adapter) fn node_preempted(&mut self, cx: &mut Cx<'_>, answer: NodePreempted) {
        let NodePreempted { node, preemption_fence_id: fence, last_completed_fence_id: last, .. } = answer;
        let done = match self.answer_of(answer) {
            Ok(done) => done,
            Err(reason) => return self.stop(cx, reason),
        };
        // The completed packets first, then the rest: the node is handed nothing meanwhile.
        done.into_packets().into_iter().for_each(|packet| self.finish_packet(cx, node, packet));
        let left = self.vidsch.nodes.give_back(node);
        let paging = left.packets().iter().filter(|packet| packet.of == PacketOf::Paging).count();
        // CAST: a node has few packets.
        let (packets, paging) = ((left.packets().len() - paging) as u32, paging as u32);
        cx.emit(
            self.index,
            Event::Preempted { node: node.0, preemption_fence: fence, last_completed: last, packets, paging },
        );
        self.take_all_back(cx, node, left);
    }

    /// The packets that are done when this answer is true.
    ///
    /// # Errors
    /// The reason why it cannot be true.
    fn answer_of(&mut self, answer: NodePreempted) -> Result<TakenOut, String> {
        let NodePreempted { node, engine, preemption_fence_id: fence, last_completed_fence_id: last } = answer;
        let answered = match engine {
            EngineId(0) => self.vidsch.nodes.preempted(node, PreemptionNumber(fence), PacketFenceId(last)),
            _ => Err(AnswerBreach::NoSuchNode),
        };
        answered.map_err(|why| match why {
            AnswerBreach::NoSuchNode => {
                format!("a preemption of engine {} of node {} was reported; {why}", engine.0, node.0)
            }
            AnswerBreach::OtherAsked(_) => format!("preemption {fence} of node {} was reported; {why}", node.0),
            _ => format!("preemption {fence} of node {} was reported {why}", node.0),
        })
    }

    /// Packets that a node gave back, the youngest first, stand in front of their queues again, and the node goes on.
    pub(super) fn take_all_back(&mut self, cx: &mut Cx<'_>, node: NodeId, left: TakenOut) {
        left.into_packets().into_iter().for_each(|packet| self.take_back(cx, node, packet));
        self.vidsch.nodes.goes_on(node);
        self.pump_packets(cx);
    }

    /// A packet that was not done stands in front of its queue again.
    // spec: memory §7.4, sync §4.3
    fn take_back(&mut self, cx: &mut Cx<'_>, node: NodeId, packet: InFlight) {
        let id = packet.id;
        match self.packets.take_back(packet.packet) {
            Back::Paging(ready) => {
                self.tally.count_buffers(node, ProcessId::SYSTEM, Fate::Preempted, 1);
                self.memory.ring.give_back(ready, id);
            }
            Back::Packet { context, number, whole, written } => {
                if whole {
                    self.vidsch.queues.preempted(self.packets[context].vidsch, Payload::Packet(number));
                }
                self.taken_back(cx, node, context, number, id, &written);
            }
        }
    }

    fn taken_back(
        &mut self,
        cx: &mut Cx<'_>,
        node: NodeId,
        context: PacketContextNumber,
        packet: PacketNumber,
        id: PacketFenceId,
        written: &[AllocationId],
    ) {
        // A part of it may have run.
        self.lists_wrote(cx, written);
        self.packet_counts(context, Fate::Preempted);
        let (node, fence_id) = (node.0, id.0);
        cx.emit(self.index, Event::PacketPreempted { context: context.raw(), packet: packet.raw(), node, fence_id });
        self.may_have_left(cx, context);
    }
}
