//! From a context's queue to the driver (memory §7.4; sync §4.1): who has a node, when a packet may start, patching.

use ddi::{DriverStatus, Patch, SubmitCommand, SubmitCommandVirtual, SubmitFlags};
use events::Event;
use gpu_fence::WaitMode;
use kmt_calls::{DeviceState, Refusal};
use vidsch::{Packet as Queued, Step, SubmitError};

use super::{InFlight, PAGING, Packet, Work};
use crate::adapter::{Adapter, Payload, Waiter};
use crate::fence::POINTS_MAX;
use crate::machine::Cx;
use crate::refusal::{access_denied, invalid, no_memory, removed};

/// Packet contexts stand beside hardware contexts in the list of what a suspension waits for; this bit tells them apart.
const SUSPENSION_BIT: u64 = 1 << 63;

/// A packet context as suspensions name it.
pub(super) fn suspension_name(context: u64) -> u64 {
    SUSPENSION_BIT | context
}

/// What the paging ring must get past before a packet may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingNeed {
    /// Work of the memory manager, by its serial.
    Serial(u64),
    /// Any work, by its number in the ring.
    Number(u64),
}

impl Adapter {
    /// `D3DKMTWaitForSynchronizationObjectFromGpu`: what comes later is held (sync §3.8).
    pub fn packet_wait(&mut self, cx: &mut Cx<'_>, context: u64, points: &[(u64, u64)]) -> Result<(), Refusal> {
        check_points(points)?;
        if points.iter().any(|(fence, _)| self.fences[*fence].no_wait) {
            return Err(access_denied("the fence was created with NoWait"));
        }
        let points = points.iter().map(|(fence, value)| self.point(*fence, *value)).collect();
        self.queue_points(cx, context, Queued::Wait(points))
    }

    /// `D3DKMTSignalSynchronizationObjectFromGpu`: when everything before is done (sync §3.7).
    pub fn packet_signal(&mut self, cx: &mut Cx<'_>, context: u64, points: &[(u64, u64)]) -> Result<(), Refusal> {
        check_points(points)?;
        if points.iter().any(|(fence, _)| self.fences[*fence].no_signal) {
            return Err(access_denied("the fence was created with NoSignal"));
        }
        let points = points.iter().map(|(fence, value)| self.point(*fence, *value)).collect();
        self.queue_points(cx, context, Queued::Signal(points))
    }

    fn queue_points(
        &mut self,
        cx: &mut Cx<'_>,
        context: u64,
        packet: Queued<Payload, gpu_fence::FenceId>,
    ) -> Result<(), Refusal> {
        self.vidsch.submit(self.packet_contexts[context].vidsch, packet).map_err(|error| match error {
            SubmitError::UserQueue => unreachable!("a packet context is fed by the kernel"),
            SubmitError::TooMany => no_memory("the context holds as many packets as it may"),
            SubmitError::Stopped => removed("the context has stopped"),
        })?;
        self.pump_packets(cx);
        Ok(())
    }

    /// A wait of a context is over.
    pub fn packets_released(&mut self, cx: &mut Cx<'_>, context: u64) {
        // A context that was destroyed while it waited has nothing to go on with.
        let Some(known) = self.packet_contexts.get(context) else { return };
        if self.devices[known.device].state == DeviceState::Active {
            self.vidsch.waited(known.vidsch);
            self.pump_packets(cx);
        }
    }

    /// Starts what is due on every node.
    pub fn pump_packets(&mut self, cx: &mut Cx<'_>) {
        if self.packet_contexts.is_empty() && !self.ring.waits_for_node() {
            return;
        }
        for node in 0..self.packets.nodes.len() {
            self.start_paging(cx, node);
            while self.stopped.is_none() {
                self.advance_contexts(cx, node);
                let Some(context) = self.next_context(node) else { break };
                self.start_packet(cx, node, context);
            }
        }
        if self.ring_need().is_some() {
            self.watch_progress(cx);
        }
    }

