//! Interrupt 19: an engine has signalled native fences that have waiters (sync §3.10, §3.15).
//!
//! | cap bit 12 | the interrupt names | looked at |
//! |---|---|---|
//! | 0 | fences | these; then the logs of their devices' queues tell which queue it was, and when |
//! | 0 | none | all native fences with waiters; likewise |
//! | 1 | queues | what their logs have new says which fences have come to which values: those are not read |
//! | 1 | none | the logs of all queues of the engine |
//!
//! GPU addresses and the names in a log are a process's: a queue signals whatever its process has open, on whichever of its devices.
//! So with the cap two things are looked at as if there were no logs: the shareable fences of a queue's process, for others wait for
//! them, and a log is its process's word; and all fences of a process some of whose entries were lost, or that has a queue without a log.
//! Both cost what the process has open, and not what others have.

use std::collections::{BTreeMap, BTreeSet};

use ddi::{KmdQueue, OsGlobalFence};
use events::Event;
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::adapter::interrupt::NativeSignals;
use crate::adapter::{LogNews, Names};
use crate::breach::Breach;
use crate::effect::Cx;
use crate::number::{DeviceNumber, FenceNumber, QueueNumber};
use crate::queue::Queue;
use crate::store::ObjectNumber;
use crate::sync::{News, UnreportedFence};

/// The queues whose logs the kernel reads, and the fences that it looks at for lack of a log.
#[derive(Default)]
struct Scope {
    /// Queues with logs, by their numbers.
    logged: Vec<QueueNumber>,
    /// Processes all of whose fences are looked at.
    processes: BTreeSet<ProcessId>,
    /// All fences are.
    everything: bool,
}

impl Adapter {
    /// Interrupt 19.
    // spec: sync §3.10, sync §6 C11
    pub(in crate::adapter) fn native_fences_signaled(
        &mut self,
        cx: &mut Cx<'_>,
        names: &Names<'_>,
        signals: &NativeSignals,
    ) -> Result<(), Breach> {
        if self.driver.names_signaled_fences() {
            self.queues_signaled(cx, names, signals.node, &signals.queues);
        } else if signals.fences.is_empty() {
            self.any_fence_signaled(cx, names);
        } else {
            return self.fences_signaled(cx, names, &signals.fences);
        }
        Ok(())
    }

    /// Exactly these fences are looked at. A name that is no fence of this adapter is a bug check: the adapter stops.
    // spec: sync §3.10, sync §6 B18
    fn fences_signaled(&mut self, cx: &mut Cx<'_>, names: &Names<'_>, named: &[OsGlobalFence]) -> Result<(), Breach> {
        // The driver's fence is destroyed with the last open, also while a name keeps the kernel's.
        let dead = |fence: &&OsGlobalFence| {
            self.sync.fence_if_there(FenceNumber::from_raw(fence.0)).is_none_or(|fence| fence.opens.is_empty())
        };
        if let Some(fence) = named.iter().find(dead) {
            return Err(Breach(format!("an interrupt named fence {}, which is destroyed", fence.0)));
        }
        let numbers: Vec<_> = named.iter().map(|fence| FenceNumber::from_raw(fence.0)).collect();
        numbers.iter().for_each(|fence| self.sync.tell_others(*fence, News::Signaled));
        let devices = self.sync.devices_of(&numbers);
        let released = self.sample_fences(cx, &numbers);
        // CAST: a driver names at most the records of one routine.
        let named = named.len() as u32;
        self.count_dispatch(cx, named, named, released);
        self.find_signallers(cx, names, &devices);
        Ok(())
    }

    /// The driver could not tell: every native fence with waiters is looked at.
    // spec: sync §3.10, sync §6 B17
    fn any_fence_signaled(&mut self, cx: &mut Cx<'_>, names: &Names<'_>) {
        let numbers = self.sync.waited_native_fences();
        let devices = self.sync.devices_of(&numbers);
        let released = self.sample_fences(cx, &numbers);
        self.sync.tell_others_of_any(true, |_, _| true);
        // CAST: fences are bounded by the memory that their words take.
        self.count_dispatch(cx, 0, numbers.len() as u32, released);
        self.find_signallers(cx, names, &devices);
    }

    /// Which queue signalled, and when: the logs of all queues of these devices tell. Their waiters are released already.
    // spec: sync §3.10, sync §3.14
    fn find_signallers(&mut self, cx: &mut Cx<'_>, names: &Names<'_>, devices: &BTreeSet<DeviceNumber>) {
        let queues: Vec<_> =
            self.queues.iter().filter(|(_, queue)| devices.contains(&queue.device)).map(|(number, _)| number).collect();
        let news = self.read_logs(cx, names, &queues);
        self.look_at_processes(cx, &news.incomplete);
    }

    /// The logs of these queues say what has been signalled; of none, those of the engine's.
    // spec: sync §3.15, sync §6 C9, sync §6 C10, sync §6 C12
    fn queues_signaled(&mut self, cx: &mut Cx<'_>, names: &Names<'_>, node: NodeId, named: &[KmdQueue]) {
        self.tell_others_of_queues(node, named);
        let mut scope = if named.is_empty() { self.scope_of_node(node) } else { self.scope_of(named) };
        let news = self.read_logs(cx, names, &scope.logged);
        // A queue that was named and has logged nothing new signals without a log, or was read before: its process's fences are looked at.
        let silent = scope.logged.iter().filter(|queue| !news.spoken.contains(queue));
        if !named.is_empty() {
            scope.processes.extend(silent.map(|queue| self.process_of_queue(&self.queues[*queue])));
        }
        scope.processes.extend(&news.incomplete);
        scope.everything |= named.is_empty() && news.spoken.is_empty();
        let numbers = self.fences_of_scope(&scope);
        let released = self.reach_fences(cx, &news.signalled) + self.sample_fences(cx, &numbers);
        // CAST: a driver names at most the queues of its device, and fences are bounded by the memory that their words take.
        self.count_dispatch(cx, named.len() as u32, numbers.len() as u32, released);
    }

