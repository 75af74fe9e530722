//! The interrupt path: the driver's routine says what happened, then the kernel acts (sync §3.10, memory §5.8).

use std::collections::BTreeSet;

use ddi::{
    DmaFault, EngineState, Interrupt, InterruptFlags, KmdQueue, NotificationId, Notify, OsContext, OsGlobalFence,
    PageFault, PlaneVsync,
};
use events::Event;
use kmt_calls::{DeviceFault, DeviceState};

use vidsch::PacketFenceId;
use wddm_types::{EngineId, NodeId, VidPnTargetId};

use crate::adapter::Adapter;
use crate::adapter::Names;
use crate::due::{DriverRefusal, RefusedWork, Verdict};
use crate::effect::Cx;
use crate::packet::NodePreempted;
use crate::store::ObjectNumber;

/// Most calls of the routine for one interrupt: a driver that always finds more would keep the kernel for ever.
const ROUTINE_CALLS_MAX: u32 = 1 << 16;

/// Interrupt 19 (sync §3.10): of fences and queues the driver's cap decides which is read.
pub struct NativeSignals {
    pub node: NodeId,
    pub engine: EngineId,
    pub fences: Vec<OsGlobalFence>,
    pub queues: Vec<KmdQueue>,
}

/// The surface that a display shows from a vertical blank on.
enum Shown {
    Address(u64),
    /// Interrupt 18.
    Planes(Vec<PlaneVsync>),
}

/// The reports of one interrupt routine, copied during the call (sync §3.10).
#[derive(Default)]
struct Reported {
    native: Vec<NativeSignals>,
    /// Nodes that say that some monitored fence was signalled.
    monitored: BTreeSet<(NodeId, EngineId)>,
    faults: Vec<PageFault>,
    suspended: Vec<(OsContext, u64)>,
    packets: Vec<(NodeId, PacketFenceId)>,
    packet_faults: Vec<DmaFault>,
    preempted: Vec<NodePreempted>,
    /// Targets, their surfaces, and whether at no blank.
    shown: Vec<(VidPnTargetId, Shown, bool)>,
    periodic: Vec<(VidPnTargetId, NotificationId)>,
    engines: Vec<(NodeId, EngineId, EngineState)>,
    /// Nodes whose scheduling logs are half full.
    logs: BTreeSet<(NodeId, EngineId)>,
}

impl Notify for Reported {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        match interrupt {
            Interrupt::MonitoredFenceSignaled { node, engine } => {
                self.monitored.insert((node, engine));
            }
            Interrupt::NativeFenceSignaled { node, engine, fences, queues, flags } => {
                if flags.contains(InterruptFlags::EVALUATE_LEGACY_MONITORED_FENCES) {
                    self.monitored.insert((node, engine));
                }
                let fences = fences.unwrap_or_default().to_vec();
                self.native.push(NativeSignals { node, engine, fences, queues: queues.to_vec() });
            }
            Interrupt::EngineStateChange { node, engine, state } => self.engines.push((node, engine, state)),
            Interrupt::GpuEngineTimeout { node, engine } => self.engines.push((node, engine, EngineState::Hung)),
            Interrupt::SchedulingLogInterrupt { node, engine } => drop(self.logs.insert((node, engine))),
            Interrupt::DmaCompleted { node, fence_id } => self.packets.push((node, PacketFenceId(fence_id))),
            Interrupt::DmaPreempted { node, engine, preemption_fence_id, last_completed_fence_id } => {
                self.preempted.push(NodePreempted { node, engine, preemption_fence_id, last_completed_fence_id });
            }
            Interrupt::CrtcVsync { target, physical_address, flags } => {
                let immediate = flags.contains(InterruptFlags::HSYNC_FLIP_COMPLETION);
                self.shown.push((target, Shown::Address(physical_address), immediate));
            }
            Interrupt::CrtcVsyncWithMultiPlaneOverlay3 { target, planes, flags } => {
                let immediate = flags.contains(InterruptFlags::HSYNC_FLIP_COMPLETION);
                self.shown.push((target, Shown::Planes(planes.to_vec()), immediate));
            }
            Interrupt::PeriodicMonitoredFenceSignaled { target, notification } => {
                self.periodic.push((target, notification));
            }
            Interrupt::DmaPageFaulted(fault) => self.packet_faults.push(fault),
            Interrupt::HwQueuePageFaulted(fault) => self.faults.push(fault),
            Interrupt::SuspendContextCompleted { context, suspend_fence } => {
                self.suspended.push((context, suspend_fence));
            }
        }
    }
}

