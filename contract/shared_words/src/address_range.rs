//! A range of addresses that shows memory files, and goes on showing the right ones while their content is moved from one to another: no
//! store into it is ever lost (memory §6.3). It is not a lock, and the mover owns no word of it: the mover protects the range first,
//! copies, and shows the new place. The link or host that maps a process's locks calls it.
//!
//! # How a store waits
//! [`AddressRange::protect`] holds the range. A thread that stores then sleeps in the operating system (`faults`) until
//! [`AddressRange::show`] has mapped other pages and woken it; it stores again, into those. Each page is replaced in one step, so no
//! access ever finds a hole.
//!
//! Limits: those of `faults`; and each run of consecutive pages takes one of the process's mappings.
#![allow(unsafe_code)]

use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::faults::Faults;
use crate::memory::{Backing, Memory, MemoryError};

/// A range of addresses of this process. It always shows something: zeros of its own until the first
/// [`AddressRange::show`] and after [`AddressRange::end`].
pub struct AddressRange {
    base: NonNull<u8>,
    bytes: u64,
    faults: Faults,
    /// Pages of memory files are in it, in whole or in part.
    shows: AtomicBool,
}

// SAFETY: the range belongs to this value and is mapped as long as it lives; every access is a raw copy or an atomic.
unsafe impl Send for AddressRange {}
// SAFETY: as above; no method hands out a reference to plain bytes.
unsafe impl Sync for AddressRange {}

impl AddressRange {
    /// Reserves addresses for `bytes`, rounded up to a page.
    ///
    /// # Errors
    /// When there are no addresses, or the operating system does not hold stores (no `userfaultfd` with write protection
    /// of shared memory): such a host gives no addresses.
    pub fn reserve(bytes: u64) -> Result<AddressRange, MemoryError> {
        let bytes = bytes.max(1).next_multiple_of(4096);
        let faults = Faults::open().map_err(|source| MemoryError { bytes, source })?;
        let length = usize::try_from(bytes).map_err(|_| MemoryError { bytes, source: rustix::io::Errno::NOMEM })?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), length, WRITABLE, MapFlags::PRIVATE | NO_RESERVE) };
        let base = mapped.map_err(|source| MemoryError { bytes, source })?;
        let base = NonNull::new(base.cast::<u8>()).expect("a mapping is never at address 0");
        Ok(AddressRange { base, bytes, faults, shows: AtomicBool::new(false) })
    }

    /// The same, and it shows these parts of memory files from the beginning.
    ///
    /// # Errors
    /// As of [`AddressRange::reserve`] and [`AddressRange::show`].
    ///
    /// # Panics
    /// As [`AddressRange::show`].
    pub fn showing<'a>(
        bytes: u64,
        parts: impl Iterator<Item = (&'a Memory, u64, u64)>,
    ) -> Result<AddressRange, MemoryError> {
        let range = AddressRange::reserve(bytes)?;
        // No other party knows the addresses yet: no store into them is held.
        range.map(parts)?;
        Ok(range)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first address. Its bytes are shared: a program may only touch them by volatile or atomic accesses.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Holds every store from now on. When it returns, no store is under way; loads go on.
    ///
    /// # Panics
    /// When the operating system refuses, which is a defect of ours: the range is whole and shows files.
    pub fn protect(&self) {
        // SAFETY: the range is this value's, and `show` and `end` wake every sleeper.
        unsafe { self.faults.hold(self.base, self.bytes) }.expect("the range is whole and shows files");
    }

    /// Shows these parts of memory files one after the other (memory, offset, bytes), and lets held stores go on there.
    ///
    /// # Errors
    /// When the process has no mapping left for one more run; part of the range may show the new place already.
    ///
    /// # Panics
    /// When the parts are not whole pages of memory files, or do not cover the range exactly.
    pub fn show<'a>(&self, parts: impl Iterator<Item = (&'a Memory, u64, u64)>) -> Result<(), MemoryError> {
        self.map(parts)?;
        self.wake();
        Ok(())
    }

    /// Maps these parts, and wakes no thread.
    fn map<'a>(&self, parts: impl Iterator<Item = (&'a Memory, u64, u64)>) -> Result<(), MemoryError> {
        self.shows.store(true, Ordering::Relaxed);
        let mut at = 0;
        for (memory, offset, bytes) in parts {
            assert!(memory.contains(offset, bytes) && at + bytes <= self.bytes, "parts lie in memory and in the range");
            assert!([at, offset, bytes].iter().all(|n| n.is_multiple_of(4096)), "parts are whole pages");
            // Of a memory some pages may lie in files of their own.
            for (backing, offset, bytes) in memory.backings(offset, bytes) {
                let file = match &backing {
                    Backing::Own => memory.file().expect("an address range shows memory files").as_fd(),
                    Backing::Lent(file) => file.as_fd(),
                };
                // SAFETY: the target lies in the range that this value owns, and only atomics and raw copies refer to it; the
                // old pages are replaced in one step.
                let mapped = unsafe {
                    mmap(self.at(at).cast(), bytes as usize, WRITABLE, MapFlags::SHARED | FIXED, file, offset)
                };
                mapped.map_err(|source| MemoryError { bytes, source })?;
                at += bytes;
            }
        }
        assert_eq!(at, self.bytes, "the parts cover the range");
        Ok(())
    }

    /// Lets held stores go on where they are, if any are held.
    pub fn release(&self) {
        // The operating system refuses a range that holds no store.
        let _ = self.faults.release(self.base, self.bytes);
    }

    /// Shows zeros of its own from now on; stores reach no memory file.
    pub fn end(&self) {
        // SAFETY: as in `show`.
        let mapped = unsafe {
            mmap_anonymous(
                self.base.as_ptr().cast(),
                self.bytes as usize,
                WRITABLE,
                MapFlags::PRIVATE | FIXED | NO_RESERVE,
            )
        };
        mapped.expect("one mapping in place of others");
        self.shows.store(false, Ordering::Relaxed);
        self.wake();
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && self.contains(offset, 8), "no word at {offset:#x} of {:#x}", self.bytes);
        // SAFETY: in range and aligned; mapped as long as `self` lives; only used as an atomic or through raw copies.
        unsafe { AtomicU64::from_ptr(self.at(offset).cast()) }
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// When the range lies outside.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        assert!(self.contains(offset, into.len() as u64), "read outside the range");
        // SAFETY: in range (checked); the destination is the caller's own.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset), into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// When the range lies outside.
    pub fn write(&self, offset: u64, from: &[u8]) {
        assert!(self.contains(offset, from.len() as u64), "write outside the range");
        // SAFETY: in range (checked); no reference to its plain bytes exists.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at(offset), from.len()) }
    }

    /// Stores `count` words from `offset`, each computed from its index.
    ///
    /// # Panics
    /// When they lie outside or are not aligned to 8 bytes.
    pub fn store_words(&self, offset: u64, count: u64, mut value: impl FnMut(u64) -> u64) {
        assert!(offset.is_multiple_of(8) && self.contains(offset, count * 8), "words outside the range");
        let words = self.at(offset).cast::<u64>();
        for index in 0..count {
            // SAFETY: in range and aligned (checked).
            unsafe { words.add(index as usize).write_volatile(value(index)) }
        }
    }

    fn contains(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.bytes)
    }

    fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.bytes);
        // SAFETY: callers have checked that `offset` is inside the range, which is one object.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }

    /// Wakes every thread that sleeps on a store into the range.
    fn wake(&self) {
        self.faults.wake(self.base, self.bytes);
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        // A store of the program by a pointer that it kept may be held still.
        if *self.shows.get_mut() {
            self.end();
        }
        // SAFETY: the range is this value's, and nothing can refer to it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes as usize) };
    }
}

