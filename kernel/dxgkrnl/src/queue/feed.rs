//! The work that the kernel has fed a hardware queue, by values of its progress fence: accepted from its process, started on the hardware,
//! finished.
//!
//! ```text
//! submitted ─▶ held behind a wait packet, or for room (`watch`) ─▶ started ─▶ finished
//! ```
//! Not which packets the queue holds, nor the waits that it stands before: the scheduler has these (`vidsch`). Not work that a process
//! rings for by itself: its doorbell counts that (`doorbell`), and [`Feed`] hears of it when the doorbell goes. No more is started than was
//! submitted, and started values rise, as [`Feed::start`] asserts: so the oldest is the next that the hardware reaches.

use std::collections::VecDeque;

use kmt_calls::Refusal;

use crate::refusal::invalid;

/// What a hardware queue has been fed.
#[derive(Debug, Default)]
pub struct Feed {
    /// The last progress value accepted.
    submitted: u64,
    /// Progress values started on the hardware and not seen finished, oldest first.
    started: VecDeque<u64>,
    /// A wait for the oldest of these is registered.
    watching: bool,
}

impl Feed {
    /// Whether the queue may be given work that ends with this value.
    ///
    /// # Errors
    /// The value does not rise.
    pub fn check(&self, value: u64) -> Result<(), Refusal> {
        match value > self.submitted {
            true => Ok(()),
            false => Err(invalid(format!("progress values rise: {value} after {}", self.submitted))),
        }
    }

    /// Work was accepted; or its process said that it had rung for work until here, before its doorbell went.
    pub fn submit(&mut self, value: u64) {
        self.submitted = value;
    }

    /// The value that is reached when all accepted work is done.
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// The hardware has work now.
    pub fn start(&mut self, value: u64) {
        debug_assert!(self.last_started() < value && value <= self.submitted, "{value} is started: {self:?}");
        self.started.push_back(value);
    }

    /// The last value started and not seen finished; 0: there is none.
    pub fn last_started(&self) -> u64 {
        self.started.back().copied().unwrap_or(0)
    }

    /// The progress fence has this value. How many works are finished that were not yet seen so.
    #[must_use = "the scheduler has room for as many more"]
    pub fn finish(&mut self, current: u64) -> u32 {
        let finished = self.started.iter().take_while(|value| **value <= current).count();
        self.started.drain(..finished);
        // CAST: hardware takes few buffers.
        finished as u32
    }

    /// The value to wait for, because then there is room for more; `None` where the queue waits for it already or nothing runs.
    #[must_use = "the queue counts as waiting from now on"]
    pub fn watch(&mut self) -> Option<u64> {
        let oldest = self.started.front().copied().filter(|_| !self.watching)?;
        self.watching = true;
        Some(oldest)
    }

    /// The wait for room is over.
    pub fn watched(&mut self) {
        self.watching = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_rise_and_the_oldest_work_is_watched_once() {
        let mut feed = Feed::default();
        assert!(feed.check(0).is_err(), "0 is reached from the start");
        for value in [3, 5, 9] {
            assert!(feed.check(value).is_ok());
            feed.submit(value);
        }
        assert!(feed.check(9).is_err());
        assert_eq!((feed.watch(), feed.last_started()), (None, 0), "nothing runs");
        feed.start(3);
        feed.start(5);
        assert_eq!((feed.watch(), feed.watch()), (Some(3), None), "one wait at a time");
        assert_eq!((feed.finish(4), feed.finish(4)), (1, 0), "each is finished once");
        feed.watched();
        assert_eq!((feed.watch(), feed.last_started(), feed.submitted()), (Some(5), 5, 9));
        assert_eq!((feed.finish(u64::MAX), feed.last_started()), (1, 0));
    }
}
