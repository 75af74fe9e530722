//! The interrupt line between the device and the dispatcher's thread, with the kernel's timer on it. It carries one bit each
//! way and knows nothing of what they mean. Used by `host`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use device_port::InterruptPin;

use crate::host::lock;

/// The interrupt line between device and dispatcher.
#[derive(Default)]
pub(crate) struct Line {
    raised: AtomicBool,
    closed: AtomicBool,
    /// The timer's time has changed.
    rearmed: AtomicBool,
    sleeping: Mutex<()>,
    changed: Condvar,
}

impl Line {
    /// Whether the line was up; it is down now.
    pub(crate) fn take(&self) -> bool {
        self.raised.swap(false, Ordering::AcqRel)
    }

    /// Nobody waits any more.
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

    /// Blocks until the line is up, the timer is armed anew, or this time has passed; false when the line is closed.
    pub(crate) fn wait(&self, longest: Option<Duration>) -> bool {
        let mut guard = lock(&self.sleeping);
        loop {
            if self.closed.load(Ordering::Acquire) {
                return false;
            }
            if self.raised.load(Ordering::Acquire) || self.rearmed.swap(false, Ordering::AcqRel) {
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

impl InterruptPin for Line {
    fn assert(&self) {
        // The flag is set before the mutex is taken, and the dispatcher looks at it under the mutex before it sleeps.
        if !self.raised.swap(true, Ordering::AcqRel) {
            let _guard = lock(&self.sleeping);
            self.changed.notify_one();
        }
    }
}
