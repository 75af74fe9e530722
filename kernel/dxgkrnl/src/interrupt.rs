//! The interrupt path: the driver's routine says what happened, then the kernel acts (sync §3.10, memory §5.8).

use std::collections::BTreeSet;

use ddi::{
    DmaFault, EngineState, Interrupt, InterruptFlags, KmdQueue, NotificationId, Notify, OsContext, OsGlobalFence,
    PageFault, PlaneVsync,
};
use events::Event;
use kmt_calls::{DeviceFault, DeviceState};

use wddm_types::{NodeId, VidPnTargetId};

use crate::adapter::Adapter;
use crate::fence_log::Names;
use crate::machine::Cx;
use crate::packet::NodePreempted;

/// Most calls of the routine for one interrupt: a driver that always finds more would keep the kernel for ever.
const ROUTINE_CALLS_MAX: u32 = 1 << 16;

/// Interrupt 19 (sync §3.10): of fences and queues the driver's cap decides which is read.
pub struct NativeSignals {
    pub node: NodeId,
    pub fences: Vec<OsGlobalFence>,
    pub queues: Vec<KmdQueue>,
}

/// What a display shows from a vertical blank on.
enum Shown {
    Address(u64),
    /// Interrupt 18.
    Planes(Vec<PlaneVsync>),
}

/// What a routine reported, copied during the call (sync §3.10).
#[derive(Default)]
struct Reported {
    native: Vec<NativeSignals>,
    /// Nodes that say that some monitored fence was signalled.
    monitored: BTreeSet<NodeId>,
    faults: Vec<PageFault>,
    suspended: Vec<(OsContext, u64)>,
    packets: Vec<(NodeId, u32)>,
    packet_faults: Vec<DmaFault>,
    preempted: Vec<NodePreempted>,
    /// Targets, what they show, whether at no blank.
    shown: Vec<(VidPnTargetId, Shown, bool)>,
    periodic: Vec<(VidPnTargetId, NotificationId)>,
    engines: Vec<(NodeId, EngineState)>,
    /// Nodes whose scheduling logs are half full.
    logs: BTreeSet<NodeId>,
}

impl Notify for Reported {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        match interrupt {
            Interrupt::MonitoredFenceSignaled { node } => {
                self.monitored.insert(node);
            }
            Interrupt::NativeFenceSignaled { node, fences, queues, flags } => {
                if flags.contains(InterruptFlags::EVALUATE_LEGACY_MONITORED_FENCES) {
                    self.monitored.insert(node);
                }
                let fences = fences.unwrap_or_default().to_vec();
                self.native.push(NativeSignals { node, fences, queues: queues.to_vec() });
            }
            Interrupt::EngineStateChange { node, state, .. } => self.engines.push((node, state)),
            Interrupt::GpuEngineTimeout { node, .. } => self.engines.push((node, EngineState::Hung)),
            Interrupt::SchedulingLogInterrupt { node, .. } => drop(self.logs.insert(node)),
            Interrupt::DmaCompleted { node, fence_id } => self.packets.push((node, fence_id)),
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
        if self.stopped.is_some() {
            return;
        }
        let mut reported = Reported::default();
        let mut calls = 0;
        while self.miniport.interrupt_routine(&mut reported) {
            calls += 1;
            if calls == ROUTINE_CALLS_MAX {
                self.stop(cx, "the interrupt routine never comes to an end".into());
                return;
            }
        }
        self.counters.interrupts += u64::from(calls != 0);
        // Before anything ends what stands there.
        for node in reported.logs {
            self.scheduling_log_interrupt(cx, node);
        }
        for signals in reported.native {
            if self.has_node(cx, signals.node, 19) {
                self.native_fences_signaled(cx, names, &signals);
            }
        }
        for node in reported.monitored {
            if self.has_node(cx, node, 11) {
                self.monitored_fences_signaled(cx, node);
            }
        }
        for (context, suspend_fence) in reported.suspended {
            self.context_suspended(cx, context.0, suspend_fence);
        }
        for (node, fence_id) in reported.packets {
            self.packet_completed(cx, node, fence_id);
        }
        for (target, notification) in reported.periodic {
            self.periodic_fence_signaled(cx, target, notification);
        }
        for (target, shown, immediate) in reported.shown {
            match shown {
                Shown::Address(address) => self.vertical_blank(cx, target, address, immediate),
                Shown::Planes(planes) => self.planes_blank(cx, target, &planes, immediate),
            }
        }
        // What it said before a reset means nothing behind it.
        let resets = self.recovery.count();
        for fault in reported.packet_faults {
            if self.recovery.count() == resets {
                self.packet_faulted(cx, fault);
            }
        }
        for answer in reported.preempted {
            if self.recovery.count() == resets {
                self.node_preempted(cx, answer);
            }
        }
        for fault in reported.faults {
            if self.recovery.count() == resets {
                self.queue_faulted(cx, fault);
            }
        }
        // Behind what says that work is done.
        for (node, state) in reported.engines {
            if self.recovery.count() == resets && self.stopped.is_none() {
                self.engine_state_changed(cx, node, state);
            }
        }
    }

    /// Whether an interrupt is about a node that there is; one about another ends the adapter.
    fn has_node(&mut self, cx: &mut Cx<'_>, node: NodeId, interrupt: u32) -> bool {
        let known = usize::from(node.0) < self.nodes.len();
        if !known {
            self.stop(cx, format!("interrupt {interrupt} is about node {} of {}", node.0, self.nodes.len()));
        }
        known
    }

    /// A queue faulted: it stops, its device is in error, nobody else notices.
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
                queue,
                va: fault.virtual_address,
                write: fault.write,
                instruction: fault.invalid_instruction,
            },
        );
        let PageFault { virtual_address: address, write, invalid_instruction, .. } = fault;
        let whose = (DeviceState::ErrorDmaPageFault, format!("queue {queue}"));
        self.fail_faulted_device(cx, device, whose, DeviceFault { address, write, invalid_instruction });
    }

    pub fn is_paging_queue(&self, queue: KmdQueue) -> bool {
        self.ring.kmd_queue() == Some(queue)
    }
}
