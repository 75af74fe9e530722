//! A hole for contiguous content by moving other content within the segment: which content may move, which victims must leave beside that,
//! which devices quiesce. Nothing is changed; the pool finds the moves on the plan's copy of it. Called by `plan`.
//!
//! In a segment that aligns pitches nothing moves: content there differs from the bytes in its pages. Elsewhere stays: pinned content
//! (displayed, being updated, Unmoveable), locked content (the CPU writes it through an address of its own), the destroyed, and content
//! that this plan has placed or moved already. Contiguous content moves whole and keeps its alignment.

use std::collections::BTreeSet;

use wddm_types::{PageRun, Pages, SegmentId};

use crate::allocation::Placement;
use crate::pool::{FramePool, Movable};
use crate::segment::Wish;
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::placement::plan::{Plan, Planner, Relocated};

impl<F: Copy + Eq> Planner<'_, F> {
    /// Whether content may move within a segment for this plan. Where the CPU still reads a place that was locked and has
    /// been given up, nothing may come before it is shown another.
    pub(super) fn may_move(&self, plan: &Plan, given: &[(usize, AllocationId)], segment: SegmentId) -> bool {
        let locked = |id: &AllocationId| self.mm.allocations[*id].locks.count > 0;
        let victims =
            || plan.whole_victims.iter().map(|(victim, _)| victim).chain(given.iter().map(|(_, victim)| victim));
        let place = self.mm.segment(segment);
        let plain = !place.is_aperture() && !place.aligns_pitches();
        let possible = self.mm.policy.moves_within_segments && !self.alone && plain;
        possible && !victims().any(locked)
    }

    /// A hole in a copy of the pool, and the moves that make it. `gone`: victims, given back already.
    // spec: memory §8.1
    pub(super) fn compact(
        &self,
        plan: &Plan,
        trial: &FramePool,
        id: AllocationId,
        segment: SegmentId,
        gone: impl Fn(AllocationId) -> bool,
    ) -> Option<(PageRun, Vec<Relocated>)> {
        let place = self.mm.segment(segment);
        let stays: BTreeSet<AllocationId> = plan.relocations.iter().map(|step| step.allocation).collect();
        let (mut movable, mut owners) = (Vec::new(), Vec::new());
        for (other, known) in self.mm.allocations.iter() {
            let Placement::Memory(present, extents) = &known.placement else { continue };
            let stays_put = known.locks.count > 0 || known.stores_fences();
            let fixed = known.pins > 0 || stays_put || known.doomed.is_some();
            if *present != segment || fixed || stays.contains(&other) || gone(other) || self.has_left(other) {
                continue;
            }
            let mut runs = extents.iter().map(|e| PageRun { first: e.frame, count: Pages(e.count) });
            if known.contiguous() {
                let first = runs.next().map_or(0, |run| run.first);
                let run = PageRun { first, count: Pages(extents.pages()) };
                movable.push(Movable { run, alignment: Some(Wish::of(&known.info, place).alignment()) });
                owners.push(other);
            } else {
                let before = movable.len();
                movable.extend(runs.map(|run| Movable { run, alignment: None }));
                owners.resize(owners.len() + movable.len() - before, other);
            }
        }
        let wanted = &self.mm.allocations[id];
        let alignment = Wish::of(&wanted.info, place).alignment();
        debug_assert_eq!(movable.len(), owners.len(), "each piece that may move is of one allocation");
        let (hole, moves) = trial.compaction(wanted.pages, alignment, &movable)?;
        debug_assert_eq!(hole.count.0, wanted.pages, "a hole for {id:?} is as long as it");
        let relocated = moves.into_iter().map(|step| Relocated {
            allocation: owners[step.movable],
            segment,
            from: step.from,
            to: step.to,
            for_allocation: id,
        });
        Some((hole, relocated.collect()))
    }

    /// The devices that would run while what they list moves.
    // spec: memory §8.2
    pub(super) fn devices_to_quiesce(&self, plan: &Plan) -> Vec<DeviceId> {
        let moved = plan.relocations.iter().map(|step| step.allocation).chain(plan.anew.iter().map(|(id, _)| *id));
        let holders = moved.flat_map(|id| self.mm.allocations[id].holders.iter());
        let running = |device: &DeviceId| !self.mm.devices[*device].is_suspended();
        let devices: BTreeSet<DeviceId> = holders.copied().filter(running).collect();
        devices.into_iter().filter(|device| !plan.suspends.contains(device)).collect()
    }
}
