//! From the driver back (memory §5.8; sync §4.1): packets that are done, packets that have faulted.

use ddi::DmaFault;
use events::Event;
use kmt_calls::{DeviceFault, DeviceState};
use vidsch::{Faulted, PacketFenceId, ReportBreach};
use wddm_types::{NodeId, ProcessId};

use super::{Handed, InFlight, Work};
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::store::ObjectNumber;
use crate::suspension::Leaving;
use crate::tally::Fate;

impl Adapter {
    /// The driver reports that a packet is done, and with it every one before it on the node.
    pub fn packet_completed(&mut self, cx: &mut Cx<'_>, node: NodeId, fence_id: u32) {
        match self.packets.nodes.completed(node, PacketFenceId(fence_id)) {
            Ok(done) => done.into_iter().for_each(|packet| self.finish_packet(cx, node, packet)),
            Err(ReportBreach::NoSuchNode) => {
                self.stop(cx, format!("a packet of node {} was reported; there is no such node", node.0));
            }
            Err(why) => self.invalid_fence_id(cx, node, fence_id, "done", why),
        }
    }

    /// A report of a packet that the node does not have.
    // spec: sync §4.4
    fn invalid_fence_id(&mut self, cx: &mut Cx<'_>, node: NodeId, fence_id: u32, reported: &str, why: ReportBreach) {
        let said = format!("packet {fence_id} of node {} was reported {reported}: {why}", node.0);
        self.stop(cx, format!("bug check 0x119, parameter 0x1: {said}"));
    }

    pub(super) fn finish_packet(&mut self, cx: &mut Cx<'_>, node: NodeId, packet: InFlight) {
        let (context, packet, written) = match packet.packet {
            Handed::Paging(ready) => {
                self.tally.count_buffers(node, ProcessId::SYSTEM, Fate::Completed, 1);
                return self.paging_packet_done(cx, ready.value());
            }
            Handed::Portion { context, portion, written, .. } => {
                self.lists_wrote(cx, &written);
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
        self.lists_wrote(cx, &written);
        self.packet_counts(context, Fate::Completed);
        let number = packet.number;
        let (vidsch, progress) = (self.packet_contexts[context].vidsch, self.packet_contexts[context].progress);
        self.vidsch.queues.completed(vidsch, 1);
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
        let Faulted { done, of } = match self.packets.nodes.faulted(fault.node, PacketFenceId(fault.fence_id)) {
            Ok(faulted) => faulted,
            Err(ReportBreach::NoSuchNode) => {
                return self.stop(cx, format!("a packet of node {} faulted; there is no such node", fault.node.0));
            }
            Err(why) => return self.invalid_fence_id(cx, fault.node, fault.fence_id, "to have faulted", why),
        };
        done.into_iter().for_each(|packet| self.finish_packet(cx, fault.node, packet));
        // A packet of a context that was dropped meanwhile.
        let Some(of) = of else { return };
        let Some(context) = of.context() else {
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
