//! How long a driver keeps the kernel (sync §4.4, TdrDdiDelay). A turn of the machine knows one time; a clock from outside tells how much
//! passes during a driver's call. The kernel reads it whenever it enters the driver and when the turn is over: a call counts until the
//! next one, with the kernel's own work in between, which is nothing beside the seconds that matter here.
//!
//! The kernel cannot interrupt a driver's call. So it finds a call that takes too long when that comes back; a call that never does keeps
//! the machine, and every adapter of it, because the machine is one.

use crate::platform::DriverClock;

/// A call that took longer than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateCall {
    /// The facet that was called.
    pub call: &'static str,
    /// How long it took.
    pub took_ns: u64,
}

/// Measures a driver's calls.
pub struct Watch {
    /// A call may take so long; `None`: the kernel measures none.
    delay_ns: Option<u64>,
    entered: Option<(&'static str, u64)>,
    late: Option<LateCall>,
}

impl Watch {
    /// A watch over calls that may take so long each.
    pub fn new(delay_ns: Option<u64>) -> Watch {
        Watch { delay_ns, entered: None, late: None }
    }

    /// The driver is about to be asked.
    pub fn enters(&mut self, clock: Option<&dyn DriverClock>, call: &'static str) {
        self.goes_on(clock, Some(call));
    }

    /// The driver has answered. Returns the longest of the calls that took too long.
    pub fn leaves(&mut self, clock: Option<&dyn DriverClock>) -> Option<LateCall> {
        self.goes_on(clock, None);
        self.late.take()
    }

    fn goes_on(&mut self, clock: Option<&dyn DriverClock>, next: Option<&'static str>) {
        let (Some(clock), Some(delay_ns)) = (clock, self.delay_ns) else { return };
        let now_ns = clock.now_ns();
        if let Some((call, since_ns)) = self.entered.take() {
            let took_ns = now_ns.saturating_sub(since_ns);
            let longest = self.late.map_or(delay_ns, |late| late.took_ns);
            if took_ns > longest {
                self.late = Some(LateCall { call, took_ns });
            }
        }
        self.entered = next.map(|call| (call, now_ns));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug)]
    struct Hand(AtomicU64);

    impl DriverClock for Hand {
        fn now_ns(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_longest_of_those_that_took_too_long_is_told_once() {
        // spec: sync §4.4
        let hand = Hand(AtomicU64::new(0));
        let clock = Some(&hand as &dyn DriverClock);
        let mut watch = Watch::new(Some(10));
        let pass = |ns| {
            hand.0.fetch_add(ns, Ordering::Relaxed);
        };
        for (call, ns) in [("short", 10), ("long", 30), ("less long", 20), ("short", 1)] {
            watch.enters(clock, call);
            pass(ns);
        }
        assert_eq!(watch.leaves(clock), Some(LateCall { call: "long", took_ns: 30 }));
        // Between two turns it is nowhere.
        pass(100);
        watch.enters(clock, "short");
        assert_eq!(watch.leaves(clock), None);
    }
}
