//! Signallers against the kernel that registers CPU waiters: [`shared_words::fence::signal`] against
//! [`shared_words::fence::publish_monitored`].
//!
//! The kernel's side is modelled as sync §3.5 and §3.9 have it: publish MonitoredValue (whose own look at CurrentValue may
//! interrupt), read CurrentValue once more, release the satisfied waiters, publish anew. An interrupt is a fact that stays: the
//! kernel's deferred part runs after it and releases every waiter whose value has come. So a waiter is lost when its value
//! has come, it was not released, and **no** interrupt was raised.

use loom::sync::Arc;
use loom::thread;
use shared_words::fence::{MONITORED_NONE, publish_monitored, signal};
use shared_words::{Barrier, Word};

use crate::explore::{Ending, Explored, explore};
use crate::word::ModelWord;

/// CurrentValue and MonitoredValue of one fence without waiters.
struct Fence {
    current: ModelWord,
    monitored: ModelWord,
}

impl Fence {
    fn new() -> Arc<Fence> {
        Arc::new(Fence { current: ModelWord::new(0), monitored: ModelWord::new(MONITORED_NONE) })
    }

    fn signal<S: Barrier>(&self, value: u64) -> bool {
        signal(S::full, &self.current, &self.monitored, value, || ())
    }

    /// Publishes that `wanted` is the earliest value waited for. Returns whether that interrupted.
    fn publish<K: Barrier>(&self, wanted: u64) -> bool {
        publish_monitored(K::full, &self.current, &self.monitored, wanted - 1)
    }

    fn has_reached(&self, wanted: u64) -> bool {
        self.current.load() >= wanted
    }
}

/// One signal of 1 against one waiter for 1.
pub fn signal_against_publish<S: Barrier + 'static, K: Barrier + 'static>() -> Explored {
    explore(|| {
        let fence = Fence::new();
        let signaller = {
            let fence = Arc::clone(&fence);
            thread::spawn(move || fence.signal::<S>(1))
        };
        let published = fence.publish::<K>(1);
        let resampled = fence.has_reached(1);
        let interrupted = signaller.join().unwrap();
        Ending { lost: !(interrupted || published || resampled), twice: interrupted && resampled }
    })
}

/// Two signallers in a chain: the second signals 2 when it has seen the first's 1, so that CurrentValue never falls. The
/// kernel registers waiters for 1 and for 2; when 1 is released it publishes the higher value, which is where the second
/// signal may find the old one or the new one.
pub fn chain_against_waiters<S: Barrier + 'static, K: Barrier + 'static>() -> Explored {
    explore(|| {
        let fence = Fence::new();
        let first = {
            let fence = Arc::clone(&fence);
            thread::spawn(move || fence.signal::<S>(1))
        };
        let second = {
            let fence = Arc::clone(&fence);
            thread::spawn(move || fence.has_reached(1) && fence.signal::<S>(2))
        };
        // Publishing returns its look at CurrentValue; a further one would only multiply the executions.
        let told_of_1 = fence.publish::<K>(1);
        let told_of_2 = told_of_1 && fence.publish::<K>(2);
        let released = u64::from(told_of_1) + u64::from(told_of_2);
        let (by_first, by_second) = (first.join().unwrap(), second.join().unwrap());
        // Both signallers have been joined: this load returns the last value.
        let reached = fence.current.load();
        let lost = match released {
            0 => reached >= 1 && !(by_first || by_second),
            // The notice of 1 is spent on the waiter for 1.
            1 => reached == 2 && !by_second,
            _ => false,
        };
        Ending { lost, twice: released == 2 && by_second }
    })
}

/// Two signallers, each of its own fence, and one waiter for any of the two: the kernel publishes both, then looks at both.
pub fn any_of_two<S: Barrier + 'static, K: Barrier + 'static>() -> Explored {
    explore(|| {
        let fences = [Fence::new(), Fence::new()];
        let signallers = fences.clone().map(|fence| thread::spawn(move || fence.signal::<S>(1)));
        let published = fences.iter().fold(false, |raised, fence| raised | fence.publish::<K>(1));
        let resampled = fences.iter().any(|fence| fence.has_reached(1));
        let interrupted = signallers.into_iter().fold(false, |raised, signaller| raised | signaller.join().unwrap());
        Ending { lost: !(interrupted || published || resampled), twice: interrupted && resampled }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Full, Removed};

    #[test]
    fn race_one_no_signal_is_lost() {
        // seed: N27
        // spec: sync §3.9, sync §3.19
        let explored = signal_against_publish::<Full, Full>();
        assert_eq!(explored.lost, 0, "{explored:?}");
        assert!(explored.executions > 3 && explored.twice > 0, "{explored:?}");
    }

    #[test]
    fn race_one_either_barrier_removed_is_found() {
        // seed: N27
        // spec: sync §3.9, sync §3.19
        let signaller = signal_against_publish::<Removed, Full>();
        assert!(signaller.lost > 0, "the signaller's barrier: {signaller:?}");
        let kernel = signal_against_publish::<Full, Removed>();
        assert!(kernel.lost > 0, "the kernel's barrier: {kernel:?}");
    }

    #[test]
    fn race_two_the_newer_value_interrupts_or_is_seen() {
        // seed: N28
        // spec: sync §3.9, sync §3.19
        let explored = chain_against_waiters::<Full, Full>();
        assert_eq!(explored.lost, 0, "{explored:?}");
        assert!(explored.executions > 100 && explored.twice > 0, "{explored:?}");
    }

    #[test]
    fn race_two_either_barrier_removed_is_found() {
        // seed: N28
        // spec: sync §3.9, sync §3.19
        let signaller = chain_against_waiters::<Removed, Full>();
        assert!(signaller.lost > 0, "the signaller's barrier: {signaller:?}");
        let kernel = chain_against_waiters::<Full, Removed>();
        assert!(kernel.lost > 0, "the kernel's barrier: {kernel:?}");
    }

    #[test]
    fn a_waiter_for_any_of_two_fences_is_released() {
        // spec: sync §3.5, sync §3.9
        assert_eq!(any_of_two::<Full, Full>().lost, 0);
        assert!(any_of_two::<Removed, Full>().lost > 0);
        assert!(any_of_two::<Full, Removed>().lost > 0);
    }
}
