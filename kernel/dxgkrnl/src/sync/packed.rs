//! The packed words of fences in system memory: pages of CurrentValues and pages of MonitoredValues of one process, each at its stride
//! (sync §1.5). Here is which pages a process has, and which of their words are free. It is not where the pages come from, nor where they
//! are mapped: the adapter brings each page, and frees those that it is handed when the process has gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use vidmm::StateDigest;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, ProcessId, WordAddress};

use super::{Home, Synchronization};

/// Which of a fence's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Current,
    Monitored,
}

/// A page of words, and where the GPU sees it.
#[derive(Clone, Copy, Debug)]
pub struct MappedPage {
    pub run: PageRun,
    /// In the process's space.
    pub va: GpuVa,
    /// In the paging process's; NULL where nothing but the CPU reaches it.
    pub system_va: GpuVa,
}

/// A word that was free.
#[derive(Clone, Copy, Debug)]
pub struct TakenWord {
    pub home: Home,
    pub word: WordAddress,
    pub va: GpuVa,
    pub system_va: GpuVa,
}

/// The packed words of all processes that have some.
#[derive(Debug, Default)]
pub(super) struct PackedWords {
    processes: BTreeMap<ProcessId, WordsOfProcess>,
}

/// The packed words of one process.
#[derive(Debug, Default)]
struct WordsOfProcess {
    current: WordPages,
    monitored: WordPages,
}

/// Its words of one kind.
#[derive(Debug, Default)]
struct WordPages {
    pages: Vec<WordPage>,
    /// Pages with a free word: the lowest gives the next one.
    with_room: BTreeSet<usize>,
}

/// A page of words of one process.
struct WordPage {
    mapped: MappedPage,
    free: Vec<u16>,
}

/// The digest of the state is made of this. The order in which fences gave words back is no state: each free word is as good as another.
impl fmt::Debug for WordPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free: BTreeSet<_> = self.free.iter().collect();
        f.debug_struct("WordPage").field("mapped", &self.mapped).field("free", &free).finish()
    }
}

impl PackedWords {
    /// The processes that have some.
    pub(super) fn processes(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.processes.keys().copied()
    }
}

impl WordsOfProcess {
    fn of(&mut self, which: Which) -> &mut WordPages {
        match which {
            Which::Current => &mut self.current,
            Which::Monitored => &mut self.monitored,
        }
    }
}

impl WordPages {
    /// A free word; `None`: each page is full.
    fn take(&mut self, stride: u64) -> Option<TakenWord> {
        let number = *self.with_room.first()?;
        let page = &mut self.pages[number];
        let index = page.free.pop().expect("a page with a free word");
        if page.free.is_empty() {
            self.with_room.remove(&number);
        }
        let MappedPage { run, va, system_va } = page.mapped;
        let offset = u64::from(index) * stride;
        debug_assert!(offset < PAGE_BYTES, "a word is on its page: {index} of {stride} bytes each");
        let at = |va: GpuVa| if va.is_null() { va } else { va.offset(offset) };
        Some(TakenWord {
            home: Home::Packed { page: number, index },
            word: WordAddress(run.first * PAGE_BYTES + offset),
            va: at(va),
            system_va: at(system_va),
        })
    }
}

impl Synchronization {
    /// A free word on the pages of a process; `None`: it has none, and needs a page more.
    pub fn take_packed_word(&mut self, owner: ProcessId, which: Which, stride: u64) -> Option<TakenWord> {
        self.packed.processes.get_mut(&owner)?.of(which).take(stride)
    }

    /// A process gets a page of words, all of them free. Answers with the first of them.
    pub fn add_packed_page(&mut self, owner: ProcessId, which: Which, stride: u64, mapped: MappedPage) -> TakenWord {
        let pages = self.packed.processes.entry(owner).or_default().of(which);
        pages.with_room.insert(pages.pages.len());
        // A stride of a whole page makes as many pages of MonitoredValues as there are fences.
        // CAST: a page has at most 512 words.
        pages.pages.push(WordPage { mapped, free: (0..(PAGE_BYTES / stride) as u16).rev().collect() });
        pages.take(stride).expect("the page is all free")
    }

    /// A word that no fence uses any more.
    pub fn give_back_packed_word(
        &mut self,
        owner: ProcessId,
        which: Which,
        home: Home,
        word: WordAddress,
        stride: u64,
    ) {
        let Home::Packed { page: number, index } = home else { return };
        // A process that has gone has given its pages back whole.
        let Some(words) = self.packed.processes.get_mut(&owner) else { return };
        // Nor does one that has come again since own the page: its address tells, for it is not given out again before this.
        let WordPages { pages, with_room } = words.of(which);
        let Some(page) = pages.get_mut(number) else { return };
        if page.mapped.run.first * PAGE_BYTES + u64::from(index) * stride == word.0 {
            debug_assert!((page.free.len() as u64) < PAGE_BYTES / stride, "a word is free once: {index} of {page:?}");
            page.free.push(index);
            with_room.insert(number);
        }
    }

    /// A process has gone: its pages, which the caller frees.
    #[must_use]
    pub fn release_packed_words(&mut self, owner: ProcessId) -> Vec<MappedPage> {
        let words = self.packed.processes.remove(&owner).unwrap_or_default();
        words.current.pages.into_iter().chain(words.monitored.pages).map(|page| page.mapped).collect()
    }

    /// The first page of packed words that is not as the head of this part says.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn check_packed_words(&self) -> Result<(), String> {
        let all = self.packed.processes.iter().flat_map(|(process, words)| {
            [&words.current, &words.monitored].into_iter().map(move |pages| (process, pages))
        });
        for (process, WordPages { pages, with_room }) in all {
            let free = (0..pages.len()).filter(|number| !pages[*number].free.is_empty());
            if !free.eq(with_room.iter().copied()) {
                return Err(format!("the packed words of {process:?} have room on {with_room:?}: {pages:?}"));
            }
        }
        Ok(())
    }

    /// For the digest of the adapter's state.
    pub(super) fn add_packed_words_to(&self, digest: &mut StateDigest) {
        self.packed
            .processes
            .iter()
            .for_each(|(process, words)| digest.add("packed words of process", &process.0, words));
    }
}
