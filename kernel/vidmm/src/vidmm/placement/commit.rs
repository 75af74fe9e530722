//! Content in, as planned: victims out of the way, frames taken, pages copied in or filled, entries written (memory §8.3).
//! Called by `residency`, `offer`, `suspend` and `lock`; where things go has been decided by `plan`.

use std::collections::BTreeMap;

use ddi::{AllocationFlags, DriverModel, KmdAllocation};
use wddm_types::{PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use crate::allocation::{Allocation, Placement};
use crate::extent::{Extent, Extents};
use crate::operation::Form;
use crate::paging::{Batch, Cause, Direction, MoveKind, MoveStep, Operation};
use crate::segment::{Segment, Wish};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;
use crate::vidmm::life::context::content_of_driver;
use crate::vidmm::placement::plan::{Place, Plan};
use crate::vidmm::placement::victim::cache_coherent;

impl<F: Copy + Eq> VidMm<F> {
    /// Does what was planned; nothing can fail any more.
    pub(crate) fn carry_out(&mut self, plan: Plan, cause: Cause, batch: &mut Batch<F>) {
        for (id, whole_for) in plan.whole_victims {
            self.withdraw(id, Cause::Pressure { for_allocation: whole_for }, batch);
        }
        self.quiesce_meanwhile(plan.quiesced, batch);
        for &(id, for_allocation) in &plan.anew {
            self.withdraw(id, Cause::Compaction { for_allocation }, batch);
        }
        self.relocate(&plan.relocations, batch);
        self.keep_commit_limit(&plan.places, batch);
        let anew: BTreeMap<AllocationId, AllocationId> = plan.anew.into_iter().collect();
        let cause_of = |id| anew.get(&id).map_or(cause, |&for_allocation| Cause::Compaction { for_allocation });
        // Contiguous runs first: the plan found them free, and scattered content must not take a page of them.
        for &(id, place) in &plan.places {
            if let Place::Memory(segment, Some(run)) = place {
                self.segment_mut(segment).take_exact(run);
                self.commit(id, segment, vec![run], cause_of(id), batch);
            }
        }
        for &(id, place) in &plan.places {
            match place {
                Place::Memory(_, Some(_)) => {}
                Place::Memory(segment, None) => {
                    let here = matches!(self.allocations[id].placement, Placement::Memory(s, _) if s == segment);
                    if !here {
                        self.vacate(id, Cause::Pressure { for_allocation: id }, batch);
                    }
                    let allocation = &self.allocations[id];
                    let pages = allocation.pages - allocation.resident_pages();
                    self.make_room(segment, pages, id, batch);
                    let wish = Wish::of(&self.allocations[id].info, self.segment(segment));
                    let frames = self.segments[segment].take_as_wished(&wish, pages, false).expect("room was made");
                    self.commit(id, segment, frames, cause_of(id), batch);
                }
                Place::System(aperture) => {
                    self.vacate(id, Cause::Pressure { for_allocation: id }, batch);
                    self.enter_system(id, aperture, cause_of(id), batch);
                }
                Place::Outside => {
                    self.allocations[id].in_place = true;
                    self.enter_system(id, None, cause_of(id), batch);
                }
            }
        }
    }

    /// Brings the missing pages of an allocation, or the first of them, into frames that it now owns (memory §8.3, commit).
    pub(crate) fn commit(
        &mut self,
        id: AllocationId,
        segment: SegmentId,
        frames: Vec<PageRun>,
        cause: Cause,
        batch: &mut Batch<F>,
    ) {
        self.note_paging(id, batch.serial);
        let pattern = self.policy.clear_pattern;
        // A window that was kept shows the extents that there were.
        if self.allocations[id].locks.count == 0 {
            self.leave_window(id, batch);
        }
        let form = self.form_in(id);
        let first = self.model == DriverModel::Wddm1;
        let allocation = &mut self.allocations[id];
        if matches!(allocation.placement, Placement::None) {
            let whole = allocation.pages_in(&self.segments[segment]);
            allocation.placement = Placement::Memory(segment, Extents::of(whole));
        }
        let Placement::Memory(present, extents) = &mut allocation.placement else {
            unreachable!("content enters one memory segment")
        };
        assert_eq!(*present, segment, "an allocation is in one segment");
        let missing = first_of(extents.missing(), frames.iter().map(|run| run.count.0).sum());
        let mut added = pair(&missing, &frames);
        if allocation.locks.count > 0 {
            // The CPU writes there without telling VidMm.
            added.iter_mut().for_each(|extent| extent.dirty = true);
            batch.locked_comes(id);
        }
        extents.add(&added);
        allocation.last_work = batch.serial;
        let place = &mut self.segments[segment];
        let base = place.descriptor.base_address;
        let pitched = place.aligns_pitches();
        // spec: memory §6.5: what lies in one piece may lie in tiles, and a page of it is no page of its content
        let whole = pitched || first && allocation.contiguous();
        for extent in &added {
            place.note_taken(extent);
            let pieces = if whole {
                vec![(0, allocation.pages, whole_content(allocation, &mut batch.clear))]
            } else {
                allocation.valid.split(extent.page, extent.count)
            };
            for (first, count, valid) in pieces {
                // spec: memory §2.6, filled by the size there; what is copied is the content, and the driver converts it
                let taken = if pitched { extent.count } else { count };
                let frames = PageRun { first: extent.frame + (first - extent.page), count: Pages(taken) };
                let owner = allocation.named();
                if valid {
                    if self.foreseen.is_on() {
                        allocation.told.paged_in += taken;
                    }
                    let address = base + frames.first * PAGE_BYTES;
                    let what = (owner, first * PAGE_BYTES, count * PAGE_BYTES, segment, address);
                    let backing = allocation.backing_of(first, count);
                    batch.content.push(copy_in(what, allocation.contiguous(), backing, form));
                } else {
                    match allocation.pattern {
                        None => batch.content.extend(fills(place, owner, first, frames, pattern)),
                        Some(pattern) => batch.content.push(Operation::Fill {
                            allocation: owner,
                            allocation_offset: first * PAGE_BYTES,
                            size_bytes: frames.count.bytes(),
                            pattern,
                            segment,
                            address: base + frames.first * PAGE_BYTES,
                        }),
                    }
                }
                batch.moved(MoveStep {
                    allocation: id,
                    kmd_allocation: allocation.info.allocation,
                    kind: if valid { MoveKind::PageIn } else { MoveKind::Fill },
                    cause,
                    segment,
                    run: frames,
                });
            }
        }
        batch.content.extend(content_of_driver(allocation));
        batch.arrived.extend(added.first().and_then(|extent| allocation.came(segment, extent.frame)));
        if let Some(extent) = added.first() {
            let address = PhysicalAddress { segment, offset: extent.frame * PAGE_BYTES };
            batch.arrived.extend(allocation.words_moved(id, address));
        }
        for (first, count) in missing {
            self.spaces.show(&self.allocations[id], id, None, first, count, batch);
        }
        self.note_place(id);
        self.charge(id, self.segments.charged_group(segment));
        self.rerank(id);
        let whole = self.is_resident(id) || cause == Cause::Foreseen;
        debug_assert!(whole, "{id:?} has come to {segment:?}, and not all of it");
    }

    /// Lets the GPU reach an allocation in its system pages.
    pub(crate) fn enter_system(
        &mut self,
        id: AllocationId,
        aperture: Option<(SegmentId, PageRun)>,
        cause: Cause,
        batch: &mut Batch<F>,
    ) {
        self.note_paging(id, batch.serial);
        let allocation = &mut self.allocations[id];
        let nowhere = matches!(allocation.placement, Placement::None);
        debug_assert!(nowhere, "{id:?} enters system memory, and lies in {:?}", allocation.placement);
        allocation.moved_in_system(id, MoveKind::Map, aperture, cause, batch);
        allocation.placement = Placement::System(aperture);
        allocation.last_work = batch.serial;
        let here = PhysicalAddress { segment: SegmentId::SYSTEM, offset: allocation.backing[0].first * PAGE_BYTES };
        batch.arrived.extend(allocation.words_moved(id, here));
        for (first, count, valid) in allocation.valid.split(0, allocation.pages) {
            // Words of fences stand there with their pattern from the start.
            if !valid && !allocation.stores_fences() {
                batch.clear.extend(allocation.backing_of(first, count));
            }
        }
        let pages = allocation.pages;
        allocation.valid.insert(0, pages);
        if let Some((segment, run)) = aperture {
            let place = &mut self.segments[segment];
            place.take_exact(run);
            batch.arrived.extend(allocation.came(place.id, run.first));
            batch.content.push(Operation::MapAperture {
                device: allocation.device(),
                allocation: allocation.named(),
                segment: place.id,
                offset_in_pages: run.first,
                backing: allocation.backing.clone(),
                cache_coherent: cache_coherent(place, &allocation.info),
                cpu_visible: allocation.info.flags.contains(AllocationFlags::MAP_APERTURE_CPU_VISIBLE),
            });
        }
        batch.content.extend(content_of_driver(&mut self.allocations[id]));
        self.spaces.show(&self.allocations[id], id, None, 0, pages, batch);
        self.note_place(id);
        self.charge(id, self.segments.system_group());
        self.tell(id);
    }
}

impl<F: Copy + Eq> Allocation<F> {
    /// Notes that content in system memory comes within the GPU's reach, or leaves it: nothing moves silently.
    // spec: memory §8.5
    pub(crate) fn moved_in_system(
        &self,
        id: AllocationId,
        kind: MoveKind,
        aperture: Option<(SegmentId, PageRun)>,
        cause: Cause,
        batch: &mut Batch<F>,
    ) {
        let (segment, runs) = match &aperture {
            Some((segment, run)) => (*segment, std::slice::from_ref(run)),
            None => (SegmentId::SYSTEM, &self.backing[..]),
        };
        for &run in runs {
            batch.moved(MoveStep { allocation: id, kmd_allocation: self.info.allocation, kind, cause, segment, run });
        }
    }
}

/// Whether an allocation has content. If it has some, its other pages hold the clear pattern from now on, so that it can be
/// copied as one piece.
fn whole_content<F>(allocation: &mut Allocation<F>, clear: &mut Vec<PageRun>) -> bool {
    let pieces = allocation.valid.split(0, allocation.pages);
    if pieces.iter().all(|(_, _, valid)| !valid) {
        return false;
    }
    for (first, count, _) in pieces.into_iter().filter(|(_, _, valid)| !valid) {
        clear.extend(allocation.backing_of(first, count));
    }
    allocation.valid.insert(0, allocation.pages);
    true
}

/// The first so many pages of page ranges.
fn first_of(mut ranges: Vec<(u64, u64)>, pages: u64) -> Vec<(u64, u64)> {
    let mut left = pages;
    for (_, count) in &mut ranges {
        *count = left.min(*count);
        left -= *count;
    }
    ranges.retain(|(_, count)| *count > 0);
    ranges
}

/// Gives missing page ranges their frames.
fn pair(missing: &[(u64, u64)], frames: &[PageRun]) -> Vec<Extent> {
    let mut frames = frames.iter().copied();
    let mut run = PageRun { first: 0, count: Pages::ZERO };
    let mut extents = Vec::new();
    for &(first, count) in missing {
        let (mut page, end) = (first, first + count);
        while page < end {
            if run.count.is_zero() {
                run = frames.next().expect("there is a frame for each missing page");
            }
            let pages = run.count.0.min(end - page);
            extents.push(Extent { page, frame: run.first, count: pages, dirty: false });
            run = PageRun { first: run.first + pages, count: Pages(run.count.0 - pages) };
            page += pages;
        }
    }
    assert!(run.count.is_zero() && frames.next().is_none(), "there is a missing page for each frame");
    extents
}

/// Fills frames for content that does not exist yet, from page `first` of its allocation on. Frames that were cleared ahead need no fill.
// spec: memory §3.3 operation 1
fn fills(
    place: &Segment,
    allocation: Option<KmdAllocation>,
    first: u64,
    frames: PageRun,
    pattern: u32,
) -> impl Iterator<Item = Operation> {
    let (segment, base) = (place.id, place.descriptor.base_address);
    place.uncleared_parts(frames).map(move |run| Operation::Fill {
        allocation,
        allocation_offset: (first + run.first - frames.first) * PAGE_BYTES,
        size_bytes: run.count.bytes(),
        pattern,
        segment,
        address: base + run.first * PAGE_BYTES,
    })
}

/// Copies content in.
pub(crate) fn copy_in(
    what: (Option<KmdAllocation>, u64, u64, SegmentId, u64),
    contiguous: bool,
    backing: Vec<PageRun>,
    form: Form,
) -> Operation {
    let (allocation, allocation_offset, size_bytes, segment, address) = what;
    let (direction, through) = (Direction::In, None);
    Operation::Transfer {
        allocation,
        allocation_offset,
        size_bytes,
        segment,
        address,
        contiguous,
        backing,
        through,
        direction,
        form,
    }
}
