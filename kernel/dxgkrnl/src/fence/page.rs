//! Pages of fence words in system memory, out of the kernel's own: how a process's words are packed (sync §1.5), and how such
//! pages are mapped for the GPU. Called by `storage`.

use std::collections::BTreeSet;

use kmt_calls::Refusal;
use shared_words::ClientAccess;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, ProcessId, WordAddress};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::refusal::no_memory;
use crate::sync::Home;
use crate::word_page::WORD_STRIDE;

/// Why there is no word, where no quota says so before.
pub(super) const NO_PAGES: &str = "no system memory left for fence words";
/// `MonitoredValueStride` 0 (sync §6 A3).
const NATURAL_STRIDE: u64 = 8;

/// Which of a fence's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Current,
    Monitored,
}

/// The packed words of one process.
#[derive(Debug, Default)]
pub struct FenceStorage {
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

impl FenceStorage {
    fn of(&mut self, which: Which) -> &mut WordPages {
        match which {
            Which::Current => &mut self.current,
            Which::Monitored => &mut self.monitored,
        }
    }
}

/// A page of words of one process.
#[derive(Debug)]
struct WordPage {
    run: PageRun,
    va: GpuVa,
    system_va: GpuVa,
    free: Vec<u16>,
}

impl Adapter {
    /// Gives the packed words of a process back that has gone: their system mappings are freed, and the pages when the paging
    /// ring has got past every use of them.
    pub fn release_fence_storage(&mut self, storage: FenceStorage) {
        for page in storage.current.pages.into_iter().chain(storage.monitored.pages) {
            // Works that are still to come signal fences of the process by these addresses.
            if !page.system_va.is_null() {
                self.defer_system_mapping(page.system_va, page.run.count);
            }
            self.defer_pages(page.run);
        }
    }

    /// Bytes between two packed MonitoredValues.
    pub(super) fn monitored_stride(&mut self) -> u64 {
        self.word_stride(Which::Monitored)
    }

    /// Bytes between two packed words.
    // spec: sync §1.5, sync §6 A2, sync §6 A3
    fn word_stride(&mut self, which: Which) -> u64 {
        match (which, self.fence_caps().monitored_value_stride) {
            (Which::Current, _) => WORD_STRIDE,
            (Which::Monitored, 0) => NATURAL_STRIDE,
            (Which::Monitored, stride) => u64::from(stride),
        }
    }

    pub(super) fn take_word(&mut self, cx: &mut Cx<'_>, owner: ProcessId, which: Which) -> Result<Taken, Refusal> {
        let stride = self.word_stride(which);
        let pages = self.processes.get_mut(&owner).expect("the owner is on the adapter").fences.of(which);
        let number = match pages.with_room.first() {
            Some(page) => *page,
            None => self.add_word_page(cx, owner, which, stride)?,
        };
        let pages = self.processes.get_mut(&owner).expect("just found").fences.of(which);
        let page = &mut pages.pages[number];
        let index = page.free.pop().expect("a page with a free word");
        if page.free.is_empty() {
            pages.with_room.remove(&number);
        }
        let page = &pages.pages[number];
        let offset = u64::from(index) * stride;
        let at = |va: GpuVa| if va.is_null() { va } else { va.offset(offset) };
        Ok(Taken {
            home: Home::Packed { page: number, index },
            word: WordAddress(page.run.first * PAGE_BYTES + offset),
            va: at(page.va),
            system_va: at(page.system_va),
        })
    }

    /// Adds a page of words, mapped in the process's space and in the paging process.
    // spec: sync §1.5, sync §1.4
    fn add_word_page(
        &mut self,
        cx: &mut Cx<'_>,
        owner: ProcessId,
        which: Which,
        stride: u64,
    ) -> Result<usize, Refusal> {
        // A stride of a whole page makes as many pages of MonitoredValues as there are fences.
        let words = PAGE_BYTES / stride;
        let run = self.take_word_page(cx)?;
        if which == Which::Current && owner != ProcessId::SYSTEM {
            self.show_word_page(cx, run);
        }
        // The tables of a process that gets no words there keep the mappings made before a failure: the kernel does not give the page
        // back, so that nothing else is ever reached through it.
        let system = self.owners.space_of(ProcessId::SYSTEM);
        let space = self.owners.space_of(owner);
        let (va, system_va) = if !self.has_addresses() {
            // Nothing but the CPU reaches them.
            (GpuVa::NULL, GpuVa::NULL)
        } else {
            let system_va = self.map_word_page(cx, system, run, true)?;
            match owner {
                ProcessId::SYSTEM => (system_va, system_va),
                _ => (self.map_word_page(cx, space, run, which == Which::Current)?, system_va),
            }
        };
        let mapped_at = self.ring.queued();
        let process = self.processes.get_mut(&owner).expect("the owner is on the adapter");
        process.words_mapped_at = mapped_at;
        let pages = process.fences.of(which);
        // CAST: a page has at most 512 words.
        pages.pages.push(WordPage { run, va, system_va, free: (0..words as u16).rev().collect() });
        let number = pages.pages.len() - 1;
        pages.with_room.insert(number);
        Ok(number)
    }

    pub(super) fn give_back_word(&mut self, owner: ProcessId, which: Which, home: Home, word: WordAddress) {
        let Home::Packed { page, index } = home else { return };
        let stride = self.word_stride(which);
        // A process that has gone has given its pages back whole.
        let Some(process) = self.processes.get_mut(&owner) else { return };
        // Nor does one that has come again since own the page: its address tells, for it is not given out again before this.
        let WordPages { pages, with_room } = process.fences.of(which);
        let number = page;
        let Some(page) = pages.get_mut(number) else { return };
        if page.run.first * PAGE_BYTES + u64::from(index) * stride == word.0 {
            page.free.push(index);
            with_room.insert(number);
        }
    }

    /// Shows a fresh page of CurrentValues to the processes whose fences they are.
    // spec: sync §1.4 (User CPU VA), sync §1.5 (IoMmu adapters)
    pub(super) fn show_word_page(&mut self, cx: &Cx<'_>, run: PageRun) {
        let access = if self.uses_cpu_addresses() { ClientAccess::ReadWrite } else { ClientAccess::Read };
        self.driver.pages().show(cx.platform(self.index).clients(), run, access);
    }

    /// A page for words, zeroed.
    // spec: sync §1.5: from the kernel's internal pool
    pub(super) fn take_word_page(&mut self, cx: &Cx<'_>) -> Result<PageRun, Refusal> {
        let run = self.take_kernel_pages(cx, Pages(1)).ok_or_else(|| no_memory(NO_PAGES))?;
        cx.memory.fill(run.first * PAGE_BYTES, PAGE_BYTES, 0);
        Ok(run)
    }

    /// Maps a page of words for the GPU, where the driver wants fences to be.
    // spec: sync §1.5 (MinimumAddress, MaximumAddress)
    pub(super) fn map_word_page(
        &mut self,
        cx: &mut Cx<'_>,
        space: vidmm::SpaceId,
        run: PageRun,
        writable: bool,
    ) -> Result<GpuVa, Refusal> {
        let caps = self.fence_caps();
        self.map_fence_page(cx, space, run, writable, (caps.minimum_address, caps.maximum_address))
    }
}

/// A word that was free.
pub(super) struct Taken {
    pub home: Home,
    pub word: WordAddress,
    pub va: GpuVa,
    pub system_va: GpuVa,
}
