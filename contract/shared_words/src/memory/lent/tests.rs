//! A client's possible and impossible uses of a file that it was handed.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate, open};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};

use super::*;
use crate::racers::Racers;
use crate::{AddressRange, ReadOnlyMemory, Word};
use std::sync::atomic::AtomicU64;

const PAGE: u64 = 4096;

fn load(word: &AtomicU64) -> u64 {
    Word::load(word)
}

fn received(file: &LentFile) -> OwnedFd {
    file.as_fd().try_clone_to_owned().expect("another descriptor")
}

/// Opened once more by its name, as each holder of the descriptor can.
fn reopened(file: &LentFile) -> OwnedFd {
    let name = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    open(name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("the holder of a descriptor may open it again")
}

fn try_map(file: &OwnedFd, protection: ProtFlags) -> rustix::io::Result<*mut std::ffi::c_void> {
    // SAFETY: a fresh mapping that no code reads.
    unsafe { mmap(std::ptr::null_mut(), 4096, protection, MapFlags::SHARED, file, 0) }
}

#[test]
fn both_sides_see_one_page_and_addresses_stay() {
    for memory in [Memory::reserve(8 * PAGE), Memory::reserve_file(8 * PAGE)].map(Result::unwrap) {
        memory.fill(0, 8 * PAGE, 0x5555_5555);
        let word = memory.word(3 * PAGE + 8);
        let file = memory.lend(&[(5 * PAGE, PAGE), (2 * PAGE, 2 * PAGE)], ClientAccess::ReadWrite).unwrap();
        assert_eq!((file.bytes(), file.access()), (3 * PAGE, ClientAccess::ReadWrite));
        assert_eq!(load(word), 0, "lent pages are fresh");
        assert_eq!([4 * PAGE, 6 * PAGE - 8].map(|at| load(memory.word(at))), [0x5555_5555_5555_5555, 0]);
        let client = Memory::from_file(received(&file), 3 * PAGE).unwrap();
        Word::store(word, 1);
        assert_eq!(load(client.word(2 * PAGE + 8)), 1, "the file has the runs in the order in which they were named");
        Word::store(client.word(8), 2);
        assert_eq!(load(memory.word(5 * PAGE + 8)), 2);

        // In the middle of a run: the rest stays lent, and the client keeps a page that no other party reads.
        memory.take_back(2 * PAGE, PAGE).unwrap();
        Word::store(memory.word(2 * PAGE), 3);
        assert_eq!((load(client.word(PAGE)), load(memory.word(2 * PAGE + 8))), (0, 0));
        Word::store(client.word(PAGE), 4);
        assert_eq!(load(memory.word(2 * PAGE)), 3);
        assert_eq!(load(client.word(2 * PAGE + 8)), 1, "the neighbour is still lent");
        let left = memory.lent_at(3 * PAGE + 100).expect("it is lent");
        assert_eq!((left.offset, left.bytes, left.file_offset), (3 * PAGE, PAGE, 2 * PAGE));
        assert!(Arc::ptr_eq(&left.file, &file));
        assert!([2 * PAGE, 4 * PAGE, 6 * PAGE].iter().all(|at| memory.lent_at(*at).is_none()));
        let parts = |offset, bytes| {
            let parts = memory.lent(offset, bytes)?;
            Some(parts.iter().map(|part| (part.offset, part.bytes, part.file_offset)).collect::<Vec<_>>())
        };
        assert_eq!(parts(5 * PAGE, PAGE), Some(vec![(5 * PAGE, PAGE, 0)]));
        assert_eq!(parts(3 * PAGE + 64, 128), Some(vec![(3 * PAGE + 64, 128, 2 * PAGE + 64)]));
        assert_eq!([parts(2 * PAGE, 2 * PAGE), parts(3 * PAGE, 2 * PAGE)], [None, None], "a part of them is not lent");
        memory.take_back(0, 8 * PAGE).unwrap();
        assert_eq!([load(word), load(memory.word(5 * PAGE + 8))], [0, 0]);
        assert_eq!(load(memory.word(PAGE)), 0x5555_5555_5555_5555, "what was not lent is left alone");
    }
}

#[test]
fn who_may_read_can_do_nothing_else() {
    let memory = Memory::reserve(4 * PAGE).unwrap();
    let file = memory.lend(&[(PAGE, PAGE)], ClientAccess::Read).unwrap();
    Word::store(memory.word(PAGE), 7);
    let view = ReadOnlyMemory::from_file(received(&file), PAGE).unwrap();
    assert_eq!((view.word(0).load(), view.bytes()), (7, PAGE));
    for descriptor in [received(&file), reopened(&file)] {
        assert_eq!(try_map(&descriptor, ProtFlags::READ | ProtFlags::WRITE), Err(Errno::PERM));
        let readable = try_map(&descriptor, ProtFlags::READ).unwrap();
        // SAFETY: the mapping made above, which no code reads.
        let protected = unsafe { mprotect(readable, 4096, MprotectFlags::READ | MprotectFlags::WRITE) };
        assert_eq!(protected, Err(Errno::ACCESS));
        // SAFETY: as above.
        unsafe { munmap(readable, 4096) }.unwrap();
        assert_eq!(rustix::io::pwrite(&descriptor, &[1; 8], 0), Err(Errno::PERM));
        assert_eq!(fallocate(&descriptor, HOLE, 0, PAGE), Err(Errno::PERM));
        assert_eq!([0, 2 * PAGE].map(|bytes| ftruncate(&descriptor, bytes)), [Err(Errno::PERM); 2]);
        assert_eq!(fcntl_add_seals(&descriptor, SealFlags::WRITE), Err(Errno::PERM), "it would take our mapping too");
    }
    Word::store(memory.word(PAGE), 8);
    assert_eq!(view.word(0).load(), 8, "ours goes on");
    assert!(Memory::from_file(received(&file), PAGE).is_err());
}

#[test]
fn who_may_write_cannot_take_a_page_away() {
    let memory = Memory::reserve(4 * PAGE).unwrap();
    let file = memory.lend(&[(0, 2 * PAGE)], ClientAccess::ReadWrite).unwrap();
    for descriptor in [received(&file), reopened(&file)] {
        assert_eq!([0, PAGE, 4 * PAGE].map(|bytes| ftruncate(&descriptor, bytes)), [Err(Errno::PERM); 3]);
        assert_eq!(fallocate(&descriptor, FallocateFlags::empty(), 2 * PAGE, PAGE), Err(Errno::PERM));
        assert_eq!(rustix::io::pwrite(&descriptor, &[1; 8], 2 * PAGE), Err(Errno::PERM));
        assert_eq!(fcntl_add_seals(&descriptor, SealFlags::FUTURE_WRITE), Err(Errno::PERM));
    }
    Word::store(memory.word(PAGE), 9);
    fallocate(&file.file, HOLE, 0, 2 * PAGE).unwrap();
    assert_eq!(load(memory.word(PAGE)), 0, "a hole is as good as zeros");
}

#[test]
fn pages_change_hands_and_no_client_sees_the_other() {
    let memory = Memory::reserve(4 * PAGE).unwrap();
    let first = memory.lend(&[(0, 2 * PAGE)], ClientAccess::ReadWrite).unwrap();
    let client = Memory::from_file(received(&first), 2 * PAGE).unwrap();
    client.fill(0, 2 * PAGE, 0x1111_1111);
    let second = memory.lend(&[(PAGE, 2 * PAGE)], ClientAccess::ReadWrite).unwrap();
    let other = Memory::from_file(received(&second), 2 * PAGE).unwrap();
    assert_eq!(other.scan_words(0, 1024, |_, word| word == 0), None, "zero");
    other.fill(0, 2 * PAGE, 0x2222_2222);
    assert_eq!(load(memory.word(PAGE)), 0x2222_2222_2222_2222);
    assert_eq!(load(memory.word(0)), 0x1111_1111_1111_1111);
    assert_eq!(load(client.word(PAGE)), 0, "what was taken back is gone from the file");
}

#[test]
fn the_memory_of_pages_taken_back_goes() {
    let memory = Memory::reserve(64 * PAGE).unwrap();
    let file = memory.lend(&[(0, 64 * PAGE)], ClientAccess::ReadWrite).unwrap();
    memory.fill(0, 64 * PAGE, 1);
    let blocks = || fstat(&file.file).unwrap().st_blocks as u64 * 512;
    assert_eq!(blocks(), 64 * PAGE);
    memory.take_back(16 * PAGE, 16 * PAGE).unwrap();
    assert_eq!(blocks(), 48 * PAGE);
    memory.take_back(0, 64 * PAGE).unwrap();
    assert_eq!(blocks(), 0);
}

#[test]
fn a_received_file_is_looked_at_before_it_is_believed() {
    let small = LentFile::new(PAGE, ClientAccess::ReadWrite).unwrap();
    let errno = |bytes| Memory::from_file(received(&small), bytes).unwrap_err().source;
    assert_eq!([0, 100, 2 * PAGE].map(errno), [Errno::INVAL; 3]);
    assert_eq!(errno(PAGE), Errno::PERM, "it could become smaller");
    small.seal().unwrap();
    assert_eq!(Memory::from_file(received(&small), PAGE).unwrap().bytes(), PAGE);
}

#[test]
fn address_ranges_show_received_files_and_lent_pages() {
    let memory = Memory::reserve_file(4 * PAGE).unwrap();
    memory.fill(0, 4 * PAGE, 0x7777_7777);
    let file = memory.lend(&[(PAGE, PAGE)], ClientAccess::ReadWrite).unwrap();
    let range = AddressRange::reserve(3 * PAGE).unwrap();
    // In the program of the memory: pages before, in and behind those that are lent.
    range.show([(&*memory, 0, 3 * PAGE)].into_iter()).unwrap();
    Word::store(range.word(PAGE), 1);
    assert_eq!((load(memory.word(PAGE)), load(memory.word(0))), (1, 0x7777_7777_7777_7777));
    assert_eq!(load(range.word(2 * PAGE)), 0x7777_7777_7777_7777);
    // In the client's, and there in two places.
    let client = Memory::from_file(received(&file), PAGE).unwrap();
    range.protect();
    range.show([(&*client, 0, PAGE), (&*client, 0, PAGE), (&*client, 0, PAGE)].into_iter()).unwrap();
    Word::store(range.word(0), 2);
    assert_eq!((load(memory.word(PAGE)), load(range.word(2 * PAGE))), (2, 2));
}

/// Pages are replaced under the eyes of threads that look at their neighbours and at them: no access finds a hole.
#[test]
fn threads_look_on_while_pages_change() {
    let memory = Memory::reserve(8 * PAGE).unwrap();
    let looked_at = std::sync::Arc::clone(&memory);
    let racers = Racers::start(2, move |thread, count| {
        let (page, stored) = (2 + thread, count + 1);
        Word::store(looked_at.word(page * PAGE), stored);
        // Page 3 is replaced again and again: zero, or what was stored.
        let seen = load(looked_at.word(page * PAGE));
        assert!(seen == stored || page == 3 && seen == 0, "{seen} at page {page}");
    });
    for turn in 0..500 {
        let access = if turn % 2 == 0 { ClientAccess::Read } else { ClientAccess::ReadWrite };
        drop(memory.lend(&[(3 * PAGE, 2 * PAGE)], access).unwrap());
        memory.take_back(3 * PAGE, 2 * PAGE).unwrap();
    }
    racers.stop();
}
