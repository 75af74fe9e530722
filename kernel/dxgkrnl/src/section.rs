//! Sections: memory that a process has before any allocation, which allocations may take for their backing store (memory
//! §2.2 bit 4, §2.7). The operating system's part, as far as allocations need it. They are the machine's, because system memory
//! is one for all adapters, and allocations of several may lie in one section: so content crosses from one GPU to another.
//!
//! | kept here | kept by each adapter |
//! |---|---|
//! | the pages, out of the share of the adapter by whose handle the section was made | which allocations lie in which section |
//! | its handle; how many allocations lie in it | the allocations that have left, until the machine's turn is over |
//!
//! The pages go when the handle is closed and the last allocation on any adapter has left: each behind the work of its own GPU.

use kmt_calls::{Mapped, MappingId, Refusal, SectionRange};
use vidmm::cut_pages;
use wddm_types::{AdapterIndex, CpuPlace, CpuRun, PAGE_BYTES, PageRun, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::allocation::Existing;
use crate::coherency::see_cached;
use crate::effect::{Cx, MappingChange};
use crate::machine::Machine;
use crate::number::SectionNumber;
use crate::quota::Commitments;
use crate::refusal::{invalid, no_memory, not_supported};
use crate::scarcity::{Lack, NotCreated};
use crate::store::Store;

/// The sections of all processes.
#[derive(Default)]
pub struct Sections {
    sections: Store<SectionNumber, Section>,
    /// Memory that their processes have committed in them.
    pub commitments: Commitments,
}

/// One of them.
#[derive(Debug)]
pub struct Section {
    process: ProcessId,
    /// The adapter that it was made through, whose its pages are.
    creator: AdapterIndex,
    runs: Vec<PageRun>,
    size_bytes: u64,
    /// Its pages are those of a file that the process has handed over.
    is_given: bool,
    /// Its handle, and the allocations in it.
    users: u32,
    /// The handle is open.
    open: bool,
    /// Its process's mapping of it.
    mapping: MappingId,
}

impl Section {
    /// The process that has its handle.
    pub fn holder(&self) -> Option<ProcessId> {
        self.open.then_some(self.process)
    }

    /// Its process, whether or not the handle is open.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// The adapter that it was made through.
    pub fn creator(&self) -> AdapterIndex {
        self.creator
    }

    /// Its bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// How many keep it: its handle, and the allocations in it.
    pub fn users(&self) -> u32 {
        self.users
    }
}

impl Sections {
    /// Creates a section, out of an adapter's share of system memory: of zeroes, or of what a file holds that the process has handed over
    /// under this number.
    ///
    /// # Errors
    /// A size that is no multiple of the page; a file that is none; scarcity.
    pub fn create(
        &mut self,
        cx: &mut Cx<'_>,
        adapter: &mut Adapter,
        process: ProcessId,
        size_bytes: u64,
        given: Option<u64>,
    ) -> Result<(SectionNumber, Mapped), NotCreated> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(invalid(format!("a section of {size_bytes} bytes is no multiple of the page")).into());
        }
        let pages = Pages(size_bytes / PAGE_BYTES);
        let scarce = |free: Pages| {
            let reason =
                format!("no system memory for a section of {size_bytes} bytes: {} bytes are free", free.bytes());
            NotCreated::Lacks(Lack::Pages(pages), no_memory(reason))
        };
        let runs = adapter.vidmm.allocate_scattered(pages.0);
        let runs = runs.ok_or_else(|| scarce(adapter.vidmm.free_system_pages()))?;
        if let Some(given) = given {
            if let Err(refusal) = adapter.take_given(cx, process, given, &runs) {
                runs.into_iter().for_each(|run| adapter.vidmm.free_system(run));
                return Err(refusal.into());
            }
        } else if !adapter.lend_system(cx, &runs) {
            adapter.clear_pages(cx, &runs);
        }
        let mut seen: Vec<CpuRun> = runs.iter().map(|run| CpuRun { place: CpuPlace::System, run: *run }).collect();
        if !adapter.is_io_coherent(cx) {
            see_cached(&mut seen);
        }
        let mapping = adapter.map_section(cx, process, seen.clone(), size_bytes);
        let mapped = Mapped { mapping, runs: seen, size_bytes };
        let creator = adapter.index;
        self.commitments.charge(process, size_bytes);
        let is_given = given.is_some();
        let section = Section { process, creator, runs, size_bytes, is_given, users: 1, open: true, mapping };
        Ok((self.sections.insert(section), mapped))
    }

    /// The pages of a part of a section, for an allocation on an adapter: page aligned, a multiple of the page, inside. `across`:
    /// the allocation is one that other adapters may share memory with.
    ///
    /// # Errors
    /// The range is none; the section is another adapter's and the allocation does not go across.
    // spec: memory §2.2, memory §2.7
    pub fn pages(
        &self,
        number: SectionNumber,
        range: SectionRange,
        adapter: AdapterIndex,
        across: bool,
    ) -> Result<Existing, Refusal> {
        let whole = &self.sections[number];
        if whole.creator != adapter && !across {
            return Err(invalid("over a section of another adapter lie allocations with CrossAdapter only"));
        }
        let aligned = range.offset_bytes.is_multiple_of(PAGE_BYTES) && range.size_bytes.is_multiple_of(PAGE_BYTES);
        let end = range.offset_bytes.checked_add(range.size_bytes);
        if !aligned || range.size_bytes == 0 || end.is_none_or(|end| end > whole.size_bytes) {
            return Err(invalid("memory that exists begins and ends at pages of its section"));
        }
        let runs = cut_pages(&whole.runs, range.offset_bytes / PAGE_BYTES, range.size_bytes / PAGE_BYTES);
        Ok(Some((runs, number)))
    }

    /// An allocation lies in the section from now on.
    pub fn enter(&mut self, number: SectionNumber) {
        self.sections[number].users += 1;
    }

    /// Its handle or an allocation in it has gone; with the last its pages go.
    fn leave(&mut self, cx: &Cx<'_>, adapters: &mut [Adapter], number: SectionNumber) {
        let section = &mut self.sections[number];
        section.users -= 1;
        if section.users > 0 {
            return;
        }
        let gone = self.sections.remove(number).expect("just seen");
        self.commitments.release(gone.process, gone.size_bytes);
        let creator = &mut adapters[gone.creator.0 as usize];
        if let Some(cache) = cx.platform(gone.creator).cpu_cache() {
            cache.discard(&gone.runs);
        }
        if let Some(given) = cx.platform(gone.creator).given().filter(|_| gone.is_given) {
            given.returns(&gone.runs);
        }
        gone.runs.into_iter().for_each(|run| creator.vidmm.free_system(run));
    }

    /// The process has closed its section, or has gone.
    pub fn close(&mut self, cx: &mut Cx<'_>, adapters: &mut [Adapter], number: SectionNumber) {
        let section = &mut self.sections[number];
        let creator = &mut adapters[section.creator.0 as usize];
        creator.memory.cpu_view.tell(cx, section.mapping, MappingChange::Gone);
        assert!(std::mem::take(&mut section.open), "a section is closed once");
        self.leave(cx, adapters, number);
    }

    /// The sections of a process that has gone.
    pub fn close_all_of(&mut self, cx: &mut Cx<'_>, adapters: &mut [Adapter], process: ProcessId) {
        let of_process =
            |(number, section): (SectionNumber, &Section)| (section.holder() == Some(process)).then_some(number);
        let open: Vec<SectionNumber> = self.iter().filter_map(of_process).collect();
        open.into_iter().for_each(|number| self.close(cx, adapters, number));
    }

    /// The section of a number.
    pub fn get(&self, number: SectionNumber) -> Option<&Section> {
        self.sections.get(number)
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (SectionNumber, &Section)> {
        self.sections.iter()
    }

    /// The pages that are an adapter's.
    pub fn lent_by(&self, adapter: AdapterIndex) -> Vec<PageRun> {
        let lent = self.sections.iter().filter(|(_, section)| section.creator == adapter);
        lent.flat_map(|(_, section)| section.runs.iter().copied()).collect()
    }
}

impl Adapter {
    /// A file that a process has handed over takes the place of system pages that have just been taken.
    fn take_given(&mut self, cx: &Cx<'_>, process: ProcessId, given: u64, runs: &[PageRun]) -> Result<(), Refusal> {
        if cx.platform(self.index).cpu_cache().is_some() {
            return Err(not_supported(
                "an adapter without I/O coherency has the CPU's caches in software: what others that map the file store would not go through them",
            ));
        }
        let files = cx.platform(self.index).given();
        let files = files.ok_or_else(|| not_supported("this host takes no memory that a process hands over"))?;
        self.revoke_returned(cx);
        files.takes(process, given, runs).map_err(invalid)
    }
}

impl Machine {
    /// Tells sections of allocations that have left them on any adapter.
    pub(crate) fn leave_sections(&mut self, cx: &Cx<'_>) {
        for index in 0..self.adapters.len() {
            for section in self.adapters[index].due.take_left_sections() {
                self.sections.leave(cx, &mut self.adapters, section);
            }
        }
    }
}
