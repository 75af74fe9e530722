//! Lends memory to clients in processes of their own, page by page as the kernel says (`dxgkrnl::ClientMemory`), and knows what of it is
//! behind an address that the kernel's answers name. It decides nothing, and it hands nothing out: whoever does (a daemon) knows which
//! process asks.
//!
//! # The law of this boundary
//! - What the kernel has not named is in no file: nobody is ever given a descriptor of anything else.
//! - Whoever asks for a word or a mapping has to have been named it by the kernel. Nothing here knows processes but the owners of
//!   mappings.
//! - Pages that could not be lent are in no file either: the process is refused what it asked for, and everybody else goes on.

use std::sync::Arc;

use dxgkrnl::ClientMemory;
use shared_words::{ClientAccess, LentPages, Memory};
use wddm_types::{CpuPlace, PAGE_BYTES, PageRun, WordAddress};

use crate::host::Host;

/// The memory of one adapter as clients are lent it.
pub(crate) struct Lender {
    pub system: Arc<Memory>,
    /// The device's memory can be lent with what it holds.
    pub lends_local: bool,
}

impl std::fmt::Debug for Lender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lender")
    }
}

impl Lender {
    /// The memory at a place, and these pages in it.
    fn find(&self, place: CpuPlace, runs: &[PageRun]) -> (&Memory, Vec<(u64, u64)>) {
        match place {
            CpuPlace::System => {
                (&*self.system, runs.iter().map(|run| (run.first * PAGE_BYTES, run.count.bytes())).collect())
            }
            // A host that lends has no such caches, and windows come and go over pages that have places of their own.
            CpuPlace::CachedSystem | CpuPlace::HostAperture | CpuPlace::Bar => unreachable!("{place:?} is not lent"),
        }
    }
}

impl ClientMemory for Lender {
    fn begins(&self, place: CpuPlace, runs: &[PageRun], access: ClientAccess) -> bool {
        let (memory, runs) = self.find(place, runs);
        // What cannot be lent is in no file; a failure leaves nothing of it in an old one.
        memory.lend(&runs, access).is_ok()
    }

    fn ends(&self, place: CpuPlace, run: PageRun) {
        let (memory, runs) = self.find(place, &[run]);
        for (offset, bytes) in runs {
            // PANIC: without a mapping less than before there is no memory for whoever is given the pages next, and going on
            // would show the one process what the other has.
            memory.take_back(offset, bytes).expect("a mapping of ours in place of another");
        }
    }

    fn lends_local(&self) -> bool {
        self.lends_local
    }
}

impl Host {
    /// The file that a word lies in, of which its process may be given the descriptor; `None` if processes are not isolated from each
    /// other ([`HostConfig::isolates_processes`](crate::HostConfig::isolates_processes)), or this is none of theirs.
    pub fn lent_word(&self, word: WordAddress) -> Option<LentPages> {
        self.system_memory().lent_at(word.0)
    }
}