impl std::fmt::Debug for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AddressRange({} bytes at {:p})", self.bytes, self.base)
    }
}

const WRITABLE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
const NO_RESERVE: MapFlags = MapFlags::NORESERVE;
const FIXED: MapFlags = MapFlags::FIXED;

#[cfg(test)]
mod bytes;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::racers::Racers;
    use std::sync::Arc;

    // spec: memory §6.3
    // seed: M38
    #[test]
    fn no_store_is_lost_while_pages_change() {
        const WORDS: u64 = 1024;
        let memories = [4, 8].map(|pages| Memory::reserve_file(pages * 4096).expect("a memory file"));
        // While a thread sleeps in a store into the range it stays mapped, for the thread has it, too.
        let range = Arc::new(AddressRange::reserve(2 * 4096).expect("addresses"));
        range.show([(&*memories[0], 0, 8192)].into_iter()).expect("a mapping");
        let stored = Arc::clone(&range);
        let racers = Racers::start(3, move |thread, count| {
            stored.word((count * 7 + thread) % WORDS * 8).fetch_add(1, Ordering::Relaxed);
        });
        for turn in 0..2000 {
            let (from, to) = (&memories[turn % 2], &memories[(turn + 1) % 2]);
            range.protect();
            to.copy_from(0, from, 0, 8192);
            // One page after the other, so that there is more than one step.
            range.show([(&**to, 0, 4096), (&**to, 4096, 4096)].into_iter()).expect("mappings");
        }
        // What stays where it is lets its stores go on there.
        range.protect();
        range.release();
        racers.go_on();
        let counts = racers.stop();
        let found: u64 = (0..WORDS).map(|word| range.word(word * 8).load(Ordering::Relaxed)).sum();
        assert_eq!(found, counts.iter().sum::<u64>(), "every increment is there");
        range.end();
        assert_eq!(range.word(0).load(Ordering::Relaxed), 0, "nothing of it is seen any more");
    }
}
