//! Memory of every kind is given and taken back, and the program finds in it what it stored.
#![allow(unsafe_code)] // Memory is mapped, given and looked at as programs do.

use std::sync::atomic::Ordering::Relaxed;

use rustix::mm::mmap;

use super::*;
use crate::faults::tests::is_held;
use crate::{AddressRange, Memory};

const BYTES: usize = 4 * PAGE as usize;

/// A section of four pages in two runs, which lie the other way round in their file, as the program sees it.
fn section() -> (std::sync::Arc<Memory>, AddressRange) {
    let memory = Memory::reserve_file(BYTES as u64).expect("a memory file");
    let range = AddressRange::reserve(BYTES as u64).expect("addresses");
    range.show([(&*memory, 2 * PAGE, 2 * PAGE), (&*memory, 0, 2 * PAGE)].into_iter()).expect("mappings");
    (memory, range)
}

const RUNS: [u64; 2] = [2 * PAGE, 2 * PAGE];

fn anonymous(pages: u64, protection: ProtFlags, how: MapFlags) -> *mut u8 {
    // SAFETY: a fresh mapping.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), (pages * PAGE) as usize, protection, how) };
    mapped.expect("memory").cast()
}

/// SAFETY of the callers: the byte lies in memory of theirs.
fn load(place: *mut u8, at: usize) -> u8 {
    // SAFETY: as said.
    unsafe { place.add(at).read_volatile() }
}

fn store(place: *mut u8, at: usize, value: u8) {
    // SAFETY: as of `load`.
    unsafe { place.add(at).write_volatile(value) }
}

/// Gives memory that holds a 7 at each page's byte 9, and takes it back.
fn given_and_taken_back(place: *mut u8) {
    let (memory, range) = section();
    for page in 0..4 {
        store(place, page * 4096 + 9, 7);
    }
    // SAFETY: the tests' own memory.
    let pages =
        unsafe { ProgramPages::replace(NonNull::new(place).expect("memory"), SectionPages::of_range(&range, &RUNS)) }
            .expect("given");
    assert!(pages.are_in_place());
    let mut byte = [0];
    for (page, offset) in [(0, 2 * PAGE), (1, 3 * PAGE), (2, 0), (3, PAGE)] {
        memory.read(offset + 9, &mut byte);
        assert_eq!((load(place, page * 4096 + 9), byte), (7, [7]), "page {page} holds what it held");
        memory.write(offset + 10, &[8]);
        assert_eq!(load(place, page * 4096 + 10), 8, "the program sees what the other side stores");
        store(place, page * 4096 + 11, 9);
        memory.read(offset + 11, &mut byte);
        assert_eq!(byte, [9], "and the other way round");
    }
    // SAFETY: as above.
    unsafe { pages.restore() }.expect("taken back");
    assert!(!pages.are_in_place());
    for at in [9, 10, 11] {
        assert_eq!(load(place, 3 * 4096 + at) as usize, at - 2, "nothing of it is lost");
    }
    memory.write(PAGE + 10, &[99]);
    assert_eq!(load(place, 3 * 4096 + 10), 8, "it is the program's own");
}

// spec: memory §2.7
#[test]
fn a_heap_is_given_and_taken_back() {
    given_and_taken_back(anonymous(4, WRITABLE, MapFlags::PRIVATE));
}

#[repr(align(4096))]
struct Pages([u8; BYTES]);

// spec: memory §2.7
#[test]
fn so_is_a_stack() {
    let mut here = Pages([0; BYTES]);
    given_and_taken_back(std::hint::black_box(&mut here).0.as_mut_ptr());
}

// spec: memory §2.7
#[test]
fn so_is_the_page_in_which_the_callers_own_frames_lie() {
    let (memory, range) = section();
    let here = std::hint::black_box(0x5a_u64);
    let place = (&raw const here).map_addr(|address| address & !(PAGE as usize - 1)).cast_mut().cast();
    for _ in 0..100 {
        let by = SectionPages::of_files([(&*memory, PAGE, PAGE)].into_iter());
        // SAFETY: a page of this test's stack, whose frames stay where they are.
        let pages = unsafe { ProgramPages::replace(NonNull::new(place).expect("memory"), by) }.expect("given");
        assert_eq!(memory.word(PAGE + (&raw const here).addr() as u64 % PAGE).load(Relaxed), 0x5a);
        // SAFETY: as above.
        unsafe { pages.restore() }.expect("taken back");
    }
    assert_eq!(std::hint::black_box(here), 0x5a);
    drop(range);
}

/// Its descriptor, its locks and the operating system's words about it lie there.
// spec: memory §2.7
#[test]
fn so_is_the_thread_local_memory_of_the_caller() {
    let caller = || {
        thread_local! { static WORD: std::cell::Cell<u64> = const { std::cell::Cell::new(7) } }
        let (memory, _range) = section();
        let place = WORD.with(|word| word.as_ptr()).map_addr(|address| address & !(PAGE as usize - 1)).cast();
        for round in 7..107 {
            let by = SectionPages::of_files([(&*memory, 0, PAGE)].into_iter());
            // SAFETY: a page of this thread's, which stays where it is.
            let pages = unsafe { ProgramPages::replace(NonNull::new(place).expect("memory"), by) }.expect("given");
            WORD.set(WORD.get() + 1);
            // SAFETY: as above.
            unsafe { pages.restore() }.expect("taken back");
            assert_eq!(WORD.get(), round + 1);
        }
    };
    std::thread::spawn(caller).join().expect("no panic");
}

// spec: memory §2.7
#[test]
fn so_is_static_data() {
    static HERE: std::sync::Mutex<Pages> = std::sync::Mutex::new(Pages([1; BYTES]));
    let mut here = HERE.lock().expect("one test");
    given_and_taken_back(here.0.as_mut_ptr());
}

