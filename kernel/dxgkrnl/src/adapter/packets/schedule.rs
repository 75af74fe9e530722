//! From a context's queue to the driver (memory §7.4; sync §4.1): the context that has a node, patching. `need` says when a
//! packet may start.

use std::ops::Range;

use events::{Event, PreemptedFor};
use gpu_fence::WaitMode;
use vidsch::{NodeStep, PacketFenceId, PagingStep, PreemptFor, Step};
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::due::{DriverRefusal, RefusedWork, Verdict, Waiter};
use crate::effect::Cx;
use crate::number::PacketContextNumber;
use crate::packet::{ContextFacts, DmaBufferNumber, Handed, Refused, Starting};
use crate::paging::Ready;
use crate::scheduling::{AnyContext, Payload};
use crate::store::ObjectNumber;
use crate::sync::Fed;
use crate::tally::Fate;

impl Adapter {
    /// A wait of a context is over.
    pub(in crate::adapter) fn packets_released(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) {
        if self.release_context(cx, context) {
            self.pump_packets(cx);
        }
    }

    /// Starts what is due on every node.
    pub(in crate::adapter) fn pump_packets(&mut self, cx: &mut Cx<'_>) {
        if self.packets.is_empty() && !self.memory.ring.waits_for_node() {
            self.vidsch.nodes.rest();
            return;
        }
        // Work of one node may release contexts of the others.
        let mut released = true;
        while std::mem::take(&mut released) {
            for node in self.vidsch.nodes.all() {
                released |= self.pump_node(cx, node);
            }
        }
        if self.packet_needs().next().is_some() {
            self.watch_progress(cx);
        }
    }

    /// Starts what is due on a node. Answers whether contexts were released that may be on others.
    fn pump_node(&mut self, cx: &mut Cx<'_>, node: NodeId) -> bool {
        let mut released = false;
        self.start_paging(cx, node);
        while !self.life.has_stopped() {
            self.advance_contexts(cx, node);
            // A context that has just been released may have the next turn.
            if self.release_contexts(cx) {
                released = true;
                continue;
            }
            match self.next_turn(cx, node) {
                NodeStep::Start(context, id) => self.start_packet(cx, node, context, id),
                NodeStep::Preempt(number, PreemptFor::Rank(context)) => {
                    self.preempt(cx, node, number, PreemptedFor::Rank, Some(context));
                }
                NodeStep::Preempt(number, PreemptFor::Standstill(holder)) => {
                    self.preempt(cx, node, number, PreemptedFor::Standstill, Some(holder));
                }
                NodeStep::Wait => break,
            }
        }
        released
    }

    /// Releases contexts whose waits have ended in this turn.
    fn release_contexts(&mut self, cx: &mut Cx<'_>) -> bool {
        let over = self.due.take_contexts();
        for context in &over {
            self.release_context(cx, *context);
        }
        !over.is_empty()
    }

    /// A wait of a context is over. Says whether there is such a context, and it goes on.
    fn release_context(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) -> bool {
        // A context that was destroyed while it waited has nothing to go on with.
        let Some(known) = self.packets.get(context) else { return false };
        if !self.owners.is_active(known.device) {
            return false;
        }
        self.vidsch.queues.waited(known.vidsch);
        let fences = self.waits_no_more(known.vidsch);
        self.sync.tell_waited(cx, Fed::Packets(context), fences);
        true
    }

    /// The waits and signals that are due on a node's contexts.
    // spec: sync §3.8, sync §4.1
    fn advance_contexts(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        for context in self.vidsch.nodes.contexts_on(node, self.vidsch.queues.holding()) {
            // A step that is due on one of them may end another.
            let Some(vidsch) = self.packets.get(context).map(|known| known.vidsch) else { continue };
            while !self.life.has_stopped() {
                if self.vidsch.queues.next_is_work(vidsch) {
                    break;
                }
                match self.vidsch.queues.next(vidsch) {
                    Some(Step::Wait(points)) => {
                        let points = self.sync.live_points(points);
                        let waiter = Waiter::Packets { context };
                        if points.is_empty() || self.begin_wait(cx, &points, WaitMode::All, waiter) {
                            self.vidsch.queues.waited(vidsch);
                            self.sync.tell_waited(cx, Fed::Packets(context), points);
                        } else {
                            self.note_wait(vidsch, AnyContext::Packets(context), &points);
                        }
                    }
                    Some(Step::Signal(points)) => {
                        for point in self.sync.live_points(points) {
                            let fence = self.sync.number_of(point.fence);
                            self.signal_fence(cx, fence, point.value);
                        }
                    }
                    Some(Step::Software(Payload::Software(number))) => self.software_turn(cx, context, number),
                    Some(Step::Start(_) | Step::Software(_)) => unreachable!("the next step is no work"),
                    None => break,
                }
            }
        }
    }

