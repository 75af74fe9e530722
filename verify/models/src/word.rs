//! The model checker's word and barriers, in the shape that the protocols ask for. Not for use outside of a model: loom's
//! types panic there. Used by the models of this crate.

use loom::sync::atomic::{AtomicU64, Ordering, fence};
use shared_words::{Barrier, Word};

/// A word whose loads acquire and whose stores release, as [`Word`] demands. Sequentially consistent *accesses* are not
/// used: loom takes them for acquire and release (sync §3.9).
pub(crate) struct ModelWord(AtomicU64);

impl ModelWord {
    pub(crate) fn new(value: u64) -> ModelWord {
        ModelWord(AtomicU64::new(value))
    }
}

impl Word for ModelWord {
    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
    fn store(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}

/// The full barrier as the model knows it.
pub struct Full;

impl Barrier for Full {
    fn full() {
        fence(Ordering::SeqCst);
    }
}

/// A barrier that the test has removed.
pub struct Removed;

impl Barrier for Removed {
    fn full() {}
}
