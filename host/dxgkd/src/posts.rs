//! Calls of a process that nobody waits for: how many are over. Each request says how many there were before it, so that it is looked at behind
//! them, whichever lane they came on.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Those of one client.
#[derive(Default)]
pub(crate) struct Posts {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    over: u64,
    /// Threads that wait for more.
    waiting: u64,
    /// There will be no more: the client has gone.
    ended: bool,
}

impl Posts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many are over. False: they never will be.
    pub fn wait_for(&self, count: u64) -> bool {
        let mut state = self.state();
        state.waiting += 1;
        let waits = |state: &mut State| state.over < count && !state.ended;
        let mut state = self.more.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state.over >= count
    }

    /// One more is.
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
