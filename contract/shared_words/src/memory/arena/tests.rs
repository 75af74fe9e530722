//! Pages of several processes in one memory, each process's in an arena: what each sees, what it cannot reach, and what an arena costs.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, open};

use super::*;
use crate::memory::tests::mappings_of;
use crate::{ReadOnlyMemory, Word};

const PAGE: u64 = 4096;

/// A process with an arena of its own, which it maps whole.
struct Process {
    arena: Arc<LentFile>,
    sees: Arc<Memory>,
}

impl Process {
    fn of(arena: Arc<LentFile>) -> Process {
        let received: OwnedFd = arena.as_fd().try_clone_to_owned().expect("another descriptor");
        let sees = Memory::from_file(received, arena.bytes()).expect("it maps what it was handed");
        Process { arena, sees }
    }

    fn new(memory: &Memory) -> Process {
        Process::of(LentFile::arena(memory).expect("a descriptor"))
    }
}

fn word(page: u64) -> u64 {
    page * PAGE
}

#[test]
fn a_process_sees_its_own_pages_at_their_place_and_no_other_s() {
    for memory in [Memory::reserve(8 * PAGE), Memory::reserve_file(8 * PAGE)].map(|memory| memory.expect("memory")) {
        memory.fill(0, 8 * PAGE, 0x7777_7777);
        let [one, other] = [0; 2].map(|_| Process::new(&memory));
        memory.lend_from(&one.arena, &[(word(1), PAGE), (word(4), 2 * PAGE)]).expect("a mapping");
        memory.lend_from(&other.arena, &[(word(2), 2 * PAGE)]).expect("a mapping");
        for page in 1..6 {
            assert_eq!(memory.scan_words(word(page), 512, |_, found| found == 0), None, "page {page} is fresh");
            Word::store(memory.word(word(page)), 100 + page);
        }
        let seen = |process: &Process| (0..8).map(|page| Word::load(process.sees.word(word(page)))).collect::<Vec<_>>();
        assert_eq!(seen(&one), [0, 101, 0, 0, 104, 105, 0, 0]);
        assert_eq!(seen(&other), [0, 0, 102, 103, 0, 0, 0, 0]);
        // A process that stores all over its arena changes its own pages.
        one.sees.fill(0, 8 * PAGE, 0x1111_1111);
        let held = |page: u64| Word::load(memory.word(word(page)));
        let (plain, own) = (0x7777_7777_7777_7777, 0x1111_1111_1111_1111);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(held), [plain, own, 102, 103, own, own, plain, plain]);
        assert_eq!(seen(&other), [0, 0, 102, 103, 0, 0, 0, 0]);
    }
}

#[test]
fn pages_that_return_and_are_lent_again_are_fresh_whatever_their_process_stored_meanwhile() {
    let memory = Memory::reserve_file(4 * PAGE).expect("a memory file");
    let [one, other] = [0; 2].map(|_| Process::new(&memory));
    memory.lend_from(&one.arena, &[(word(1), 2 * PAGE)]).expect("a mapping");
    memory.fill(word(1), 2 * PAGE, 0x2222_2222);
    memory.take_back(word(1), PAGE).expect("a mapping");
    assert_eq!(Word::load(one.sees.word(word(1))), 0, "what was there has gone");
    assert_eq!(Word::load(one.sees.word(word(2))), 0x2222_2222_2222_2222, "its neighbour is still lent");
    one.sees.fill(0, 4 * PAGE, 0x3333_3333);
    assert_eq!(Word::load(memory.word(word(1))), 0, "the process is late: the page is not its");
    memory.lend_from(&other.arena, &[(word(1), PAGE)]).expect("a mapping");
    assert_eq!(memory.scan_words(word(1), 512, |_, found| found == 0), None);
    Word::store(memory.word(word(1)), 9);
    assert_eq!(Word::load(one.sees.word(word(1))), 0x3333_3333_3333_3333, "its own store, and nothing of the other's");
    // Straight from the one to the other, as a page may go whose end was not said.
    memory.lend_from(&one.arena, &[(word(1), PAGE)]).expect("a mapping");
    assert_eq!(memory.scan_words(word(1), 512, |_, found| found == 0), None, "its own store has gone, too");
    assert_eq!(Word::load(other.sees.word(word(1))), 0, "and the other's page");
    Word::store(one.sees.word(word(1) + 8), 5);
    assert_eq!(Word::load(memory.word(word(1) + 8)), 5, "the same page");
}

