//! The doorbell: one word that the producer of a ring writes, one that says whether the consumer sleeps.
//!
//! The producer stores the ring's new write pointer and then asks whether the consumer sleeps; the consumer, before it
//! sleeps, says so and then looks at the write pointer once more. The shape is the fence's (sync §3.17).

use crate::word::Word;

/// Bytes of one doorbell in the doorbell page: a cache line for the value, and one for the sleeping flag. The producer reads the flag
/// while the value is still on its way to the engine that polls it: on one line its load would wait for that.
pub const DOORBELL_BYTES: u64 = 128;
/// Offset of the word that the producer writes: the ring's write pointer in bytes, ever rising.
pub const VALUE_OFFSET: u64 = 0;
/// Offset of the word that the consumer writes: nonzero while it sleeps.
pub const ASLEEP_OFFSET: u64 = 64;

/// Rings. Returns whether the consumer sleeps and must be woken.
// spec: sync §3.17
#[must_use = "a sleeping engine does not see the doorbell"]
pub fn ring(full: impl FnOnce(), value: &impl Word, asleep: &impl Word, write_pointer: u64) -> bool {
    value.store(write_pointer);
    full();
    asleep.load() != 0
}

/// The consumer is about to sleep having consumed up to `seen`. Returns whether it may. The write pointer only rises: a smaller one, even
/// from a hostile producer, is no new work.
#[must_use = "a consumer that sleeps on a full ring is lost"]
pub fn may_sleep(full: impl FnOnce(), value: &impl Word, asleep: &impl Word, seen: u64) -> bool {
    asleep.store(1);
    full();
    if value.load() <= seen {
        return true;
    }
    asleep.store(0);
    false
}

/// The consumer is awake again.
pub fn awake(asleep: &impl Word) {
    asleep.store(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_ring_is_seen_or_wakes() {
        // spec: sync §3.17
        for (asleep, wakes) in [(0, false), (1, true), (2, true)] {
            let (value, flag) = (AtomicU64::new(8), AtomicU64::new(0));
            // The consumer falls asleep between the producer's store and its load.
            let falls_asleep = || {
                assert_eq!(Word::load(&value), 24, "the write pointer is there before the barrier");
                Word::store(&flag, asleep);
            };
            assert_eq!(ring(falls_asleep, &value, &flag, 24), wakes, "{asleep}");
            assert_eq!([Word::load(&value), Word::load(&flag)], [24, asleep]);
        }
    }

    #[test]
    fn a_consumer_sleeps_only_when_no_more_has_been_written_than_it_has_seen() {
        // spec: sync §3.17
        for (written, may) in [(31, true), (32, true), (33, false)] {
            let (value, asleep) = (AtomicU64::new(0), AtomicU64::new(0));
            let rings = || {
                assert_eq!(Word::load(&asleep), 1, "it says that it sleeps before the barrier");
                Word::store(&value, written);
            };
            assert_eq!(may_sleep(rings, &value, &asleep, 32), may, "{written}");
            assert_eq!(Word::load(&asleep), u64::from(may), "a consumer that goes on is awake");
            awake(&asleep);
            assert_eq!(Word::load(&asleep), 0);
        }
    }

    #[test]
    fn value_and_flag_of_a_doorbell_lie_on_lines_of_their_own() {
        let page = Memory::reserve(4096).expect("a page");
        let word = |doorbell: u64, offset: u64| page.word(doorbell * DOORBELL_BYTES + offset);
        assert!(!ring(|| (), &word(3, VALUE_OFFSET), &word(3, ASLEEP_OFFSET), 40));
        assert!(!may_sleep(|| (), &word(3, VALUE_OFFSET), &word(3, ASLEEP_OFFSET), 39));
        assert!(may_sleep(|| (), &word(3, VALUE_OFFSET), &word(3, ASLEEP_OFFSET), 40));
        assert_eq!(
            page.scan_words(0, 512, |at, word| word
                == [40, 1][usize::from(at == 56)] * u64::from(at == 48 || at == 56)),
            None
        );
    }
}
