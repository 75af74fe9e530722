//! Performance counters. Each belongs to one engine, which alone adds to it with plain stores: counting costs no locked
//! instruction. The registers show sums over the engines. Written by engines under their own lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one party raises and all may read.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the owner may: two adders would lose counts.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One engine's counters, as in [`softgpu_spec::register::counter`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) signals: Counter,
    pub(crate) interrupts_raised: Counter,
    pub(crate) waits: Counter,
    pub(crate) waits_unsatisfied: Counter,
    pub(crate) waits_parked: Counter,
    pub(crate) copy_bytes: Counter,
    pub(crate) entries_written: Counter,
    pub(crate) busy_ns: Counter,
    pub(crate) wait_ns: Counter,
}