/// Uses of the same runs of several pages, one behind the other: by one process twice, by another, and straight from one to the other.
#[test]
fn no_page_of_a_run_shows_its_next_user_a_word_of_the_use_before() {
    // spec: memory §6.3
    let (pages, runs) = ([1, 2, 3, 5, 6, 7, 8], [(word(1), 3 * PAGE), (word(5), 4 * PAGE)]);
    for access in [ClientAccess::ReadWrite, ClientAccess::Read] {
        let memory = Memory::reserve_file(10 * PAGE).expect("a memory file");
        let arenas = [0; 2].map(|_| match access {
            ClientAccess::ReadWrite => LentFile::arena(&memory).expect("a descriptor"),
            ClientAccess::Read => LentFile::arena_to_read(&memory).expect("a descriptor"),
        });
        let views = arenas.each_ref().map(|arena| {
            let received = arena.as_fd().try_clone_to_owned().expect("another descriptor");
            ReadOnlyMemory::from_file(received, arena.bytes()).expect("it maps what it was handed")
        });
        for (round, (user, returns)) in
            [(0, true), (0, true), (1, false), (0, false), (1, true)].into_iter().enumerate()
        {
            let what = |page: u64| format!("{access:?}, round {round}, page {page}");
            memory.lend_from(&arenas[user], &runs).expect("mappings");
            let own = fstat(memory.file().expect("it is one")).expect("a file").st_blocks as u64 * 512;
            assert!(own <= 3 * PAGE, "{access:?}, round {round}: {own} bytes behind pages that are lent");
            for page in pages {
                assert_eq!(memory.scan_words(word(page), 512, |_, found| found == 0), None, "{}", what(page));
                let seen = (0..512).all(|at| views[user].word(word(page) + at * 8).load() == 0);
                assert!(seen, "{}: its process sees words of before", what(page));
            }
            let secret = 0x1111_1111 * (1 + round as u32);
            pages.into_iter().for_each(|page| memory.fill(word(page), PAGE, secret));
            if returns {
                runs.into_iter().for_each(|(offset, bytes)| memory.take_back(offset, bytes).expect("a mapping"));
                for page in pages {
                    assert_eq!(memory.scan_words(word(page), 512, |_, found| found == 0), None, "{}", what(page));
                }
                // Another use, with memory that is lent to no process.
                memory.fill(0, 10 * PAGE, !secret);
            }
            if returns && access == ClientAccess::ReadWrite {
                let received = arenas[user].as_fd().try_clone_to_owned().expect("another descriptor");
                let late = Memory::from_file(received, arenas[user].bytes()).expect("it may write");
                late.fill(0, 10 * PAGE, secret);
            }
        }
    }
}

