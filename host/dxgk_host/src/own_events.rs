//! The kernel's events about one process, for that process: a client that asks gets a ring of its own, which the tracer fills and the client
//! drains. `whose` says which events concern which process; this module keeps the rings. Called by `host`, and by a daemon through
//! [`Host::own_events`](crate::Host::own_events).
//!
//! # The law of this module
//! - A process gets the events that name it, or an object that it created or opened, and the facts of adapters that every process may ask for.
//!   Numbers and bytes of other processes within such an event are 0.
//! - A full ring takes nothing more and counts what it lost: the kernel waits for no client, and a client that never drains has spent its own
//!   ring's bytes.
//! - As long as no process asks, an event costs one look at a number.
//! - Draining takes the lock of the rings, never the kernel's.

mod whose;

use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use events::{Event, Tracer};
use kmt_link::{OwnEvent, OwnEvents};
use wddm_types::{AdapterIndex, ProcessId};

use crate::host::lock;
use crate::own_commands::Commands;
use crate::own_events::whose::Owners;

/// Bytes of a ring, with what its events hold. [R]
const RING_BYTES: usize = 4 << 20;
/// An event that takes more is lost: a message could not carry it.
const EVENT_BYTES: usize = 1 << 20;
/// Most bytes of events that one look takes along, but for the last of them: far below what a message holds.
const LOOK_BYTES: usize = 256 << 10;

/// The rings of all processes that asked.
#[derive(Default)]
pub(crate) struct Rings {
    /// How many there are: looked at with each event.
    count: AtomicUsize,
    state: Mutex<RingsState>,
}

#[derive(Default)]
struct RingsState {
    /// What each adapter is: told to each process that asks, however late.
    facts: Vec<OwnEvent>,
    rings: BTreeMap<u32, Ring>,
    owners: Owners,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<OwnEvent>,
    bytes: usize,
    lost: u64,
}

/// Hears the kernel for the rings, for the counts of commands, and for the listener that the host was given.
pub(crate) struct Heard {
    rings: Arc<Rings>,
    commands: Arc<Commands>,
    rest: Box<dyn Tracer + Send>,
}

impl Heard {
    pub fn new(rings: &Arc<Rings>, commands: &Arc<Commands>, rest: Box<dyn Tracer + Send>) -> Heard {
        Heard { rings: Arc::clone(rings), commands: Arc::clone(commands), rest }
    }
}

impl Rings {
    /// Takes events of a process's ring, the oldest first; the first look of a process makes its ring.
    pub fn take(&self, process: ProcessId) -> OwnEvents {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let Some(ring) = state.rings.get_mut(&process.0) else {
            state.rings.insert(process.0, Ring::default());
            self.count.store(state.rings.len(), Ordering::Release);
            return OwnEvents { events: state.facts.clone(), lost: 0, more: false };
        };
        let (mut events, mut bytes) = (Vec::new(), 0);
        while bytes < LOOK_BYTES
            && let Some(event) = ring.events.pop_front()
        {
            bytes += cost(&event.event);
            events.push(event);
        }
        ring.bytes -= bytes;
        OwnEvents { events, lost: std::mem::take(&mut ring.lost), more: !ring.events.is_empty() }
    }

    /// A process has gone, and its ring with it.
    pub fn process_gone(&self, process: ProcessId) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = lock(&self.state);
        state.rings.remove(&process.0);
        state.owners.forget(process.0);
        self.count.store(state.rings.len(), Ordering::Release);
    }

    fn hear(&self, adapter: Option<AdapterIndex>, now_ns: u64, event: &Event) {
        let is_fact = matches!(event, Event::AdapterStarted { .. } | Event::SegmentAdded { .. });
        if !is_fact && self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = lock(&self.state);
        let RingsState { facts, rings, owners } = &mut *state;
        let adapter = adapter.map(|adapter| adapter.0);
        if is_fact {
            let fact = OwnEvent { adapter, now_ns, event: event.clone() };
            rings.values_mut().for_each(|ring| ring.push(|| fact.clone(), cost(event)));
            facts.push(fact);
            return;
        }
        let asks = |process| rings.contains_key(&process);
        let processes = owners.hear(adapter, event, asks);
        for process in processes {
            let Some(ring) = rings.get_mut(&process) else { continue };
            ring.push(|| OwnEvent { adapter, now_ns, event: owners.as_seen_by(process, adapter, event) }, cost(event));
        }
        owners.ended(adapter, event);
    }
}

impl Ring {
    fn push(&mut self, event: impl FnOnce() -> OwnEvent, cost: usize) {
        if cost > EVENT_BYTES || self.bytes + cost > RING_BYTES {
            self.lost += 1;
            return;
        }
        self.bytes += cost;
        self.events.push_back(event());
    }
}

/// What an event takes in a ring.
fn cost(event: &Event) -> usize {
    let held = match event {
        Event::Moved { runs, .. } => size_of_val(&runs[..]),
        Event::AdapterStarted { name: text, .. }
        | Event::DeviceInError { reason: text, .. }
        | Event::SubmissionRejected { reason: text, .. } => text.len(),
        Event::CallRefused { call, reason, .. } => call.len() + reason.len(),
        _ => 0,
    };
    size_of::<OwnEvent>() + held
}

impl Tracer for Heard {
    fn event(&mut self, now_ns: u64, event: &Event) {
        self.rings.hear(None, now_ns, event);
        self.rest.event(now_ns, event);
    }

    fn event_of(&mut self, adapter: AdapterIndex, now_ns: u64, event: &Event) {
        self.rings.hear(Some(adapter), now_ns, event);
        self.commands.hear(adapter, event);
        self.rest.event_of(adapter, now_ns, event);
    }
}

#[cfg(test)]
mod tests;
