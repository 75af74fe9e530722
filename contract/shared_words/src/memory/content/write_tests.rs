//! An operating system that writes a part of a run at a time, or nothing: the content comes whole, or stays where it was.
#![allow(unsafe_code)] // The test does writes of another thread.

use std::os::fd::AsFd;

use super::*;
use crate::supervised::supervised;

const PAGE: u64 = 4096;
const RUNS: [(u64, u64); 2] = [(PAGE, PAGE), (3 * PAGE, 2 * PAGE)];

fn memory() -> Arc<Memory> {
    let memory = Memory::reserve_file(8 * PAGE).expect("a memory file");
    memory.store_words(0, 8 * 512, |word| word + 1);
    memory
}

/// The most bytes of a write.
const MOST: u64 = 3000;

/// Does a part of a write, as its thread asked for it.
fn write_part([file, from, bytes, at, ..]: [u64; 6]) -> Option<i64> {
    // SAFETY: the arguments of a write that the thread is in.
    let written = unsafe { libc::pwrite(file as i32, from as *const _, bytes.min(MOST) as usize, at as i64) };
    assert_eq!(written, bytes.min(MOST) as isize);
    Some(written as i64)
}

// spec: memory §6.3
#[test]
fn content_is_lent_whole_when_the_operating_system_writes_parts() {
    let (memory, mut asked) = (memory(), Vec::new());
    let file = LentFile::arena_of_content(&memory).expect("a descriptor");
    let answer = |arguments: [u64; 6]| {
        asked.push((arguments[2], arguments[3]));
        // A signal may come first.
        if asked.len() % 3 == 2 { Some(-i64::from(libc::EINTR)) } else { write_part(arguments) }
    };
    let lends = supervised(libc::SYS_pwrite64, answer, || memory.lend_content(&file, &RUNS));
    lends.expect("no panic").expect("room");
    let first = [(4096, 0), (1096, 3000), (1096, 3000)];
    assert_eq!(asked, [&first[..], &[(8192, 4096), (5192, 7096), (5192, 7096), (2192, 10096)]].concat());
    let theirs =
        Memory::from_file(file.as_fd().try_clone_to_owned().expect("a descriptor"), 3 * PAGE).expect("a mapping");
    let held = |word: u64| word % 512 + 1 + [1, 3, 4][word as usize / 512] * 512;
    assert_eq!(theirs.scan_words(0, 3 * 512, |word, found| found == held(word)), None);
    assert_eq!(memory.scan_words(0, 8 * 512, |word, found| found == word + 1), None, "the memory shows it, too");
    memory.word(PAGE).store(77, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(crate::Word::load(theirs.word(0)), 77, "the same pages");
}

// spec: memory §6.3
#[test]
fn content_stays_where_it_is_when_the_operating_system_writes_no_more() {
    for (answer, source) in [(0, Errno::NOSPC), (-i64::from(libc::EFBIG), Errno::FBIG)] {
        let (memory, mut writes) = (memory(), 0);
        let arena = LentFile::arena_of_content(&memory).expect("a descriptor");
        // The first run's write goes well, and the first part of the second's.
        let answers = |arguments: [u64; 6]| {
            writes += 1;
            if writes == 4 { Some(answer) } else { write_part(arguments) }
        };
        let refused = supervised(libc::SYS_pwrite64, answers, || memory.lend_content(&arena, &RUNS)).expect("no panic");
        let refused = refused.expect_err("the operating system writes no more");
        assert_eq!((refused.source, refused.bytes), (source, 3 * PAGE));
        assert!((0..8).all(|page| memory.lent_at(page * PAGE).is_none()));
        assert_eq!(memory.scan_words(0, 8 * 512, |word, found| found == word + 1), None);
        // It goes on being written, and lent.
        memory.store_words(0, 8 * 512, |word| word + 2);
        memory.lend_content(&arena, &RUNS).expect("the operating system writes again");
        assert_eq!(memory.scan_words(0, 8 * 512, |word, found| found == word + 2), None);
    }
}

#[test]
fn a_memory_without_a_file_lends_no_content() {
    assert!(!Memory::reserve(PAGE).expect("memory").lends_content());
    assert!(Memory::reserve_file(PAGE).expect("a memory file").lends_content());
}

// spec: memory §6.3
#[test]
fn neighbours_are_lent_and_taken_back_by_themselves() {
    let memory = memory();
    let first = LentFile::arena_of_content(&memory).expect("a descriptor");
    memory.lend_content(&first, &[(PAGE, PAGE)]).expect("room");
    memory.lend_content(&first, &[(2 * PAGE, PAGE)]).expect("the page behind it is not lent");
    memory.take_content_back(2 * PAGE, 2 * PAGE).expect("the one that is lent");
    memory.take_content_back(2 * PAGE, PAGE).expect("there is none");
    let lent = memory.lent_at(PAGE).expect("it is still lent");
    assert!(Arc::ptr_eq(&lent.file, &first) && (lent.offset, lent.bytes) == (PAGE, PAGE));
    assert!(memory.lent_at(2 * PAGE).is_none());
    assert_eq!(memory.scan_words(0, 8 * 512, |word, found| found == word + 1), None);
}
