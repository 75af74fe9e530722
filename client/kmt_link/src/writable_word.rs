//! A word that a process writes and the kernel reads: the value up to which the process has published work (sync §3.11).

use std::ptr::NonNull;
use std::sync::Arc;

use shared_words::{Memory, Word};

/// A word that its holder may write.
#[derive(Clone, Debug)]
pub struct WritableWord {
    memory: Arc<Memory>,
    offset: u64,
}

impl WritableWord {
    /// The word at `offset` of `memory`.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn new(memory: Arc<Memory>, offset: u64) -> WritableWord {
        let _ = memory.word(offset);
        WritableWord { memory, offset }
    }

    /// Where it stands, as long as this is kept. It is shared: a program may only touch it by volatile or atomic accesses.
    pub fn address(&self) -> NonNull<u64> {
        NonNull::from(self.memory.word(self.offset)).cast()
    }

    /// Writes it with release order: a reader that acquires the value sees everything that was written before.
    pub fn store(&self, value: u64) {
        Word::store(self.memory.word(self.offset), value);
    }
}
