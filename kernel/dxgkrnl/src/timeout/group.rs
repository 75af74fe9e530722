//! Engines that are reset together (sync §4.4, step 6). Before the kernel resets a hung one, it asks the driver which others that resets.
//! They have done nothing wrong: their work is to leave first, and work that has left is not lost.
//!
//! ```text
//! hung ─▶ QueryDependentEngineGroup ─┬─ itself alone ─────────────────────────────────────────────▶ reset
//!                                    └─ others ─▶ preparing ─┬─ all of them have left, or 500 ms ─▶ reset, one after
//!                                                            │        the other, of those that have not left
//!                                                            └─ the hung one has left ─▶ called off
//! ```
//! While a group is prepared nothing new is handed to it: the kernel preempts its packets and suspends its contexts, the ring too, and
//! all of them go on when it is over. The documents have the engine's interrupts ignored from the timeout on. Here a driver's reports
//! count until it is told to reset, as everywhere: so work that ends in the last moment is not lost, and a driver need not know which
//! reports were heard. For hardware queues the documents only say that the driver names every context that lost its work; asking those of
//! other engines beforehand is ours, for the sake of the contexts that run there.

use std::collections::BTreeSet;

use events::{Event, PreemptedFor};
use kmt_calls::DeviceState;
use vidsch::SuspendReasons;
use wddm_types::NodeId;

use super::Timeouts;
use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::DeviceNumber;
use crate::suspension::Leaving;

/// So long the work of a group has to leave its engines.
// spec: sync §4.4
const GROUP_NS: u64 = 500_000_000;

/// The work that does not leave an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hung {
    /// The packets that the node was handed.
    Packets,
    /// A hardware context by its number, or the ring.
    Context(Leaving),
}

/// An engine that is to be reset when the work of those that are reset with it has left.
#[derive(Clone, Copy, Debug)]
pub struct Preparation {
    node: NodeId,
    hung: Hung,
    /// A bit for each node, itself among them.
    group: u64,
    until_ns: u64,
}

fn nodes_of(group: u64) -> impl Iterator<Item = NodeId> {
    (0..64).filter(move |node| group >> node & 1 == 1).map(NodeId)
}

impl Timeouts {
    /// When a group has had its time.
    pub fn group_deadline_ns(&self) -> Option<u64> {
        self.preparing.iter().map(|preparation| preparation.until_ns).min()
    }

    /// Whether a node is about to be reset, or might be with another: nothing is handed to it.
    pub fn is_preparing(&self, node: usize) -> bool {
        self.preparing.iter().any(|preparation| preparation.group >> node & 1 == 1)
    }

    /// Whether some engine is.
    pub fn is_any_preparing(&self) -> bool {
        !self.preparing.is_empty()
    }

    /// The adapter was reset.
    pub fn forget_groups(&mut self) {
        self.preparing.clear();
    }
}

impl Adapter {
    /// Work on a node does not leave it.
    // spec: sync §4.4, sync §5
    pub fn engine_hung(&mut self, cx: &mut Cx<'_>, node: NodeId, hung: Hung) {
        // The reset of another node decides about a node that is reset with it.
        if self.timeouts.is_preparing(node.0.into()) || !self.may_recover(cx, node) {
            return;
        }
        self.driver_left(cx);
        let group = self.driver.query_dependent_engine_group(node);
        if let Err(why) = self.came_back(cx, "QueryDependentEngineGroup") {
            return self.stop(cx, why);
        }
        let there = u64::MAX >> (64 - self.driver.nodes().len().clamp(1, 64));
        if group & !there != 0 || group >> node.0 & 1 == 0 {
            // Bug check 0x119, parameter 8.
            let (number, count) = (node.0, self.driver.nodes().len());
            self.stop(cx, format!("a reset of node {number} of {count} is said to reset the nodes {group:#x}"));
            return;
        }
        if group == 1 << node.0 {
            return self.reset_whom(cx, node, hung);
        }
        cx.emit(self.index, Event::EngineGroupAsked { adapter: self.index.0, node: node.0, nodes: group });
        self.timeouts.preparing.push(Preparation { node, hung, group, until_ns: cx.now_ns + GROUP_NS });
        for member in nodes_of(group) {
            self.ask_for_room(cx, member);
        }
    }

