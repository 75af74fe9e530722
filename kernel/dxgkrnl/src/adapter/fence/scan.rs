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

use events::Event;
use kmt_calls::MonitoredFenceSignal;
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::machine::Cx;

impl Adapter {
    /// How a node signals monitored fences. Where the device does not snoop the CPU's caches it must not write them.
    // spec: sync §3.7, sync §1.5
    pub fn monitored_fence_signal(&self, cx: &Cx<'_>, node: NodeId) -> MonitoredFenceSignal {
        if !self.engines_reach_words() || !self.is_io_coherent(cx) {
            return MonitoredFenceSignal::Packet;
        }
        match self.driver.node(node).fence_interrupt {
            true => MonitoredFenceSignal::Advanced,
            false => MonitoredFenceSignal::Basic,
        }
    }

    /// The same of all nodes.
    pub fn monitored_fence_signals(&self, cx: &Cx<'_>) -> Vec<MonitoredFenceSignal> {
        // CAST: at most 64 nodes.
        self.driver.node_ids().map(|node| self.monitored_fence_signal(cx, node)).collect()
    }

    /// Interrupt 11, or 19 with EvaluateLegacyMonitoredFences: every monitored fence is looked at.
    // spec: sync §3.7, sync §3.10
    pub fn monitored_fences_signaled(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let (looked_at, released) = self.look_at_monitored(cx, |_| true);
        self.tally.fence_interrupt(released);
        cx.emit(
            self.index,
            Event::MonitoredFenceInterrupt { adapter: self.index.0, node: node.0, looked_at, released },
        );
    }

    /// A command buffer of a process has completed on a node.
    // spec: sync §3.7
    pub fn buffer_completed(&mut self, cx: &mut Cx<'_>, node: NodeId, process: ProcessId) {
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
