//! Free runs by address, for requests that care where their pages lie. It is brought up to date when it is asked: until
//! then only the pages where something began or ceased to begin are noted; and when these grow too many, the order is
//! dropped and sorted anew at the next question. So a pool that is never asked pays next to nothing. Called by the
//! pool.

use std::collections::BTreeMap;

use super::bins::{Bins, NONE};
use super::boundaries::Boundaries;

/// Notes that are kept at least before the order is dropped.
const NOTES_MIN: usize = 64;

/// First pages to runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    known: Option<BTreeMap<u64, u32>>,
    notes: Vec<u64>,
}

impl Order {
    /// Runs began at these pages, or do no more.
    pub fn note(&mut self, pages: &[u64], runs: usize) {
        if self.known.is_none() {
            return;
        }
        self.notes.extend(pages);
        if self.notes.len() > NOTES_MIN + runs / 2 {
            self.known = None;
            self.notes.clear();
        }
    }

    /// The runs by address.
    pub fn get(&mut self, bins: &Bins, boundaries: &Boundaries) -> &BTreeMap<u64, u32> {
        let known = self.known.get_or_insert_with(|| bins.iter().map(|(run, free)| (free.first, run)).collect());
        for page in self.notes.drain(..) {
            let run = boundaries.get(page);
            if run != NONE && bins.get(run).first == page {
                known.insert(page, run);
            } else {
                known.remove(&page);
            }
        }
        debug_assert_eq!(known.len(), bins.len(), "every free run is in the order once");
        known
    }
}
