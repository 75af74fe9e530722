//! Pages that are lent with what they hold, and taken back with it, while engines go on using them: a lock of content in video memory.
//! The operating system holds stores (`faults`) while this file copies the content and puts other pages in its place, loads go on; so no
//! store is lost, and every load finds the content.
//!
//! # The law of this boundary
//! - The lender vouches that no other party's content is in these pages, and that none comes before they are taken back: the client sees
//!   all that is there meanwhile.
//! - Pages change hands by one party at a time: nothing here waits for another that does the same.
//! - When something fails, the content is where it was.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::fallocate;
use rustix::io::Errno;

use super::lent::{LentPages, forget};
use super::lent_file::{HOLE, LentFile};
use super::{Memory, MemoryError};
use crate::faults::Faults;

impl Memory {
    /// Whether pages can be lent with what they hold: it is a memory file, and the operating system holds stores.
    pub fn lends_content(&self) -> bool {
        self.file.is_some() && Faults::open().is_ok()
    }

    /// Puts pages of an arena of content in place of these runs (offset, bytes), with what they hold, wherever the arena has room. Its
    /// client may store there.
    ///
    /// # Errors
    /// When the arena has no room for so much (`ENOSPC`), or the operating system refuses a mapping. The runs are taken back then; what
    /// the operating system refuses to copy back is lost.
    ///
    /// # Panics
    /// When [`Memory::lends_content`] says no, the file is no arena of content, or a run is not whole pages of this memory, or is lent.
    pub fn lend_content(&self, arena: &Arc<LentFile>, runs: &[(u64, u64)]) -> Result<(), MemoryError> {
        let bytes = runs.iter().map(|(_, bytes)| bytes).sum();
        let whole = self.file.as_ref().expect("a memory file lends content");
        let refused = |source| MemoryError { bytes, source };
        for run in runs {
            self.assert_pages(*run);
            assert!(self.lent_in(run.0, run.1).is_empty(), "{:#x} bytes at {:#x} are lent already", run.1, run.0);
        }
        self.check_room(runs.len()).map_err(refused)?;
        let room = arena.take_room(bytes).map_err(refused)?;
        let parts = parted(runs, &room);
        for (number, &(offset, bytes, at)) in parts.iter().enumerate() {
            if let Err(source) = self.replace(offset, bytes, &arena.file, at) {
                for &(offset, bytes, _) in &parts[..number] {
                    if self.take_content_back(offset, bytes).is_err() {
                        // PANIC: going on would show the process the content of the frames' next owner.
                        self.take_back(offset, bytes).expect("a mapping of ours in place of another");
                    }
                }
                for &(_, bytes, at) in &parts[number..] {
                    let _ = fallocate(&arena.file, HOLE, at, bytes);
                    arena.give_room_back(at, bytes);
                }
                return Err(refused(source));
            }
            let _ = fallocate(whole, HOLE, offset, bytes);
            self.note_lent(LentPages { file: Arc::clone(arena), file_offset: at, offset, bytes });
        }
        Ok(())
    }

    /// Puts pages of this memory's own in place of the lent ones among these bytes, with what they hold. The client's mappings reach this
    /// memory no more.
    ///
    /// # Errors
    /// When the operating system refuses a mapping; then the pages are still lent.
    ///
    /// # Panics
    /// When they are not whole pages of this memory, or it is no memory file.
    pub fn take_content_back(&self, offset: u64, bytes: u64) -> Result<(), MemoryError> {
        self.assert_pages((offset, bytes));
        let whole = self.file.as_ref().expect("a memory file lends content");
        for pages in self.lent_in(offset, bytes) {
            let bytes = pages.bytes;
            self.replace(pages.offset, bytes, whole, pages.offset).map_err(|source| MemoryError { bytes, source })?;
            forget(self.cut_lent(pages.offset, bytes));
        }
        Ok(())
    }

    /// Puts pages of a file, from `at` on, in place of these, with the same content.
    fn replace(&self, offset: u64, bytes: u64, file: &OwnedFd, at: u64) -> rustix::io::Result<()> {
        let faults = Faults::open()?;
        let base = self.address(offset);
        // SAFETY: the addresses are this value's; below they are woken or released.
        unsafe { faults.hold(base, bytes) }?;
        let replaced = self.write_to(offset, bytes, file, at).and_then(|()| self.map_filled(offset, bytes, file, at));
        match replaced {
            Ok(()) => faults.wake(base, bytes),
            Err(_) => faults.release(base, bytes).expect("they are held"),
        }
        replaced
    }

