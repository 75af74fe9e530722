//! Interrupt 19: an engine has signalled native fences somebody waits for (sync §3.10, §3.15).
//!
//! | cap bit 12 | the interrupt names | looked at |
//! |---|---|---|
//! | 0 | fences | these; then the logs of their devices' queues tell which queue it was, and when |
//! | 0 | none | all native fences with waiters; likewise |
//! | 1 | queues | what their logs have new says which fences have come to which values: those are not read |
//! | 1 | none | the logs of all queues of the engine |
//!
//! With the cap three things are looked at as if there were no logs: fences that several processes share, for a log is its process's
//! word; all fences of a device some of whose entries were lost; and those of a device with a queue that has no log.

use std::collections::{BTreeMap, BTreeSet};

use ddi::{KmdQueue, OsGlobalFence};
use events::Event;
use gpu_fence::FenceKind;
use wddm_types::NodeId;

use super::News;
use crate::adapter::Adapter;
use crate::fence_log::Names;
use crate::interrupt::NativeSignals;
use crate::machine::Cx;
use crate::object::Queue;

/// Whose logs are read, and what is looked at because it has none.
#[derive(Default)]
struct Scope {
    /// Queues with logs, by their numbers.
    logged: Vec<u64>,
    /// Devices whose fences are looked at.
    devices: BTreeSet<u64>,
    /// All fences are.
    everything: bool,
}

impl Adapter {
    /// Interrupt 19.
    // spec: sync §3.10, sync §6 C11
    pub fn native_fences_signaled(&mut self, cx: &mut Cx<'_>, names: &Names<'_>, signals: &NativeSignals) {
        if self.caps.optimized_native_fence_interrupt {
            self.queues_signaled(cx, names, signals.node, &signals.queues);
        } else if signals.fences.is_empty() {
            self.any_fence_signaled(cx, names);
        } else {
            self.fences_signaled(cx, names, &signals.fences);
        }
    }

    /// Exactly these fences are looked at. A name that is no fence of this adapter is a bug check: the adapter stops.
    // spec: sync §3.10, sync §6 B18
    fn fences_signaled(&mut self, cx: &mut Cx<'_>, names: &Names<'_>, named: &[OsGlobalFence]) {
        // What nobody has open is destroyed for the driver, also while a name keeps it.
        let dead = |fence: &&OsGlobalFence| self.fences.get(fence.0).is_none_or(|fence| fence.opens.is_empty());
        if let Some(fence) = named.iter().find(dead) {
            self.stop(cx, format!("an interrupt named fence {}, which is destroyed", fence.0));
            return;
        }
        let numbers: Vec<u64> = named.iter().map(|fence| fence.0).collect();
        numbers.iter().for_each(|fence| self.tell_others(*fence, News::Signaled));
        let devices = self.devices_of(&numbers);
        let released = self.sample_fences(cx, &numbers);
        // CAST: a driver names at most the records of one routine.
        self.count_dispatch(cx, named.len() as u32, released);
        self.find_signallers(cx, names, &devices);
    }

    /// The driver could not tell: every native fence with waiters is looked at.
    // spec: sync §3.10, sync §6 B17
    fn any_fence_signaled(&mut self, cx: &mut Cx<'_>, names: &Names<'_>) {
        let numbers = self.waited_native_fences();
        let devices = self.devices_of(&numbers);
        let released = self.sample_fences(cx, &numbers);
        self.tell_others_of_any(true, |_, _| true);
        self.count_dispatch(cx, 0, released);
        self.find_signallers(cx, names, &devices);
    }

    /// Which queue signalled, and when: the logs of all queues of these devices tell. Their waiters are released already.
    // spec: sync §3.10, sync §3.14
    fn find_signallers(&mut self, cx: &mut Cx<'_>, names: &Names<'_>, devices: &BTreeSet<u64>) {
        let queues: Vec<u64> =
            self.queues.iter().filter(|(_, queue)| devices.contains(&queue.device)).map(|(number, _)| number).collect();
        let news = self.read_logs(cx, names, &queues);
        self.look_at_devices(cx, &news.incomplete);
    }

    /// The logs of these queues say what has been signalled; of none, those of the engine's.
    // spec: sync §3.15, sync §6 C9, sync §6 C10, sync §6 C12
    fn queues_signaled(&mut self, cx: &mut Cx<'_>, names: &Names<'_>, node: NodeId, named: &[KmdQueue]) {
        self.tell_others_of_queues(node, named);
        let mut scope = if named.is_empty() { self.scope_of_node(node) } else { self.scope_of(named) };
        let news = self.read_logs(cx, names, &scope.logged);
        scope.devices.extend(news.incomplete);
        // A queue that was named and has logged nothing new signals without a log, or was read before: its fences are looked at.
        let silent = scope.logged.iter().filter(|queue| !news.spoken.contains(queue));
        if !named.is_empty() {
            scope.devices.extend(silent.map(|queue| self.queues[*queue].device));
        }
        scope.everything |= named.is_empty() && news.spoken.is_empty();
        let of_one_process = |point: &(u64, u64)| !self.fences[point.0].is_shareable();
        let (own, shared): (Vec<_>, Vec<_>) = news.signalled.into_iter().partition(of_one_process);
        let shared: BTreeSet<u64> = shared.into_iter().map(|(fence, _)| fence).collect();
        let mut released = self.reach_fences(cx, &own);
        released += self.sample_fences(cx, &Vec::from_iter(shared));
        released += match scope.everything {
            true => self.sample_fences(cx, &self.waited_native_fences()),
            false => self.look_at_devices(cx, &scope.devices),
        };
        // CAST: a driver names at most the queues of its device.
        self.count_dispatch(cx, named.len() as u32, released);
    }

