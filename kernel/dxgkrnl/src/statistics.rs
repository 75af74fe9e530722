//! An adapter's counts for `D3DKMTQueryStatistics`: the work that its nodes ran and of which process, the content that paging moved and
//! of which owner. `answer` looks at the present state instead of counting it. Nothing here decides anything: a kernel without these
//! counts behaves alike.
//!
//! Hardware measures the work that it chooses, where it can (`hardware`, decision 0028). The kernel charges the rest of a node's time
//! turn by turn: at the end of each turn it notes whose work the node has, and the time until the end of the next one is theirs. Between
//! turns the kernel learns nothing, so that is all it can know.
//!
//! | work | whose is it | since when, until when |
//! |---|---|---|
//! | packets | of the packet in front | handed over, or the one before it done; until its interrupt |
//! | hardware queues, fed by a process or by the kernel | of the queue's process; the paging ring's is the kernel's, process 0 | as long as the hardware says that it has executed |
//! | where hardware does not say: queues that the kernel feeds | in equal parts of all processes with some there: hardware chooses among them unseen | handed over; until a turn finds the progress fence there |
//! | likewise: paging | the kernel's | likewise |
//! | likewise: queues that their processes feed | of no process: no turn tells of it | |
//!
//! The kernel counts buffers where it hands them over. It does not count those that a process submits by itself: the process's values of
//! the progress fence rise as it likes, and only they pass through memory that the kernel sees.

mod answer;
mod hardware;

use std::collections::{BTreeMap, BTreeSet};

use kmt_calls::{NodeWork, PagingBytes, SourceStatistics};
use wddm_types::{NodeId, ProcessId, VidPnSourceId};

use crate::adapter::Adapter;
use crate::packet::PacketContextNumber;

/// How often things have happened on an adapter since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdapterCounters {
    /// CPU waits that did not find their values at once.
    pub cpu_waits: u64,
    /// Signals from the CPU.
    pub cpu_signals: u64,
    /// Interrupts in which the driver found something, of whatever kind.
    pub interrupts: u64,
    /// Fence interrupts dispatched.
    pub interrupt_dispatches: u64,
    /// Of these, those that released a waiter.
    pub dispatches_releasing: u64,
    /// Doorbells connected.
    pub doorbells_connected: u64,
    /// Of these, those for which the driver took one from another queue.
    pub doorbells_passed_on: u64,
    /// Nodes that were reset under work that did not end.
    pub engine_resets: u64,
    /// Resets of the whole adapter.
    pub adapter_resets: u64,
    /// Devices that went into error.
    pub devices_lost: u64,
    /// Calls refused that had named the adapter.
    pub calls_refused: u64,
    /// Creations that lacked memory and waited for pending destructions to give it back.
    pub creations_waited: u64,
    /// Devices that were asked to trim.
    pub trims: u64,
}

/// An adapter's counts of its nodes, its processes and its memory.
#[derive(Debug, Default)]
pub struct Statistics {
    nodes: Vec<NodeMeter>,
    /// Of processes that are there, and of the kernel.
    processes: BTreeMap<ProcessId, OfProcess>,
    /// Those that had a device here, have none now and have not ended.
    left: BTreeSet<ProcessId>,
    paging: PagingBytes,
    sources: BTreeMap<VidPnSourceId, SourceStatistics>,
}

/// The counts of a process.
#[derive(Debug, Default)]
struct OfProcess {
    paging: PagingBytes,
    fences_signaled: u64,
    nodes: BTreeMap<NodeId, NodeWork>,
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

impl Statistics {
    /// The counts of an adapter with so many nodes, which only the kernel uses.
    pub fn new(nodes: usize) -> Statistics {
        let processes = BTreeMap::from([(ProcessId::SYSTEM, OfProcess::default())]);
        Statistics { nodes: (0..nodes).map(|_| NodeMeter::default()).collect(), processes, ..Statistics::default() }
    }

