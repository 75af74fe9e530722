//! MakeResident and Evict (memory §5.1 to §5.3): counts per device, placement, commit.
//!
//! MakeResident first plans, changing nothing: for each allocation that misses pages, the first candidate segment
//! (memory §8.1) whose free and victim pages hold what is missing beside what is planned already. Only a whole plan
//! is carried out, so a failure leaves every count and page as it was. An aperture as candidate means system memory
//! (memory §1.6): the content stays where it is, only entries are written.

use std::collections::{BTreeMap, BTreeSet};

use ddi::{AllocationFlags, KmdAllocation};
use wddm_types::{FencePoint, PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::allocation::Placement;
use crate::context::first_content;
use crate::extent::{Extent, Extents};
use crate::paging::{Batch, Cause, Direction, Move, MoveKind, Operation, Work, merge_points};
use crate::plan::{Claim, Limit, Place, Plan, Takes};
use crate::segment::{Segment, Wish};
use crate::slab::{AllocationId, DeviceId};
use crate::suspend::Postponed;
use crate::victim::cache_coherent;
use crate::vidmm::VidMm;

/// Why MakeResident failed; no count changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MakeResidentError {
    /// Scarcity (`STATUS_NO_MEMORY`): this many bytes are to be evicted before a retry can succeed. When the request
    /// can never fit, the size of the request (memory §10.1 row 11).
    #[error("{bytes_to_trim} bytes are to be evicted first")]
    OutOfMemory {
        /// `NumBytesToTrim`.
        bytes_to_trim: u64,
    },
    /// The allocation is locked and supports no aperture: it may not enter a memory segment (memory §6.3). Retry
    /// after the unlock.
    #[error("a locked allocation may not enter a memory segment")]
    Locked {
        /// Which.
        allocation: AllocationId,
    },
    /// The allocation is offered: it is to be reclaimed first (memory §5.9). The caller is to blame.
    #[error("an offered allocation is to be reclaimed first")]
    Offered {
        /// Which.
        allocation: AllocationId,
    },
}

/// `D3DDDI_MAKERESIDENT` flags (memory §5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MakeResidentFlags {
    /// The caller has nothing left to trim: the current budget may be exceeded, not the maximum.
    pub cant_trim_further: bool,
    /// The device is lost if this fails, so whoever is not better protected may be suspended for it. Counts only with
    /// `cant_trim_further`.
    pub must_succeed: bool,
}

/// `D3DDDICB_EVICT` flags (memory §5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictFlags {
    /// Keep the content in place until its room is needed. Counts only where the count reaches 0.
    pub only_if_necessary: bool,
    /// The GPU did not write since the content was made resident.
    pub not_written_to: bool,
}

/// Why Evict was refused; nothing changed for the whole call (memory §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvictError {
    /// The device's count would go below zero.
    #[error("an allocation is evicted more often than it was made resident")]
    BelowZero {
        /// Whose.
        allocation: AllocationId,
    },
}

impl<F: Copy + Eq> VidMm<F> {
    /// Adds allocations to a device's list within its process's budget; see [`VidMm::make_resident_with`].
    ///
    /// # Errors
    /// See [`MakeResidentError`].
    pub fn make_resident(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
    ) -> Result<Option<Work<F>>, MakeResidentError> {
        self.make_resident_with(device, list, MakeResidentFlags::default())
    }

