//! The arithmetic of a log: entries read, lost, or perhaps overwritten meanwhile.

use super::*;

const ENTRIES: u64 = 5;

fn log(memory: &Memory) -> Log {
    Log::begin(memory, 4096, wddm_types::GpuVa(0), wddm_types::GpuVa(0), ENTRIES, log::SIGNALS)
}

/// An engine's store of an entry and then of the header.
fn write(memory: &Memory, number: u64) {
    let at = 4096 + log::entry_offset(number % ENTRIES);
    Word::store(memory.word(at + log::entry::FENCE_VALUE), number);
    Word::store(memory.word(4096), log::position(number + 1, ENTRIES));
}

#[test]
fn what_is_lost_is_counted_exactly_and_the_rest_is_read_in_order() {
    // spec: sync §3.14 (overrun), sync §3.19 item 8, sync §6 C6
    // seed: N104
    let memory = Memory::reserve(16 * 4096).unwrap();
    let mut log = log(&memory);
    let (mut written, mut seed) = (0, 7u64);
    for _ in 0..100_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let fresh = (seed >> 33) % 13;
        (written..written + fresh).for_each(|number| write(&memory, number));
        written += fresh;
        let new = log.written(&memory);
        assert_eq!(new, written);
        let taken = log.take(&memory, new);
        let lost = fresh.saturating_sub(ENTRIES);
        assert_eq!(taken.lost, lost);
        let read: Vec<u64> = taken.entries.iter().map(|(_, entry)| entry.value).collect();
        assert_eq!(read, Vec::from_iter(written - fresh + lost..written));
        assert_eq!(taken.complete, fresh < ENTRIES, "of a full log the oldest entry may be about to be overwritten");
    }
    assert!(written > ENTRIES << 10, "it has wrapped often");
}

#[test]
fn one_wrap_with_no_more_entries_than_fit_loses_nothing() {
    // spec: sync §3.14 (overrun), sync §6 C6
    let memory = Memory::reserve(16 * 4096).unwrap();
    let mut log = log(&memory);
    (0..4).for_each(|number| write(&memory, number));
    log.take(&memory, 4);
    (4..9).for_each(|number| write(&memory, number));
    assert_eq!(Word::load(memory.word(4096)) >> 32, 1, "the wrap count has changed");
    let taken = log.take(&memory, 9);
    assert_eq!((taken.lost, taken.entries.len()), (0, 5));
}

#[test]
fn entries_that_were_overwritten_while_they_were_read_are_lost() {
    // spec: sync §3.14 (overrun)
    let memory = Memory::reserve(16 * 4096).unwrap();
    let mut log = log(&memory);
    (0..4).for_each(|number| write(&memory, number));
    let new = log.written(&memory);
    // Two more: entries 0 is overwritten, and the engine may be writing where entry 1 is.
    (4..6).for_each(|number| write(&memory, number));
    let taken = log.take(&memory, new);
    assert_eq!(taken.entries.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((taken.lost, taken.complete), (2, false));
    let next = log.take(&memory, 6);
    assert_eq!(next.entries.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [4, 5], "each once");
}

#[test]
fn a_header_that_goes_back_tells_nothing() {
    // spec: sync §3.14 (validation)
    let memory = Memory::reserve(16 * 4096).unwrap();
    let mut log = log(&memory);
    (0..9).for_each(|number| write(&memory, number));
    log.take(&memory, 9);
    for wild in [log::position(2, ENTRIES), u64::from(u32::MAX), u64::MAX, 0] {
        Word::store(memory.word(4096), wild);
        let new = log.written(&memory);
        let taken = log.take(&memory, new);
        assert!(taken.entries.len() as u64 <= ENTRIES && !taken.complete, "{wild:#x}: {taken:?}");
    }
}