    /// A process comes to the adapter.
    pub fn begin(&mut self, process: ProcessId) {
        self.left.remove(&process);
        self.processes.insert(process, OfProcess::default());
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

    /// The kernel has signalled a fence of a process.
    pub fn count_signal(&mut self, process: ProcessId) {
        if let Some(known) = self.processes.get_mut(&process) {
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

    /// Flips that a source has shown.
    pub fn shown_on(&self, source: VidPnSourceId) -> u64 {
        self.sources.get(&source).map_or(0, |known| known.shown)
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
            self.left.insert(process);
        }
        self.nodes.iter_mut().for_each(|node| node.has.retain(|known| *known != process));
    }

    /// Charges the time since the last turn to the processes that had the node; from now on it has work of these.
    fn pass(&mut self, node: usize, now_ns: u64, has: Vec<ProcessId>) {
        let known = &mut self.nodes[node];
        let ns = now_ns.saturating_sub(known.since_ns);
        known.since_ns = known.since_ns.max(now_ns);
        let had = std::mem::replace(&mut known.has, has);
        if had.is_empty() || ns == 0 {
            return;
        }
        known.work.running_ns += ns;
        // The remainder goes to the first, so that the parts add up.
        let (each, rest) = (ns / had.len() as u64, ns % had.len() as u64);
        // CAST: at most 64 nodes.
        let node = NodeId(node as u16);
        for (nth, process) in had.into_iter().enumerate() {
            let known = self.processes.get_mut(&process).expect("a process that goes is forgotten");
            known.nodes.entry(node).or_default().running_ns += each + if nth == 0 { rest } else { 0 };
        }
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

impl Adapter {
    /// A turn is over: whose work each node has from now on.
    pub fn meter_nodes(&mut self, now_ns: u64) {
        let mut has: Vec<Vec<ProcessId>> = vec![Vec::new(); self.driver.nodes().len()];
        if !self.life.has_stopped() {
            for (_, queue) in self.queues.iter() {
                let unfinished = |last: &u64| self.current_value(queue.progress) < *last;
                if queue.counted_ns.is_none() && queue.started.back().is_some_and(unfinished) {
                    let process = self.devices[queue.device].process;
                    let node = usize::from(self.contexts[queue.context].node.0);
                    if !has[node].contains(&process) {
                        has[node].push(process);
                    }
                }
            }
            if self.ring.kmd_queue().is_some() && self.ring.counted_ns().is_none() && self.is_paging() {
                has[usize::from(self.paging_node().0)].push(ProcessId::SYSTEM);
            }
            for (node, front) in self.packet_fronts() {
                let of = |context: PacketContextNumber| self.devices[self.packet_contexts[context].device].process;
                has[usize::from(node.0)].push(front.map_or(ProcessId::SYSTEM, of));
            }
        }
        for (node, has) in has.into_iter().enumerate() {
            self.statistics.pass(node, now_ns, has);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ObjectNumber;

    const A: ProcessId = ProcessId(1);
    const B: ProcessId = ProcessId(2);

    #[test]
    fn the_time_of_a_node_is_theirs_whose_work_it_had() {
        let mut known = Statistics::new(2);
        [A, B].into_iter().for_each(|process| known.begin(process));
        let ns = |known: &Statistics, process| known.processes[&process].nodes[&NodeId(1)].running_ns;
        known.pass(1, 100, vec![A]);
        known.pass(1, 150, vec![A, B]);
        assert_eq!((known.nodes[1].work.running_ns, ns(&known, A)), (50, 50), "no process before, A since");
        known.pass(1, 153, vec![]);
        assert_eq!((ns(&known, A), ns(&known, B)), (52, 1), "in equal parts, and they add up");
        known.pass(1, 1000, vec![B]);
        assert_eq!((known.nodes[1].work.running_ns, known.nodes[0].work.running_ns), (53, 0), "no process had it");
        known.forget(B);
        known.pass(1, 2000, vec![]);
        assert_eq!(known.nodes[1].work.running_ns, 53, "a process that has gone is not charged");
    }

    #[test]
    fn another_context_than_before_is_a_switch() {
        let mut known = Statistics::new(1);
        [7, 7, 8, 7].iter().for_each(|context| known.note_context(NodeId(0), PacketContextNumber::from_raw(*context)));
        assert_eq!(known.nodes[0].context_switches, 2);
    }
}