    /// Writes these bytes into a file, which has new pages there: the operating system does not clear pages that it fills at once, and
    /// maps none for it.
    fn write_to(&self, offset: u64, bytes: u64, file: &OwnedFd, at: u64) -> rustix::io::Result<()> {
        let mut done = 0;
        while done < bytes {
            let from = self.address(offset + done).as_ptr().cast();
            // SAFETY: the bytes lie within the mapping, and the operating system alone looks at them: that others store there
            // meanwhile breaks no promise of a reference. The length fits because it is within a mapping; no file is as long as its
            // offsets have room for.
            let written = unsafe { libc::pwrite(file.as_raw_fd(), from, (bytes - done) as usize, (at + done) as i64) };
            match written {
                // CAST: not negative.
                1.. => done += written as u64,
                0 => return Err(Errno::NOSPC),
                _ => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                    Some(Errno::INTR) => {}
                    error => return Err(error.unwrap_or(Errno::IO)),
                },
            }
        }
        Ok(())
    }
}

/// Runs (offset, bytes) cut to the pieces of room (place, bytes) that they go to, one after the other: (offset, bytes, place).
fn parted(runs: &[(u64, u64)], room: &[(u64, u64)]) -> Vec<(u64, u64, u64)> {
    let mut parts = Vec::new();
    let (mut room, mut left) = (room.iter().copied(), (0, 0));
    for &(mut offset, mut bytes) in runs {
        while bytes > 0 {
            if left.1 == 0 {
                left = room.next().expect("there is room for all runs");
            }
            let some = bytes.min(left.1);
            parts.push((offset, some, left.0));
            (offset, bytes, left) = (offset + some, bytes - some, (left.0 + some, left.1 - some));
        }
    }
    parts
}

#[cfg(test)]
mod write_tests;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::racers::Racers;

    const PAGES: u64 = 4;

    // spec: memory §6.3
    #[test]
    fn no_store_is_lost_while_pages_are_lent_and_taken_back() {
        const WORDS: u64 = PAGES * 512;
        let memory = Memory::reserve_file(64 * 4096).expect("a memory file");
        assert!(memory.lends_content());
        let stored = Arc::clone(&memory);
        let racers = Racers::start(2, move |thread, count| {
            stored.word(4096 + (count * 7 + thread) % WORDS * 8).fetch_add(1, Ordering::Relaxed);
        });
        let arena = LentFile::arena_of_content(&memory).expect("a descriptor");
        let received = arena.as_fd().try_clone_to_owned().expect("a descriptor");
        let theirs = Memory::from_file(received, arena.bytes()).expect("a mapping");
        let mut by_client = 0;
        for _ in 0..500 {
            // In the file the runs lie the other way round.
            memory.lend_content(&arena, &[(2 * 4096, 3 * 4096), (4096, 4096)]).expect("room");
            for word in 0..WORDS {
                theirs.word(word * 8).fetch_add(1, Ordering::Relaxed);
            }
            by_client += WORDS;
            memory.take_content_back(4096, PAGES * 4096).expect("a mapping");
            assert_eq!(theirs.scan_words(0, WORDS, |_, word| word == 0), None, "what it keeps is nothing");
        }
        let counted = racers.stop();
        let found: u64 = (0..WORDS).map(|word| memory.word(4096 + word * 8).load(Ordering::Relaxed)).sum();
        assert_eq!(found, counted.iter().sum::<u64>() + by_client, "every increment is there");
        assert!(memory.lent_at(4096).is_none());
    }

    #[test]
    fn what_is_beside_lent_pages_is_in_no_file() {
        let memory = Memory::reserve_file(8 * 4096).expect("a memory file");
        memory.store_words(0, 8 * 512, |word| word + 1);
        let arena = LentFile::arena_of_content(&memory).expect("a descriptor");
        memory.lend_content(&arena, &[(4096, 4096), (3 * 4096, 4096)]).expect("room");
        let theirs = Memory::from_file(arena.as_fd().try_clone_to_owned().unwrap(), arena.bytes()).expect("a mapping");
        assert_eq!(theirs.scan_words(2 * 4096, theirs.bytes() / 8 - 1024, |_, word| word == 0), None);
        let expected = |word: u64| word % 512 + if word < 512 { 512 } else { 3 * 512 } + 1;
        assert_eq!(theirs.scan_words(0, 1024, |word, found| found == expected(word)), None);
        theirs.fill(0, 4096, 7);
        assert_eq!(memory.scan_words(4096, 512, |_, word| word == 0x7_0000_0007), None, "the same page");
        memory.take_back(4096, 4096).expect("a mapping");
        memory.take_content_back(0, 8 * 4096).expect("a mapping");
        let left = |word: u64, found| found == if (512..1024).contains(&word) { 0 } else { word + 1 };
        assert_eq!(memory.scan_words(0, 8 * 512, left), None, "the one without its content, the other with it");
        theirs.fill(0, 2 * 4096, 9);
        assert_eq!(memory.scan_words(0, 8 * 512, left), None, "a client's store now reaches no memory");
    }

    #[test]
    #[should_panic(expected = "lent already")]
    fn pages_are_lent_once() {
        let memory = Memory::reserve_file(2 * 4096).expect("a memory file");
        let arena = LentFile::arena_of_content(&memory).expect("a descriptor");
        memory.lend_content(&arena, &[(0, 4096)]).expect("room");
        let _ = memory.lend_content(&arena, &[(0, 8192)]);
    }
}
