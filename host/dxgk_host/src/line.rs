//! The interrupt lines between the devices and the kernel, with the kernel's timer on them. A line carries one bit and does not know its
//! meaning. Used by `host`.
//!
//! While a thread holds the kernel, that thread hears the lines, and looks at them before it releases it: the dispatcher need not wake to
//! wait for the lock. Else an interrupt wakes the dispatcher. Whether a line is up and whether a thread hears them are one word, so the
//! device that raises and the thread that hears no more find each other's change in one order or the other.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use device_port::InterruptPin;

use crate::host::lock;

/// Most adapters of a host: each has a bit.
pub const LINES_MAX: usize = 64;

/// A line has come up since the lines were taken.
const UP: u8 = 1;
/// The thread that holds the kernel looks at the lines before it releases it.
const HEARD: u8 = 2;

/// The interrupt lines between devices and kernel.
#[derive(Default)]
pub(crate) struct Line {
    /// A bit for each adapter.
    raised: AtomicU64,
    /// [`UP`] and [`HEARD`].
    state: AtomicU8,
    closed: AtomicBool,
    /// The timer's time has changed.
    rearmed: AtomicBool,
    sleeping: Mutex<()>,
    changed: Condvar,
}

impl Line {
    /// The adapters whose lines were up, a bit each; they are down now.
    pub(crate) fn take(&self) -> u64 {
        // In this order: a line that comes up in between is taken now, and at worst looked for once more.
        self.state.fetch_and(!UP, Ordering::AcqRel);
        self.raised.swap(0, Ordering::AcqRel)
    }

    /// The thread that holds the kernel hears the lines from now on.
    pub(crate) fn hear(&self) {
        self.state.fetch_or(HEARD, Ordering::AcqRel);
    }

    /// That thread hears them no more: a line that comes up from now on wakes the dispatcher. Whether none is up that woke nothing.
    pub(crate) fn unhear(&self) -> bool {
        self.state.fetch_and(!HEARD, Ordering::AcqRel) & UP == 0
    }

    /// Wakes the dispatcher.
    pub(crate) fn wake(&self) {
        // A line is up, or the lines are closed, before the mutex is taken, and the dispatcher looks at both under the mutex before it sleeps.
        let _guard = lock(&self.sleeping);
        self.changed.notify_one();
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
        self.wake();
    }

    /// Blocks until a line is up, the timer is armed anew, or this time has passed; false when the lines are closed.
    pub(crate) fn wait(&self, longest: Option<Duration>) -> bool {
        let mut guard = lock(&self.sleeping);
        loop {
            if self.closed.load(Ordering::Acquire) {
                return false;
            }
            if self.state.load(Ordering::Acquire) & UP != 0 || self.rearmed.swap(false, Ordering::AcqRel) {
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
        // The device that raised it before is about to say so.
        if self.line.raised.fetch_or(self.bit, Ordering::AcqRel) & self.bit != 0 {
            return;
        }
        if self.line.state.fetch_or(UP, Ordering::AcqRel) & (UP | HEARD) == 0 {
            self.line.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const ROUNDS: u64 = 2_000;
    const NEVER: Duration = Duration::from_secs(20);

    /// Ends the dispatcher's thread, also when this one fails.
    struct Closing<'a>(&'a Line);

    impl Drop for Closing<'_> {
        fn drop(&mut self) {
            self.0.close();
        }
    }

    /// Waits for another thread's word: both go on within nanoseconds of each other.
    fn meet(word: &AtomicU64, value: u64) {
        let (began, mut looks) = (Instant::now(), 0);
        while word.load(Ordering::Acquire) < value {
            looks += 1;
            match looks % 256 {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
            assert!(looks % 65_536 != 0 || began.elapsed() < NEVER, "the other thread has stopped");
        }
    }

    #[test]
    fn a_line_that_comes_up_while_the_holder_stops_hearing_wakes_one_of_both() {
        let line: Arc<Line> = Arc::default();
        let (pin, taken) = (line.pin(3), AtomicU64::new(0));
        let [holder_at, device_at] = [const { AtomicU64::new(0) }; 2];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while line.wait(None) {
                    taken.fetch_add(u64::from(line.take() != 0), Ordering::AcqRel);
                }
            });
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    line.hear();
                    holder_at.store(round, Ordering::Release);
                    meet(&device_at, round);
                    (0..round % 64).for_each(|_| std::hint::spin_loop());
                    if !line.unhear() {
                        taken.fetch_add(u64::from(line.take() != 0), Ordering::AcqRel);
                    }
                    meet(&taken, round);
                }
            });
            scope.spawn(|| {
                let _closing = Closing(&line);
                for round in 1..=ROUNDS {
                    meet(&holder_at, round);
                    device_at.store(round, Ordering::Release);
                    (0..round % 61).for_each(|_| std::hint::spin_loop());
                    pin.assert();
                    meet(&taken, round);
                }
            });
        });
        assert_eq!(taken.load(Ordering::Relaxed), ROUNDS, "each is taken once");
    }
}