    /// The waits and signals that are due on a node's contexts.
    // spec: sync §3.8, sync §4.1
    fn advance_contexts(&mut self, cx: &mut Cx<'_>, node: usize) {
        let contexts: Vec<u64> = self.packet_contexts.iter().filter(on(node)).map(|(number, _)| number).collect();
        for context in contexts {
            let Some(vidsch) = self.packet_contexts.get(context).map(|known| known.vidsch) else { continue };
            while self.stopped.is_none() && !self.vidsch.next_is_work(vidsch) {
                match self.vidsch.next(vidsch) {
                    Some(Step::Wait(points)) => {
                        let points = self.live_points(points);
                        let waiter = Waiter::Packets { context };
                        if points.is_empty() || self.begin_wait(cx, &points, WaitMode::All, waiter) {
                            self.vidsch.waited(vidsch);
                        }
                    }
                    Some(Step::Signal(points)) => {
                        for point in self.live_points(points) {
                            let fence = self.fence_numbers[&point.fence];
                            self.signal_fence(cx, fence, point.value);
                        }
                    }
                    Some(Step::Start(_)) => unreachable!("the next step is no work"),
                    None => break,
                }
            }
        }
    }

    /// Who may hand over a packet now: the context that has the node, while nobody else is ready; else the next in turn, when
    /// the node is empty.
    // spec: sync §4.1
    fn next_context(&self, node: usize) -> Option<u64> {
        if self.ring.waits_for_node() && node == self.paging_node() {
            return None;
        }
        let cap = self.packets.caps?.hw_queue_packets.max(1) as usize;
        let known = &self.packets.nodes[node];
        let ready =
            || self.packet_contexts.iter().filter(on(node)).map(|(number, _)| number).filter(|c| self.may_start(*c));
        match known.in_flight.back().map(|packet| packet.context) {
            Some(_) if known.in_flight.len() >= cap => None,
            Some(holder) => {
                let alone = ready().all(|context| context == holder);
                (alone && ready().next().is_some()).then_some(holder)
            }
            None => ready().find(|context| *context > known.last_context).or_else(|| ready().next()),
        }
    }

    fn paging_node(&self) -> usize {
        usize::from(self.reported.paging_node)
    }

    /// Paging buffers that are packets come first, when the packets of others have left their node.
    // spec: memory §7.4
    fn start_paging(&mut self, cx: &mut Cx<'_>, node: usize) {
        if node != self.paging_node() {
            return;
        }
        let cap = self.packets.caps.map_or(1, |caps| caps.hw_queue_packets.max(1) as usize);
        while self.stopped.is_none() && self.ring.waits_for_node() {
            let known = &self.packets.nodes[node];
            let others = known.in_flight.iter().any(|packet| packet.context != PAGING);
            if others || known.in_flight.len() >= cap {
                return;
            }
            let fence_id = known.last_fence_id.wrapping_add(1).max(1);
            match self.hand_over_paging(fence_id) {
                Ok(Some(number)) => {
                    let known = &mut self.packets.nodes[node];
                    known.last_fence_id = fence_id;
                    known.in_flight.push_back(InFlight::paging(fence_id, number));
                }
                Ok(None) => return,
                // Bug check 0x119, parameter 2.
                Err(status) => self.stop(cx, format!("SubmitCommand of a paging buffer failed: {status}")),
            }
        }
    }

    /// Whether a context's next step is a packet that may start.
    fn may_start(&self, context: u64) -> bool {
        let known = &self.packet_contexts[context];
        let device = &self.devices[known.device];
        let runs = device.state == DeviceState::Active && device.suspended.is_empty();
        runs && self.vidsch.next_is_work(known.vidsch)
            && self.need_of(context).is_none()
            && self.primaries_are_free(context)
            && !self.awaits_turn(context)
    }

    /// Whether a context's next packet names memory that was taken and comes back with a turn of its device.
    fn awaits_turn(&self, context: u64) -> bool {
        let known = &self.packet_contexts[context];
        let Some(Packet { work: Work::Patched { entries, .. }, .. }) = known.queued.front() else { return false };
        let away = entries.iter().any(|bound| bound.vidmm.is_some() && bound.binding.place.is_none());
        let comes = entries.iter().any(|bound| !bound.turns.is_empty());
        away && (comes || self.vidmm.is_suspended(self.devices[known.device].vidmm))
    }

