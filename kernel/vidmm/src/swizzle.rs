//! Swizzling ranges (memory §6.5), first generation only: the driver's ranges through which the CPU sees an allocation in linear
//! order. It calls no driver: it says what to acquire and release. Called by `lock::legacy` and `form`.
//!
//! A range is acquired at a lock and kept after the last unlock, because the next lock is likely to want it again. It goes
//! when its content leaves its memory segment, or when another lock needs one, the one unlocked longest ago first.

use ddi::KmdAllocation;

use crate::operation::HeldRange;
use crate::slab::AllocationId;

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
        let before = self.ranges[range];
        debug_assert!(before.is_none(), "range {range} is given to {id:?}, and held as {before:?}");
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
        let gone = self.ranges[what.range as usize].take().map(|held| held.what);
        debug_assert_eq!(gone, Some(what), "a range stands at its number");
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
