//! Arenas: files of one process, each with all pages of one memory that the process is lent, however many there are. The host that gives
//! memory to clients makes them, one process at a time; this file does not know processes.
//!
//! Pages that only one process maps need no file of their own: that process may see all of them. So its descriptor costs one, and not
//! one for each allocation. Three kinds:
//!
//! | arena | a page of the memory lies | for |
//! |---|---|---|
//! | [`LentFile::arena`] | at its own offset | fresh pages ([`Memory::lend_from`]) |
//! | [`LentFile::arena_to_read`] | at its own offset | fresh pages that the process may not write |
//! | [`LentFile::arena_of_content`] | wherever there is room | pages lent with what they hold ([`Memory::lend_content`]) |
//!
//! Where pages have their own offsets no list of free ones is needed, and neighbours in the memory are neighbours in the file: the
//! operating system joins their mappings, of which a process may have some 65,000. Content cannot lie so: pages that a process still sees
//! until it has heard of other ones keep what they hold, and another allocation of that process may be lent the same frames meanwhile.
//!
//! # The law of this boundary
//! That of `lent`, and:
//! - **An arena is of one process for ever.** Each holder of its descriptor maps all pages that ever lie in it, so it is handed to that
//!   process alone, and pages of several processes lie in none.
//! - **A page of an arena is that process's, lent or not.** The process may store where no page is lent, and finds its own stores there.
//!   The memory shows nothing of that: it shows pages of an arena where they are lent, after it has cleared them. So what a process
//!   stores too early or too late changes the content of its own pages, and of no other's.
//! - **Read means read.** What a process may only read lies in an arena that takes no mapping for stores, no write and no hole any more,
//!   whatever its descriptor is opened as; our own mappings are copies of one that is older than that. So pages keep their memory until the
//!   arena goes, and are cleared before they are lent again.
//! - **It is as large as it will ever be.** Pages that were never touched, and those that are lent no more, hold no memory.

use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::fallocate;
use rustix::io::Errno;

use super::extents::Extents;
use super::lent::{LentPages, forget};
use super::lent_file::{ClientAccess, HOLE, LentFile, Use};
use super::{Memory, MemoryError};

/// Bytes of an arena of content for each byte of its memory: all that is lent, and as much each that its process has not answered for yet
/// when its content moved on, once told and once passed (decision 0033).
const CONTENT_TIMES: u64 = 4;

impl LentFile {
    /// An arena of pages of a memory, each at its own offset, that its process may write.
    ///
    /// # Errors
    /// When the operating system gives no descriptor.
    pub fn arena(memory: &Memory) -> Result<Arc<LentFile>, MemoryError> {
        arena(memory.bytes(), Use::Arena)
    }

    /// An arena of pages of a memory, each at its own offset, that its process may only read.
    ///
    /// # Errors
    /// When the operating system gives no descriptor, or no addresses.
    pub fn arena_to_read(memory: &Memory) -> Result<Arc<LentFile>, MemoryError> {
        let bytes = memory.bytes();
        let made = LentFile::of_use(bytes, ClientAccess::Read, Use::Arena).and_then(|mut file| {
            file.used = Use::ArenaToRead(Memory::part_of(&file.file, 0, bytes)?);
            file.seal().map(|()| Arc::new(file))
        });
        made.map_err(|source| MemoryError { bytes, source })
    }

    /// An arena of pages of a memory that are lent with their content.
    ///
    /// # Errors
    /// When the operating system gives no descriptor.
    pub fn arena_of_content(memory: &Memory) -> Result<Arc<LentFile>, MemoryError> {
        let bytes = memory.bytes().saturating_mul(CONTENT_TIMES);
        arena(bytes, Use::ArenaOfContent(Mutex::new(Extents::new(bytes))))
    }

    /// Whether each page of a memory has its own place in it.
    pub(super) fn has_places(&self) -> bool {
        matches!(self.used, Use::Arena | Use::ArenaToRead(_))
    }

    /// Whether it is an arena: only its process may have it.
    pub fn is_arena(&self) -> bool {
        matches!(self.used, Use::Arena | Use::ArenaToRead(_) | Use::ArenaOfContent(_))
    }

    /// Room for content, as (offset, bytes).
    ///
    /// # Panics
    /// When it is no arena of content.
    pub(super) fn take_room(&self, bytes: u64) -> rustix::io::Result<Vec<(u64, u64)>> {
        let Use::ArenaOfContent(extents) = &self.used else { panic!("only an arena of content has room") };
        extents.lock().unwrap_or_else(PoisonError::into_inner).take(bytes).ok_or(Errno::NOSPC)
    }

    /// Bytes of an arena of content hold none any more. Other files have no use for it.
    pub(super) fn give_room_back(&self, at: u64, bytes: u64) {
        if let Use::ArenaOfContent(extents) = &self.used {
            extents.lock().unwrap_or_else(PoisonError::into_inner).give_back(at, bytes);
        }
    }
}

fn arena(bytes: u64, used: Use) -> Result<Arc<LentFile>, MemoryError> {
    let file = LentFile::of_use(bytes, ClientAccess::ReadWrite, used);
    let sealed = file.and_then(|file| file.seal().map(|()| Arc::new(file)));
    sealed.map_err(|source| MemoryError { bytes, source })
}

impl Memory {
    /// Puts fresh zero pages of an arena in place of these runs (offset, bytes). The content is not kept. Runs that were lent are taken
    /// back first.
    ///
    /// # Errors
    /// When the operating system refuses a mapping. None of the runs is lent then.
    ///
    /// # Panics
    /// When the file is no arena of this memory's pages, or one of the runs is not whole pages of this memory.
    pub fn lend_from(&self, arena: &Arc<LentFile>, runs: &[(u64, u64)]) -> Result<(), MemoryError> {
        assert!(arena.has_places() && arena.bytes() == self.bytes(), "an arena of this memory's pages");
        runs.iter().for_each(|run| self.assert_pages(*run));
        let all = runs.iter().map(|(_, bytes)| bytes).sum();
        let refused = |source| MemoryError { bytes: all, source };
        if arena.is_lost() || self.check_room(runs.len()).is_err() {
            runs.iter().try_for_each(|&(offset, bytes)| self.take_back(offset, bytes))?;
            return Err(refused(Errno::NOMEM));
        }
        for &(offset, bytes) in runs {
            forget(self.cut_lent(offset, bytes));
            let mapped = match &arena.used {
                Use::ArenaToRead(whole) => {
                    whole.fill(offset, bytes, 0);
                    self.map_again(offset, bytes, whole)
                }
                // The process may have stored there when it was lent something else, or nothing.
                _ => fallocate(&arena.file, HOLE, offset, bytes)
                    .and_then(|()| self.map_file(offset, bytes, &arena.file, offset)),
            };
            if let Err(source) = mapped {
                // PANIC: going on would show the process the content of the pages' next owner.
                self.map_own(offset, bytes).expect("a mapping of ours in place of another");
                runs.iter().for_each(|&(offset, bytes)| self.take_back(offset, bytes).expect("the same"));
                return Err(refused(source));
            }
            // The memory shows no more of its own file there: the pages go.
            let _ = self.file().map(|own| fallocate(own, HOLE, offset, bytes));
            self.note_lent(LentPages { file: Arc::clone(arena), file_offset: offset, offset, bytes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
