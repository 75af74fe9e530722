//! Memory that a program has already, given to a kernel: in place of its pages, wherever they come from (a heap, a stack, static data,
//! protected or not), come pages of a section that the program and the kernel both have, with what the others held, at the same
//! addresses and with the same protection. When no allocation lies over them any more, the program gets pages of its own again.
//! Called for a program that asks for an allocation over its memory, in the same process as its kernel or behind a socket: the section
//! is mapped in the program in both cases.
//!
//! # The law of this boundary
//! - Only whole pages change hands. Everything in them goes with them, and stays where it is for the program.
//! - Stores of other threads are held (`faults`) while the pages change, as far as the operating system holds stores into them; it does
//!   for heaps and stacks. Between the hold and its end nothing here allocates: the allocator's own words may lie in these pages.
//! - Memory that the program shares with others already (`MAP_SHARED`) is refused: what the others see would not be the same any more. It
//!   is given as the file that it is ([`crate::ProgramFile`]).
//! - A page goes back only if it is still the one that was put there: the program may have unmapped it, and mapped another.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::{Errno, pread};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mprotect, mremap_fixed, munmap,
};

use crate::address_range::AddressRange;
use crate::faults::Faults;
use crate::program_map::{Part, ProgramError, READ, WRITE, joined, parts, parts_there};

/// Pages of a program that are those of a section.
#[derive(Debug)]
pub struct ProgramPages {
    base: u64,
    bytes: u64,
    /// The mappings just after the pages had changed, however they are protected.
    parts: Vec<Part>,
}

impl ProgramPages {
    /// Puts the pages that `by` shows in place of those at `base`, with what these hold. `runs`: bytes of consecutive pages of `by`.
    ///
    /// # Errors
    /// See [`ProgramError`].
    ///
    /// # Panics
    /// When the runs are not whole pages, or not all of `by`.
    ///
    /// # Safety
    /// The caller vouches that the memory is the program's to give, and that no reference of Rust's looks at its content during the call.
    pub unsafe fn replace(base: NonNull<u8>, by: &AddressRange, runs: &[u64]) -> Result<ProgramPages, ProgramError> {
        let (base, bytes) = (base.as_ptr() as u64, by.bytes());
        assert!(base.is_multiple_of(PAGE) && runs.iter().all(|run| run.is_multiple_of(PAGE)), "whole pages");
        assert_eq!(runs.iter().sum::<u64>(), bytes, "the runs are the section");
        let before = parts(base, bytes)?;
        if let Some(part) = before.iter().find(|part| part.shared) {
            return Err(ProgramError::Mixed(part.start));
        }
        let memory = File::open("/proc/self/mem").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let held = StoreHold::hold(base, bytes);
        copy(&memory, &before, base, by.base())?;
        let mut at = 0;
        let mut failed = None;
        for &run in runs {
            let (from, to) = (by.base().as_ptr() as u64 + at, base + at);
            let flags = MremapFlags::MAYMOVE;
            // SAFETY: the source is a shared mapping of files that lives; with a size of 0 it stays, and its pages are mapped a second time.
            // The target is memory that the caller gives; its pages are replaced in one step by others that hold the same.
            let mapped = unsafe { mremap_fixed(from as *mut _, 0, run as usize, flags, to as *mut _) };
            if let Err(error) = mapped {
                failed = Some(error);
                break;
            }
            at += run;
        }
        let done = match failed {
            Some(error) => Err(error),
            None => protect(&before),
        };
        drop(held);
        let now = ProgramPages { base, bytes: if failed.is_some() { at } else { bytes }, parts: Vec::new() };
        let after = parts(base, now.bytes.max(PAGE)).unwrap_or_default();
        let now = ProgramPages { parts: joined(after), ..now };
        match done {
            Ok(()) => Ok(now),
            Err(error) => {
                if at > 0 {
                    // SAFETY: as the caller vouches.
                    let _ = unsafe { now.restore() };
                }
                Err(error.into())
            }
        }
    }

    /// Where these bytes of the program lie in the pages; `None`: they are not all among them.
    pub fn offset_of(&self, base: u64, bytes: u64) -> Option<u64> {
        let offset = base.checked_sub(self.base)?;
        (offset.checked_add(bytes)? <= self.bytes).then_some(offset)
    }

    /// Whether some of these bytes of the program are among the pages.
    pub fn overlaps(&self, base: u64, bytes: u64) -> bool {
        base < self.base + self.bytes && self.base < base.saturating_add(bytes)
    }

    /// Whether all of the pages are still where they were put.
    pub fn are_in_place(&self) -> bool {
        let here = |parts: &[Part]| parts.iter().all(|part| self.is_ours(part));
        parts(self.base, self.bytes).is_ok_and(|now| here(&now))
    }

