//! Timeout detection (sync §4.4), as drivers and devices see it: the kernel suspends or preempts work without progress, and resets what does
//! not leave the engine. `vidsch::Timeouts` counts the time and decides; here the kernel finds out what runs and how far it came, and
//! carries out what is decided:
//!
//! ```text
//! asked: the device is suspended, the ring taken off (`paging`)
//! hung:  ResetHwEngine; of packets, ResetEngine ─▶ its device is Hung (3)
//!                                │ fails                    │
//!                                ▼                          ▼
//!                       adapter reset (`recovery`)      ResumeHwEngine; others' packets again
//! ```
//! A context leaves the engine by acknowledging a suspension, whatever the reason: one that is suspended for memory and does not
//! acknowledge is hung as well. The kernel watches the packets of packet contexts as it does the queues: it preempts them, and the context
//! is hung whose packet the driver had to abort (`packet::reset`). A queue that waits for a fence leaves the hardware at once, so it is
//! never hung; nor is one whose process has asked for no timeout (DisableGpuTimeout). A process's word on what it has queued decides only
//! whether the kernel looks.
//!
//! Before the kernel resets an engine, the work of those that its reset would reset too is to leave them (`group`).
//!
//! Each look first hears what the driver has to say and samples the fences with waiters, because the interrupt that would have told of them
//! may have been lost.

mod group;
mod paging;

use std::collections::BTreeSet;

use ddi::KmdContext;
use events::Event;
use kmt_calls::DeviceState;
use vidsch::{Hung, Passed, SeenPacket, SeenQueue, SuspendReasons};
use wddm_types::NodeId;

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{ContextNumber, DeviceNumber, QueueNumber};
use crate::packet::Running;
use crate::queue::{Context, Queue};
use crate::scheduling::{Leaving, Suspendable};
use crate::store::ObjectNumber;

impl Adapter {
    /// A process has called: requests that were in vain may be repeated.
    pub fn called(&mut self) {
        self.vidsch.timeouts.called();
    }

    /// Arranges for the next look, if there is something to look for. After every turn of the machine.
    pub(super) fn arm_timeouts(&mut self, cx: &Cx<'_>) {
        let known = &self.vidsch.timeouts;
        if !known.is_on() {
            return;
        }
        let runs = |queue: &Queue| !self.is_suspended(queue.device) && self.is_busy(cx, queue).is_some();
        let busy = self.queues.iter().any(|(number, queue)| known.watches_queue(number) && runs(queue));
        let runs = |running: Running| {
            !self.is_suspended(self.packets[running.context].device) && known.watches_packet(running)
        };
        let busy = busy || self.running_packets().any(|(_, running)| runs(running));
        let busy = busy || known.watches_ring() && self.ring_runs(cx).is_some();
        let waited = known.watches_waits() && self.sync.has_waits();
        let something = busy || waited || self.vidsch.suspensions.any_pending();
        self.vidsch.timeouts.arm(cx.now_ns, something);
    }

    /// The value that a queue's running work has reached, if it has any and may be hung.
    // spec: sync §4.4, sync §6 D5
    fn is_busy(&self, cx: &Cx<'_>, queue: &Queue) -> Option<u64> {
        if queue.no_timeout || !self.owners.is_active(queue.device) {
            return None;
        }
        let last = self.doorbells.queued(cx.memory, queue.doorbell).unwrap_or(queue.feed.last_started());
        let reached = self.sync.current_value(cx.memory, queue.progress);
        (last > reached).then_some(reached)
    }

    /// Whether it is time to look. The kernel must hear the driver's interrupts before.
    pub fn looks_for_hangs(&self, cx: &Cx<'_>) -> bool {
        self.life.keeps_time() && self.vidsch.timeouts.is_due(cx.now_ns)
    }

    /// In so many nanoseconds the kernel finds work that hangs here; `None`: it looks for none.
    pub fn finds_hangs_within_ns(&self) -> Option<u64> {
        self.vidsch.timeouts.finds_within_ns().filter(|_| self.life.keeps_time())
    }

    /// Looks, if it is time.
    pub(super) fn look_for_hangs(&mut self, cx: &mut Cx<'_>) {
        if !self.life.keeps_time() {
            return;
        }
        let Some(passed) = self.vidsch.timeouts.begin_look(cx.now_ns) else { return };
        self.look_at_waited(cx);
        for context in self.vidsch.suspensions.overdue(passed.passed_ns, passed.delay_ns) {
            self.context_hung(cx, context);
        }
        if !self.life.has_stopped() {
            self.suspend_standing(cx, passed);
        }
        if !self.life.has_stopped() {
            self.look_at_ring(cx, passed);
        }
    }

    /// Samples the fences with waiters: their interrupt may have been lost.
    fn look_at_waited(&mut self, cx: &mut Cx<'_>) {
        let numbers: Vec<_> = self.sync.waited_fences().collect();
        self.sample_fences(cx, &numbers);
    }

