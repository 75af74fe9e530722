//! Contiguous requests for which pages enough are free and no hole is (memory §8.1): content moves within its segment.

use ddi::AllocationFlags;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages};

use super::world::*;
use crate::{
    AllocationId, Cause, DeviceId, EvictFlags, MakeResidentError, MapRequest, MoveKind, Operation, Protection, Target,
    Work,
};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };

fn physical(mm: &mut Mm, device: DeviceId, pages: u64) -> AllocationId {
    let info = ddi::AllocationInfo { flags: AllocationFlags::ACCESSED_PHYSICALLY, ..info(pages, &[VRAM]) };
    mm.create_allocation(device, info).expect("rules are kept")
}

/// Eight allocations of eight pages fill the memory; every other one has left.
fn fragmented() -> (Mm, DeviceId, Vec<AllocationId>) {
    let (mut mm, _, device) = with_device(64);
    let parts: Vec<AllocationId> = (0..8).map(|_| create(&mut mm, device, 8, &[VRAM])).collect();
    mm.make_resident(device, &parts).expect("they fill the memory");
    let every_other: Vec<AllocationId> = parts.iter().copied().skip(1).step_by(2).collect();
    mm.evict(device, &every_other, NOW, &[]).expect("counted");
    (mm, device, parts)
}

fn relocated(work: &Work<u8>) -> Vec<(AllocationId, u64)> {
    let moved = work.moves.iter().filter(|step| step.kind == MoveKind::Relocate);
    moved.map(|step| (step.allocation, step.bytes / PAGE_BYTES)).collect()
}

#[test]
fn the_least_moves_and_the_device_that_lists_it_quiesces_after_what_it_named() {
    // spec: memory §8.1, memory §8.2
    let (mut mm, device, parts) = fragmented();
    mm.evict(device, &[parts[6]], LAZY, &[point(3, 30)]).expect("counted");
    mm.make_resident(device, &[parts[6]]).expect("it is there");
    let run = physical(&mut mm, device, 20);
    let work = mm.make_resident(device, &[run]).expect("32 pages are free").expect("it moves");
    // Two parts lie in any 20 pages that begin with a hole; one of them need not go whole.
    assert_eq!(relocated(&work).iter().map(|(_, pages)| pages).sum::<u64>(), 8, "{:?}", work.moves);
    assert_eq!(work.quiesced, [device]);
    assert_eq!(work.after, [point(3, 30)], "the ring waits for uses before the quiesce only");
    let causes = work.moves.iter().filter(|step| step.kind == MoveKind::Relocate).map(|step| step.cause);
    assert!(causes.clone().all(|cause| cause == Cause::Compaction { for_allocation: run }), "with a cause of its own");
    assert!(
        mm.is_resident(run) && parts.iter().step_by(2).all(|part| mm.is_resident(*part)),
        "no allocation lost a page"
    );
}

#[test]
fn a_move_takes_entries_away_first_and_gives_them_back_last() {
    // spec: memory §8.3, memory §4.10
    let (mut mm, space, device) = with_device(64);
    let parts = [16; 4].map(|pages| physical(&mut mm, device, pages));
    for allocation in [parts[0], parts[2]] {
        let request = MapRequest {
            target: Target::Allocation { allocation, offset_pages: Pages(0) },
            size_pages: Pages(16),
            base: None,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            protection: Protection::READ_WRITE,
        };
        mm.map_gpu_va(space, request).expect("room");
    }
    mm.make_resident(device, &parts).expect("they fill the memory");
    mm.evict(device, &[parts[1], parts[3]], NOW, &[]).expect("counted");
    let run = physical(&mut mm, device, 32);
    let work = mm.make_resident(device, &[run]).expect("32 pages are free").expect("it moves");
    let [(moved, 16)] = relocated(&work)[..] else { panic!("one moves: {:?}", work.moves) };
    let place = |what: fn(&Operation) -> bool| {
        let found: Vec<usize> = (0..work.operations.len()).filter(|at| what(&work.operations[*at])).collect();
        (found[0], found[found.len() - 1])
    };
    let invalid = place(|o| matches!(o, Operation::UpdatePageTable { first, .. } if first.flags.is_empty()));
    let flush = place(|o| matches!(o, Operation::FlushTlb { .. }));
    let copy = place(|o| matches!(o, Operation::Relocate { .. }));
    let valid = place(|o| matches!(o, Operation::UpdatePageTable { first, .. } if !first.flags.is_empty()));
    let fill = place(|o| matches!(o, Operation::Fill { .. }));
    assert!(invalid.1 < flush.0 && flush.0 < copy.0 && copy.1 < valid.0 && valid.1 < fill.0, "{:?}", work.operations);
    assert!(matches!(mm.reference(device, moved), Ok(named) if named.serial == work.serial), "the address holds after");
}

