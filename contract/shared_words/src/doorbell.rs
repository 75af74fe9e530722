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
