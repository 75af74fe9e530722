//! Interrupt records into reports (sync §2.8, §3.10).
//!
//! Records name queues by number and words by address; the driver reuses both. So a call that is about to change what a number
//! or an address means (a close, a destroy) first takes the records that are there ([`SoftGpuKmd::gather`]); they wait,
//! translated, for the next routine. That one comes: the pin has been up since the record.
//!
//! For signals by engines the driver reports the fences or, with the optimized cap, the queues that signalled them (sync
//! §3.15). Such an interrupt names one engine, so the driver reports a signal of unknown origin once for each engine.
//!
//! A signal that the driver cannot name it reports as "any fence" (the NULL array), so no wake-up is lost.

use std::collections::{BTreeMap, BTreeSet};

use ddi::{
    DmaFault, EngineState, Interrupt, InterruptFlags, KmdQueue, NotificationId, Notify, OsContext, OsGlobalFence,
    PageFault, PlaneVsync,
};
use softgpu_spec::register::{self, fault, queue_state, record};
use wddm_types::{EngineId, NodeId, VidPnTargetId};

use crate::driver::SoftGpuKmd;
use crate::queues::QueueStage;

/// The CMP belongs to no engine; its reports, and those of lost records, bear this node.
const CMP_NODE: NodeId = NodeId(0);

/// A node of this device is one engine.
const ENGINE: EngineId = EngineId(0);

/// Reports translated from records, not yet made.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    signals: BTreeMap<NodeId, Signals>,
    faults: Vec<PageFault>,
    /// Nodes whose engines have signalled monitored fences.
    monitored: BTreeSet<NodeId>,
    /// Packets that are done, oldest first, and those that faulted.
    completed: Vec<(NodeId, u32)>,
    /// Nodes that were preempted: the kernel's fence for that, and the packet that was done last.
    preempted: Vec<(NodeId, u32, u32)>,
    dma_faults: Vec<DmaFault>,
    /// Nodes whose engines had nothing to do for a while.
    idle: BTreeSet<NodeId>,
    /// Nodes whose scheduling logs have reached the entry at which the kernel wants an interrupt.
    logs: BTreeSet<NodeId>,
    /// Contexts that the device has suspended, with the kernel's suspend fence value.
    suspended: Vec<(OsContext, u64)>,
    /// Changes of the shown surface: the target, the surface, whether it changed at once instead of at a blank.
    shown: Vec<(VidPnTargetId, What, bool)>,
    /// Notifications whose time has come.
    periodic: Vec<(VidPnTargetId, NotificationId)>,
}

impl Gathered {
    /// Whether the device told nothing.
    fn is_empty(&self) -> bool {
        self.signals.is_empty()
            && self.monitored.is_empty()
            && self.faults.is_empty()
            && self.suspended.is_empty()
            && self.completed.is_empty()
            && self.preempted.is_empty()
            && self.dma_faults.is_empty()
            && self.shown.is_empty()
            && self.periodic.is_empty()
            && self.idle.is_empty()
            && self.logs.is_empty()
    }
}

/// The surface that a display shows, as a record names it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// By address: the kernel keeps the queue of flips.
    Address(u64),
    /// By flip: the device keeps the queue.
    Flip { present_id: u64, first_free_log_entry: u32 },
}

/// The fences of a node.
#[derive(Debug, Default)]
struct Signals {
    fences: Vec<OsGlobalFence>,
    queues: Vec<KmdQueue>,
    /// A record named no known queue or word: any fence may have been signalled.
    any: bool,
}

impl Gathered {
    fn signal(&mut self, node: NodeId, fence: Option<OsGlobalFence>) {
        let signals = self.signals.entry(node).or_default();
        match fence {
            Some(fence) if !signals.fences.contains(&fence) => signals.fences.push(fence),
            Some(_) => {}
            None => signals.any = true,
        }
    }

    fn queue_signal(&mut self, node: NodeId, queue: KmdQueue) {
        let queues = &mut self.signals.entry(node).or_default().queues;
        if !queues.contains(&queue) {
            queues.push(queue);
        }
    }

    /// The device has suspended a context.
    pub(crate) fn suspended(&mut self, context: OsContext, suspend_fence: u64) {
        self.suspended.push((context, suspend_fence));
    }

    /// A packet is done.
    pub(crate) fn completed(&mut self, node: NodeId, fence_id: u32) {
        self.completed.push((node, fence_id));
    }

    /// A node was preempted.
    pub(crate) fn preempted(&mut self, node: NodeId, preemption_fence_id: u32, last_completed_fence_id: u32) {
        self.preempted.push((node, preemption_fence_id, last_completed_fence_id));
    }

    /// Takes a node's completed packets, for a caller that reports them itself, and drops its answers to preemptions.
    pub(crate) fn take_completed(&mut self, node: NodeId) -> Vec<u32> {
        self.preempted.retain(|(of, ..)| *of != node);
        let (taken, left) = std::mem::take(&mut self.completed).into_iter().partition(|(of, _)| *of == node);
        self.completed = left;
        let taken: Vec<(NodeId, u32)> = taken;
        taken.into_iter().map(|(_, fence_id)| fence_id).collect()
    }

