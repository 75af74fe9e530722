//! From the driver back (memory §5.8; sync §4.1): packets that are done, packets that have faulted.

use ddi::DmaFault;
use events::Event;
use kmt_calls::{DeviceFault, DeviceState};
use vidsch::{Faulted, PacketFenceId, ReportBreach};
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::PacketContextNumber;
use crate::packet::{ContextFacts, Finished, InFlight};
use crate::scheduling::Leaving;
use crate::store::ObjectNumber;
use crate::tally::Fate;

impl Adapter {
    /// The driver reports that a packet is done, and with it every one before it on the node.
    pub(in crate::adapter) fn packet_completed(&mut self, cx: &mut Cx<'_>, node: NodeId, id: PacketFenceId) {
        match self.vidsch.nodes.completed(node, id) {
            Ok(done) => done.into_packets().into_iter().for_each(|packet| self.finish_packet(cx, node, packet)),
            Err(ReportBreach::NoSuchNode) => {
                self.stop(cx, format!("a packet of node {} was reported; there is no such node", node.0));
            }
            Err(why) => self.invalid_fence_id(cx, node, id, "done", why),
        }
    }

    /// A report of a packet that the node does not have.
    // spec: sync §4.4
    fn invalid_fence_id(
        &mut self,
        cx: &mut Cx<'_>,
        node: NodeId,
        id: PacketFenceId,
        reported: &str,
        why: ReportBreach,
    ) {
        let said = format!("packet {} of node {} was reported {reported}: {why}", id.0, node.0);
        self.stop(cx, format!("bug check 0x119, parameter 0x1: {said}"));
    }

    pub(super) fn finish_packet(&mut self, cx: &mut Cx<'_>, node: NodeId, packet: InFlight) {
        let (context, number, buffer, written) = match packet.packet.finish() {
            Finished::Paging(ready) => {
                self.tally.count_buffers(node, ProcessId::SYSTEM, Fate::Completed, 1);
                return self.ring_reaches(cx, ready.value());
            }
            Finished::Portion { context, number, written } => {
                self.lists_wrote(cx, &written);
                self.packet_counts(context, Fate::Completed);
                let portions = self.packets[context].portions.expect("a portion has ended");
                self.signal_fence(cx, portions, number);
                return self.may_have_left(cx, context);
            }
            Finished::Packet { context, number, buffer, written } => (context, number, buffer, written),
        };
        self.lists_wrote(cx, &written);
        self.packet_counts(context, Fate::Completed);
        let ContextFacts { vidsch, progress, .. } = self.packets[context];
        self.vidsch.queues.completed(vidsch, 1);
        if let Some(buffer) = buffer {
            self.release_dma_buffer(cx, context, buffer);
        }
        cx.emit(self.index, Event::PacketCompleted { context: context.raw(), packet: number.raw() });
        self.signal_fence(cx, progress, number.raw());
        let (node, device) = (self.packets[context].node, self.packets[context].device);
        let process = self.owners.process_of(device);
        self.buffer_completed(cx, node, process);
        self.may_have_left(cx, context);
    }

    /// A context has fewer packets with the driver. Without any it has left the hardware.
    pub(super) fn may_have_left(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) {
        if !self.runs_packets(context) {
            self.forget_suspension(cx, Leaving::Packets(context));
        }
    }

    /// The driver reports that a packet has faulted: the packets before it are done, its context runs nothing more, its device
    /// is in error.
    // spec: memory §5.8
    pub(in crate::adapter) fn packet_faulted(&mut self, cx: &mut Cx<'_>, fault: DmaFault) {
        let id = PacketFenceId(fault.fence_id);
        let Faulted { done, of } = match self.vidsch.nodes.faulted(fault.node, id) {
            Ok(faulted) => faulted,
            Err(ReportBreach::NoSuchNode) => {
                return self.stop(cx, format!("a packet of node {} faulted; there is no such node", fault.node.0));
            }
            Err(why) => return self.invalid_fence_id(cx, fault.node, id, "to have faulted", why),
        };
        done.into_packets().into_iter().for_each(|packet| self.finish_packet(cx, fault.node, packet));
        // A packet of a context that was dropped meanwhile.
        let Some(of) = of else { return };
        let Some(context) = of.context() else {
            self.hardware_lost(cx, format!("a paging buffer faulted at {:#x}", fault.virtual_address));
            return;
        };
        let (device, addresses) = (self.packets[context].device, self.packets[context].addresses);
        let state = if addresses { DeviceState::ErrorDmaPageFault } else { DeviceState::ErrorDmaFault };
        let DmaFault { node, virtual_address: address, write, invalid_instruction, .. } = fault;
        let fault = DeviceFault { address, write, invalid_instruction };
        self.fail_faulted_device(cx, (device, node), (state, format!("context {}", context.raw())), fault);
    }
}