// spec: memory §2.7
#[test]
fn protected_pages_stay_protected() {
    let place = anonymous(4, WRITABLE, MapFlags::PRIVATE);
    store(place, 2 * 4096, 5);
    let at = |page: u64| Part { start: place as u64 + page * PAGE, end: place as u64 + (page + 1) * PAGE, ..PART };
    change(&at(1), READ).expect("a protection");
    change(&at(2), 0).expect("a protection");
    let (memory, range) = section();
    // SAFETY: the test's own memory.
    let pages =
        unsafe { ProgramPages::replace(NonNull::new(place).expect("memory"), SectionPages::of_range(&range, &RUNS)) }
            .expect("given");
    let mut byte = [0];
    memory.read(0, &mut byte);
    assert_eq!(byte, [5], "pages without any access keep their content");
    let protections = |pages: &ProgramPages| -> Vec<(u64, u32)> {
        let parts = parts(pages.base, pages.bytes).expect("all of it");
        parts.iter().flat_map(|part| (part.start..part.end).step_by(4096).map(|at| (at, part.protection))).collect()
    };
    let expected: Vec<_> = [READ | WRITE, READ, 0, READ | WRITE].into_iter().zip(0..).collect();
    let expected: Vec<_> = expected.into_iter().map(|(rights, page)| (place as u64 + page * PAGE, rights)).collect();
    assert_eq!(protections(&pages), expected);
    // The program may change its mind meanwhile.
    change(&at(1), READ | WRITE).expect("a protection");
    assert!(pages.are_in_place());
    let expected: Vec<_> =
        expected.into_iter().map(|(at, rights)| (at, if rights == READ { READ | WRITE } else { rights })).collect();
    // SAFETY: as above.
    unsafe { pages.restore() }.expect("taken back");
    assert!(!pages.are_in_place());
    assert_eq!(protections(&pages), expected);
    change(&at(2), READ).expect("a protection");
    assert_eq!(load(place, 2 * 4096), 5);
}

const PART: Part = Part { start: 0, end: 0, protection: 0, shared: false, of: (0, 0, 0) };

// spec: memory §2.7
#[test]
fn what_is_not_there_or_not_alone_is_refused_and_stays() {
    let (_, range) = section();
    // SAFETY: memory of the test's own, or none; both are refused.
    let give = |place: *mut u8| unsafe {
        ProgramPages::replace(NonNull::new(place).expect("somewhere"), SectionPages::of_range(&range, &RUNS))
    };
    let shared = anonymous(4, WRITABLE, MapFlags::SHARED);
    assert_eq!(give(shared).err(), Some(ProgramError::Mixed(shared as u64)));
    let holey = anonymous(4, WRITABLE, MapFlags::PRIVATE);
    store(holey, 0, 3);
    // SAFETY: the page is this test's.
    unsafe { munmap(holey.add(3 * 4096).cast(), 4096) }.expect("a hole");
    assert_eq!(give(holey).err(), Some(ProgramError::NotMapped(holey as u64 + 3 * PAGE)));
    assert_eq!(load(holey, 0), 3);
}

// spec: memory §2.7
#[test]
fn what_the_program_has_put_there_since_stays() {
    let place = anonymous(4, WRITABLE, MapFlags::PRIVATE);
    let (memory, range) = section();
    // SAFETY: the test's own memory.
    let pages =
        unsafe { ProgramPages::replace(NonNull::new(place).expect("memory"), SectionPages::of_range(&range, &RUNS)) }
            .expect("given");
    let other = Memory::reserve_file(PAGE).expect("another file");
    other.write(0, &[4]);
    let (fixed, file) = (MapFlags::SHARED | MapFlags::FIXED, other.file().expect("it is one"));
    // SAFETY: a page of the test's own.
    unsafe { mmap(place.add(4096).cast(), 4096, WRITABLE, fixed, file, 0) }.expect("a mapping");
    assert!(!pages.are_in_place());
    // SAFETY: as above.
    unsafe { pages.restore() }.expect("the others");
    other.write(0, &[6]);
    assert_eq!(load(place, 4096), 6, "the program's own mapping");
    memory.write(0, &[6]);
    assert_eq!(load(place, 2 * 4096), 0, "the others are the program's again");
}

// spec: memory §2.7
#[test]
fn stores_into_pages_that_were_never_touched_are_held_too() {
    let place = anonymous(4, WRITABLE, MapFlags::PRIVATE) as u64;
    let held = StoreHold::hold(place, 4 * PAGE, 0).expect("held");
    assert!((0..4).all(|page| is_held(place + page * PAGE)), "a store would go to a page that is about to be replaced");
    drop(held);
    assert!((0..4).all(|page| !is_held(place + page * PAGE)));
}

// spec: memory §2.7
#[test]
fn no_store_of_another_thread_is_lost() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let place = anonymous(4, WRITABLE, MapFlags::PRIVATE);
    // SAFETY: aligned, in memory that stays mapped, and only used as an atomic.
    let word: &'static AtomicU64 = unsafe { AtomicU64::from_ptr(place.add(3 * 4096).cast()) };
    let racers = crate::racers::Racers::start(1, |_, _| _ = word.fetch_add(1, Ordering::Relaxed));
    for _ in 0..300 {
        let (_memory, range) = section();
        // SAFETY: the test's own memory.
        let given = unsafe {
            ProgramPages::replace(NonNull::new(place).expect("memory"), SectionPages::of_range(&range, &RUNS))
        };
        // SAFETY: as above.
        unsafe { given.expect("given").restore() }.expect("taken back");
    }
    assert_eq!(racers.stop(), [word.load(Ordering::Relaxed)], "every store is there");
}
