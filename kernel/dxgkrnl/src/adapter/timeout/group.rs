//! Engines that are reset together (sync §4.4, step 6); `vidsch::Timeouts` has the rule, and its drawing. Before the kernel resets a hung
//! engine, it asks the driver which others that resets.
//!
//! While a group is prepared the kernel preempts its packets and suspends its contexts, the ring too, and
//! all of them go on when it is over. The documents have the engine's interrupts ignored from the timeout on. Here a driver's reports
//! count until it is told to reset, as everywhere: so work that ends in the last moment is not lost, and a driver need not know which
//! reports were heard. For hardware queues the documents only say that the driver names every context that lost its work; asking those of
//! other engines beforehand is ours, for the sake of the contexts that run there.

use std::collections::BTreeSet;

use events::{Event, PreemptedFor};
use vidsch::{GroupEnd, Hung, HungStep, SuspendReasons};
use wddm_types::NodeId;

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::DeviceNumber;
use crate::scheduling::Leaving;

impl Adapter {
    /// Work on a node does not leave it.
    // spec: sync §4.4, sync §5
    pub(in crate::adapter) fn engine_hung(&mut self, cx: &mut Cx<'_>, node: NodeId, hung: Hung<Leaving>) {
        // The reset of another node decides about a node that is reset with it.
        if self.vidsch.timeouts.is_preparing(node) || !self.may_recover(cx, node) {
            return;
        }
        self.driver_left(cx);
        let group = self.driver.call(cx).query_dependent_engine_group(node);
        if let Err(why) = self.came_back(cx, "QueryDependentEngineGroup") {
            return self.stop(cx, why);
        }
        match self.vidsch.timeouts.hung(cx.now_ns, node, hung, group) {
            HungStep::Reset => self.reset_whom(cx, node, hung),
            HungStep::Prepare(nodes) => {
                cx.emit(self.index, Event::EngineGroupAsked { adapter: self.index.0, node: node.0, nodes: group });
                nodes.into_iter().for_each(|member| self.ask_for_room(cx, member));
            }
            HungStep::BadGroup => {
                // Bug check 0x119, parameter 8.
                let (number, count) = (node.0, self.driver.nodes().len());
                self.stop(cx, format!("a reset of node {number} of {count} is said to reset the nodes {group:#x}"));
            }
        }
    }

    fn reset_whom(&mut self, cx: &mut Cx<'_>, node: NodeId, hung: Hung<Leaving>) {
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
        let here = self.queues.contexts().filter(|(_, context)| context.node == node);
        let devices: BTreeSet<_> = here.map(|(_, context)| context.device).collect();
        for device in devices {
            if self.owners.is_active(device) {
                self.suspend_device(cx, device, SuspendReasons::RESET);
            }
        }
        if !self.life.has_stopped() && node == self.paging_node() && self.memory.ring.kmd_queue().is_some() {
            self.take_ring_off(cx);
        }
    }

    /// A context comes to an engine that is about to be reset: suspends its device with the others.
    pub(in crate::adapter) fn keep_off_group(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, node: NodeId) {
        if self.vidsch.timeouts.is_preparing(node) {
            self.suspend_device(cx, device, SuspendReasons::RESET);
        }
    }

    /// A hardware context that has not left a node, though it was asked to; or the ring.
    fn owes_context(&self, node: NodeId) -> Option<Leaving> {
        let ring_here = node == self.paging_node();
        self.vidsch.suspensions.waiting().find(|context| match *context {
            Leaving::Ring => ring_here,
            Leaving::Hardware(number) => self.queues.context(number).is_some_and(|known| known.node == node),
            Leaving::Packets(_) => false,
        })
    }

    fn owes_room(&self, node: NodeId, hung: Hung<Leaving>) -> bool {
        match hung {
            Hung::Packets => self.owes_packets(node),
            Hung::Context(context) => self.vidsch.suspensions.waiting().any(|waiting| waiting == context),
        }
    }

    /// Carries out resets whose groups' work has left, or has had its time. Whether there was one.
    // spec: sync §4.4
    pub(in crate::adapter) fn group_resets_due(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut any = false;
        while !self.life.has_stopped() {
            let owes = |node| self.owes_packets(node) || self.owes_context(node).is_some();
            let over = self.vidsch.timeouts.group_over(cx.now_ns, |node, hung| self.owes_room(node, hung), owes);
            let Some(end) = over else { break };
            self.end_group(cx, end);
            any = true;
        }
        any
    }

    /// The end of a preparation: resets nodes whose work has not left, in the order of their numbers, and lets all others go on.
    // spec: sync §4.4
    fn end_group(&mut self, cx: &mut Cx<'_>, end: GroupEnd) {
        let resets = self.life.reset_count();
        let node = match end {
            GroupEnd::CalledOff(node) => {
                cx.emit(self.index, Event::EngineResetCalledOff { adapter: self.index.0, node: node.0 });
                node
            }
            GroupEnd::Reset(hung, nodes) => {
                for node in nodes {
                    let goes_on =
                        |adapter: &Adapter| !adapter.life.has_stopped() && adapter.life.reset_count() == resets;
                    if goes_on(self) && self.owes_packets(node) {
                        self.reset_node(cx, node);
                    }
                    if goes_on(self)
                        && let Some(context) = self.owes_context(node)
                    {
                        self.reset_hw_engine(cx, node, context);
                    }
                }
                hung
            }
        };
        if !self.vidsch.timeouts.group_ended(node) || self.life.has_stopped() {
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
