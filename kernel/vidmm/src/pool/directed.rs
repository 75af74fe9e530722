//! Requests that care where their pages lie: within a window, from its start or its end. Banks and directions of a
//! preference ask for this (memory §2.4, §2.5). Called where content is placed.

use wddm_types::PageRun;

use super::bins::FreeRun;
use super::{FramePool, run};

impl FramePool {
    /// One run of `pages` pages within a window whose first page is a multiple of `alignment` pages: the first from the
    /// window's start, or from its end when `from_end`.
    #[must_use]
    pub fn take_contiguous_within(
        &mut self,
        window: PageRun,
        pages: u64,
        alignment: u64,
        from_end: bool,
    ) -> Option<PageRun> {
        assert!(pages > 0 && alignment.is_power_of_two(), "a run has pages and its alignment is a power of two");
        let longest = self.bins.best_fit(pages).is_some();
        let fit = |(found, free): (u32, FreeRun)| {
            let (low, high) = (free.first.max(window.first), free.end().min(window.end()));
            let last = high.checked_sub(pages)?;
            let at = if from_end { last / alignment * alignment } else { low.checked_next_multiple_of(alignment)? };
            (low <= at && at <= last).then_some((found, at))
        };
        // When no run anywhere is long enough, none is passed over in vain.
        let (found, at) = longest.then(|| self.walk(window, from_end, fit)).flatten()?;
        debug_assert!(window.first <= at && at + pages <= window.end(), "{pages} pages at {at} are not in {window:?}");
        debug_assert!(at.is_multiple_of(alignment), "a run at page {at}, and not at a multiple of {alignment}");
        self.cut(found, at, pages);
        Some(run(at, pages))
    }

    /// Takes at most `pages` pages within a window, those nearest to its start, or to its end when `from_end`. Returns
    /// the taken runs, in that order; fewer pages when fewer are free there.
    #[must_use]
    pub fn take_scattered_within(&mut self, window: PageRun, pages: u64, from_end: bool) -> Vec<PageRun> {
        let (mut found, mut left) = (Vec::new(), pages);
        self.walk(window, from_end, |(number, free)| {
            let (low, high) = (free.first.max(window.first), free.end().min(window.end()));
            let taken = left.min(high - low);
            if taken > 0 {
                found.push((number, run(if from_end { high - taken } else { low }, taken)));
            }
            left -= taken;
            (left == 0).then_some(())
        });
        for &(number, taken) in &found {
            self.cut(number, taken.first, taken.count.0);
        }
        found.into_iter().map(|(_, taken)| taken).collect()
    }

    /// The free run in which a page lies that begins before it.
    pub(super) fn run_before(&mut self, page: u64) -> Option<u32> {
        let order = self.books.get_or_insert_default().order.get(&self.bins, &self.boundaries);
        order.range(..page).next_back().map(|(_, found)| *found).filter(|found| self.bins.get(*found).end() > page)
    }

    /// Asks `choose` about the free runs that have a page in the window, by address or backwards, until it answers.
    fn walk<T>(
        &mut self,
        window: PageRun,
        backwards: bool,
        mut choose: impl FnMut((u32, FreeRun)) -> Option<T>,
    ) -> Option<T> {
        if window.count.is_zero() {
            return None;
        }
        let bins = &self.bins;
        let order = self.books.get_or_insert_default().order.get(bins, &self.boundaries);
        let numbered = |(_, found): (&u64, &u32)| (*found, bins.get(*found));
        let reaching = |(_, free): &(u32, FreeRun)| free.end() > window.first;
        let before = order.range(..window.first).next_back().map(numbered).filter(reaching);
        let mut inside = order.range(window.first..window.end()).map(numbered);
        if backwards {
            inside.rev().find_map(&mut choose).or_else(|| choose(before?))
        } else {
            before.and_then(&mut choose).or_else(|| inside.find_map(choose))
        }
    }
}