    /// A display shows something.
    pub(crate) fn shown(&mut self, target: VidPnTargetId, what: What, immediate: bool) {
        self.shown.push((target, what, immediate));
    }

    /// A notification's time has come.
    pub(crate) fn periodic(&mut self, target: VidPnTargetId, id: NotificationId) {
        self.periodic.push((target, id));
    }

    /// Drops the reports of a display whose mode changes.
    pub(crate) fn forget_target(&mut self, target: VidPnTargetId) {
        self.shown.retain(|(of, ..)| *of != target);
    }

    /// A packet has faulted.
    pub(crate) fn dma_fault(&mut self, fault: DmaFault) {
        self.dma_faults.push(fault);
    }

    /// Drops a destroyed fence from the reports.
    // spec: sync §3.10
    pub(crate) fn forget_fence(&mut self, fence: OsGlobalFence) {
        for signals in self.signals.values_mut() {
            signals.fences.retain(|named| *named != fence);
        }
    }

    /// Drops a destroyed queue from the reports.
    pub(crate) fn forget_queue(&mut self, queue: KmdQueue) {
        self.faults.retain(|fault| fault.queue != queue);
        for signals in self.signals.values_mut() {
            signals.queues.retain(|named| *named != queue);
        }
    }
}

impl SoftGpuKmd {
    // spec: sync §3.10
    pub(crate) fn report_interrupts(&mut self, notify: &mut dyn Notify) -> bool {
        self.gather();
        let gathered = std::mem::take(&mut self.gathered);
        let ours = !gathered.is_empty();
        for (node, signals) in &gathered.signals {
            if signals.fences.is_empty() && signals.queues.is_empty() && !signals.any {
                continue; // all of them were destroyed meanwhile
            }
            let fences = if signals.any { None } else { Some(&signals.fences[..]) };
            let queues = if signals.any { &[] } else { &signals.queues[..] };
            let flags = InterruptFlags::empty();
            notify.interrupt(Interrupt::NativeFenceSignaled { node: *node, engine: ENGINE, fences, queues, flags });
        }
        // spec: sync §2.8, sync §3.7: no list
        for node in gathered.monitored {
            notify.interrupt(Interrupt::MonitoredFenceSignaled { node, engine: ENGINE });
        }
        for (context, suspend_fence) in gathered.suspended {
            notify.interrupt(Interrupt::SuspendContextCompleted { context, suspend_fence });
        }
        for (node, fence_id) in gathered.completed {
            notify.interrupt(Interrupt::DmaCompleted { node, fence_id });
        }
        for (node, preemption_fence_id, last_completed_fence_id) in gathered.preempted {
            let engine = ENGINE;
            let preempted = Interrupt::DmaPreempted { node, engine, preemption_fence_id, last_completed_fence_id };
            notify.interrupt(preempted);
        }
        // spec: sync §2.8
        for (target, what, immediate) in gathered.shown {
            let mut flags = InterruptFlags::empty();
            flags.set(InterruptFlags::HSYNC_FLIP_COMPLETION, immediate);
            match what {
                What::Address(physical_address) => {
                    notify.interrupt(Interrupt::CrtcVsync { target, physical_address, flags });
                }
                What::Flip { present_id, first_free_log_entry } => {
                    let planes = &[PlaneVsync { layer: 0, present_id, first_free_log_entry }];
                    notify.interrupt(Interrupt::CrtcVsyncWithMultiPlaneOverlay3 { target, planes, flags });
                }
            }
        }
        for (target, notification) in gathered.periodic {
            notify.interrupt(Interrupt::PeriodicMonitoredFenceSignaled { target, notification });
        }
        for fault in gathered.dma_faults {
            notify.interrupt(Interrupt::DmaPageFaulted(fault));
        }
        for fault in gathered.faults {
            notify.interrupt(Interrupt::HwQueuePageFaulted(fault));
        }
        for node in gathered.idle {
            let (engine, state) = (ENGINE, EngineState::TransitionToF1);
            notify.interrupt(Interrupt::EngineStateChange { node, engine, state });
        }
        // spec: sync §2.8, sync §4.2
        for node in gathered.logs {
            notify.interrupt(Interrupt::SchedulingLogInterrupt { node, engine: ENGINE });
        }
        ours
    }

