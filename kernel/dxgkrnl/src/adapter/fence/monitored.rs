//! Monitored fences: one word in system memory, which the kernel watches (sync §1.2, §2.2). They are there on every adapter,
//! beside native ones too.
//!
//! # Signals
//! How the kernel learns that a GPU has signalled a monitored fence (sync §3.7): the interrupt names none, and a basic engine
//! does not even interrupt, so fences are looked at.
//!
//! | engines of the node | the kernel looks at |
//! |---|---|
//! | cannot write the fence | none: it signals itself, when it comes to the software packet |
//! | basic | the waited-for fences of the process, at each of its command buffers that completes |
//! | advanced | the waited-for fences of the adapter, at each interrupt 11 |
//!
//! The kernel looks at a fence of 32 bits with or without a waiter: two looks must not lie 2^31 values apart.

use ddi::FenceType;
use events::Event;
use gpu_fence::Extension;
use kmt_calls::{
    CpuCaching, CreatedMonitoredFence, FenceFlags, FencePrivateData, MonitoredFenceSignal, Refusal, SyncObjectAccess,
};
use wddm_types::{NodeId, ProcessId, RawHandle};

use super::lifetime::{NewFence, NewMonitored};
use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, FenceOpenNumber};
use crate::sync::{CommonWord, FenceWord, ObjectType, check_affinity, check_flags};

impl Adapter {
    /// The monitored type of `D3DKMTCreateSynchronizationObject2`: the creator's open.
    // spec: sync §2.2, sync §2.3, sync §1.5, sync §1.6
    pub fn create_monitored_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        flags: FenceFlags,
        initial_value: u64,
        engine_affinity: u32,
        common: Option<CommonWord>,
    ) -> Result<FenceOpenNumber, Refusal> {
        check_flags(ObjectType::MonitoredFence, flags)?;
        check_affinity(engine_affinity, flags)?;
        let reached = self.engines_reach_words() && (common.is_none() || self.reaches_common_words());
        let mapped = reached && !flags.contains(FenceFlags::NO_GPU_ACCESS);
        // A word that no GPU reaches has 64 bits, whatever the GPU can do.
        let half = mapped && !self.driver.has_64_bit_atomics();
        let word = if half { FenceWord::Half(Extension::new(initial_value)) } else { FenceWord::Whole };
        let new = NewFence {
            device: Some(device),
            owner: self.owners.process_of(device),
            initial: initial_value,
            fence_type: FenceType::Default,
            monitored: Some(NewMonitored { mapped, word, periodic: None }),
            by_engines: mapped,
            common,
            flags,
            access: SyncObjectAccess::ALL_ACCESS,
            private_data: FencePrivateData::default(),
        };
        let (_, open, _) = self.make_fence(cx, new)?;
        self.sync.list_fence_open(open);
        Ok(open)
    }

    /// Whether a process's words have addresses for engines: the GPU's, or in the IoMmu model the CPU's.
    // spec: sync §1.5
    pub(super) fn engines_reach_words(&self) -> bool {
        self.driver.has_page_tables() || self.uses_cpu_addresses()
    }

    /// A monitored fence as a device that has it open sees it.
    // spec: sync §2.2, sync §1.5
    pub fn created_monitored_fence(
        &self,
        cx: &Cx<'_>,
        open: FenceOpenNumber,
        fence: RawHandle,
    ) -> CreatedMonitoredFence {
        let open = self.sync.open(open);
        let known = self.sync.fence(open.fence);
        let coherent = self.is_io_coherent(cx);
        let (current_va, _) = known.addresses(open.process);
        let (value_va, value_cpu_va) = self.va_for_gpu(current_va);
        CreatedMonitoredFence {
            fence,
            value: known.slot.current,
            value_va,
            value_cpu_va,
            caching: if coherent { CpuCaching::WriteBack } else { CpuCaching::Uncached },
            bits: known.word.bits(),
        }
    }

    /// How a node signals monitored fences. Where the device does not snoop the CPU's caches it must not write them.
    // spec: sync §3.7, sync §1.5
    fn monitored_fence_signal(&self, cx: &Cx<'_>, node: NodeId) -> MonitoredFenceSignal {
        if !self.engines_reach_words() || !self.is_io_coherent(cx) {
            return MonitoredFenceSignal::Packet;
        }
        match self.driver.node(node).fence_interrupt {
            true => MonitoredFenceSignal::Advanced,
            false => MonitoredFenceSignal::Basic,
        }
    }

    /// The same of all nodes.
    pub(in crate::adapter) fn monitored_fence_signals(&self, cx: &Cx<'_>) -> Vec<MonitoredFenceSignal> {
        // CAST: at most 64 nodes.
        self.driver.node_ids().map(|node| self.monitored_fence_signal(cx, node)).collect()
    }

    /// Interrupt 11, or 19 with EvaluateLegacyMonitoredFences: every monitored fence is looked at.
    // spec: sync §3.7, sync §3.10
    pub(in crate::adapter) fn monitored_fences_signaled(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let (looked_at, released) = self.look_at_monitored(cx, |_| true);
        self.tally.fence_interrupt(released);
        cx.emit(
            self.index,
            Event::MonitoredFenceInterrupt { adapter: self.index.0, node: node.0, looked_at, released },
        );
    }

    /// A command buffer of a process has completed on a node.
    // spec: sync §3.7
    pub(in crate::adapter) fn buffer_completed(&mut self, cx: &mut Cx<'_>, node: NodeId, process: ProcessId) {
        if self.monitored_fence_signal(cx, node) != MonitoredFenceSignal::Basic {
            return;
        }
        let (looked_at, released) = self.look_at_monitored(cx, |owner| owner == process);
        if looked_at > 0 {
            cx.emit(self.index, Event::MonitoredFencesLookedAt { process: process.0, looked_at, released });
        }
    }

    /// Looks at the monitored fences of some processes. Answers how many, and how many waits that ended.
    fn look_at_monitored(&mut self, cx: &mut Cx<'_>, whose: impl Fn(ProcessId) -> bool) -> (u32, u32) {
        let numbers = self.sync.monitored_to_look_at(&whose);
        let released = self.sample_fences(cx, &numbers);
        // spec: sync §3.12: a word that several adapters share may have been written here
        self.sync.tell_others_of_any(false, |sync, number| sync.is_open_in(sync.fence(number), &whose));
        // CAST: a process has few thousand fences.
        (numbers.len() as u32, released)
    }
}
