//! Which of a client's refusals the daemon logs: at most one line a second, with the number of refusals that it did not log.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// At most one line in this time.
const LINE_EACH: Duration = Duration::from_secs(1);

/// Refusals of one client.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    state: Mutex<LoggedRefusals>,
}

#[derive(Debug, Default)]
struct LoggedRefusals {
    logged: Option<Instant>,
    since: u64,
}

impl Refusals {
    /// Another one. It is to be logged, with how many have not been since the last; `None`: it is not.
    pub fn note(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.logged.is_some_and(|logged| now.duration_since(logged) < LINE_EACH) {
            state.since += 1;
            return None;
        }
        state.logged = Some(now);
        Some(std::mem::take(&mut state.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_again_and_again_writes_few_lines() {
        let (refusals, begin) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.note(begin), Some(0));
        let within = |milliseconds| begin + Duration::from_millis(milliseconds);
        (0..1000).for_each(|at| assert_eq!(refusals.note(within(at)), None));
        assert_eq!(refusals.note(within(1000)), Some(1000));
    }
}
