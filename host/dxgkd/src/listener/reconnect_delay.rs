//! How long a process waits before it is a client again, after the kernel has reaped its earlier clients.
//!
//! A client that destroys its objects call by call waits for each call. A client that dies waits for nothing, and the kernel destroys all
//! its objects under the lock that every call needs. Connecting and dying again and again would be the cheapest way to keep the kernel
//! busy. So reaping the clients of one process takes no more than its share of the time, however often they die: the next client of that
//! process waits, and no other client does.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::listener::peer::Peer;

/// Longest time that a process waits.
const REST_MAX: Duration = Duration::from_secs(5);

/// Until when processes wait.
#[derive(Debug, Default)]
pub(crate) struct ReconnectDelays {
    until: Mutex<BTreeMap<Peer, Instant>>,
}

impl ReconnectDelays {
    /// Reaping a client of this process `took` so long, and may take `percent` of the time.
    pub fn cleared(&self, peer: Peer, took: Duration, percent: u64, now: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        // A process whose wait is over needs no entry.
        until.retain(|_, until| *until > now);
        let rest = rest(took, percent);
        if !rest.is_zero() {
            let until = until.entry(peer).or_insert(now);
            *until = (*until + rest).min(now + REST_MAX);
        }
    }

    /// How long this process has to wait now.
    pub fn rest_of(&self, peer: Peer, now: Instant) -> Duration {
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.get(&peer).map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

/// The pause after reaping that `took` so long, such that reaping is `percent` of reaping and pause together.
fn rest(took: Duration, percent: u64) -> Duration {
    let others = 100_u64.saturating_sub(percent);
    let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).saturating_mul(others);
    Duration::from_nanos(nanoseconds.checked_div(percent).unwrap_or(u64::MAX)).min(REST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Peer = Peer { pid: 7, uid: 1000 };
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_cleared_away_is_so_much_of_a_process_s_time() {
        let (reconnect_delays, now) = (ReconnectDelays::default(), Instant::now());
        reconnect_delays.cleared(ONE, MS, 10, now);
        assert_eq!(reconnect_delays.rest_of(ONE, now), 9 * MS);
        assert_eq!(reconnect_delays.rest_of(ONE, now + 4 * MS), 5 * MS);
        reconnect_delays.cleared(ONE, MS, 25, now + 4 * MS);
        assert_eq!(reconnect_delays.rest_of(ONE, now + 4 * MS), 8 * MS, "the second comes behind the first");
        assert_eq!(reconnect_delays.rest_of(ONE, now + 12 * MS), Duration::ZERO);
        let others = [Peer { pid: 8, ..ONE }, Peer { uid: 1001, ..ONE }];
        assert!(
            others.iter().all(|other| reconnect_delays.rest_of(*other, now).is_zero()),
            "other processes do not wait"
        );
    }

    #[test]
    fn no_process_waits_for_ever_and_one_that_need_not_wait_has_no_entry() {
        let (reconnect_delays, now) = (ReconnectDelays::default(), Instant::now());
        for (took, percent) in [(Duration::MAX, 10), (MS, 0), (REST_MAX, 1)] {
            reconnect_delays.cleared(ONE, took, percent, now);
            assert_eq!(reconnect_delays.rest_of(ONE, now), REST_MAX, "{took:?} at {percent} %");
        }
        reconnect_delays.cleared(Peer { pid: 8, ..ONE }, MS, 100, now + REST_MAX);
        reconnect_delays.cleared(Peer { pid: 9, ..ONE }, MS, u64::MAX, now + REST_MAX);
        assert!(reconnect_delays.until.lock().expect("no thread panics").is_empty());
    }
}
