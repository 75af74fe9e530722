//! When a packet may start (memory §5.1, §7.4): its needs of the paging ring, of its device, of the primaries that it writes. `schedule`
//! asks for the packet at the head of each context.

use vidmm::{AllocationId, DeviceId};

use crate::adapter::Adapter;
use crate::number::{DeviceNumber, PacketContextNumber};
use crate::packet::Needs;
use crate::paging::RingNeed;

impl Adapter {
    /// Whether a context's next step is a packet that may start.
    pub(super) fn may_start(&self, context: PacketContextNumber) -> bool {
        let known = &self.packets[context];
        let runs = self.owners.is_active(known.device)
            && !self.is_suspended(known.device)
            && !self.due.awaits_judgement(known.device);
        runs && self.vidsch.queues.next_is_work(known.vidsch)
            && self.need_of(context).is_none()
            && self.primaries_are_free(context)
            && !self.awaits_turn(context)
    }

    /// Whether a context's next packet names memory that was taken and comes back with a turn of its device.
    pub(in crate::adapter) fn awaits_turn(&self, context: PacketContextNumber) -> bool {
        let owner = self.owners.vidmm_of(self.packets[context].device);
        let comes = || self.packets.names_returning_memory(context) || self.brings_nothing_in(owner);
        self.packets.names_taken_memory(context) && comes()
    }

    /// Whether a device brings nothing in before its next turn: it is suspended, or withholds content.
    pub(in crate::adapter) fn brings_nothing_in(&self, owner: DeviceId) -> bool {
        self.vidmm.is_suspended(owner) || self.vidmm.withholds(owner)
    }

    /// The point of the paging ring that a context's next packet still needs.
    // spec: memory §5.1, memory §7.4
    pub(in crate::adapter) fn need_of(&self, context: PacketContextNumber) -> Option<RingNeed> {
        let Needs { shown_after, serial } = self.packets.needs(context)?;
        if shown_after > self.memory.ring.done() {
            return Some(RingNeed::Number(shown_after));
        }
        // spec: memory §2.2, bit 11: no work of any process runs while such content is moved
        let serial = serial.max(self.vidmm.synchronous_serial());
        (serial > self.vidmm.completed_serial()).then_some(RingNeed::Serial(serial))
    }

    /// Whether the primaries that a packet writes are neither displayed nor about to be.
    // spec: memory §5.6, memory §10.1
    pub(in crate::adapter) fn primaries_are_free(&self, context: PacketContextNumber) -> bool {
        self.packets.next_writes(context).into_iter().all(|primary| self.displays.may_write(primary))
    }

    /// Primaries that packets are about to write which displays still show, or are about to.
    pub(in crate::adapter) fn primaries_of_waiting_packets(&self) -> Vec<AllocationId> {
        let next = self.vidsch.nodes.contexts_of(self.vidsch.queues.holding()).into_iter();
        let next = next.filter(|context| self.vidsch.queues.next_is_work(self.packets[*context].vidsch));
        let written = next.flat_map(|context| self.packets.next_writes(context));
        written.filter(|primary| !self.displays.may_write(*primary)).collect()
    }

    /// The points of the paging ring that next packets need, each with the packet's device.
    pub(in crate::adapter) fn packet_needs(&self) -> impl Iterator<Item = (DeviceNumber, RingNeed)> + '_ {
        let waits = |number: PacketContextNumber| {
            let known = &self.packets[number];
            let runs = !self.is_suspended(known.device) && self.vidsch.queues.next_is_work(known.vidsch);
            runs.then(|| self.need_of(number)).flatten().map(|need| (known.device, need))
        };
        self.vidsch.nodes.contexts_of(self.vidsch.queues.holding()).into_iter().filter_map(waits)
    }
}
