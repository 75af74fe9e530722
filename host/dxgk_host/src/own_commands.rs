//! The commands that engines begin for each process that asks, by kind: a probe on each device sees the commands, and the kernel's events say
//! whose they are. `whose` brings the two together. Called by `host`, which puts the probe in and asks for the counts.
//!
//! # The law of this module
//! - A process gets the counts of its own queues and contexts: of no other's, and not of the kernel's own work.
//! - As long as no process asks, no probe of this module looks, and the engines run as without one.
//! - What a process has seen of its work is counted when it asks: the devices settle first.

mod whose;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use device_port::{Observation, Probe, Unit};
use events::Event;
use kmt_link::{CommandUses, OwnCommands};
use softgpu::SoftGpu;
use wddm_types::{AdapterIndex, ProcessId};

use crate::host::lock;
use crate::own_commands::whose::Adapter;

/// The counts of all processes that asked.
#[derive(Default)]
pub(crate) struct Commands {
    /// How many there are: looked at with each event and each command.
    asking: AtomicUsize,
    /// Held while the probes are switched, around the engines' locks; those are held around the state's.
    switch: Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    processes: BTreeMap<u32, Counts>,
    adapters: BTreeMap<u32, Adapter>,
}

/// Commands by kind.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    total: u64,
    kinds: BTreeMap<&'static str, Uses>,
}

/// Commands of one kind.
#[derive(Debug, Default, PartialEq, Eq)]
struct Uses {
    done: u64,
    failed: u64,
    /// The number of the first.
    first: u64,
    /// Its time, by the clock of its adapter's device.
    first_at: (u32, u64),
    why: String,
}

/// A command that a device has told of.
#[derive(Clone, Debug)]
struct Seen {
    kind: &'static str,
    /// Why it faulted.
    fault: Option<String>,
    adapter: u32,
    at_ns: u64,
}

/// The probe on a device: this module's, and the one that the configuration has.
struct Clip {
    commands: Arc<Commands>,
    adapter: u32,
    rest: Option<Arc<dyn Probe>>,
}

impl Commands {
    /// The probe for the device of an adapter.
    pub fn before(self: &Arc<Commands>, adapter: usize, rest: Option<Arc<dyn Probe>>) -> Arc<dyn Probe> {
        // CAST: a host has at most 64 adapters.
        let adapter = adapter as u32;
        lock(&self.state).adapters.insert(adapter, Adapter::new(rest.is_some()));
        Arc::new(Clip { commands: Arc::clone(self), adapter, rest })
    }

    /// The counts of a process; the first question of a process begins them.
    pub fn of(&self, process: ProcessId, devices: &[Arc<SoftGpu>]) -> OwnCommands {
        if self.begins(process) {
            self.switch(devices);
            return OwnCommands::default();
        }
        devices.iter().for_each(|device| device.settle());
        let state = lock(&self.state);
        let Some(counts) = state.processes.get(&process.0) else { return OwnCommands::default() };
        let age = |(adapter, at): (u32, u64)| devices[adapter as usize].now().saturating_sub(at);
        let kinds = counts.kinds.iter().map(|(kind, uses)| CommandUses {
            kind: (*kind).to_owned(),
            done: uses.done,
            failed: uses.failed,
            first: uses.first,
            first_age_ns: age(uses.first_at),
            why: uses.why.clone(),
        });
        OwnCommands { kinds: kinds.collect() }
    }

    /// A process has gone, and its counts with it.
    pub fn process_gone(&self, process: ProcessId, devices: &[Arc<SoftGpu>]) {
        if self.asking.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = lock(&self.state);
        if state.processes.remove(&process.0).is_none() {
            return;
        }
        state.adapters.values_mut().for_each(|adapter| adapter.forget(process.0));
        self.asking.store(state.processes.len(), Ordering::Release);
        drop(state);
        self.switch(devices);
    }

