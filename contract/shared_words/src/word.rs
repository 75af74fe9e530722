//! A 64-bit word and the full barrier: the two things that the protocols need from the machine.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A shared 64-bit word. Loads acquire, stores release; neither half is ever seen without the other (sync §1.6).
pub trait Word {
    /// The value.
    fn load(&self) -> u64;
    /// Replaces the value.
    fn store(&self, value: u64);
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        AtomicU64::load(self, Ordering::Acquire)
    }
    #[inline]
    fn store(&self, value: u64) {
        AtomicU64::store(self, value, Ordering::Release);
    }
}

impl<W: Word> Word for &W {
    #[inline]
    fn load(&self) -> u64 {
        (**self).load()
    }
    #[inline]
    fn store(&self, value: u64) {
        (**self).store(value);
    }
}

/// The barrier that orders earlier stores before later loads.
pub trait Barrier {
    /// Every store before it is visible to every party before any load after it is made.
    fn full();
}

/// The processor's own full barrier.
pub struct HardwareBarrier;

impl Barrier for HardwareBarrier {
    #[inline]
    fn full() {
        fence(Ordering::SeqCst);
    }
}