#[test]
fn an_arena_cannot_be_made_smaller_and_costs_what_is_lent() {
    let memory = Memory::reserve_file(64 * PAGE).expect("a memory file");
    let process = Process::new(&memory);
    assert!(process.arena.is_arena() && process.arena.access() == ClientAccess::ReadWrite);
    let name = format!("/proc/self/fd/{}", process.arena.as_fd().as_raw_fd());
    let reopened = open(name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("who has it may open it again");
    assert_eq!([0, PAGE, 65 * PAGE].map(|bytes| ftruncate(&reopened, bytes)), [Err(Errno::PERM); 3]);
    assert_eq!(fcntl_add_seals(&reopened, SealFlags::WRITE), Err(Errno::PERM));
    let blocks = || fstat(&process.arena.file).expect("a file").st_blocks as u64 * 512;
    memory.lend_from(&process.arena, &[(0, 64 * PAGE)]).expect("a mapping");
    assert_eq!(blocks(), 0, "nothing is touched");
    memory.fill(0, 64 * PAGE, 1);
    assert_eq!(blocks(), 64 * PAGE);
    memory.take_back(word(16), 16 * PAGE).expect("a mapping");
    assert_eq!(blocks(), 48 * PAGE);
    memory.take_back(0, 64 * PAGE).expect("a mapping");
    assert_eq!(blocks(), 0);
}

#[test]
fn neighbours_are_one_run_and_one_mapping() {
    let memory = Memory::reserve_file(64 * PAGE).expect("a memory file");
    let arena = LentFile::arena(&memory).expect("a descriptor");
    // From both ends to the middle, and then what joins them.
    for page in (0..20).chain((21..60).rev()).chain([20]) {
        memory.lend_from(&arena, &[(word(page), PAGE)]).expect("a mapping");
    }
    assert_eq!(mappings_of(&arena), 1);
    let all = memory.lent_at(word(33)).expect("it is lent");
    assert_eq!((all.offset, all.file_offset, all.bytes), (0, 0, 60 * PAGE));
    memory.take_back(word(30), PAGE).expect("a mapping");
    assert_eq!(mappings_of(&arena), 2);
    assert_eq!(memory.lent(0, 30 * PAGE).map(|parts| parts.len()), Some(1));
    memory.lend_from(&arena, &[(word(30), PAGE)]).expect("a mapping");
    assert_eq!(mappings_of(&arena), 1);
}

// spec: sync §1.4 (user CPU VA: read-only)
#[test]
fn what_a_process_may_only_read_it_cannot_write_by_any_descriptor() {
    let memory = Memory::reserve_file(8 * PAGE).expect("a memory file");
    let [written, read] =
        [LentFile::arena(&memory), LentFile::arena_to_read(&memory)].map(|made| made.expect("a descriptor"));
    assert!(read.is_arena() && read.access() == ClientAccess::Read);
    memory.lend_from(&written, &[(word(2), PAGE)]).expect("a mapping");
    memory.lend_from(&read, &[(word(1), PAGE), (word(3), 2 * PAGE)]).expect("mappings after the seal");
    let received: OwnedFd = read.as_fd().try_clone_to_owned().expect("another descriptor");
    let view = ReadOnlyMemory::from_file(received, read.bytes()).expect("it maps what it was handed");
    for page in [1, 3, 4] {
        assert_eq!(memory.scan_words(word(page), 512, |_, found| found == 0), None);
        Word::store(memory.word(word(page) + 8), 70 + page);
        assert_eq!(view.word(word(page) + 8).load(), 70 + page, "the same page");
    }
    Word::store(memory.word(word(2)), 5);
    assert_eq!(view.word(word(2)).load(), 0, "what it may write lies elsewhere");
    let name = format!("/proc/self/fd/{}", read.as_fd().as_raw_fd());
    let reopened = open(name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("who has it may open it again");
    assert!(Memory::from_file(reopened.try_clone().expect("another"), read.bytes()).is_err(), "no mapping for stores");
    assert_eq!(rustix::io::pwrite(&reopened, &[1; 8], word(1)), Err(Errno::PERM));
    assert_eq!(fallocate(&reopened, HOLE, word(1), PAGE), Err(Errno::PERM));
    assert_eq!([0, 16 * PAGE].map(|bytes| ftruncate(&reopened, bytes)), [Err(Errno::PERM); 2]);
    // A page that returns is no part of the memory any more, and comes back fresh.
    memory.take_back(word(3), PAGE).expect("a mapping");
    Word::store(memory.word(word(3) + 8), 1);
    assert_eq!(
        (view.word(word(3) + 8).load(), view.word(word(4) + 8).load()),
        (73, 74),
        "its own old word, and its neighbour"
    );
    memory.lend_from(&read, &[(word(3), PAGE)]).expect("a mapping");
    assert_eq!((view.word(word(3) + 8).load(), Word::load(memory.word(word(3) + 8))), (0, 0));
}

/// A memory whose process may have so few mappings that the rules about them come into play.
fn cramped(mappings: usize) -> Arc<Memory> {
    let memory = Memory::reserve_file(64 * PAGE).expect("a memory file");
    memory.lent.mappings_max.set(mappings).expect("once");
    memory
}

#[test]
fn a_process_that_would_take_too_many_mappings_is_lent_no_more() {
    let memory = cramped(16);
    let [one, other] = [0; 2].map(|_| Process::new(&memory));
    for page in [0, 2, 4] {
        memory.lend_from(&one.arena, &[(word(page), PAGE)]).expect("a mapping");
    }
    let refused = memory.lend_from(&other.arena, &[(word(6), PAGE), (word(8), PAGE)]).expect_err("a fifth run");
    assert_eq!((refused.source, refused.bytes), (Errno::NOMEM, 2 * PAGE));
    // What the pages were lent as before is over all the same.
    memory.lend_from(&one.arena, &[(word(6), PAGE)]).expect("a fourth run");
    memory.lend_from(&other.arena, &[(word(6), PAGE)]).expect_err("a fifth run");
    assert!(memory.lent_at(word(6)).is_none());
    Word::store(memory.word(word(6)), 4);
    assert_eq!(Word::load(one.sees.word(word(6))), 0);
    assert!(memory.lend(&[(word(8), PAGE)], ClientAccess::Read).is_ok(), "a fourth run again");
    assert!(memory.lend(&[(word(10), PAGE)], ClientAccess::Read).is_err());
}

#[test]
fn the_most_scattered_arena_is_lost_before_pages_could_not_be_taken_back() {
    let memory = cramped(16);
    let [one, other] = [0; 2].map(|_| Process::new(&memory));
    memory.lend_from(&one.arena, &[(0, 32 * PAGE)]).expect("a mapping");
    memory.lend_from(&other.arena, &[(word(40), PAGE), (word(42), PAGE)]).expect("mappings");
    memory.fill(0, 64 * PAGE, 0x5555_5555);
    // Two runs become six of sixteen mappings: it goes on for as long as it may.
    for page in [1, 3, 5] {
        memory.take_back(word(page), PAGE).expect("a mapping");
    }
    assert!(!one.arena.is_lost() && memory.lent_at(word(8)).is_some());
    memory.take_back(word(40), PAGE).expect("a mapping");
    assert!(one.arena.is_lost() && !other.arena.is_lost());
    assert!((0..32).all(|page| memory.lent_at(word(page)).is_none()));
    assert_eq!(mappings_of(&one.arena), 1, "its process alone has it mapped");
    Word::store(memory.word(word(8)), 1);
    assert_eq!(Word::load(one.sees.word(word(8))), 0x5555_5555_5555_5555, "its process keeps what it had");
    let left = memory.lent_at(word(42)).expect("the other keeps what it has");
    assert!(Arc::ptr_eq(&left.file, &other.arena));
    assert_eq!(Word::load(other.sees.word(word(42))), 0x5555_5555_5555_5555);
    memory.lend_from(&one.arena, &[(word(8), PAGE)]).expect_err("its process is about to end");
    memory.lend_from(&other.arena, &[(word(8), PAGE)]).expect("there is room again");
}

/// A process that is a client no more may live on, with its stack in these pages.
// spec: memory §6.3
#[test]
fn what_a_process_maps_stays_when_it_has_left() {
    let memory = Memory::reserve_file(64 * PAGE).expect("a memory file");
    let [one, other] = [0; 2].map(|_| Process::new(&memory));
    let content = Process::of(LentFile::arena_of_content(&memory).expect("a descriptor"));
    memory.lend_from(&one.arena, &[(0, 4 * PAGE)]).expect("a mapping");
    memory.lend_from(&other.arena, &[(word(8), PAGE)]).expect("a mapping");
    let common = memory.lend(&[(word(10), PAGE)], ClientAccess::ReadWrite).expect("a file");
    let common_seen = Memory::from_file(common.as_fd().try_clone_to_owned().expect("a descriptor"), PAGE).expect("it");
    memory.fill(0, 64 * PAGE, 0x5555_5555);
    memory.lend_content(&content.arena, &[(word(20), PAGE)]).expect("room");
    let seen =
        || [one.sees.word(8), content.sees.word(8), other.sees.word(word(8)), common_seen.word(8)].map(Word::load);
    [&one.arena, &content.arena].into_iter().for_each(|arena| arena.leave());
    let old = memory.detach(0, PAGE).expect("a mapping");
    drop(old);
    memory.take_back(0, 20 * PAGE).expect("mappings");
    memory.take_content_back(word(20), PAGE).expect("a mapping");
    let kept = 0x5555_5555_5555_5555;
    assert_eq!(seen(), [kept, kept, 0, 0], "only what has left keeps it");
    assert_eq!(Word::load(memory.word(word(20) + 8)), kept, "the memory has its own copy");
    assert_eq!(Word::load(memory.word(8)), 0, "and nothing of fresh pages");
    // All leave: what several processes map stays, too.
    memory.lend_from(&other.arena, &[(word(8), PAGE)]).expect("a mapping");
    let common = memory.lend(&[(word(10), PAGE)], ClientAccess::ReadWrite).expect("a file");
    let common_seen = Memory::from_file(common.as_fd().try_clone_to_owned().expect("a descriptor"), PAGE).expect("it");
    memory.fill(word(8), 8 * PAGE, 0x7777_7777);
    memory.leave_lent();
    memory.take_back(0, 64 * PAGE).expect("mappings");
    let seen = [other.sees.word(word(8)), common_seen.word(8)].map(Word::load);
    assert_eq!(seen, [0x7777_7777_7777_7777; 2]);
}

// spec: memory §6.3
#[test]
fn content_that_a_process_still_sees_stays_when_its_frames_are_lent_again() {
    let memory = Memory::reserve_file(8 * PAGE).expect("a memory file");
    let process = Process::of(LentFile::arena_of_content(&memory).expect("a descriptor"));
    assert!(process.arena.is_arena() && process.arena.bytes() == 4 * 8 * PAGE);
    let lend = |page: u64, pages: u64, value: u32| {
        memory.fill(word(page), pages * PAGE, value);
        memory.lend_content(&process.arena, &[(word(page), pages * PAGE)]).expect("room");
        let at = memory.lent_at(word(page)).expect("it is lent").file_offset;
        assert_eq!(process.sees.scan_words(at, 512, |_, found| found as u32 == value), None);
        at
    };
    let first = lend(2, 2, 0xaaaa_aaaa);
    let seen = memory.detach(word(2), 2 * PAGE).expect("a mapping");
    let second = lend(2, 2, 0xbbbb_bbbb);
    assert_ne!(first, second);
    assert_eq!(Word::load(process.sees.word(first)) as u32, 0xaaaa_aaaa, "the process has not answered yet");
    drop(seen);
    assert_eq!(process.sees.scan_words(first, 1024, |_, found| found == 0), None, "now it has");
    assert_eq!(lend(4, 1, 0xcccc_cccc), first, "the room is used again");
    memory.take_content_back(word(2), 3 * PAGE).expect("mappings");
    assert_eq!(process.sees.scan_words(0, process.arena.bytes() / 8, |_, found| found == 0), None, "it keeps nothing");
    let held = [0xbbbb_bbbb_bbbb_bbbb, 0xbbbb_bbbb_bbbb_bbbb, 0xcccc_cccc_cccc_cccc];
    assert_eq!([2, 3, 4].map(|page| Word::load(memory.word(word(page)))), held);
}

// spec: memory §6.3
#[test]
fn content_for_which_an_arena_has_no_room_stays_where_it_is() {
    let memory = Memory::reserve_file(2 * PAGE).expect("a memory file");
    let arena = LentFile::arena_of_content(&memory).expect("a descriptor");
    let mut seen = Vec::new();
    for value in 0..4 {
        memory.fill(0, 2 * PAGE, value);
        memory.lend_content(&arena, &[(PAGE, PAGE), (0, PAGE)]).expect("room");
        seen.push(memory.detach(0, 2 * PAGE).expect("mappings"));
    }
    memory.fill(0, 2 * PAGE, 9);
    let refused = memory.lend_content(&arena, &[(0, PAGE)]).expect_err("its process answers for nothing");
    assert_eq!((refused.source, refused.bytes), (Errno::NOSPC, PAGE));
    assert!(memory.lent_at(0).is_none());
    assert_eq!(memory.scan_words(0, 1024, |_, found| found == 0x9_0000_0009), None);
    seen.pop();
    memory.lend_content(&arena, &[(0, 2 * PAGE)]).expect("room");
}
