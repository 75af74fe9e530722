//! Counts, holders, owners, needs, turns, victims, offers: what several places say of one thing is the same.

use std::collections::BTreeSet;

use super::{BrokenInvariant, broken, ensure};
use crate::allocation::Allocation;
use crate::allocation::OfferPriority;
use crate::rank::Victims;
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

impl<F: Copy + Eq + std::fmt::Debug> VidMm<F> {
    // spec: memory §5.1
    pub(super) fn check_lists(&self) -> Result<(), BrokenInvariant> {
        for (device, known) in self.devices.iter() {
            let owner = self.processes.device_at(known.space(), known.nth()) == Some(device);
            ensure(owner, "lists", || format!("{device:?} is no device of its process"))?;
            // spec: memory §4.6
            let walks = known.is_suspended() || self.tables_resident(known.space());
            ensure(walks, "lists", || format!("{device:?} runs while its page tables are away"))?;
            for id in self.devices.owned(device) {
                let live = self.allocations.get(id).is_some_and(|allocation| allocation.owner == Some(device));
                ensure(live, "lists", || format!("{device:?} owns {id:?}, which knows another owner"))?;
            }
            for id in known.list() {
                let holder = self.allocations.get(id).is_some_and(|allocation| allocation.holders.contains(&device));
                ensure(holder, "lists", || format!("{device:?} lists {id:?}, unknown to it"))?;
            }
            let all_live = self.devices.postponed_for(device).all(|id| self.allocations.get(id).is_some());
            ensure(all_live, "lists", || format!("{device:?} has postponed something for the dead"))?;
        }
        for (id, allocation) in self.allocations.iter() {
            let count =
                |device| self.devices.get(device).map(|known| known.times_listed(id)).filter(|times| *times > 0);
            let sum: Option<u64> = allocation.holders.iter().map(|device| count(*device)).sum();
            ensure(sum == Some(allocation.count), "lists", || {
                format!("{id:?} counts {}, its holders {sum:?}", allocation.count)
            })?;
            let owned = allocation.owner.is_none_or(|owner| self.devices.owns(owner, id))
                && (allocation.owner.is_some() || allocation.holders.is_empty());
            ensure(owned, "lists", || format!("{id:?} is not owned by its owner"))?;
            let over = allocation.doomed.is_none() || allocation.count == 0 && allocation.locks.count == 0;
            ensure(over, "lists", || format!("{id:?} is destroyed and still listed or locked"))?;
        }
        self.check_victims()
    }

    // spec: memory §8.2
    fn check_victims(&self) -> Result<(), BrokenInvariant> {
        for segment in self.segments.all() {
            let mut naive = Victims::default();
            for (id, allocation) in self.allocations.iter() {
                let standing = self.standing(id, allocation);
                ensure(standing == allocation.standing, "victims", || {
                    format!("{id:?} stands as {:?}, and should as {standing:?}", allocation.standing)
                })?;
                let unneeded = allocation.count == 0 && allocation.pins == 0;
                let goes = standing.is_none_or(|standing| standing.rank.is_some()) || !unneeded;
                ensure(goes, "victims", || format!("{id:?} is on no list and not pinned, and is no victim"))?;
                if let Some(standing) = standing.filter(|standing| standing.segment == segment.id) {
                    naive.add(id, standing);
                    if let Some((_, band)) = standing.holds() {
                        naive.hold(id, band, true);
                    }
                }
            }
            ensure(naive == *segment.victims(), "victims", || {
                format!("segment {}: {:?}, and should be {naive:?}", segment.id.0, segment.victims())
            })?;
        }
        Ok(())
    }

    // spec: memory §5.5, §10.1 row 7
    pub(super) fn check_needs(&self) -> Result<(), BrokenInvariant> {
        let listed = |space, group| -> u64 {
            let lists = self.processes.devices(space).flat_map(|device| self.devices[device].list());
            let listed: BTreeSet<AllocationId> = lists.collect();
            let charged =
                listed.into_iter().map(|id| &self.allocations[id]).filter(|known| known.charged == Some(group));
            charged.map(Allocation::bytes).sum()
        };
        self.processes.check(listed).map_err(broken("budgets"))?;
        for (id, allocation) in self.allocations.iter() {
            let placed = self.group_of_placement(id).filter(|_| allocation.offer().is_none());
            let holds = placed.is_none() || placed == allocation.charged;
            ensure(holds, "budgets", || format!("{id:?} lies {placed:?} and is charged {:?}", allocation.charged))?;
        }
        Ok(())
    }

    // spec: memory §8.6
    pub(super) fn check_turns(&self) -> Result<(), BrokenInvariant> {
        self.devices.check().map_err(broken("lists"))?;
        for (device, known) in self.devices.iter() {
            let there = |id: &AllocationId| self.is_resident(*id) || self.offered(*id).is_some();
            let missing = known.list().find(|id| !known.is_suspended() && !there(id));
            ensure(missing.is_none(), "lists", || format!("{device:?} runs without {missing:?} of its list"))?;
        }
        Ok(())
    }

    // spec: memory §5.9
    pub(super) fn check_offers(&self) -> Result<(), BrokenInvariant> {
        for (id, allocation) in self.allocations.iter() {
            let steps = self.devices.offers_waiting(id);
            let due = allocation.offer_due();
            let once = steps == usize::from(due.is_some()) && (due.is_none() || allocation.offer().is_none());
            ensure(once && (due.is_none() || allocation.locks.count == 0), "lists", || {
                format!("{id:?} is due to be offered as {due:?} by {steps} devices")
            })?;
            let Some(offer) = allocation.offer() else { continue };
            let quiet = allocation.locks.count == 0 && allocation.charged.is_none();
            let named = offer.priority != OfferPriority::Auto;
            ensure(quiet && named, "lists", || format!("{id:?} is offered, and locked or charged, or as {offer:?}"))?;
        }
        self.allocations.check().map_err(broken("lists"))
    }
}
