//! One GPU virtual address space: which addresses are taken, by what right, and what each page shows. It knows nothing
//! of residency or entries: `mapping`, `reserve` and `update` write those. Addresses are counted in 4-KB pages here.
//!
//! ```text
//!          reserve                      map                      the allocation dies
//! free ───────────────▶ reserved ─────────────────▶ mapped ───────────────────────────▶ reserved
//!   ▲                   (NoAccess, Zero) ◀────────    │
//!   ├──────────────── free ──────────────  map NoAccess, Zero; unmap
//!   │           map
//! free ─────────────────────────────────▶ mapped ──── the allocation dies, free ──────▶ free
//! ```

mod check;
mod gaps;

use std::collections::BTreeMap;

use wddm_types::{PAGE_BYTES, PageRun, Pages, PhysicalAddress};

use crate::page_table::PageTable;
use crate::slab::AllocationId;
use gaps::{ASKED, Gaps};

/// The kind of an address space (memory §4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceKind {
    /// A process's; its tables are written in the paging ring.
    Process,
    /// The paging process's; its tables are written by the CPU at once.
    Paging,
}

/// The accesses that a mapping allows (`D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE`, memory §4.8), besides reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Bit Write.
    pub write: bool,
    /// Bit Execute.
    pub execute: bool,
    /// DriverProtection: for the driver, not read here but for its top bit (memory §4.11).
    pub driver: u64,
}

impl Protection {
    /// Reading and writing, nothing for the driver.
    pub const READ_WRITE: Protection = Protection { write: true, execute: false, driver: 0 };
}

/// The behaviour of a reservation's page as long as nothing is mapped there (memory §4.8, §4.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Every access faults.
    NoAccess,
    /// Reads return 0, writes are dropped.
    Zero,
}

/// The target of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Pages of an allocation from this one on.
    Allocation(AllocationId, u64),
    /// System pages from this one on.
    System(u64),
    /// System pages with words of native fences in them, from this one on.
    Words(u64),
    /// Zeros only.
    Zero,
}

impl Shown {
    /// The target `pages` further on.
    pub fn advanced(self, pages: u64) -> Shown {
        match self {
            Shown::Allocation(allocation, page) => Shown::Allocation(allocation, page + pages),
            Shown::System(page) => Shown::System(page + pages),
            Shown::Words(page) => Shown::Words(page + pages),
            Shown::Zero => Shown::Zero,
        }
    }
}

/// Pages that show something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub pages: u64,
    pub shown: Shown,
    pub protection: Protection,
}

/// By what right addresses are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Map: they are free again when nothing is shown there any more.
    Map,
    /// Map of the kernel's own pages: only the kernel touches them.
    Kernel,
    /// The driver's, from the process's creation to its end: it maps there, and user mode if it may.
    Driver {
        /// User mode may map there (AllowUserModeMapping).
        user_maps: bool,
    },
    /// Reserved by ReserveGpuVirtualAddress until they are freed. With the behaviour of unmapped pages, and the
    /// driver's part of a tile's protection.
    Reservation(Reserved, u64),
}

/// Addresses taken by one call, or what is left of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub end: u64,
    pub origin: Origin,
}

/// One address space.
#[derive(Debug)]
pub(crate) struct Space {
    pub kind: SpaceKind,
    pub table: PageTable,
    /// The root that contexts have, and its entries. The table's own is ahead of it while a new one is under way.
    pub shown_root: (PhysicalAddress, u32),
    /// The mapped pages; pages of a taken range without an entry here fault.
    pub mapped: BTreeMap<u64, Mapping>,
    /// A page of zeros for hardware whose entries cannot say Zero, made when it is first needed.
    pub zero_page: Option<PageRun>,
    ranges: BTreeMap<u64, Range>,
    free: Gaps,
}

impl Space {
    /// A space whose pages `first..end` can be used. Free ones are asked for by these alignments (see [`Gaps`]).
    pub fn new(kind: SpaceKind, table: PageTable, first: u64, end: u64, alignments: [u64; ASKED]) -> Self {
        let free = Gaps::new(first, end, alignments);
        let shown_root = (table.root(), table.root_entries());
        Space { kind, table, shown_root, mapped: BTreeMap::new(), zero_page: None, ranges: BTreeMap::new(), free }
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
    pub fn take(&mut self, run: PageRun, origin: Origin) {
        self.free.take(run);
        self.ranges.insert(run.first, Range { end: run.end(), origin });
    }

    /// Makes taken pages free, cutting ranges that reach beyond them. They show nothing any more.
    pub fn give(&mut self, run: PageRun) {
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
    }

    /// Makes pages free that a call took, like [`Space::give`]: those among them that are the driver's stay taken.
    pub fn give_all_but_the_drivers(&mut self, run: PageRun) {
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
    pub fn show(&mut self, first: u64, mapping: Mapping) {
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
    pub fn vacate(&mut self, run: PageRun) -> Vec<Vacated> {
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
