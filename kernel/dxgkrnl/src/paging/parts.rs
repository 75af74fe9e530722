//! Works in parts: points that must be over before the rest of a work may begin.

use gpu_fence::FenceId;
use vidmm::{Unqueued, Work};

/// Takes the part off that moves locked content out of its place, if what follows may come into that place: until the CPU is
/// shown the new medium it reads the old one, so nothing may come there before.
// spec: memory §6.3
pub fn part_that_leaves(work: &mut Work<FenceId>) -> Option<Work<FenceId>> {
    use vidmm::MoveKind::{Fill, Map, PageIn};
    let comes = |moved: &vidmm::Move| matches!(moved.kind, PageIn | Fill);
    let arriving: Vec<_> = work.moves.iter().filter(|moved| comes(moved)).map(|moved| moved.allocation).collect();
    let leaves = |rotation: &vidmm::Rotation| !arriving.contains(&rotation.allocation);
    if work.leaving == 0 || work.leaving == work.operations.len() || !work.rotations.iter().any(leaves) {
        return None;
    }
    let (rotations, staying) = std::mem::take(&mut work.rotations).into_iter().partition(leaves);
    let behind = |moved: &vidmm::Move| comes(moved) || moved.kind == Map;
    let (coming, moves) = std::mem::take(&mut work.moves).into_iter().partition(behind);
    (work.rotations, work.moves) = (staying, coming);
    let behind = work.operations.split_off(work.leaving);
    let operations = std::mem::replace(&mut work.operations, behind);
    Some(Work {
        suspends: std::mem::take(&mut work.suspends),
        quiesced: std::mem::take(&mut work.quiesced),
        idle_spaces: work.idle_spaces.clone(),
        conversions: work.conversions.clone(),
        after: std::mem::take(&mut work.after),
        unmap: std::mem::take(&mut work.unmap),
        ranges: std::mem::take(&mut work.ranges),
        leaving: std::mem::take(&mut work.leaving),
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
        clear: Vec::new(),
        operations: Vec::new(),
        leaving: 0,
        moves: Vec::new(),
        tables: Vec::new(),
        conversions: Vec::new(),
        rotations: Vec::new(),
        unmap: Vec::new(),
        ranges: Vec::new(),
        unqueued: Unqueued::default(),
    }
}
