//! Work for an idle copy engine: what will have to be done under pressure, done ahead (policy). Called by the kernel
//! when the paging ring is empty.
//!
//! Writing back ahead: lazily evicted content that may be newer than its backing store is copied out and stays in
//! place, clean; its eviction is then a discard. It moves bytes that might never have had to move, so it is off by
//! default.
//!
//! Clearing ahead: free pages are filled with the clear pattern, so that a first commit into them needs no FILL. It moves
//! no content. A bounded number of pages is kept so, because what is cleared may be taken by content that is copied in.

use wddm_types::{FencePoint, PAGE_BYTES, PageRun, Pages};

use crate::allocation::Placement;
use crate::extent::{Extent, Extents};
use crate::operation::Form;
use crate::paging::{Batch, Cause, Direction, MoveKind, MoveStep, Operation, UsedContent, Work};
use crate::rank::TIERS;
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

/// How many victims of a segment are looked at: what goes later can wait.
const SCAN_MAX: usize = 4096;

impl<F: Copy + Eq> VidMm<F> {
    /// Up to `max_pages` pages of work that can be done ahead; `None`: there is none. `is_over` says of a last use whether it is: the ring waits
    /// for none.
    pub fn idle_work(&mut self, max_pages: u64, is_over: &dyn Fn(&FencePoint<F>) -> bool) -> Option<Work<F>> {
        if self.policy.clear_ahead.is_zero() && !self.policy.write_back_ahead {
            return None;
        }
        let mut batch = self.works.begin();
        if !self.policy.clear_ahead.is_zero() {
            self.clear_ahead(max_pages, &mut batch);
        }
        if self.policy.write_back_ahead {
            self.write_back_ahead(max_pages, is_over, &mut batch);
        }
        self.finish(batch, false)
    }

    /// Clears free pages, until as many are clear in each segment as the policy wants.
    fn clear_ahead(&mut self, max_pages: u64, batch: &mut Batch<F>) {
        let (wanted, pattern) = (self.policy.clear_ahead.0, self.policy.clear_pattern);
        let mut left = max_pages;
        let memory = self.segments.ids().filter(|id| !self.segments[*id].is_aperture());
        for id in memory.collect::<Vec<_>>() {
            let place = &mut self.segments[id];
            while let Some(run) = place.clear_next(left, wanted) {
                batch.content.push(Operation::Fill {
                    allocation: None,
                    allocation_offset: 0,
                    size_bytes: run.count.bytes(),
                    pattern,
                    segment: place.id,
                    address: place.descriptor.base_address + run.first * PAGE_BYTES,
                });
                left -= run.count.0;
            }
        }
    }

    /// Copies out what will be evicted first, whole extents at a time.
    fn write_back_ahead(&mut self, max_pages: u64, is_over: &dyn Fn(&FencePoint<F>) -> bool, batch: &mut Batch<F>) {
        let mut left = max_pages;
        let next: Vec<AllocationId> = self
            .segments
            .all()
            .iter()
            .flat_map(|segment| segment.victims().up_to(TIERS - 1).take(SCAN_MAX))
            .map(|(_, id)| id)
            .filter(|&id| self.worth_writing(id) && self.allocations[id].last_use.iter().all(is_over))
            .collect();
        for id in next {
            if left == 0 {
                return;
            }
            left = left.saturating_sub(self.write_back(id, left, batch));
        }
    }

    pub(crate) fn worth_writing(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        let lazy = allocation.count == 0 && allocation.doomed.is_none() && allocation.offer().is_none();
        // The CPU writes what is locked: writing it back would have to be done again.
        // The form of marked content is decided when it leaves.
        let lazy = lazy && allocation.locks.count == 0 && !self.is_marked(id);
        // Content that only the driver can read out leaves as a whole, not ahead of its eviction.
        lazy && matches!(&allocation.placement, Placement::Memory(segment, extents)
            if extents.iter().any(|e| e.dirty) && !self.segment(*segment).aligns_pitches())
    }

    /// Copies dirty pages of one allocation out, the first ones first; answers how many.
    fn write_back(&mut self, id: AllocationId, max_pages: u64, batch: &mut Batch<F>) -> u64 {
        // Contiguous content may be tiled, so that part of its bytes is no part of its pages: all of it is written back at once.
        let allocation = &self.allocations[id];
        let max_pages = if allocation.contiguous() { allocation.pages } else { max_pages };
        self.copy_back(id, batch, |extents| extents.clean_first(max_pages))
    }

    /// The same, the last ones first: those leave first.
    pub(crate) fn write_back_end(&mut self, id: AllocationId, max_pages: u64, batch: &mut Batch<F>) -> u64 {
        self.copy_back(id, batch, |extents| extents.clean_last(max_pages))
    }

    /// Copies out what is to be clean.
    fn copy_back(
        &mut self,
        id: AllocationId,
        batch: &mut Batch<F>,
        clean: impl FnOnce(&mut Extents) -> Vec<Extent>,
    ) -> u64 {
        let allocation = &mut self.allocations[id];
        let Placement::Memory(segment, extents) = &mut allocation.placement else {
            unreachable!("victims have pages in a memory segment")
        };
        let segment = *segment;
        let base = self.segments[segment].descriptor.base_address;
        let cleaned = clean(extents);
        let until = std::mem::take(&mut allocation.last_use);
        batch.takes_used(UsedContent::copied(id, until));
        allocation.last_work = batch.serial;
        let mut pages = 0;
        for extent in cleaned {
            batch.out.push(Operation::Transfer {
                allocation: allocation.named(),
                allocation_offset: extent.page * PAGE_BYTES,
                size_bytes: extent.count * PAGE_BYTES,
                segment,
                address: base + extent.frame * PAGE_BYTES,
                contiguous: allocation.contiguous(),
                backing: allocation.backing_of(extent.page, extent.count),
                through: None,
                direction: Direction::Out,
                form: Form::Kept,
            });
            allocation.valid.insert(extent.page, extent.count);
            batch.moved(MoveStep {
                allocation: id,
                kmd_allocation: allocation.info.allocation,
                kind: MoveKind::PageOut,
                cause: Cause::Ahead,
                segment,
                run: PageRun { first: extent.frame, count: Pages(extent.count) },
            });
            pages += extent.count;
        }
        if self.foreseen.is_on() {
            allocation.told.paged_out += pages;
        }
        self.tell(id);
        pages
    }
}
