//! GPU virtual address spaces with their page tables: which addresses are taken, by what right, what each page shows, and what that takes
//! in tables. Addresses are counted in 4-KB pages here.
//!
//! The part ([`AddressSpaces`], `set`) owns all spaces of an adapter, the frames that their tables come from, and how entries are written
//! (`entries`). It knows nothing of residency, devices or processes: it is told where an allocation's content lies when entries are to show it,
//! and answers which tables a change lacks; which process gives up its own for that, `table_room` decides. `mapping`, `reserve` and `update`
//! say what is to be shown.
//!
//! One space:
//!
//! ```text
//!          reserve                      map                      the allocation dies
//! free ───────────────▶ reserved ─────────────────▶ mapped ───────────────────────────▶ reserved
//!   ▲                   (NoAccess, Zero) ◀────────    │
//!   ├──────────────── free ──────────────  map NoAccess, Zero; unmap
//!   │           map
//! free ─────────────────────────────────▶ mapped ──── the allocation dies, free ──────▶ free
//! ```

mod address;
mod check;
mod content;
mod entries;
mod gaps;
mod mapping;
mod room;
mod scratch;
mod set;
mod window;

use std::collections::BTreeMap;

use wddm_types::{PAGE_BYTES, PageRun, Pages, PhysicalAddress};

use crate::page_table::PageTable;
pub use crate::page_table::SpaceKind;
pub use address::AddressError;
pub(crate) use address::UNIT_BYTES;
use gaps::{ASKED, Gaps};
pub(crate) use mapping::{Mapping, Origin, Range, Shown};
pub use mapping::{Protection, Reserved};
pub use scratch::ScratchSlot;
pub(crate) use scratch::window_of;
pub(crate) use set::AddressSpaces;

/// One address space.
#[derive(Debug)]
pub(crate) struct Space {
    kind: SpaceKind,
    table: PageTable,
    /// The root that contexts have, and its entries. The table's own is ahead of it while a new one is under way.
    shown_root: (PhysicalAddress, u32),
    /// The mapped pages; pages of a taken range without an entry here fault.
    mapped: BTreeMap<u64, Mapping>,
    /// A page of zeros for hardware whose entries cannot say Zero, made when it is first needed.
    zero_page: Option<PageRun>,
    ranges: BTreeMap<u64, Range>,
    free: Gaps,
}

impl Space {
    /// A space whose pages `first..end` can be used. Free ones are asked for by these alignments (see [`Gaps`]).
    fn new(kind: SpaceKind, table: PageTable, first: u64, end: u64, alignments: [u64; ASKED]) -> Self {
        let free = Gaps::new(first, end, alignments);
        let shown_root = (table.root(), table.root_entries());
        Space { kind, table, shown_root, mapped: BTreeMap::new(), zero_page: None, ranges: BTreeMap::new(), free }
    }

    /// Whether the paging process's: its tables are written by the CPU at once.
    pub fn is_paging(&self) -> bool {
        self.kind == SpaceKind::Paging
    }

    /// What it shows from this page on, where a mapping begins.
    pub fn mapping_at(&self, first: u64) -> Option<&Mapping> {
        self.mapped.get(&first)
    }

