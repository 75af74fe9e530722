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
