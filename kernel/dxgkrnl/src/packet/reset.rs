//! The reset of one engine in the packet model (sync §4.4): a node that has not given back what it was asked for is made to.
//!
//! ```text
//! asked in vain ─▶ ResetEngine ─▶ what was done meanwhile is done ─▶ LastAbortedFenceId
//!      up to it: lost. A context's: its device is Hung (3). A paging buffer: the adapter is reset
//!      behind it: never began, and is handed over again
//! ```
//! A driver that says that nothing was lost is believed once for the same packet: if that is hung again, the adapter is reset.

use std::collections::BTreeSet;

use ddi::{Interrupt, Notify, ResetEngine};
use events::Event;
use wddm_types::{EngineId, NodeId};

use super::{InFlight, Running};
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::packet::PacketContextNumber;
use crate::store::ObjectNumber;
use crate::timeout::Hung;

/// Stands for a preemption without a request while a node is reset: the kernel hands nothing over.
const NO_PREEMPTION: u32 = 0;

/// A driver's reports while it resets an engine.
#[derive(Default)]
struct Heard {
    completed: Vec<(NodeId, u32)>,
    /// It has said what belongs into its interrupt routine.
    other: bool,
}

impl Notify for Heard {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        match interrupt {
            Interrupt::DmaCompleted { node, fence_id } => self.completed.push((node, fence_id)),
            _ => self.other = true,
        }
    }
}

impl Adapter {
    /// A context that was to leave its node has not.
    // spec: sync §4.4
    pub fn packets_hung(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) {
        // The reset that another one brought may have taken it off the node, or away.
        if let Some(known) = self.packet_contexts.get(context)
            && self.runs_packets(context)
        {
            self.engine_hung(cx, known.node, Hung::Packets);
        }
    }

    /// Whether a node has not given back what it was handed: packets, or the answer to a preemption.
    pub fn owes_packets(&self, node: NodeId) -> bool {
        let known = &self.packets.nodes[usize::from(node.0)];
        known.asked.is_some() || !known.in_flight.is_empty()
    }

    /// A node that does not give its packets back is made to.
    // spec: sync §4.4
    pub fn reset_node(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let mut heard = Heard::default();
        self.driver_left(cx);
        let driver = self.driver.packet_scheduling().expect("the node has packets of it");
        let reset = driver.reset_engine(ResetEngine { node, engine: EngineId(0) }, &mut heard);
        if let Err(why) = self.came_back(cx, "ResetEngine") {
            return self.stop(cx, why);
        }
        let last_aborted = match reset {
            Ok(last_aborted) => last_aborted,
            Err(status) => {
                self.hardware_lost(cx, format!("node {} is hung, ResetEngine failed: {status}", node.0));
                return;
            }
        };
        if heard.other {
            self.stop(cx, format!("ResetEngine of node {} reported something that is no packet done", node.0));
            return;
        }
        let at = usize::from(node.0);
        self.packets.nodes[at].asked.get_or_insert(NO_PREEMPTION);
        for (node, fence_id) in heard.completed {
            self.packet_completed(cx, node, fence_id);
        }
        if self.stopped.is_none() {
            self.node_was_reset(cx, node, last_aborted);
        }
    }

    fn node_was_reset(&mut self, cx: &mut Cx<'_>, node: NodeId, last_aborted: u32) {
        let known = &self.packets.nodes[usize::from(node.0)];
        let had = known.in_flight.iter().any(|packet| packet.fence_id == last_aborted);
        if !had && last_aborted != known.last_completed && !known.dropped.contains(&last_aborted) {
            // Bug check 0x119, parameter 0xA.
            let range = (known.last_completed, known.last_fence_id);
            let (completed, submitted) = range;
            self.stop(
                cx,
                format!(
                    "ResetEngine of node {} says that packet {last_aborted} was aborted last; {completed} is the last that was \
                     done, {submitted} the last that it was given",
                    node.0
                ),
            );
            return;
        }
        // Ids rise, and go round.
        let later = |packet: &InFlight| packet.fence_id.wrapping_sub(last_aborted).wrapping_sub(1) < 1 << 31;
        let aborted: Vec<Option<PacketContextNumber>> =
            known.in_flight.iter().take_while(|packet| !later(packet)).map(InFlight::context).collect();
        let front = known.in_flight.front().and_then(InFlight::running);
        let guilty: BTreeSet<_> =
            aborted.iter().flatten().map(|context| self.packet_contexts[*context].device).collect();
        let first = guilty.first().map_or(0, |device| device.raw());
        self.counters.engine_resets += 1;
        cx.emit(self.index, Event::EngineReset { adapter: self.index.0, node: node.0, device: first });
        if aborted.contains(&None) {
            self.hardware_lost(cx, format!("node {} was reset under paging work", node.0));
            return;
        }
        if aborted.is_empty() && front.is_some() && !self.is_spared(node, front) {
            self.hardware_lost(cx, format!("node {} was reset, and what was hung is hung", node.0));
            return;
        }
        self.devices_are_hung(cx, guilty, node);
        // The youngest first, so that the oldest is in front.
        let left = std::mem::take(&mut self.packets.nodes[usize::from(node.0)].in_flight);
        for packet in left.into_iter().rev() {
            self.take_back(cx, node.0, packet);
        }
        self.packets.nodes[usize::from(node.0)].asked = None;
        self.pump_packets(cx);
    }

    /// Nothing was lost of what a node has in front: whether that is so for the first time. It is looked at anew then.
    fn is_spared(&mut self, node: NodeId, front: Option<Running>) -> bool {
        let before = std::mem::replace(&mut self.packets.nodes[usize::from(node.0)].spared, front);
        if let Some(running) = front {
            self.timeouts.ask_anew(running);
        }
        before != front
    }
}
