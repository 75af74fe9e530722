//! Which free pages already hold the clear pattern. A page cleared while the copy engine is idle needs no fill when it is handed out. The
//! pool keeps no record until the first page is marked, so an adapter without clearing ahead pays nothing. Called by the pool.

use std::collections::BTreeMap;

use wddm_types::{PageRun, Pages};

/// Pages as disjoint, non-touching ranges: first page to the page behind the last.
#[derive(Clone, Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

/// The record of cleared pages, from the first marked one on.
#[derive(Clone, Debug, Default)]
pub(super) struct Cleared {
    /// Free pages that are to be cleared.
    waiting: Ranges,
    /// Pages that were cleared and not given back since: free ones, and those of owners that took them cleared.
    cleared: Ranges,
}

impl Cleared {
    /// Nothing is cleared of these free runs.
    pub fn new(free: impl Iterator<Item = PageRun>) -> Self {
        let mut new = Cleared::default();
        free.for_each(|run| new.waiting.insert(run));
        new
    }

    /// An owner takes pages.
    pub fn taken(&mut self, run: PageRun) {
        self.waiting.remove(run);
    }

    /// An owner gives pages back, written.
    pub fn given(&mut self, run: PageRun) {
        self.cleared.remove(run);
        self.waiting.insert(run);
    }

    /// Free pages hold the pattern now.
    pub fn mark(&mut self, run: PageRun) {
        self.waiting.remove(run);
        self.cleared.insert(run);
    }

    /// The first pages that are to be cleared, at most so many.
    pub fn waiting(&self, max_pages: u64) -> Option<PageRun> {
        let (&first, &end) = self.waiting.0.first_key_value()?;
        Some(PageRun { first, count: Pages((end - first).min(max_pages)) })
    }

    /// How many pages of a run hold the pattern.
    pub fn count(&self, run: PageRun) -> u64 {
        self.parts(run).into_iter().filter(|part| part.1).map(|part| part.0.count.0).sum()
    }

    /// A run in parts that hold the pattern or do not.
    pub fn parts(&self, run: PageRun) -> Vec<(PageRun, bool)> {
        let mut parts = Vec::new();
        let mut next = run.first;
        let mut push = |from: u64, to: u64, cleared: bool| {
            if from < to {
                parts.push((PageRun { first: from, count: Pages(to - from) }, cleared));
            }
        };
        let before = self.cleared.0.range(..run.first).next_back();
        for (&first, &end) in before.into_iter().chain(self.cleared.0.range(run.first..run.end())) {
            if end > next {
                push(next, first.max(next), false);
                push(first.max(next), end.min(run.end()), true);
                next = end.min(run.end());
            }
        }
        push(next, run.end(), false);
        debug_assert_eq!(parts.iter().map(|part| part.0.count.0).sum::<u64>(), run.count.0, "the parts are the whole");
        parts
    }
}

impl Ranges {
    fn insert(&mut self, run: PageRun) {
        let (mut first, mut end) = (run.first, run.end());
        while let Some((&from, &to)) = self.0.range(..=end).next_back().filter(|(_, to)| **to >= first) {
            self.0.remove(&from);
            (first, end) = (first.min(from), end.max(to));
        }
        debug_assert!(first < end, "no page from page {first} to {end}");
        let before = self.0.range(..first).next_back();
        debug_assert!(before.is_none_or(|(_, to)| *to < first), "{before:?} touches page {first}");
        self.0.insert(first, end);
    }

    fn remove(&mut self, run: PageRun) {
        while let Some((&from, &to)) = self.0.range(..run.end()).next_back().filter(|(_, to)| **to > run.first) {
            self.0.remove(&from);
            if to > run.end() {
                self.0.insert(run.end(), to);
            }
            if from < run.first {
                self.0.insert(from, run.first);
            }
        }
    }
}