impl Adapter {
    /// The interrupt line went up: runs the routine until it finds nothing more, then acts on what it reported.
    // spec: sync §3.10
    pub fn interrupt_raised(&mut self, cx: &mut Cx<'_>, names: &Names<'_>) {
        if self.life.has_stopped() {
            return;
        }
        let Some(reported) = self.run_routine(cx) else {
            return self.stop(cx, "the interrupt routine never comes to an end".into());
        };
        // Before anything ends what stands there.
        for (node, engine) in reported.logs {
            if self.has_engine(cx, node, engine, 15) {
                self.lend_logs(cx, |logs, lent| logs.read_half_full(lent, node));
            }
        }
        for signals in reported.native {
            if self.has_engine(cx, signals.node, signals.engine, 19) {
                let told = self.native_fences_signaled(cx, names, &signals);
                self.heed(cx, told);
            }
        }
        for (node, engine) in reported.monitored {
            if self.has_engine(cx, node, engine, 11) {
                self.monitored_fences_signaled(cx, node);
            }
        }
        for (context, suspend_fence) in reported.suspended {
            let told = self.context_suspended(cx, context, suspend_fence);
            self.heed(cx, told);
        }
        // Reports from before a reset mean nothing behind it.
        let resets = self.life.reset_count();
        let packet_faults = self.packets_reported(cx, reported.packets, reported.packet_faults);
        for (target, notification) in reported.periodic {
            let told = self.periodic_fence_signaled(cx, target, notification);
            self.heed(cx, told);
        }
        for (target, shown, immediate) in reported.shown {
            match shown {
                Shown::Address(address) => self.vertical_blank(cx, target, address, immediate),
                Shown::Planes(planes) => self.planes_blank(cx, target, &planes, immediate),
            }
        }
        for fault in packet_faults {
            if self.life.reset_count() == resets {
                self.packet_faulted(cx, fault);
            }
        }
        for answer in reported.preempted {
            if self.life.reset_count() == resets {
                self.node_preempted(cx, answer);
            }
        }
        for fault in reported.faults {
            if self.life.reset_count() == resets {
                self.queue_faulted(cx, fault);
            }
        }
        // Behind what says that work is done.
        for (node, engine, state) in reported.engines {
            let interrupt = if state == EngineState::Hung { 16 } else { 20 };
            let counts = self.life.reset_count() == resets && !self.life.has_stopped();
            if counts && self.has_engine(cx, node, engine, interrupt) {
                self.engine_state_changed(cx, node, state);
            }
        }
    }

    /// Packets are done. The driver also reports faults of packets whose contexts were dropped meanwhile, and a node may have been handed
    /// others behind those: such a fault comes before them. Answers with the faults that come behind what is done.
    // spec: memory §5.8
    fn packets_reported(
        &mut self,
        cx: &mut Cx<'_>,
        packets: Vec<(NodeId, PacketFenceId)>,
        mut faults: Vec<DmaFault>,
    ) -> Vec<DmaFault> {
        let resets = self.life.reset_count();
        for (node, id) in packets {
            let is_before = |fault: &DmaFault| fault.node == node && id.is_later_than(PacketFenceId(fault.fence_id));
            let (before, others) = faults.into_iter().partition(is_before);
            faults = others;
            let before: Vec<DmaFault> = before;
            before.into_iter().for_each(|fault| self.packet_faulted(cx, fault));
            if self.life.reset_count() == resets {
                self.packet_completed(cx, node, id);
            }
        }
        faults
    }

    /// Hears the driver for the sake of its refusals that are not judged, and judges them. Whether there were any.
    pub fn judge_refusals(&mut self, cx: &mut Cx<'_>, names: &Names<'_>) -> bool {
        if !self.due.hears_refusals() {
            return false;
        }
        self.interrupt_raised(cx, names);
        for refusal in self.due.take_heard() {
            self.judge(cx, refusal);
        }
        self.settle(cx);
        true
    }

