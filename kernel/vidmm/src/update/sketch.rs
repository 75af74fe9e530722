//! What the operations of an update make of the addresses, drawn before anything is written: later ones over earlier ones.
//! Used by `update` only.

use std::collections::BTreeMap;

use wddm_types::{PageRun, Pages};

use crate::space::{Protection, Shown, Space};

/// What addresses shall show; `None`: nothing.
pub(super) type Wanted = Option<(Shown, Protection)>;

/// What addresses shall show, as far as it was drawn.
#[derive(Default)]
pub(super) struct Sketch(BTreeMap<u64, (u64, Wanted)>);

impl Sketch {
    pub fn set(&mut self, run: PageRun, wanted: Wanted) {
        let from = self.0.range(..=run.first).next_back().map_or(run.first, |(&first, _)| first);
        let hit: Vec<_> = self.0.range(from..run.end()).map(|(&first, &(pages, old))| (first, pages, old)).collect();
        for (first, pages, old) in hit.into_iter().filter(|(first, pages, _)| first + pages > run.first) {
            self.0.remove(&first);
            if first < run.first {
                self.0.insert(first, (run.first - first, old));
            }
            if first + pages > run.end() {
                self.0.insert(run.end(), (first + pages - run.end(), advanced(old, run.end() - first)));
            }
        }
        self.0.insert(run.first, (run.count.0, wanted));
    }

    /// What a range shows: the sketch where it was drawn, the space elsewhere.
    pub fn read(&self, space: &Space, run: PageRun) -> Vec<(PageRun, Wanted)> {
        let mut below = Sketch::default();
        below.set(run, None);
        for (first, piece) in space.pieces(run) {
            let wanted = Some((piece.shown, piece.protection));
            below.set(PageRun { first, count: Pages(piece.pages) }, wanted);
        }
        for (&first, &(pages, wanted)) in self.0.range(..run.end()) {
            let (low, high) = (first.max(run.first), (first + pages).min(run.end()));
            if low < high {
                below.set(PageRun { first: low, count: Pages(high - low) }, advanced(wanted, low - first));
            }
        }
        below.runs()
    }

    /// All runs, neighbours that go on in one another as one.
    pub fn runs(&self) -> Vec<(PageRun, Wanted)> {
        let mut runs: Vec<(PageRun, Wanted)> = Vec::with_capacity(self.0.len());
        for (&first, &(pages, wanted)) in &self.0 {
            match runs.last_mut() {
                Some((run, before)) if run.end() == first && advanced(*before, run.count.0) == wanted => {
                    run.count += Pages(pages);
                }
                _ => runs.push((PageRun { first, count: Pages(pages) }, wanted)),
            }
        }
        runs
    }
}

fn advanced(wanted: Wanted, pages: u64) -> Wanted {
    wanted.map(|(shown, protection)| (shown.advanced(pages), protection))
}
