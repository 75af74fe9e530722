//! The fence log's layout (sync §2.7): a header of 40 bytes and entries of 48 in a 4-KB buffer.
//!
//! The GPU writes entries in index order and then the header word; the reader takes the header word in one load,
//! asks the driver to commit the entries, and only then reads them (sync §3.14).

use crate::word::Word;

/// Bytes of one log buffer.
pub const LOG_BYTES: u64 = 4096;
/// Bytes of the header.
pub const HEADER_BYTES: u64 = 40;
/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 48;
/// Entries of a 4-KB buffer (sync §2.7).
pub const LOG_ENTRIES: u64 = entries(LOG_BYTES);

const _: () = assert!(LOG_ENTRIES == 84, "sync §2.7 gives 84 entries");

/// Offset of the 64-bit word {FirstFreeEntryIndex, WraparoundCount}.
pub const POSITION_OFFSET: u64 = 0;

/// Offset of the header's Type: [`WAITS`], [`SIGNALS`] or [`SUBMISSIONS`].
pub const TYPE_OFFSET: u64 = 8;

/// Offset of the 64-bit NumberOfEntries.
pub const ENTRIES_OFFSET: u64 = 16;

/// `DXGK_NATIVE_FENCE_LOG_TYPE_WAITS`.
pub const WAITS: u32 = 1;
/// `DXGK_NATIVE_FENCE_LOG_TYPE_SIGNALS`.
pub const SIGNALS: u32 = 2;

/// A further type, which is there only while a tool has switched it on: the queue's submissions that have begun. No published log has it;
/// this type is ours.
// spec: sync §3.14, sync §6 C13
pub const SUBMISSIONS: u32 = 3;

/// Entries that a buffer of so many bytes has room for.
pub const fn entries(bytes: u64) -> u64 {
    (bytes - HEADER_BYTES) / ENTRY_BYTES
}

/// Offset of the entry at ring index `index`.
pub const fn entry_offset(index: u64) -> u64 {
    HEADER_BYTES + ENTRY_BYTES * index
}

/// The header word after `total` entries were written into a ring of `entries`.
pub const fn position(total: u64, entries: u64) -> u64 {
    (total / entries) << 32 | (total % entries)
}

/// The header word behind the next entry, by what the header says: the word as it is and its count of entries. Behind the last entry the
/// index is 0 again and the wraps are one more, in one word. A header that says what no header can goes on from there all the same: the
/// reader of the log judges it.
// spec: sync §2.7, sync §3.14
pub const fn advanced(position: u64, entries: u64) -> u64 {
    let (wraps, index) = (position >> 32, (position & 0xffff_ffff) + 1);
    if index < entries { wraps << 32 | index } else { wraps.wrapping_add(1) << 32 }
}

/// The count of entries ever written, from the header word.
pub const fn total(position: u64, entries: u64) -> u64 {
    (position >> 32) * entries + (position & 0xffff_ffff)
}

/// Writes an entry, its words first, then the position word that announces it, by single 64-bit stores. There is no barrier between:
/// the reader has the entries committed before it looks at them (sync §3.14).
// spec: sync §3.14
pub fn write_entry<E: Word, const N: usize>(entry: &[E; N], position: &impl Word, words: [u64; N], announced: u64) {
    for (place, word) in entry.iter().zip(words) {
        place.store(word);
    }
    position.store(announced);
}

/// Offsets of an entry's fields.
pub mod entry {
    /// UINT64 FenceValue.
    pub const FENCE_VALUE: u64 = 0;
    /// D3DKMT_HANDLE hNativeFence in the low half, OperationType in the high half.
    pub const HANDLE_AND_OPERATION: u64 = 8;
    /// UINT64 FenceObservedGpuTimestamp.
    pub const OBSERVED: u64 = 24;
    /// UINT64 FenceEndGpuTimestamp.
    pub const END: u64 = 40;
}

