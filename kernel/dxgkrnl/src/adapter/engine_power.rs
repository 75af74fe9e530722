//! Engines with less power (sync §3.17), as the driver and processes see it; `vidsch::EnginePower` has the rule. The driver says that an
//! engine had nothing to do for a while; the kernel takes the doorbells of its queues away and, if nothing was rung meanwhile, has the
//! driver lower its power.
//!
//! A process that rings stores what it has queued, rings, and looks at its doorbell's status; the kernel stores the status of all, and
//! then looks at what was queued. With a full barrier between the two on either side one of them sees the other: either the engine keeps
//! its power, or the process that has rung finds its doorbell gone, connects it again, and rings again.

use std::collections::BTreeSet;
use std::sync::atomic::{Ordering, fence};

use ddi::{EngineState, FState};
use events::{DoorbellTaken, Event};
use kmt_calls::Refusal;
use vidsch::{Powered, Raised, SuspendReasons};
use wddm_types::{EngineId, NodeId, ProcessId, RawHandle};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::invariant::{Checked, ensure};
use crate::number::DeviceNumber;
use crate::queue::Queue;

impl Adapter {
    /// Interrupt 20.
    // spec: sync §2.8, sync §3.17
    pub(super) fn engine_state_changed(&mut self, cx: &mut Cx<'_>, node: NodeId, state: EngineState) {
        match state {
            EngineState::Active => {}
            EngineState::TransitionToF1 => self.lower_engine(cx, node),
            EngineState::Hung => self.engine_is_hung(cx, node),
        }
    }

    fn lower_engine(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if !self.life.is_awake() || !self.vidsch.engine_power.asks(node) || !self.driver.facets().hardware_queues {
            return;
        }
        let doorbells: Vec<_> = self.queues.of_node(node).filter_map(|(_, queue)| queue.doorbell).collect();
        for doorbell in doorbells {
            self.lend_doorbells(cx, |doorbells, lent| doorbells.disconnect(lent, doorbell, DoorbellTaken::Power));
        }
        // The other side is a ring: it queues, rings, and looks at the status.
        fence(Ordering::SeqCst);
        let paging = node == self.driver.paging_node() && self.is_paging(cx);
        let queued = self.queues.of_node(node).any(|(_, queue)| self.has_work(cx, queue));
        let has_work = paging || queued || self.vidsch.nodes.owes(node);
        if self.vidsch.engine_power.lowered(node, has_work) {
            self.set_f_state(cx, node, FState::F1);
        }
    }

    /// An engine is about to be given work. Before its doorbells are connected, and before anything is submitted to it.
    pub(in crate::adapter) fn raise_engine(&mut self, cx: &mut Cx<'_>, node: NodeId) -> Powered {
        let Raised { goes_up, powered } = self.vidsch.engine_power.raise(node);
        if goes_up {
            self.set_f_state(cx, node, FState::F0);
        }
        powered
    }

    /// `D3DKMTSetStablePowerState` of a process by a handle of the adapter: as long as one wants it, every engine has its full power. Engines
    /// that asked for less meanwhile get less when the last one wants it no more.
    ///
    /// # Errors
    /// The adapter has stopped.
    // spec: sync §3.17
    pub fn set_stable_power(
        &mut self,
        cx: &mut Cx<'_>,
        by: (ProcessId, RawHandle),
        enabled: bool,
    ) -> Result<(), Refusal> {
        self.life.running()?;
        if !enabled {
            self.end_stable_power(cx, |known| known == by);
            return Ok(());
        }
        let low = self.vidsch.engine_power.hold(by);
        // An adapter that sleeps wakes with all engines at their full power.
        if self.life.is_awake() {
            low.into_iter().for_each(|node| self.set_f_state(cx, node, FState::F0));
        }
        Ok(())
    }

    /// The same wishes end that `ended` says: their handle was closed, or their process has died.
    pub fn end_stable_power(&mut self, cx: &mut Cx<'_>, ended: impl Fn((ProcessId, RawHandle)) -> bool) {
        for node in self.vidsch.engine_power.let_go(ended) {
            self.lower_engine(cx, node);
        }
    }

    fn set_f_state(&mut self, cx: &mut Cx<'_>, node: NodeId, state: FState) {
        // A driver that shows its queues no more fails where it matters.
        if let Some(hardware) = self.driver.call(cx).hardware_queues() {
            hardware.set_engine_f_state(node, EngineId(0), state);
            cx.emit(self.index, Event::EnginePower { adapter: self.index.0, node: node.0, low: state == FState::F1 });
        }
    }

    /// Whether the hardware has work of a queue that is not done: rung for, as its process says, or submitted by the kernel.
    fn has_work(&self, cx: &Cx<'_>, queue: &Queue) -> bool {
        if !self.owners.is_active(queue.device) {
            return false;
        }
        let rung = self.doorbells.queued(cx.memory, queue.doorbell);
        let last = rung.unwrap_or(0).max(queue.feed.last_started());
        last > self.sync.current_value(cx.memory, queue.progress)
    }

    /// That no engine with less power has packets.
    // spec: sync §3.17
    pub(super) fn check_engine_power(&self) -> Checked {
        let fed = self.vidsch.engine_power.low().find(|node| self.vidsch.nodes.owes(*node));
        ensure(fed.is_none(), "engine power", || format!("{fed:?} has less power, and packets"))
    }

    /// The hardware itself reports a hung engine: the kernel suspends the devices with work on it now and not after the delay, and gives
    /// them another delay to leave. Where timeouts are off it does nothing.
    // spec: sync §2.8, sync §4.4
    fn engine_is_hung(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if !self.vidsch.timeouts.is_on() || !self.life.keeps_time() {
            return;
        }
        let busy = |queue: &Queue| !queue.no_timeout && self.has_work(cx, queue);
        let mut devices: BTreeSet<DeviceNumber> =
            self.queues.of_node(node).filter(|(_, queue)| busy(queue)).map(|(_, queue)| queue.device).collect();
        let packets = self.running_packets().filter(|(at, _)| *at == node);
        devices.extend(packets.map(|(_, running)| self.packets[running.context].device));
        for device in devices {
            self.suspend_device(cx, device, SuspendReasons::TIMEOUT);
        }
        self.resume_suspended_by_timeout(cx);
    }
}
