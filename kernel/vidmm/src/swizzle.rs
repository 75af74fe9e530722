//! Swizzling (memory §6.5), first generation only: the driver's ranges through which the CPU sees an allocation in linear
//! order, and in which form the content of marked allocations lies. VidMm knows no formats: it knows that a range shows an
//! allocation, and for those that the driver marks `Swizzled` whether their backing store is linear. It calls no driver: it
//! says what to acquire and release. Called by `lock::legacy`, `victim`, `commit`.
//!
//! A range is acquired at a lock and kept after the last unlock, because the next lock is likely to want it again. It goes
//! when its content leaves its memory segment, or when another lock needs one, the one unlocked longest ago first.

use ddi::{AllocationFlags, DriverModel, KmdAllocation};
use wddm_types::SegmentId;

use crate::allocation::{Allocation, Placement};
use crate::paging::Batch;
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

/// The change that a transfer makes to the form of its content (memory §3.4, flags 0 and 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Nothing that VidMm knows of; an unmarked allocation's is the driver's own affair.
    #[default]
    Kept,
    /// Linear content becomes swizzled.
    Swizzle,
    /// Swizzled content becomes linear.
    Unswizzle,
    /// The CPU saw it through this range at an address of the driver's choice: outside it is to stand in the order in which
    /// the CPU saw it (SPECIAL_LOCK_TRANSFER, memory §3.4).
    Special(HeldRange),
}

/// A range, and what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRange {
    /// The allocation of the content.
    pub allocation: KmdAllocation,
    /// From the lock.
    pub private_driver_data: u32,
    /// Which range, from 0.
    pub range: u32,
}

/// A range that the driver is to acquire for a lock. If it does not: [`VidMm::range_failed`](crate::VidMm::range_failed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeWish {
    /// To be released before.
    pub release: Option<HeldRange>,
    /// To be acquired.
    pub acquire: HeldRange,
    /// The allocation's segment.
    pub segment: SegmentId,
    /// Bytes of the view.
    pub range_bytes: u64,
    /// Where the view begins on the bus.
    pub cpu_translated_address: u64,
}

/// The ranges of one adapter.
#[derive(Debug, Default)]
pub(crate) struct SwizzlingRanges {
    ranges: Vec<Option<UsedRange>>,
    tick: u64,
}

#[derive(Clone, Copy, Debug)]
struct UsedRange {
    id: AllocationId,
    what: HeldRange,
    state: RangeState,
    /// Where the driver shows it, if that is its own choice.
    placed_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeState {
    /// Its allocation is locked.
    Locked,
    /// It was unlocked at this time.
    Kept(u64),
    /// Its content moves; the CPU looks through it until that is over.
    Ending,
}

impl SwizzlingRanges {
    /// So many ranges, all free.
    pub fn new(count: u32) -> Self {
        SwizzlingRanges { ranges: vec![None; count as usize], tick: 0 }
    }

    /// The range that shows an allocation for this private data.
    pub fn find(&self, id: AllocationId, data: u32) -> Option<u32> {
        let shows = |held: &&UsedRange| {
            held.id == id && held.what.private_driver_data == data && held.state != RangeState::Ending
        };
        self.held().find(shows).map(|held| held.what.range)
    }

    /// Gives an allocation a range: a free one, else the one that has been kept longest, which is to be released first.
    pub fn take(
        &mut self,
        id: AllocationId,
        allocation: KmdAllocation,
        data: u32,
    ) -> Option<(HeldRange, Option<HeldRange>)> {
        let free = self.ranges.iter().position(Option::is_none);
        let release = if free.is_some() { None } else { Some(self.release_kept()?) };
        let range = free.or(release.map(|held| held.range as usize))?;
        // CAST: below the count, which is one.
        let what = HeldRange { allocation, private_driver_data: data, range: range as u32 };
        self.ranges[range] = Some(UsedRange { id, what, state: RangeState::Locked, placed_at: None });
        Some((what, release))
    }

    /// A range that shows an allocation.
    pub fn of(&self, id: AllocationId) -> Option<HeldRange> {
        self.held().find(|held| held.id == id && held.state != RangeState::Ending).map(|held| held.what)
    }

