//! When a packet may start (memory §5.1, §7.4): its needs of the paging ring, of its device, of the primaries that it writes. `schedule`
//! asks for the packet at the head of each context.

use kmt_calls::DeviceState;
use vidmm::AllocationId;

use super::{Packet, Work};
use crate::adapter::Adapter;
use crate::packet::PacketContextNumber;

/// A point that the paging ring must get past before a packet may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingNeed {
    /// Work of the memory manager, by its serial.
    Serial(u64),
    /// Any work, by its number in the ring.
    Number(u64),
}

impl Adapter {
    /// Whether a context's next step is a packet that may start.
    pub(super) fn may_start(&self, context: PacketContextNumber) -> bool {
        let known = &self.packet_contexts[context];
        let runs = self.devices[known.device].state == DeviceState::Active && !self.is_suspended(known.device);
        runs && self.vidsch.queues.next_is_work(known.vidsch)
            && self.need_of(context).is_none()
            && self.primaries_are_free(context)
            && !self.awaits_turn(context)
    }

    /// Whether a context's next packet names memory that was taken and comes back with a turn of its device.
    fn awaits_turn(&self, context: PacketContextNumber) -> bool {
        let known = &self.packet_contexts[context];
        let Some(Packet { work: Work::Patched { entries, portions, .. }, .. }) = known.queued.front() else {
            return false;
        };
        // Nothing moves under portions: a move waits for them.
        if !portions.is_empty() {
            return false;
        }
        let away = entries.iter().any(|bound| bound.vidmm.is_some() && bound.binding.place.is_none());
        let comes = entries.iter().any(|bound| !bound.turns.is_empty());
        away && (comes || self.vidmm.is_suspended(self.devices[known.device].vidmm))
    }

    /// The point of the paging ring that a context's next packet still needs.
    // spec: memory §5.1, memory §7.4
    fn need_of(&self, context: PacketContextNumber) -> Option<RingNeed> {
        let known = &self.packet_contexts[context];
        let (shown_after, serial) = match &known.queued.front()?.work {
            Work::Patched { buffer, entries, portions, .. } => {
                let serial = match portions.front() {
                    Some(portion) => portion.bindings.iter().flatten().map(|binding| binding.serial).max(),
                    None => entries.iter().map(|bound| bound.binding.serial).max(),
                };
                (self.dma_buffer(context, *buffer).shown_after, serial.unwrap_or(0))
            }
            Work::Virtual { presented, .. } => {
                let presented = presented.as_ref()?;
                (presented.shown_after, presented.serial)
            }
        };
        if shown_after > self.ring.done() {
            return Some(RingNeed::Number(shown_after));
        }
        // spec: memory §2.2, bit 11: nobody's work while such content is moved
        let serial = serial.max(self.vidmm.synchronous_serial());
        (serial > self.vidmm.completed_serial()).then_some(RingNeed::Serial(serial))
    }

    /// Whether the primaries that a packet writes are neither displayed nor about to be.
    // spec: memory §5.6, memory §10.1
    fn primaries_are_free(&self, context: PacketContextNumber) -> bool {
        match self.packet_contexts[context].queued.front().map(|packet| &packet.work) {
            Some(Work::Virtual { primaries, .. }) => primaries.iter().all(|primary| self.displays.may_write(*primary)),
            // spec: memory §6.1, where there are lists they say it
            Some(Work::Patched { entries, .. }) => {
                let mut written = entries.iter().filter(|bound| bound.write).filter_map(|bound| bound.vidmm);
                written.all(|id| self.displays.may_write(id))
            }
            None => true,
        }
    }

    /// Primaries that packets are about to write which displays still show, or are about to.
    pub fn primaries_of_waiting_packets(&self) -> Vec<AllocationId> {
        let known = self
            .packets
            .nodes
            .contexts_of(self.vidsch.queues.holding())
            .into_iter()
            .map(|context| &self.packet_contexts[context]);
        let work = known.filter(|known| self.vidsch.queues.next_is_work(known.vidsch));
        let written = work.flat_map(|known| match known.queued.front().map(|packet| &packet.work) {
            Some(Work::Virtual { primaries, .. }) => primaries.clone(),
            Some(Work::Patched { entries, .. }) => {
                entries.iter().filter(|bound| bound.write).filter_map(|bound| bound.vidmm).collect()
            }
            None => Vec::new(),
        });
        written.filter(|primary| !self.displays.may_write(*primary)).collect()
    }

    /// The least point of the paging ring that a next packet needs.
    pub fn ring_need(&self) -> Option<RingNeed> {
        let waits = |number: PacketContextNumber| {
            let known = &self.packet_contexts[number];
            let runs = !self.is_suspended(known.device) && self.vidsch.queues.next_is_work(known.vidsch);
            runs.then(|| self.need_of(number)).flatten()
        };
        self.packets.nodes.contexts_of(self.vidsch.queues.holding()).into_iter().find_map(waits)
    }
}
