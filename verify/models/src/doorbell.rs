//! A producer that rings against a consumer that falls asleep: [`shared_words::doorbell::ring`] against
//! [`shared_words::doorbell::may_sleep`].
//!
//! A ring that found the consumer asleep leaves a token; a sleeping consumer takes the token, is awake and looks again.
//! The consumer is lost when it sleeps, the ring holds more than it has consumed, and there is no token left.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use shared_words::doorbell::{awake, may_sleep, ring};
use shared_words::{Barrier, Word};

use crate::explore::{Ending, Explored, explore};
use crate::word::ModelWord;

struct Doorbell {
    value: ModelWord,
    asleep: ModelWord,
}

impl Doorbell {
    fn new() -> Arc<Doorbell> {
        Arc::new(Doorbell { value: ModelWord::new(0), asleep: ModelWord::new(0) })
    }

    fn ring<P: Barrier>(&self, write_pointer: u64) -> bool {
        ring(P::full, &self.value, &self.asleep, write_pointer)
    }

    fn may_sleep<C: Barrier>(&self, seen: u64) -> bool {
        may_sleep(C::full, &self.value, &self.asleep, seen)
    }
}

/// One ring against a consumer that has consumed nothing and wants to sleep.
pub fn ring_against_sleep<P: Barrier + 'static, C: Barrier + 'static>() -> Explored {
    explore(|| {
        let doorbell = Doorbell::new();
        let producer = {
            let doorbell = Arc::clone(&doorbell);
            thread::spawn(move || doorbell.ring::<P>(64))
        };
        let sleeps = doorbell.may_sleep::<C>(0);
        let token = producer.join().unwrap();
        Ending { lost: sleeps && !token, twice: !sleeps && token }
    })
}

/// Two rings against a consumer that comes back once: refused sleep or woken by a token (which is then spent), it
/// consumes what it sees and sleeps again. The second ring must not fall between.
pub fn two_rings_against_sleep<P: Barrier + 'static, C: Barrier + 'static>() -> Explored {
    explore(|| {
        let doorbell = Doorbell::new();
        // Exchanged only, never stored: loom does not derive an order between a store and an exchange that did not see it.
        let tokens = Arc::new(AtomicU64::new(0));
        let producer = {
            let (doorbell, tokens) = (Arc::clone(&doorbell), Arc::clone(&tokens));
            thread::spawn(move || {
                for write_pointer in [64, 128] {
                    if doorbell.ring::<P>(write_pointer) {
                        tokens.swap(1, Ordering::AcqRel);
                    }
                }
            })
        };
        let mut seen = 0;
        let mut sleeps = doorbell.may_sleep::<C>(seen);
        let woken = sleeps && tokens.swap(0, Ordering::AcqRel) != 0;
        if woken {
            awake(&doorbell.asleep);
        }
        if woken || !sleeps {
            seen = doorbell.value.load();
            sleeps = doorbell.may_sleep::<C>(seen);
        }
        producer.join().unwrap();
        let token = tokens.swap(0, Ordering::AcqRel) != 0;
        let behind = doorbell.value.load() != seen;
        Ending { lost: sleeps && behind && !token, twice: !sleeps && token }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Full, Removed};

    #[test]
    fn no_ring_is_lost() {
        // spec: sync §3.17, sync §3.19
        let explored = ring_against_sleep::<Full, Full>();
        assert_eq!(explored.lost, 0, "{explored:?}");
        assert!(explored.twice > 0, "{explored:?}");
    }

    #[test]
    fn either_barrier_removed_loses_a_ring() {
        // spec: sync §3.17, sync §3.19
        let producer = ring_against_sleep::<Removed, Full>();
        assert!(producer.lost > 0, "the producer's barrier: {producer:?}");
        let consumer = ring_against_sleep::<Full, Removed>();
        assert!(consumer.lost > 0, "the consumer's barrier: {consumer:?}");
    }

    #[test]
    fn the_second_ring_does_not_fall_between_two_sleeps() {
        // spec: sync §3.17
        let explored = two_rings_against_sleep::<Full, Full>();
        assert_eq!(explored.lost, 0, "{explored:?}");
        assert!(explored.executions > 10, "{explored:?}");
        assert!(two_rings_against_sleep::<Removed, Full>().lost > 0, "the producer's barrier");
        assert!(two_rings_against_sleep::<Full, Removed>().lost > 0, "the consumer's barrier");
    }
}
