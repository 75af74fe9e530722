//! From the driver back (memory §5.8; sync §4.1): packets that are done, packets that have faulted.

use ddi::DmaFault;
use events::Event;
use kmt_calls::{DeviceFault, DeviceState};
use wddm_types::{NodeId, ProcessId};

use super::{Handed, InFlight, Node, Work};
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::statistics::Fate;
use crate::store::ObjectNumber;
use crate::suspension::Leaving;

impl Adapter {
    /// The driver reports that a packet is done, and with it every one before it on the node.
    pub fn packet_completed(&mut self, cx: &mut Cx<'_>, node: NodeId, fence_id: u32) {
        let Some(known) = self.packets.nodes.get_mut(usize::from(node.0)) else {
            self.stop(cx, format!("a packet of node {} was reported; there is no such node", node.0));
            return;
        };
        let Some(at) = known.in_flight.iter().position(|packet| packet.fence_id == fence_id) else {
            // A packet of a context that was stopped meanwhile.
            if known.dropped.contains(&fence_id) {
                known.passed(fence_id);
            } else {
                self.invalid_fence_id(cx, node, fence_id, "done");
            }
            return;
        };
        let done: Vec<InFlight> = known.in_flight.drain(..=at).collect();
        known.passed(fence_id);
        for packet in done {
            self.finish_packet(cx, node, packet);
        }
    }

    /// A report of a packet that the node does not have.
    // spec: sync §4.4
    fn invalid_fence_id(&mut self, cx: &mut Cx<'_>, node: NodeId, fence_id: u32, reported: &str) {
        let known = &self.packets.nodes[usize::from(node.0)];
        let has = |known: &Node| known.in_flight.iter().any(|packet| packet.fence_id == fence_id);
        let elsewhere = self.packets.nodes.iter().position(has);
        // Ids rise, and go round.
        let ahead = fence_id.wrapping_sub(known.last_fence_id);
        let why = match elsewhere {
            _ if fence_id == known.last_completed && fence_id != 0 => "it was reported done before".into(),
            Some(other) => format!("node {other} has it"),
            None if ahead != 0 && ahead < 1 << 31 => "it was never handed over".into(),
            None => format!("packet {} was done before", known.last_completed),
        };
        let said = format!("packet {fence_id} of node {} was reported {reported}: {why}", node.0);
        self.stop(cx, format!("bug check 0x119, parameter 0x1: {said}"));
    }

    fn finish_packet(&mut self, cx: &mut Cx<'_>, node: NodeId, packet: InFlight) {
        let (context, packet, written) = match packet.what {
            Handed::Paging(ready) => {
                self.statistics.count_buffers(node, ProcessId::SYSTEM, Fate::Completed, 1);
                return self.paging_packet_done(cx, ready.value());
            }
            Handed::Portion { context, portion, written, .. } => {
                self.lists_wrote(&written);
                self.packet_counts(context, Fate::Completed);
                let number = portion.number.expect("it is not the last");
                let portions = self.packet_contexts[context].portions.expect("a portion has ended");
                self.signal_fence(cx, portions, number);
                if !self.runs_packets(context) {
                    self.forget_suspension(cx, Leaving::Packets(context));
                }
                return;
            }
            Handed::Packet { context, packet, written, .. } => (context, packet, written),
        };
        self.lists_wrote(&written);
        self.packet_counts(context, Fate::Completed);
        let number = packet.number;
        let (vidsch, progress) = (self.packet_contexts[context].vidsch, self.packet_contexts[context].progress);
        self.vidsch.completed(vidsch, 1);
        let buffer = match packet.work {
            Work::Patched { buffer, .. } => Some(buffer),
            Work::Virtual { presented, .. } => presented.map(|presented| presented.buffer),
        };
        if let Some(buffer) = buffer {
            self.release_dma_buffer(cx, context, buffer);
        }
        cx.emit(self.index, Event::PacketCompleted { context: context.raw(), packet: number });
        self.signal_fence(cx, progress, number);
        let (node, device) = (self.packet_contexts[context].node, self.packet_contexts[context].device);
        let process = self.devices[device].process;
        self.buffer_completed(cx, node, process);
        if !self.runs_packets(context) {
            self.forget_suspension(cx, Leaving::Packets(context));
        }
    }

    /// The driver reports that a packet has faulted: the packets before it are done, its context runs nothing more, its device
    /// is in error.
    // spec: memory §5.8
    pub fn packet_faulted(&mut self, cx: &mut Cx<'_>, fault: DmaFault) {
        let Some(known) = self.packets.nodes.get(usize::from(fault.node.0)) else {
            self.stop(cx, format!("a packet of node {} faulted; there is no such node", fault.node.0));
            return;
        };
        let Some(at) = known.in_flight.iter().position(|packet| packet.fence_id == fault.fence_id) else {
            if !known.dropped.contains(&fault.fence_id) {
                self.invalid_fence_id(cx, fault.node, fault.fence_id, "to have faulted");
            }
            return;
        };
        let context = known.in_flight[at].context();
        if let Some(before) = at.checked_sub(1).map(|before| known.in_flight[before].fence_id) {
            self.packet_completed(cx, fault.node, before);
        }
        let Some(context) = context else {
            self.hardware_lost(cx, format!("a paging buffer faulted at {:#x}", fault.virtual_address));
            return;
        };
        let (device, addresses) = (self.packet_contexts[context].device, self.packet_contexts[context].addresses);
        let state = if addresses { DeviceState::ErrorDmaPageFault } else { DeviceState::ErrorDmaFault };
        let DmaFault { virtual_address: address, write, invalid_instruction, .. } = fault;
        let fault = DeviceFault { address, write, invalid_instruction };
        self.fail_faulted_device(cx, device, (state, format!("context {}", context.raw())), fault);
    }
}
