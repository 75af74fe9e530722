//! How far a client is on its way out: whether its lanes can still see its end, and whether the kernel has reaped its objects.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Of one client.
#[derive(Default)]
pub(crate) struct Reaping {
    state: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// Lanes whose threads sleep in a call, and do not see that the client has gone.
    asleep: usize,
    /// The kernel has reaped its objects.
    reaped: bool,
    /// Threads that wait for a change.
    waiting: usize,
}

/// A lane's thread sleeps until this is dropped.
pub(crate) struct Asleep<'a>(&'a Reaping);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.state().asleep -= 1;
    }
}

/// The kernel reaps the client's objects until this is dropped.
pub(crate) struct Reaps<'a>(&'a Reaping);

impl Drop for Reaps<'_> {
    fn drop(&mut self) {
        self.0.state().reaped = true;
        self.0.changed.notify_all();
    }
}

impl Reaping {
    fn state(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread of a lane is about to sleep in a call.
    pub fn sleeps(&self) -> Asleep<'_> {
        let mut state = self.state();
        state.asleep += 1;
        if state.waiting > 0 {
            self.changed.notify_all();
        }
        Asleep(self)
    }

    /// The kernel reaps the client's objects until this is dropped, by a panic too: then the kernel has failed, and reaps nothing any more.
    pub fn reaps(&self) -> Reaps<'_> {
        Reaps(self)
    }

    /// Waits until the kernel has reaped the objects of a client that is being ended.
    pub fn wait_ended(&self) {
        let mut state = self.state();
        while !state.reaped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the kernel has reaped the objects of a client that has gone. True: it has. False: no thread of the client will see that it has
    /// gone, because `none_looks`, told how many lanes are asleep, says so; or `within` has passed.
    pub fn wait(&self, within: Duration, none_looks: impl Fn(usize) -> bool) -> bool {
        let until = Instant::now() + within;
        let mut state = self.state();
        state.waiting += 1;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.reaped || left.is_zero() || none_looks(state.asleep) {
                state.waiting -= 1;
                return state.reaped;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
