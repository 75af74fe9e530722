//! The residence that the reported moves add up to, page by page: after every call it is the actual one.

use std::collections::BTreeSet;

use wddm_types::{PageRun, SegmentId};

use super::Model;
use crate::{AllocationId, Cause, Move, MoveKind};

/// Replayed moves.
#[derive(Default)]
pub struct ReplayedMoves {
    resident: BTreeSet<(SegmentId, u64, AllocationId)>,
}

impl ReplayedMoves {
    fn hear(&mut self, moved: &Move) {
        if matches!(moved.cause, Cause::Ahead | Cause::SystemCopy) {
            // It was copied, and stays.
            return;
        }
        match moved.kind {
            MoveKind::PageIn | MoveKind::Fill | MoveKind::Map => {
                moved.runs.iter().for_each(|run| self.come(moved, *run))
            }
            MoveKind::PageOut | MoveKind::Discard | MoveKind::Unmap => {
                moved.runs.iter().for_each(|run| self.go(moved, *run));
            }
            MoveKind::Relocate => {
                for pair in moved.runs.chunks_exact(2) {
                    self.go(moved, pair[0]);
                    self.come(moved, pair[1]);
                }
            }
        }
    }

    fn come(&mut self, moved: &Move, run: PageRun) {
        for page in run.first..run.end() {
            let new = self.resident.insert((moved.segment, page, moved.allocation));
            assert!(new, "{moved:?}: page {page} comes and is there");
        }
    }

    fn go(&mut self, moved: &Move, run: PageRun) {
        for page in run.first..run.end() {
            let there = self.resident.remove(&(moved.segment, page, moved.allocation));
            assert!(there, "{moved:?}: page {page} goes and is not there");
        }
    }
}

impl Model {
    /// A work is queued: what was decided before it has moved before it.
    pub fn hear(&mut self, serial: u64, moves: &[Move]) {
        for moved in self.mm.take_untold(serial).iter().chain(moves) {
            self.replayed.hear(moved);
        }
    }

    // spec: memory §8.5
    pub fn check_told(&mut self) {
        self.hear(u64::MAX, &[]);
        let mut resident = BTreeSet::new();
        for known in self.mm.residences() {
            let pages = known.runs.iter().flat_map(|run| run.first..run.end());
            resident.extend(pages.map(|page| (known.segment, page, known.allocation)));
        }
        assert_eq!(self.replayed.resident, resident, "what was told is what is");
    }
}
