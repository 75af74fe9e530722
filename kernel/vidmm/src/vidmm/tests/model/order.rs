//! The order of victims, the needs and the turns, found the naive way: by looking at everything.

use std::collections::BTreeSet;

use wddm_types::SegmentId;

use super::{DEVICES, Model};
use crate::allocation::Placement;
use crate::{AllocationId, Cause, Eviction, MoveKind, OfferPriority, ProcessPriority, SegmentGroup, Work};

/// A victim: its segment, its place in the order.
pub type Victim = (SegmentId, (usize, u32, u64), AllocationId);

impl Model {
    fn everything(&self) -> impl Iterator<Item = AllocationId> + '_ {
        self.known.iter().map(|known| known.id).chain(self.doomed.iter().copied())
    }

    fn band_of(&self, id: AllocationId) -> ProcessPriority {
        let allocation = &self.mm.allocations[id];
        let of = |device| self.mm.processes.priority(self.mm.devices[device].space());
        let listed = self.mm.devices.iter().filter(|(_, device)| device.lists(id));
        listed.map(|(device, _)| of(device)).max().unwrap_or_else(|| of(allocation.owner.unwrap()))
    }

    /// Everything that can be taken, in the order in which it is to go.
    // spec: memory §8.2
    pub fn naive_order(&self) -> Vec<Victim> {
        let mut order: Vec<Victim> = self.everything().filter_map(|id| self.victim(id)).collect();
        order.sort_unstable();
        order
    }

    fn victim(&self, id: AllocationId) -> Option<Victim> {
        let allocation = &self.mm.allocations[id];
        if allocation.pins > 0 {
            return None;
        }
        let segment = match &allocation.placement {
            Placement::Memory(segment, _) => segment,
            Placement::System(Some((aperture, _))) => {
                return allocation.aside.as_ref().map(|aside| (*aperture, (0, 0, aside.tick), id));
            }
            Placement::System(None) | Placement::None => return None,
        };
        let band = self.band_of(id) as usize;
        let holders = self.mm.devices.iter().filter(|(_, device)| device.lists(id));
        let suspended: Option<Vec<u64>> = holders.map(|(_, device)| device.suspended_at()).collect();
        let place = if let Some(time) = allocation.doomed {
            (0, 0, time)
        } else if let Some(offer) = allocation.offer() {
            let tier = match offer.priority {
                OfferPriority::Low => 1,
                OfferPriority::Normal => 2,
                OfferPriority::High => 3,
                OfferPriority::Auto => unreachable!("an offer is made with a priority"),
            };
            (tier, 0, offer.time)
        } else if allocation.count == 0 {
            let since = allocation.lazy_since.expect("it left its last list some time");
            let priority = if allocation.aside.is_some() { u32::MAX } else { allocation.info.priority };
            let time = match self.mm.policy.eviction {
                Eviction::Lru => since,
                Eviction::Planner => self.mm.foreseen.time_of(*segment, id, since),
            };
            (4 + 2 * band, priority, time)
        } else {
            let first = suspended?.into_iter().min().expect("a device lists it");
            (5 + 2 * band, allocation.info.priority, u64::MAX - first)
        };
        Some((*segment, place, id))
    }

    /// The victims of a MakeResident were the first in the order, and no allocation lost pages while a lower one had
    /// any left.
    pub fn check_losers(&self, wanted: &[AllocationId], order: &[Victim], work: Option<&Work<u8>>) {
        let Some(work) = work else { return };
        let left = |kind| matches!(kind, MoveKind::PageOut | MoveKind::Discard);
        let lost = work.moves.iter().filter(|m| left(m.kind) && !wanted.contains(&m.allocation));
        let mut losers: Vec<(SegmentId, AllocationId)> = Vec::new();
        for step in lost {
            assert!(matches!(step.cause, Cause::Pressure { .. } | Cause::Destroy));
            if !losers.contains(&(step.segment, step.allocation)) {
                losers.push((step.segment, step.allocation));
            }
        }
        let contiguous = wanted.iter().any(|id| self.mm.allocations[*id].contiguous());
        // The planner's account may have another one of the same tier go.
        if !contiguous && work.suspends.is_empty() && self.mm.policy.eviction != Eviction::Planner {
            let segments: BTreeSet<SegmentId> = losers.iter().map(|(segment, _)| *segment).collect();
            for segment in segments {
                let first = order.iter().filter(|(s, _, id)| *s == segment && !wanted.contains(id)).map(|v| v.2);
                let gone: Vec<AllocationId> = losers.iter().filter(|(s, _)| *s == segment).map(|l| l.1).collect();
                assert_eq!(gone, first.take(gone.len()).collect::<Vec<_>>(), "who stands first goes first");
            }
        }
        self.check_protection(wanted, &losers, work);
    }

    /// No process lost a byte while a less protected one has any left in that segment, contiguous requests or not.
    // spec: memory §8.2
    fn check_protection(&self, wanted: &[AllocationId], losers: &[(SegmentId, AllocationId)], work: &Work<u8>) {
        let moves = work.moves.iter().any(|step| step.kind == MoveKind::Relocate);
        for &(segment, loser) in losers {
            let kind = &self.mm.allocations[loser];
            if kind.doomed.is_some() || kind.offer().is_some() {
                continue;
            }
            let band = self.band_of(loser);
            for id in self.everything().filter(|id| self.band_of(*id) < band && !wanted.contains(id)) {
                let other = &self.mm.allocations[id];
                let worthless = other.doomed.is_some() || other.offer().is_some() || other.pins > 0;
                // The CPU still reads where it was: nothing may be moved there before it is shown another place.
                let held = moves && other.locks.count > 0;
                let here = matches!(&other.placement, Placement::Memory(s, _) if *s == segment);
                assert!(worthless || held || !here, "{id:?} of a lower process stays while {loser:?} loses");
            }
        }
    }

    /// A running device has all of its list.
    // spec: memory §5.1
    pub fn check_turns(&self) {
        for device in self.devices {
            let known = &self.mm.devices[device];
            let ready = |id: &AllocationId| self.mm.is_resident(*id) || self.mm.offered(*id).is_some();
            assert!(known.is_suspended() || known.list().all(|id| ready(&id)), "{device:?} runs without its content");
            assert!(known.is_suspended() || self.mm.devices.postponed(device) == 0);
        }
        assert_eq!(self.mm.devices.line().count(), self.devices.iter().filter(|d| self.mm.is_suspended(**d)).count());
    }

    /// The needs of the processes are the sums over their lists.
    // spec: memory §5.5, §10.1 row 7
    pub fn check_needs(&self) {
        for space in self.spaces {
            let of = |device: &usize| self.mm.space_of(self.devices[*device]) == space;
            let listed: BTreeSet<AllocationId> =
                (0..DEVICES).filter(of).flat_map(|device| self.mm.devices[self.devices[device]].list()).collect();
            for group in [SegmentGroup::Local, SegmentGroup::NonLocal] {
                let charged = |id: &&AllocationId| self.mm.allocations[**id].charged == Some(group);
                let need: u64 = listed.iter().filter(charged).map(|id| self.mm.allocation_bytes(*id)).sum();
                assert_eq!(self.mm.processes.need(space, group), need);
            }
        }
        for id in self.everything().filter(|id| self.mm.allocations[*id].offer().is_none()) {
            let group = self.mm.group_of_placement(id);
            assert!(group.is_none() || group == self.mm.allocations[id].charged, "it counts where it lies");
        }
    }
}
