//! The scheduling log's layout (sync §4.2): in it an engine that hardware schedules tells which context it runs. A header of 32 bytes,
//! like a fence log's but without a type, and entries of 32 that say which state a context is in from a time on.
//!
//! The hardware writes an entry's words and then the header word that counts it, each by one 64-bit store. The reader has taken the
//! buffer away from the hardware before: so the two never touch a word at once.

use crate::log;
use crate::word::Word;

/// Bytes of the header.
pub const HEADER_BYTES: u64 = 32;
/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 32;

/// Offset of the 64-bit word {FirstFreeEntryIndex, WraparoundCount}, as a fence log has it ([`log::position`], [`log::total`]).
pub const POSITION_OFFSET: u64 = 0;
/// Offset of the 64-bit NumberOfEntries.
pub const ENTRIES_OFFSET: u64 = 8;

// spec: sync §4.2
const _: () = assert!(HEADER_BYTES + 8 == log::HEADER_BYTES && entries(4096) == 127, "32 bytes, no Type");
const _: () = assert!(POSITION_OFFSET == log::POSITION_OFFSET, "the idea of sync §2.7");

/// Entries that a buffer of so many bytes has room for.
pub const fn entries(bytes: u64) -> u64 {
    (bytes - HEADER_BYTES) / ENTRY_BYTES
}

/// Offset of the entry at ring index `index`.
pub const fn entry_offset(index: u64) -> u64 {
    HEADER_BYTES + ENTRY_BYTES * index
}

/// Offsets of an entry's fields.
pub mod entry {
    /// UINT64 GpuTimeStamp.
    pub const TIME: u64 = 0;
    /// OperationType in the low half; the high half is reserved.
    pub const OPERATION: u64 = 8;
    /// HANDLE hKmdContext.
    pub const CONTEXT: u64 = 16;
    /// newContextState in the low half, padding above it.
    pub const STATE: u64 = 24;
}

/// `DXGK_SCHEDULING_LOG_OPERATION_CONTEXT_STATE_CHANGE`, the only one.
pub const CONTEXT_STATE_CHANGE: u64 = 0;

/// `DXGK_SCHEDULING_LOG_CONTEXT_STATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextState {
    /// 0: it has nothing that could run.
    Idle = 0,
    /// 1: the engine executes for it.
    Running = 1,
    /// 2: it has work, and another one has the engine.
    Ready = 2,
    /// 3: it is on the engine beside the one that runs, which only some hardware has.
    ReadyStandby = 3,
}

impl ContextState {
    /// The state of a hardware's word; `None`: no known state.
    pub const fn from_word(word: u64) -> Option<ContextState> {
        match word & 0xffff_ffff {
            0 => Some(ContextState::Idle),
            1 => Some(ContextState::Running),
            2 => Some(ContextState::Ready),
            3 => Some(ContextState::ReadyStandby),
            _ => None,
        }
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When, by the node's clock.
    pub time: u64,
    /// The driver's handle of the context.
    pub context: u64,
    /// The context's state from then on.
    pub state: ContextState,
}

impl Entry {
    /// Its words, in the order of their offsets.
    pub const fn words(self) -> [u64; 4] {
        [self.time, CONTEXT_STATE_CHANGE, self.context, self.state as u64]
    }

    /// The entry of these words; `None`: no known operation or state.
    pub fn from_words([time, operation, context, state]: [u64; 4]) -> Option<Entry> {
        let state = ContextState::from_word(state).filter(|_| operation & 0xffff_ffff == CONTEXT_STATE_CHANGE)?;
        Some(Entry { time, context, state })
    }
}

/// Writes the entry behind the first `written` ones, and counts it.
// spec: sync §4.2, sync §2.7
pub fn write<E: Word>(entry: &[E; 4], position: &impl Word, words: [u64; 4], written: u64, entries: u64) {
    log::write_entry(entry, position, words, log::position(written + 1, entries));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn an_entry_has_its_published_layout() {
        // spec: sync §4.2
        assert_eq!([entry::TIME, entry::OPERATION, entry::CONTEXT, entry::STATE], [0, 8, 16, 24]);
        assert_eq!((HEADER_BYTES, ENTRY_BYTES, entry_offset(0), entry_offset(126)), (32, 32, 32, 4064));
        let entry = Entry { time: 7, context: 9, state: ContextState::Ready };
        assert_eq!(entry.words(), [7, 0, 9, 2]);
        assert_eq!(Entry::from_words([7, 5 << 32, 9, 6 << 32 | 2]), Some(entry), "what is reserved says nothing");
        assert_eq!(Entry::from_words([7, 1, 9, 2]), None);
        assert_eq!(Entry::from_words([7, 0, 9, 4]), None);
        for state in [ContextState::Idle, ContextState::Running, ContextState::Ready, ContextState::ReadyStandby] {
            assert_eq!(ContextState::from_word(state as u64), Some(state));
        }
    }

    #[test]
    fn entries_in_memory_follow_each_other_and_the_header_counts_them() {
        // spec: sync §4.2, sync §2.7
        let memory = Memory::reserve(4096).expect("a buffer");
        Word::store(memory.word(ENTRIES_OFFSET), entries(4096));
        let position = memory.word(POSITION_OFFSET);
        for written in 0..128 {
            let at = entry_offset(written % 127);
            let fields =
                [entry::TIME, entry::OPERATION, entry::CONTEXT, entry::STATE].map(|field| memory.word(at + field));
            let entry = Entry { time: 1000 + written, context: 9, state: ContextState::ReadyStandby };
            write(&fields, &position, entry.words(), written, 127);
            let counted = if written < 126 { written + 1 } else { 1 << 32 | (written - 126) };
            assert_eq!(Word::load(memory.word(0)), counted, "behind {written} others");
        }
        let load = |at: u64| Word::load(memory.word(at));
        assert_eq!([8, 16, 24].map(load), [127, 0, 0]);
        for (at, time) in [(32, 1127), (64, 1001), (4064, 1126)] {
            assert_eq!([0, 8, 16, 24].map(|field| load(at + field)), [time, 0, 9, 3], "{at}");
        }
        assert_eq!([entries(32), entries(63), entries(64), entries(4096), entries(8192)], [0, 0, 1, 127, 255]);
    }
}