    /// The fences that the kernel looks at whatever the logs have said.
    // spec: sync §3.15, sync §6 C10
    fn fences_of_scope(&self, scope: &Scope) -> Vec<FenceNumber> {
        if scope.everything {
            return self.sync.waited_native_fences();
        }
        let logged: BTreeSet<ProcessId> =
            scope.logged.iter().map(|queue| self.process_of_queue(&self.queues[*queue])).collect();
        let shared = logged.difference(&scope.processes).flat_map(|process| self.sync.waited_shared_fences(*process));
        let whole = scope.processes.iter().flat_map(|process| self.waited_fences_of(*process));
        // Several processes may have one open.
        BTreeSet::from_iter(shared.chain(whole)).into_iter().collect()
    }

    /// Logs were read without an interrupt. They are read once: where nothing else tells the kernel of signals it acts upon them now, for
    /// the interrupt that is still to come finds nothing new.
    // spec: sync §3.14, sync §3.15
    pub(in crate::adapter) fn heed_logs(&mut self, cx: &mut Cx<'_>, news: &LogNews) {
        if self.driver.names_signaled_fences() {
            self.reach_fences(cx, &news.signalled);
            self.look_at_processes(cx, &news.incomplete);
        }
    }

    /// Other adapters are told of every fence that these queues, or those of the engine, may have signalled: a log is its process's word,
    /// and others wait for more than that.
    // spec: sync §3.12, sync §6 C10
    fn tell_others_of_queues(&mut self, node: NodeId, named: &[KmdQueue]) {
        let meant = |queue: &Queue| match named.is_empty() {
            true => self.queues[queue.context].node == node,
            false => named.contains(&queue.kmd),
        };
        let meant = self.queues.iter().filter(|(_, queue)| meant(queue));
        let processes: BTreeSet<ProcessId> = meant.map(|(_, queue)| self.process_of_queue(queue)).collect();
        self.sync.tell_others_of_any(true, |sync, number| {
            processes.iter().any(|process| sync.fence(number).views.contains_key(process))
        });
    }

    fn scope_of(&self, named: &[KmdQueue]) -> Scope {
        let mut scope = Scope::default();
        for kmd in named {
            match self.queues.iter().find(|(_, queue)| queue.kmd == *kmd) {
                Some((number, queue)) if queue.logs.are_there() => scope.logged.push(number),
                Some((_, queue)) => drop(scope.processes.insert(self.process_of_queue(queue))),
                // The paging queue signals fences of every process; and so may a queue that has just gone.
                None => scope.everything = true,
            }
        }
        scope
    }

    fn scope_of_node(&self, node: NodeId) -> Scope {
        let mut scope = Scope { everything: self.driver.paging_node() == node, ..Scope::default() };
        for (number, queue) in self.queues.of_node(node) {
            match queue.logs.are_there() {
                true => scope.logged.push(number),
                false => drop(scope.processes.insert(self.process_of_queue(queue))),
            }
        }
        scope
    }

    /// Ends the waits that these values satisfy, of fences that no other process has; the fences are not read for it, but once more behind an
    /// update of what is monitored.
    // spec: sync §3.15, sync §3.9
    fn reach_fences(&mut self, cx: &mut Cx<'_>, points: &[(FenceNumber, u64)]) -> u32 {
        let (mut count, mut updates) = (0, BTreeMap::new());
        for &(number, value) in points {
            let Some(sampled) = self.sync.reach(number, value) else { continue };
            count += self.release(cx, sampled.released);
            updates.extend(sampled.updates.into_iter().map(|update| (update.fence, update)));
        }
        count + self.publish(cx, updates.into_values().collect())
    }

    /// Looks at all fences of processes that have waiters.
    // spec: sync §3.14 (overrun), sync §3.15
    pub(in crate::adapter) fn look_at_processes(&mut self, cx: &mut Cx<'_>, processes: &BTreeSet<ProcessId>) -> u32 {
        let numbers: Vec<_> = processes.iter().flat_map(|process| self.waited_fences_of(*process)).collect();
        self.sample_fences(cx, &numbers)
    }

    /// The native fences that a process has open and that have waiters.
    fn waited_fences_of(&self, process: ProcessId) -> Vec<FenceNumber> {
        let fences = self.owners.devices_of(process).flat_map(|device| {
            let opened = self.sync.fence_opens_of(device).map(|open| self.sync.open(open).fence);
            // One of them may be about to go.
            let progress = self.queues.of_device(device).map(|(_, queue)| queue.progress);
            let queues = &self.memory.paging_queues;
            let paging = queues.of_device(device).map(|queue| queues.fence_of(queue));
            opened.chain(progress).chain(paging)
        });
        fences.filter(|fence| self.sync.is_waited_native(*fence)).collect()
    }

    /// Native fences with waiters that have passed a waiter's value, and of which the driver has told nothing, with CurrentValue and
    /// MonitoredValue.
    pub fn unreported_fences(&self, cx: &Cx<'_>) -> Vec<UnreportedFence> {
        self.sync.unreported_fences(cx.memory)
    }

    fn process_of_queue(&self, queue: &Queue) -> ProcessId {
        self.owners.process_of(queue.device)
    }

    fn count_dispatch(&mut self, cx: &mut Cx<'_>, named: u32, looked_at: u32, released: u32) {
        self.tally.fence_interrupt(released);
        cx.emit(self.index, Event::FenceInterrupt { adapter: self.index.0, named, looked_at, released });
    }
}
