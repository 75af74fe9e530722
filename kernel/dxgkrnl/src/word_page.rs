//! Pages of 64-bit words that the kernel shares with a process, one word a cache line.

use shared_words::ClientAccess;
use wddm_types::{AdapterIndex, PAGE_BYTES, Pages, ProcessId, WordAddress};

use crate::driver::KernelPages;
use crate::effect::Cx;
use crate::platform::{ClientMemory, Viewers};

/// Bytes between two words: a cache line, so that two owners never share one (sync §6 A2).
pub const WORD_STRIDE: u64 = 64;
const WORDS_PER_PAGE: u64 = PAGE_BYTES / WORD_STRIDE;

/// The words of one process with one kind of access.
pub struct WordPages {
    process: ProcessId,
    access: ClientAccess,
    pages: Vec<u64>,
    free: Vec<WordAddress>,
}

/// Shows how many words are taken: their pages, and the order in which free ones are handed out, are no state.
impl std::fmt::Debug for WordPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // CAST: a page has few words.
        write!(f, "{} words", self.pages.len() * WORDS_PER_PAGE as usize - self.free.len())
    }
}

impl WordPages {
    /// None yet of this process.
    pub fn new(process: ProcessId, access: ClientAccess) -> WordPages {
        WordPages { process, access, pages: Vec::new(), free: Vec::new() }
    }

    /// A word of an adapter with this value, or `None` when the kernel's pages are used up.
    pub fn take(
        &mut self,
        cx: &Cx<'_>,
        adapter: AdapterIndex,
        pages: &mut KernelPages,
        value: u64,
    ) -> Option<WordAddress> {
        if self.free.is_empty() {
            let run = pages.take(Pages(1))?;
            pages.show(cx.platform(adapter).clients(), Viewers::One(self.process), run, self.access);
            cx.memory.fill(run.first * PAGE_BYTES, PAGE_BYTES, 0);
            self.pages.push(run.first);
            let words = (0..WORDS_PER_PAGE).rev().map(|word| WordAddress(run.first * PAGE_BYTES + word * WORD_STRIDE));
            self.free.extend(words);
        }
        let word = self.free.pop()?;
        shared_words::Word::store(cx.memory.word(word.0), value);
        Some(word)
    }

    /// Gives a word back.
    pub fn give_back(&mut self, word: WordAddress) {
        self.free.push(word);
    }

    /// Gives all pages back; no process maps them any more.
    pub fn release(self, clients: Option<&dyn ClientMemory>, pages: &mut KernelPages) {
        for page in self.pages {
            pages.give_back(clients, wddm_types::PageRun { first: page, count: Pages(1) });
        }
    }
}
