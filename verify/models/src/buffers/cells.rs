//! The words of the modelled memory, as programs name them: by number, or at places where one page or another stands.

use shared_words::Word;

use super::{Access, access};

/// A word of the modelled memory by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell(pub usize);

/// The same, and later stores overtake stores to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainCell(pub usize);

/// A word at an address of its own: a page word ([`page`]) says whether it stands there. A processor that changes a mapping interrupts all
/// that use it, so an access finds the page and goes there in one piece; a store that waits in its buffer has found its page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagedCell {
    pub word: usize,
    pub page: usize,
}

impl Word for PagedCell {
    fn load(&self) -> u64 {
        access(Access::PagedLoad { word: self.word, page: self.page })
    }
    fn store(&self, value: u64) {
        access(Access::PagedStore { word: self.word, page: self.page, value });
    }
}

/// A word at a place where one of three pages stands: a word says which. An access finds the page and goes there in one piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownCell {
    pub shows: usize,
    pub words: [usize; 3],
}

impl Word for ShownCell {
    fn load(&self) -> u64 {
        access(Access::ShownLoad { shows: self.shows, words: self.words })
    }
    fn store(&self, value: u64) {
        access(Access::ShownStore { shows: self.shows, words: self.words, value });
    }
}

impl Word for Cell {
    fn load(&self) -> u64 {
        access(Access::Load(self.0))
    }
    fn store(&self, value: u64) {
        access(Access::Store { word: self.0, value, plain: false });
    }
}

impl Word for PlainCell {
    fn load(&self) -> u64 {
        access(Access::Load(self.0))
    }
    fn store(&self, value: u64) {
        access(Access::Store { word: self.0, value, plain: true });
    }
}

impl Cell {
    /// Exchanges in one piece.
    pub fn exchange(self, value: u64) -> u64 {
        access(Access::Exchange(self.0, value))
    }

    /// Interrupts: the word is 1 at once, whatever stores are still under way.
    pub fn raise(self) {
        access(Access::Raise(self.0));
    }

    /// Goes on when the word has reached a value.
    pub fn reached(self, value: u64) -> u64 {
        access(Access::Reached(self.0, value))
    }
}
