//! How often things have happened on an adapter, and for `D3DKMTQueryStatistics` how much: the work that its nodes ran and of which
//! process, the content that paging moved and of which owner. The parts say what happened, and calls read the figures. Nothing here
//! decides anything: a kernel without these counts behaves alike.
//!
//! It is not the present state: `adapter/statistics.rs` puts that beside the counts when a call asks. It asks no other part; who has a
//! node, and what hardware has counted, `adapter/metering.rs` finds out and says here.
//!
//! What holds between its fields: a process counts from its first device here until its last has gone ([`Tally::begin`],
//! [`Tally::forget`]) and is then among those that left, until it ends; so none is both. The kernel itself always counts, and never
//! leaves. Only processes that count have a node.

mod counters;

pub use counters::AdapterCounters;

use std::collections::{BTreeMap, BTreeSet};

use kmt_calls::{NodeWork, PagingBytes, SourceStatistics};
use wddm_types::{NodeId, ProcessId, VidPnSourceId};

use crate::number::PacketContextNumber;

/// An adapter's counts.
#[derive(Debug, Default)]
pub struct Tally {
    counters: AdapterCounters,
    nodes: Vec<NodeMeter>,
    /// Of processes that are there, and of the kernel.
    processes: BTreeMap<ProcessId, ProcessTally>,
    /// Those that had a device here, have none now and have not ended.
    left: BTreeSet<ProcessId>,
    paging: PagingBytes,
    sources: BTreeMap<VidPnSourceId, SourceStatistics>,
}

/// The counts of a process.
#[derive(Debug, Default)]
pub struct ProcessTally {
    paging: PagingBytes,
    fences_signaled: u64,
    nodes: BTreeMap<NodeId, NodeWork>,
}

impl ProcessTally {
    /// The content that paging moved of what the process has created.
    pub fn paging(&self) -> PagingBytes {
        self.paging
    }

    /// The kernel's signals of its fences.
    pub fn fences_signaled(&self) -> u64 {
        self.fences_signaled
    }

    /// Its work on a node.
    pub fn work_on(&self, node: NodeId) -> NodeWork {
        self.nodes.get(&node).copied().unwrap_or_default()
    }
}

/// A node's clock.
#[derive(Debug, Default)]
struct NodeMeter {
    work: NodeWork,
    context_switches: u64,
    /// The packet context that it had last.
    context: Option<PacketContextNumber>,
    /// The processes whose work it has, each once.
    has: Vec<ProcessId>,
    since_ns: u64,
}

/// The fate of a command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Submitted,
    Completed,
    Preempted,
}

impl Fate {
    fn count(self, work: &mut NodeWork, buffers: u64) {
        *match self {
            Fate::Submitted => &mut work.submitted,
            Fate::Completed => &mut work.completed,
            Fate::Preempted => &mut work.preempted,
        } += buffers;
    }
}

impl Tally {
    /// The counts of an adapter with so many nodes, which only the kernel uses.
    pub fn new(nodes: usize) -> Tally {
        let processes = BTreeMap::from([(ProcessId::SYSTEM, ProcessTally::default())]);
        Tally { nodes: (0..nodes).map(|_| NodeMeter::default()).collect(), processes, ..Tally::default() }
    }

    /// A process comes to the adapter.
    pub fn begin(&mut self, process: ProcessId) {
        self.left.remove(&process);
        let before = self.processes.insert(process, ProcessTally::default());
        debug_assert!(before.is_none(), "a process that comes was not here: {process:?} had {before:?}");
    }

    /// Buffers of a process on a node came further.
    pub fn count_buffers(&mut self, node: NodeId, process: ProcessId, fate: Fate, buffers: u64) {
        fate.count(&mut self.nodes[usize::from(node.0)].work, buffers);
        if let Some(known) = self.processes.get_mut(&process) {
            fate.count(known.nodes.entry(node).or_default(), buffers);
        }
    }

    /// A node has got a packet of a context.
    pub fn note_context(&mut self, node: NodeId, context: PacketContextNumber) {
        let known = &mut self.nodes[usize::from(node.0)];
        known.context_switches += u64::from(known.context.replace(context).is_some_and(|before| before != context));
    }

    /// The CPU has signalled a fence; `process`: the process of its first open, if it has one.
    pub fn signaled_from_cpu(&mut self, process: Option<ProcessId>) {
        self.counters.cpu_signals += 1;
        if let Some(known) = process.and_then(|process| self.processes.get_mut(&process)) {
            known.fences_signaled += 1;
        }
    }

    /// Content moved; `owner`: the process that has created it, if that is known.
    pub fn count_move(&mut self, owner: Option<ProcessId>, kind: vidmm::MoveKind, bytes: u64) {
        count_move(&mut self.paging, kind, bytes);
        if let Some(known) = owner.and_then(|owner| self.processes.get_mut(&owner)) {
            count_move(&mut known.paging, kind, bytes);
        }
    }

    /// Counts a flip of a source as shown or as dropped.
    pub fn count_flip(&mut self, source: VidPnSourceId, shown: bool) {
        let known = self.sources.entry(source).or_default();
        *(if shown { &mut known.shown } else { &mut known.dropped }) += 1;
    }

    /// A process has ended: it is not even one that has left.
    pub fn process_ended(&mut self, process: ProcessId) {
        self.left.remove(&process);
    }

