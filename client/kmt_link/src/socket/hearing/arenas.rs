//! The arenas of a process: the files that hold its memory, each mapped whole, by the numbers that the kernel gives them.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use shared_words::{Memory, ReadOnlyMemory};
use wddm_types::PAGE_BYTES;

use super::received::{Page, is_scarce};
use crate::socket::packet::PacketError;

/// Those that have come.
#[derive(Debug, Default)]
pub(super) struct Arenas {
    known: Vec<Arena>,
}

#[derive(Debug)]
enum Arena {
    ReadOnly(ReadOnlyMemory),
    Writable(Arc<Memory>),
    /// The process could not take its file: the kernel sends it again.
    Lost,
}

impl Arenas {
    /// An arena has come, or has come again. False: the process cannot take its file.
    ///
    /// # Errors
    /// No kernel says this.
    pub fn keep(
        &mut self,
        number: u32,
        came: Result<Option<OwnedFd>, PacketError>,
        file_bytes: u64,
        writable: bool,
    ) -> Result<bool, PacketError> {
        let place = number as usize;
        let is_next = place == self.known.len() && place < ARENAS_MAX;
        if !is_next && !matches!(self.known.get(place), Some(Arena::Lost)) {
            return Err(PacketError::Malformed(
                "an arena of a number that is not the next, or more than any kernel has",
            ));
        }
        let arena = match came.and_then(|came| received(came, file_bytes, writable)) {
            Err(error) if is_scarce(&error) => Arena::Lost,
            arena => arena?,
        };
        let is_kept = !matches!(arena, Arena::Lost);
        if is_next {
            self.known.push(arena);
        } else {
            self.known[place] = arena;
        }
        Ok(is_kept)
    }

    /// A page of words in an arena.
    ///
    /// # Errors
    /// There is no such page.
    pub fn page(&self, number: u32, offset: u64) -> Result<Page, PacketError> {
        let end = offset.checked_add(PAGE_BYTES);
        match (self.known.get(number as usize), end) {
            (Some(Arena::ReadOnly(memory)), Some(end)) if end <= memory.bytes() => {
                Ok(Page::ReadOnly(memory.clone(), offset))
            }
            (Some(Arena::Writable(memory)), Some(end)) if end <= memory.bytes() => {
                Ok(Page::Writable(Arc::clone(memory), offset))
            }
            (Some(Arena::Lost), _) => Ok(Page::Lost),
            _ => Err(PacketError::Malformed("a page of no arena")),
        }
    }

    /// The memory of an arena in which a mapping may lie.
    ///
    /// # Errors
    /// There is none, or the process could not take its file (`MFILE`).
    pub fn memory(&self, number: u32) -> Result<Option<&Arc<Memory>>, PacketError> {
        match self.known.get(number as usize) {
            Some(Arena::Writable(memory)) => Ok(Some(memory)),
            Some(Arena::Lost) => Err(Errno::MFILE.into()),
            Some(Arena::ReadOnly(_)) | None => Ok(None),
        }
    }
}

fn received(came: Option<OwnedFd>, file_bytes: u64, writable: bool) -> Result<Arena, PacketError> {
    let file = came.ok_or(PacketError::Malformed("an arena without exactly one descriptor, its file"))?;
    Ok(match writable {
        true => Arena::Writable(Memory::from_file(file, file_bytes)?),
        false => Arena::ReadOnly(ReadOnlyMemory::from_file(file, file_bytes)?),
    })
}

/// Most arenas of a process: one of system memory to write and one to read, and one of each adapter's own.
const ARENAS_MAX: usize = 256;
