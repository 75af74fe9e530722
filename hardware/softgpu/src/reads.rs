//! When kernels have used what lies in system memory, in virtual time, where engines share their bus ([`Timing::shares_bus`](crate::Timing)):
//! reading in place.
//!
//! A kernel reads over the bus while it works. So a piece of work of known length ([`Command::Work`](softgpu_spec::Command)) and the bytes that
//! its Touch commands find in system memory go on beside each other, from its begin on, and the engine goes on when both are over:
//!
//! ```text
//! Work    ├────────────────┤
//! Touch   ├── A ──┤├────── B ──────┤    the engine goes on here
//! ```
//!
//! A kernel that says no length takes its own time at the rate of the bus (module `timing`), and holds the bus for it. Reads go behind what copies
//! bring into local memory, and copies behind reads, in the order in which they began, whichever engine wants them. Only time is here, no
//! content. Called by `ticking`.

use std::sync::atomic::{AtomicU64, Ordering};

/// The part of the bus that all engines share: into the device.
#[derive(Default)]
pub(crate) struct Inward {
    /// When it has carried all that was given to it.
    free_at: AtomicU64,
}

impl Inward {
    /// When the bus is free.
    pub(crate) fn free_at(&self) -> u64 {
        self.free_at.load(Ordering::Relaxed)
    }

    /// It is not free before this time. Virtual time has one thread, so no other store comes between.
    pub(crate) fn is_held_until(&self, end: u64) {
        self.free_at.store(self.free_at().max(end), Ordering::Relaxed);
    }
}

/// The reads of the work that an engine has begun last.
#[derive(Default)]
pub(crate) struct Reads {
    /// The queue whose work it is.
    queue: usize,
    /// From when on its next read may be under way; `None`: no work has begun.
    from: Option<u64>,
}

impl Reads {
    /// A queue's work begins: its reads may.
    pub(crate) fn begin(&mut self, queue: usize, now: u64) {
        (self.queue, self.from) = (queue, Some(now));
    }

    /// The work reads for `ns` over a bus that is free from `free_at` on. Returns when this read ends.
    pub(crate) fn read(&mut self, queue: usize, now: u64, free_at: u64, ns: u64) -> u64 {
        let from = self.from.filter(|_| self.queue == queue).unwrap_or(now);
        let end = from.max(free_at).saturating_add(ns);
        (self.queue, self.from) = (queue, Some(end));
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_go_on_beside_their_work_one_behind_the_other() {
        let mut reads = Reads::default();
        reads.begin(1, 100);
        // The work ends at 200.
        assert_eq!(reads.read(1, 200, 0, 60), 160, "over before the work is");
        assert_eq!(reads.read(1, 200, 0, 60), 220, "behind the first");
        assert_eq!(reads.read(1, 220, 0, 5), 225, "and now nothing is beside it");
        assert_eq!(reads.read(2, 300, 0, 5), 305, "another queue has begun no work here");
        reads.begin(1, 400);
        assert_eq!(reads.read(1, 450, 430, 10), 440, "behind what the bus carries");
    }

    #[test]
    fn a_bus_is_free_behind_the_last_that_was_given_to_it() {
        let inward = Inward::default();
        inward.is_held_until(9);
        inward.is_held_until(4);
        assert_eq!(inward.free_at(), 9);
    }
}