    /// Takes every record that the device holds.
    pub(crate) fn gather(&mut self) {
        loop {
            let kind = self.port.read_register(register::INTERRUPT_POP);
            // A device that is gone reads as ABSENT and has no records.
            if matches!(kind, record::NONE | register::ABSENT) {
                return;
            }
            let field =
                [register::RECORD_0, register::RECORD_1, register::RECORD_2].map(|at| self.port.read_register(at));
            match kind {
                record::FENCE => self.gather_fence(field[0], field[1]),
                record::SIGNALED => self.gather_signaled(field[0]),
                record::MONITORED => self.gather_passed(field[0]),
                record::FAULT => self.gather_fault(field[0], field[1], field[2]),
                record::SUSPENDED => self.gather_suspended(field[0]),
                record::COMPLETED => self.gather_completed(field[0], field[1]),
                // CAST: a device has few engines.
                record::IDLE => drop(self.gathered.idle.insert(NodeId(field[0] as u16))),
                record::SCHEDULING_LOG => drop(self.gathered.logs.insert(NodeId(field[0] as u16))),
                record::PREEMPTED => self.gather_preempted(field[0], field[1], field[2]),
                record::VSYNC | record::FLIPPED => {
                    self.gather_shown(field[0], field[1], field[2], kind == record::FLIPPED);
                }
                record::ALARM => self.gather_alarm(field[0], field[1]),
                // A record of an unknown kind counts as lost records: the driver checks everything.
                _ => self.gather_overflow(),
            }
        }
    }

    /// The kernel finds the fence; the driver reports the queue's node, or the CMP's when the queue is gone.
    fn gather_signaled(&mut self, index: u64) {
        let of_queue = self.queues.at(index).map(|(_, queue)| queue.node);
        let node = of_queue.or_else(|| self.packets.node_of(index)).unwrap_or(CMP_NODE);
        self.gathered.monitored.insert(node);
    }

    /// The CMP has found that a value is passed.
    fn gather_passed(&mut self, current_system_va: u64) {
        match self.config.optimized_fence_interrupt {
            true => self.gather_any_fence(),
            false => self.gathered.signal(CMP_NODE, self.fences.in_system(current_system_va)),
        }
    }

    /// Any fence may have been signalled, by any queue.
    fn gather_any_fence(&mut self) {
        let nodes = if self.config.optimized_fence_interrupt { softgpu_spec::engine::COUNT } else { 1 };
        // CAST: a device has few engines.
        (0..nodes).for_each(|node| self.gathered.signal(NodeId(node as u16), None));
    }

    fn gather_fence(&mut self, index: u64, current_va: u64) {
        let Some((handle, queue)) = self.queues.at(index) else {
            return self.gather_any_fence();
        };
        let node = queue.node;
        // spec: sync §3.15
        if self.config.optimized_fence_interrupt {
            return self.gathered.queue_signal(node, handle);
        }
        let fence = if queue.progress.current_va.0 == current_va {
            self.fences.os(queue.progress.fence)
        } else {
            let context = self.contexts.get(queue.context.0).expect("a context outlives its queues");
            let device = self.devices.get(context.device.0).expect("a device outlives its contexts");
            self.fences.in_process(device.process, current_va)
        };
        self.gathered.signal(node, fence);
    }

    // spec: sync §2.8, memory §5.8
    fn gather_fault(&mut self, index: u64, virtual_address: u64, cause: u64) {
        if self.gather_packet_fault(index, virtual_address, cause) {
            return;
        }
        // A queue that is gone was disabled before its destruction; the driver drops its fault.
        let Some((handle, queue)) = self.queues.at(index) else { return };
        if queue.fault_reported {
            return;
        }
        let node = queue.node;
        self.queues.handles.get_mut(handle.0).expect("found above").fault_reported = true;
        let level = cause >> 8;
        let cause = cause & 0xff;
        self.gathered.faults.push(PageFault {
            queue: handle,
            node,
            virtual_address,
            write: cause == fault::READ_ONLY,
            // CAST: a level is below 4; a device that says otherwise is reported as it says, cut.
            level: level as u32,
            invalid_instruction: matches!(cause, fault::BAD_COMMAND | fault::PRIVILEGE),
        });
    }

    fn gather_suspended(&mut self, index: u64) {
        let Some((handle, _)) = self.queues.at(index) else { return };
        // A suspension also finds a fault whose record was lost.
        self.port.write_register(register::QUEUE_SELECT, index);
        if self.port.read_register(register::QUEUE_CONTROL) == queue_state::FAULTED {
            self.gather_fault(index, 0, 0);
        }
        self.acknowledged(handle);
    }

    /// Records were lost: reports any fence as signalled and reads the state of every enabled queue for faults and suspensions.
    fn gather_overflow(&mut self) {
        if self.has_native_fences() {
            self.gather_any_fence();
        }
        self.gathered.monitored.insert(CMP_NODE);
        self.recheck_packets();
        self.recheck_displays();
        let enabled: Vec<_> = self
            .queues
            .handles
            .iter()
            .filter(|(_, queue)| queue.state == QueueStage::Enabled)
            .map(|(_, queue)| queue.index)
            .collect();
        for index in enabled {
            self.port.write_register(register::QUEUE_SELECT, u64::from(index));
            if self.port.read_register(register::QUEUE_CONTROL) == queue_state::FAULTED {
                self.gather_fault(u64::from(index), 0, 0);
            }
            // The write that asked for a suspension has returned, so nothing executes.
            self.gather_suspended(u64::from(index));
        }
    }
}

#[cfg(test)]
mod tests;
