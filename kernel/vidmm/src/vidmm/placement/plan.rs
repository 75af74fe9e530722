//! Plans where the content of one call goes and which devices and victims lose pages for it, without changing anything. Called by
//! `residency`, `offer` and `suspend`.
//!
//! Scattered content is planned by counting pages. Contiguous content (memory §1.6) needs a run: the plan tries it on a
//! copy of the pool, giving back whole victims in their order until one fits. Content that no running device needs counts as room at once;
//! if that is not enough, the plan suspends lower devices one after the other, as few as possible. Content of a process of lower
//! protection, on lists or not, goes before any of a higher one, to the last byte (`protection`).
//!
//! When pages enough are free and no run is, content moves within the segment if that spares others theirs (`hole`, `compaction`).
//!
//! A list is first placed in its own order. Only if that fails is a better packing looked for: the least free first,
//! then a bounded search. So no request is refused that a perfect packer would grant with all victims gone, as far as
//! the search goes.
//!
//! # The trade-offs
//! A plan is made for each MakeResident that lacks something, so it has to be cheap where memory is plenty, and right where it is not.
//!
//! | choice | what it buys | what it costs |
//! |---|---|---|
//! | nothing changes until the whole list is placed | a refusal changes nothing, and needs no way back | trials on copies of a pool, made in the time of its free runs |
//! | a list that is resident is seen before anything is copied | the usual call costs one look at each allocation | two looks at a list that is not |
//! | scattered content is counted, not placed | a list of thousands is planned in the time of its length | which pages go is decided only when they go (`victim`) |
//! | contiguous content is placed exactly | it never fails later | each try gives victims back one by one until a run fits |
//! | victims go in their order, whole for a run | the order holds for every program alike | a run may cost more pages than the best choice of victims would |
//! | devices are suspended one after the other, and superfluous ones spared afterwards | as few as one pass finds, in time linear in devices | not always the fewest that there are |
//! | the list's own order first, then least free first, then a search of [`Policy::plan_search_steps`](crate::Policy::plan_search_steps) | the usual list costs one pass; a refusal is right as far as the search goes | a refusal is the dearest answer |
//! | content moves within a segment before others lose theirs | no copy to system memory and back | devices that list it quiesce for the copy |
//! | content of lower protection goes first, to the last byte | a promise that a program can count on (`protection`) | background work may lose more than the claim needs |

mod alone;
mod claim;
mod compaction;
mod hole;
mod protection;
mod search;
mod state;
mod suspects;

use std::collections::BTreeSet;

use wddm_types::{PageRun, Pages, SegmentId};

use crate::rank::lazy_tier;
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::state::{PlanState, Refused};
use crate::vidmm::placement::residency::{MakeResidentError, unique};
pub(crate) use claim::{Claim, Limit, Takes};

/// Where one allocation goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Into a memory segment; contiguous content into these frames.
    Memory(SegmentId, Option<PageRun>),
    /// Into system memory; content that is accessed physically behind these pages of an aperture.
    System(Option<(SegmentId, PageRun)>),
    /// Into system memory, where work reads it until a list decides anew.
    Outside,
}

/// The changes that a call will make.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Devices to be suspended first.
    pub suspends: Vec<DeviceId>,
    /// Victims that lose everything for a contiguous run, with the allocation that needs it.
    pub whole_victims: Vec<(AllocationId, AllocationId)>,
    /// Content of the claimant's own list that is placed anew, with the allocation that needs it: it leaves first.
    pub anew: Vec<(AllocationId, AllocationId)>,
    /// Content that moves within its segment for a contiguous run, once the victims are gone.
    pub relocations: Vec<Relocated>,
    /// Running devices whose lists hold content of `anew` or `relocations`: they quiesce meanwhile.
    pub quiesced: Vec<DeviceId>,
    /// Allocations that miss pages.
    pub places: Vec<(AllocationId, Place)>,
}

impl Plan {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.suspends.is_empty()
            && self.whole_victims.is_empty()
            && self.anew.is_empty()
            && self.relocations.is_empty()
            && self.quiesced.is_empty()
            && self.places.is_empty()
    }
}

/// Content that moves within its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relocated {
    pub allocation: AllocationId,
    pub segment: SegmentId,
    /// Frames that it leaves.
    pub from: PageRun,
    /// As many that it goes to.
    pub to: PageRun,
    /// The allocation that needs the hole.
    pub for_allocation: AllocationId,
}