    /// All mappings, each with its first page.
    pub fn mappings(&self) -> impl Iterator<Item = (u64, Mapping)> + '_ {
        self.mapped.iter().map(|(&first, &mapping)| (first, mapping))
    }

    /// Its page of zeros, for those who walk its entries.
    #[cfg(test)]
    pub fn zero_page(&self) -> Option<PageRun> {
        self.zero_page
    }

    /// Lowest free range of `pages` pages in `minimum..maximum`, first page a multiple of `alignment`.
    pub fn find(&self, pages: u64, minimum: u64, maximum: u64, alignment: u64) -> Option<u64> {
        self.free.find(pages, minimum, maximum, alignment)
    }

    /// The highest such range.
    pub fn find_highest(&self, pages: u64, minimum: u64, maximum: u64, alignment: u64) -> Option<u64> {
        self.free.find_highest(pages, minimum, maximum, alignment)
    }

    /// Whether these pages are free.
    pub fn is_free(&self, run: PageRun) -> bool {
        self.free.at_or_below(run.first).is_some_and(|gap| run.end() <= gap.end)
    }

    /// The one range that all these pages are in: its first page, and it.
    pub fn range_of(&self, run: PageRun) -> Option<(u64, Range)> {
        let (&first, &range) = self.ranges.range(..=run.first).next_back()?;
        (run.end() <= range.end).then_some((first, range))
    }

    /// Whether every page of `run` is taken.
    pub fn is_taken(&self, run: PageRun) -> bool {
        let mut next = run.first;
        while next < run.end() {
            match self.ranges.range(..=next).next_back() {
                Some((_, range)) if range.end > next => next = range.end,
                _ => return false,
            }
        }
        true
    }

    /// Whether the kernel has mapped pages of its own among these.
    pub fn is_kernels(&self, run: PageRun) -> bool {
        let from = self.ranges.range(..=run.first).next_back().map_or(run.first, |(&first, _)| first);
        let hit = |range: &Range| range.origin == Origin::Kernel && run.first < range.end;
        self.ranges.range(from..run.end()).any(|(_, range)| hit(range))
    }

    /// Takes free pages.
    fn take(&mut self, run: PageRun, origin: Origin) {
        debug_assert!(!run.count.is_zero(), "no page is taken from page {:#x} on", run.first);
        self.free.take(run);
        let before = self.ranges.insert(run.first, Range { end: run.end(), origin });
        debug_assert!(before.is_none(), "page {:#x} was free, and taken by {before:?}", run.first);
    }

    /// Makes taken pages free, cutting ranges that reach beyond them. They show nothing any more.
    fn give(&mut self, run: PageRun) {
        let mut next = run.first;
        while next < run.end() {
            let (&first, &range) = self.ranges.range(..=next).next_back().expect("the pages are taken");
            assert!(range.end > next, "the pages are taken");
            self.ranges.remove(&first);
            if first < next {
                self.ranges.insert(first, Range { end: next, ..range });
            }
            if range.end > run.end() {
                self.ranges.insert(run.end(), range);
            }
            next = range.end;
        }
        self.free.give(run);
        debug_assert!(self.is_free(run), "{run:?} is given back, and not free");
    }

    /// Makes pages free that a call took, like [`Space::give`]: those among them that are the driver's stay taken.
    fn give_all_but_the_drivers(&mut self, run: PageRun) {
        for part in self.parts(run).into_iter().filter(|(_, origin)| !matches!(origin, Origin::Driver { .. })) {
            self.give(part.0);
        }
    }

    /// Whether pages of the driver's that user mode may not map are among these.
    pub fn is_drivers_own(&self, run: PageRun) -> bool {
        self.parts(run).iter().any(|(_, origin)| *origin == Origin::Driver { user_maps: false })
    }

    /// By what right these pages are taken, piece by piece.
    fn parts(&self, run: PageRun) -> Vec<(PageRun, Origin)> {
        let from = self.ranges.range(..=run.first).next_back().map_or(run.first, |(&first, _)| first);
        let cut = |(&first, range): (&u64, &Range)| {
            let (low, high) = (first.max(run.first), range.end.min(run.end()));
            (low < high).then(|| (PageRun { first: low, count: Pages(high - low) }, range.origin))
        };
        self.ranges.range(from..run.end()).filter_map(cut).collect()
    }

    /// Lets pages show something that show nothing.
    fn show(&mut self, first: u64, mapping: Mapping) {
        debug_assert!(mapping.pages > 0, "{mapping:?} at page {first:#x} shows nothing");
        let run = PageRun { first, count: Pages(mapping.pages) };
        debug_assert!(self.pieces(run).is_empty(), "{run:?} shows something already, and is to show {mapping:?}");
        self.mapped.insert(first, mapping);
    }

    /// The mappings of the pages of `run`, piece by piece, cut to it, without unmapped pages.
    pub fn pieces(&self, run: PageRun) -> Vec<(u64, Mapping)> {
        let from = self.mapped.range(..=run.first).next_back().map_or(run.first, |(&first, _)| first);
        let cut = |(&first, mapping): (&u64, &Mapping)| {
            let (low, high) = (first.max(run.first), (first + mapping.pages).min(run.end()));
            let shown = mapping.shown.advanced(low.saturating_sub(first));
            (low < high).then(|| (low, Mapping { pages: high - low, shown, ..*mapping }))
        };
        self.mapped.range(from..run.end()).filter_map(cut).collect()
    }

    /// Unmaps the pages of `run`; mappings that reach beyond it keep the rest. Each removed piece comes with the start
    /// of the mapping that it was part of.
    fn vacate(&mut self, run: PageRun) -> Vec<Vacated> {
        let mut vacated = Vec::new();
        for (next, piece) in self.pieces(run) {
            let (&first, &mapping) = self.mapped.range(..=next).next_back().expect("the piece is of a mapping");
            let stop = next + piece.pages;
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
                pages: piece.pages,
                shown: piece.shown,
                whole: first,
                head: first < next,
                tail: (tail > 0).then_some(stop),
            });
        }
        debug_assert!(self.pieces(run).is_empty(), "{run:?} is vacated, and shows something");
        vacated
    }

    /// All pages that show something, as runs.
    pub fn shown_runs(&self) -> Vec<PageRun> {
        self.mapped.iter().map(|(&first, mapping)| PageRun { first, count: Pages(mapping.pages) }).collect()
    }
}

/// A piece that [`Space::vacate`] removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacated {
    pub first: u64,
    pub pages: u64,
    /// The target that it had.
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
