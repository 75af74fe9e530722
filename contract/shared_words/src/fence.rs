//! The two-word protocol of a native fence (sync §3.9).
//!
//! `CurrentValue` is owned by whoever signals; `MonitoredValue` by the kernel. A signaller stores the value and then
//! asks whether somebody is waiting for it; the kernel stores what it waits for and then asks whether it has come.
//! With a full barrier between store and load on both sides at least one of them sees the other (each function is given the full barrier of
//! the caller's, [`crate::Barrier`]):
//!
//! | signaller | kernel's side |
//! |---|---|
//! | store CurrentValue | store MonitoredValue |
//! | write the log entry | |
//! | full barrier | full barrier |
//! | load MonitoredValue | load CurrentValue |
//! | value > monitored: ask the context management processor, which looks again | interrupt iff current > monitored |
//!
//! Where MonitoredValue lies next to the engines (sync §1.4, "DEFAULT optimized") it is the shadow of what the kernel waits for, and
//! the engine's question costs no way over the bus; the order is the same, and so is what follows from it. When
//! [`publish_monitored`] has returned, every signal that decided by an older MonitoredValue had its value in CurrentValue before
//! the load here: its load of MonitoredValue missed the store, so its barrier, and the value before it, came before this barrier.
//! So any CurrentValue that is read afterwards and is not the one found here was written by somebody who asks the new one
//! (sync §3.9: the guarantee of UpdateMonitoredValues).

use crate::word::Word;

/// MonitoredValue while nobody waits (sync §1.3): no value exceeds it.
pub const MONITORED_NONE: u64 = u64::MAX;

/// The signaller's side. Returns whether the signal must interrupt the CPU. `log` writes the queue's log entry and its
/// header, between the value and the barrier (sync §3.14).
// spec: sync §3.7, sync §3.9
#[must_use = "an interrupt that is not raised is a lost wake-up"]
pub fn signal(full: impl FnOnce(), current: &impl Word, monitored: &impl Word, value: u64, log: impl FnOnce()) -> bool {
    current.store(value);
    log();
    full();
    value > monitored.load()
}

/// The context management processor is asked by an engine whose look at MonitoredValue said that somebody waits: it decides, by
/// MonitoredValue as it is by now. One that has risen since was published by somebody who looks at CurrentValue behind it.
// spec: sync §3.9
#[must_use = "an interrupt that is not raised is a lost wake-up"]
pub fn still_exceeds(monitored: &impl Word, value: u64) -> bool {
    value > monitored.load()
}

/// The kernel's side: publishes what the earliest waiter needs. Returns whether CurrentValue had passed it already, in
/// which case the CPU must be interrupted (sync §3.9).
// spec: sync §3.9
#[must_use = "an interrupt that is not raised is a lost wake-up"]
pub fn publish_monitored(full: impl FnOnce(), current: &impl Word, monitored: &impl Word, value: u64) -> bool {
    monitored.store(value);
    full();
    current.load() > value
}

/// Registers a parked waiter: publishes that somebody sleeps, and then looks once more whether the value has come.
/// Returns whether the waiter may sleep (sync §3.8: register, barrier, re-read, then sleep).
// spec: sync §3.8
#[must_use = "a waiter that sleeps although its value has come is lost"]
pub fn may_park(full: impl FnOnce(), current: &impl Word, parked: &impl Word, parked_count: u64, wanted: u64) -> bool {
    parked.store(parked_count);
    full();
    current.load() < wanted
}

#[cfg(test)]
mod litmus;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::{Barrier, HardwareBarrier};
    use std::sync::atomic::AtomicU64;

    #[test]
    fn the_worked_example_of_the_article() {
        // spec: sync §1.3
        // seed: N16, N17
        let (current, monitored) = (AtomicU64::new(41), AtomicU64::new(41));
        assert!(!signal(HardwareBarrier::full, &current, &monitored, 41, || ()), "41 is not above 41");
        assert!(!still_exceeds(&monitored, 41) && still_exceeds(&monitored, 42));
        assert!(signal(HardwareBarrier::full, &current, &monitored, 42, || ()), "42 > 41");
        assert!(!publish_monitored(HardwareBarrier::full, &current, &monitored, 42), "waiter 43 is the earliest now");
        assert!(signal(HardwareBarrier::full, &current, &monitored, 43, || ()), "43 > 42");
        assert!(!publish_monitored(HardwareBarrier::full, &current, &monitored, MONITORED_NONE));
        assert!(!signal(HardwareBarrier::full, &current, &monitored, 44, || ()), "no CPU waiter needs the value");
    }

    #[test]
    fn a_value_that_came_before_the_waiter_interrupts_at_the_update() {
        // spec: sync §3.9
        let (current, monitored) = (AtomicU64::new(0), AtomicU64::new(MONITORED_NONE));
        assert!(!signal(HardwareBarrier::full, &current, &monitored, 5, || ()));
        assert!(publish_monitored(HardwareBarrier::full, &current, &monitored, 4));
    }
}
