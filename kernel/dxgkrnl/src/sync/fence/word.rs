//! How a fence's value lies in memory (sync §1.6): as 64 bits, or as the 32 that a GPU without 64-bit atomics updates, which
//! the kernel then reads as 64.

use gpu_fence::Extension;
use kmt_calls::Refusal;
use shared_words::{Memory, Word};

use super::object::Fence;
use crate::refusal::invalid;

/// The width of a fence's word, with what 32 bits need to be told apart.
#[derive(Clone, Copy, Debug)]
pub enum FenceWord {
    /// 64 bits.
    Whole,
    /// 32 bits, and the value as far as the kernel has seen it.
    Half(Extension),
}

impl FenceWord {
    /// Bits of the word.
    pub fn bits(self) -> u32 {
        match self {
            FenceWord::Whole => 64,
            FenceWord::Half(_) => 32,
        }
    }
}

impl Fence {
    /// The value now.
    // spec: sync §1.6
    pub fn value(&self, memory: &Memory) -> u64 {
        let word = Word::load(memory.word(self.slot.current.0));
        match self.word {
            FenceWord::Whole => word,
            // CAST: the word has 32 bits; the upper half is not part of it.
            FenceWord::Half(mut seen) => seen.read(word as u32),
        }
    }

    /// The value now, from which on later ones are told.
    pub fn look(&mut self, memory: &Memory) -> u64 {
        let value = self.value(memory);
        if let FenceWord::Half(seen) = &mut self.word {
            seen.store(value);
        }
        value
    }

    /// The kernel itself stores a value.
    pub fn store(&mut self, memory: &Memory, value: u64) {
        let word = match &mut self.word {
            FenceWord::Whole => value,
            FenceWord::Half(seen) => u64::from(seen.store(value)),
        };
        Word::store(memory.word(self.slot.current.0), word);
    }

    /// Whether a wait for, or a signal of, a value may be outstanding.
    ///
    /// # Errors
    /// `INVALID_PARAMETER`: too far from what was signalled last for 32 bits to tell.
    // spec: sync §1.6
    pub fn admits(&self, memory: &Memory, value: u64) -> Result<(), Refusal> {
        let FenceWord::Half(_) = self.word else { return Ok(()) };
        let now = self.value(memory);
        if Extension::new(now).admits(value) {
            return Ok(());
        }
        let reach = gpu_fence::REACH;
        Err(invalid(format!("the fence has 32 bits and {now}: {value} is further away than {reach:#x}")))
    }
}