    /// Gives up the range that has been kept longest.
    pub fn release_kept(&mut self) -> Option<HeldRange> {
        let kept =
            |held: &UsedRange| if let RangeState::Kept(since) = held.state { Some((since, held.what)) } else { None };
        let (_, what) = self.held().filter_map(kept).min_by_key(|(since, _)| *since)?;
        self.ranges[what.range as usize] = None;
        Some(what)
    }

    /// The driver shows an allocation's range at an address of its own choice.
    pub fn place(&mut self, id: AllocationId, address: u64) {
        let held = self.ranges.iter_mut().flatten().filter(|held| held.id == id && held.state != RangeState::Ending);
        held.for_each(|held| held.placed_at = Some(address));
    }

    /// Where that is.
    pub fn placed(&self, id: AllocationId) -> Option<u64> {
        self.held().find(|held| held.id == id && held.state != RangeState::Ending)?.placed_at
    }

    /// The driver did not acquire it.
    pub fn forget(&mut self, range: u32) {
        self.ranges[range as usize] = None;
    }

    /// An allocation is locked again, or not any more.
    pub fn keep(&mut self, id: AllocationId, locked: bool) {
        self.tick += 1;
        let state = if locked { RangeState::Locked } else { RangeState::Kept(self.tick) };
        let held = self.ranges.iter_mut().flatten().filter(|held| held.id == id && held.state != RangeState::Ending);
        held.for_each(|held| held.state = state);
    }

    /// Ends the ranges of an allocation; those that the CPU still looks through stay out of use until
    /// [`SwizzlingRanges::forget`].
    pub fn end(&mut self, id: AllocationId, seen: bool) -> Vec<HeldRange> {
        let mut ended = Vec::new();
        for slot in &mut self.ranges {
            let Some(held) = slot.as_mut().filter(|held| held.id == id && held.state != RangeState::Ending) else {
                continue;
            };
            ended.push(held.what);
            held.state = RangeState::Ending;
            if !seen {
                *slot = None;
            }
        }
        ended
    }

    /// Checks the invariants of ranges; `locks`: of an allocation in a memory segment, how often it is locked.
    pub fn check(&self, locks: impl Fn(AllocationId) -> Option<u32>) -> Result<(), String> {
        for held in self.held() {
            let sound = match (held.state, locks(held.id)) {
                (RangeState::Ending, _) => true,
                (RangeState::Locked, locked) => locked.is_some_and(|count| count > 0),
                (RangeState::Kept(_), locked) => locked == Some(0),
            };
            if !sound {
                return Err(format!("range {} is {:?} of {:?}", held.what.range, held.state, held.id));
            }
        }
        Ok(())
    }

    fn held(&self) -> impl Iterator<Item = &UsedRange> {
        self.ranges.iter().flatten()
    }
}

impl<F: Copy + Eq> VidMm<F> {
    /// How many swizzling ranges the driver has (`NumberOfSwizzlingRanges`). WDDM 2 has none.
    // spec: memory §6.5
    pub fn set_swizzling_ranges(&mut self, count: u32) {
        let count = if self.model == DriverModel::Wddm1 { count } else { 0 };
        self.ranges = SwizzlingRanges::new(count);
    }

    /// Gives up a range of unlocked content, because the driver says that none is available; the caller releases it.
    // spec: memory §6.5
    pub fn release_kept_range(&mut self) -> Option<HeldRange> {
        self.ranges.release_kept()
    }

    /// The driver has released ranges that a [`Rotation`](crate::Rotation) named.
    pub fn ranges_released(&mut self, ranges: &[HeldRange]) {
        ranges.iter().for_each(|held| self.ranges.forget(held.range));
    }

    /// Ends the ranges of content that leaves its memory segment: at once when the content is unlocked, with the rotation otherwise.
    // spec: memory §6.5, released on eviction, destruction, demand
    pub(crate) fn leave_ranges(&mut self, id: AllocationId, batch: &mut Batch<F>) {
        let seen = self.allocations[id].locks.count > 0;
        let ended = self.ranges.end(id, seen);
        if seen && !ended.is_empty() {
            batch.locked.insert(id);
            batch.ranges_locked.insert(id, ended);
        } else {
            batch.ranges.extend(ended);
        }
    }

