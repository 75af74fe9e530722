//! The device's time. Virtual until its threads first run: then the last tick's. Real from then on: nanoseconds that go
//! on from the virtual ones. Read by timestamps, logs, probes and the TIMESTAMP register.
//!
//! In real time a look at it takes longer than a signal: up to eight entries of signals that stand behind each other in a ring have the time of
//! one look (module `execute::run`). All of them were announced before the look, wait for nothing, and stand in front of the next signal that
//! tells a waiter: no time of an entry is before its signal was announced, or before an interrupt or a wake-up that the signal followed. But
//! the look lies before the signals that it serves, and as long before them as the host keeps the engine from its processor: another engine
//! can have found a value missing after the time that the value's entry has.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub(crate) struct Clock {
    /// Virtual time; owned by the thread that ticks. The base of real time.
    ticked: AtomicU64,
    started: OnceLock<Instant>,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { ticked: AtomicU64::new(0), started: OnceLock::new() }
    }

    pub(crate) fn now(&self) -> u64 {
        let ticked = self.ticked.load(Ordering::Relaxed);
        match self.started.get() {
            // CAST: 584 years of nanoseconds fit.
            Some(started) => ticked.saturating_add(started.elapsed().as_nanos() as u64),
            None => ticked,
        }
    }

    /// Moves virtual time forward; never back.
    pub(crate) fn set(&self, now: u64) {
        self.ticked.fetch_max(now, Ordering::Relaxed);
    }

    /// Real time from here on.
    pub(crate) fn start(&self) {
        self.started.get_or_init(Instant::now);
    }

    pub(crate) fn is_real(&self) -> bool {
        self.started.get().is_some()
    }
}
