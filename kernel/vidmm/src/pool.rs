//! Free frames of one segment, or of system memory: who has which pages. It knows runs of pages, not owners; it
//! moves nothing. Called by `residency`, `tables` and the system-page calls.
//!
//! The idea: free runs are kept by address (to merge neighbours) and by size (to find the best fit). Scattered content
//! takes the smallest run that holds it whole; when none does, the largest runs first, so that content comes in few
//! extents. Time per call is logarithmic in the number of free runs for each run taken or given.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::{PageRun, Pages};

/// A pool of frames, counted in 4-KB pages.
#[derive(Clone, Debug)]
pub(crate) struct FramePool {
    by_address: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    free: u64,
    capacity: u64,
}

impl FramePool {
    /// A pool over `run`, all of it free.
    pub fn new(run: PageRun) -> Self {
        let mut pool =
            FramePool { by_address: BTreeMap::new(), by_size: BTreeSet::new(), free: 0, capacity: run.count.0 };
        if !run.count.is_zero() {
            pool.insert(run.first, run.count.0);
        }
        pool.free = run.count.0;
        pool
    }

    /// Pages that nobody owns.
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
        if pages > self.free {
            return None;
        }
        let mut runs = Vec::new();
        let mut left = pages;
        while left > 0 {
            let fit = self.by_size.range((left, 0)..).next().or_else(|| self.by_size.last()).copied();
            let (count, first) = fit.expect("free pages are counted in the runs");
            let taken = count.min(left);
            self.cut(first, count, first, taken);
            runs.push(run(first, taken));
            left -= taken;
        }
        Some(runs)
    }

    /// Takes one run of `pages` pages whose first page is a multiple of `alignment` pages; from the end of the pool
    /// when `from_end`.
    #[must_use]
    pub fn take_contiguous(&mut self, pages: u64, alignment: u64, from_end: bool) -> Option<PageRun> {
        assert!(pages > 0 && alignment.is_power_of_two(), "a run has pages and its alignment is a power of two");
        let fits = |first: u64, count: u64| {
            let aligned = first.next_multiple_of(alignment);
            (aligned + pages <= first + count).then_some(aligned)
        };
        let found = if from_end {
            self.by_address.iter().rev().find_map(|(&first, &count)| {
                let last = (first + count).checked_sub(pages)? / alignment * alignment;
                (last >= first).then_some((first, count, last))
            })
        } else {
            self.by_size.range((pages, 0)..).find_map(|&(count, first)| Some((first, count, fits(first, count)?)))
        };
        let (first, count, at) = found?;
        self.cut(first, count, at, pages);
        Some(run(at, pages))
    }

    /// The same within a window: from its start, or from its end when `from_end`. Banks and directions of a preference
    /// ask for this (memory §2.4, §2.5).
    #[must_use]
    pub fn take_contiguous_within(
        &mut self,
        window: PageRun,
        pages: u64,
        alignment: u64,
        from_end: bool,
    ) -> Option<PageRun> {
        assert!(pages > 0 && alignment.is_power_of_two(), "a run has pages and its alignment is a power of two");
        let fit = |(first, count): (u64, u64)| {
            let (low, high) = (first.max(window.first), (first + count).min(window.end()));
            let last = high.checked_sub(pages)?;
            let at = if from_end { last / alignment * alignment } else { low.next_multiple_of(alignment) };
            (low <= at && at <= last).then_some((first, count, at))
        };
        let (first, count, at) = self.pieces(window, from_end).into_iter().find_map(fit)?;
        self.cut(first, count, at, pages);
        Some(run(at, pages))
    }

    /// Takes at most `pages` pages within a window, those nearest to its start, or to its end when `from_end`. What it
    /// took, in that order; fewer when fewer are free there.
    #[must_use]
    pub fn take_scattered_within(&mut self, window: PageRun, pages: u64, from_end: bool) -> Vec<PageRun> {
        let (mut runs, mut left) = (Vec::new(), pages);
        for (first, count) in self.pieces(window, from_end) {
            let (low, high) = (first.max(window.first), (first + count).min(window.end()));
            let taken = left.min(high - low);
            if taken == 0 {
                break;
            }
            let at = if from_end { high - taken } else { low };
            self.cut(first, count, at, taken);
            runs.push(run(at, taken));
            left -= taken;
        }
        runs
    }

    /// Takes free pages out of the pool for ever: it is smaller by them.
    pub fn exclude(&mut self, wanted: PageRun) {
        self.take_exact(wanted);
        self.capacity -= wanted.count.0;
    }

    /// Takes exactly these pages, which are free.
    pub fn take_exact(&mut self, wanted: PageRun) {
        let (&first, &count) = self.by_address.range(..=wanted.first).next_back().expect("the pages are free");
        assert!(wanted.end() <= first + count, "the pages are free");
        self.cut(first, count, wanted.first, wanted.count.0);
    }

    /// Gives pages back; neighbours become one run.
    pub fn give(&mut self, given: PageRun) {
        let (mut first, mut count) = (given.first, given.count.0);
        assert!(count > 0, "a run has pages");
        if let Some((&before, &before_count)) = self.by_address.range(..first).next_back() {
            assert!(before + before_count <= first, "a page is given back once");
            if before + before_count == first {
                self.remove(before, before_count);
                (first, count) = (before, before_count + count);
            }
        }
        if let Some((&after, &after_count)) = self.by_address.range(given.first..).next() {
            assert!(given.end() <= after, "a page is given back once");
            if given.end() == after {
                self.remove(after, after_count);
                count += after_count;
            }
        }
        self.insert(first, count);
        self.free += given.count.0;
        assert!(self.free <= self.capacity, "no more is free than there is");
    }

    /// The free runs that have a page in the window, in the order of their addresses, or backwards.
    fn pieces(&self, window: PageRun, backwards: bool) -> Vec<(u64, u64)> {
        let before =
            self.by_address.range(..window.first).next_back().filter(|(first, count)| **first + **count > window.first);
        let inside = self.by_address.range(window.first..window.end());
        let mut pieces: Vec<_> = before.into_iter().chain(inside).map(|(&first, &count)| (first, count)).collect();
        if backwards {
            pieces.reverse();
        }
        pieces
    }

    fn cut(&mut self, first: u64, count: u64, at: u64, pages: u64) {
        self.remove(first, count);
        if at > first {
            self.insert(first, at - first);
        }
        if at + pages < first + count {
            self.insert(at + pages, first + count - at - pages);
        }
        self.free -= pages;
    }

    fn insert(&mut self, first: u64, count: u64) {
        self.by_address.insert(first, count);
        self.by_size.insert((count, first));
    }

    fn remove(&mut self, first: u64, count: u64) {
        assert_eq!(self.by_address.remove(&first), Some(count), "both orders name the same runs");
        assert!(self.by_size.remove(&(count, first)), "both orders name the same runs");
    }
}