    fn reset_whom(&mut self, cx: &mut Cx<'_>, node: NodeId, hung: Hung) {
        match hung {
            Hung::Packets => self.reset_node(cx, node),
            Hung::Context(context) => self.reset_hw_engine(cx, node, context),
        }
    }

    /// Everything that an engine has is to leave it.
    fn ask_for_room(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if self.owes_packets(node) {
            self.preempt_for(cx, node, PreemptedFor::Reset);
        }
        let here = self.contexts.iter().filter(|(_, context)| context.node == node);
        let devices: BTreeSet<_> = here.map(|(_, context)| context.device).collect();
        for device in devices {
            if self.devices[device].state == DeviceState::Active {
                self.suspend_device(cx, device, SuspendReasons::RESET);
            }
        }
        if self.stopped.is_none() && node == self.paging_node() && self.ring.kmd_queue().is_some() {
            self.take_ring_off(cx);
        }
    }

    /// A context comes to an engine that is about to be reset: suspends its device with the others.
    pub fn keep_off_group(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, node: NodeId) {
        if self.timeouts.is_preparing(node.0.into()) {
            self.suspend_device(cx, device, SuspendReasons::RESET);
        }
    }

    /// A hardware context that has not left a node, though it was asked to; or the ring.
    fn owes_context(&self, node: NodeId) -> Option<Leaving> {
        let ring_here = node == self.paging_node();
        self.vidsch.suspensions.waiting().find(|context| match *context {
            Leaving::Ring => ring_here,
            Leaving::Hardware(number) => self.contexts.get(number).is_some_and(|known| known.node == node),
            Leaving::Packets(_) => false,
        })
    }

    fn owes_room(&self, preparation: &Preparation) -> bool {
        match preparation.hung {
            Hung::Packets => self.owes_packets(preparation.node),
            Hung::Context(context) => self.vidsch.suspensions.waiting().any(|waiting| waiting == context),
        }
    }

    /// Carries out resets whose groups' work has left, or has had its time. Whether there was one.
    // spec: sync §4.4
    pub fn group_resets_due(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut any = false;
        while self.stopped.is_none() {
            let due = |preparation: &&Preparation| {
                let others = nodes_of(preparation.group).filter(|node| *node != preparation.node);
                let mut owing = others.filter(|node| self.owes_packets(*node) || self.owes_context(*node).is_some());
                cx.now_ns >= preparation.until_ns || !self.owes_room(preparation) || owing.next().is_none()
            };
            let Some(preparation) = self.timeouts.preparing.iter().find(due).copied() else { break };
            self.reset_group(cx, preparation);
            any = true;
        }
        any
    }

    /// The end of a preparation: resets nodes whose work has not left, in the order of their numbers, and lets all others go on.
    // spec: sync §4.4
    fn reset_group(&mut self, cx: &mut Cx<'_>, preparation: Preparation) {
        let resets = self.recovery.count();
        if self.owes_room(&preparation) {
            for node in nodes_of(preparation.group) {
                let goes_on = |adapter: &Adapter| adapter.stopped.is_none() && adapter.recovery.count() == resets;
                if goes_on(self) && self.owes_packets(node) {
                    self.reset_node(cx, node);
                }
                if goes_on(self)
                    && let Some(context) = self.owes_context(node)
                {
                    self.reset_hw_engine(cx, node, context);
                }
            }
        } else {
            let node = preparation.node.0;
            cx.emit(self.index, Event::EngineResetCalledOff { adapter: self.index.0, node });
        }
        self.timeouts.preparing.retain(|other| other.node != preparation.node);
        if self.stopped.is_some() || !self.timeouts.preparing.is_empty() {
            return;
        }
        let kept = self.vidsch.suspensions.suspended().filter(|(_, reasons)| reasons.contains(SuspendReasons::RESET));
        for device in kept.filter_map(|(device, _)| device.device()).collect::<Vec<_>>() {
            self.resume_device(cx, device, SuspendReasons::RESET);
        }
        self.vidsch.suspensions.wait_anew();
        self.resume_suspended_by_timeout(cx);
        self.pump_packets(cx);
    }
}
