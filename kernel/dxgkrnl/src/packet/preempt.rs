//! Preemption (memory §7.4; sync §4.3): a node gives back what was handed over, for a context that goes first. `vidsch` chooses that
//! context; this asks the driver, measures its answer, and puts the returned packets in front of their queues.
//!
//! An answer is an allegation: one without a pending request, or whose last completed packet the node never had or has left behind, stops
//! the adapter, because the kernel can no longer know which packets have run.

use ddi::PreemptCommand;
use events::{Event, PreemptedFor};
use vidmm::AllocationId;
use vidsch::{NodeDecision, Occupied};
use wddm_types::{EngineId, NodeId, ProcessId};

use super::split::Portion;
use super::{Handed, InFlight, Packet, Work};
use crate::adapter::{Adapter, Payload};
use crate::machine::Cx;
use crate::packet::PacketContextNumber;
use crate::statistics::Fate;
use crate::store::ObjectNumber;
use crate::suspension::Leaving;

/// A driver's answer to a preemption, copied from its interrupt.
#[derive(Clone, Copy, Debug)]
pub struct NodePreempted {
    pub node: NodeId,
    pub engine: EngineId,
    pub preemption_fence_id: u32,
    pub last_completed_fence_id: u32,
}

impl Adapter {
    /// The context whose packet a node takes next.
    pub(super) fn next_turn(&mut self, cx: &Cx<'_>, node: usize) -> NodeDecision<PacketContextNumber> {
        let known = &self.packets.nodes[node];
        let holder = known.holder();
        let here = known.holder().map(|holder| self.contenders(&[holder])[0]);
        let paging_waits = self.ring.waits_for_node() && node == self.paging_node();
        let kept = paging_waits || known.asked.is_some() || self.timeouts.is_preparing(node);
        let Some(caps) = self.packets.caps.filter(|_| !kept) else {
            self.packets.nodes[node].time.passes(cx.now_ns, here);
            return NodeDecision::Wait { again_ns: None };
        };
        let on_node = |context: &PacketContextNumber| usize::from(self.packet_contexts[*context].node.0) == node;
        let mut ready = self.packets.contexts_of(self.vidsch.holding());
        ready.retain(|context| on_node(context) && self.may_start(*context));
        let ready = self.contenders(&ready);
        let occupied = Occupied {
            in_flight: known.in_flight.len(),
            in_flight_max: self.hw_queue_packets(),
            holder: here,
            must_quiesce: holder.is_some_and(|holder| !self.device_of(holder).suspended.is_empty()),
            preemptible: caps.preemption.is_some(),
        };
        self.packets.nodes[node].time.next_turn(cx.now_ns, occupied, &ready)
    }

    fn device_of(&self, context: PacketContextNumber) -> &crate::object::Device {
        &self.devices[self.packet_contexts[context].device]
    }

    /// Asks a node for its packets; does nothing where the driver gives none back. `context`: the context that the request is for,
    /// `None` for paging.
    // spec: sync §4.3
    pub(super) fn preempt(
        &mut self,
        cx: &mut Cx<'_>,
        node: usize,
        why: PreemptedFor,
        context: Option<PacketContextNumber>,
    ) {
        if self.packets.caps.is_none_or(|caps| caps.preemption.is_none()) {
            return;
        }
        let known = &mut self.packets.nodes[node];
        known.preemptions = known.preemptions.wrapping_add(1).max(1);
        let fence = known.preemptions;
        known.asked = Some(fence);
        // CAST: at most 64 nodes.
        let (number, of) = (node as u16, context.map_or(0, ObjectNumber::raw));
        cx.emit(self.index, Event::PreemptionRequested { node: number, preemption_fence: fence, why, context: of });
        let command = PreemptCommand { node: NodeId(number), engine: EngineId(0), preemption_fence_id: fence };
        let driver = self.driver.packet_scheduling().expect("the node has packets of it");
        if let Err(status) = driver.preempt_command(command) {
            // Bug check 0x119.
            self.stop(cx, format!("PreemptCommand failed: {status}"));
        }
    }