    /// A refusal, when the kernel has heard the driver's interrupts.
    // spec: memory §5.8, memory §8.6
    fn judge(&mut self, cx: &mut Cx<'_>, refusal: DriverRefusal) {
        let DriverRefusal { work, device, .. } = refusal;
        if self.life.has_stopped() || device.is_some_and(|device| !self.owners.is_active(device)) {
            return;
        }
        if refusal.is_explained() {
            self.ask_driver_again(cx, work);
            return device.into_iter().for_each(|device| self.pump_queues_of(cx, device));
        }
        match (refusal.verdict, device) {
            (Verdict::Lose(reason), Some(device)) => self.fail_device(cx, device, DeviceState::ErrorDmaFault, reason),
            (Verdict::Reset(reason), _) => self.life.reset_falls_due(reason),
            (Verdict::Stop(reason) | Verdict::Lose(reason), _) => self.stop(cx, reason),
        }
    }

    /// The fault of another device explains a refusal.
    fn ask_driver_again(&mut self, cx: &mut Cx<'_>, work: RefusedWork) {
        match work {
            // A packet is handed over when the adapter settles, a command with what its device's other queues hold. Entries of a log are read
            // with the next ones: the kernel has looked at the fences of the log's process, as it does when a log says nothing new.
            RefusedWork::Packet | RefusedWork::Command(_) | RefusedWork::Logs => {}
            RefusedWork::Paging => unreachable!("no fault of a context explains it"),
            RefusedWork::Suspension(context, number) => self.suspend_context_again(cx, context, number),
            RefusedWork::Rank(context) if self.queues.context(context).is_some() => self.tell_rank(cx, context),
            // The context has gone meanwhile.
            RefusedWork::Rank(_) => {}
            RefusedWork::Preemption(node, number) => self.vidsch.nodes.refused(node, number),
        }
    }

    /// Runs the driver's routine until it finds nothing more; `None` when it always finds more.
    fn run_routine(&mut self, cx: &Cx<'_>) -> Option<Reported> {
        let mut reported = Reported::default();
        let mut calls = 0;
        while self.driver.call(cx).interrupt_routine(&mut reported) {
            calls += 1;
            if calls == ROUTINE_CALLS_MAX {
                return None;
            }
        }
        if calls != 0 {
            self.tally.interrupt_found_something();
        }
        Some(reported)
    }

    /// Whether an interrupt is about an engine that there is; one about another ends the adapter. The engines of a node are
    /// interchangeable, and each node of this contract has one.
    // spec: sync §2.8
    fn has_engine(&mut self, cx: &mut Cx<'_>, node: NodeId, engine: EngineId, interrupt: u32) -> bool {
        let wrong = if !self.driver.has_node(node) {
            format!("node {} of {}", node.0, self.driver.nodes().len())
        } else if engine != EngineId(0) {
            format!("engine {} of node {}, which has engine 0 only", engine.0, node.0)
        } else {
            return true;
        };
        self.stop(cx, format!("interrupt {interrupt} is about {wrong}"));
        false
    }

    /// A queue faulted: the kernel stops it and puts its device in error; other devices go on.
    // spec: memory §5.8, memory §8.6
    fn queue_faulted(&mut self, cx: &mut Cx<'_>, fault: PageFault) {
        let found = self
            .queues
            .iter()
            .find(|(_, queue)| queue.kmd == fault.queue)
            .map(|(number, queue)| (number, queue.device));
        let Some((queue, device)) = found else {
            if self.is_paging_queue(fault.queue) {
                self.hardware_lost(cx, format!("the paging queue faulted at {:#x}", fault.virtual_address));
            } else {
                let (KmdQueue(queue), at) = (fault.queue, fault.virtual_address);
                self.stop(cx, format!("a fault of queue {queue:#x} at {at:#x} was reported; there is no such queue"));
            }
            return;
        };
        cx.emit(
            self.index,
            Event::QueueFaulted {
                queue: queue.raw(),
                va: fault.virtual_address,
                write: fault.write,
                instruction: fault.invalid_instruction,
            },
        );
        let PageFault { virtual_address: address, write, invalid_instruction, .. } = fault;
        let whose = (DeviceState::ErrorDmaPageFault, format!("queue {}", queue.raw()));
        let node = self.queues.node_of(queue);
        self.fail_faulted_device(cx, (device, node), whose, DeviceFault { address, write, invalid_instruction });
    }

    pub fn is_paging_queue(&self, queue: KmdQueue) -> bool {
        self.memory.ring.kmd_queue() == Some(queue)
    }
}
