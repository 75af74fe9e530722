//! The frames of one segment as whatever places content takes and gives them, and the order in which content loses them.

use std::fmt::Debug;

use wddm_types::{PageRun, Pages};

use super::{Segment, Wish};
use crate::extent::Extent;
use crate::pool::FramePool;
use crate::rank::Victims;

impl Segment {
    /// All frames that content can have.
    pub(crate) fn capacity_pages(&self) -> u64 {
        self.pool.capacity_pages()
    }

    /// Free frames.
    pub(crate) fn free_pages(&self) -> u64 {
        self.pool.free_pages()
    }

    /// Frames that something has.
    pub(crate) fn used_pages(&self) -> u64 {
        self.pool.capacity_pages() - self.pool.free_pages()
    }

    /// A copy of the frames as they are, on which a plan is tried.
    pub(crate) fn trial(&self) -> FramePool {
        self.pool.clone()
    }

    /// The frames without any allocation, on which a plan for a device alone is tried.
    pub(crate) fn emptied_trial(&self) -> FramePool {
        let mut pool = self.pool.emptied();
        self.kernels.iter().for_each(|run| pool.take_exact(*run));
        pool
    }

    /// Frames that allocations can have: all but the kernel's.
    pub(crate) fn pages_without_kernels(&self) -> u64 {
        self.capacity_pages() - self.kernels_pages()
    }

    /// Frames in which the kernel shows pages of its own.
    pub(crate) fn kernels_pages(&self) -> u64 {
        self.kernels.iter().map(|run| run.count.0).sum()
    }

    /// The kernel shows pages of its own in a run that it has taken.
    pub(crate) fn note_kernels(&mut self, run: PageRun) {
        self.kernels.push(run);
    }

    /// The kernel shows its own pages here no more.
    pub(crate) fn give_kernels(&mut self, run: PageRun) {
        let at = self.kernels.iter().position(|known| *known == run).expect("a run that the kernel has taken whole");
        self.kernels.swap_remove(at);
        self.pool.give(run);
    }

    /// The order in which content here loses its place.
    pub(crate) fn victims(&self) -> &Victims {
        &self.victims
    }

    /// Takes one run.
    pub(crate) fn take_run(&mut self, pages: u64, alignment: u64) -> Option<PageRun> {
        self.pool.take_contiguous(pages, alignment, false)
    }

    /// Takes one run, the last that is free.
    pub(crate) fn take_last_run(&mut self, pages: u64) -> Option<PageRun> {
        self.pool.take_contiguous(pages, 1, true)
    }

    /// Takes the frames that were planned, which are free.
    pub(crate) fn take_exact(&mut self, run: PageRun) {
        self.pool.take_exact(run);
    }

    /// Takes frames as an allocation would like them: in one piece, or wherever they are.
    pub(crate) fn take_as_wished(&mut self, wish: &Wish, pages: u64, contiguous: bool) -> Option<Vec<PageRun>> {
        match contiguous {
            true => wish.take_contiguous(&mut self.pool, pages).map(|run| vec![run]),
            false => wish.take_scattered(&mut self.pool, pages),
        }
    }

    /// Gives frames back.
    pub(crate) fn give(&mut self, run: PageRun) {
        self.pool.give(run);
    }

    /// Content has got frames: those that were cleared ahead are not free any more.
    pub(crate) fn note_taken(&mut self, extent: &Extent) {
        if self.cleared_ahead > 0 {
            let parts = self.pool.cleared_parts(PageRun { first: extent.frame, count: Pages(extent.count) });
            let cleared: u64 = parts.iter().filter(|(_, cleared)| *cleared).map(|(run, _)| run.count.0).sum();
            self.cleared_ahead = self.cleared_ahead.saturating_sub(cleared);
        }
    }

    /// The parts of frames that do not hold the clear pattern.
    pub(crate) fn uncleared_parts(&self, frames: PageRun) -> impl Iterator<Item = PageRun> + use<> {
        self.pool.cleared_parts(frames).into_iter().filter(|(_, cleared)| !cleared).map(|(run, _)| run)
    }

    /// The next free frames to be cleared ahead, at most so many, until `wanted` are; from now on they count as cleared.
    pub(crate) fn clear_next(&mut self, pages_max: u64, wanted: u64) -> Option<PageRun> {
        let lacking = wanted.saturating_sub(self.cleared_ahead).min(pages_max);
        if lacking == 0 {
            return None;
        }
        let run = self.pool.uncleared(lacking)?;
        debug_assert!(!run.count.is_zero() && run.count.0 <= lacking, "{run:?} is cleared where {lacking} pages lack");
        self.pool.mark_cleared(run);
        self.cleared_ahead += run.count.0;
        let (cleared, free) = (self.cleared_ahead, self.free_pages());
        debug_assert!(cleared <= free, "{cleared} free pages are cleared, of {free}");
        Some(run)
    }

    /// The segment's bytes are lost, those of free pages too: none of them counts as cleared.
    pub(super) fn forget_cleared(&mut self) {
        self.pool.forget_cleared();
        self.cleared_ahead = 0;
    }

    /// Finds a fault in the frames, given those that content has, and in the order, given as it should be.
    pub(crate) fn check(&self, owned: &[PageRun]) -> Result<(), String> {
        let held: u64 = owned.iter().map(|run| run.count.0).sum();
        // Paging and DMA buffers are shown through apertures, and belong to the kernel.
        let elsewhere = if self.is_aperture() { self.used_pages().saturating_sub(held) } else { 0 };
        let (cleared, free) = (self.cleared_ahead, self.free_pages());
        if cleared > free {
            return Err(format!("{cleared} free pages are cleared ahead, of {free}"));
        }
        self.pool.check(owned, elsewhere)
    }

    /// The state that a refused call must leave as it was.
    pub(crate) fn state(&self) -> impl Debug + '_ {
        (self.pool.free_runs(), &self.victims)
    }

    /// Forgets the order, for those who test the check.
    #[cfg(test)]
    pub(crate) fn forget_victims(&mut self) {
        self.victims = Victims::default();
    }
}