    /// Marked content is about to be copied out: in which form. Whatever is copied is copied whole, so that the backing
    /// store has one form.
    // spec: memory §6.5
    pub(crate) fn form_out(&mut self, id: AllocationId, for_cpu: bool) -> Form {
        let model = self.model;
        // spec: memory §3.4, operation 7
        let seen = self.ranges.of(id).filter(|_| self.is_alternate(id) && self.allocations[id].locks.count > 0);
        let allocation = &mut self.allocations[id];
        if let (Some(range), Placement::Memory(_, extents)) = (seen, &mut allocation.placement) {
            extents.make_dirty();
            allocation.special = Some(range);
            return Form::Special(range);
        }
        if !is_marked(model, allocation) {
            return Form::Kept;
        }
        let listed = allocation.count > 0;
        let Placement::Memory(_, extents) = &mut allocation.placement else { return Form::Kept };
        let copied = listed || extents.iter().any(|extent| extent.dirty);
        let linear = for_cpu || allocation.locks.count > 0;
        if !copied && (allocation.backing_linear || !linear) {
            return Form::Kept;
        }
        extents.make_dirty();
        allocation.backing_linear = linear;
        if linear { Form::Unswizzle } else { Form::Kept }
    }

    /// Marked content is about to be copied in.
    // spec: memory §6.5
    pub(crate) fn form_in(&mut self, id: AllocationId) -> Form {
        if let Some(range) = self.allocations[id].special.take() {
            return Form::Special(range);
        }
        let allocation = &self.allocations[id];
        if is_marked(self.model, allocation) && allocation.backing_linear { Form::Swizzle } else { Form::Kept }
    }

    /// Whether the CPU sees an allocation at an address of the driver's choice.
    fn is_alternate(&self, id: AllocationId) -> bool {
        let flags = self.allocations[id].info.flags;
        self.model == DriverModel::Wddm1 && flags.contains(AllocationFlags::USE_ALTERNATE_VA)
    }

    /// Whether the driver has marked an allocation, so that VidMm keeps track of its form.
    pub fn is_marked(&self, id: AllocationId) -> bool {
        is_marked(self.model, &self.allocations[id])
    }
}

fn is_marked<F>(model: DriverModel, allocation: &Allocation<F>) -> bool {
    model == DriverModel::Wddm1 && allocation.info.flags.contains(AllocationFlags::SWIZZLED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    // spec: memory §6.5
    #[test]
    fn ranges_are_kept_by_private_data_and_go_oldest_first() {
        let mut slab = Slab::new();
        let ids: Vec<AllocationId> = (0..3).map(|_| slab.insert(())).collect();
        let mut ranges = SwizzlingRanges::new(2);
        let kmd = KmdAllocation(7);
        let (first, none) = ranges.take(ids[0], kmd, 5).expect("free");
        assert_eq!((first.range, none), (0, None));
        assert_eq!((ranges.find(ids[0], 5), ranges.find(ids[0], 6), ranges.find(ids[1], 5)), (Some(0), None, None));
        let (level, _) = ranges.take(ids[0], kmd, 6).expect("another level of the same");
        assert_eq!(level.range, 1);
        assert_eq!(ranges.take(ids[1], kmd, 0), None, "both are locked");
        ranges.keep(ids[0], false);
        let (third, released) = ranges.take(ids[1], kmd, 0).expect("a kept one goes");
        assert_eq!((third.range, released), (0, Some(first)));
        assert_eq!(ranges.find(ids[0], 6), Some(1), "the other is kept");
        assert_eq!(ranges.end(ids[1], true), [third], "the CPU looks through it");
        assert_eq!(ranges.find(ids[1], 0), None);
        ranges.keep(ids[0], true);
        assert_eq!(ranges.take(ids[2], kmd, 0), None, "not handed out before it was released");
        ranges.forget(third.range);
        assert!(ranges.take(ids[2], kmd, 0).is_some());
        assert_eq!(ranges.end(ids[0], false), [level]);
    }
}
