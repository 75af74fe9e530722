//! Where an allocation stands in the order in which content loses its place (memory §8.2): derived anew after whatever changed it. `rank` has
//! the order itself.

use crate::allocation::{Allocation, Placement};
use crate::budget::ProcessPriority;
use crate::policy::Eviction;
use crate::rank::{DOOMED_TIER, Rank, VictimEntry, lazy_tier, suspended_tier};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Derives an allocation's standing anew. To be called after every change of its place, its holders, or its rank's
    /// other inputs.
    pub(crate) fn rerank(&mut self, id: AllocationId) {
        self.tell(id);
        let new = self.standing(id, &self.allocations[id]);
        let old = std::mem::replace(&mut self.allocations[id].standing, new);
        if old == new {
            return;
        }
        self.segments.restand(id, old, new);
    }

    // spec: memory §8.2
    pub(crate) fn standing(&self, id: AllocationId, allocation: &Allocation<F>) -> Option<VictimEntry> {
        let (segment, pages) = match &allocation.placement {
            Placement::Memory(segment, extents) => (segment, extents.pages()),
            // Nothing is lost with pages of an aperture: any claimant may have them.
            Placement::System(Some((aperture, run))) => {
                let aside = allocation.aside.as_ref().filter(|_| allocation.pins == 0)?;
                let rank = Some(Rank { tier: DOOMED_TIER, priority: 0, time: aside.tick });
                return Some(VictimEntry { segment: *aperture, band: allocation.band, pages: run.count.0, rank });
            }
            Placement::System(None) | Placement::None => return None,
        };
        // A work that takes content in use has to wait.
        let priority = if allocation.aside.is_some() { u32::MAX } else { allocation.info.priority };
        let band = allocation.band;
        let suspended_at = |tick: u64| u64::MAX - tick;
        let rank = if allocation.pins > 0 {
            None
        } else if let Some(time) = allocation.doomed {
            Some(Rank { tier: DOOMED_TIER, priority: 0, time })
        } else if let Some(offer) = allocation.offer() {
            Some(Rank { tier: offer.tier(), priority: 0, time: offer.time })
        } else if allocation.count == 0 {
            let time_of = |since| match self.policy.eviction {
                Eviction::Lru => since,
                Eviction::Planner => self.foreseen.time_of(*segment, id, since),
            };
            allocation.lazy_since.map(|since| Rank { tier: lazy_tier(band), priority, time: time_of(since) })
        } else {
            let ticks = allocation.holders.iter().map(|device| self.devices[*device].suspended_at());
            // The holder that was suspended first has its turn first.
            let first = ticks.min().flatten();
            first.map(|tick| Rank { tier: suspended_tier(band), priority, time: suspended_at(tick) })
        };
        Some(VictimEntry { segment: *segment, band, pages, rank })
    }

    /// Derives an allocation's protection anew: the highest of the processes that list it; if none does, its owner's;
    /// none for what only a name keeps.
    pub(crate) fn reband(&mut self, id: AllocationId) {
        let allocation = &self.allocations[id];
        let of = |device| self.processes.priority(self.devices[device].space());
        let highest = allocation.holders.iter().map(|device| of(*device)).max();
        let band = highest.or_else(|| allocation.owner.map(of)).unwrap_or(ProcessPriority::Background);
        self.allocations[id].band = band;
    }
}
