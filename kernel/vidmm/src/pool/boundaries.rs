//! Which free run begins or ends at a page: what makes merging a freed run with its neighbours take constant time.
//! Called by the pool.
//!
//! A free run stands under its first page and under the page behind its last. Two entries never meet on one page,
//! because a run that ends where another begins is merged with it.
//!
//! There are two forms. The array has a word for each page, a thousandth of what it manages, and only its parts near
//! boundaries are ever touched. The table is for pools that are too large for that, and for copies on which a plan is
//! tried: its size follows the number of free runs. Its multiplier is fixed and nothing walks it, so its order shows
//! nowhere.

use super::bins::{Bins, NONE};

/// The largest pool with an array: 256 GiB, for which it reserves 256 MiB.
const ARRAY_PAGES_MAX: u64 = 1 << 26;

/// Pages to runs.
#[derive(Debug)]
pub(super) struct Boundaries {
    /// First page of the array.
    first: u64,
    /// By page; empty where the table is used instead.
    array: Vec<u32>,
    table: Table,
}

impl Boundaries {
    /// For a pool of these pages.
    pub fn new(first: u64, pages: u64) -> Self {
        // Zeroes, so that what is not touched takes no memory: they stand for no run.
        // CAST: fewer than the limit.
        let array = if pages > ARRAY_PAGES_MAX { Vec::new() } else { vec![NONE; pages as usize + 1] };
        Boundaries { first, array, table: Table::new() }
    }

    /// Those of a copy.
    pub fn copy(bins: &Bins) -> Self {
        let mut table = Table::new();
        for (run, free) in bins.iter() {
            table.set(free.first, run);
            table.set(free.end(), run);
        }
        Boundaries { first: 0, array: Vec::new(), table }
    }

    /// The run that begins or ends here, or `NONE`.
    #[inline(always)]
    pub fn get(&self, page: u64) -> u32 {
        match self.array.get(page.wrapping_sub(self.first) as usize) {
            Some(run) => *run,
            None => self.get_elsewhere(page),
        }
    }

    /// Puts a run under a page, in place of what stood there.
    #[inline(always)]
    pub fn set(&mut self, page: u64, run: u32) {
        match self.array.get_mut(page.wrapping_sub(self.first) as usize) {
            Some(there) => *there = run,
            None => self.set_elsewhere(page, run),
        }
    }

    /// Takes away what stands under a page.
    #[inline(always)]
    pub fn remove(&mut self, page: u64) {
        self.set(page, NONE);
    }

    #[cold]
    #[inline(never)]
    fn get_elsewhere(&self, page: u64) -> u32 {
        assert!(self.array.is_empty(), "a run has pages of the pool");
        self.table.get(page)
    }

    #[cold]
    #[inline(never)]
    fn set_elsewhere(&mut self, page: u64, run: u32) {
        assert!(self.array.is_empty(), "a run has pages of the pool");
        if run == NONE {
            self.table.remove(page);
        } else {
            self.table.set(page, run);
        }
    }
}

const _: () = assert!(NONE == 0, "no run is stored as zero");

const VACANT: u64 = u64::MAX;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
const SLOTS_MIN: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Slot {
    page: u64,
    run: u32,
}

/// Open addressing.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    len: usize,
    shift: u32,
}

impl Table {
    fn new() -> Self {
        Table::with_slots(SLOTS_MIN)
    }

    fn get(&self, page: u64) -> u32 {
        let slot = self.slots[self.find(page)];
        if slot.page == page { slot.run } else { NONE }
    }

    fn set(&mut self, page: u64, run: u32) {
        debug_assert!(run != NONE && page != VACANT, "run {run} stands under page {page}");
        let mut at = self.find(page);
        if self.slots[at].page == VACANT {
            if (self.len + 1) * 2 > self.slots.len() {
                self.grow();
                at = self.find(page);
            }
            self.len += 1;
        }
        self.slots[at] = Slot { page, run };
        debug_assert!(self.len * 2 <= self.slots.len(), "{} entries in {} slots", self.len, self.slots.len());
    }

    fn remove(&mut self, page: u64) {
        let mask = self.slots.len() - 1;
        let mut hole = self.find(page);
        assert_eq!(self.slots[hole].page, page, "a run stands under both its boundaries");
        debug_assert!(self.len > 0, "page {page} is removed from a table without entries");
        self.len -= 1;
        // Entries behind the hole move up, unless they would come before their homes.
        let mut next = (hole + 1) & mask;
        while self.slots[next].page != VACANT {
            let home = self.home(self.slots[next].page);
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.slots[hole].page = VACANT;
    }

    fn with_slots(slots: usize) -> Self {
        Table { slots: vec![Slot { page: VACANT, run: NONE }; slots], len: 0, shift: 64 - slots.ilog2() }
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::replace(self, Table::with_slots(self.slots.len() * 2));
        for slot in old.slots.into_iter().filter(|slot| slot.page != VACANT) {
            self.set(slot.page, slot.run);
        }
    }

    #[inline]
    fn home(&self, page: u64) -> usize {
        (page.wrapping_mul(MULTIPLIER) >> self.shift) as usize
    }

    /// The slot of a page, or the vacant one where it would stand.
    #[inline]
    fn find(&self, page: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(page);
        while self.slots[at].page != page && self.slots[at].page != VACANT {
            at = (at + 1) & mask;
        }
        at
    }
}