fn run(first: u64, count: u64) -> PageRun {
    PageRun { first, count: Pages(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages 0 to 99, of which 10..20 and 50..60 are taken.
    fn holed() -> FramePool {
        let mut pool = FramePool::new(run(0, 100));
        pool.take_exact(run(10, 10));
        pool.take_exact(run(50, 10));
        pool
    }

    #[test]
    fn a_window_confines_what_is_taken() {
        // spec: memory §2.5
        let window = run(5, 60);
        assert_eq!(holed().take_contiguous_within(window, 5, 1, false), Some(run(5, 5)));
        assert_eq!(holed().take_contiguous_within(window, 5, 8, false), Some(run(24, 5)));
        assert_eq!(holed().take_contiguous_within(window, 5, 1, true), Some(run(60, 5)));
        assert_eq!(holed().take_contiguous_within(window, 6, 8, true), Some(run(40, 6)));
        assert_eq!(holed().take_contiguous_within(window, 31, 1, false), None);
        assert_eq!(holed().take_scattered_within(window, 12, false), [run(5, 5), run(20, 7)]);
        assert_eq!(holed().take_scattered_within(window, 12, true), [run(60, 5), run(43, 7)]);
        let mut pool = holed();
        assert_eq!(pool.take_scattered_within(window, 1000, false), [run(5, 5), run(20, 30), run(60, 5)]);
        assert_eq!(pool.free_pages(), 40);
        assert!(pool.take_scattered_within(window, 1, false).is_empty());
    }

    #[test]
    fn excluded_pages_are_gone_for_ever() {
        // spec: memory §1.4
        let mut pool = FramePool::new(run(0, 10));
        pool.exclude(run(3, 2));
        assert_eq!((pool.capacity_pages(), pool.free_pages()), (8, 8));
        assert_eq!(pool.take_scattered(8).expect("eight are free").len(), 2);
        assert_eq!(pool.take_scattered(1), None);
    }
}
