//! The lane from one GPU to another (sync §3.18): a GPU that signals a fence that both have writes the fence down there, and rings.
//!
//! Each GPU has an inbox, a page of system memory with a lane for every other. A lane has one writer and one reader.
//!
//! | writer | reader, when rung |
//! |---|---|
//! | store CurrentValue, full barrier | |
//! | record {fence, value}, then `written` | `written`, then the record, then `read` |
//! | no room: `overflow` counts up | `overflow` has counted up: look at every fence |
//! | full barrier, ring | full barrier, look at the queues that are parked on the fence |
//!
//! Nothing is ever lost: a record without room makes the reader look at everything, and a ring follows each write. No process reaches an
//! inbox, so a fence's number needs not be secret.

use crate::Memory;
use crate::word::Word;

/// Bytes of a lane.
pub const LANE_BYTES: u64 = 256;
/// Bytes of an inbox.
pub const INBOX_BYTES: u64 = 4096;
/// Lanes of an inbox: most GPUs that know each other.
pub const LANES: u64 = INBOX_BYTES / LANE_BYTES;
/// Records of a lane.
pub const RECORDS: u64 = 8;

const WRITTEN_OFFSET: u64 = 0;
const READ_OFFSET: u64 = 8;
const OVERFLOW_OFFSET: u64 = 16;
const RECORDS_OFFSET: u64 = 64;

const _: () = assert!(RECORDS_OFFSET + RECORDS * 16 <= LANE_BYTES, "the records fit a lane");

/// The words of a lane.
pub trait Lane {
    /// The words of the lane.
    type Word: Word;
    /// Records written in all; the writer's.
    fn written(&self) -> Self::Word;
    /// Records read in all; the reader's.
    fn read(&self) -> Self::Word;
    /// How often there was no room; the writer's.
    fn overflow(&self) -> Self::Word;
    /// Fence and value of the record at an index; the writer's.
    fn record(&self, index: u64) -> [Self::Word; 2];
    /// How many records there are.
    fn records(&self) -> u64;
}

/// A lane of an inbox in memory, whose words `word` reaches by their offset there.
#[derive(Clone, Copy)]
pub struct MemoryLane<F> {
    word: F,
    offset: u64,
}

impl<W: Word, F: Fn(u64) -> W> MemoryLane<F> {
    /// The lane of a writer in the inbox at `inbox`; `None` where there is none.
    pub fn new(memory: &Memory, inbox: u64, writer: u64, word: F) -> Option<MemoryLane<F>> {
        let sound = writer < LANES && inbox.is_multiple_of(INBOX_BYTES) && memory.contains(inbox, INBOX_BYTES);
        sound.then(|| MemoryLane { word, offset: inbox + writer * LANE_BYTES })
    }
}

impl<W: Word, F: Fn(u64) -> W> Lane for MemoryLane<F> {
    type Word = W;

    fn written(&self) -> W {
        (self.word)(self.offset + WRITTEN_OFFSET)
    }

    fn read(&self) -> W {
        (self.word)(self.offset + READ_OFFSET)
    }

    fn overflow(&self) -> W {
        (self.word)(self.offset + OVERFLOW_OFFSET)
    }

    fn record(&self, index: u64) -> [W; 2] {
        let at = self.offset + RECORDS_OFFSET + index % RECORDS * 16;
        [(self.word)(at), (self.word)(at + 8)]
    }

    fn records(&self) -> u64 {
        RECORDS
    }
}

/// The answer to the reader of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// This fence was signalled with this value.
    Fence {
        /// Its number.
        fence: u64,
        /// The value; CurrentValue may be greater by now.
        value: u64,
    },
    /// Any was.
    Any,
}

/// The writer's side, one writer at a time, behind the store of CurrentValue. The caller rings when it returns.
// spec: sync §3.18
pub fn post(full: impl FnOnce(), lane: &impl Lane, fence: u64, value: u64) {
    let written = lane.written().load();
    if written.wrapping_sub(lane.read().load()) < lane.records() {
        let [to_fence, to_value] = lane.record(written % lane.records());
        to_fence.store(fence);
        to_value.store(value);
        lane.written().store(written.wrapping_add(1));
    } else {
        lane.overflow().store(lane.overflow().load().wrapping_add(1));
    }
    full();
}

