//! The planner's third choice (policy, [`Policy::read_in_place`](crate::Policy)): content that work only reads stays in system memory, and the
//! engine reads it there. `foresight` prices it; this file says what may be left, and does it.
//!
//! - Only what its driver lets lie in an aperture: then it may be reached by page tables alone (memory §1.6).
//! - It is decided at each MakeResident of content on no list; only the planner's work ahead brings it earlier. So an Evict leaves it where it is, at no cost, and the next
//!   list waits for no use.
//! - It is a subject that has no page in its segment, and counts for the budget of system memory while a list names it.
//! - A wrong forecast costs time alone: what work writes there is written, and told.

use ddi::AllocationFlags;
use foresight::{Ended, Event};
use wddm_types::SegmentId;

use crate::allocation::{Allocation, Placement};
use crate::foreseen::{id_of, key_of};
use crate::rank::{BANDS, TIERS};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::{Place, Plan};
use crate::vidmm::placement::residency::unique;

/// The last tier of what goes before anything that is lazily evicted: the destroyed and the offered.
const WORTHLESS_TIER: usize = TIERS - 2 * BANDS - 1;

impl<F: Copy + Eq> VidMm<F> {
    /// Whether an allocation is where the GPU reaches it, and no list decides that anew.
    pub(crate) fn stays_resident(&self, id: AllocationId) -> bool {
        self.is_resident(id) && !self.is_decided_anew(id)
    }

    /// Whether the next list decides anew where an allocation goes that work has read in place.
    pub(crate) fn is_decided_anew(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        let free = allocation.count == 0 && allocation.pins == 0 && allocation.locks.count == 0;
        allocation.in_place && free && allocation.aside.is_none()
    }

    /// Behind a list that was told: takes out of its plan what its work reads in place, and tells it.
    // spec: memory §8.1
    pub(crate) fn leave_in_place(&mut self, device: DeviceId, list: &[AllocationId], plan: &mut Plan) {
        if !self.policy.read_in_place || !self.foreseen.is_on() {
            return;
        }
        let Plan { suspends, whole_victims, anew, relocations, quiesced, .. } = &*plan;
        let stops_none = suspends.is_empty() && quiesced.is_empty();
        if stops_none && whole_victims.is_empty() && anew.is_empty() && relocations.is_empty() {
            for segment in self.foreseen.planned().iter() {
                for id in self.chosen_in_place(device, segment, list, plan) {
                    let place = plan.places.iter_mut().find(|(planned, _)| *planned == id);
                    place.expect("it was chosen of these").1 = Place::Outside;
                }
            }
        }
        // What lies there already stays without a move.
        let stays = |id: AllocationId, place: Place| {
            self.allocations[id].in_place && matches!(place, Place::Outside | Place::System(None))
        };
        plan.places.retain(|&(id, place)| !stays(id, place));
        for id in unique(list) {
            let planned = plan.places.iter().find(|(planned, _)| *planned == id);
            let allocation = &self.allocations[id];
            if planned.map_or(allocation.in_place, |(_, place)| matches!(place, Place::Outside)) {
                let read = Event::InPlace { key: key_of(id), read: allocation.pages, written: 0 };
                self.foreseen.hear(allocation.first_segment(), read);
            }
        }
    }

    /// What of a plan the list's work reads in place instead of in a segment.
    fn chosen_in_place(
        &self,
        device: DeviceId,
        segment: SegmentId,
        list: &[AllocationId],
        plan: &Plan,
    ) -> Vec<AllocationId> {
        let here = |place: &Place| matches!(place, Place::Memory(to, _) if *to == segment);
        let coming: Vec<AllocationId> =
            plan.places.iter().filter(|(_, place)| here(place)).map(|(id, _)| *id).collect();
        let place = self.segment(segment);
        let missing = coming.iter().map(|id| &self.allocations[*id]).map(|a| a.pages_in(place) - a.resident_pages());
        let free = place.free_pages() + place.victims().pages_up_to(WORTHLESS_TIER);
        let lacking = missing.sum::<u64>().saturating_sub(free);
        if lacking == 0 {
            return Vec::new();
        }
        let absent: Vec<AllocationId> =
            coming.into_iter().filter(|id| self.may_be_read_in_place(*id, segment)).collect();
        if absent.is_empty() {
            return Vec::new();
        }
        let mut named = list.to_vec();
        named.sort_unstable();
        let order = place.victims().lazily_evicted().filter(|id| named.binary_search(id).is_err());
        let chosen = self.foreseen.in_place(segment, &absent, lacking, order);
        self.as_budget_allows(device, chosen)
    }

    /// Those that the process's budget of system memory bears on its lists.
    // spec: memory §5.5
    fn as_budget_allows(&self, device: DeviceId, mut chosen: Vec<AllocationId>) -> Vec<AllocationId> {
        let Some(group) = self.segments.system_group() else { return chosen };
        let space = self.devices[device].space();
        let budget = self.processes.budget_bytes(space, group);
        let mut left = budget.saturating_sub(self.processes.need(space, group));
        chosen.retain(|id| {
            let bytes = self.allocations[*id].bytes();
            let affords = bytes <= left;
            left -= if affords { bytes } else { 0 };
            affords
        });
        chosen
    }

    /// Whether an allocation that has no page in a segment may be read where it lies.
    fn may_be_read_in_place(&self, id: AllocationId, segment: SegmentId) -> bool {
        let allocation = &self.allocations[id];
        let absent = matches!(allocation.placement, Placement::None) || self.is_decided_anew(id);
        let reached = allocation.info.supported_segments.iter().any(|segment| self.segment(segment).is_aperture());
        absent
            && reached
            && allocation.count == 0
            && allocation.first_segment() == segment
            && allocation.is_subject()
            && allocation.is_plain()
            && !self.is_marked(id)
            && !self.spaces.change_only_idle()
    }

    /// Work has written some of this where it lies.
    pub(crate) fn foresee_writes_in_place(&mut self, segment: SegmentId, ended: &[Ended]) {
        for one in ended.iter().filter(|one| one.written) {
            let allocation = &self.allocations[id_of(one.key)];
            if allocation.in_place {
                let written = Event::InPlace { key: one.key, read: 0, written: allocation.pages };
                self.foreseen.hear(segment, written);
            }
        }
    }
}

impl<F> Allocation<F> {
    /// Whether page tables alone lead to it, past no cache of the CPU, and neither the driver nor the kernel has a hand in it.
    fn is_plain(&self) -> bool {
        let cached = self.info.flags.contains(AllocationFlags::CACHED);
        !cached && !self.contiguous() && self.context.is_none() && !self.stores_fences()
    }
}
