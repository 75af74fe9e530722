//! A better packing for a list that failed in its own order. Called by `plan`.
//!
//! Scattered content with one memory segment to go to has nothing to choose, and contiguous content alone neither. With
//! a choice, the order decides: those with the fewest segments first, contiguous before scattered, large before small.
//! If that fails too, all assignments are tried, up to the policy's number of steps: of each allocation to each segment, of contiguous
//! content to each free piece that there is once every victim that may be taken has left. A piece is filled from its start, so where
//! alignments differ more than its length a better order inside one is not looked for.

use crate::slab::AllocationId;
use crate::vidmm::placement::plan::Planner;
use crate::vidmm::placement::plan::state::PlanState;

impl<F: Copy + Eq> Planner<'_, F> {
    /// A state in which all of the list has its place, if one is found.
    pub(super) fn pack_better(&self) -> Option<PlanState> {
        if !self.has_choice() {
            return None;
        }
        let mut order = self.list.clone();
        order.sort_by_key(|&id| {
            let allocation = &self.mm.allocations[id];
            let segments = self.candidates(id).len();
            (segments, !allocation.contiguous(), std::cmp::Reverse(allocation.pages))
        });
        let mut state = PlanState::new(self);
        if self.place_all(&mut state, &order).is_ok() {
            return Some(state);
        }
        let mut start = PlanState::new(self);
        self.suspend_all(&mut start);
        let mut steps = self.mm.policy.plan_search_steps;
        self.search(start, &order, &mut steps)
    }

    /// Tries every place of the first, then of the rest.
    fn search(&self, state: PlanState, order: &[AllocationId], steps: &mut u32) -> Option<PlanState> {
        let Some((&id, rest)) = order.split_first() else { return Some(state) };
        let mut state = state;
        if self.stays(&mut state, id) {
            return self.search(state, rest, steps);
        }
        for candidate in self.candidates(id) {
            let takes_run = self.mm.allocations[id].takes_run(self.mm.segment(candidate));
            let holes = if takes_run { self.holes(&state, id, candidate) } else { Vec::new() };
            // Last what `try_place` finds by itself: content may move for it.
            for hole in holes.into_iter().map(Some).chain([None]) {
                *steps = steps.checked_sub(1)?;
                let mut next = state.clone();
                if let Ok(place) = self.try_place_at(&mut next, id, candidate, hole) {
                    next.plan.places.push((id, place));
                    if let Some(found) = self.search(next, rest, steps) {
                        return Some(found);
                    }
                }
            }
        }
        None
    }

    fn has_choice(&self) -> bool {
        let open: Vec<&AllocationId> = self.list.iter().filter(|id| !self.is_settled(**id)).collect();
        let chooses = |id: &AllocationId| self.candidates(*id).len() > 1 || self.mm.allocations[*id].contiguous();
        open.len() > 1 && open.into_iter().any(chooses)
    }
}
