//! Rates between two answers of the kernel, per second of its own clock. It makes no calls and keeps no state: two answers go
//! in, numbers come out. Used by the page and by its JSON form.
//!
//! A count that is lower than before belongs to a process or adapter that went and came back: all of it has happened since.

use d3dkmt::{AdapterCounts, AdapterStatistics, NodeWork, PagingBytes, ProcessStatistics};
use wddm_types::ProcessId;

/// The rates of an adapter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Nanoseconds of the kernel's clock between the two answers.
    pub elapsed_ns: u64,
    /// Of each of its counts.
    pub counts: CountRates,
    /// Bytes that paging has moved.
    pub paging: PagingRates,
    /// By ordinal.
    pub nodes: Vec<NodeRates>,
    /// Flips shown and dropped a second, by number of their source.
    pub sources: Vec<(f64, f64)>,
    /// In the order of the later answer.
    pub processes: Vec<ProcessRates>,
}

/// How often a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CountRates {
    /// Interrupts in which the driver found something.
    pub interrupts: f64,
    /// Fence interrupts.
    pub fence_interrupts: f64,
    /// Those that released no wait.
    pub fence_interrupts_in_vain: f64,
    /// Waits of threads.
    pub cpu_waits: f64,
    /// Signals by the kernel.
    pub fences_signaled: f64,
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PagingRates {
    /// Into segments.
    pub paged_in: f64,
    /// Out of them.
    pub paged_out: f64,
    /// Filled with zeros.
    pub filled: f64,
    /// Moved within a segment.
    pub relocated: f64,
    /// Dropped without a copy.
    pub discarded: f64,
}

/// Rates of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeRates {
    /// The share of the time in which it had work: 0 to 1.
    pub load: f64,
    /// Buffers that were done, a second.
    pub completed: f64,
    /// Buffers that came back undone, a second.
    pub preempted: f64,
    /// Changes from context to context, a second; 0 for a process.
    pub switches: f64,
}

/// Rates of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessRates {
    /// The process.
    pub process: ProcessId,
    /// Its own work, by ordinal.
    pub nodes: Vec<NodeRates>,
    /// Of its allocations.
    pub paging: PagingRates,
    /// Its fences that the kernel has signalled, a second.
    pub fences_signaled: f64,
}

impl ProcessRates {
    /// The load of the node that it uses most.
    pub fn load(&self) -> f64 {
        self.nodes.iter().map(|node| node.load).fold(0.0, f64::max)
    }
}

/// The rates between two answers about one adapter; `None` when the kernel's clock has not moved.
pub fn rates(before: &AdapterStatistics, now: &AdapterStatistics) -> Option<Rates> {
    let elapsed_ns = now.now_ns.checked_sub(before.now_ns).filter(|ns| *ns > 0)?;
    let over = Over { elapsed_ns };
    let known = |process| before.processes.iter().find(|known| known.process == process);
    Some(Rates {
        elapsed_ns,
        counts: over.counts(&before.counts, &now.counts),
        paging: over.paging(&before.paging, &now.paging),
        nodes: (0..now.nodes.len())
            .map(|node| {
                let (new, old) = (&now.nodes[node], before.nodes.get(node).cloned().unwrap_or_default());
                let switches = over.each(old.context_switches, new.context_switches);
                NodeRates { switches, ..over.work(&old.work, &new.work) }
            })
            .collect(),
        sources: (0..now.sources.len())
            .map(|source| {
                let (new, old) = (now.sources[source], before.sources.get(source).copied().unwrap_or_default());
                (over.each(old.shown, new.shown), over.each(old.dropped, new.dropped))
            })
            .collect(),
        processes: now.processes.iter().map(|process| over.process(known(process.process), process)).collect(),
    })
}

/// The time between.
struct Over {
    elapsed_ns: u64,
}

impl Over {
    fn each(&self, before: u64, now: u64) -> f64 {
        now.checked_sub(before).unwrap_or(now) as f64 * 1e9 / self.elapsed_ns as f64
    }

