//! The interrupt lines between the devices and the dispatcher's thread, with the kernel's timer on them. A line carries one
//! bit and does not know its meaning. Used by `host`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use device_port::InterruptPin;

use crate::host::lock;

/// Most adapters of a host: each has a bit.
pub const LINES_MAX: usize = 64;

/// The interrupt lines between devices and dispatcher.
#[derive(Default)]
pub(crate) struct Line {
    /// A bit for each adapter.
    raised: AtomicU64,
    closed: AtomicBool,
    /// The timer's time has changed.
    rearmed: AtomicBool,
    sleeping: Mutex<()>,
    changed: Condvar,
}

impl Line {
    /// The adapters whose lines were up, a bit each; they are down now.
    pub(crate) fn take(&self) -> u64 {
        self.raised.swap(0, Ordering::AcqRel)
    }

    /// One adapter's end.
    pub(crate) fn pin(self: &Arc<Line>, adapter: usize) -> Arc<Pin> {
        assert!(adapter < LINES_MAX, "a host checks how many adapters it is asked for");
        Arc::new(Pin { line: Arc::clone(self), bit: 1 << adapter })
    }

    /// Ends all waits, and refuses new ones.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let _guard = lock(&self.sleeping);
        self.changed.notify_all();
    }

    /// The timer's time has changed.
    pub(crate) fn rearm(&self) {
        self.rearmed.store(true, Ordering::Release);
        let _guard = lock(&self.sleeping);
        self.changed.notify_one();
    }

    /// Blocks until a line is up, the timer is armed anew, or this time has passed; false when the lines are closed.
    pub(crate) fn wait(&self, longest: Option<Duration>) -> bool {
        let mut guard = lock(&self.sleeping);
        loop {
            if self.closed.load(Ordering::Acquire) {
                return false;
            }
            if self.raised.load(Ordering::Acquire) != 0 || self.rearmed.swap(false, Ordering::AcqRel) {
                return true;
            }
            match longest {
                None => guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(longest) => {
                    let waited = self.changed.wait_timeout(guard, longest);
                    let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    guard = woken;
                    if timeout.timed_out() {
                        return !self.closed.load(Ordering::Acquire);
                    }
                }
            }
        }
    }
}

/// Where one device's interrupt ends.
pub(crate) struct Pin {
    line: Arc<Line>,
    bit: u64,
}

impl InterruptPin for Pin {
    fn assert(&self) {
        // The bit is set before the mutex is taken, and the dispatcher looks at it under the mutex before it sleeps.
        if self.line.raised.fetch_or(self.bit, Ordering::AcqRel) & self.bit == 0 {
            let _guard = lock(&self.line.sleeping);
            self.line.changed.notify_one();
        }
    }
}