    /// The devices whose work has made no progress for the delay are suspended.
    // spec: sync §4.4
    fn suspend_standing(&mut self, cx: &mut Cx<'_>, passed: Passed) {
        let seen = |(queue, known): (QueueNumber, &Queue)| {
            let (device, reached) = (known.device, self.is_busy(cx, known)?);
            Some(SeenQueue { queue, device, reached, suspended: self.is_suspended(device) })
        };
        let queues: Vec<_> = self.queues.iter().filter_map(seen).collect();
        let seen = |(node, running): (NodeId, Running)| {
            let device = self.packets[running.context].device;
            SeenPacket { node, running, device, suspended: self.is_suspended(device) }
        };
        let packets: Vec<_> = self.running_packets().map(seen).collect();
        for device in self.vidsch.timeouts.standing(passed, &queues, &packets) {
            self.suspend_device(cx, device, SuspendReasons::TIMEOUT);
        }
        self.resume_suspended_by_timeout(cx);
    }

    /// Devices that were asked and have left the hardware go on.
    pub(super) fn resume_suspended_by_timeout(&mut self, cx: &mut Cx<'_>) {
        let over: Vec<_> = self.vidsch.suspensions.quiesced_for(SuspendReasons::TIMEOUT).collect();
        for device in over.into_iter().filter_map(Suspendable::device) {
            self.resume_device(cx, device, SuspendReasons::TIMEOUT);
        }
        self.resume_ring(cx);
    }

    /// A context has not left the hardware in time.
    // spec: sync §4.1, sync §4.4
    fn context_hung(&mut self, cx: &mut Cx<'_>, hung: Leaving) {
        let number = match hung {
            Leaving::Ring => return self.ring_hung(cx),
            Leaving::Packets(context) => return self.packets_hung(cx, context),
            Leaving::Hardware(number) => number,
        };
        let Some(context) = self.queues.context(number) else { return };
        let (node, device) = (context.node, context.device);
        if self.life.has_stopped() || !self.owners.is_active(device) {
            return;
        }
        self.engine_hung(cx, node, Hung::Context(hung));
    }

    /// A hardware context, or the ring, does not leave its engine.
    fn reset_hw_engine(&mut self, cx: &mut Cx<'_>, node: NodeId, hung: Leaving) {
        self.driver_left(cx);
        let hardware = self.driver.call(cx).hardware_queues().expect("it has a hardware context");
        let reset = hardware.reset_hw_engine(node, 0);
        if let Err(why) = self.came_back(cx, "ResetHwEngine") {
            return self.stop(cx, why);
        }
        match reset {
            Ok(invalidated) => self.engine_was_reset(cx, node, hung, &invalidated),
            Err(status) => self.hardware_lost(cx, format!("node {} is hung, ResetHwEngine failed: {status}", node.0)),
        }
    }

    /// The engine has forgotten what some contexts ran on it; the others go on.
    fn engine_was_reset(&mut self, cx: &mut Cx<'_>, node: NodeId, hung: Leaving, invalidated: &[KmdContext]) {
        let named = |(number, context): (ContextNumber, &Context)| invalidated.contains(&context.kmd).then_some(number);
        let named: BTreeSet<_> = self.queues.contexts().filter_map(named).collect();
        let context = if let Leaving::Hardware(context) = hung { Some(context) } else { None };
        if context.is_none_or(|context| !named.contains(&context)) && !invalidated.contains(&self.memory.ring.context())
        {
            // It has left the hardware meanwhile, and the word of it is on its way. Once.
            if !self.vidsch.suspensions.wait_once_more(hung) {
                self.hardware_lost(cx, format!("node {} was reset, and what was hung is hung", node.0));
            }
            return;
        }
        let hung = context.and_then(|context| self.queues.context(context)).map_or(0, |context| context.device.raw());
        self.tally.engine_reset();
        cx.emit(self.index, Event::EngineReset { adapter: self.index.0, node: node.0, device: hung });
        if invalidated.contains(&self.memory.ring.context()) {
            // spec: sync §4.4: a paging packet is affected
            self.hardware_lost(cx, format!("node {} was reset under paging work", node.0));
            return;
        }
        let devices: BTreeSet<_> = named.iter().map(|context| self.queues[*context].device).collect();
        self.devices_are_hung(cx, devices, node);
        self.driver_left(cx);
        let Some(hardware) = self.driver.call(cx).hardware_queues() else { return };
        let resumed = hardware.resume_hw_engine(node, 0);
        if let Err(why) = self.came_back(cx, "ResumeHwEngine") {
            return self.stop(cx, why);
        }
        if let Err(status) = resumed {
            self.hardware_lost(cx, format!("ResumeHwEngine of node {} failed: {status}", node.0));
        }
    }

    /// A node was reset under work of these devices.
    // spec: sync §4.4
    pub(super) fn devices_are_hung(&mut self, cx: &mut Cx<'_>, devices: BTreeSet<DeviceNumber>, node: NodeId) {
        let processes: BTreeSet<_> = devices.iter().map(|device| self.owners.process_of(*device)).collect();
        for device in devices {
            self.fail_device(cx, device, DeviceState::Hung, format!("its work on node {} did not end", node.0));
        }
        processes.into_iter().for_each(|process| self.engine_timed_out(cx, process));
    }
}
