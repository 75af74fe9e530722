//! Pages of a program change hands where the operating system holds no stores: a filter of system calls forbids `userfaultfd` here, as the
//! filter of a container does. The program has one thread, this one, so that this test has no harness.
#![allow(unsafe_code)] // Memory is mapped, given and looked at as programs do.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shared_words::{Memory, ProgramError, ProgramPages, SectionPages, own_threads};

const PAGE: u64 = 4096;

fn forbid_userfaultfd() {
    let line = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut lines = [
        // The call's number stands first.
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_userfaultfd as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    // SAFETY: the filter and its lines live through the call, which copies them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}

/// The pages of a program, and the section that comes in their place.
fn give(place: NonNull<u8>, section: &Memory) -> Result<ProgramPages, ProgramError> {
    // The runs lie the other way round in their file.
    let by = SectionPages::of_files([(section, PAGE, PAGE), (section, 0, PAGE)].into_iter());
    // SAFETY: this test's own memory, which it looks at by atomics alone.
    unsafe { ProgramPages::replace(place, by) }
}

fn take_back(pages: &ProgramPages) {
    // SAFETY: as above.
    unsafe { pages.restore() }.expect("taken back");
}

/// Stores of threads of the library are held, too.
fn no_store_of_a_thread_of_the_library_is_lost(place: NonNull<u8>, words: &'static [AtomicU64; 2]) {
    let (stop, threads) = (Arc::new(AtomicBool::new(false)), [0, 1]);
    let threads = threads.map(|at| {
        let stop = Arc::clone(&stop);
        let count = move || {
            let mut stored = 0;
            while !stop.load(Ordering::Relaxed) {
                words[at].fetch_add(1, Ordering::Relaxed);
                stored += 1;
            }
            stored
        };
        own_threads::spawn("counts", count).expect("a thread")
    });
    for _ in 0..60 {
        let section = Memory::reserve_file(2 * PAGE).expect("a memory file");
        take_back(&give(place, &section).expect("given"));
    }
    stop.store(true, Ordering::Relaxed);
    let stored: [u64; 2] = threads.map(|thread| thread.join().expect("no panic"));
    assert_eq!(stored, [0, 1].map(|at| words[at].load(Ordering::Relaxed)), "every store is there");
}

/// A thread of the program could store meanwhile: the refusal says what forbids it, and the memory is what it was.
fn with_another_thread_it_is_refused(place: NonNull<u8>) {
    let section = Memory::reserve_file(2 * PAGE).expect("a memory file");
    let given = give(place, &section).expect("given");
    let (ends, waits) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || waits.recv());
    let refused = give(NonNull::from(Memory::reserve(2 * PAGE).expect("memory").word(0)).cast(), &section);
    let reason = refused.expect_err("another thread").to_string();
    assert!(reason.contains("userfaultfd fails (Operation not permitted (os error 1)"), "{reason}");
    assert!(reason.contains("the program has 1 threads beside the caller"), "{reason}");
    // SAFETY: as above.
    unsafe { given.restore() }.expect_err("another thread");
    assert!(given.are_in_place(), "they are the section's until a later call");
    drop(ends);
    let _ = other.join();
    // The operating system lists the thread for a moment.
    // SAFETY: as above.
    while unsafe { given.restore() }.is_err() {}
    assert!(!given.are_in_place());
}

/// While code of the program runs on a thread of the library, that is one of the program's.
fn callbacks_are_the_programs(place: NonNull<u8>) {
    let (says, hears) = std::sync::mpsc::channel();
    let (ends, waits) = std::sync::mpsc::channel::<()>();
    let callback = move || {
        says.send(()).expect("the test hears");
        let _ = waits.recv();
    };
    let calls = own_threads::spawn("calls", move || own_threads::for_program(callback)).expect("a thread");
    hears.recv().expect("it runs");
    let section = Memory::reserve_file(2 * PAGE).expect("a memory file");
    assert!(matches!(give(place, &section), Err(ProgramError::NoHold { others: 1, .. })));
    drop(ends);
    calls.join().expect("no panic");
    take_back(&give(place, &section).expect("a thread of the library that ends is waited for"));
}

/// The page of the caller's own frames.
fn the_callers_own_frames(section: &Memory) {
    let here = std::hint::black_box(0x5a_u64);
    let place = (&raw const here).map_addr(|address| address & !(PAGE as usize - 1)).cast_mut().cast();
    let by = SectionPages::of_files([(section, 0, PAGE)].into_iter());
    // SAFETY: a page of this thread's stack, whose frames stay where they are.
    let given = unsafe { ProgramPages::replace(NonNull::new(place).expect("memory"), by) }.expect("given");
    take_back(&given);
    assert_eq!(std::hint::black_box(here), 0x5a);
}

/// The signal that stops threads is the program's again.
extern "C" fn ignored(_: i32) {}

fn main() {
    forbid_userfaultfd();
    // SAFETY: zeros are a value of it.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    before.sa_sigaction = ignored as extern "C" fn(i32) as usize;
    // SAFETY: a handler that does nothing.
    assert_eq!(unsafe { libc::sigaction(libc::SIGURG, &raw const before, std::ptr::null_mut()) }, 0);
    let pages = Memory::reserve(4 * PAGE).expect("memory");
    let place = NonNull::from(pages.word(PAGE)).cast::<u8>();
    // SAFETY: aligned words of memory that stays mapped, used as atomics alone.
    let words: &'static [AtomicU64; 2] = unsafe { place.add(PAGE as usize - 8).cast().as_ref() };
    no_store_of_a_thread_of_the_library_is_lost(place, words);
    with_another_thread_it_is_refused(place);
    callbacks_are_the_programs(place);
    the_callers_own_frames(&Memory::reserve_file(2 * PAGE).expect("a memory file"));
    // SAFETY: as above.
    let mut after: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a place for what is there.
    assert_eq!(unsafe { libc::sigaction(libc::SIGURG, std::ptr::null(), &raw mut after) }, 0);
    assert_eq!(after.sa_sigaction, before.sa_sigaction, "the program's handler");
    println!("stopped: all of it");
    std::mem::forget(pages);
}
