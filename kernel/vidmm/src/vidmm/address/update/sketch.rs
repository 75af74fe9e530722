//! The mappings that the operations of an update leave, drawn before anything is written: later ones over earlier ones. Used by `update`
//! only.

use std::collections::BTreeMap;

use wddm_types::{PageRun, Pages};

use crate::space::{Protection, Shown, Space};

/// The mapping that addresses shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    /// `None`: nothing.
    pub wanted: Option<(Shown, Protection)>,
    /// The page that the first one is a copy of, as it stands in the space.
    pub copied_from: Option<u64>,
}

impl Drawn {
    /// A mapping that is no copy.
    pub fn new(wanted: Option<(Shown, Protection)>) -> Drawn {
        Drawn { wanted, copied_from: None }
    }

    /// The mapping `pages` further on.
    pub fn advanced(self, pages: u64) -> Drawn {
        Drawn {
            wanted: self.wanted.map(|(shown, protection)| (shown.advanced(pages), protection)),
            copied_from: self.copied_from.map(|page| page + pages),
        }
    }
}

/// The mappings that addresses shall have, as far as they were drawn.
#[derive(Default)]
pub(super) struct Sketch(BTreeMap<u64, (u64, Drawn)>);

impl Sketch {
    pub fn set(&mut self, run: PageRun, drawn: Drawn) {
        debug_assert!(!run.count.is_zero(), "nothing is drawn from page {:#x} on", run.first);
        let from = self.0.range(..=run.first).next_back().map_or(run.first, |(&first, _)| first);
        let hit: Vec<_> = self.0.range(from..run.end()).map(|(&first, &(pages, old))| (first, pages, old)).collect();
        for (first, pages, old) in hit.into_iter().filter(|(first, pages, _)| first + pages > run.first) {
            self.0.remove(&first);
            if first < run.first {
                self.0.insert(first, (run.first - first, old));
            }
            if first + pages > run.end() {
                self.0.insert(run.end(), (first + pages - run.end(), old.advanced(run.end() - first)));
            }
        }
        self.0.insert(run.first, (run.count.0, drawn));
    }

    /// Whether something was drawn in a range.
    pub fn touches(&self, run: PageRun) -> bool {
        self.0.range(..run.end()).next_back().is_some_and(|(&first, &(pages, _))| first + pages > run.first)
    }

    /// The mappings of a range: the sketch where it was drawn, the space elsewhere.
    pub fn read(&self, space: &Space, run: PageRun) -> Vec<(PageRun, Drawn)> {
        let mut below = Sketch::default();
        below.set(run, Drawn::new(None));
        for (first, piece) in space.pieces(run) {
            let wanted = Some((piece.shown, piece.protection));
            let drawn = Drawn { wanted, copied_from: Some(first) };
            below.set(PageRun { first, count: Pages(piece.pages) }, drawn);
        }
        for (&first, &(pages, drawn)) in self.0.range(..run.end()) {
            let (low, high) = (first.max(run.first), (first + pages).min(run.end()));
            if low < high {
                below.set(PageRun { first: low, count: Pages(high - low) }, drawn.advanced(low - first));
            }
        }
        below.runs()
    }

    /// All runs, neighbours that go on in one another as one.
    pub fn runs(&self) -> Vec<(PageRun, Drawn)> {
        let mut runs: Vec<(PageRun, Drawn)> = Vec::with_capacity(self.0.len());
        for (&first, &(pages, drawn)) in &self.0 {
            match runs.last_mut() {
                Some((run, before)) if run.end() == first && before.advanced(run.count.0) == drawn => {
                    run.count += Pages(pages);
                }
                _ => runs.push((PageRun { first, count: Pages(pages) }, drawn)),
            }
        }
        runs
    }
}
