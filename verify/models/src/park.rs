//! Signallers against a hardware queue that parks: [`shared_words::fence::signal`] against
//! [`shared_words::fence::may_park`].
//!
//! A signaller puts one full barrier between the value and everything that it looks at: MonitoredValue for the CPU's
//! waiters, and whether any queue is parked at all. A queue is lost when it sleeps, its value is there, and the signaller saw no queue
//! parked.

use loom::sync::Arc;
use loom::thread;
use shared_words::fence::{MONITORED_NONE, may_park, publish_monitored, signal};
use shared_words::{Barrier, Word};

use crate::explore::{Ending, Explored, explore};
use crate::word::ModelWord;

/// A fence, and how many queues are parked.
struct Words {
    current: ModelWord,
    monitored: ModelWord,
    parked: ModelWord,
}

impl Words {
    fn new() -> Arc<Words> {
        let monitored = ModelWord::new(MONITORED_NONE);
        Arc::new(Words { current: ModelWord::new(0), monitored, parked: ModelWord::new(0) })
    }

    /// Signals 1. Returns whether the CPU was interrupted and whether the parked queues were looked at.
    fn signal<S: Barrier>(&self) -> (bool, bool) {
        let interrupted = signal(S::full, &self.current, &self.monitored, 1, || ());
        (interrupted, self.parked.load() != 0)
    }

    fn park<P: Barrier>(&self) -> bool {
        may_park(P::full, &self.current, &self.parked, 1, 1)
    }
}

/// One signal of 1 against one queue that parks for 1.
pub fn signal_against_park<S: Barrier + 'static, P: Barrier + 'static>() -> Explored {
    explore(|| {
        let words = Words::new();
        let signaller = {
            let words = Arc::clone(&words);
            thread::spawn(move || words.signal::<S>().1)
        };
        let sleeps = words.park::<P>();
        let unparked = signaller.join().unwrap();
        Ending { lost: sleeps && !unparked, twice: !sleeps && unparked }
    })
}

/// One signal of 1 against one queue that parks for 1 and one CPU waiter for 1, on three processors.
pub fn one_barrier_for_both<S: Barrier + 'static, O: Barrier + 'static>() -> Explored {
    explore(|| {
        let words = Words::new();
        let signaller = {
            let words = Arc::clone(&words);
            thread::spawn(move || words.signal::<S>())
        };
        let queue = {
            let words = Arc::clone(&words);
            thread::spawn(move || words.park::<O>())
        };
        let published = publish_monitored(O::full, &words.current, &words.monitored, 0);
        let released = published || words.current.load() >= 1;
        let (interrupted, unparked) = signaller.join().unwrap();
        let sleeps = queue.join().unwrap();
        let lost = (sleeps && !unparked) || !(released || interrupted);
        Ending { lost, twice: released && interrupted && !sleeps && unparked }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Full, Removed};

    #[test]
    fn no_parked_queue_is_lost() {
        // seed: N27
        // spec: sync §3.8, sync §3.19
        let explored = signal_against_park::<Full, Full>();
        assert_eq!(explored.lost, 0, "{explored:?}");
        assert!(explored.twice > 0, "{explored:?}");
    }

    #[test]
    fn either_barrier_removed_loses_a_parked_queue() {
        // seed: N27
        // spec: sync §3.8, sync §3.19
        let signaller = signal_against_park::<Removed, Full>();
        assert!(signaller.lost > 0, "the signaller's barrier: {signaller:?}");
        let queue = signal_against_park::<Full, Removed>();
        assert!(queue.lost > 0, "the queue's barrier: {queue:?}");
    }

    #[test]
    fn one_barrier_of_the_signaller_serves_waiter_and_queue() {
        // spec: sync §3.8, sync §3.9
        let explored = one_barrier_for_both::<Full, Full>();
        assert_eq!(explored.lost, 0, "{explored:?}");
        assert!(explored.twice > 0, "{explored:?}");
        assert!(one_barrier_for_both::<Removed, Full>().lost > 0, "the signaller's barrier");
        assert!(one_barrier_for_both::<Full, Removed>().lost > 0, "the others' barriers");
    }
}
