//! What the addresses of a space show, and the tables under them, as `mapping`, `reserve` and `update` change it.

use wddm_types::PageRun;

use super::{AddressSpaces, Mapping, Origin, SpaceKind, Vacated};
use crate::page_table::{LeafEntry, NewRoot, OutOfTables, is_coarse_run};
use crate::paging::{Batch, Hull, Operation, Section};
use crate::slab::SpaceId;

impl AddressSpaces {
    /// Takes free addresses.
    pub fn take(&mut self, space: SpaceId, run: PageRun, origin: Origin) {
        self.spaces[space].take(run, origin);
    }

    /// Frees taken addresses, which show nothing any more.
    pub fn give(&mut self, space: SpaceId, run: PageRun) {
        self.spaces[space].give(run);
    }

    /// Frees those among them that the driver has not reserved.
    pub fn give_all_but_the_drivers(&mut self, space: SpaceId, run: PageRun) {
        self.spaces[space].give_all_but_the_drivers(run);
    }

    /// Lets addresses show something that show nothing. Their tables are there.
    pub fn let_show(&mut self, space: SpaceId, first: u64, mapping: Mapping) {
        self.spaces[space].show(first, mapping);
    }

    /// Lets addresses show nothing. The pieces that they showed go to [`AddressSpaces::conceal`].
    pub fn vacate(&mut self, space: SpaceId, run: PageRun) -> Vec<Vacated> {
        self.spaces[space].vacate(run)
    }

    /// Makes the entries of vacated pieces invalid, where they were valid, and frees the tables that nothing needs any more.
    pub fn conceal<F: Copy + Eq>(
        &mut self,
        space: SpaceId,
        run: PageRun,
        vacated: &[Vacated],
        (valid, native_fence): (Vec<(u64, u64)>, bool),
        batch: &mut Batch<F>,
    ) {
        let inside = |piece: &Vacated| run.first <= piece.first && piece.first + piece.pages <= run.end();
        debug_assert!(vacated.iter().all(inside), "{run:?} of {space:?} is concealed, and {vacated:?} was vacated");
        let entry = &mut self.spaces[space];
        let before = batch.invalidations.len();
        let invalid = LeafEntry { native_fence, ..LeafEntry::INVALID };
        for (first, count) in merged(valid) {
            entry.table.write(space, first, count, invalid, batch, Section::Invalid);
        }
        let root = entry.table.root();
        let frames = self.frames.of(entry.kind);
        for (first, count) in merged(vacated.iter().map(|piece| (piece.first, piece.pages)).collect()) {
            batch.invalidations.extend(entry.table.uncover(space, first, count, frames));
        }
        if batch.invalidations.len() > before {
            Hull::note(&mut batch.stale, space, Hull::of(root, run.first, run.count.0));
        }
    }

    /// Makes the tables under addresses, which count as needed once more. `coarse`: new leaf tables have 64-KB entries, by the work of
    /// this number.
    pub fn cover(&mut self, space: SpaceId, run: PageRun, coarse: Option<u64>) -> Result<Vec<Operation>, OutOfTables> {
        debug_assert!(!run.count.is_zero(), "no page of {space:?} is covered");
        let entry = &mut self.spaces[space];
        entry.table.cover(space, run.first, run.count.0, coarse, self.frames.of(entry.kind))
    }

    /// Addresses need their tables once less; the hardware may remember where tables were that go.
    pub fn uncover<F: Copy + Eq>(&mut self, space: SpaceId, run: PageRun, batch: &mut Batch<F>) {
        let entry = &mut self.spaces[space];
        let freed = entry.table.uncover(space, run.first, run.count.0, self.frames.of(entry.kind));
        if !freed.is_empty() {
            Hull::note(&mut batch.stale, space, Hull::of(entry.table.root(), run.first, run.count.0));
        }
        batch.invalidations.extend(freed);
    }

    /// Copies entries from the tables of the addresses that `source` begins, if they can be copied: at most so many pages of table are seen.
    pub fn copy<F: Copy + Eq>(&mut self, space: SpaceId, source: u64, run: PageRun, batch: &mut Batch<F>) -> bool {
        let most = self.scratch.window().0;
        let entry = &mut self.spaces[space];
        let copied = entry.table.copy(source, run, most, space, &mut batch.entries);
        if copied {
            Hull::note(&mut batch.fresh, space, Hull::of(entry.table.root(), run.first, run.count.0));
        }
        copied
    }

    /// The space has this root from the work on.
    pub fn set_root<F: Copy + Eq>(&mut self, space: SpaceId, root: Option<NewRoot>, batch: &mut Batch<F>) {
        let entry = &mut self.spaces[space];
        if let Some(root) = root {
            entry.table.replace_root(space, root, self.frames.of(entry.kind), batch);
        }
    }

    /// Makes the root of a process shorter, if a quarter of it would do.
    pub fn shorten_root<F: Copy + Eq>(&mut self, space: SpaceId, batch: &mut Batch<F>) {
        let entry = &mut self.spaces[space];
        entry.table.shorten(space, self.frames.of(entry.kind), batch);
    }

    /// Whether a space would need a page of zeros to show zeros, and has none.
    // spec: memory §4.10
    pub fn lacks_zero_page(&self, space: SpaceId) -> bool {
        self.writer.needs_zero_page() && self.spaces[space].zero_page.is_none()
    }

    /// Gives a space its page of zeros.
    pub fn give_zero_page(&mut self, space: SpaceId, page: PageRun) {
        let before = self.spaces[space].zero_page.replace(page);
        assert!(before.is_none(), "a space has one page of zeros");
    }

    /// Takes a page of zeros back that was made for nothing.
    pub fn take_zero_page(&mut self, space: SpaceId) -> Option<PageRun> {
        self.spaces[space].zero_page.take()
    }

    /// Whether leaf tables that are made for zeros have 64-KB entries.
    pub fn zeros_begin_coarse(&self, space: SpaceId, run: PageRun) -> bool {
        self.may_begin_coarse(space, run) && !self.writer.needs_zero_page()
    }

    /// Whether leaf tables that are made for these addresses of a process may have 64-KB entries.
    // spec: memory §4.5
    pub fn may_begin_coarse(&self, space: SpaceId, run: PageRun) -> bool {
        self.spaces[space].kind == SpaceKind::Process && is_coarse_run(run.first, run.count.0)
    }

    /// Whether there is room for tables of 64-KB entries beside those of 4-KB ones, for the runs that want them. Without it
    /// tables begin with the second.
    pub fn room_for_coarse(&self, space: SpaceId, runs: &[PageRun], coarse: &[bool]) -> bool {
        if !coarse.contains(&true) {
            return false;
        }
        let entry = &self.spaces[space];
        let frames = self.frames.peek(entry.kind);
        let sizes = entry.table.lacking_coarse(&pairs(runs), coarse, frames.leaf_free_pages());
        sizes.is_some_and(|sizes| frames.hold([], &sizes))
    }
}

/// Runs as first pages and counts.
pub(super) fn pairs(runs: &[PageRun]) -> Vec<(u64, u64)> {
    runs.iter().map(|run| (run.first, run.count.0)).collect()
}

/// Neighbouring ranges as one.
fn merged(ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (first, count) in ranges {
        match merged.last_mut() {
            Some((before, pages)) if *before + *pages == first => *pages += count,
            _ => merged.push((first, count)),
        }
    }
    merged
}
