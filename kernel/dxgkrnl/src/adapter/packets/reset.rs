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
use vidsch::{Aborted, AfterReset, Hung, PacketFenceId};
use wddm_types::{EngineId, NodeId};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::PacketContextNumber;
use crate::store::ObjectNumber;

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
    pub(in crate::adapter) fn packets_hung(&mut self, cx: &mut Cx<'_>, context: PacketContextNumber) {
        // The reset that another one brought may have taken it off the node, or away.
        if let Some(known) = self.packets.get(context)
            && self.runs_packets(context)
        {
            self.engine_hung(cx, known.node, Hung::Packets);
        }
    }

    /// Whether a node has not given back what it was handed: packets, or the answer to a preemption.
    pub(in crate::adapter) fn owes_packets(&self, node: NodeId) -> bool {
        self.vidsch.nodes.owes(node)
    }

    /// A node that does not give its packets back is made to.
    // spec: sync §4.4
    pub(in crate::adapter) fn reset_node(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let mut heard = Heard::default();
        self.driver_left(cx);
        let driver = self.driver.call(cx).packet_scheduling().expect("the node has packets of it");
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
        self.vidsch.nodes.reset_begins(node);
        for (node, fence_id) in heard.completed {
            self.packet_completed(cx, node, PacketFenceId(fence_id));
        }
        if !self.life.has_stopped() {
            self.node_was_reset(cx, node, last_aborted);
        }
    }

    fn node_was_reset(&mut self, cx: &mut Cx<'_>, node: NodeId, last_aborted: u32) {
        let Aborted { contexts, then } = match self.vidsch.nodes.aborted(node, PacketFenceId(last_aborted)) {
            Ok(aborted) => aborted,
            Err(why) => {
                // Bug check 0x119, parameter 0xA.
                let said = format!("ResetEngine of node {} says that packet {last_aborted} was aborted last", node.0);
                return self.stop(cx, format!("{said}; {why}"));
            }
        };
        let guilty: BTreeSet<_> = contexts.iter().map(|context| self.packets[*context].device).collect();
        let first = guilty.first().map_or(0, |device| device.raw());
        self.tally.engine_reset();
        cx.emit(self.index, Event::EngineReset { adapter: self.index.0, node: node.0, device: first });
        match then {
            AfterReset::PagingLost => {
                return self.hardware_lost(cx, format!("node {} was reset under paging work", node.0));
            }
            AfterReset::HungAgain => {
                return self.hardware_lost(cx, format!("node {} was reset, and what was hung is hung", node.0));
            }
            // It is looked at anew.
            AfterReset::Spared(running) => self.vidsch.timeouts.ask_anew(running),
            AfterReset::GoesOn => {}
        }
        self.devices_are_hung(cx, guilty, node);
        let left = self.vidsch.nodes.give_back(node);
        self.take_all_back(cx, node, left);
    }
}