    /// The node that runs paging.
    pub(in crate::adapter) fn paging_node(&self) -> NodeId {
        self.driver.paging_node()
    }

    /// Starts paging buffers that are packets: they come first, and other packets on their node give way.
    // spec: memory §7.4, sync §4.3
    fn start_paging(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if node != self.paging_node() || self.vidsch.timeouts.is_preparing(node) {
            return;
        }
        while !self.life.has_stopped() && !self.life.is_reset_due() && !self.due.paging_awaits_judgement() {
            let Some(next) = self.memory.ring.next_ready() else { return };
            match self.vidsch.nodes.next_paging(node, next.fence_id()) {
                PagingStep::Start(id) => {
                    let ready = self.memory.ring.take_ready().expect("just seen");
                    self.start_paging_packet(cx, node, ready, id);
                }
                PagingStep::Preempt(number) => {
                    return self.preempt(cx, node, number, PreemptedFor::Paging, None);
                }
                PagingStep::Wait => return,
            }
        }
    }

    fn start_paging_packet(&mut self, cx: &mut Cx<'_>, node: NodeId, ready: Ready, id: PacketFenceId) {
        // A driver that refuses what the kernel itself made has hardware that has failed, heard or unheard. No context's packets are on the
        // node, so that no fault of one explains it.
        let powered = self.raise_engine(cx, node);
        if let Err(reason) = self.memory.ring.hand_over(self.driver.call(cx), cx.memory, ready, id, powered) {
            return self.due.refused(DriverRefusal::new(RefusedWork::Paging, None, [], Verdict::Reset(reason)));
        }
        let handed = Handed::Paging(ready);
        self.vidsch.nodes.handed_over(node, id, handed.of(), handed);
        self.tally.count_buffers(node, ProcessId::SYSTEM, Fate::Submitted, 1);
        let (progress_value, again) = (ready.value(), ready.fence_id().is_some());
        let started = Event::PagingPacketStarted { progress_value, node: node.0, fence_id: id.0, again };
        cx.emit(self.index, started);
    }

    fn start_packet(&mut self, cx: &mut Cx<'_>, node: NodeId, context: PacketContextNumber, id: PacketFenceId) {
        let mut starting = self.packets.take_next(context);
        let (number, vidsch) = (starting.number(), self.packets[context].vidsch);
        if starting.is_last() {
            let step = self.vidsch.queues.next(vidsch);
            assert!(
                matches!(step, Some(Step::Start(Payload::Packet(of))) if of == number),
                "the scheduler keeps the order of packets"
            );
        }
        let uses = self.cached_uses(cx, starting.uses().into_iter());
        self.lists_use(cx, &uses);
        let powered = self.raise_engine(cx, node);
        let written: Vec<_> = uses.into_iter().filter(|(_, write)| *write).map(|(id, _)| id).collect();
        match self.packets.hand_over(&mut self.driver, cx, id, &mut starting, powered) {
            Ok(patched) => {
                self.emit_started(cx, node, context, id, &starting, patched);
                self.packets.handed_over(&mut self.vidsch.nodes, id, starting, written);
                self.packet_counts(context, Fate::Submitted);
            }
            Err(Refused::Away(buffer)) => self.packet_is_away(cx, context, buffer),
            Err(Refused::ByDriver(verdict)) => {
                self.lists_wrote(cx, &written);
                self.packet_refused(node, starting, verdict);
            }
        }
    }

    fn emit_started(
        &self,
        cx: &mut Cx<'_>,
        node: NodeId,
        context: PacketContextNumber,
        PacketFenceId(fence_id): PacketFenceId,
        starting: &Starting,
        patched: bool,
    ) {
        let (context, packet) = (context.raw(), starting.number().raw());
        if starting.is_first() {
            cx.emit(self.index, Event::PacketStarted { context, packet, node: node.0, fence_id, patched });
        }
        if let Some(Range { start: start_offset, end: end_offset }) = starting.part() {
            cx.emit(self.index, Event::PortionStarted { context, packet, fence_id, start_offset, end_offset });
        }
    }

    fn packet_is_away(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber, buffer: DmaBufferNumber) {
        let device = self.packets[context].device;
        self.release_dma_buffer(cx, context, buffer);
        // No call waits for the answer: the kernel accepted the submission long ago.
        let reason = "an allocation left its place before the buffer ran".to_owned();
        drop(self.reject(cx, context, device, reason));
    }

    /// The driver has not taken a packet, or a part of one. It stands in front of its queue again until the refusal is judged.
    fn packet_refused(&mut self, node: NodeId, starting: Starting, verdict: Verdict) {
        let ContextFacts { device, vidsch, .. } = self.packets[starting.context()];
        if starting.is_last() {
            self.vidsch.queues.preempted(vidsch, Payload::Packet(starting.number()));
        }
        self.packets.was_refused(starting);
        self.due.refused(DriverRefusal::new(RefusedWork::Packet, Some(device), [node], verdict));
    }
}