    /// Other adapters are told of every fence that these queues, or those of the engine, may have signalled: a log is its process's word,
    /// and others wait for more than that.
    // spec: sync §3.12, sync §6 C10
    fn tell_others_of_queues(&mut self, node: NodeId, named: &[KmdQueue]) {
        let meant = |queue: &Queue| match named.is_empty() {
            true => self.contexts[queue.context].node == node,
            false => named.contains(&queue.kmd),
        };
        let devices: BTreeSet<u64> =
            self.queues.iter().filter(|(_, queue)| meant(queue)).map(|(_, queue)| queue.device).collect();
        self.tell_others_of_any(true, |adapter, number| {
            let opens = adapter.fences[number].opens.iter();
            opens.filter_map(|open| adapter.fence_opens[*open].device).any(|device| devices.contains(&device))
        });
    }

    fn scope_of(&self, named: &[KmdQueue]) -> Scope {
        let mut scope = Scope::default();
        for kmd in named {
            match self.queues.iter().find(|(_, queue)| queue.kmd == *kmd) {
                Some((number, queue)) if queue.logs.is_some() => scope.logged.push(number),
                Some((_, queue)) => drop(scope.devices.insert(queue.device)),
                // The paging queue signals fences of every device; and so may a queue that has just gone.
                None => scope.everything = true,
            }
        }
        scope
    }

    fn scope_of_node(&self, node: NodeId) -> Scope {
        let mut scope = Scope { everything: self.reported.paging_node == node.0, ..Scope::default() };
        for (number, queue) in self.queues.iter().filter(|(_, queue)| self.contexts[queue.context].node == node) {
            match queue.logs {
                Some(_) => scope.logged.push(number),
                None => drop(scope.devices.insert(queue.device)),
            }
        }
        scope
    }

    /// Ends the waits that these values satisfy; the fences are not read for it, but once more behind an update of what is monitored.
    // spec: sync §3.15, sync §3.9
    fn reach_fences(&mut self, cx: &mut Cx<'_>, points: &[(u64, u64)]) -> u32 {
        let (mut count, mut updates) = (0, BTreeMap::new());
        for &(number, value) in points {
            if !self.fences[number].slot.on_cpu() {
                continue;
            }
            let sampled = self.waits.sample(self.fences[number].waits, value);
            // CAST: waits are bounded by calls in flight.
            count += sampled.released.len() as u32;
            self.release(cx, sampled.released);
            updates.extend(sampled.updates.into_iter().map(|update| (update.fence, update)));
        }
        count + self.publish(cx, updates.into_values().collect())
    }

    /// Looks at all fences of devices that somebody waits for.
    // spec: sync §3.14 (overrun), sync §3.15
    pub fn look_at_devices(&mut self, cx: &mut Cx<'_>, devices: &BTreeSet<u64>) -> u32 {
        if devices.is_empty() {
            return 0;
        }
        let theirs = |number: &u64| {
            let opens = self.fences[*number].opens.iter();
            opens.filter_map(|open| self.fence_opens[*open].device).any(|device| devices.contains(&device))
        };
        let numbers: Vec<u64> = self.waited_native_fences().into_iter().filter(theirs).collect();
        self.sample_fences(cx, &numbers)
    }

    fn waited_native_fences(&self) -> Vec<u64> {
        let native = |fence: &gpu_fence::FenceId| self.waits.kind(*fence) != FenceKind::Monitored;
        let waited = self.waits.with_waiters().filter(native);
        waited.filter_map(|fence| self.fence_numbers.get(&fence).copied()).collect()
    }

    /// Native fences that have come to what somebody waits for while he waits on, with CurrentValue and MonitoredValue. When nothing is
    /// under way any more and no interrupt is to come, their driver has neither named them nor said that it does not know.
    // spec: sync §3.10
    pub fn unreported_fences(&self) -> Vec<(u64, u64, u64)> {
        let passed = |number: u64| {
            let fence = &self.fences[number];
            let follows = self.waits.kind(fence.waits) == FenceKind::Native && fence.slot.on_cpu();
            let (current, monitored) = (self.current_value(number), self.waits.monitored_value(fence.waits));
            (follows && current > monitored).then_some((number, current, monitored))
        };
        self.waited_native_fences().into_iter().filter_map(passed).collect()
    }

    fn devices_of(&self, fences: &[u64]) -> BTreeSet<u64> {
        let opens = fences.iter().flat_map(|fence| &self.fences[*fence].opens);
        opens.filter_map(|open| self.fence_opens[*open].device).collect()
    }

    fn count_dispatch(&mut self, cx: &mut Cx<'_>, named: u32, released: u32) {
        self.counters.interrupt_dispatches += 1;
        self.counters.dispatches_releasing += u64::from(released > 0);
        cx.emit(self.index, Event::FenceInterrupt { adapter: self.index.0, named, released });
    }
}