    /// The driver has answered: packets that are not done come back.
    // spec: memory §7.4, sync §4.3
    pub fn node_preempted(&mut self, cx: &mut Cx<'_>, answer: NodePreempted) {
        if let Err(reason) = self.check_answer(answer) {
            self.stop(cx, reason);
            return;
        }
        let node = usize::from(answer.node.0);
        let (fence, last) = (answer.preemption_fence_id, answer.last_completed_fence_id);
        let known = &mut self.packets.nodes[node];
        // Ids rise, and go round.
        let later = |packet: &&InFlight| packet.fence_id.wrapping_sub(last).wrapping_sub(1) < 1 << 31;
        let done = known.in_flight.len() - known.in_flight.iter().rev().take_while(later).count();
        // The completed packets first, then the rest: the kernel hands nothing over meanwhile, because the request is still pending.
        if let Some(newest) = done.checked_sub(1).map(|newest| known.in_flight[newest].fence_id) {
            self.packet_completed(cx, answer.node, newest);
        }
        let known = &mut self.packets.nodes[node];
        known.last_completed = last;
        known.dropped.clear();
        let left = std::mem::take(&mut known.in_flight);
        let paging = left.iter().filter(|packet| packet.context().is_none()).count();
        // CAST: a node has few packets.
        let (packets, paging) = ((left.len() - paging) as u32, paging as u32);
        // CAST: at most 64 nodes.
        let number = node as u16;
        cx.emit(
            self.index,
            Event::Preempted { node: number, preemption_fence: fence, last_completed: last, packets, paging },
        );
        // The youngest first, so that the oldest is in front.
        for packet in left.into_iter().rev() {
            self.take_back(cx, number, packet);
        }
        self.packets.nodes[node].asked = None;
        self.pump_packets(cx);
    }

    fn check_answer(&self, answer: NodePreempted) -> Result<(), String> {
        let NodePreempted { node, engine, preemption_fence_id: fence, last_completed_fence_id: last } = answer;
        let Some(known) = self.packets.nodes.get(usize::from(node.0)).filter(|_| engine == EngineId(0)) else {
            return Err(format!(
                "a preemption of engine {} of node {} was reported; there is no such engine",
                engine.0, node.0
            ));
        };
        let said = format!("preemption {fence} of node {} was reported", node.0);
        match known.asked {
            None => return Err(format!("{said} without a pending request")),
            Some(asked) if asked != fence => return Err(format!("{said}; {asked} was asked for")),
            Some(_) => {}
        }
        let had = known.in_flight.iter().any(|packet| packet.fence_id == last) || known.dropped.contains(&last);
        if had || last == known.last_completed {
            return Ok(());
        }
        let behind = known.last_completed.wrapping_sub(last) < 1 << 31;
        Err(if behind {
            format!("{said} with packet {last} done last; packet {} was done before", known.last_completed)
        } else {
            format!("{said} with packet {last} done last, which the node does not have")
        })
    }

    /// A packet that was not done stands in front of its queue again.
    // spec: memory §7.4, sync §4.3
    pub(super) fn take_back(&mut self, cx: &mut Cx<'_>, node: u16, packet: InFlight) {
        let fence_id = packet.fence_id;
        match packet.what {
            Handed::Paging(ready) => {
                self.statistics.count_buffers(NodeId(node), ProcessId::SYSTEM, Fate::Preempted, 1);
                self.ring.give_back(ready, fence_id);
            }
            Handed::Portion { context, packet, portion, written } => {
                let known = &mut self.packet_contexts[context];
                let front = known.queued.front_mut().filter(|front| front.number == packet);
                front.expect("a packet is in front until its last portion is handed over").take_back(portion);
                self.taken_back(cx, node, context, packet, fence_id, &written);
            }
            Handed::Packet { context, mut packet, portion, written } => {
                let number = packet.number;
                match portion {
                    Some(portion) => packet.take_back(portion),
                    None => packet.preempted = true,
                }
                let known = &mut self.packet_contexts[context];
                known.queued.push_front(packet);
                self.vidsch.preempted(known.vidsch, Payload::Packet(number));
                self.taken_back(cx, node, context, number, fence_id, &written);
            }
        }
    }

    fn taken_back(
        &mut self,
        cx: &mut Cx<'_>,
        node: u16,
        context: PacketContextNumber,
        packet: u64,
        fence_id: u32,
        written: &[AllocationId],
    ) {
        // A part of it may have run.
        self.lists_wrote(written);
        self.packet_counts(context, Fate::Preempted);
        cx.emit(self.index, Event::PacketPreempted { context: context.raw(), packet, node, fence_id });
        if !self.runs_packets(context) {
            self.forget_suspension(cx, Leaving::Packets(context));
        }
    }
}

impl Packet {
    /// A part of it that was not done is its first again.
    fn take_back(&mut self, mut portion: Portion) {
        portion.preempted = true;
        match &mut self.work {
            Work::Patched { portions, .. } => portions.push_front(portion),
            Work::Virtual { .. } => unreachable!("only buffers with lists have parts"),
        }
    }
}
