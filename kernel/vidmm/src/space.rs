//! One GPU virtual address space: which addresses are taken, by what, and the tables below. It knows nothing of
//! residency: `mapping` says which entries are valid. Addresses are counted in 4-KB pages here.

use std::collections::BTreeMap;

use wddm_types::{PAGE_BYTES, PageRun};

use crate::page_table::PageTable;
use crate::slab::AllocationId;

/// Whose space it is (memory §4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceKind {
    /// A process's; its tables are written in the paging ring.
    Process,
    /// The paging process's; its tables are written by the CPU at once.
    Paging,
}

/// What a mapped range shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Pages of an allocation from this one on.
    Allocation(AllocationId, u64),
    /// System pages from this one on.
    System(u64),
}

impl Shown {
    /// What stands `pages` further on.
    pub fn advanced(self, pages: u64) -> Shown {
        match self {
            Shown::Allocation(allocation, page) => Shown::Allocation(allocation, page + pages),
            Shown::System(page) => Shown::System(page + pages),
        }
    }
}

/// A mapped range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub pages: u64,
    pub shown: Shown,
    pub writable: bool,
}

/// One address space.
#[derive(Debug)]
pub(crate) struct Space {
    pub kind: SpaceKind,
    pub table: PageTable,
    pub mapped: BTreeMap<u64, Mapping>,
    /// Free addresses: first page to one past the last.
    free: BTreeMap<u64, u64>,
}

impl Space {
    /// A space whose pages `first..end` can be used.
    pub fn new(kind: SpaceKind, table: PageTable, first: u64, end: u64) -> Self {
        Space { kind, table, mapped: BTreeMap::new(), free: BTreeMap::from([(first, end)]) }
    }

    /// Lowest free range of `pages` pages in `minimum..maximum`, first page a multiple of `alignment`.
    pub fn find(&self, pages: u64, minimum: u64, maximum: u64, alignment: u64) -> Option<u64> {
        let from = self.free.range(..=minimum).next_back().map_or(0, |(&first, _)| first);
        self.free.range(from..).find_map(|(&first, &end)| {
            let at = first.max(minimum).checked_next_multiple_of(alignment)?;
            (at.checked_add(pages)? <= end.min(maximum)).then_some(at)
        })
    }

    /// Whether these pages are free.
    pub fn is_free(&self, run: PageRun) -> bool {
        self.free.range(..=run.first).next_back().is_some_and(|(_, &end)| run.end() <= end)
    }

    /// Takes free pages for a mapping.
    pub fn occupy(&mut self, first: u64, mapping: Mapping) {
        let (&from, &end) = self.free.range(..=first).next_back().expect("the pages are free");
        let stop = first + mapping.pages;
        assert!(stop <= end, "the pages are free");
        self.free.remove(&from);
        if from < first {
            self.free.insert(from, first);
        }
        if stop < end {
            self.free.insert(stop, end);
        }
        self.mapped.insert(first, mapping);
    }

    /// Whether every page of `run` is mapped.
    pub fn is_mapped(&self, run: PageRun) -> bool {
        let mut next = run.first;
        while next < run.end() {
            match self.mapped.range(..=next).next_back() {
                Some((&first, mapping)) if first + mapping.pages > next => next = first + mapping.pages,
                _ => return false,
            }
        }
        true
    }

    /// Takes the mapped pages of `run` out, cutting mappings that reach beyond it. What is left of those stays. The
    /// removed pieces come with the start of the mapping that they were part of.
    pub fn vacate(&mut self, run: PageRun) -> Vec<Vacated> {
        let mut vacated = Vec::new();
        let mut next = run.first;
        while next < run.end() {
            let (&first, &mapping) = self.mapped.range(..=next).next_back().expect("the pages are mapped");
            let stop = (first + mapping.pages).min(run.end());
            assert!(stop > next, "the pages are mapped");
            self.mapped.remove(&first);
            let tail = first + mapping.pages - stop;
            if first < next {
                self.mapped.insert(first, Mapping { pages: next - first, ..mapping });
            }
            if tail > 0 {
                self.mapped
                    .insert(stop, Mapping { pages: tail, shown: mapping.shown.advanced(stop - first), ..mapping });
            }
            vacated.push(Vacated {
                first: next,
                pages: stop - next,
                shown: mapping.shown.advanced(next - first),
                whole: first,
                head: first < next,
                tail: (tail > 0).then_some(stop),
            });
            next = stop;
        }
        self.release(run.first, run.end());
        vacated
    }

    fn release(&mut self, mut first: u64, mut end: u64) {
        if let Some((&before, &before_end)) = self.free.range(..=first).next_back()
            && before_end == first
        {
            first = before;
        }
        if let Some(after_end) = self.free.remove(&end) {
            end = after_end;
        }
        self.free.insert(first, end);
    }
}

/// A piece that [`Space::vacate`] removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacated {
    pub first: u64,
    pub pages: u64,
    /// What it showed.
    pub shown: Shown,
    /// Start of the mapping that it was part of.
    pub whole: u64,
    /// Whether a part before it stays under that start.
    pub head: bool,
    /// Start of the part behind it that stays.
    pub tail: Option<u64>,
}

/// Page of an address in bytes.
pub(crate) fn page_of(bytes: u64) -> u64 {
    bytes / PAGE_BYTES
}
