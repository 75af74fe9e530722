//! Exact protection: no process loses a byte in a segment while a process of lower protection holds any there (memory §8.2). Called by
//! `plan`, when everything has its place.
//!
//! Scattered content is counted, the lowest first, also where a run takes free pages behind it (`lower_first`), so for it this holds by itself.
//! A run for contiguous content lies where it can: the content in it leaves, while content of lower processes may lie elsewhere, in pieces that
//! were of no use. That leaves as well, and the plan suspends the devices that list it. Pinned, offered or destroyed content does not count here.

use std::collections::BTreeSet;

use wddm_types::SegmentId;

use crate::allocation::Placement;
use crate::budget::ProcessPriority;
use crate::rank::{lazy_tier, suspended_tier};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::placement::plan::state::PlanState;
use crate::vidmm::placement::plan::{Place, Planner, Takes};

impl<F: Copy + Eq> Planner<'_, F> {
    /// Plans the eviction of all content of lower protection than a whole victim. False: an allocation of it is locked, and content moves
    /// within the segment; where the CPU still reads a place, nothing may come before it is shown another.
    // spec: memory §8.2
    pub(super) fn empty_below(&self, state: &mut PlanState) -> bool {
        if self.alone || self.emptied || state.plan.whole_victims.is_empty() {
            return true;
        }
        let memory = self.mm.segments.all().iter().filter(|segment| !segment.is_aperture()).map(|segment| segment.id);
        memory.collect::<Vec<_>>().into_iter().all(|segment| self.empty_below_in(state, segment))
    }

    fn empty_below_in(&self, state: &mut PlanState, segment: SegmentId) -> bool {
        let Some((highest, for_allocation)) = self.highest_loser(state, segment) else { return true };
        let moves = state.plan.relocations.iter().any(|step| step.segment == segment);
        let going = whole_victims(state);
        let holding = self.mm.segment(segment).victims().holding_below(highest);
        let mut lower: Vec<AllocationId> = holding.filter(|id| self.may_lose(*id) && !going.contains(id)).collect();
        lower.sort_unstable();
        let mut exact = true;
        for id in lower {
            if !self.may_take(state, id) {
                continue;
            }
            if moves && self.mm.allocations[id].locks.count > 0 {
                exact = false;
                continue;
            }
            debug_assert!(self.lies_in(id, segment), "{id:?} holds pages of {segment:?}, and lies elsewhere");
            // Content that was to move leaves instead, from its present place.
            state.plan.relocations.retain(|step| step.allocation != id);
            state.plan.whole_victims.push((id, for_allocation));
        }
        exact
    }

    /// The highest protection that loses pages in a segment to a plan with whole victims there, and the allocation that it loses them to.
    fn highest_loser(&self, state: &PlanState, segment: SegmentId) -> Option<(ProcessPriority, AllocationId)> {
        let victims = state.plan.whole_victims.iter().filter(|(victim, _)| self.lies_in(*victim, segment));
        let (mut freed, mut highest, mut for_allocation) = (0, None, None);
        for &(victim, wanted) in victims {
            let allocation = &self.mm.allocations[victim];
            freed += allocation.resident_pages();
            for_allocation = Some(wanted);
            if allocation.doomed.is_none() && allocation.offer().is_none() {
                highest = highest.max(Some(allocation.band));
            }
        }
        let for_allocation = for_allocation?;
        let scattered = self.highest_of_scattered(state, segment, freed);
        Some((highest.max(scattered)?, for_allocation))
    }

    /// The highest protection that loses pages to the scattered content of a plan, behind whole victims with so many.
    fn highest_of_scattered(&self, state: &PlanState, segment: SegmentId, freed: u64) -> Option<ProcessPriority> {
        let (mut wanted, mut runs) = (0, 0);
        for &(id, place) in &state.plan.places {
            match place {
                Place::Memory(to, None) if to == segment => {
                    let here =
                        if self.present(id) == Some(segment) { self.mm.allocations[id].resident_pages() } else { 0 };
                    wanted += self.mm.allocations[id].pages - here;
                }
                Place::Memory(to, Some(run)) if to == segment => runs += run.count.0,
                Place::Memory(..) | Place::System(_) | Place::Outside => {}
            }
        }
        let free = (self.mm.segment(segment).free_pages() + freed).saturating_sub(runs);
        let mut short = wanted.saturating_sub(free);
        if short == 0 {
            return None;
        }
        let going = whole_victims(state);
        let taken = |id: &AllocationId| self.wanted.contains(id) || going.contains(id);
        let ranked = self.mm.segment(segment).victims().up_to(suspended_tier(ProcessPriority::Foreground));
        let mut victims: Vec<(usize, AllocationId)> = ranked.collect();
        let suspended = state.suspended.iter().flat_map(|suspect| suspect.content.iter().copied());
        let here = suspended.filter(|id| self.lies_in(*id, segment));
        victims.extend(here.map(|id| (suspended_tier(self.mm.allocations[id].band), id)));
        victims.sort_by_key(|(tier, _)| *tier);
        let mut highest = None;
        for (tier, id) in victims.into_iter().filter(|(_, id)| !taken(id)) {
            if short == 0 {
                break;
            }
            short = short.saturating_sub(self.mm.allocations[id].resident_pages());
            if tier >= lazy_tier(ProcessPriority::Background) {
                highest = highest.max(Some(self.mm.allocations[id].band));
            }
        }
        highest
    }

    /// Whether an allocation that its process holds may go: neither pinned nor what the plan is for.
    fn may_lose(&self, id: AllocationId) -> bool {
        self.mm.allocations[id].pins == 0 && !self.wanted.contains(&id)
    }

    fn lies_in(&self, id: AllocationId, segment: SegmentId) -> bool {
        matches!(&self.mm.allocations[id].placement, Placement::Memory(place, _) if *place == segment)
    }

    /// Suspends the running devices that list an allocation, if the claim may suspend all of them.
    fn may_take(&self, state: &mut PlanState, id: AllocationId) -> bool {
        let stands = |state: &PlanState, device: DeviceId| {
            self.mm.devices[device].is_suspended() || state.suspended.iter().any(|known| known.device == device)
        };
        let may_stop = |device: DeviceId| {
            let wants = self.claim.for_holders && self.wants(device);
            device != self.claim.device && !wants && self.mm.band_of(device) < self.mm.band_of(self.claim.device)
        };
        let holders = self.mm.allocations[id].holders.iter().copied();
        let runners: Vec<DeviceId> = holders.filter(|device| !stands(state, *device)).collect();
        let stops = self.mm.policy.suspend_others && self.claim.takes != Takes::Victims;
        if !runners.iter().all(|device| stops && may_stop(*device)) {
            return false;
        }
        for device in runners {
            let suspect = self.suspect(state, device);
            debug_assert!(self.mm.band_of(device) < self.mm.band_of(self.claim.device), "{device:?} is as protected");
            state.add_pages(&suspect);
            state.suspended.push(suspect);
        }
        true
    }
}

/// The allocations that leave whole, as a set.
fn whole_victims(state: &PlanState) -> BTreeSet<AllocationId> {
    state.plan.whole_victims.iter().map(|(victim, _)| *victim).collect()
}