    /// What a context's next packet still needs of the paging ring.
    // spec: memory §5.1, memory §7.4
    fn need_of(&self, context: u64) -> Option<RingNeed> {
        let known = &self.packet_contexts[context];
        let Work::Patched { buffer, entries, .. } = &known.queued.front()?.work else { return None };
        let shown_after = self.dma_buffer(context, *buffer).shown_after;
        if shown_after > self.ring.done() {
            return Some(RingNeed::Number(shown_after));
        }
        let serial = entries.iter().map(|bound| bound.binding.serial).max().unwrap_or(0);
        // spec: memory §2.2, bit 11: nobody's work while such content is moved
        let serial = serial.max(self.vidmm.synchronous_serial());
        (serial > self.vidmm.completed_serial()).then_some(RingNeed::Serial(serial))
    }

    /// Whether the primaries that a packet writes are neither displayed nor about to be.
    // spec: memory §5.6, memory §10.1
    fn primaries_are_free(&self, context: u64) -> bool {
        match self.packet_contexts[context].queued.front().map(|packet| &packet.work) {
            Some(Work::Virtual { primaries, .. }) => {
                primaries.iter().all(|primary| self.packets.flips.may_write(*primary))
            }
            _ => true,
        }
    }

    /// What the packets that are next need of the paging ring: the least of it.
    pub fn ring_need(&self) -> Option<RingNeed> {
        let waits = |(number, known): (u64, &super::PacketContext)| {
            let runs = self.devices[known.device].suspended.is_empty() && self.vidsch.next_is_work(known.vidsch);
            runs.then(|| self.need_of(number)).flatten()
        };
        self.packet_contexts.iter().find_map(waits)
    }

    fn start_packet(&mut self, cx: &mut Cx<'_>, node: usize, context: u64) {
        let vidsch = self.packet_contexts[context].vidsch;
        let step = self.vidsch.next(vidsch);
        let packet = self.packet_contexts[context].queued.pop_front().expect("a packet that may start is queued");
        assert!(
            matches!(step, Some(Step::Start(Payload::Packet(number))) if number == packet.number),
            "the scheduler keeps the order of packets"
        );
        let fence_id = self.packets.nodes[node].last_fence_id.wrapping_add(1).max(1);
        let Packet { number, work } = packet;
        let uses = match &work {
            Work::Patched { entries, .. } => {
                self.cached_uses(entries.iter().filter_map(|bound| bound.vidmm.map(|id| (id, bound.write))))
            }
            Work::Virtual { .. } => Vec::new(),
        };
        self.lists_use(&uses);
        let (handed, buffer) = match work {
            Work::Patched { .. } => self.hand_over(cx, context, fence_id, work),
            Work::Virtual { commands, bytes, .. } => {
                let submit = SubmitCommandVirtual {
                    context: self.packet_contexts[context].kmd,
                    dma_buffer: commands,
                    dma_buffer_bytes: bytes,
                    fence_id,
                    flags: SubmitFlags::empty(),
                };
                let driver = self.miniport.packet_scheduling().expect("it made this context");
                (driver.submit_command_virtual(submit).map(|()| false).map_err(Refused::Virtual), None)
            }
        };
        match handed {
            Ok(patched) => {
                let known = &mut self.packets.nodes[node];
                known.last_fence_id = fence_id;
                known.last_context = context;
                let written = uses.into_iter().filter(|(_, write)| *write).map(|(id, _)| id).collect();
                known.in_flight.push_back(InFlight { fence_id, context, number, buffer, written });
                // CAST: at most 64 nodes.
                cx.emit(Event::PacketStarted { context, packet: number, node: node as u16, fence_id, patched });
            }
            Err(refused) => self.packet_refused(cx, context, refused),
        }
    }

