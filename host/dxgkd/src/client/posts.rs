//! Posted calls of a process, which get no response: how many are over. Each request says how many calls the client posted before it, and
//! the daemon makes it behind these, whichever lanes they came on.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Those of one client.
#[derive(Default)]
pub(crate) struct Posts {
    state: Mutex<PostCount>,
    more: Condvar,
}

#[derive(Default)]
struct PostCount {
    over: u64,
    /// Threads that wait for more.
    waiting: u64,
    /// There will be no more: the client has gone.
    ended: bool,
}

impl Posts {
    fn state(&self) -> MutexGuard<'_, PostCount> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many posted calls are over. False: the client has gone before.
    pub fn wait_for(&self, count: u64) -> bool {
        let mut state = self.state();
        state.waiting += 1;
        let waits = |state: &mut PostCount| state.over < count && !state.ended;
        let mut state = self.more.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state.over >= count
    }

    /// One more posted call is over.
    pub fn one_is_over(&self) {
        let mut state = self.state();
        state.over += 1;
        if state.waiting > 0 {
            self.more.notify_all();
        }
    }

    /// The client has gone.
    pub fn end(&self) {
        self.state().ended = true;
        self.more.notify_all();
    }
}