    /// A process has left the adapter with its last device.
    pub fn forget(&mut self, process: ProcessId) {
        if self.processes.remove(&process).is_some() {
            let fresh = self.left.insert(process);
            debug_assert!(fresh, "a process that was here had not left: {process:?}");
        }
        self.nodes.iter_mut().for_each(|node| node.has.retain(|known| *known != process));
    }

    /// An engine has executed for a process, as the hardware has counted.
    pub fn charge(&mut self, node: NodeId, process: ProcessId, ns: u64) {
        let add = |to: &mut u64| *to = to.saturating_add(ns);
        add(&mut self.nodes[usize::from(node.0)].work.running_ns);
        if let Some(known) = self.processes.get_mut(&process) {
            add(&mut known.nodes.entry(node).or_default().running_ns);
        }
    }

    /// Charges the time since the last turn to the processes that had the node; from now on it has work of these.
    pub fn pass(&mut self, node: NodeId, now_ns: u64, has: Vec<ProcessId>) {
        let known = &mut self.nodes[usize::from(node.0)];
        let ns = now_ns.saturating_sub(known.since_ns);
        known.since_ns = known.since_ns.max(now_ns);
        let had = std::mem::replace(&mut known.has, has);
        if had.is_empty() || ns == 0 {
            return;
        }
        known.work.running_ns += ns;
        // The remainder goes to the first, so that the parts add up.
        let (each, rest) = (ns / had.len() as u64, ns % had.len() as u64);
        for (nth, process) in had.into_iter().enumerate() {
            let known = self.processes.get_mut(&process).expect("a process that goes is forgotten");
            known.nodes.entry(node).or_default().running_ns += each + if nth == 0 { rest } else { 0 };
        }
    }

    /// The content that paging moved.
    pub fn paging(&self) -> PagingBytes {
        self.paging
    }

    /// The work of a node, and how often another context's packet than the last one's came to it.
    pub fn counts_of(&self, node: NodeId) -> (NodeWork, u64) {
        let known = &self.nodes[usize::from(node.0)];
        (known.work, known.context_switches)
    }

    /// The flips of a source.
    pub fn flips_of(&self, source: VidPnSourceId) -> SourceStatistics {
        SourceStatistics { source, ..self.sources.get(&source).copied().unwrap_or_default() }
    }

    /// The counts of a process that has a device here, and of the kernel.
    pub fn of_process(&self, process: ProcessId) -> Option<&ProcessTally> {
        self.processes.get(&process)
    }

    /// The processes that had a device here, have none now and have not ended.
    pub fn left(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.left.iter().copied()
    }
}

fn count_move(paging: &mut PagingBytes, kind: vidmm::MoveKind, bytes: u64) {
    *match kind {
        vidmm::MoveKind::PageIn => &mut paging.in_bytes,
        vidmm::MoveKind::PageOut => &mut paging.out_bytes,
        vidmm::MoveKind::Fill => &mut paging.filled_bytes,
        vidmm::MoveKind::Relocate => &mut paging.relocated_bytes,
        vidmm::MoveKind::Discard => &mut paging.discarded_bytes,
        vidmm::MoveKind::Map | vidmm::MoveKind::Unmap => return,
    } += bytes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ObjectNumber;

    const A: ProcessId = ProcessId(1);
    const B: ProcessId = ProcessId(2);

    #[test]
    fn the_time_of_a_node_is_theirs_whose_work_it_had() {
        let mut known = Tally::new(2);
        [A, B].into_iter().for_each(|process| known.begin(process));
        let ns = |known: &Tally, process| known.processes[&process].nodes[&NodeId(1)].running_ns;
        known.pass(NodeId(1), 100, vec![A]);
        known.pass(NodeId(1), 150, vec![A, B]);
        assert_eq!((known.nodes[1].work.running_ns, ns(&known, A)), (50, 50), "no process before, A since");
        known.pass(NodeId(1), 153, vec![]);
        assert_eq!((ns(&known, A), ns(&known, B)), (52, 1), "in equal parts, and they add up");
        known.pass(NodeId(1), 1000, vec![B]);
        assert_eq!((known.nodes[1].work.running_ns, known.nodes[0].work.running_ns), (53, 0), "no process had it");
        known.forget(B);
        known.pass(NodeId(1), 2000, vec![]);
        assert_eq!(known.nodes[1].work.running_ns, 53, "a process that has gone is not charged");
    }

    #[test]
    fn another_context_than_before_is_a_switch() {
        let mut known = Tally::new(1);
        [7, 7, 8, 7].iter().for_each(|context| known.note_context(NodeId(0), PacketContextNumber::from_raw(*context)));
        assert_eq!(known.nodes[0].context_switches, 2);
    }

    #[test]
    fn what_hardware_counts_is_the_process_s_and_the_node_s() {
        let process = ProcessId(1);
        let mut known = Tally::new(2);
        known.begin(process);
        known.charge(NodeId(1), process, 30);
        known.charge(NodeId(1), ProcessId::SYSTEM, 12);
        let of = |known: &Tally, process| known.processes[&process].nodes[&NodeId(1)].running_ns;
        assert_eq!((of(&known, process), of(&known, ProcessId::SYSTEM)), (30, 12));
        known.forget(process);
        known.charge(NodeId(1), process, 8);
        assert_eq!((known.nodes[1].work.running_ns, known.nodes[0].work.running_ns), (50, 0), "the node's own stays");
        // A driver may say what it likes.
        known.charge(NodeId(1), ProcessId::SYSTEM, u64::MAX);
        assert_eq!(known.nodes[1].work.running_ns, u64::MAX);
    }
}