    /// Adds allocations to a device's list, one count per occurrence, and brings in what is missing. All or nothing
    /// (memory §5.2). `None`: everything was resident, or the device is suspended: then the content comes with
    /// [`VidMm::resume`], before any of its contexts runs.
    ///
    /// # Errors
    /// See [`MakeResidentError`].
    // spec: memory §5.2
    pub fn make_resident_with(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        flags: MakeResidentFlags,
    ) -> Result<Option<Work<F>>, MakeResidentError> {
        if let Some(&allocation) = list.iter().find(|id| self.allocations[**id].offer.is_some()) {
            return Err(MakeResidentError::Offered { allocation });
        }
        let (takes, limit) = match (flags.cant_trim_further, flags.must_succeed) {
            (false, _) => (Takes::Ranked, Limit::Current),
            (true, false) => (Takes::Ranked, Limit::Maximum),
            (true, true) => (Takes::Any, Limit::Maximum),
        };
        let claim = Claim { device, takes, limit, for_holders: false };
        let waits = self.devices[device].suspended.is_some();
        let plan = if waits { self.plan_alone(claim, list) } else { self.plan(claim, list) };
        let mut plan = plan.inspect_err(|_| self.pressure = true)?;
        for &id in list {
            self.count_up(device, id);
        }
        let mut batch = Batch::new(self.serial + 1);
        self.begin(&mut plan, device, &mut batch);
        self.carry_out(plan, Cause::MakeResident, &mut batch);
        Ok(self.finish(batch, false))
    }

    // spec: memory §5.1, memory §10.1 row 13
    fn count_up(&mut self, device: DeviceId, id: AllocationId) {
        let count = self.devices[device].counts.entry(id).or_insert(0);
        *count += 1;
        let first = *count == 1;
        let allocation = &mut self.allocations[id];
        allocation.count += 1;
        allocation.lazy_since = None;
        if first {
            self.add_holder(id, device);
            self.rerank(id);
        }
    }

    /// Takes allocations off a device's list, one count per occurrence (memory §5.3). `last_use`: points after which
    /// nothing queued before this call uses them; kept, and waited for by the work that takes their pages.
    ///
    /// # Errors
    /// See [`EvictError`].
    pub fn evict(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        flags: EvictFlags,
        last_use: &[FencePoint<F>],
    ) -> Result<Option<Work<F>>, EvictError> {
        self.check_counts(device, list)?;
        if self.must_postpone(device, last_use) {
            let step = |&id: &AllocationId| Postponed::Evict { id, flags, last_use: last_use.to_vec() };
            self.devices[device].postponed.extend(list.iter().map(step));
            return Ok(None);
        }
        merge_points(&mut self.devices[device].last_uses, last_use);
        let mut batch = Batch::new(self.serial + 1);
        self.count_down(device, list, flags, last_use, Some(&mut batch));
        Ok(self.finish(batch, false))
    }

    /// Lowers counts that were checked. Without a batch nothing leaves its place.
    pub(crate) fn count_down(
        &mut self,
        device: DeviceId,
        list: &[AllocationId],
        flags: EvictFlags,
        last_use: &[FencePoint<F>],
        mut batch: Option<&mut Batch<F>>,
    ) {
        for &id in list {
            let counts = &mut self.devices[device].counts;
            let count = counts.get_mut(&id).expect("the counts were checked");
            *count -= 1;
            let left_list = *count == 0;
            if left_list {
                counts.remove(&id);
                self.remove_holder(id, device);
            }
            let allocation = &mut self.allocations[id];
            allocation.count -= 1;
            merge_points(&mut allocation.last_use, last_use);
            // spec: memory §8.3, what is clean: any interval that may have written makes everything dirty
            if !flags.not_written_to
                && let Placement::Memory(_, extents) = &mut allocation.placement
            {
                extents.make_dirty();
            }
            if allocation.count == 0 {
                self.left_all_lists(id, flags, batch.as_deref_mut());
            } else if left_list {
                self.rerank(id);
            }
        }
    }

    /// How often a device's list names an allocation.
    pub fn count(&self, device: DeviceId, allocation: AllocationId) -> u64 {
        let known = &self.devices[device];
        let evicted = |step: &&Postponed<F>| matches!(step, Postponed::Evict { id, .. } if *id == allocation);
        let postponed = known.postponed.iter().filter(evicted).count() as u64;
        known.counts.get(&allocation).copied().unwrap_or(0) - postponed
    }

    fn check_counts(&self, device: DeviceId, list: &[AllocationId]) -> Result<(), EvictError> {
        let mut wanted: BTreeMap<AllocationId, u64> = BTreeMap::new();
        for &allocation in list {
            let wanted = wanted.entry(allocation).or_insert(0);
            *wanted += 1;
            if *wanted > self.count(device, allocation) {
                return Err(EvictError::BelowZero { allocation });
            }
        }
        Ok(())
    }

