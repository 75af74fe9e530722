//! Lends memory to clients in processes of their own, page by page as the kernel says (`dxgkrnl::ClientMemory`), and finds the lent pages
//! behind an address that the kernel's answers name. It decides nothing and hands nothing out: the daemon does, which knows the asking
//! process.
//!
//! # The law of this boundary
//! - Only pages that the kernel has named lie in files: no client ever gets a descriptor of other memory. Those of one process elsewhere
//!   lie in its arena (`arenas`), those of several in a file of their own.
//! - The daemon asks only for a word or a mapping that the kernel has named to that process. This module knows no processes but the owners
//!   of mappings.
//! - Pages that could not be lent lie in no file either: the kernel refuses the process's call, and other processes go on.

use std::sync::Arc;

use dxgkrnl::{ClientMemory, Viewers};
use shared_words::{ClientAccess, LentPages, Memory};
use wddm_types::{CpuPlace, PAGE_BYTES, PageRun, ProcessId, WordAddress};

use crate::arenas::Arenas;
use crate::host::Host;

/// The memory of one adapter as clients are lent it.
pub(crate) struct Lender {
    pub system: Arc<Memory>,
    pub arenas: Arc<Arenas>,
    /// The host can lend the device's memory with its content.
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

impl Lender {
    /// Takes back what of these runs is lent.
    fn end(&self, memory: &Memory, runs: &[(u64, u64)]) {
        for &(offset, bytes) in runs {
            // PANIC: if the process's pages cannot be replaced here, the pages' next owner would share them with this process.
            memory.take_back(offset, bytes).expect("a mapping of ours in place of another");
        }
        if memory.has_lost_an_arena() {
            self.arenas.tell_lost();
        }
    }
}

impl ClientMemory for Lender {
    fn begins(&self, viewers: Viewers, place: CpuPlace, runs: &[PageRun], access: ClientAccess) -> bool {
        let (memory, runs) = self.find(place, runs);
        let arenas = match viewers {
            Viewers::One(process) => self.arenas.of(process),
            Viewers::Several => None,
        };
        // Pages that cannot be lent lie in no file: a failure leaves none of them in an old one.
        let lent = match arenas.map(|arenas| arenas.system(access)) {
            Some(arena) => arena.and_then(|arena| memory.lend_from(&arena, &runs)).is_ok(),
            None => memory.lend(&runs, access).is_ok(),
        };
        if !lent {
            self.end(memory, &runs);
        }
        lent
    }

    fn ends(&self, place: CpuPlace, run: PageRun) {
        let (memory, runs) = self.find(place, &[run]);
        self.end(memory, &runs);
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

    /// The same for a process elsewhere, which is about to be given that file; `None` as well if the file is another process's.
    pub fn lent_word_to(&self, process: ProcessId, word: WordAddress) -> Option<LentPages> {
        self.lent_word(word).filter(|lent| self.arenas().may_have(process, &lent.file))
    }
}