    /// Gives the program pages of its own again, with what these hold, wherever they are still in place.
    ///
    /// # Errors
    /// When the operating system refuses; pages that it refuses for stay those of the section.
    ///
    /// # Safety
    /// As of [`ProgramPages::replace`].
    pub unsafe fn restore(&self) -> Result<(), Errno> {
        let now = parts_there(self.base, self.bytes)?;
        let memory = File::open("/proc/self/mem").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        for part in now.iter().filter(|part| self.is_ours(part)) {
            let bytes = part.end - part.start;
            // SAFETY: a fresh mapping at an address of the operating system's choice aliases nothing.
            let fresh = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes as usize, WRITABLE, MapFlags::PRIVATE) }?;
            let place = NonNull::new(fresh.cast::<u8>()).expect("a mapping is never at address 0");
            let held = StoreHold::hold(part.start, bytes);
            let one = std::slice::from_ref(part);
            let copied = copy(&memory, one, part.start, place);
            let moved = copied.and_then(|()| {
                let target = part.start as *mut _;
                // SAFETY: nothing else refers to the fresh pages; the target is the program's pages that this value has put there, and the
                // pages that come in their place hold the same.
                unsafe { mremap_fixed(fresh, bytes as usize, bytes as usize, MremapFlags::MAYMOVE, target) }
            });
            let protected = moved.and_then(|_| protect(one));
            drop(held);
            if let Err(error) = protected {
                if moved.is_err() {
                    // SAFETY: the fresh mapping, whose address this function alone has.
                    let _ = unsafe { munmap(fresh, bytes as usize) };
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether a mapping shows what was put there: the same bytes of the same file.
    fn is_ours(&self, part: &Part) -> bool {
        self.parts.iter().any(|ours| {
            let (same, offset) =
                ((ours.of.0, ours.of.1) == (part.of.0, part.of.1), part.start.wrapping_sub(ours.start));
            same && part.shared && ours.start <= part.start && part.end <= ours.end && part.of.2 == ours.of.2 + offset
        })
    }
}

/// Stores into pages that are held as long as this lives, if the operating system holds them.
struct StoreHold(Option<(Faults, NonNull<u8>, u64)>);

impl StoreHold {
    fn hold(base: u64, bytes: u64) -> StoreHold {
        let place = NonNull::new(base as *mut u8).expect("no program has memory at address 0");
        let faults = Faults::open().ok();
        // Some kernels protect only pages that are there: a page that was never touched becomes one of zeroes. Where that is refused (no
        // load is allowed there) no thread stores either.
        // SAFETY: the pages are the program's own, and what they hold stays.
        let _ = unsafe { madvise(place.as_ptr().cast(), bytes as usize, Advice::LinuxPopulateRead) };
        // SAFETY: the pages are the program's own, and they are let go when this is dropped.
        let holds = |faults: &Faults| unsafe { faults.hold(place, bytes) }.is_ok();
        StoreHold(faults.filter(holds).map(|faults| (faults, place, bytes)))
    }
}

impl Drop for StoreHold {
    fn drop(&mut self) {
        if let Some((faults, place, bytes)) = self.0 {
            // Pages that were replaced are held no more; those that were not are let go.
            let _ = faults.release(place, bytes);
            faults.wake(place, bytes);
        }
    }
}

/// Copies what parts of this process's memory hold to another place, which stands for the bytes from `base` on.
fn copy(memory: &File, parts: &[Part], base: u64, to: NonNull<u8>) -> Result<(), Errno> {
    for part in parts {
        let (mut at, readable) = (part.start, part.protection & READ != 0);
        while at < part.end {
            // SAFETY: the target is as long as the parts, and no other code has its address yet.
            let into = unsafe {
                std::slice::from_raw_parts_mut(to.as_ptr().add((at - base) as usize), (part.end - at) as usize)
            };
            match pread(memory.as_fd(), &mut *into, at) {
                Ok(0) => return Err(Errno::IO),
                Ok(read) => at += read as u64,
                Err(Errno::INTR) => {}
                // Some kernels do not override protections here.
                Err(Errno::IO) if !readable => {
                    change(part, READ)?;
                    let read = pread(memory.as_fd(), into, at);
                    change(part, part.protection)?;
                    at += read? as u64;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Protects pages as those were that stood there.
fn protect(parts: &[Part]) -> Result<(), Errno> {
    parts.iter().filter(|part| part.protection != READ | WRITE).try_for_each(|part| change(part, part.protection))
}

fn change(part: &Part, protection: u32) -> Result<(), Errno> {
    let flags = MprotectFlags::from_bits_retain(protection);
    // SAFETY: the pages are the program's, and get a protection that they had, or are read by this call alone meanwhile.
    unsafe { mprotect(part.start as *mut _, (part.end - part.start) as usize, flags) }
}

const PAGE: u64 = 4096;
const WRITABLE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

#[cfg(test)]
mod copy_tests;
#[cfg(test)]
mod tests;
