//! Works in parts: points that must be over before the rest of a work may begin.

use gpu_fence::FenceId;
use vidmm::{Departure, Unqueued, Work};

/// Takes off what stands before the first departure of locked content: until the CPU is shown the new medium it reads the old one, so what
/// follows may not come there before. `None`: nothing departs any more.
// spec: memory §6.3
pub fn part_that_leaves(work: &mut Work<FenceId>) -> Option<Work<FenceId>> {
    use vidmm::MoveKind::{Fill, Map, PageIn};
    if work.departures.is_empty() {
        return None;
    }
    let Departure { operations, rotations } = work.departures.remove(0);
    for later in &mut work.departures {
        later.operations -= operations;
        later.rotations -= rotations;
    }
    let behind = work.rotations.split_off(rotations);
    let rotations = std::mem::replace(&mut work.rotations, behind);
    let behind = work.operations.split_off(operations);
    let operations = std::mem::replace(&mut work.operations, behind);
    // Whatever leaves is told with the first part.
    let comes = |moved: &vidmm::Move| matches!(moved.kind, PageIn | Fill | Map);
    let (coming, moves) = std::mem::take(&mut work.moves).into_iter().partition(comes);
    work.moves = coming;
    Some(Work {
        suspends: std::mem::take(&mut work.suspends),
        quiesced: std::mem::take(&mut work.quiesced),
        idle_spaces: work.idle_spaces.clone(),
        conversions: std::mem::take(&mut work.conversions),
        after: std::mem::take(&mut work.after),
        used: std::mem::take(&mut work.used),
        unmap: std::mem::take(&mut work.unmap),
        ranges: std::mem::take(&mut work.ranges),
        operations,
        rotations,
        moves,
        ..empty_work()
    })
}

/// A work of the kernel's own: it moves nothing and marks a place in the ring.
pub fn empty_work() -> Work<FenceId> {
    Work {
        serial: 0,
        immediate: false,
        suspends: Vec::new(),
        quiesced: Vec::new(),
        idle_spaces: Vec::new(),
        after: Vec::new(),
        used: Vec::new(),
        clear: Vec::new(),
        operations: Vec::new(),
        departures: Vec::new(),
        moves: Vec::new(),
        tables: Vec::new(),
        conversions: Vec::new(),
        rotations: Vec::new(),
        unmap: Vec::new(),
        ranges: Vec::new(),
        unqueued: Unqueued::default(),
    }
}

#[cfg(test)]
mod tests {
    use ddi::KmdAllocation;
    use wddm_types::{PhysicalAddress, SegmentId};

    use super::*;

    fn step(nth: u64) -> vidmm::Operation {
        let address = PhysicalAddress { segment: SegmentId(1), offset: nth };
        vidmm::Operation::NotifyResidency { allocation: KmdAllocation(nth), address, resident: true }
    }

    #[test]
    fn a_work_ends_before_each_departure() {
        // spec: memory §6.3
        let departure = |operations| Departure { operations, rotations: 0 };
        let mut work = Work {
            operations: (0..6).map(step).collect(),
            departures: vec![departure(2), departure(5)],
            ..empty_work()
        };
        let mut parts = Vec::new();
        while let Some(part) = part_that_leaves(&mut work) {
            parts.push(part.operations);
        }
        parts.push(work.operations);
        assert_eq!(parts, [(0..2), (2..5), (5..6)].map(|range| range.map(step).collect::<Vec<_>>()));
    }
}
