//! From a context's queue to the driver (memory §7.4; sync §4.1): the context that has a node, patching. `need` says when a
//! packet may start.

use std::borrow::Cow;

use ddi::{DriverStatus, Patch, SubmitCommand, SubmitCommandVirtual, SubmitFlags};
use events::{Event, PreemptedFor};
use gpu_fence::WaitMode;
use kmt_calls::DeviceState;
use vidsch::{NodeStep, PacketFenceId, PagingStep, PreemptFor, Step};
use wddm_types::{GpuVa, NodeId, ProcessId};

use super::split::Portion;
use super::{Handed, Work};
use crate::adapter::{Adapter, Payload};
use crate::due::Waiter;
use crate::fence_log::Fed;
use crate::machine::Cx;
use crate::packet::PacketContextNumber;
use crate::paging::Ready;
use crate::scheduling::AnyContext;
use crate::store::ObjectNumber;
use crate::tally::Fate;

impl Adapter {
    /// A wait of a context is over.
    pub fn packets_released(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) {
        if self.release_context(cx, context) {
            self.pump_packets(cx);
        }
    }

    /// Starts what is due on every node.
    pub fn pump_packets(&mut self, cx: &mut Cx<'_>) {
        if self.packet_contexts.is_empty() && !self.ring.waits_for_node() {
            self.packets.nodes.rest();
            return;
        }
        // Work of one node may release contexts of the others.
        let mut released = true;
        while std::mem::take(&mut released) {
            for node in self.packets.nodes.all() {
                released |= self.pump_node(cx, node);
            }
        }
        if self.ring_need().is_some() {
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
        let Some(known) = self.packet_contexts.get(context) else { return false };
        if self.devices[known.device].state != DeviceState::Active {
            return false;
        }
        self.vidsch.queues.waited(known.vidsch);
        let fences = self.waits_no_more(known.vidsch);
        self.tell_waited(cx, Fed::Packets(context), fences);
        true
    }

    /// The waits and signals that are due on a node's contexts.
    // spec: sync §3.8, sync §4.1
    fn advance_contexts(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        for context in self.packets.nodes.contexts_on(node, self.vidsch.queues.holding()) {
            // A step that is due on one of them may end another.
            let Some(vidsch) = self.packet_contexts.get(context).map(|known| known.vidsch) else { continue };
            while !self.life.has_stopped() {
                if self.vidsch.queues.next_is_work(vidsch) {
                    break;
                }
                match self.vidsch.queues.next(vidsch) {
                    Some(Step::Wait(points)) => {
                        let points = self.live_points(points);
                        let waiter = Waiter::Packets { context };
                        if points.is_empty() || self.begin_wait(cx, &points, WaitMode::All, waiter) {
                            self.vidsch.queues.waited(vidsch);
                            self.tell_waited(cx, Fed::Packets(context), points);
                        } else {
                            self.note_wait(vidsch, AnyContext::Packets(context), &points);
                        }
                    }
                    Some(Step::Signal(points)) => {
                        for point in self.live_points(points) {
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
    pub fn paging_node(&self) -> NodeId {
        self.driver.paging_node()
    }

    /// Starts paging buffers that are packets: they come first, and other packets on their node give way.
    // spec: memory §7.4, sync §4.3
    fn start_paging(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if node != self.paging_node() || self.vidsch.timeouts.is_preparing(node) {
            return;
        }
        while !self.life.has_stopped() && !self.life.is_reset_due() {
            let Some(next) = self.ring.next_ready() else { return };
            match self.packets.nodes.next_paging(node, next.fence_id()) {
                PagingStep::Start(id) => {
                    let ready = self.ring.take_ready().expect("just seen");
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
        // A driver that refuses what the kernel itself made has hardware that has failed, unheard.
        if let Err(reason) = self.hand_over_paging(cx, ready, id.0) {
            return self.life.reset_falls_due(reason);
        }
        let handed = Handed::Paging(ready);
        self.packets.nodes.handed_over(node, id, handed.of(), handed);
        self.tally.count_buffers(node, ProcessId::SYSTEM, Fate::Submitted, 1);
        let (progress_value, again) = (ready.value(), ready.fence_id().is_some());
        let started = Event::PagingPacketStarted { progress_value, node: node.0, fence_id: id.0, again };
        cx.emit(self.index, started);
    }

    fn start_packet(&mut self, cx: &mut Cx<'_>, node: NodeId, context: PacketContextNumber, id: PacketFenceId) {
        let PacketFenceId(fence_id) = id;
        let (vidsch, of) = (self.packet_contexts[context].vidsch, context.raw());
        let packet = self.packet_contexts[context].queued.pop_front().expect("a packet that may start is queued");
        let number = packet.number;
        let mut packet = packet;
        let portion = match &mut packet.work {
            Work::Patched { portions, .. } => portions.pop_front(),
            Work::Virtual { .. } => None,
        };
        // For the scheduler a packet starts with its last portion: packets behind it wait for that.
        let more = portion.as_ref().is_some_and(|portion| portion.number.is_some());
        if !more {
            let step = self.vidsch.queues.next(vidsch);
            assert!(
                matches!(step, Some(Step::Start(Payload::Packet(of))) if of == number),
                "the scheduler keeps the order of packets"
            );
        }
        let uses = match &packet.work {
            Work::Patched { entries, .. } => {
                let here = |at: usize| portion.as_ref().is_none_or(|portion| portion.bindings[at].is_some());
                let named = entries.iter().enumerate().filter(|(at, _)| here(*at));
                self.cached_uses(cx, named.filter_map(|(_, bound)| bound.vidmm.map(|id| (id, bound.write))))
            }
            Work::Virtual { presented, .. } => {
                self.cached_uses(cx, presented.iter().flat_map(|presented| presented.uses.iter().copied()))
            }
        };
        self.lists_use(cx, &uses);
        let mut again = SubmitFlags::empty();
        let came_back = portion.as_ref().map_or(packet.preempted, |portion| portion.preempted);
        again.set(SubmitFlags::RESUBMISSION, came_back);
        let handed = match &mut packet.work {
            Work::Patched { .. } => self.hand_over(cx, context, fence_id, &mut packet.work, portion.as_ref(), again),
            Work::Virtual { commands, bytes, private_data, presented, .. } => {
                let presented = presented.as_ref().map(|presented| presented.buffer);
                self.hand_over_virtual(cx, context, fence_id, (*commands, *bytes), private_data, presented, again)
            }
        };
        match handed {
            Ok(patched) => {
                let written = uses.into_iter().filter(|(_, write)| *write).map(|(id, _)| id).collect();
                if portion.as_ref().is_none_or(|portion| portion.bytes.start == 0) {
                    let node = node.0;
                    cx.emit(self.index, Event::PacketStarted { context: of, packet: number, node, fence_id, patched });
                }
                let part = |portion: &&Portion| more || portion.bytes.start > 0;
                if let Some(Portion { bytes, .. }) = portion.as_ref().filter(part) {
                    let (packet, start_offset, end_offset) = (number, bytes.start, bytes.end);
                    let started = Event::PortionStarted { context: of, packet, fence_id, start_offset, end_offset };
                    cx.emit(self.index, started);
                }
                let handed = match portion {
                    Some(portion) if more => {
                        self.packet_contexts[context].queued.push_front(packet);
                        Handed::Portion { context, packet: number, portion, written }
                    }
                    portion => Handed::Packet { context, packet, portion, written },
                };
                self.packets.nodes.handed_over(node, id, handed.of(), handed);
                self.packet_counts(context, Fate::Submitted);
            }
            Err(refused) => self.packet_refused(cx, context, refused),
        }
    }

    /// Patches a DMA buffer if an address was unknown or has changed, and submits it. Says whether it was patched.
    // spec: memory §7.4, memory §10.1
    fn hand_over(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        fence_id: u32,
        work: &mut Work,
        portion: Option<&Portion>,
        again: SubmitFlags,
    ) -> Result<bool, Refused> {
        let Work::Patched { buffer, written, entries, places, flags, .. } = work else { unreachable!("a DMA buffer") };
        let (buffer, written, flags) = (*buffer, *written, *flags | again);
        let lost = entries.iter().any(|bound| bound.vidmm.is_some() && bound.binding.place.is_none());
        if lost && portion.is_none() {
            self.release_dma_buffer(cx, context, buffer);
            return Err(Refused::Away);
        }
        let changed = match portion {
            None => entries.iter().any(|bound| bound.binding.place != bound.written),
            Some(portion) => {
                let mut now = portion.bindings.iter().zip(&*entries);
                now.any(|(now, bound)| now.is_some_and(|now| now.place != bound.written))
            }
        };
        let allocation_list = Adapter::driver_list(entries, portion);
        // CAST: a DMA buffer is far below 4 GiB, and a list below 2^32 entries.
        let bytes = portion.map_or(0..written as u32 * 8, |portion| portion.bytes.clone());
        let listed = portion.map_or(0..places.len(), |portion| portion.places.clone());
        let known = &mut self.packet_contexts[context];
        let kmd = known.kmd;
        let found = known.buffers.iter_mut().find(|known| known.number == buffer).expect("a buffer in use");
        let driver = self.driver.call(cx).packet_scheduling().expect("it made this context");
        if changed {
            let mut patch = Patch {
                context: kmd,
                words: &mut found.words[..written],
                private_data: &mut found.private_data,
                allocation_list: &allocation_list,
                patch_locations: places,
                submission_start: listed.start as u32,
                submission_length: listed.len() as u32,
                start_offset: bytes.start,
                end_offset: bytes.end,
                fence_id,
                flags,
            };
            driver.patch(&mut patch).map_err(Refused::Patch)?;
            // It may come back, and is patched again only if something has moved since. The places of other portions keep their content.
            if portion.is_none() {
                entries.iter_mut().for_each(|bound| bound.written = bound.binding.place);
            }
        }
        self.store_dma_buffer(cx, context, buffer, bytes.start as usize / 8..bytes.end.div_ceil(8) as usize);
        let found = self.dma_buffer(context, buffer);
        let submit = SubmitCommand {
            context: kmd,
            dma_buffer_segment: found.segment,
            dma_buffer_physical_address: found.physical_address,
            start_offset: bytes.start,
            end_offset: bytes.end,
            private_data: &found.private_data.clone(),
            fence_id,
            flags,
        };
        let driver = self.driver.call(cx).packet_scheduling().expect("it made this context");
        driver.submit_command(submit).map(|()| changed).map_err(Refused::Submit)
    }

    /// Submits commands in the context's space: a user's, or what the driver has written.
    // spec: memory §7.4
    fn hand_over_virtual(
        &mut self,
        cx: &Cx<'_>,
        context: PacketContextNumber,
        fence_id: u32,
        (dma_buffer, dma_buffer_bytes): (GpuVa, u32),
        users: &[u8],
        presented: Option<u64>,
        again: SubmitFlags,
    ) -> Result<bool, Refused> {
        let (kmd, mut flags, mut private_data) = (self.packet_contexts[context].kmd, again, Cow::Borrowed(users));
        if let Some(buffer) = presented {
            self.store_dma_buffer(cx, context, buffer, 0..dma_buffer_bytes as usize / 8);
            flags |= SubmitFlags::PRESENT;
            private_data = Cow::Owned(self.dma_buffer(context, buffer).private_data.clone());
        }
        let submit = SubmitCommandVirtual {
            context: kmd,
            dma_buffer,
            dma_buffer_bytes,
            private_data: &private_data,
            // CAST: no more than the driver said in 32 bits.
            user_data_bytes: users.len() as u32,
            fence_id,
            flags,
        };
        let driver = self.driver.call(cx).packet_scheduling().expect("it made this context");
        driver.submit_command_virtual(submit).map(|()| false).map_err(Refused::Virtual)
    }

    fn packet_refused(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber, refused: Refused) {
        let device = self.packet_contexts[context].device;
        match refused {
            Refused::Away => {
                // No call waits for the answer: the kernel accepted the submission long ago.
                let reason = "an allocation left its place before the buffer ran".to_owned();
                drop(self.reject(cx, context, device, reason));
            }
            Refused::Virtual(DriverStatus::InvalidParameter(reason)) => {
                let reason = format!("context {}: the driver refused a submission: {reason}", context.raw());
                self.fail_device(cx, device, DeviceState::ErrorDmaFault, reason);
            }
            // Bug check 0x119: parameter 3 for Patch, 2 for SubmitCommand.
            Refused::Patch(status) => self.stop(cx, format!("Patch failed: {status}")),
            Refused::Submit(status) | Refused::Virtual(status) => {
                self.stop(cx, format!("SubmitCommand failed: {status}"));
            }
        }
    }
}

/// Why a packet was not handed over.
enum Refused {
    /// It names memory that has no place.
    Away,
    Patch(DriverStatus),
    Submit(DriverStatus),
    Virtual(DriverStatus),
}