    fn left_all_lists(&mut self, id: AllocationId, flags: EvictFlags, batch: Option<&mut Batch<F>>) {
        let allocation = &self.allocations[id];
        let lazily = match &allocation.placement {
            // It was taken while its devices were suspended.
            Placement::None => return,
            // What is displayed stays; what is offered is to be thrown away, not copied out.
            _ if allocation.pins > 0 || allocation.offer.is_some() => true,
            Placement::Memory(..) => flags.only_if_necessary,
            // Content in system memory gives up no room by staying. What would rather be in a memory segment leaves,
            // so that its next MakeResident places it anew; so does what occupies the aperture.
            Placement::System(aperture) => {
                let only_system = allocation.info.supported_segments.iter().all(|s| self.segment(s).is_aperture());
                flags.only_if_necessary && only_system && aperture.is_none()
            }
        };
        match batch {
            Some(batch) if !lazily => self.withdraw(id, Cause::Evict, batch),
            _ => self.become_victim(id),
        }
    }

    /// Does what was planned; nothing can fail any more.
    pub(crate) fn carry_out(&mut self, plan: Plan, cause: Cause, batch: &mut Batch<F>) {
        for (id, whole_for) in plan.whole_victims {
            let pages = self.allocations[id].resident_pages();
            self.take_end(id, pages, Cause::Pressure { for_allocation: whole_for }, batch);
        }
        // Contiguous runs first: the plan found them free, and scattered content must not take a page of them.
        for &(id, place) in &plan.places {
            if let Place::Memory(segment, Some(run)) = place {
                self.segment_mut(segment).pool.take_exact(run);
                self.commit(id, segment, vec![run], cause, batch);
            }
        }
        for &(id, place) in &plan.places {
            match place {
                Place::Memory(_, Some(_)) => {}
                Place::Memory(segment, None) => {
                    let elsewhere = matches!(self.allocations[id].placement, Placement::Memory(s, _) if s != segment);
                    if elsewhere {
                        self.withdraw(id, Cause::Pressure { for_allocation: id }, batch);
                    }
                    let allocation = &self.allocations[id];
                    let pages = allocation.pages - allocation.resident_pages();
                    self.make_room(segment, pages, id, batch);
                    let wish = Wish::of(&self.allocations[id].info, self.segment(segment));
                    let pool = &mut self.segment_mut(segment).pool;
                    let frames = wish.take_scattered(pool, pages).expect("room was made");
                    self.commit(id, segment, frames, cause, batch);
                }
                Place::System(aperture) => {
                    self.withdraw(id, Cause::Pressure { for_allocation: id }, batch);
                    self.enter_system(id, aperture, batch);
                }
            }
        }
    }

