//! Memory that a program has already, given to a kernel: in place of its pages, wherever they come from (a heap, a stack, static data,
//! protected or not), come pages of a section that the program and the kernel both have, with what the others held, at the same
//! addresses and with the same protection. When no allocation lies over them any more, the program gets pages of its own again.
//! Called for a program that asks for an allocation over its memory, in the same process as its kernel or behind a socket: the section
//! is mapped in the program in both cases.
//!
//! # The law of this boundary
//! - Only whole pages change hands. Everything in them goes with them, and stays where it is for the program.
//! - A thread of this module's own changes the pages while the caller sleeps (`asleep`): the caller's frames may lie in them, and its
//!   thread-local memory.
//! - Stores of other threads are held (`hold`) while the pages change, as far as the operating system holds stores into them; it does
//!   for heaps and stacks. Between the hold and its end nothing here allocates: the allocator's own words may lie in these pages.
//! - Memory that the program shares with others already (`MAP_SHARED`) is refused: what the others see would not be the same any more. It
//!   is given as the file that it is ([`crate::ProgramFile`]).
//! - A page goes back only if it is still the one that was put there: the program may have unmapped it, and mapped another.
#![allow(unsafe_code)]

mod asleep;
mod by;
mod hold;

use std::fs::File;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::{Errno, pread};
use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags, mmap_anonymous, mprotect, mremap_fixed, munmap};

use self::asleep::while_asleep;
pub use self::by::SectionPages;
use self::hold::StoreHold;
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
    /// Puts the pages of a section in place of those at `base`, with what these hold. The caller sleeps meanwhile: its own stack may be there.
    ///
    /// # Errors
    /// See [`ProgramError`].
    ///
    /// # Panics
    /// When `by` is not of whole pages, or has none.
    ///
    /// # Safety
    /// The caller vouches that the memory is the program's to give, and that no reference of Rust's looks at its content during the call.
    pub unsafe fn replace(base: NonNull<u8>, by: SectionPages<'_>) -> Result<ProgramPages, ProgramError> {
        let (base, runs) = (base.as_ptr() as u64, by.runs());
        assert!(runs.iter().all(|run| run.bytes.is_multiple_of(PAGE)), "whole pages");
        let bytes = runs.iter().map(|run| run.bytes).sum();
        assert!(bytes > 0, "a section has pages");
        let before = parts(base, bytes)?;
        if let Some(part) = before.iter().find(|part| part.shared) {
            return Err(ProgramError::Mixed(part.start));
        }
        let memory = this_memory()?;
        let replaced = while_asleep(|caller| {
            let _held = StoreHold::hold(base, bytes, caller).map_err(|error| (0, error))?;
            let mut at = 0;
            for run in &runs {
                copy(&memory, &before, (base + at, run.bytes), run.place()).map_err(|error| (0, error.into()))?;
                at += run.bytes;
            }
            at = 0;
            for run in &runs {
                // SAFETY: the target is memory that the caller gives; its pages are replaced in one step by others that hold the same.
                unsafe { run.map_at(base + at) }.map_err(|error| (at, error.into()))?;
                at += run.bytes;
            }
            protect(&before).map_err(|error| (at, error.into()))
        });
        let replaced = replaced.map_err(|error| (0, error.into())).and_then(|replaced| replaced);
        let done = replaced.err();
        let (at, failed) = done.map_or((bytes, None), |(at, error)| (at, Some(error)));
        let after = if at > 0 { parts(base, at).unwrap_or_default() } else { Vec::new() };
        let now = ProgramPages { base, bytes: at, parts: joined(after) };
        let Some(error) = failed else { return Ok(now) };
        if at > 0 {
            // SAFETY: as the caller vouches.
            let _ = unsafe { now.restore() };
        }
        Err(error)
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

    /// Gives the program pages of its own again, with what these hold, wherever they are still in place. The caller sleeps meanwhile.
    ///
    /// # Errors
    /// When the operating system refuses, or stores cannot be held; pages that it refuses for stay those of the section.
    ///
    /// # Safety
    /// As of [`ProgramPages::replace`].
    pub unsafe fn restore(&self) -> Result<(), ProgramError> {
        let now = parts_there(self.base, self.bytes)?;
        let memory = this_memory()?;
        for part in now.iter().filter(|part| self.is_ours(part)) {
            while_asleep(|caller| restore(&memory, part, caller))??;
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

/// Puts pages of the program's own in place of a part that shows the section's. `asleep`: the thread for which the calling one works.
fn restore(memory: &File, part: &Part, asleep: i32) -> Result<(), ProgramError> {
    let bytes = part.end - part.start;
    // SAFETY: a fresh mapping at an address of the operating system's choice aliases nothing.
    let fresh = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes as usize, WRITABLE, MapFlags::PRIVATE) }?;
    let place = NonNull::new(fresh.cast::<u8>()).expect("a mapping is never at address 0");
    let one = std::slice::from_ref(part);
    let moved = StoreHold::hold(part.start, bytes, asleep).and_then(|_held| {
        copy(memory, one, (part.start, bytes), place)?;
        let (target, flags) = (part.start as *mut _, MremapFlags::MAYMOVE);
        // SAFETY: nothing else refers to the fresh pages; the target is the program's pages that this value has put there, and the pages
        // that come in their place hold the same.
        unsafe { mremap_fixed(fresh, bytes as usize, bytes as usize, flags, target) }?;
        Ok(protect(one))
    });
    match moved {
        Ok(protected) => Ok(protected?),
        Err(error) => {
            // SAFETY: the fresh mapping, whose address this function alone has.
            let _ = unsafe { munmap(fresh, bytes as usize) };
            Err(error)
        }
    }
}

/// The memory of this process, readable whatever protects it.
fn this_memory() -> Result<File, Errno> {
    File::open("/proc/self/mem").map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Copies these bytes of the program (address and length), which lie in these parts, to another place.
fn copy(memory: &File, parts: &[Part], (base, bytes): (u64, u64), to: NonNull<u8>) -> Result<(), Errno> {
    for part in parts {
        let (mut at, end) = (part.start.max(base), part.end.min(base + bytes));
        let readable = part.protection & READ != 0;
        while at < end {
            // SAFETY: the target is as long as the bytes, and no other code has its address yet.
            let into =
                unsafe { std::slice::from_raw_parts_mut(to.as_ptr().add((at - base) as usize), (end - at) as usize) };
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