/// The inputs of one plan, which stay the same while it is made.
pub(crate) struct Planner<'a, F> {
    mm: &'a VidMm<F>,
    claim: Claim,
    /// The list, each allocation once.
    list: Vec<AllocationId>,
    wanted: BTreeSet<AllocationId>,
    /// Plans as if no other device had content here.
    alone: bool,
    /// Plans as if all unneeded content had left, including that on the list, which is placed anew.
    emptied: bool,
    /// Plans as if the device's own listed content had left in favour of this allocation: it is placed anew, as part of the list.
    anew_for: Option<AllocationId>,
    /// Plans for the time after the evicts that wait for the device's queued work: the budget has room for what they take off its list.
    behind_evicts: bool,
    /// What the call itself asks for, of `list`; the rest is on the device's list already.
    request: BTreeSet<AllocationId>,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Plans to make `list` resident for a device.
    pub(crate) fn plan(&self, claim: Claim, list: &[AllocationId]) -> Result<Plan, MakeResidentError> {
        if self.has_all(claim, list) {
            return Ok(Plan::default());
        }
        Planner::new(self, claim, list, false).run()
    }

    /// The same, if all unneeded content left first, of the list too ([`VidMm::clear_victims`]): it may lie in the way of a better packing.
    pub(crate) fn plan_emptied(&self, claim: Claim, list: &[AllocationId]) -> Result<(), MakeResidentError> {
        let planner = Planner { emptied: true, ..Planner::new(self, claim, list, false) };
        planner.run().map(drop)
    }

    /// Plans to make `list` resident with what the device lists itself placed anew.
    pub(crate) fn plan_anew(&self, claim: Claim, list: &[AllocationId]) -> Result<Plan, MakeResidentError> {
        Planner::anew(self, claim, list).run()
    }

    /// The same, if all unneeded content left first.
    pub(crate) fn plan_emptied_anew(&self, claim: Claim, list: &[AllocationId]) -> Result<(), MakeResidentError> {
        let planner = Planner { emptied: true, ..Planner::anew(self, claim, list) };
        planner.run().map(drop)
    }

    /// Whether all of it is resident and charged to the process already: the usual case, found without a copy of the list.
    fn has_all(&self, claim: Claim, list: &[AllocationId]) -> bool {
        let space = self.devices[claim.device].space();
        list.iter().all(|&id| self.stays_resident(id) && (claim.limit == Limit::None || self.process_holds(space, id)))
    }
}

impl<'a, F: Copy + Eq> Planner<'a, F> {
    fn new(mm: &'a VidMm<F>, claim: Claim, list: &[AllocationId], alone: bool) -> Self {
        let list = unique(list);
        let wanted: BTreeSet<AllocationId> = list.iter().copied().collect();
        let request = wanted.clone();
        Planner { mm, claim, list, wanted, alone, emptied: false, anew_for: None, behind_evicts: false, request }
    }

    fn anew(mm: &'a VidMm<F>, claim: Claim, list: &[AllocationId]) -> Self {
        let own = mm.list_of(claim.device).into_iter().filter(|id| mm.may_be_placed_anew(*id));
        let all: Vec<AllocationId> = list.iter().copied().chain(own).collect();
        Planner { anew_for: list.first().copied(), ..Planner::new(mm, claim, &all, false) }
    }

    fn run(&self) -> Result<Plan, MakeResidentError> {
        let mut state = PlanState::new(self);
        let refused = match self.place_all(&mut state, &self.list) {
            Ok(()) => return Ok(self.finished(state)),
            Err(refused) => refused,
        };
        if !state.plan.relocations.is_empty() {
            // A move for one may stand in the way of another.
            let mut unmoving = PlanState::unmoving(self);
            if self.place_all(&mut unmoving, &self.list).is_ok() {
                return Ok(self.finished(unmoving));
            }
        }
        if let Some(packed) = self.pack_better() {
            return Ok(self.finished(packed));
        }
        Err(self.refusal(refused, &state))
    }

    /// Whether an allocation has everything that it needs.
    fn is_settled(&self, id: AllocationId) -> bool {
        !self.alone && self.mm.stays_resident(id) && !self.has_left(id)
    }