    /// Whether this is the process's first question.
    fn begins(&self, process: ProcessId) -> bool {
        let mut state = lock(&self.state);
        if state.processes.contains_key(&process.0) {
            return false;
        }
        if state.processes.is_empty() {
            // Nothing was heard since the last process that asked has gone.
            state.adapters.values_mut().for_each(Adapter::begin);
        }
        state.processes.insert(process.0, Counts::default());
        self.asking.store(state.processes.len(), Ordering::Release);
        true
    }

    /// The probes look as long as a process asks, or the configuration has one of its own.
    fn switch(&self, devices: &[Arc<SoftGpu>]) {
        let _switching = lock(&self.switch);
        let looks: Vec<bool> = {
            let state = lock(&self.state);
            let asked = !state.processes.is_empty();
            state.adapters.values().map(|adapter| asked || adapter.has_probe).collect()
        };
        devices.iter().zip(looks).for_each(|(device, looks)| device.set_probed(looks));
    }

    /// Hears the kernel.
    pub fn hear(&self, adapter: AdapterIndex, event: &Event) {
        if self.asking.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = lock(&self.state);
        let State { processes, adapters } = &mut *state;
        if let Some(adapter) = adapters.get_mut(&adapter.0) {
            let found = adapter.hear(event, |process| processes.contains_key(&process));
            if let Some((process, counts)) = found
                && let Some(all) = processes.get_mut(&process)
            {
                all.join(counts);
            }
        }
    }

    fn see(&self, adapter: u32, at_ns: u64, what: &Observation) {
        if self.asking.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = lock(&self.state);
        let State { processes, adapters } = &mut *state;
        let Some(known) = adapters.get_mut(&adapter) else { return };
        let (queue, kind, fault) = match *what {
            Observation::Attached { queue, owner } => return known.attached(queue, owner),
            Observation::Buffer { engine, queue, value } => return known.buffer(engine, queue, value),
            Observation::Begin { queue, kind, .. } => (queue, kind, None),
            Observation::Signal { queue, .. } => (queue, "signal", None),
            Observation::WaitEnd { queue, .. } => (queue, "wait", None),
            Observation::Fault { queue, va, cause } => (queue, "fault", Some(format!("{cause}: {va:#x}"))),
            Observation::End { .. } | Observation::Asked { .. } | Observation::WaitBegin { .. } => return,
        };
        let seen = Seen { kind, fault, adapter, at_ns };
        if let Some((process, seen)) = known.command(queue, seen)
            && let Some(counts) = processes.get_mut(&process)
        {
            counts.add(seen);
        }
    }
}

impl Counts {
    fn add(&mut self, seen: Seen) {
        self.total += 1;
        let fresh = Uses { first: self.total, first_at: (seen.adapter, seen.at_ns), ..Uses::default() };
        let uses = self.kinds.entry(seen.kind).or_insert(fresh);
        match seen.fault {
            None => uses.done += 1,
            Some(why) => {
                uses.failed += 1;
                if uses.why.is_empty() {
                    uses.why = why;
                }
            }
        }
    }

    /// Takes later commands to these.
    fn join(&mut self, later: Counts) {
        for (kind, uses) in later.kinds {
            let fresh = Uses { first: self.total + uses.first, first_at: uses.first_at, ..Uses::default() };
            let ours = self.kinds.entry(kind).or_insert(fresh);
            (ours.done, ours.failed) = (ours.done + uses.done, ours.failed + uses.failed);
            if ours.why.is_empty() {
                ours.why = uses.why;
            }
        }
        self.total += later.total;
    }
}

impl Probe for Clip {
    fn observe(&self, at_ns: u64, what: Observation) {
        self.commands.see(self.adapter, at_ns, &what);
        if let Some(rest) = &self.rest {
            rest.observe(at_ns, what);
        }
    }

    fn looks_at_once(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.looks_at_once())
    }

    fn buffers_stores(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.buffers_stores())
    }

    fn stored(&self, unit: Unit, bus: Option<u64>, value: u64) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.stored(unit, bus, value))
    }
}

#[cfg(test)]
mod tests;