/// The reader's side, one reader at a time, after a ring. `overflows`: how many it has seen.
// spec: sync §3.18
pub fn drain(full: impl FnOnce(), lane: &impl Lane, overflows: &mut u64, mut posted: impl FnMut(Posted)) {
    full();
    // A lane holds so many at most: a writer that is wrong about what it wrote does not keep the reader.
    for _ in 0..lane.records() {
        let read = lane.read().load();
        if read == lane.written().load() {
            break;
        }
        let [fence, value] = lane.record(read % lane.records()).map(|word| word.load());
        lane.read().store(read.wrapping_add(1));
        posted(Posted::Fence { fence, value });
    }
    let now = lane.overflow().load();
    if std::mem::replace(overflows, now) != now {
        posted(Posted::Any);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::{Barrier, HardwareBarrier};
    use std::sync::atomic::AtomicU64;

    fn drained(lane: &impl Lane, overflows: &mut u64) -> Vec<Posted> {
        let mut all = Vec::new();
        drain(HardwareBarrier::full, lane, overflows, |posted| all.push(posted));
        all
    }

    #[test]
    fn what_is_posted_is_drained_in_order_and_what_has_no_room_is_any() {
        // spec: sync §3.18
        let memory = Memory::reserve(2 * INBOX_BYTES).expect("addresses");
        let lane = MemoryLane::new(&memory, INBOX_BYTES, 3, |at| memory.word(at)).expect("a lane");
        let mut overflows = 0;
        for round in 0..5 {
            for value in 0..RECORDS {
                post(HardwareBarrier::full, &lane, round, value);
            }
            let expected: Vec<Posted> = (0..RECORDS).map(|value| Posted::Fence { fence: round, value }).collect();
            assert_eq!(drained(&lane, &mut overflows), expected);
            assert_eq!(drained(&lane, &mut overflows), []);
        }
        for value in 0..RECORDS + 2 {
            post(HardwareBarrier::full, &lane, 9, value);
        }
        let all = drained(&lane, &mut overflows);
        assert_eq!((all.len() as u64, all.last()), (RECORDS + 1, Some(&Posted::Any)));
        assert_eq!(drained(&lane, &mut overflows), [], "once");
        // The neighbour's lane has none of it.
        let neighbour = MemoryLane::new(&memory, INBOX_BYTES, 4, |at| memory.word(at)).expect("a lane");
        assert_eq!(drained(&neighbour, &mut 0), []);
    }

    #[test]
    fn there_are_lanes_in_whole_pages_of_memory_only() {
        let memory = Memory::reserve(INBOX_BYTES).expect("addresses");
        assert!(MemoryLane::new(&memory, 0, LANES - 1, |at| memory.word(at)).is_some());
        for (inbox, writer) in [(0, LANES), (8, 0), (INBOX_BYTES, 0), (u64::MAX - 4095, 0)] {
            assert!(MemoryLane::new(&memory, inbox, writer, |at| memory.word(at)).is_none(), "{inbox:#x} {writer}");
        }
    }

    #[test]
    fn a_lane_in_memory_lies_where_both_sides_find_it() {
        // spec: sync §3.18
        assert_eq!((LANES, RECORDS), (16, 8));
        let memory = Memory::reserve(2 * 4096).expect("addresses");
        let lane = MemoryLane::new(&memory, 4096, 3, |at| memory.word(at)).expect("a lane");
        assert_eq!(lane.records(), 8);
        // The inbox, three lanes, and then the words of this one.
        let at = 4096 + 3 * 256;
        for (number, word) in [lane.written(), lane.read(), lane.overflow()].into_iter().enumerate() {
            Word::store(word, 100 + number as u64);
            assert_eq!(Word::load(memory.word(at + 8 * number as u64)), 100 + number as u64);
        }
        for index in 0..16 {
            lane.record(index)
                .into_iter()
                .zip([200 + index, 300 + index])
                .for_each(|(word, value)| Word::store(word, value));
            let place = at + 64 + index % 8 * 16;
            assert_eq!([place, place + 8].map(|at| Word::load(memory.word(at))), [200 + index, 300 + index], "{index}");
        }
        let used = |word: u64| [0, 1, 2].contains(&word) || (8..24).contains(&word);
        assert_eq!(memory.scan_words(at, 32, |word, found| (found != 0) == used(word)), None);
        let others = [(4096, 96), (at + 256, 12 * 32)];
        assert!(others.iter().all(|(at, count)| memory.scan_words(*at, *count, |_, found| found == 0).is_none()));
    }

    /// A lane of three records, whose words note what is stored there; there is no other record.
    #[derive(Default)]
    struct Small {
        words: [AtomicU64; 3],
        records: [[AtomicU64; 2]; 3],
    }

    impl<'a> Lane for &'a Small {
        type Word = &'a AtomicU64;
        fn written(&self) -> &'a AtomicU64 {
            &self.words[0]
        }
        fn read(&self) -> &'a AtomicU64 {
            &self.words[1]
        }
        fn overflow(&self) -> &'a AtomicU64 {
            &self.words[2]
        }
        fn record(&self, index: u64) -> [&'a AtomicU64; 2] {
            self.records[index as usize].each_ref()
        }
        fn records(&self) -> u64 {
            3
        }
    }

    #[test]
    fn a_lane_counts_on_through_its_records_and_what_it_has_no_room_for() {
        // spec: sync §3.18
        let lane = &Small::default();
        let mut overflows = 0;
        for round in 0..4 {
            (0..2).for_each(|value| post(|| (), &lane, round, value));
            assert_eq!(lane.words.each_ref().map(Word::load), [2 * round + 2, 2 * round, 0]);
            let expected = [0, 1].map(|value| Posted::Fence { fence: round, value });
            assert_eq!(drained(&lane, &mut overflows), expected);
        }
        // Eight written and read: three more have room, the fourth and the fifth have none and change no record.
        (0..5).for_each(|value| post(|| (), &lane, 7, value));
        assert_eq!(lane.words.each_ref().map(Word::load), [11, 8, 2]);
        let record = |index: usize| lane.records[index].each_ref().map(Word::load);
        assert_eq!([2, 0, 1].map(record), [[7, 0], [7, 1], [7, 2]]);
        let all = [0, 1, 2].map(|value| Posted::Fence { fence: 7, value });
        assert_eq!(drained(&lane, &mut overflows), [&all[..], &[Posted::Any]].concat());
        assert_eq!((overflows, lane.words.each_ref().map(Word::load)), (2, [11, 11, 2]));
        // A writer that says more than a lane holds does not keep the reader.
        Word::store(&lane.words[0], u64::MAX);
        assert_eq!(drained(&lane, &mut overflows).len(), 3);
    }
}
