//! Free frames of one segment, or of system memory. It knows runs of pages, not owners; it moves nothing. Called by `residency`, `tables`
//! and the system-page calls.
//!
//! The idea: a freed run merges with its neighbours at once, found by the pages where free runs begin and end; and every
//! free run of up to 16 MiB stands in a bin of exactly its length, so that the best fit, the shortest run that holds a
//! request, is found without a search. Both take constant time and memory that follows the number of free runs. Runs
//! beyond 16 MiB share bins and are compared a few at a time; there the fit is good, not best, but no request is refused
//! while a run holds it. Scattered content takes the shortest run that holds it whole; when none does, the longest
//! runs first, so that content comes in few extents.
//!
//! | request | time |
//! |---|---|
//! | contiguous, any place; give | constant |
//! | scattered | constant for each extent |
//! | aligned | constant, if one of the first few runs that are long enough lies well; else the runs that are long enough |
//! | from the end, within a window, exactly these pages | logarithmic in the free runs, for each run passed over |
//!
//! `bins` has the runs by length, `boundaries` by the pages where they begin and end, `order` by address; `directed` is what
//! asks by address, `cleared` what is known to hold the clear pattern, both kept in `books` for those who ask; `compaction`
//! finds the moves that make a hole.

mod bins;
mod books;
mod boundaries;
mod check;
mod cleared;
mod compaction;
mod directed;
mod order;
#[cfg(test)]
mod tests;

use wddm_types::{PageRun, Pages};

use self::bins::{Bins, FreeRun, NONE};
use self::books::Books;
use self::boundaries::Boundaries;
use self::cleared::Cleared;

pub use self::compaction::{Movable, Relocation};

/// Runs that are tried for an alignment before one that is long enough for any alignment is asked for.
const ALIGNED_LOOK: usize = 32;

/// A pool of frames, counted in 4-KB pages. Public so that it can be measured by itself.
#[derive(Debug)]
pub struct FramePool {
    bins: Bins,
    boundaries: Boundaries,
    /// Kept from the first question on.
    books: Option<Box<Books>>,
    whole: PageRun,
    excluded: Vec<PageRun>,
    free: u64,
    capacity: u64,
}

/// A copy on which a plan is tried: made in the time of its free runs.
impl Clone for FramePool {
    fn clone(&self) -> Self {
        FramePool {
            bins: self.bins.clone(),
            boundaries: Boundaries::copy(&self.bins),
            books: self.books.as_ref().and_then(|books| books.copy()),
            whole: self.whole,
            excluded: self.excluded.clone(),
            free: self.free,
            capacity: self.capacity,
        }
    }
}

impl FramePool {
    /// A pool over `run`, all of it free.
    pub fn new(run: PageRun) -> Self {
        let mut pool = FramePool {
            bins: Bins::new(run),
            boundaries: Boundaries::new(run.first, run.count.0),
            books: None,
            whole: run,
            excluded: Vec::new(),
            free: run.count.0,
            capacity: run.count.0,
        };
        if !run.count.is_zero() {
            pool.free = 0;
            pool.give(run);
        }
        debug_assert_eq!(pool.free, pool.capacity, "a new pool has every page free");
        pool
    }