#[test]
fn what_is_pinned_or_locked_stays_and_a_driver_that_cannot_is_not_asked() {
    // spec: memory §8.2, memory §6.3, memory §1.14
    let refused = Err(MakeResidentError::OutOfMemory { bytes_to_trim: 16 * PAGE_BYTES });
    let (mut mm, device, parts) = fragmented();
    mm.policy.moves_within_segments = false;
    let run = physical(&mut mm, device, 16);
    assert_eq!(mm.make_resident(device, &[run]), refused, "MovePagingSupported is not set");
    mm.policy.moves_within_segments = true;
    let walls: Vec<AllocationId> = parts.iter().copied().step_by(2).collect();
    walls.iter().for_each(|part| mm.pin(*part).expect("it is resident"));
    assert_eq!(mm.make_resident(device, &[run]), refused, "32 pages are free, and nothing may move");
    mm.unpin(walls[1]);
    let work = mm.make_resident(device, &[run]).expect("one wall moves").expect("it moves");
    assert_eq!(relocated(&work), [(walls[1], 8)]);
}

#[test]
fn a_victim_of_less_is_taken_where_moves_would_cost_others_more() {
    // spec: memory §8.1, memory §8.2
    let (mut mm, device, parts) = fragmented();
    // 32 pages are free in four holes; 40 wanted: one part has to go, whatever moves.
    mm.evict(device, &[parts[0]], LAZY, &[]).expect("counted");
    let run = physical(&mut mm, device, 40);
    let work = mm.make_resident(device, &[run]).expect("one victim").expect("it moves");
    let lost: u64 = work.moves.iter().filter(|m| m.kind == MoveKind::PageOut).map(|m| m.bytes / PAGE_BYTES).sum();
    assert_eq!(lost, 8, "{:?}", work.moves);
    assert_eq!(relocated(&work).iter().map(|(_, pages)| pages).sum::<u64>(), 16);
    let again = physical(&mut mm, device, 1);
    let error = MakeResidentError::OutOfMemory { bytes_to_trim: PAGE_BYTES };
    assert_eq!(mm.make_resident(device, &[again]), Err(error), "full to the last page");
}

#[test]
fn a_second_hole_of_one_plan_uses_what_the_first_moves_have_left() {
    // spec: memory §8.1
    let mut state = 7_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut seen = 0;
    for _ in 0..4000 {
        let (mut mm, _, device) = with_device(64);
        let parts: Vec<AllocationId> = (0..16).map(|_| physical(&mut mm, device, 1 + below(7))).collect();
        let fit: Vec<AllocationId> =
            parts.into_iter().filter(|part| mm.make_resident(device, &[*part]).is_ok()).collect();
        let gone: Vec<AllocationId> = fit.into_iter().filter(|_| below(2) == 0).collect();
        mm.evict(device, &gone, NOW, &[]).expect("counted");
        let runs = [(); 3].map(|()| physical(&mut mm, device, 4 + below(8)));
        let Ok(Some(work)) = mm.make_resident(device, &runs) else { continue };
        mm.check_invariants(&[]).expect("nothing lies where something else does");
        let moves = work.moves.iter().filter(|step| step.kind == MoveKind::Relocate);
        let pairs: Vec<_> = moves.flat_map(|m| m.runs.chunks_exact(2).map(|p| (m.cause, p[0], p[1]))).collect();
        let meets = |(at, (cause, _, to)): (usize, &(Cause, PageRun, PageRun))| {
            pairs[..at].iter().any(|(of, from, _)| of != cause && from.first < to.end() && to.first < from.end())
        };
        seen += usize::from(pairs.iter().enumerate().any(meets));
    }
    assert!(seen > 0, "no plan of these was such a one");
}
