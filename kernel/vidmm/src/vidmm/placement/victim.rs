//! Taking content out of segments: of victims under pressure, of evicted, locked and destroyed allocations.
//!
//! `rank` decides which allocations are victims, and in which order. A victim loses pages from its end, only as many as are needed. A
//! dirty page is copied out; a clean one is dropped, because its backing store still has the content, and so is one that
//! was never written (memory §8.3). Work may be writing content on a list, so that counts as dirty. Offered content goes
//! as a whole and uncopied (memory §5.9).
//!
//! | page is | backing store valid | action |
//! |---|---|---|
//! | dirty | either | copied out, then valid |
//! | clean | yes | dropped |
//! | clean | no (filled, never written) | dropped; the next commit fills again |

use ddi::{AllocationFlags, AllocationFlags2, AllocationInfo, SegmentFlags};
use wddm_types::{FencePoint, PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::allocation::{Allocation, Placement};
use crate::extent::Extent;
use crate::operation::Form;
use crate::paging::{
    Batch, Cause, Direction, DiscardedContent, MoveKind, MoveStep, Operation, UsedContent, merge_points,
};
use crate::rank::lazy_tier;
use crate::segment::{Segment, Segments};
use crate::slab::{AllocationId, DeviceId};
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
        while self.segment(segment).free_pages() < pages {
            let shortage = pages - self.segment(segment).free_pages();
            let first = self.segment(segment).victims().first().expect("the victims suffice");
            let (victim, most) = self.foreseen_victim(segment, first, shortage);
            let resident = self.allocations[victim].resident_pages();
            let taken = if self.goes_whole(victim) { resident } else { most.min(resident) };
            debug_assert!(taken > 0, "{victim:?} is a victim without a page, and {shortage} are short");
            self.take_end(victim, taken, Cause::Pressure { for_allocation }, batch);
        }
    }

    /// Whether a victim loses all of its pages or none.
    pub(crate) fn goes_whole(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        allocation.all_or_nothing()
            || allocation.offer().is_some()
            || self.is_windowed(id)
            || allocation.stores_fences()
            || self.shows_copy(id)
    }

    /// Takes all unneeded content out of memory segments, as far as a device may by its protection: content placed then finds its room in
    /// one piece.
    pub(crate) fn clear_victims(&mut self, device: DeviceId, for_allocation: AllocationId, batch: &mut Batch<F>) {
        let tier = lazy_tier(self.band_of(device));
        let of = |segment: &Segment| segment.victims().up_to(tier).map(|(_, id)| id).collect::<Vec<_>>();
        let victims: Vec<AllocationId> = self.segments.all().iter().flat_map(of).collect();
        for id in victims {
            self.withdraw(id, Cause::Pressure { for_allocation }, batch);
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
                self.leave_system(id, aperture, cause, batch);
            }
        }
    }

    /// Takes an allocation out of wherever it is, for another place. Storage of fences goes by its backing store, where the paging process is
    /// shown it at once, and leaves that, too.
    // spec: sync §1.5
    pub(crate) fn vacate(&mut self, id: AllocationId, cause: Cause, batch: &mut Batch<F>) {
        self.withdraw(id, cause, batch);
        if self.allocations[id].stores_fences() {
            self.withdraw(id, cause, batch);
        }
        let placement = &self.allocations[id].placement;
        debug_assert!(matches!(placement, Placement::None), "{id:?} goes elsewhere, and lies in {placement:?}");
    }

    /// Takes the last `pages` resident pages of an allocation out of its memory segment.
    pub(crate) fn take_end(&mut self, id: AllocationId, pages: u64, cause: Cause, batch: &mut Batch<F>) {
        self.note_paging(id, batch.serial);
        let dummy_page = self.dummy_page_address();
        let through = if self.policy.paging_by_gpu_va { 0 } else { self.segments.commit_left_pages() };
        self.leave_window(id, batch);
        let shown = self.shows_copy(id);
        let form = self.form_out(id, cause == Cause::Lock);
        self.leave_ranges(id, batch);
        let allocation = &mut self.allocations[id];
        let goes = allocation.goes();
        // An allocation that its owner has destroyed leaves as if it were destroyed now, whatever the cause.
        let cause = if allocation.doomed.is_some() { Cause::Destroy } else { cause };
        // spec: memory §5.9, what is offered is thrown away
        let thrown_away = matches!(cause, Cause::Pressure { .. } | Cause::Power) && allocation.discard_offered();
        let Placement::Memory(segment, extents) = &mut allocation.placement else {
            unreachable!("only content of a memory segment has pages there")
        };
        let segment = *segment;
        let lost = thrown_away || cause == Cause::Reset;
        let gone = matches!(cause, Cause::Destroy | Cause::Reset);
        let listed = allocation.count > 0;
        debug_assert!(pages > 0, "no page of {id:?} leaves {segment:?}");
        let taken = extents.take_end(pages);
        let empty = extents.pages() == 0;
        batch.leaving.extend(goes);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let pitched = self.segments[segment].aligns_pitches();
        let until = std::mem::take(&mut allocation.last_use);
        // Its owner has destroyed or offered it, and queued work may read it. An earlier work that took other pages of it has taken the uses
        // along.
        let may_be_read = (allocation.doomed.is_some() || thrown_away)
            && (!until.is_empty() || allocation.last_work > self.works.completed());
        let dropped = taken.iter().filter(|extent| may_be_read && (extent.dirty || listed));
        let dropped = dropped.map(|extent| (segment, *extent)).collect();
        let discarded = allocation.offer().filter(|_| thrown_away && may_be_read).map(|offer| DiscardedContent {
            offered_at: offer.time,
            valid: allocation.valid.clone(),
            backing_linear: allocation.backing_linear,
        });
        batch.takes_used(UsedContent { allocation: id, until, dropped, discarded, ends_first: cause == Cause::Lock });
        for extent in taken {
            // spec: memory §2.6, the driver writes the backing store in its own layout, all of it
            let content = if pitched { Extent { page: 0, count: allocation.pages, ..extent } } else { extent };
            // Content of a destroyed allocation is never read again.
            let copied = (extent.dirty || listed) && !gone && !lost;
            let address = self.segments[segment].descriptor.base_address + extent.frame * PAGE_BYTES;
            if copied {
                let how = (form, dummy_page, through);
                copy_out(&mut self.segments, allocation, &content, (segment, address), how, batch);
                if shown {
                    batch.copied_locked.insert(id);
                }
                allocation.valid.insert(content.page, content.count);
                if self.foreseen.is_on() {
                    allocation.told.paged_out += extent.count;
                }
            } else if !gone
                && !self.policy.paging_by_gpu_va
                && let Some(allocation) = allocation.named()
            {
                // spec: memory §3.3, operation 2
                batch.out.push(Operation::Discard { allocation, segment, address });
            }
            batch.moved(MoveStep {
                allocation: id,
                kmd_allocation: allocation.info.allocation,
                kind: if copied { MoveKind::PageOut } else { MoveKind::Discard },
                cause,
                segment,
                run: PageRun { first: extent.frame, count: Pages(extent.count) },
            });
            self.segments[segment].give(PageRun { first: extent.frame, count: Pages(extent.count) });
            match ranges.last_mut() {
                Some((first, count)) if *first + *count == extent.page => *count += extent.count,
                _ => ranges.push((extent.page, extent.count)),
            }
        }
        allocation.last_work = batch.serial;
        if lost {
            allocation.lose_content();
        }
        if empty {
            allocation.lazy_since = None;
            allocation.placement = Placement::None;
            self.allocations.forget_aside(id);
        }
        for (first, count) in ranges {
            self.spaces.hide(&self.allocations[id], first, count, batch);
        }
        if lost {
            self.foresee_loss(id);
        }
        if listed && !matches!(cause, Cause::Promote | Cause::Property | Cause::Compaction { .. }) {
            self.note_loss(id);
        }
        if matches!(cause, Cause::Pressure { .. }) {
            self.pressure.feel();
        }
        self.rerank(id);
        self.demote_storage(id, cause, batch);
    }

    /// Takes content in system memory off the GPU: entries invalid, aperture pages unmapped, nothing copied
    /// (memory §1.6).
    fn leave_system(
        &mut self,
        id: AllocationId,
        aperture: Option<(SegmentId, PageRun)>,
        cause: Cause,
        batch: &mut Batch<F>,
    ) {
        let dummy_page = self.dummy_page_address();
        self.note_paging(id, batch.serial);
        self.leave_aperture_view(id, batch);
        let allocation = &mut self.allocations[id];
        let cause = if allocation.doomed.is_some() { Cause::Destroy } else { cause };
        allocation.moved_in_system(id, MoveKind::Unmap, aperture, cause, batch);
        let until = std::mem::take(&mut allocation.last_use);
        batch.takes_used(UsedContent { ends_first: cause == Cause::Lock, ..UsedContent::moved(id, until) });
        batch.leaving.extend(allocation.goes());
        // spec: memory §3.4, operation 22: only what leaves an aperture or system memory
        if let Some(named) = allocation.named()
            && allocation.info.flags2.contains(AllocationFlags2::NOTIFY_EVICTION)
        {
            batch.leaving.push(Operation::NotifyEviction {
                allocation: named,
                size_bytes: allocation.bytes(),
                backing: allocation.backing.clone(),
            });
        }
        (allocation.placement, allocation.in_place, allocation.lazy_since) = (Placement::None, false, None);
        allocation.last_work = batch.serial;
        let (pages, named) = (allocation.pages, allocation.named());
        let device = allocation.device();
        self.allocations.forget_aside(id);
        self.rerank(id);
        self.hide_displayed(id, batch);
        self.spaces.hide(&self.allocations[id], 0, pages, batch);
        if let Some((segment, run)) = aperture {
            let place = self.segment_mut(segment);
            place.give(run);
            batch.invalidations.push(Operation::UnmapAperture {
                device,
                allocation: named,
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
        debug_assert!(count <= allocation.count, "{id:?} leaves {count} entries of lists, of {}", allocation.count);
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
        let tick = self.clock.next_tick();
        let allocation = &mut self.allocations[id];
        assert!(allocation.count == 0 && allocation.lazy_since.is_none(), "it has just left the last list");
        if matches!(allocation.placement, Placement::Memory(..)) {
            allocation.lazy_since = Some(tick);
        }
        self.rerank(id);
    }
}

/// Copies a dirty range to its backing store: through an aperture that it may be evicted through, so that both ends lie
/// in GPU space; by the page list where there is none or none with room, because an eviction must not fail for that.
/// Apertures may show `through_max` pages more.
// spec: memory §8.3
pub(crate) fn copy_out<F>(
    segments: &mut Segments,
    allocation: &Allocation<F>,
    extent: &Extent,
    from: (SegmentId, u64),
    (form, dummy_page, through_max): (Form, u64, u64),
    batch: &mut Batch<F>,
) {
    let backing = allocation.backing_of(extent.page, extent.count);
    let mut apertures = allocation.info.eviction_segments.iter().filter(|_| extent.count <= through_max);
    let window = apertures.find_map(|id| {
        let run = segments[id].take_run(extent.count, 1)?;
        Some((id, run))
    });
    let (named, device) = (allocation.named(), allocation.device());
    let mut through = None;
    if let Some((id, run)) = window {
        let aperture = &mut segments[id];
        // Only for this copy: the next use of these pages comes behind it in the ring.
        aperture.give(run);
        through = Some((id, aperture.descriptor.base_address + run.first * PAGE_BYTES));
        batch.out.push(Operation::MapAperture {
            device,
            allocation: named,
            segment: id,
            offset_in_pages: run.first,
            backing: backing.clone(),
            cache_coherent: cache_coherent(aperture, &allocation.info),
            cpu_visible: false,
        });
    }
    batch.out.push(Operation::Transfer {
        allocation: named,
        allocation_offset: extent.page * PAGE_BYTES,
        size_bytes: extent.count * PAGE_BYTES,
        segment: from.0,
        address: from.1,
        contiguous: allocation.contiguous(),
        backing,
        through,
        direction: Direction::Out,
        form,
    });
    if let Some((id, run)) = window {
        batch.out.push(Operation::UnmapAperture {
            device,
            allocation: named,
            segment: id,
            offset_in_pages: run.first,
            number_of_pages: run.count.0,
            dummy_page,
        });
    }
}

/// Whether pages of an allocation are mapped cache-coherently: cacheable ones into an aperture that can, never
/// write-combined ones.
// spec: memory §3.4 operation 5, §1.5 bit 4
pub(crate) fn cache_coherent(aperture: &Segment, info: &AllocationInfo) -> bool {
    info.flags.contains(AllocationFlags::CACHED) && aperture.descriptor.flags.contains(SegmentFlags::CACHE_COHERENT)
}
