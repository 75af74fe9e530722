//! A page that a client keeps for as long as it wants, and that stands at a place of a memory only while it is shown there: the page of a
//! doorbell, which leads to a physical one or nowhere (sync §3.17). The host of a process in another program makes and shows it, without
//! asking that process, which sees no difference.
//!
//! # The law of this boundary
//! - **The page is the client's**, with everything in it, at any time: the host reads it as an allegation.
//! - **The host shows it and takes it away in one step.** A party that reads the place meanwhile finds the one page or the other, never
//!   none. A store at the place during the change stays in the page that it met: the host has all parties look again, behind the change.
//! - **The host writes the first words**, before any party finds the page at the place.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::lent_file::{ClientAccess, LentFile};
use super::{Memory, MemoryError};
use crate::word::Word;

/// Bytes of it.
const PAGE_BYTES: u64 = 4096;

/// A page of zeros at first, in a file of its own.
pub struct ClientPage {
    file: Arc<LentFile>,
    /// The same page at an address that stays.
    memory: Arc<Memory>,
}

impl ClientPage {
    /// A page.
    ///
    /// # Errors
    /// When the operating system refuses file or mapping.
    pub fn new() -> Result<ClientPage, MemoryError> {
        let refused = |source| MemoryError { bytes: PAGE_BYTES, source };
        let file = LentFile::new(PAGE_BYTES, ClientAccess::ReadWrite).map_err(refused)?;
        file.seal().map_err(refused)?;
        let ours = file.as_fd().try_clone_to_owned().map_err(|error| {
            // Its errors are the operating system's.
            refused(Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
        })?;
        Ok(ClientPage { file: Arc::new(file), memory: Memory::from_file(ours, PAGE_BYTES)? })
    }

    /// The file, of which its client may be given the descriptor.
    pub fn file(&self) -> &Arc<LentFile> {
        &self.file
    }

    /// The 64-bit word at `offset`.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn load(&self, offset: u64) -> u64 {
        Word::load(self.memory.word(offset))
    }

    /// Shows the page at `place` of a memory, once these words (offset, value) stand in it.
    ///
    /// # Errors
    /// When the operating system has no mapping left: nothing has changed but the words.
    ///
    /// # Panics
    /// When the place is no page of that memory, or a word is not in the page.
    pub fn show(&self, memory: &Memory, place: u64, words: &[(u64, u64)]) -> Result<(), MemoryError> {
        memory.assert_pages((place, PAGE_BYTES));
        for &(offset, value) in words {
            Word::store(self.memory.word(offset), value);
        }
        let refused = |source| MemoryError { bytes: PAGE_BYTES, source };
        memory.map_file(place, PAGE_BYTES, &*self.file, 0).map_err(refused)
    }
}

impl std::fmt::Debug for ClientPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientPage")
    }
}

impl Memory {
    /// Takes a client's page from a place of this memory, which has the page of its own file again, with these words (offset, value) in it.
    ///
    /// # Errors
    /// When the operating system refuses: the client's page still stands there.
    ///
    /// # Panics
    /// When this is no memory file, the place is no page of it, or a word is not in the page.
    pub fn show_own(&self, place: u64, words: &[(u64, u64)]) -> Result<(), MemoryError> {
        self.assert_pages((place, PAGE_BYTES));
        let file = self.file.as_ref().expect("clients' pages are shown in memory files");
        let refused = |source| MemoryError { bytes: PAGE_BYTES, source };
        let own = Memory::part_of(file, place, PAGE_BYTES).map_err(refused)?;
        for &(offset, value) in words {
            Word::store(own.word(offset), value);
        }
        self.map_file(place, PAGE_BYTES, file, place).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_page_stands_where_it_is_shown_and_stays_with_the_client() {
        // spec: sync §3.17
        let window = Memory::reserve_file(2 * PAGE_BYTES).expect("a memory file");
        let page = ClientPage::new().expect("a page");
        assert_eq!(format!("{page:?}"), "ClientPage", "not what a client has in it");
        let client = Memory::from_file(page.file().as_fd().try_clone_to_owned().expect("a descriptor"), PAGE_BYTES)
            .expect("the client's mapping");
        Word::store(window.word(PAGE_BYTES), 5);
        Word::store(client.word(8), 77);
        page.show(&window, PAGE_BYTES, &[(0, 5)]).expect("a mapping");
        let at = |offset| Word::load(window.word(PAGE_BYTES + offset));
        assert_eq!((at(0), at(8), Word::load(client.word(0))), (5, 77, 5));
        Word::store(client.word(0), 6);
        assert_eq!((at(0), page.load(0), Word::load(window.word(0))), (6, 6, 0), "its own page and no other");
        window.show_own(PAGE_BYTES, &[(0, 6), (8, 1)]).expect("a mapping");
        Word::store(client.word(0), 9);
        assert_eq!((at(0), at(8)), (6, 1), "nothing that the client stores comes there any more");
        assert_eq!((page.load(0), page.load(8)), (9, 77), "it keeps what it has");
    }

    #[test]
    fn a_page_is_never_missing_while_it_changes() {
        // spec: sync §3.17
        let window = Memory::reserve_file(PAGE_BYTES).expect("a memory file");
        let page = ClientPage::new().expect("a page");
        Word::store(window.word(0), 1);
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| (0..200_000).filter(|_| Word::load(window.word(0)) != 1).count());
            for _ in 0..500 {
                page.show(&window, 0, &[(0, 1)]).expect("a mapping");
                window.show_own(0, &[(0, 1)]).expect("a mapping");
            }
            assert_eq!(looks.join().expect("no panic"), 0);
        });
    }
}