/// `DXGK_NATIVE_FENCE_LOG_OPERATION_SIGNAL_EXECUTED`.
pub const SIGNAL_EXECUTED: u32 = 0;
/// `DXGK_NATIVE_FENCE_LOG_OPERATION_WAIT_UNBLOCKED`.
pub const WAIT_UNBLOCKED: u32 = 1;
/// An entry of the [`SUBMISSIONS`] log: the submission that brings the progress fence to this value has begun.
pub const SUBMISSION_BEGUN: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use std::cell::RefCell;

    #[test]
    fn a_position_counts_on_through_the_wrap() {
        // spec: sync §3.14
        // seed: N104
        for written in [0, 1, 83, 84, 85, 168, 1_000_003] {
            assert_eq!(total(position(written, LOG_ENTRIES), LOG_ENTRIES), written);
        }
        assert_eq!(position(84, LOG_ENTRIES), 1 << 32, "passing the last entry returns to index 0 with one wrap");
        for written in [0, 1, 82, 83, 84, 167, 168] {
            assert_eq!(advanced(position(written, LOG_ENTRIES), LOG_ENTRIES), position(written + 1, LOG_ENTRIES));
        }
        // Headers that no kernel has written.
        assert_eq!([advanced(7, 0), advanced(u64::MAX, 84), advanced(0xffff_ffff, u64::MAX)], [1 << 32, 0, 1 << 32]);
        assert_eq!([advanced(0x1_ffff_ffff, u64::MAX), position(3 << 32, 2 << 32)], [1 << 32; 2]);
    }

    #[test]
    fn a_buffer_in_memory_has_the_published_layout() {
        // spec: sync §2.7
        let memory = Memory::reserve(LOG_BYTES).expect("a buffer");
        Word::store(memory.word(TYPE_OFFSET), SIGNALS.into());
        Word::store(memory.word(ENTRIES_OFFSET), LOG_ENTRIES);
        let position_word = memory.word(POSITION_OFFSET);
        for written in 0..85 {
            let at = entry_offset(written % LOG_ENTRIES);
            let fields = [entry::FENCE_VALUE, entry::HANDLE_AND_OPERATION, entry::OBSERVED, entry::END];
            let words = [1000 + written, u64::from(WAIT_UNBLOCKED) << 32 | 77, 5, 9];
            write_entry(&fields.map(|field| memory.word(at + field)), &position_word, words, position(written + 1, 84));
        }
        let load = |at: u64| Word::load(memory.word(at));
        assert_eq!([0, 8, 16].map(load), [1 << 32 | 1, 2, 84], "85 entries: one wrap, and the next is entry 1");
        // Entry 0 has been written twice; entry 1 begins at 88, entry 83 ends 24 bytes before the buffer does.
        for (at, value) in [(40, 1084), (88, 1001), (4024, 1083)] {
            assert_eq!([0, 8, 16, 24, 32, 40].map(|field| load(at + field)), [value, 1 << 32 | 77, 0, 5, 0, 9], "{at}");
        }
        assert_eq!([24, 32, 4072, 4080, 4088].map(load), [0; 5], "what is reserved stays");
        assert_eq!((WAITS, SIGNALS, SUBMISSIONS), (1, 2, 3));
        assert_eq!((SIGNAL_EXECUTED, WAIT_UNBLOCKED, SUBMISSION_BEGUN), (0, 1, 2));
        assert_eq!([entries(40), entries(87), entries(88), entries(4096), entries(8192)], [0, 0, 1, 84, 169]);
    }

    #[test]
    fn an_entry_is_whole_before_the_header_announces_it() {
        // spec: sync §3.14
        let stored = RefCell::new(Vec::new());
        let word = |number: usize| Noted(number, &stored);
        write_entry(&[word(0), word(1), word(2)], &word(9), [10, 11, 12], 13);
        assert_eq!(*stored.borrow(), [(0, 10), (1, 11), (2, 12), (9, 13)]);
    }

    /// A word that notes the stores to it.
    struct Noted<'a>(usize, &'a RefCell<Vec<(usize, u64)>>);

    impl Word for Noted<'_> {
        fn load(&self) -> u64 {
            unreachable!("the writer of a log reads none of it")
        }
        fn store(&self, value: u64) {
            self.1.borrow_mut().push((self.0, value));
        }
    }
}
