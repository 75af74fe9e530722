//! The budget of a plan in the making: pages per segment, bytes of budget, suspended devices. Called by `plan`.

use std::collections::BTreeSet;

use wddm_types::{PageRun, SegmentId};

use crate::budget::ProcessPriority;
use crate::budget::SegmentGroup;
use crate::pool::FramePool;
use crate::rank::{BANDS, lazy_tier, suspended_tier};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::placement::plan::hole::Hole;
use crate::vidmm::placement::plan::suspects::Suspect;
use crate::vidmm::placement::plan::{Limit, Place, Plan, Planner};

/// Why a list is not placed; the position is that of the allocation that failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    Locked(AllocationId),
    Budget { position: usize },
    Room { position: usize },
}

/// Why one allocation does not go into one segment.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoPlace {
    Locked,
    Budget,
    Room,
}

/// The pages that a segment can still give.
#[derive(Clone, Debug)]
pub(super) struct SegmentRoom {
    /// Free pages and victims' pages, less what is planned.
    pub pages: u64,
    /// Pages that are planned.
    pub used: u64,
    /// Free pages and those of victims up to each protection.
    below: [u64; BANDS],
    /// The last tier of victims that may be taken.
    pub tier: usize,
    /// A copy of the pool with contiguous content placed, made when first needed.
    pub trial: Option<FramePool>,
    /// Victims that the trial has given back.
    pub given: BTreeSet<AllocationId>,
}

/// A plan in the making.
#[derive(Clone, Debug)]
pub(super) struct PlanState {
    pub rooms: Vec<SegmentRoom>,
    /// Pages that all apertures together may still show.
    commit_left: u64,
    /// Bytes of budget left by group, once asked for.
    left: [Option<u64>; 2],
    spent: [u64; 2],
    pub suspended: Vec<Suspect>,
    /// Devices not suspended yet that may be, once asked for; the last one first.
    pub suspects: Option<Vec<DeviceId>>,
    /// Content may move within its segment.
    pub moves: bool,
    pub plan: Plan,
}

impl PlanState {
    pub fn new<F: Copy + Eq>(planner: &Planner<'_, F>) -> Self {
        let rooms = planner.mm.segments.all().iter().map(|segment| planner.room(segment.id)).collect();
        let commit_left = if planner.alone {
            planner.mm.segments.commit_limit_without_kernels()
        } else {
            let asides = planner.mm.asides_in_apertures().filter(|(id, _)| !planner.wanted.contains(id));
            planner.mm.segments.commit_left_pages() + asides.map(|(_, pages)| pages).sum::<u64>()
        };
        PlanState {
            rooms,
            commit_left,
            left: [None; 2],
            spent: [0; 2],
            suspended: Vec::new(),
            suspects: None,
            moves: planner.claim.moves,
            plan: Plan::default(),
        }
    }

    /// The same, and nothing moves within its segment.
    pub fn unmoving<F: Copy + Eq>(planner: &Planner<'_, F>) -> Self {
        PlanState { moves: false, ..PlanState::new(planner) }
    }

    /// Pages that a segment can still give.
    pub fn pages(&self, segment: SegmentId) -> u64 {
        self.rooms[index(segment)].pages
    }

    /// Plans pages of a segment.
    fn take_pages(&mut self, segment: SegmentId, pages: u64) {
        let room = &mut self.rooms[index(segment)];
        debug_assert!(pages <= room.pages, "{pages} pages of {segment:?} are planned, of {}", room.pages);
        room.pages -= pages;
        room.used += pages;
    }

    /// Whether so many pages more cannot come from processes up to this protection, as far as they are suspended.
    pub fn reaches_above(&self, segment: SegmentId, band: ProcessPriority, more: u64) -> bool {
        let room = &self.rooms[index(segment)];
        let freed = self.suspended.iter().flat_map(|suspect| &suspect.freed[index(segment)][..=band as usize]);
        let freed: u64 = freed.sum();
        room.used + more > room.below[band as usize] + freed
    }

    /// More pages in a segment, or fewer again.
    pub fn add_pages(&mut self, suspect: &Suspect) {
        for (room, pages) in self.rooms.iter_mut().zip(&suspect.freed) {
            room.pages += pages.iter().sum::<u64>();
        }
    }