    /// Brings the missing pages of an allocation into frames that it now owns (memory §8.3, commit).
    fn commit(
        &mut self,
        id: AllocationId,
        segment: SegmentId,
        frames: Vec<PageRun>,
        cause: Cause,
        batch: &mut Batch<F>,
    ) {
        let writer = self.writer();
        let pattern = self.policy.clear_pattern;
        // A window that was kept shows the extents that there were.
        if self.allocations[id].locks.count == 0 {
            self.leave_window(id, batch);
        }
        let allocation = &mut self.allocations[id];
        if matches!(allocation.placement, Placement::None) {
            allocation.placement = Placement::Memory(segment, Extents::default());
        }
        let Placement::Memory(present, extents) = &mut allocation.placement else {
            unreachable!("content enters one memory segment")
        };
        assert_eq!(*present, segment, "an allocation is in one segment");
        let missing = extents.missing(allocation.pages);
        let mut added = pair(&missing, &frames);
        if allocation.locks.count > 0 {
            // The CPU writes there, and says so to nobody.
            added.iter_mut().for_each(|extent| extent.dirty = true);
            batch.locked.insert(id);
        }
        extents.add(&added);
        allocation.last_work = batch.serial;
        let place = &mut self.segments[usize::from(segment.0) - 1];
        let base = place.descriptor.base_address;
        for extent in &added {
            place.note_taken(extent);
            for (first, count, valid) in allocation.valid.split(extent.page, extent.count) {
                let frames = PageRun { first: extent.frame + (first - extent.page), count: Pages(count) };
                let owner = allocation.info.allocation;
                if valid {
                    let address = base + frames.first * PAGE_BYTES;
                    let what = (owner, first * PAGE_BYTES, count * PAGE_BYTES, segment, address);
                    let backing = allocation.backing_of(first, count);
                    batch.content.push(copy_in(what, allocation.contiguous(), backing));
                } else {
                    batch.content.extend(fills(place, owner, first, frames, pattern));
                }
                batch.moved(Move {
                    allocation: id,
                    kmd_allocation: owner,
                    bytes: count * PAGE_BYTES,
                    kind: if valid { MoveKind::PageIn } else { MoveKind::Fill },
                    cause,
                    segment,
                });
            }
        }
        batch.content.extend(first_content(allocation));
        batch.arrived.extend(added.first().and_then(|extent| allocation.came(segment, extent.frame)));
        for (first, count) in missing {
            writer.show(&self.spaces, &self.allocations[id], id, None, first, count, batch);
        }
        self.charge(id, Some(self.group_of(segment)));
        self.rerank(id);
    }

    /// Lets the GPU reach an allocation in its system pages.
    pub(crate) fn enter_system(&mut self, id: AllocationId, aperture: Option<PageRun>, batch: &mut Batch<F>) {
        let writer = self.writer();
        let allocation = &mut self.allocations[id];
        allocation.placement = Placement::System(aperture);
        allocation.last_work = batch.serial;
        for (first, count, valid) in allocation.valid.split(0, allocation.pages) {
            if !valid {
                batch.clear.extend(allocation.backing_of(first, count));
            }
        }
        let pages = allocation.pages;
        allocation.valid.insert(0, pages);
        if let Some(run) = aperture {
            let place =
                self.segments.iter_mut().find(|segment| segment.is_aperture()).expect("it lies behind an aperture");
            place.pool.take_exact(run);
            batch.arrived.extend(allocation.came(place.id, run.first));
            batch.content.push(Operation::MapAperture {
                device: Some(allocation.owner),
                allocation: Some(allocation.info.allocation),
                segment: place.id,
                offset_in_pages: run.first,
                backing: allocation.backing.clone(),
                cache_coherent: cache_coherent(place, &allocation.info),
                cpu_visible: allocation.info.flags.contains(AllocationFlags::MAP_APERTURE_CPU_VISIBLE),
            });
        }
        batch.content.extend(first_content(&mut self.allocations[id]));
        writer.show(&self.spaces, &self.allocations[id], id, None, 0, pages, batch);
        self.charge(id, Some(self.system_group()));
    }
}

/// The first occurrences of a list.
pub(crate) fn unique(list: &[AllocationId]) -> Vec<AllocationId> {
    let mut seen = BTreeSet::new();
    list.iter().copied().filter(|&id| seen.insert(id)).collect()
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

/// Fills frames for content that does not exist yet, from page `first` of its allocation on. What was cleared ahead is as
/// it should be.
// spec: memory §3.3 operation 1
fn fills(
    place: &Segment,
    allocation: KmdAllocation,
    first: u64,
    frames: PageRun,
    pattern: u32,
) -> impl Iterator<Item = Operation> {
    let (segment, base) = (place.id, place.descriptor.base_address);
    let parts = place.pool.cleared_parts(frames).into_iter().filter(|(_, cleared)| !cleared);
    parts.map(move |(run, _)| Operation::Fill {
        allocation: Some(allocation),
        allocation_offset: (first + run.first - frames.first) * PAGE_BYTES,
        size_bytes: run.count.bytes(),
        pattern,
        segment,
        address: base + run.first * PAGE_BYTES,
    })
}

/// Copies content in.
fn copy_in(what: (KmdAllocation, u64, u64, SegmentId, u64), contiguous: bool, backing: Vec<PageRun>) -> Operation {
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
    }
}