    /// Whether the plan counts an allocation as gone, because all unneeded content left or because it is placed anew.
    fn has_left(&self, id: AllocationId) -> bool {
        let rank = self.mm.allocations[id].standing.and_then(|standing| standing.rank);
        let unneeded = self.emptied && rank.is_some_and(|rank| rank.tier <= self.tier_of_unneeded());
        unneeded || self.is_anew(id)
    }

    /// Whether an allocation leaves only to be placed anew.
    fn is_anew(&self, id: AllocationId) -> bool {
        let listed = || self.mm.devices[self.claim.device].lists(id);
        self.anew_for.is_some() && listed() && self.mm.may_be_placed_anew(id)
    }

    /// Everything that leaves only to be placed anew.
    fn all_anew(&self) -> impl Iterator<Item = AllocationId> + '_ {
        self.list.iter().copied().filter(|id| self.is_anew(*id))
    }

    /// The last tier of unneeded content that the claimant may take, by its protection.
    fn tier_of_unneeded(&self) -> usize {
        lazy_tier(self.mm.band_of(self.claim.device))
    }

    /// Places allocations in this order.
    fn place_all(&self, state: &mut PlanState, order: &[AllocationId]) -> Result<(), Refused> {
        for (position, &id) in order.iter().enumerate() {
            if self.stays(state, id) {
                continue;
            }
            let mut locked = false;
            let mut over_budget = false;
            let candidates = self.candidates(id);
            let placed = candidates.into_iter().find_map(|candidate| {
                match self.try_place(state, id, candidate) {
                    Ok(place) => return Some(place),
                    Err(state::NoPlace::Locked) => locked = true,
                    Err(state::NoPlace::Budget) => over_budget = true,
                    Err(state::NoPlace::Room) => {}
                }
                None
            });
            match placed {
                Some(place) => state.plan.places.push((id, place)),
                None if locked => return Err(Refused::Locked(id)),
                None if over_budget => return Err(Refused::Budget { position }),
                None => return Err(Refused::Room { position }),
            }
        }
        Ok(())
    }

    /// Whether an allocation is where it is to be and may stay there. Content on a list takes no new room; content on no list counts
    /// against the budget, and may have to move out of its group.
    fn stays(&self, state: &mut PlanState, id: AllocationId) -> bool {
        if !self.is_settled(id) {
            return false;
        }
        let Some(group) = self.mm.group_of_placement(id) else { return true };
        let growth = self.growth(id, group);
        let stays = self.mm.allocations[id].count > 0 || state.affords(self, group, growth);
        if stays {
            state.spend(group, growth);
        }
        stays
    }

    /// Only the budget's part: whether the list may grow by all of these.
    fn afford_all(&self) -> Result<(), MakeResidentError> {
        let mut state = PlanState::new(self);
        for (position, &id) in self.list.iter().enumerate() {
            let groups = self.candidates(id).into_iter().map(|candidate| self.mm.segments.charged_group(candidate));
            let affordable = groups.map(|group| group.map(|group| (group, self.growth(id, group))));
            let mut affordable =
                affordable.filter(|cost| cost.is_none_or(|(group, bytes)| state.affords(self, group, bytes)));
            match affordable.next() {
                Some(Some((group, bytes))) => state.spend(group, bytes),
                Some(None) => {}
                None => return Err(self.refusal(Refused::Budget { position }, &state)),
            }
        }
        Ok(())
    }

    /// By how many bytes a process's need in a group grows when an allocation goes there.
    fn growth(&self, id: AllocationId, group: crate::budget::SegmentGroup) -> u64 {
        let space = self.mm.devices[self.claim.device].space();
        let allocation = &self.mm.allocations[id];
        let counted = allocation.charged == Some(group) && self.mm.process_holds(space, id);
        if counted { 0 } else { allocation.bytes() }
    }

    /// Where an allocation may go. The plan completes partly resident content in its segment if it can (memory §10.4 item 26).
    fn candidates(&self, id: AllocationId) -> Vec<SegmentId> {
        let allocation = &self.mm.allocations[id];
        let present = self.present(id);
        let others = allocation.candidates().filter(|candidate| Some(*candidate) != present);
        present.into_iter().chain(others).collect()
    }

    /// The memory segment that has a part of an allocation.
    fn present(&self, id: AllocationId) -> Option<SegmentId> {
        match &self.mm.allocations[id].placement {
            crate::allocation::Placement::Memory(segment, _) if !self.alone && !self.has_left(id) => Some(*segment),
            _ => None,
        }
    }

    fn finished(&self, mut state: PlanState) -> Plan {
        self.spare_superfluous(&mut state);
        if !self.empty_below(&mut state) {
            let mut unmoving = PlanState::unmoving(self);
            if self.place_all(&mut unmoving, &self.list).is_ok() {
                self.spare_superfluous(&mut unmoving);
                self.empty_below(&mut unmoving);
                state = unmoving;
            }
        }
        state.plan.suspends = state.suspended.iter().map(|suspect| suspect.device).collect();
        let claimant = self.claim.device;
        debug_assert!(!state.plan.suspends.contains(&claimant), "{claimant:?} is suspended for its own room");
        state.plan.anew =
            self.anew_for.into_iter().flat_map(|wanted| self.all_anew().map(move |id| (id, wanted))).collect();
        state.plan.quiesced = self.devices_to_quiesce(&state.plan);
        let Plan { places, whole_victims, relocations, .. } = &state.plan;
        let unwanted = places.iter().find(|(id, _)| !self.wanted.contains(id));
        debug_assert!(unwanted.is_none(), "{unwanted:?} gets a place that no list asks for");
        let wanted = whole_victims.iter().find(|(victim, _)| self.wanted.contains(victim));
        debug_assert!(wanted.is_none(), "{wanted:?} leaves, and is wanted");
        let leaves = |step: &&Relocated| whole_victims.iter().any(|(victim, _)| *victim == step.allocation);
        let both = relocations.iter().find(leaves);
        debug_assert!(both.is_none(), "{both:?} moves, and leaves");
        state.plan
    }

    fn refusal(&self, refused: Refused, state: &PlanState) -> MakeResidentError {
        let bytes_to_trim = match refused {
            Refused::Locked(allocation) => return MakeResidentError::Locked { allocation },
            Refused::Budget { position } => self.overshoot(position, state),
            Refused::Room { position } => self.missing_bytes(position, state),
        };
        MakeResidentError::OutOfMemory { bytes_to_trim }
    }

    /// By how many bytes the list would exceed the budget, the rest of the list counted where it would go there too.
    // spec: memory §5.2
    fn overshoot(&self, position: usize, state: &PlanState) -> u64 {
        let group = |id: AllocationId| {
            let mut groups =
                self.candidates(id).into_iter().filter_map(|candidate| self.mm.segments.charged_group(candidate));
            self.mm.group_of_placement(id).or_else(|| groups.next())
        };
        let failing = group(self.list[position]).expect("only what is charged is refused for a budget");
        let behind = self.list[position..].iter().filter(|id| group(**id) == Some(failing));
        let wanted: u64 = behind.map(|&id| self.growth(id, failing)).sum();
        let left = state.left_bytes(failing);
        // The spent part of the list may have been larger than the failing rest.
        wanted.saturating_sub(left).max(1)
    }

    /// The bytes that are missing in the largest segment that the failing allocation supports, the rest of the list
    /// counted where it would go there too.
    // spec: memory §10.1 row 11
    fn missing_bytes(&self, position: usize, state: &PlanState) -> u64 {
        let mm = self.mm;
        let failing = &mm.allocations[self.list[position]];
        let usable = failing.candidates().max_by_key(|id| (mm.capacity_bytes(*id), std::cmp::Reverse(*id)));
        let segment = usable.expect("a supported segment");
        let here = |id: AllocationId| if self.alone { 0 } else { mm.allocations[id].resident_pages() };
        let missing = |id: &AllocationId| {
            let allocation = &mm.allocations[*id];
            let first = allocation.candidates().next();
            let counts = first == Some(segment) && !self.is_settled(*id);
            if counts { allocation.pages_in(mm.segment(segment)) - here(*id) } else { 0 }
        };
        let own = failing.pages_in(mm.segment(segment)) - here(self.list[position]);
        let behind: u64 = self.list[position + 1..].iter().map(missing).sum();
        // Contiguous content can fail though pages enough are free: then its own size is a step forward.
        let shortage = (own + behind).checked_sub(state.pages(segment)).filter(|&pages| pages > 0).unwrap_or(own);
        let request: u64 = self.request.iter().map(|id| mm.allocations[*id].pages_in(mm.segment(segment))).sum();
        let never = request > mm.segment(segment).capacity_pages();
        Pages(if never { request } else { shortage }).bytes()
    }
}
