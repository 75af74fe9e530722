//! Failures on demand: calls that are refused and devices that misbehave, so that a driver's rollback paths can be tried in its own CI.
//! `plan` reads the text, `calls` lists the calls that may fail, `port` stands between a driver and a device that hangs, goes or loses
//! interrupts. Called by `Host`, where both ways to a kernel end: `libopenwddm` and the Rust client in this process, and the daemon.
//!
//! # Law of this boundary
//! - A call that is made to fail never reaches the kernel. The kernel checks a call whole before it changes anything, and a refusal for
//!   which the caller or scarcity is to blame leaves nothing changed; so the state is that of a real failure of this status.
//! - Statuses that a real kernel gives with a change of state (a lost device) are no fault of a call: `device=remove` and `engine N=hang`
//!   bring them about, and the kernel gives them itself.
//! - Calls that give something back (destroy, close, unlock, evict, free) are not made to fail: a kernel refuses a sound one of them never,
//!   and a program could not roll it back. `calls` has the other kinds that are left out.
//! - A device's faults are faults of the silicon, behind the driver's port. Kernel and driver run as they are, and recover as documented;
//!   for that the kernel watches for hangs, also where the host's configuration has switched the watch off.
//! - Faults follow from the text, the seed and the order of calls and records alone. Without faults a call costs one branch.
//! - The mutex of this room is a leaf: nothing is called under it.

mod calls;
mod plan;
mod port;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use device_port::DevicePort;
use dxgkrnl::RecoveryPolicy;
use kmt_calls::Refusal;
use wddm_types::{Blame, NtStatus};

pub use self::calls::CALLS;
use self::plan::{Clause, Event, Often, When};
pub use self::plan::{FaultPlan, PlanError, statuses};
use self::port::FaultyPort;
use crate::config::AdapterSetup;
use crate::host::lock;

/// The faults of one kernel, while it runs.
pub(crate) struct Faults {
    seed: u64,
    delay_ns: Option<u64>,
    state: Mutex<FaultState>,
    /// An event waits for its time.
    timed: AtomicBool,
    port: Mutex<Option<Arc<FaultyPort>>>,
}

struct FaultState {
    /// Each with how often its call has come.
    refused: Vec<(plan::RefusedCall, u64)>,
    /// Those that have not happened yet.
    events: Vec<(When, Event)>,
    /// Interrupts to be lost: so many of so many, and how many have come.
    drops: Option<(u64, u64, u64)>,
    /// Calls until now.
    calls: u64,
}

impl Faults {
    /// The faults of a plan, before the device of the first adapter.
    pub(crate) fn before(adapters: &mut [AdapterSetup], plan: &FaultPlan) -> Arc<Faults> {
        let faults = Faults::new(plan);
        if let Some(first) = adapters.first_mut() {
            faults.put_into(first);
        }
        faults
    }

    fn new(plan: &FaultPlan) -> Arc<Faults> {
        let mut state = FaultState { refused: Vec::new(), events: Vec::new(), drops: None, calls: 0 };
        let (mut seed, mut delay_ns) = (0, None);
        for clause in plan.clauses() {
            match clause {
                Clause::Refused(call) => state.refused.push((*call, 0)),
                Clause::Device(event, when) => state.events.push((*when, *event)),
                Clause::Drop { lost, of } => state.drops = Some((*lost, *of, 0)),
                Clause::Seed(number) => seed = *number,
                Clause::Watch { delay_ns: ns } => delay_ns = Some(*ns),
            }
        }
        let timed = AtomicBool::new(state.events.iter().any(|(when, _)| matches!(when, When::Time { .. })));
        Arc::new(Faults { seed, delay_ns, state: Mutex::new(state), timed, port: Mutex::default() })
    }

