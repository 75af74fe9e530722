//! Sections: memory that a process has before any allocation, which allocations may take for their backing store (memory
//! §2.2 bit 4, §2.7). The operating system's part, as far as allocations need it. They are the machine's, because system memory
//! is one for all adapters, and allocations of several may lie in one section: so content crosses from one GPU to another.
//!
//! | kept here | kept by each adapter |
//! |---|---|
//! | the pages, out of the share of the adapter by whose handle the section was made | which allocations lie in which section |
//! | its handle; how many allocations lie in it | the allocations that have left, until the machine's turn is over |
//!
//! Sections know no adapter: `machine::section` brings the pages from their adapter, and back when they go.
//!
//! The pages go when the handle is closed and the last allocation on any adapter has left: each behind the work of its own GPU.

use kmt_calls::{MappingId, Refusal, SectionRange};
use vidmm::cut_pages;
use wddm_types::{AdapterIndex, PAGE_BYTES, PageRun, ProcessId};

use crate::number::SectionNumber;
use crate::quota::Commitments;
use crate::refusal::invalid;
use crate::store::Store;

/// The sections of all processes.
#[derive(Default)]
pub struct Sections {
    sections: Store<SectionNumber, Section>,
    commitments: Commitments,
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

/// What an adapter has provided for a section.
pub struct Provided {
    /// Pages out of its share.
    pub runs: Vec<PageRun>,
    /// They are those of a file that the process has handed over.
    pub is_given: bool,
    /// Their mapping for the process.
    pub mapping: MappingId,
}

/// A section that has gone: its pages return to their adapter.
#[must_use]
pub struct GoneSection {
    pub creator: AdapterIndex,
    pub runs: Vec<PageRun>,
    /// They are those of a file that the process has handed over.
    pub is_given: bool,
}

impl Sections {
    /// A process has a section, out of an adapter's share of system memory.
    pub fn enter_new(
        &mut self,
        process: ProcessId,
        creator: AdapterIndex,
        size_bytes: u64,
        provided: Provided,
    ) -> SectionNumber {
        let Provided { runs, is_given, mapping } = provided;
        debug_assert_eq!(
            runs.iter().map(|run| run.count.bytes()).sum::<u64>(),
            size_bytes,
            "a section has the pages of its bytes"
        );
        self.commitments.charge(process, size_bytes);
        self.sections.insert(Section { process, creator, runs, size_bytes, is_given, users: 1, open: true, mapping })
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
    ) -> Result<(Vec<PageRun>, SectionNumber), Refusal> {
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
        debug_assert_eq!(
            runs.iter().map(|run| run.count.bytes()).sum::<u64>(),
            range.size_bytes,
            "a part of a section has the pages of its bytes"
        );
        Ok((runs, number))
    }

    /// An allocation lies in the section from now on.
    pub fn enter(&mut self, number: SectionNumber) {
        let section = &mut self.sections[number];
        debug_assert!(section.users > 0, "a section is there as long as it has a user: {section:?}");
        section.users += 1;
    }

    /// Its handle or an allocation in it has gone; with the last its pages go.
    #[must_use]
    pub fn leave(&mut self, number: SectionNumber) -> Option<GoneSection> {
        let section = &mut self.sections[number];
        debug_assert!(section.users > 0, "a section counts who leaves it: {section:?}");
        section.users -= 1;
        if section.users > 0 {
            return None;
        }
        debug_assert!(!section.open, "an open handle is a user: {section:?}");
        let gone = self.sections.remove(number).expect("just seen");
        self.commitments.release(gone.process, gone.size_bytes);
        Some(GoneSection { creator: gone.creator, runs: gone.runs, is_given: gone.is_given })
    }

    /// The process has closed its section, or has gone. The mapping that ends, and its adapter; the handle leaves the section then.
    #[must_use]
    pub fn close(&mut self, number: SectionNumber) -> (AdapterIndex, MappingId) {
        let section = &mut self.sections[number];
        debug_assert!(section.users > 0, "the handle of a section is a user: {section:?}");
        assert!(std::mem::take(&mut section.open), "a section is closed once");
        (section.creator, section.mapping)
    }

    /// The sections of which a process has handles.
    pub fn open_of(&self, process: ProcessId) -> Vec<SectionNumber> {
        let of_process =
            |(number, section): (SectionNumber, &Section)| (section.holder() == Some(process)).then_some(number);
        self.iter().filter_map(of_process).collect()
    }

    /// The section of a number.
    pub fn get(&self, number: SectionNumber) -> Option<&Section> {
        self.sections.get(number)
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (SectionNumber, &Section)> {
        self.sections.iter()
    }

    /// Memory that their processes have committed in them.
    pub fn committed(&self) -> &Commitments {
        &self.commitments
    }

    /// The pages that are an adapter's.
    pub fn lent_by(&self, adapter: AdapterIndex) -> Vec<PageRun> {
        let lent = self.sections.iter().filter(|(_, section)| section.creator == adapter);
        lent.flat_map(|(_, section)| section.runs.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_types::{Pages, RawHandle};

    const PROCESS: ProcessId = ProcessId(3);
    const CREATOR: AdapterIndex = AdapterIndex(1);

    fn of_four_pages(sections: &mut Sections) -> SectionNumber {
        let runs = vec![PageRun { first: 8, count: Pages(1) }, PageRun { first: 32, count: Pages(3) }];
        let provided = Provided { runs, is_given: false, mapping: MappingId(7) };
        sections.enter_new(PROCESS, CREATOR, 4 * PAGE_BYTES, provided)
    }

    #[test]
    fn pages_return_when_the_handle_is_closed_and_the_last_allocation_has_left() {
        // spec: memory §2.7
        let mut sections = Sections::default();
        let number = of_four_pages(&mut sections);
        sections.enter(number);
        assert_eq!(sections.open_of(PROCESS), [number]);
        assert_eq!(sections.close(number), (CREATOR, MappingId(7)));
        assert!(sections.leave(number).is_none(), "an allocation lies in it");
        assert!(sections.open_of(PROCESS).is_empty() && sections.get(number).is_some());
        assert_eq!(sections.committed().of(PROCESS).bytes, 4 * PAGE_BYTES, "its process has its memory until then");
        let gone = sections.leave(number).expect("the last has left");
        assert_eq!((gone.creator, gone.runs.len(), gone.is_given), (CREATOR, 2, false));
        assert!(sections.get(number).is_none() && sections.committed().of(PROCESS).bytes == 0);
    }

    #[test]
    fn a_range_of_a_section_is_of_whole_pages_inside_and_of_another_adapters_only_across() {
        // spec: memory §2.2
        let mut sections = Sections::default();
        let number = of_four_pages(&mut sections);
        let range = |offset_pages: u64, size_bytes: u64| SectionRange {
            section: RawHandle(1),
            offset_bytes: offset_pages * PAGE_BYTES,
            size_bytes,
        };
        let (runs, of) = sections.pages(number, range(1, 2 * PAGE_BYTES), CREATOR, false).unwrap();
        assert_eq!((runs, of), (vec![PageRun { first: 32, count: Pages(2) }], number));
        for wrong in [range(1, 0), range(1, 100), range(3, 2 * PAGE_BYTES), range(u64::MAX / PAGE_BYTES, PAGE_BYTES)] {
            assert!(sections.pages(number, wrong, CREATOR, true).is_err(), "{wrong:?}");
        }
        let other = AdapterIndex(0);
        assert!(sections.pages(number, range(0, PAGE_BYTES), other, false).is_err());
        assert!(sections.pages(number, range(0, PAGE_BYTES), other, true).is_ok());
    }
}
