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

use super::lent::{ClientAccess, HOLE, LentFile, LentPages, forget};
use super::{Memory, MemoryError};
use crate::faults::Faults;

impl Memory {
    /// Whether pages can be lent with what they hold: it is a memory file, and the operating system holds stores.
    pub fn lends_content(&self) -> bool {
        self.file.is_some() && Faults::open().is_ok()
    }

    /// Puts pages of one new file in place of these runs (offset, bytes), one after the other in the file, with what they hold. Their
    /// client may store there.
    ///
    /// # Errors
    /// When the operating system refuses file or mapping. The runs are taken back then; one that the operating system refuses to take
    /// back stays lent, in a file that no client is given.
    ///
    /// # Panics
    /// When [`Memory::lends_content`] says no, there is no run, or one is not whole pages of this memory, or is lent.
    pub fn lend_content(&self, runs: &[(u64, u64)]) -> Result<Arc<LentFile>, MemoryError> {
        let bytes = runs.iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes > 0, "a file has pages");
        let whole = self.file.as_ref().expect("a memory file lends content");
        let refused = |source| MemoryError { bytes, source };
        let file = LentFile::new(bytes, ClientAccess::ReadWrite).map_err(refused)?;
        file.seal().map_err(refused)?;
        let (file, mut at) = (Arc::new(file), 0);
        for (number, &(offset, bytes)) in runs.iter().enumerate() {
            self.assert_pages((offset, bytes));
            assert!(self.lent_in(offset, bytes).is_empty(), "{bytes:#x} bytes at {offset:#x} are lent already");
            if let Err(source) = self.replace(offset, bytes, &file.file, at) {
                for &(offset, bytes) in &runs[..number] {
                    // A run that the operating system refuses to take back stays lent, in a file that no client is given.
                    let _ = self.take_content_back(offset, bytes);
                }
                return Err(refused(source));
            }
            let _ = fallocate(whole, HOLE, offset, bytes);
            self.note_lent(LentPages { file: Arc::clone(&file), file_offset: at, offset, bytes });
            at += bytes;
        }
        Ok(file)
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
        let mut by_client = 0;
        for _ in 0..500 {
            // In the file the runs lie the other way round.
            let file = memory.lend_content(&[(2 * 4096, 3 * 4096), (4096, 4096)]).expect("a file");
            let received = file.as_fd().try_clone_to_owned().expect("a descriptor");
            let theirs = Memory::from_file(received, file.bytes()).expect("a mapping");
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
        let file = memory.lend_content(&[(4096, 4096), (3 * 4096, 4096)]).expect("a file");
        let theirs = Memory::from_file(file.as_fd().try_clone_to_owned().unwrap(), file.bytes()).expect("a mapping");
        assert_eq!(theirs.bytes(), 2 * 4096);
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
        memory.lend_content(&[(0, 4096)]).expect("a file");
        let _ = memory.lend_content(&[(0, 8192)]);
    }
}