    /// Puts the faulty port before an adapter's device, and has the kernel watch for hangs, also where
    /// the host has switched the watch off: a device that misbehaves is not noticed else.
    fn put_into(self: &Arc<Faults>, setup: &mut AdapterSetup) {
        let has_device_faults = {
            let state = lock(&self.state);
            !state.events.is_empty() || state.drops.is_some()
        };
        if let Some(delay_ns) = self.delay_ns {
            setup.recovery.delay_ns = Some(delay_ns);
        } else if has_device_faults {
            setup.recovery.delay_ns = setup.recovery.delay_ns.or(RecoveryPolicy::default().delay_ns);
        }
        if !has_device_faults {
            return;
        }
        let (faults, wrapped) = (Arc::clone(self), setup.wrap_port.take());
        setup.wrap_port = Some(Box::new(move |device| {
            let device = match wrapped {
                Some(wrap) => wrap(device),
                None => device,
            };
            let port = Arc::new(FaultyPort::new(device, Arc::downgrade(&faults)));
            *lock(&faults.port) = Some(Arc::clone(&port));
            port as Arc<dyn DevicePort>
        }));
    }

    /// A call comes: what it is refused with, if it is made to fail.
    pub(crate) fn refuses(&self, name: &'static str, now_ns: u64) -> Option<Refusal> {
        let refusal = {
            let mut state = lock(&self.state);
            state.calls += 1;
            state.refusal(self.seed, name)
        };
        self.happen(now_ns);
        refusal
    }

    /// Whether the next fence record is lost.
    fn drops_record(&self) -> bool {
        let mut state = lock(&self.state);
        let Some((lost, of, seen)) = &mut state.drops else { return false };
        *seen += 1;
        drawn(self.seed, u64::MAX, *seen) % *of < *lost
    }

    /// Whether an event waits for its time.
    fn has_timed(&self) -> bool {
        self.timed.load(Ordering::Relaxed)
    }

    /// Lets those events happen that are due.
    fn happen(&self, now_ns: u64) {
        let due: Vec<Event> = {
            let mut state = lock(&self.state);
            // The adapter starts sound: no fault comes before the first call of a process.
            if state.events.is_empty() || state.calls == 0 {
                return;
            }
            let calls = state.calls;
            let is_due = |when: &When| match *when {
                When::Time { ns } => now_ns >= ns,
                When::Call { number } => calls >= number,
            };
            let due = state.events.iter().filter(|(when, _)| is_due(when)).map(|(_, event)| *event).collect();
            state.events.retain(|(when, _)| !is_due(when));
            let timed = state.events.iter().any(|(when, _)| matches!(when, When::Time { .. }));
            self.timed.store(timed, Ordering::Relaxed);
            due
        };
        if due.is_empty() {
            return;
        }
        let port = lock(&self.port).clone();
        for event in due {
            match (&port, event) {
                (Some(port), Event::Hang { engine }) => port.hang(engine),
                (Some(port), Event::Remove) => port.remove(),
                (None, _) => {}
            }
        }
    }
}

impl FaultState {
    fn refusal(&mut self, seed: u64, name: &'static str) -> Option<Refusal> {
        let mut refusal = None;
        // Each clause counts each call of its name, whichever clause refuses it.
        for (clause, (call, seen)) in (0..).zip(&mut self.refused) {
            if call.name != name {
                continue;
            }
            *seen += 1;
            let fails = match call.often {
                Often::Nth { number } => *seen == number,
                Often::Every { period } => seen.is_multiple_of(period),
                Often::Share { fail, of } => drawn(seed, clause, *seen) % of < fail,
            };
            if fails && refusal.is_none() {
                refusal = Some(Refusal {
                    status: call.status,
                    blame: blame(call.status),
                    reason: format!("a fault that was asked for: {name} number {seen}").into(),
                    bytes_to_trim: 0,
                });
            }
        }
        refusal
    }
}

/// The party that a kernel blames for a status; both leave nothing changed.
fn blame(status: NtStatus) -> Blame {
    let scarce = [
        NtStatus::NO_MEMORY,
        NtStatus::INSUFFICIENT_RESOURCES,
        NtStatus::COMMITMENT_LIMIT,
        NtStatus::GRAPHICS_NO_VIDEO_MEMORY,
    ];
    if scarce.contains(&status) { Blame::Scarcity } else { Blame::Caller }
}

/// A number that the seed, the clause and the count decide (the finaliser of SplitMix64).
fn drawn(seed: u64, clause: u64, count: u64) -> u64 {
    let mut mixed = seed ^ clause.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ count.wrapping_mul(0xd1b5_4a32_d192_ed03);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ mixed >> 30).wrapping_mul(factor);
    }
    mixed ^ mixed >> 31
}