    /// Gives up a suspended device again.
    pub fn remove_pages(&mut self, suspect: &Suspect) {
        for (room, pages) in self.rooms.iter_mut().zip(&suspect.freed) {
            room.pages -= pages.iter().sum::<u64>();
        }
    }

    /// Whether the plan stands without these pages.
    pub fn can_spare(&self, suspect: &Suspect) -> bool {
        debug_assert_eq!(self.rooms.len(), suspect.freed.len(), "pages come free by segment");
        let enough = self.rooms.iter().zip(&suspect.freed).all(|(room, pages)| room.pages >= pages.iter().sum());
        let used = |id: &AllocationId| self.rooms.iter().any(|room| room.given.contains(id));
        enough && !suspect.content.iter().any(used)
    }

    /// Whether the budget bears so many bytes more.
    pub fn affords<F: Copy + Eq>(&mut self, planner: &Planner<'_, F>, group: SegmentGroup, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let left = self.left[group as usize].get_or_insert_with(|| planner.budget_left(group));
        self.spent[group as usize].saturating_add(bytes) <= *left
    }

    /// Counts so many bytes as spent.
    pub fn spend(&mut self, group: SegmentGroup, bytes: u64) {
        self.spent[group as usize] += bytes;
    }

    /// Bytes of budget that are left.
    pub fn left_bytes(&self, group: SegmentGroup) -> u64 {
        self.left[group as usize].unwrap_or(0).saturating_sub(self.spent[group as usize])
    }
}

