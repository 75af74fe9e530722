//! A run of frames for contiguous content: as the pool gives it, or with whole victims given back in their order until it
//! does, or by moving what lies in the way. Nothing is changed but the plan. Called by `state`.
//!
//! Moves are looked for when pages enough are free and no run is. They are taken when they spare content: when the run
//! that they make costs fewer pages of victims, or lower ones, than the run that victims alone make.

use wddm_types::{PageRun, Pages, SegmentId};

use crate::allocation::Placement;
use crate::pool::FramePool;
use crate::rank::{DOOMED_TIER, suspended_tier};
use crate::segment::Wish;
use crate::slab::AllocationId;
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::state::{PlanState, SegmentRoom, index};
use crate::vidmm::placement::plan::{Plan, Planner, Relocated};

/// A run, and what it costs.
pub(super) struct Hole {
    run: PageRun,
    moved: Vec<Relocated>,
    victims: Vec<AllocationId>,
    /// Pages that those lose.
    lost: u64,
    /// The highest of their tiers.
    tier: usize,
}

impl<F: Copy + Eq> Planner<'_, F> {
    /// Plans a run for contiguous content, with victims up to a tier.
    // spec: memory §8.1
    pub(super) fn contiguous(
        &self,
        state: &mut PlanState,
        id: AllocationId,
        candidate: SegmentId,
        tier: usize,
    ) -> Option<PageRun> {
        let hole = self.find_hole(state, id, candidate, tier)?;
        Some(self.take_hole(state, id, candidate, hole))
    }

    /// Plans this run.
    pub(super) fn take_hole(
        &self,
        state: &mut PlanState,
        id: AllocationId,
        candidate: SegmentId,
        hole: Hole,
    ) -> PageRun {
        let Hole { run, moved, victims, .. } = hole;
        let (plan, room) = (&mut state.plan, &mut state.rooms[index(candidate)]);
        debug_assert!(run.count.0 <= room.pages, "{run:?} of {candidate:?} is planned, of {} pages", room.pages);
        debug_assert!(
            !victims.iter().any(|victim| room.given.contains(victim)),
            "{victims:?} leave for {id:?} once more"
        );
        let mut trial = self.trial(room, candidate);
        let needed = victims.iter().flat_map(|victim| frames_in(self.mm, plan, *victim, candidate));
        needed.for_each(|frames| trial.give(frames));
        moved.iter().for_each(|step| trial.take_exact(step.to));
        moved.iter().for_each(|step| trial.give(step.from));
        trial.take_exact(run);
        room.pages -= run.count.0;
        room.used += run.count.0;
        room.trial = Some(trial);
        room.given.extend(&victims);
        // Content that was to move and now leaves instead leaves from its present place.
        plan.relocations.retain(|step| !victims.contains(&step.allocation));
        plan.relocations.extend(moved);
        plan.whole_victims.extend(victims.into_iter().map(|victim| (victim, id)));
        run
    }

    /// A run in each free piece that holds contiguous content once every victim that may be taken has left, the tightest piece
    /// first; of pieces that are alike only the first.
    pub(super) fn holes(&self, state: &PlanState, id: AllocationId, candidate: SegmentId) -> Vec<Hole> {
        let allocation = &self.mm.allocations[id];
        let (plan, room) = (&state.plan, &state.rooms[index(candidate)]);
        let segment = self.mm.segment(candidate);
        let pages = allocation.pages_in(segment);
        if pages > room.pages {
            return Vec::new();
        }
        let mut trial = self.trial(room, candidate);
        let mut given = Vec::new();
        for (tier, victim) in self.victims_for(state, candidate, room.tier) {
            let frames = frames_in(self.mm, plan, victim, candidate);
            if !frames.is_empty() {
                frames.into_iter().for_each(|run| trial.give(run));
                given.push((tier, victim));
            }
        }
        let alignment = Wish::of(&allocation.info, segment).alignment();
        let mut pieces = trial.free_runs();
        pieces.sort_by_key(|piece| piece.count);
        if alignment == 1 {
            pieces.dedup_by_key(|piece| piece.count);
        }
        let within = |piece: PageRun| {
            let first = piece.first.next_multiple_of(alignment);
            let run = PageRun { first, count: Pages(pages) };
            (run.end() <= piece.end()).then(|| self.hole(plan, candidate, run, Vec::new(), &given))
        };
        pieces.into_iter().filter_map(within).collect()
    }

    fn find_hole(&self, state: &PlanState, id: AllocationId, candidate: SegmentId, tier: usize) -> Option<Hole> {
        let allocation = &self.mm.allocations[id];
        let (plan, room) = (&state.plan, &state.rooms[index(candidate)]);
        let segment = self.mm.segment(candidate);
        let pages = allocation.pages_in(segment);
        if pages > room.pages {
            return None;
        }
        let wish = Wish::of(&allocation.info, segment);
        let mut trial = self.trial(room, candidate);
        let mut victims = self.victims_for(state, candidate, tier).into_iter().peekable();
        let mut given: Vec<(usize, AllocationId)> = Vec::new();
        let mut by_moves: Option<Hole> = None;
        // After how many victims moves are looked for again.
        let mut look_at = 0;
        loop {
            if let Some(run) = wish.take_contiguous(&mut trial, pages) {
                debug_assert_eq!(run.count.0, pages, "a hole for {id:?} is as long as it");
                let plain = self.hole(plan, candidate, run, Vec::new(), &given);
                let spares = |hole: &Hole| hole.lost < plain.lost || hole.tier < plain.tier;
                return Some(by_moves.filter(spares).unwrap_or(plain));
            }
            let next = victims.peek().map(|(tier, _)| *tier);
            // The destroyed have nothing to lose.
            let due = next.is_none_or(|tier| tier > DOOMED_TIER && given.len() >= look_at);
            let enough = trial.free_pages() >= pages;
            if by_moves.is_none() && due && enough && state.moves && self.may_move(plan, &given, candidate) {
                let gone = |id: AllocationId| given.iter().any(|(_, victim)| *victim == id) || room.given.contains(&id);
                by_moves = self
                    .compact(plan, &trial, id, candidate, gone)
                    .map(|(run, moved)| self.hole(plan, candidate, run, moved, &given));
                look_at = 2 * given.len().max(1);
            }
            if by_moves.as_ref().is_some_and(|hole| hole.lost == 0) {
                return by_moves;
            }
            let Some((tier, victim)) = victims.next() else { return by_moves };
            let frames = frames_in(self.mm, plan, victim, candidate);
            if !frames.is_empty() {
                frames.into_iter().for_each(|run| trial.give(run));
                given.push((tier, victim));
            }
        }
    }

    /// The victims that may be taken, in order. Content of devices about to be suspended follows unneeded content of the same protection.
    fn victims_for(&self, state: &PlanState, candidate: SegmentId, tier: usize) -> Vec<(usize, AllocationId)> {
        let suspended = state.suspended.iter().flat_map(|suspect| suspect.content.iter().copied());
        let ranked = self.mm.segment(candidate).victims().up_to(tier).filter(|_| !self.alone);
        let mut victims: Vec<(usize, AllocationId)> = ranked.collect();
        victims.extend(suspended.map(|id| (suspended_tier(self.mm.allocations[id].band), id)));
        victims.retain(|(of, _)| *of <= tier);
        victims.sort_by_key(|(tier, _)| *tier);
        let given = &state.rooms[index(candidate)].given;
        let taken = |victim: &AllocationId| self.has_left(*victim) || given.contains(victim);
        victims.retain(|(_, victim)| !self.wanted.contains(victim) && !taken(victim));
        victims
    }

    /// A copy of the pool with all that is planned.
    fn trial(&self, room: &SegmentRoom, candidate: SegmentId) -> FramePool {
        if let Some(trial) = &room.trial {
            return trial.clone();
        }
        let segment = self.mm.segment(candidate);
        if self.alone {
            return segment.emptied_trial();
        }
        let mut trial = segment.trial();
        let victims =
            segment.victims().up_to(self.tier_of_unneeded()).filter(|_| self.emptied).map(|(_, victim)| victim);
        for left in victims.chain(self.all_anew()) {
            frames_in(self.mm, &Plan::default(), left, candidate).into_iter().for_each(|run| trial.give(run));
        }
        trial
    }

    /// The hole at `run`: of the `given` victims, only those in it or in the targets of the moves lose pages.
    fn hole(
        &self,
        plan: &Plan,
        candidate: SegmentId,
        run: PageRun,
        moved: Vec<Relocated>,
        given: &[(usize, AllocationId)],
    ) -> Hole {
        let here = |step: &Relocated| step.segment == candidate && step.from.count == step.to.count;
        debug_assert!(moved.iter().all(here), "a hole in {candidate:?} is made by {moved:?}");
        let places: Vec<PageRun> = moved.iter().map(|step| step.to).chain([run]).collect();
        let meets = |frames: &PageRun| places.iter().any(|at| frames.first < at.end() && at.first < frames.end());
        let needed =
            |(_, victim): &&(usize, AllocationId)| frames_in(self.mm, plan, *victim, candidate).iter().any(meets);
        let needed: Vec<(usize, AllocationId)> = given.iter().filter(needed).copied().collect();
        let lives = |(tier, _): &&(usize, AllocationId)| *tier > DOOMED_TIER;
        let lost = needed.iter().filter(lives).map(|(_, victim)| self.mm.allocations[*victim].resident_pages()).sum();
        let tier = needed.iter().map(|(tier, _)| *tier).max().unwrap_or(0);
        Hole { run, moved, victims: needed.into_iter().map(|(_, victim)| victim).collect(), lost, tier }
    }
}

/// The frames that an allocation has in a segment, as the plan moves it.
fn frames_in<F>(mm: &VidMm<F>, plan: &Plan, id: AllocationId, segment: SegmentId) -> Vec<PageRun> {
    let (present, extents) = match &mm.allocations[id].placement {
        Placement::Memory(present, extents) => (present, extents),
        Placement::System(Some((aperture, run))) if *aperture == segment => return vec![*run],
        Placement::System(_) | Placement::None => return Vec::new(),
    };
    if *present != segment {
        return Vec::new();
    }
    let mut extents = extents.clone();
    for step in plan.relocations.iter().filter(|step| step.allocation == id) {
        extents.relocate(step.from.first, step.from.count.0, step.to.first);
    }
    extents.iter().map(|e| PageRun { first: e.frame, count: Pages(e.count) }).collect()
}
