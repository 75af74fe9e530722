//! Timeout detection (sync §4.4): the kernel suspends or preempts work without progress, and resets what does not leave the engine.
//!
//! ```text
//!            delay without progress               acknowledged
//! running ─────────────────────────▶ asked ────────────────────▶ running (it waits, or it is long)
//!                                      │ delay
//!                                      ▼
//!                                    hung ─▶ ResetHwEngine; of packets, ResetEngine ─▶ its device is Hung (3)
//!                                                  │ fails                               │
//!                                                  ▼                                     ▼
//!                                            adapter reset (`recovery`)      ResumeHwEngine; others' packets again
//! ```
//! A context leaves the engine by acknowledging a suspension, whatever the reason: one that is suspended for memory and does not
//! acknowledge is hung as well. Paging is watched, too (`paging`). The kernel watches the packets of packet contexts as it does the
//! queues: it preempts them, and the context is hung whose packet the driver had to abort (`packet::reset`). A queue that waits for a
//! fence leaves the hardware at once, so it is never hung; nor is one whose process has asked for no timeout (DisableGpuTimeout). A
//! process's word on what it has queued decides only whether the kernel looks.
//!
//! Before the kernel resets an engine, the work of those that its reset would reset too is to leave them (`group`).
//!
//! The kernel counts time by looks, eight in a delay, and no look counts for more than its share: when the computer itself stopped the
//! hardware did so, too. Each look first hears what the driver has to say and samples the fences with waiters, because the interrupt that
//! would have told of them may have been lost. The kernel does not look while there is nothing to look for, and repeats a request that
//! was in vain, because the work waits, only when a process has called meanwhile. For the same reason it looks at a queue that its
//! process feeds by doorbell from the next call of any process on: a thread that waits for the work has called.

mod group;
mod paging;

use std::collections::{BTreeMap, BTreeSet};

use ddi::KmdContext;
use events::Event;
use kmt_calls::DeviceState;
use shared_words::Word;
use vidsch::SuspendReasons;
use wddm_types::NodeId;

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::{Context, ContextNumber, DeviceNumber, Queue, QueueNumber};
use crate::packet::Running;
use crate::store::ObjectNumber;
use crate::suspension::{Leaving, Suspendable};
pub use group::Hung;
use group::Preparation;
use paging::RingWatch;

/// Looks in a delay.
const LOOKS: u64 = 8;

/// The state of timeout detection.
#[derive(Debug, Default)]
pub struct Timeouts {
    /// When to look again.
    look_ns: Option<u64>,
    /// The time of the last look, or of the begin.
    looked_ns: u64,
    queues: BTreeMap<QueueNumber, Watched>,
    /// The packet that each node runs, and how long it has.
    nodes: BTreeMap<NodeId, (Running, u64)>,
    /// Packets that were asked since a process called last.
    asked: BTreeSet<Running>,
    ring: RingWatch,
    /// Resets that wait until the work of engines that depend on each other has left them.
    preparing: Vec<Preparation>,
    /// Looks to come for waits whose interrupt may have been lost.
    waits: u64,
}

/// A queue that has work on the hardware.
#[derive(Clone, Copy, Debug)]
struct Watched {
    reached: u64,
    still_ns: u64,
    asked: bool,
}

impl Timeouts {
    /// When [`Adapter::look_for_hangs`] is to be called.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.look_ns
    }

    /// A packet that was asked for goes on, and may be asked for again.
    pub fn ask_anew(&mut self, running: Running) {
        self.asked.remove(&running);
        self.nodes.retain(|_, (known, _)| *known != running);
    }
}

impl Adapter {
    /// A process has called: the kernel may repeat requests that were in vain.
    pub fn timeouts_begin_anew(&mut self) {
        if self.config.recovery.delay_ns.is_none() {
            return;
        }
        self.timeouts.queues.retain(|_, watched| !watched.asked);
        let asked = std::mem::take(&mut self.timeouts.asked);
        self.timeouts.nodes.retain(|_, (running, _)| !asked.contains(running));
        self.timeouts.ring.begins_anew();
        self.timeouts.waits = LOOKS;
    }

