//! The interrupt path: the driver's routine says what happened, then the kernel acts (sync §3.10, memory §5.8).

use std::collections::BTreeSet;

use ddi::{DmaFault, Interrupt, InterruptFlags, KmdQueue, Notify, OsContext, OsGlobalFence, PageFault};
use events::Event;
use gpu_fence::FenceKind;
use kmt_calls::DeviceState;

use wddm_types::NodeId;

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::packet::NodePreempted;

/// Most calls of the routine for one interrupt: a driver that always finds more would keep the kernel for ever.
const ROUTINE_CALLS_MAX: u32 = 1 << 16;

/// What a routine reported, copied during the call (sync §3.10).
#[derive(Default)]
struct Reported {
    fences: Vec<Vec<OsGlobalFence>>,
    any: u32,
    /// Nodes that say that some monitored fence was signalled.
    monitored: BTreeSet<NodeId>,
    faults: Vec<PageFault>,
    suspended: Vec<(OsContext, u64)>,
    packets: Vec<(NodeId, u32)>,
    packet_faults: Vec<DmaFault>,
    preempted: Vec<NodePreempted>,
    unsupported: bool,
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
                // Without the optimized cap the queues are not read (sync §2.8); a driver that has it does not start.
                self.unsupported |= !queues.is_empty();
                match fences {
                    Some(fences) if !fences.is_empty() => self.fences.push(fences.to_vec()),
                    _ => self.any += 1,
                }
            }
            Interrupt::DmaCompleted { node, fence_id } => self.packets.push((node, fence_id)),
            Interrupt::DmaPreempted { node, engine, preemption_fence_id, last_completed_fence_id } => {
                self.preempted.push(NodePreempted { node, engine, preemption_fence_id, last_completed_fence_id });
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
    pub fn interrupt_raised(&mut self, cx: &mut Cx<'_>) {
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
        if reported.unsupported {
            self.stop(cx, "an interrupt named hardware queues although the optimized cap is off".into());
            return;
        }
        for named in reported.fences {
            self.fences_signaled(cx, &named);
        }
        for _ in 0..reported.any {
            self.any_fence_signaled(cx);
        }
        for node in reported.monitored {
            self.monitored_fences_signaled(cx, node);
        }
        for (context, suspend_fence) in reported.suspended {
            self.context_suspended(cx, context.0, suspend_fence);
        }
        for (node, fence_id) in reported.packets {
            self.packet_completed(cx, node, fence_id);
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
    }

    /// Exactly these fences are looked at. A name that is no fence of this adapter is a bug check: the adapter stops.
    // spec: sync §3.10, sync §6 B18
    fn fences_signaled(&mut self, cx: &mut Cx<'_>, named: &[OsGlobalFence]) {
        // What nobody has open is destroyed for the driver, also while a name keeps it.
        let dead = |fence: &&OsGlobalFence| self.fences.get(fence.0).is_none_or(|fence| fence.opens.is_empty());
        if let Some(fence) = named.iter().find(dead) {
            self.stop(cx, format!("an interrupt named fence {}, which is destroyed", fence.0));
            return;
        }
        let numbers: Vec<u64> = named.iter().map(|fence| fence.0).collect();
        let released = self.sample_fences(cx, &numbers);
        // CAST: a driver names at most the records of one routine.
        self.count_dispatch(cx, named.len() as u32, released);
    }

    /// The driver could not tell: every native fence with waiters is looked at.
    // spec: sync §3.10, sync §6 B17
    fn any_fence_signaled(&mut self, cx: &mut Cx<'_>) {
        let native = |fence: &gpu_fence::FenceId| self.waits.kind(*fence) != FenceKind::Monitored;
        let waited = self.waits.with_waiters().filter(native);
        let numbers: Vec<u64> = waited.filter_map(|fence| self.fence_numbers.get(&fence).copied()).collect();
        let released = self.sample_fences(cx, &numbers);
        self.count_dispatch(cx, 0, released);
    }

    fn count_dispatch(&mut self, cx: &mut Cx<'_>, named: u32, released: u32) {
        self.counters.interrupt_dispatches += 1;
        self.counters.dispatches_releasing += u64::from(released > 0);
        cx.emit(Event::FenceInterrupt { adapter: self.index.0, named, released });
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
            }
            return;
        };
        cx.emit(Event::QueueFaulted {
            queue,
            va: fault.virtual_address,
            write: fault.write,
            instruction: fault.invalid_instruction,
        });
        let what =
            if fault.invalid_instruction { "an invalid command" } else { "a GPU virtual address without memory" };
        self.fail_device(
            cx,
            device,
            DeviceState::ErrorDmaPageFault,
            format!("queue {queue}: {what} at {:#x}", fault.virtual_address),
        );
    }

    fn is_paging_queue(&self, queue: KmdQueue) -> bool {
        self.ring.kmd_queue() == Some(queue)
    }
}
