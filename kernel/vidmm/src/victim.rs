//! Taking content out of segments: of victims under pressure, of evicted, locked and destroyed allocations.
//!
//! Who is a victim, and in which order, says `rank`. A victim loses pages from its end, only as many as are needed. A
//! dirty page is copied out; a clean one is dropped, because its backing store still has the content, and so is one that
//! nobody ever wrote (memory §8.3). What is on a list may be being written, so it counts as dirty. Offered content goes
//! as a whole and uncopied (memory §5.9).
//!
//! | page is | backing store valid | action |
//! |---|---|---|
//! | dirty | either | copied out, then valid |
//! | clean | yes | dropped |
//! | clean | no (filled, never written) | dropped; the next commit fills again |

use wddm_types::{FencePoint, PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::allocation::Placement;
use crate::extent::PageSet;
use crate::paging::{Batch, Cause, Direction, Move, MoveKind, Operation, merge_points};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Takes pages from victims until `pages` are free in `segment`. The caller knows that they suffice.
    pub(crate) fn make_room(
        &mut self,
        segment: SegmentId,
        pages: u64,
        for_allocation: AllocationId,
        batch: &mut Batch<F>,
    ) {
        while self.segment(segment).pool.free_pages() < pages {
            let shortage = pages - self.segment(segment).pool.free_pages();
            let (_, victim) = self.segment(segment).victims.first().expect("the victims suffice");
            let allocation = &self.allocations[victim];
            let resident = allocation.resident_pages();
            let whole = allocation.all_or_nothing() || allocation.offer.is_some();
            let taken = if whole { resident } else { shortage.min(resident) };
            self.take_end(victim, taken, Cause::Pressure { for_allocation }, batch);
        }
    }

    /// Takes an allocation out of wherever it is.
    pub(crate) fn withdraw(&mut self, id: AllocationId, cause: Cause, batch: &mut Batch<F>) {
        match &self.allocations[id].placement {
            Placement::None => {}
            Placement::Memory(_, extents) => {
                let pages = extents.pages();
                self.take_end(id, pages, cause, batch);
            }
            Placement::System(aperture) => {
                let aperture = *aperture;
                self.leave_system(id, aperture, batch);
            }
        }
    }

    /// Takes the last `pages` resident pages of an allocation out of its memory segment.
    pub(crate) fn take_end(&mut self, id: AllocationId, pages: u64, cause: Cause, batch: &mut Batch<F>) {
        let writer = self.writer();
        let allocation = &mut self.allocations[id];
        let Placement::Memory(segment, extents) = &mut allocation.placement else {
            unreachable!("only content of a memory segment has pages there")
        };
        let segment = *segment;
        let place = &mut self.segments[usize::from(segment.0) - 1];
        // What its owner has destroyed leaves as if it were destroyed now, whoever needs the room.
        let cause = if allocation.doomed.is_some() { Cause::Destroy } else { cause };
        // spec: memory §5.9, what is offered is thrown away
        let offer = allocation.offer.as_mut().filter(|_| matches!(cause, Cause::Pressure { .. }));
        let lost = offer.is_some();
        if let Some(offer) = offer {
            offer.discarded = true;
        }
        let listed = allocation.count > 0;
        let taken = extents.take_end(pages);
        let empty = extents.pages() == 0;
        merge_points(&mut batch.after, &std::mem::take(&mut allocation.last_use));
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for extent in taken {
            // Nobody will read what is destroyed.
            let copied = (extent.dirty || listed) && cause != Cause::Destroy && !lost;
            if copied {
                let backing = allocation.backing_of(extent.page, extent.count);
                batch.out.push(Operation::Transfer {
                    allocation: allocation.info.allocation,
                    allocation_offset: extent.page * PAGE_BYTES,
                    size_bytes: extent.count * PAGE_BYTES,
                    segment,
                    address: place.descriptor.base_address + extent.frame * PAGE_BYTES,
                    backing,
                    direction: Direction::Out,
                });
                allocation.valid.insert(extent.page, extent.count);
            }
            batch.moved(Move {
                allocation: id,
                kmd_allocation: allocation.info.allocation,
                bytes: extent.count * PAGE_BYTES,
                kind: if copied { MoveKind::PageOut } else { MoveKind::Discard },
                cause,
                segment,
            });
            place.pool.give(PageRun { first: extent.frame, count: Pages(extent.count) });
            match ranges.last_mut() {
                Some((first, count)) if *first + *count == extent.page => *count += extent.count,
                _ => ranges.push((extent.page, extent.count)),
            }
        }
        allocation.last_work = batch.serial;
        if lost {
            allocation.valid = PageSet::default();
        }
        if empty {
            allocation.lazy_since = None;
            allocation.placement = Placement::None;
        }
        for (first, count) in ranges {
            writer.hide(&self.spaces, &self.allocations[id], first, count, batch);
        }
        if listed {
            self.note_loss(id);
        }
        self.pressure |= matches!(cause, Cause::Pressure { .. });
        self.rerank(id);
    }

    /// Takes content in system memory off the GPU: entries invalid, aperture pages unmapped, nothing copied
    /// (memory §1.6).
    fn leave_system(&mut self, id: AllocationId, aperture: Option<PageRun>, batch: &mut Batch<F>) {
        let dummy_page = self.dummy_page_address();
        let allocation = &mut self.allocations[id];
        merge_points(&mut batch.after, &std::mem::take(&mut allocation.last_use));
        allocation.placement = Placement::None;
        allocation.last_work = batch.serial;
        let (pages, kmd_allocation) = (allocation.pages, allocation.info.allocation);
        self.writer().hide(&self.spaces, &self.allocations[id], 0, pages, batch);
        if let Some(run) = aperture {
            let place =
                self.segments.iter_mut().find(|segment| segment.is_aperture()).expect("it lies behind an aperture");
            place.pool.give(run);
            batch.invalidations.push(Operation::UnmapAperture {
                allocation: Some(kmd_allocation),
                segment: place.id,
                offset_in_pages: run.first,
                number_of_pages: run.count.0,
                dummy_page,
            });
        }
    }

    /// Lowers the sum of an allocation's counts because one device's count of it is gone; at 0 its content in a memory
    /// segment becomes a victim. Written until `last_use`.
    pub(crate) fn release(&mut self, id: AllocationId, count: u64, last_use: &[FencePoint<F>]) {
        let allocation = &mut self.allocations[id];
        allocation.count -= count;
        merge_points(&mut allocation.last_use, last_use);
        if let Placement::Memory(_, extents) = &mut allocation.placement {
            extents.make_dirty();
        }
        if allocation.count == 0 {
            self.become_victim(id);
        } else {
            self.rerank(id);
        }
    }

    /// Puts content without a count at the end of the victims' order.
    pub(crate) fn become_victim(&mut self, id: AllocationId) {
        self.tick += 1;
        let allocation = &mut self.allocations[id];
        assert!(allocation.count == 0 && allocation.lazy_since.is_none(), "it has just left the last list");
        if matches!(allocation.placement, Placement::Memory(..)) {
            allocation.lazy_since = Some(self.tick);
        }
        self.rerank(id);
    }
}