    fn counts(&self, before: &AdapterCounts, now: &AdapterCounts) -> CountRates {
        CountRates {
            interrupts: self.each(before.interrupts, now.interrupts),
            fence_interrupts: self.each(before.fence_interrupts, now.fence_interrupts),
            fence_interrupts_in_vain: self.each(before.fence_interrupts_in_vain, now.fence_interrupts_in_vain),
            cpu_waits: self.each(before.cpu_waits, now.cpu_waits),
            fences_signaled: self.each(before.fences_signaled, now.fences_signaled),
        }
    }

    fn paging(&self, before: &PagingBytes, now: &PagingBytes) -> PagingRates {
        PagingRates {
            paged_in: self.each(before.in_bytes, now.in_bytes),
            paged_out: self.each(before.out_bytes, now.out_bytes),
            filled: self.each(before.filled_bytes, now.filled_bytes),
            relocated: self.each(before.relocated_bytes, now.relocated_bytes),
            discarded: self.each(before.discarded_bytes, now.discarded_bytes),
        }
    }

    fn work(&self, before: &NodeWork, now: &NodeWork) -> NodeRates {
        NodeRates {
            // Running time may be counted late, and then exceed the time between the two answers.
            load: (self.each(before.running_ns, now.running_ns) / 1e9).min(1.0),
            completed: self.each(before.completed, now.completed),
            preempted: self.each(before.preempted, now.preempted),
            switches: 0.0,
        }
    }

    fn process(&self, before: Option<&ProcessStatistics>, now: &ProcessStatistics) -> ProcessRates {
        let nothing = ProcessStatistics::default();
        let before = before.unwrap_or(&nothing);
        let old_work = |node| before.nodes.get(node).copied().unwrap_or_default();
        let nodes = now.nodes.iter().enumerate().map(|(node, work)| self.work(&old_work(node), work)).collect();
        ProcessRates {
            process: now.process,
            nodes,
            paging: self.paging(&before.paging, &now.paging),
            fences_signaled: self.each(before.fences_signaled, now.fences_signaled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::adapter;

    #[test]
    fn rates_are_exact() {
        let before = adapter();
        let mut now = before.clone();
        // Half a second later.
        now.now_ns += 500_000_000;
        now.counts.interrupts += 60;
        now.paging.in_bytes += 3 << 20;
        now.nodes[0].work.running_ns += 125_000_000;
        now.nodes[0].work.completed += 7;
        now.nodes[0].context_switches += 2;
        now.processes[1].nodes[0].running_ns += 100_000_000;
        now.processes[1].paging.out_bytes += 4096;
        now.processes[1].fences_signaled += 5;
        let rates = rates(&before, &now).expect("time has passed");
        assert_eq!((rates.counts.interrupts, rates.counts.cpu_waits), (120.0, 0.0));
        assert_eq!((rates.paging.paged_in, rates.paging.paged_out), (f64::from(6 << 20), 0.0));
        assert_eq!(rates.nodes[0], NodeRates { load: 0.25, completed: 14.0, preempted: 0.0, switches: 4.0 });
        let process = &rates.processes[1];
        assert_eq!((process.load(), process.paging.paged_out, process.fences_signaled), (0.2, 8192.0, 10.0));
        assert_eq!(process.process, now.processes[1].process);
    }

    #[test]
    fn without_time_there_are_none() {
        assert_eq!(rates(&adapter(), &adapter()), None);
    }

    #[test]
    fn who_has_come_since_is_counted_from_nothing_and_so_is_who_came_back() {
        let (mut before, mut now) = (adapter(), adapter());
        now.now_ns += 1_000_000_000;
        before.processes.remove(1);
        before.processes[1].fences_signaled = 1_000_000;
        now.processes[2].fences_signaled = 11;
        let rates = rates(&before, &now).expect("time has passed");
        assert_eq!(rates.processes[1].fences_signaled, now.processes[1].fences_signaled as f64);
        assert_eq!(rates.processes[2].fences_signaled, 11.0);
    }

    #[test]
    fn no_node_works_more_than_all_the_time() {
        let (before, mut now) = (adapter(), adapter());
        now.now_ns += 1_000_000;
        now.nodes[1].work.running_ns += 2_000_000;
        assert_eq!(rates(&before, &now).expect("time has passed").nodes[1].load, 1.0);
    }
}
