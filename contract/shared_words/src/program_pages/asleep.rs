//! A caller that sleeps while another thread changes pages in which the caller's own frames may lie. A thread that changed the page of its
//! own stack would store there in the middle of the change: its store would be lost, or would wait for the thread itself.
//!
//! # How it is known that the caller sleeps
//! The caller waits at one word, and the other thread moves the waiter to a second word: the operating system moves only a thread that is
//! in its wait already. From there on the caller stores nothing until it is woken. Its signals are blocked, so that no handler runs on
//! its stack. Both words lie in a page that no program can give away.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex;

use crate::Memory;
use crate::own_threads::{Masked, this};

/// Runs work on a thread of its own while the caller sleeps, and returns what it returns. The work is told the caller's thread.
///
/// # Errors
/// When the operating system gives no thread, or no page.
pub(super) fn while_asleep<T: Send>(work: impl FnOnce(i32) -> T + Send) -> Result<T, Errno> {
    let page = Memory::reserve(PAGE).map_err(|error| error.source)?;
    let words = Words { done: word(&page, 0), moved: word(&page, 8) };
    let (words, caller) = (&words, this());
    let _masked = Masked::all_but(&[]);
    std::thread::scope(|scope| {
        let body = move || {
            words.until_asleep();
            let _wakes = Wakes(words);
            work(caller)
        };
        let named = std::thread::Builder::new().name("program pages".into());
        let thread = named.spawn_scoped(scope, body);
        let thread = thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        words.sleep();
        match thread.join() {
            Ok(result) => Ok(result),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

struct Words<'a> {
    /// 1 when the work is done.
    done: &'a AtomicU32,
    /// Its waiter sleeps here meanwhile.
    moved: &'a AtomicU32,
}

impl Words<'_> {
    /// The caller sleeps until the work is done.
    fn sleep(&self) {
        while self.done.load(Ordering::Acquire) == 0 {
            let _ = futex::wait(self.done, futex::Flags::PRIVATE, 0, None);
        }
    }

    /// Returns when the caller sleeps.
    fn until_asleep(&self) {
        while futex::cmp_requeue(self.done, futex::Flags::PRIVATE, 0, 1, self.moved, 0) != Ok(1) {
            std::thread::yield_now();
        }
    }

    /// The caller goes on. It waits at the first word again where it was stopped and continued meanwhile.
    fn wake(&self) {
        self.done.store(1, Ordering::Release);
        for word in [self.moved, self.done] {
            let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
        }
    }
}

/// Wakes the caller, whatever becomes of the work.
struct Wakes<'a>(&'a Words<'a>);

impl Drop for Wakes<'_> {
    fn drop(&mut self) {
        self.0.wake();
    }
}

fn word(page: &Memory, offset: u64) -> &AtomicU32 {
    // SAFETY: half of a word of the page, which is used by this half alone, and lives as long as the page.
    unsafe { AtomicU32::from_ptr(std::ptr::from_ref(page.word(offset)).cast_mut().cast()) }
}

const PAGE: u64 = 4096;