    /// Arranges for the next look, if there is something to look for. After every turn of the machine.
    pub fn arm_timeouts(&mut self, cx: &Cx<'_>) {
        let Some(delay_ns) = self.config.recovery.delay_ns else { return };
        let unasked = |number: QueueNumber| self.timeouts.queues.get(&number).is_none_or(|watched| !watched.asked);
        let runs = |queue: &Queue| !self.is_suspended(queue.device) && self.is_busy(queue).is_some();
        let busy = self.queues.iter().any(|(number, queue)| unasked(number) && runs(queue));
        let runs = |running: Running| {
            let device = self.packet_contexts[running.context].device;
            !self.is_suspended(device) && !self.timeouts.asked.contains(&running)
        };
        let busy = busy || self.running_packets().any(|(_, running)| runs(running));
        let busy = busy || self.is_ring_watched();
        let waited = self.timeouts.waits > 0 && self.waits.is_anybody_waiting();
        if !busy && !waited && !self.vidsch.suspensions.any_pending() {
            self.timeouts.look_ns = None;
        } else if self.timeouts.look_ns.is_none() {
            self.timeouts.looked_ns = cx.now_ns;
            self.timeouts.look_ns = Some(cx.now_ns + (delay_ns / LOOKS).max(1));
        }
    }

    /// The value that a queue's running work has reached, if it has any and may be hung.
    // spec: sync §4.4, sync §6 D5
    fn is_busy(&self, queue: &Queue) -> Option<u64> {
        let device = &self.devices[queue.device];
        if queue.no_timeout || device.state != DeviceState::Active {
            return None;
        }
        let last = match queue.doorbell.and_then(|doorbell| self.doorbells.get(doorbell)) {
            Some(doorbell) => Word::load(self.memory.word(doorbell.last_queued.0)),
            None => queue.started.back().copied().unwrap_or(0),
        };
        let reached = self.current_value(queue.progress);
        (last > reached).then_some(reached)
    }

    /// Whether it is time to look. The kernel must hear the driver's interrupts before.
    pub fn looks_for_hangs(&self, cx: &Cx<'_>) -> bool {
        self.stopped.is_none() && self.is_awake() && self.timeouts.look_ns.is_some_and(|at| cx.now_ns >= at)
    }

    /// Looks, if it is time.
    pub fn look_for_hangs(&mut self, cx: &mut Cx<'_>) {
        let Some(delay_ns) = self.config.recovery.delay_ns.filter(|_| self.looks_for_hangs(cx)) else { return };
        self.timeouts.look_ns = None;
        let passed_ns = cx.now_ns.saturating_sub(self.timeouts.looked_ns).min((delay_ns / LOOKS).max(1));
        self.timeouts.waits = self.timeouts.waits.saturating_sub(1);
        self.look_at_waited(cx);
        for context in self.vidsch.suspensions.overdue(passed_ns, delay_ns) {
            self.context_hung(cx, context);
        }
        if self.stopped.is_none() {
            self.ask_who_stands(cx, passed_ns, delay_ns);
        }
        if self.stopped.is_none() {
            self.look_at_ring(cx, passed_ns, delay_ns);
        }
    }

    /// Samples the fences with waiters: their interrupt may have been lost.
    fn look_at_waited(&mut self, cx: &mut Cx<'_>) {
        let waited = self.waits.with_waiters();
        let numbers: Vec<_> = waited.filter_map(|fence| self.fence_numbers.get(&fence).copied()).collect();
        self.sample_fences(cx, &numbers);
    }

    /// The devices whose queues have made no progress for the delay are suspended.
    fn ask_who_stands(&mut self, cx: &mut Cx<'_>, passed_ns: u64, delay_ns: u64) {
        let busy = |(number, queue): (QueueNumber, &Queue)| Some((number, queue.device, self.is_busy(queue)?));
        let busy: Vec<_> = self.queues.iter().filter_map(busy).collect();
        let mut devices = BTreeSet::new();
        let mut watched = BTreeMap::new();
        for (number, device, reached) in busy {
            let before = self.timeouts.queues.get(&number).copied().filter(|before| before.reached == reached);
            let mut now = before.unwrap_or(Watched { reached, still_ns: 0, asked: false });
            // A device that is suspended for another reason does not run.
            if before.is_some() && !self.is_suspended(device) {
                now.still_ns += passed_ns;
            }
            if now.still_ns >= delay_ns && !now.asked {
                now.asked = true;
                devices.insert(device);
            }
            watched.insert(number, now);
        }
        self.timeouts.queues = watched;
        devices.extend(self.packets_that_stand(passed_ns, delay_ns));
        for device in devices {
            self.suspend_device(cx, device, SuspendReasons::TIMEOUT);
        }
        self.resume_suspended_by_timeout(cx);
    }

