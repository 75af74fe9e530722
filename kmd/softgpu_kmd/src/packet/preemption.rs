//! Preemption of a node's packets (memory §7.4, sync §4.3). The device stops a ring between two commands and says where; the
//! driver drops the packets that are not done, because the kernel submits them again. The executed part of an interrupted packet
//! stays done: its next submission goes on behind it, with the addresses that its commands have then.
//!
//! A ring also loses the packets of a context that is stopped; those of others go on, with their ids.

use std::collections::VecDeque;

use ddi::{ComputePreemption, DriverStatus, GraphicsPreemption, KmdContext, PreemptCommand, PreemptionGranularity};
use softgpu_spec::register::{self, queue_control, queue_state};

use super::PacketTable;
use super::ring::Packet;
use crate::driver::SoftGpuKmd;

/// Between two commands: a command is one primitive, one dispatch.
pub(super) const GRANULARITY: PreemptionGranularity =
    PreemptionGranularity { graphics: GraphicsPreemption::Primitive, compute: ComputePreemption::Dispatch };

/// A packet that a preemption interrupted, and how far it had got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interrupted {
    /// Where its commands begin: it is known by that.
    pub(super) at: u64,
    /// Words that were executed.
    pub(super) done: u32,
}

/// The driver's state of a node.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The ring of contexts without addresses.
    pub(super) ring: Option<u64>,
    /// The packet that was done last.
    pub(super) last_completed: u32,
    /// A preemption that the kernel has asked for: its fence, and the ring that the driver preempts.
    pub(super) preempting: Option<(u32, u64)>,
    /// Packets with their rings that are behind those in another ring.
    pub(super) waiting: VecDeque<(u64, Packet)>,
}

impl PacketTable {
    /// The ring that holds a node's packets; one that is empty if none does.
    pub(super) fn busy_ring(&self, node: u16) -> Option<u64> {
        let mut rings = self.rings.iter().filter(|(_, ring)| ring.node.0 == node && ring.enabled);
        let busy = rings.find(|(_, ring)| !ring.in_flight.is_empty()).map(|(handle, _)| handle);
        busy.or(self.nodes.get(usize::from(node))?.ring)
    }
}

impl SoftGpuKmd {
    pub(super) fn preempt_node(&mut self, preempt: PreemptCommand) -> Result<(), DriverStatus> {
        let ring = self.packets.busy_ring(preempt.node.0);
        let ring = ring.ok_or(DriverStatus::InvalidParameter("a node that never had a packet"))?;
        self.packets.nodes[usize::from(preempt.node.0)].preempting = Some((preempt.preemption_fence_id, ring));
        self.tell_to_preempt(ring);
        Ok(())
    }

    /// A ring that is empty is preempted at once, so that the answer is always an interrupt.
    fn tell_to_preempt(&mut self, ring: u64) {
        let index = self.packets.ring_mut(ring).index;
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        self.port.write_register(register::QUEUE_CONTROL, queue_control::PREEMPT);
        // A preemption also finds a fault whose record was lost. Records that are there come first: they say which packets are done, and
        // where the fault was.
        if self.port.read_register(register::QUEUE_CONTROL) == queue_state::FAULTED {
            self.gather();
            self.gather_unrecorded_fault(ring);
        }
    }

    /// The device has stopped a ring: the driver gives the remaining packets back to the kernel.
    pub(crate) fn gather_preempted(&mut self, index: u64, read: u64, nested: u64) {
        let Some((handle, ring)) = self.packets.ring_at(index) else { return };
        let node = ring.node;
        let asked = self.packets.nodes[usize::from(node.0)].preempting.take_if(|(_, ring)| *ring == handle);
        let Some((fence, _)) = asked else { return };
        // None of these began, and none begins because others turn out to be done.
        let behind = std::mem::take(&mut self.packets.nodes[usize::from(node.0)].waiting);
        self.complete_read(handle, read);
        let left = std::mem::take(&mut self.packets.ring_mut(handle).in_flight);
        // The first may have been under way. One behind it may have been before: it came back half done, and was not begun
        // again. The packets of a context run in order, so that it has one of these at most.
        for (place, packet) in left.iter().chain(behind.iter().map(|(_, packet)| packet)).enumerate() {
            let before = (packet.body.done > 0).then_some(packet.body.done);
            let done = if place == 0 && !left.is_empty() { words_done(packet, read, nested) } else { before };
            if let Some(done) = done
                && let Some(context) = self.packets.get_mut(packet.context)
            {
                context.interrupted.get_or_insert(Interrupted { at: packet.body.at, done });
            }
        }
        // If the device refuses, the ring stays off, and the next packet returns the error.
        let _ = self.enable_ring(handle);
        let last_completed = self.packets.nodes[usize::from(node.0)].last_completed;
        self.gathered.preempted(node, fence, last_completed);
    }

    /// Whether a ring has something of a context that is stopped: packets, or the answer to a preemption in its own ring.
    pub(super) fn awaits_ring(&mut self, ring: u64, context: KmdContext) -> bool {
        let known = self.packets.ring_mut(ring);
        let (node, packets) = (usize::from(known.node.0), known.in_flight.iter().any(|p| p.context == context));
        let owes = self.packets.nodes[node].preempting.is_some_and(|(_, at)| at == ring);
        packets || owes && self.packets.nodes[node].ring != Some(ring)
    }

    /// Takes a stopped context's packets out of its ring; when this returns the device executes nothing for it.
    pub(super) fn take_packets_out(&mut self, ring: u64, context: KmdContext) {
        let index = self.packets.ring_mut(ring).index;
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        self.port.write_register(register::QUEUE_CONTROL, queue_control::SUSPEND);
        // The driver takes the ring's records while their places still mean it.
        self.gather();
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        let read = self.port.read_register(register::QUEUE_READ_POINTER);
        let nested = self.port.read_register(register::QUEUE_NESTED_WORDS);
        self.complete_read(ring, read);
        let mut left = std::mem::take(&mut self.packets.ring_mut(ring).in_flight);
        if let Some(first) = left.front_mut()
            && let Some(done) = words_done(first, read, nested)
        {
            first.body.done = done;
        }
        let enabled = self.enable_ring(ring);
        left.retain(|packet| packet.context != context);
        for packet in left {
            // If the device refuses the ring, its contexts have none, and the next packet returns the error.
            let _ = enabled.map(|()| self.put_in_ring(ring, packet));
        }
        let node = usize::from(self.packets.ring_mut(ring).node.0);
        let Some((fence, at)) = self.packets.nodes[node].preempting else { return };
        if at == ring {
            // The ring of a context that goes cannot answer; its node's can, and is empty.
            let answers = self.packets.busy_ring(node as u16).unwrap_or(ring);
            self.packets.nodes[node].preempting = Some((fence, answers));
            self.tell_to_preempt(answers);
        }
    }
}

/// Words of a packet that are done when the device has read its ring up to `read` and so many words of a buffer that it
/// is in; `None`: the packet was not begun.
fn words_done(packet: &Packet, read: u64, nested: u64) -> Option<u32> {
    if read > packet.start {
        return Some(packet.body.words);
    }
    // CAST: a nested buffer has as many words as its branch says.
    let done = packet.body.done + nested as u32;
    (done > 0).then_some(done.min(packet.body.words))
}
