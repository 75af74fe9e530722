//! The two-word protocol of a native fence (sync §3.9).
//!
//! The signaller owns `CurrentValue`, the kernel `MonitoredValue`. A signaller stores its value and then reads MonitoredValue to see
//! whether a CPU waiter needs it; the kernel stores the value that its earliest waiter needs and then reads CurrentValue to see whether
//! it has come. With a full barrier between store and load on both sides at least one of them sees the other (each function issues the
//! full barrier that its caller brings, [`crate::Barrier`]):
//!
//! | signaller | kernel's side |
//! |---|---|
//! | store CurrentValue | store MonitoredValue |
//! | write the log entry | |
//! | full barrier | full barrier |
//! | load MonitoredValue | load CurrentValue |
//! | value > monitored: ask the context management processor, which looks again | interrupt iff current > monitored |
//!
//! Where MonitoredValue lies next to the engines (sync §1.4, "DEFAULT optimized") an engine's load of it does not cross the bus; the
//! order is the same, and so is what follows from it. When [`publish_monitored`] has returned, every signal that decided by an older
//! MonitoredValue had its value in CurrentValue before the load here: its load of MonitoredValue missed the store, so its barrier, and
//! the value before it, came before this barrier. Each signaller that stores CurrentValue afterwards reads the new MonitoredValue (sync
//! §3.9: the guarantee of UpdateMonitoredValues).

use crate::word::Word;

/// MonitoredValue while no CPU waiter is registered (sync §1.3): no value exceeds it.
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

/// The context management processor decides whether to interrupt: an engine asks it after its load of MonitoredValue has shown a waiter.
/// It decides by MonitoredValue as it is by now. If the kernel has raised MonitoredValue since, the kernel reads CurrentValue behind that
/// store.
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

/// Registers a parked waiter: stores the number of parked waiters, and then reads CurrentValue once more.
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

    #[test]
    fn a_waiter_sleeps_only_below_its_value_and_is_registered_before_it_looks() {
        // spec: sync §3.8
        for (value, may) in [(6, true), (7, false), (8, false)] {
            let (current, parked) = (AtomicU64::new(0), AtomicU64::new(0));
            // The signal comes behind the registration: the signaller finds it, and the waiter the value.
            let signalled = || {
                assert_eq!(Word::load(&parked), 3, "the count is there before the barrier");
                Word::store(&current, value);
            };
            assert_eq!(may_park(signalled, &current, &parked, 3, 7), may, "{value}");
            assert_eq!(Word::load(&parked), 3);
        }
    }
}