impl<F: Copy + Eq> Planner<'_, F> {
    fn room(&self, id: SegmentId) -> SegmentRoom {
        let segment = self.mm.segment(id);
        let (trial, given) = (None, BTreeSet::new());
        if self.alone {
            let pages = segment.pages_without_kernels();
            return SegmentRoom { pages, used: 0, below: [pages; BANDS], tier: 0, trial, given };
        }
        let standing = |id: &AllocationId| self.mm.allocations[*id].standing.filter(|s| s.segment == segment.id);
        let wanted: Vec<_> = self.list.iter().filter(|id| !self.has_left(**id)).filter_map(standing).collect();
        let tier = self.last_tier(segment.id, !wanted.is_empty());
        let anew: u64 = self.all_anew().filter_map(|id| standing(&id)).map(|standing| standing.pages).sum();
        // Content that the plan makes resident is no victim.
        let up_to = |tier: usize| {
            let own = wanted.iter().filter(|standing| standing.rank.is_some_and(|rank| rank.tier <= tier));
            let own: u64 = own.map(|standing| standing.pages).sum();
            segment.free_pages() + segment.victims().pages_up_to(tier) + anew - own
        };
        let below = [ProcessPriority::Background, ProcessPriority::Normal, ProcessPriority::Foreground];
        SegmentRoom {
            pages: up_to(tier),
            used: 0,
            below: below.map(|band| up_to(suspended_tier(band))),
            tier,
            trial,
            given,
        }
    }

    /// How far up the victims' order the claimant may go: to its own protection; and to unlisted content of higher processes, once no lower
    /// process holds a page. A protected process loses no byte while a lower one holds any.
    fn last_tier(&self, segment: SegmentId, keeps_pages: bool) -> usize {
        let victims = self.mm.segment(segment).victims();
        let band = self.mm.band_of(self.claim.device);
        let mut tier = suspended_tier(band);
        let (mut held, mut taken) = (0, 0);
        for below in [ProcessPriority::Background, ProcessPriority::Normal] {
            held += victims.held(below);
            taken += victims.pages_of(lazy_tier(below)) + victims.pages_of(suspended_tier(below));
            let above = if below == ProcessPriority::Background {
                ProcessPriority::Normal
            } else {
                ProcessPriority::Foreground
            };
            if above > band {
                if keeps_pages || held > taken {
                    return tier;
                }
                tier = lazy_tier(above);
            }
        }
        tier
    }

    fn budget_left(&self, group: SegmentGroup) -> u64 {
        let space = self.mm.devices[self.claim.device].space();
        let limit = match self.claim.limit {
            Limit::None => return u64::MAX,
            Limit::Current => self.mm.processes.budget_bytes(space, group),
            Limit::Maximum => self.mm.processes.budget_max_bytes(space, group),
        };
        // A budget of everything says nothing that the segments do not say more exactly.
        if limit >= self.mm.group_bytes(group) {
            return u64::MAX;
        }
        let leaving = if self.behind_evicts { self.mm.leaving_bytes(space, group) } else { 0 };
        (limit + leaving).saturating_sub(self.mm.processes.need(space, group))
    }

    /// Puts one allocation into one segment, if it has room or can be given some.
    pub(super) fn try_place(
        &self,
        state: &mut PlanState,
        id: AllocationId,
        candidate: SegmentId,
    ) -> Result<Place, NoPlace> {
        self.try_place_at(state, id, candidate, None)
    }

    /// The same; contiguous content into a run that was chosen for it.
    pub(super) fn try_place_at(
        &self,
        state: &mut PlanState,
        id: AllocationId,
        candidate: SegmentId,
        hole: Option<Hole>,
    ) -> Result<Place, NoPlace> {
        let allocation = &self.mm.allocations[id];
        let aperture = self.mm.segment(candidate).is_aperture();
        // spec: memory §6.3, not committed to a memory segment while locked
        let barred = allocation.locks.count > 0 && !self.mm.may_enter_locked(id, candidate);
        if !aperture && barred && !self.alone {
            return Err(NoPlace::Locked);
        }
        // spec: memory §6.5, marked content is not for an aperture: once out of memory it may be linear
        if aperture && self.mm.is_marked(id) {
            return Err(NoPlace::Room);
        }
        let cost = self.mm.segments.charged_group(candidate).map(|group| (group, self.growth(id, group)));
        if cost.is_some_and(|(group, growth)| !state.affords(self, group, growth)) {
            return Err(NoPlace::Budget);
        }
        let place = if allocation.takes_run(self.mm.segment(candidate)) {
            // spec: memory §1.12, the limit over all apertures beside that of each
            let pages = allocation.pages_in(self.mm.segment(candidate));
            if aperture && pages > state.commit_left {
                return Err(NoPlace::Room);
            }
            let run = match hole {
                Some(hole) => self.take_hole(state, id, candidate, hole),
                None => self.contiguous_or_suspend(state, id, candidate).ok_or(NoPlace::Room)?,
            };
            debug_assert_eq!(run.count.0, pages, "{id:?} has a run of its pages in {candidate:?}");
            if aperture {
                state.commit_left -= pages;
            } else {
                self.lower_first(state, candidate, 0);
            }
            if aperture { Place::System(Some((candidate, run))) } else { Place::Memory(candidate, Some(run)) }
        } else if aperture {
            Place::System(None)
        } else {
            let here = if self.present(id) == Some(candidate) { allocation.resident_pages() } else { 0 };
            let missing = allocation.pages - here;
            if !self.provide(state, candidate, missing) {
                return Err(NoPlace::Room);
            }
            state.take_pages(candidate, missing);
            Place::Memory(candidate, None)
        };
        if let Some((group, growth)) = cost {
            state.spend(group, growth);
        }
        Ok(place)
    }

    /// Step by step: victims of the lowest protection, devices of it, and so on upwards.
    fn contiguous_or_suspend(&self, state: &mut PlanState, id: AllocationId, candidate: SegmentId) -> Option<PageRun> {
        let before = state.suspended.len();
        let own = self.mm.band_of(self.claim.device);
        for band in [ProcessPriority::Background, ProcessPriority::Normal, ProcessPriority::Foreground] {
            let last = band >= own;
            let tier = if last { state.rooms[index(candidate)].tier } else { suspended_tier(band) };
            loop {
                if let Some(run) = self.contiguous(state, id, candidate, tier) {
                    return Some(run);
                }
                if !self.suspend_next(state, candidate, band) {
                    break;
                }
            }
            if last {
                break;
            }
        }
        self.give_up(state, before);
        None
    }
}

/// Position of a segment among the rooms.
pub(super) fn index(segment: SegmentId) -> usize {
    debug_assert!(!segment.is_system(), "system memory has no room that a plan counts");
    usize::from(segment.0) - 1
}
