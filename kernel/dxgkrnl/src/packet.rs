//! Packet contexts: work that the kernel hands to a driver packet by packet (memory §5.6, §7.1 to §7.4).

use ddi::DmaFault;
use wddm_types::NodeId;

use crate::adapter::Adapter;
use crate::machine::Cx;

impl Adapter {
    /// The driver reports that a packet is done.
    pub fn packet_completed(&mut self, cx: &mut Cx<'_>, node: NodeId, fence_id: u32) {
        self.stop(cx, format!("packet {fence_id} of node {} was reported and never handed over", node.0));
    }

    /// The driver reports that a packet has faulted.
    pub fn packet_faulted(&mut self, cx: &mut Cx<'_>, fault: DmaFault) {
        self.packet_completed(cx, fault.node, fault.fence_id);
    }
}