    /// The same pool with every page free. Excluded runs stay excluded.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let mut pool = FramePool::new(self.whole);
        self.excluded.iter().for_each(|run| pool.exclude(*run));
        debug_assert_eq!(pool.capacity, self.capacity, "the same runs are excluded");
        debug_assert_eq!(pool.free, pool.capacity, "an emptied pool has every page free");
        pool
    }

    /// Where its pages are, excluded ones between them.
    pub fn whole(&self) -> PageRun {
        self.whole
    }

    /// Free pages.
    pub fn free_pages(&self) -> u64 {
        self.free
    }

    /// All pages of the pool.
    pub fn capacity_pages(&self) -> u64 {
        self.capacity
    }

    /// Takes `pages` pages wherever they are, in as few runs as this allocator can; `None` (and nothing taken) when
    /// fewer are free.
    #[must_use]
    pub fn take_scattered(&mut self, pages: u64) -> Option<Vec<PageRun>> {
        self.scattered(pages, false)
    }

    /// The same for content that starts with the clear pattern: pages that hold it already are preferred where that
    /// leaves no other holes behind.
    #[must_use]
    pub fn take_scattered_cleared(&mut self, pages: u64) -> Option<Vec<PageRun>> {
        self.scattered(pages, self.cleared().is_some())
    }

    /// Takes one run of `pages` pages whose first page is a multiple of `alignment` pages; from the end of the pool
    /// when `from_end`.
    #[must_use]
    #[inline]
    pub fn take_contiguous(&mut self, pages: u64, alignment: u64, from_end: bool) -> Option<PageRun> {
        assert!(pages > 0 && alignment.is_power_of_two(), "a run has pages and its alignment is a power of two");
        if from_end {
            return self.take_contiguous_within(self.whole, pages, alignment, true);
        }
        if alignment == 1 {
            let (found, free) = self.bins.leave_best_fit(pages)?;
            return Some(self.cut_front(found, free, pages));
        }
        let (found, at) = self.aligned_fit(pages, alignment)?;
        debug_assert!(at.is_multiple_of(alignment), "a run at page {at}, and not at a multiple of {alignment}");
        self.cut(found, at, pages);
        Some(run(at, pages))
    }

    /// Takes exactly these pages, which are free.
    pub fn take_exact(&mut self, wanted: PageRun) {
        assert!(self.whole.first <= wanted.first && wanted.end() <= self.whole.end(), "they are pages of the pool");
        let here = self.boundaries.get(wanted.first);
        let starts_here = here != NONE && self.bins.get(here).first == wanted.first;
        let found = if starts_here { Some(here) } else { self.run_before(wanted.first) };
        let found = found.filter(|found| wanted.end() <= self.bins.get(*found).end()).expect("the pages are free");
        self.cut(found, wanted.first, wanted.count.0);
    }

    /// Takes free pages out of the pool for ever: it is smaller by them.
    pub fn exclude(&mut self, wanted: PageRun) {
        self.take_exact(wanted);
        self.capacity -= wanted.count.0;
        debug_assert!(self.free <= self.capacity, "{} pages are free of {}", self.free, self.capacity);
        self.excluded.push(wanted);
    }

    /// Gives pages back, written; neighbours become one.
    #[inline]
    pub fn give(&mut self, given: PageRun) {
        let (first, count, end) = (given.first, given.count.0, given.end());
        assert!(count > 0, "a run has pages of the pool");
        let before = self.boundaries.get(first);
        let behind = self.boundaries.get(end);
        let (joined, joined_first, joined_end);
        // The joined run already has its entry at the boundary that it keeps.
        if before == NONE {
            joined_first = first;
            if behind == NONE {
                (joined, joined_end) = (self.bins.number(), end);
                self.boundaries.set(end, joined);
            } else {
                (joined, joined_end) = (behind, self.leave_behind(behind, end));
            }
            self.boundaries.set(first, joined);
        } else {
            let free = self.bins.leave(before);
            assert_eq!(free.end(), first, "a page is given back once");
            self.boundaries.remove(first);
            (joined, joined_first) = (before, free.first);
            if behind == NONE {
                joined_end = end;
            } else {
                joined_end = self.leave_behind(behind, end);
                self.bins.forget(behind);
            }
            self.boundaries.set(joined_end, joined);
        }
        self.bins.enter(joined, joined_first, joined_end - joined_first);
        self.free += count;
        assert!(self.free <= self.capacity, "no more is free than there is");
        if let Some(books) = &mut self.books {
            books.given(given, &self.bins);
        }
    }

    /// Free pages that do not hold the clear pattern, at most so many; `None` when all do.
    pub fn uncleared(&self, max_pages: u64) -> Option<PageRun> {
        match self.cleared() {
            Some(cleared) => cleared.waiting(max_pages),
            None => {
                let free = self.bins.get(self.bins.longest()?);
                Some(run(free.first, free.count.min(max_pages)))
            }
        }
    }

    /// These pages, which are free, hold the clear pattern before any later owner can see them.
    pub fn mark_cleared(&mut self, marked: PageRun) {
        let free = self.bins.iter().map(|(_, free)| run(free.first, free.count));
        let books = self.books.get_or_insert_default();
        books.cleared.get_or_insert_with(|| Cleared::new(free)).mark(marked);
    }

    /// Nothing is known any more of what free pages hold.
    pub fn forget_cleared(&mut self) {
        if let Some(books) = &mut self.books {
            books.cleared = None;
        }
    }

    /// A run in parts, each with whether it held the clear pattern when it was taken, or holds it, if it is free.
    pub fn cleared_parts(&self, asked: PageRun) -> Vec<(PageRun, bool)> {
        match self.cleared() {
            Some(cleared) => cleared.parts(asked),
            None => vec![(asked, false)],
        }
    }

    fn cleared(&self) -> Option<&Cleared> {
        self.books.as_ref()?.cleared.as_ref()
    }

    /// Takes the free run that begins at a page out of its bin and from there; answers with its end.
    #[inline(always)]
    fn leave_behind(&mut self, behind: u32, first: u64) -> u64 {
        let free = self.bins.leave(behind);
        assert_eq!(free.first, first, "a page is given back once");
        self.boundaries.remove(first);
        free.end()
    }

    fn scattered(&mut self, pages: u64, prefer_cleared: bool) -> Option<Vec<PageRun>> {
        if pages > self.free {
            return None;
        }
        let mut runs = Vec::with_capacity(1);
        let mut left = pages;
        while left > 0 {
            let found = self.bins.best_fit(left).or_else(|| self.bins.longest()).expect("free pages are in runs");
            let taken = self.bins.get(found).count.min(left);
            if prefer_cleared {
                let (found, at) = self.clearest(found, taken);
                self.cut(found, at, taken);
                runs.push(run(at, taken));
            } else {
                let free = self.bins.leave(found);
                runs.push(self.cut_front(found, free, taken));
            }
            left -= taken;
        }
        Some(runs)
    }

    /// Of the runs that are as long as this one, and of their two ends, the place with the most cleared pages.
    fn clearest(&self, found: u32, pages: u64) -> (u32, u64) {
        let cleared = self.cleared().expect("this pool tracks cleared pages");
        let ends = |found: u32| [self.bins.get(found).first, self.bins.get(found).end() - pages].map(|at| (found, at));
        let places = std::iter::once(found).chain(self.bins.fellows(found)).flat_map(ends);
        let mut best = (found, self.bins.get(found).first);
        let mut most = 0;
        for (found, at) in places {
            let count = cleared.count(run(at, pages));
            if count > most {
                (best, most) = ((found, at), count);
            }
        }
        best
    }

    fn aligned_fit(&self, pages: u64, alignment: u64) -> Option<(u32, u64)> {
        let aligned = |found: u32| {
            let free = self.bins.get(found);
            let at = free.first.next_multiple_of(alignment);
            (at + pages <= free.end()).then_some((found, at))
        };
        self.bins
            .at_least(pages)
            .take(ALIGNED_LOOK)
            .find_map(aligned)
            .or_else(|| aligned(self.bins.best_fit(pages.checked_add(alignment - 1)?)?))
            .or_else(|| self.bins.at_least(pages).skip(ALIGNED_LOOK).find_map(aligned))
    }

    /// Takes the first pages of a free run that has left its bin: what nearly every request does.
    #[inline(always)]
    fn cut_front(&mut self, found: u32, free: FreeRun, pages: u64) -> PageRun {
        debug_assert!(0 < pages && pages <= free.count, "{pages} pages are taken from the front of {free:?}");
        let taken = run(free.first, pages);
        self.boundaries.remove(free.first);
        if pages < free.count {
            self.boundaries.set(taken.end(), found);
            self.bins.enter(found, taken.end(), free.count - pages);
        } else {
            self.boundaries.remove(taken.end());
            self.bins.forget(found);
        }
        self.free -= pages;
        if let Some(books) = &mut self.books {
            books.taken(free.first, taken, &self.bins);
        }
        taken
    }

    /// Takes pages out of a free run.
    fn cut(&mut self, found: u32, at: u64, pages: u64) {
        let free = self.bins.leave(found);
        let end = at + pages;
        debug_assert!(free.first <= at && end <= free.end(), "{pages} pages from page {at} are taken out of {free:?}");
        let (keeps_front, keeps_back) = (at > free.first, end < free.end());
        // The front stays under its own first page, or the entry there is removed.
        if keeps_front {
            self.boundaries.set(at, found);
            self.bins.enter(found, free.first, at - free.first);
        } else {
            self.boundaries.remove(free.first);
        }
        if keeps_back {
            let mut rest = found;
            if keeps_front {
                rest = self.bins.number();
                self.boundaries.set(free.end(), rest);
            }
            self.boundaries.set(end, rest);
            self.bins.enter(rest, end, free.end() - end);
        } else {
            self.boundaries.remove(free.end());
            if !keeps_front {
                self.bins.forget(found);
            }
        }
        self.free -= pages;
        if let Some(books) = &mut self.books {
            books.taken(free.first, run(at, pages), &self.bins);
        }
    }
}

fn run(first: u64, count: u64) -> PageRun {
    PageRun { first, count: Pages(count) }
}