    /// The devices whose packets have had a node for the delay, and that were not asked for them.
    // spec: sync §4.4
    fn packets_that_stand(&mut self, passed_ns: u64, delay_ns: u64) -> Vec<DeviceNumber> {
        let (mut nodes, mut devices) = (BTreeMap::new(), Vec::new());
        for (node, running) in self.running_packets() {
            let device = self.packet_contexts[running.context].device;
            let mut still_ns = 0;
            if let Some((before, ns)) = self.timeouts.nodes.get(&node)
                && *before == running
            {
                // The kernel waits already for a device that is suspended for another reason.
                still_ns = ns + if !self.is_suspended(device) { passed_ns } else { 0 };
            }
            nodes.insert(node, (running, still_ns));
            if still_ns >= delay_ns && !self.timeouts.asked.contains(&running) {
                devices.push((device, running));
            }
        }
        self.timeouts.nodes = nodes;
        self.timeouts.asked.extend(devices.iter().map(|(_, running)| running));
        devices.into_iter().map(|(device, _)| device).collect()
    }

    /// Devices that were asked and have left the hardware go on.
    pub fn resume_suspended_by_timeout(&mut self, cx: &mut Cx<'_>) {
        let over: Vec<_> = self.vidsch.suspensions.quiesced_for(SuspendReasons::TIMEOUT).collect();
        for device in over.into_iter().filter_map(Suspendable::device) {
            self.resume_device(cx, device, SuspendReasons::TIMEOUT);
        }
        self.resume_ring();
    }

    /// A context has not left the hardware in time.
    // spec: sync §4.1, sync §4.4
    fn context_hung(&mut self, cx: &mut Cx<'_>, hung: Leaving) {
        let number = match hung {
            Leaving::Ring => return self.ring_hung(cx),
            Leaving::Packets(context) => return self.packets_hung(cx, context),
            Leaving::Hardware(number) => number,
        };
        let Some(context) = self.contexts.get(number) else { return };
        let (node, device) = (context.node, context.device);
        if self.stopped.is_some() || self.devices[device].state != DeviceState::Active {
            return;
        }
        self.engine_hung(cx, node, Hung::Context(hung));
    }

    /// A hardware context, or the ring, does not leave its engine.
    fn reset_hw_engine(&mut self, cx: &mut Cx<'_>, node: NodeId, hung: Leaving) {
        self.driver_left(cx);
        let hardware = self.driver.hardware_queues().expect("it has a hardware context");
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
        let named: BTreeSet<_> = self.contexts.iter().filter_map(named).collect();
        let context = if let Leaving::Hardware(context) = hung { Some(context) } else { None };
        if context.is_none_or(|context| !named.contains(&context)) && !invalidated.contains(&self.ring.context) {
            // It has left the hardware meanwhile, and the word of it is on its way. Once.
            if !self.vidsch.suspensions.wait_once_more(hung) {
                self.hardware_lost(cx, format!("node {} was reset, and what was hung is hung", node.0));
            }
            return;
        }
        let hung = context.and_then(|context| self.contexts.get(context)).map_or(0, |context| context.device.raw());
        self.counters.engine_resets += 1;
        cx.emit(self.index, Event::EngineReset { adapter: self.index.0, node: node.0, device: hung });
        if invalidated.contains(&self.ring.context) {
            // spec: sync §4.4: a paging packet is affected
            self.hardware_lost(cx, format!("node {} was reset under paging work", node.0));
            return;
        }
        let devices: BTreeSet<_> = named.iter().map(|context| self.contexts[*context].device).collect();
        self.devices_are_hung(cx, devices, node);
        self.driver_left(cx);
        let Some(hardware) = self.driver.hardware_queues() else { return };
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
    pub fn devices_are_hung(&mut self, cx: &mut Cx<'_>, devices: BTreeSet<DeviceNumber>, node: NodeId) {
        let processes: BTreeSet<_> = devices.iter().map(|device| self.devices[*device].process).collect();
        for device in devices {
            self.fail_device(cx, device, DeviceState::Hung, format!("its work on node {} did not end", node.0));
        }
        processes.into_iter().for_each(|process| self.engine_timed_out(cx, process));
    }
}
