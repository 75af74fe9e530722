//! Words that no GPU reaches, in pages of the process whose they are: those that it stores in (the last queued values of its doorbells),
//! and those that it only reads (the status of its doorbells, fences that are not mapped for GPUs). And how far the paging ring has to come
//! until the process's mappings of all other words and logs hold; the adapter knows how far it is.

use shared_words::ClientAccess;
use vidmm::StateDigest;
use wddm_types::{ProcessId, WordAddress};

use super::Synchronization;
use crate::driver::KernelPages;
use crate::effect::Cx;
use crate::platform::ClientMemory;
use crate::word_page::WordPages;

/// The words of a process.
#[derive(Debug)]
pub struct CpuWords {
    written: WordPages,
    only_read: WordPages,
    /// The position of the ring at which the last page of words or logs is mapped.
    mapped_at: u64,
}

impl CpuWords {
    fn new(process: ProcessId) -> CpuWords {
        CpuWords {
            written: WordPages::new(process, ClientAccess::ReadWrite),
            only_read: WordPages::new(process, ClientAccess::Read),
            mapped_at: 0,
        }
    }

    fn pages(&mut self, access: ClientAccess) -> &mut WordPages {
        match access {
            ClientAccess::ReadWrite => &mut self.written,
            ClientAccess::Read => &mut self.only_read,
        }
    }

    /// Gives all pages of a process back that has gone.
    pub fn release(self, clients: Option<&dyn ClientMemory>, pages: &mut KernelPages) {
        self.written.release(clients, pages);
        self.only_read.release(clients, pages);
    }
}

impl Synchronization {
    /// A process comes, without words.
    pub fn process_comes(&mut self, process: ProcessId) {
        let before = self.cpu_words.insert(process, CpuWords::new(process));
        debug_assert!(before.is_none(), "{process:?} is there already");
    }

    /// A process goes. These words it had.
    #[must_use = "their pages are still taken"]
    pub fn process_goes(&mut self, process: ProcessId) -> CpuWords {
        self.cpu_words.remove(&process).expect("a process goes once")
    }

    /// A word of a process, with this value; `None`: the kernel's pages are used up.
    pub fn take_cpu_word(
        &mut self,
        cx: &Cx<'_>,
        pages: &mut KernelPages,
        (process, access): (ProcessId, ClientAccess),
        value: u64,
    ) -> Option<WordAddress> {
        let words = self.cpu_words.get_mut(&process).expect("the process is on the adapter");
        words.pages(access).take(cx, self.adapter, pages, value)
    }

    /// A word is free again. With a process that has gone its pages have gone.
    pub fn give_back_cpu_word(&mut self, process: ProcessId, access: ClientAccess, word: WordAddress) {
        if let Some(words) = self.cpu_words.get_mut(&process) {
            words.pages(access).give_back(word);
        }
    }

    /// Words or logs of a process are mapped when the ring has come to this position, and not before.
    pub fn mapped_at(&mut self, process: ProcessId, position: u64) {
        let words = self.cpu_words.get_mut(&process).expect("the process is on the adapter");
        debug_assert!(words.mapped_at <= position, "the ring goes on: {} then {position}", words.mapped_at);
        words.mapped_at = position;
    }

    /// Whether all mappings of a process's words and logs hold, when the ring has come so far.
    pub fn are_mapped(&self, process: ProcessId, done: u64) -> bool {
        self.cpu_words.get(&process).is_none_or(|words| words.mapped_at <= done)
    }

    /// For the digest of the adapter's state.
    pub(super) fn add_cpu_words_to(&self, digest: &mut StateDigest) {
        self.cpu_words.iter().for_each(|(process, words)| digest.add("words of process", &process.0, words));
    }
}
