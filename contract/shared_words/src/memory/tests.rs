//! Bytes and words of a memory, and the mapping that they lie in.

use super::*;
use crate::Word;
use crate::program_map::parts_there;

#[test]
fn untouched_memory_is_zero_and_costs_only_addresses() {
    let memory = Memory::reserve(1 << 40).expect("a terabyte of addresses");
    let mut bytes = [1u8; 64];
    memory.read((1 << 40) - 64, &mut bytes);
    assert_eq!(bytes, [0; 64]);
}

#[test]
fn words_and_bytes_agree() {
    let memory = Memory::reserve(8192).unwrap();
    memory.write(4096, &0x0123_4567_89ab_cdefu64.to_le_bytes());
    assert_eq!(Word::load(memory.word(4096)), 0x0123_4567_89ab_cdef);
    memory.fill(0, 16, 0xdead_beef);
    assert_eq!(Word::load(memory.word(8)), 0xdead_beef_dead_beef);
    memory.copy_from(4096, &memory, 0, 16);
    assert_eq!(memory.scan_words(4096, 3, |_, word| word == 0xdead_beef_dead_beef), Some(2));
}

#[test]
#[should_panic(expected = "no word")]
fn a_word_outside_is_refused() {
    let memory = Memory::reserve(4096).unwrap();
    let _ = memory.word(4096);
}

/// How often a file is mapped in this process.
pub(crate) fn mappings_of(file: impl std::os::fd::AsFd) -> usize {
    let inode = rustix::fs::fstat(file).expect("a file").st_ino;
    let all = parts_there(0, 1 << 47).expect("the mappings of this process");
    all.iter().filter(|part| part.shared && part.of.1 == inode).count()
}

#[test]
fn a_memory_that_is_dropped_leaves_no_mapping() {
    let memory = Memory::reserve_file(3 * 4096).expect("a memory file");
    let file = memory.file().expect("it is one").try_clone().expect("a descriptor");
    assert_eq!(mappings_of(&file), 1);
    drop(memory);
    assert_eq!(mappings_of(&file), 0);
}

#[test]
fn words_from_an_offset_on_are_those_of_the_memory() {
    let memory = Memory::reserve(4096).expect("a page");
    memory.store_words(0, 512, |word| 1000 + word);
    let words = memory.words(16, 3);
    assert_eq!(words.iter().map(Word::load).collect::<Vec<_>>(), [1002, 1003, 1004]);
    Word::store(&words[2], 7);
    assert_eq!(Word::load(memory.word(32)), 7, "the same words");
    assert_eq!((memory.words(0, 512).len(), memory.words(4096, 0).len()), (512, 0));
}

#[test]
fn words_outside_are_refused() {
    let memory = Memory::reserve(4096).expect("a page");
    for (offset, count) in [(4, 1), (4088, 2), (0, 513), (0, 1 << 61), (4104, 0)] {
        let outside = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| memory.words(offset, count).len()));
        assert!(outside.is_err(), "{count} words at {offset}");
    }
}

#[test]
fn a_fill_repeats_its_pattern_and_ends_where_it_is_told() {
    let memory = Memory::reserve(4096).expect("a page");
    for (pattern, word) in [(0x0102_0304, 0x0102_0304_0102_0304), (0x5555_5555, 0x5555_5555_5555_5555)] {
        memory.fill(0, 4096, 0);
        memory.fill(4, 16, pattern);
        let low = u64::from(pattern);
        assert_eq!([0, 8, 16, 24].map(|at| Word::load(memory.word(at))), [low << 32, word, low, 0]);
    }
}

#[test]
fn a_memory_and_its_refusal_say_their_size() {
    let memory = Memory::reserve(4097).expect("two pages");
    assert_eq!(format!("{memory:?}"), "Memory(8192 bytes)");
    let refused = Memory::reserve(1 << 60).expect_err("no process has so many addresses");
    assert_eq!(
        refused.to_string(),
        "the operating system refused 1152921504606846976 bytes of memory or addresses: Cannot allocate memory (os error 12)"
    );
}