    /// Patches a DMA buffer if an address was unknown or has changed, and submits it. Says whether it was patched.
    // spec: memory §7.4, memory §10.1
    fn hand_over(
        &mut self,
        cx: &mut Cx<'_>,
        context: u64,
        fence_id: u32,
        work: Work,
    ) -> (Result<bool, Refused>, Option<u64>) {
        let Work::Patched { buffer, written, entries, places, flags } = work else { unreachable!("a DMA buffer") };
        let lost = entries.iter().any(|bound| bound.vidmm.is_some() && bound.binding.place.is_none());
        if lost {
            self.release_dma_buffer(cx, context, buffer);
            return (Err(Refused::Away), None);
        }
        let changed = entries.iter().any(|bound| bound.binding.place != bound.written);
        let allocation_list = Adapter::driver_list(&entries);
        let known = &mut self.packet_contexts[context];
        let kmd = known.kmd;
        let found = known.buffers.iter_mut().find(|known| known.number == buffer).expect("a buffer in use");
        let driver = self.miniport.packet_scheduling().expect("it made this context");
        if changed {
            let mut patch = Patch {
                context: kmd,
                words: &mut found.words[..written],
                private_data: &mut found.private_data,
                allocation_list: &allocation_list,
                patch_locations: &places,
                fence_id,
                flags,
            };
            if let Err(status) = driver.patch(&mut patch) {
                return (Err(Refused::Patch(status)), None);
            }
        }
        self.store_dma_buffer(context, buffer, written);
        let found = self.dma_buffer(context, buffer);
        let submit = SubmitCommand {
            context: kmd,
            dma_buffer_segment: found.segment,
            dma_buffer_physical_address: found.physical_address,
            start_offset: 0,
            // CAST: a DMA buffer is far below 4 GiB.
            end_offset: written as u32 * 8,
            private_data: &found.private_data.clone(),
            fence_id,
            flags,
        };
        let driver = self.miniport.packet_scheduling().expect("it made this context");
        (driver.submit_command(submit).map(|()| changed).map_err(Refused::Submit), Some(buffer))
    }

    fn packet_refused(&mut self, cx: &mut Cx<'_>, context: u64, refused: Refused) {
        let device = self.packet_contexts[context].device;
        match refused {
            Refused::Away => {
                // Nobody waits for the answer: the submission was accepted long ago.
                let reason = "an allocation left its place before the buffer ran".to_owned();
                drop(self.reject(cx, context, device, reason));
            }
            Refused::Virtual(DriverStatus::InvalidParameter(reason)) => {
                let reason = format!("context {context}: the driver refused a submission: {reason}");
                self.fail_device(cx, device, DeviceState::ErrorDmaFault, reason);
            }
            // Bug check 0x119: parameter 3 for Patch, 2 for SubmitCommand.
            Refused::Patch(status) => self.stop(cx, format!("Patch failed: {status}")),
            Refused::Submit(status) | Refused::Virtual(status) => {
                self.stop(cx, format!("SubmitCommand failed: {status}"));
            }
        }
    }

    /// Whether a device has buffers with lists that are not done.
    pub fn has_listed_packets(&self, device: u64) -> bool {
        self.packet_contexts.iter().any(|(_, context)| {
            let unfinished = context.last_submitted > self.current_value(context.progress);
            context.device == device && !context.addresses && unfinished
        })
    }

    /// Whether the hardware may execute for a context.
    pub fn runs_packets(&self, context: u64) -> bool {
        let node = &self.packets.nodes[usize::from(self.packet_contexts[context].node.0)];
        node.in_flight.iter().any(|packet| packet.context == context)
    }

    /// The contexts of a device that is to stand still and that have packets with the driver, as suspensions name them.
    // spec: sync §4.1, memory §8.6
    pub fn packets_running(&self, device: u64) -> Vec<u64> {
        let contexts = self.packet_contexts_of(device).into_iter();
        contexts.filter(|context| self.runs_packets(*context)).map(suspension_name).collect()
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

fn on(node: usize) -> impl Fn(&(u64, &super::PacketContext)) -> bool {
    move |(_, context)| usize::from(context.node.0) == node
}

fn check_points(points: &[(u64, u64)]) -> Result<(), Refusal> {
    if points.is_empty() || points.len() > POINTS_MAX {
        return Err(invalid(format!("1 to {POINTS_MAX} fences")));
    }
    Ok(())
}
