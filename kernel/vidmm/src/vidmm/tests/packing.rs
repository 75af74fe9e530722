//! No request is refused that a perfect packer would grant with all victims gone.

use ddi::{AllocationFlags, SegmentFlags};
use proptest::prelude::*;
use wddm_types::{PAGE_BYTES, SegmentId};

use super::world::*;
use crate::{AllocationId, DeviceId, EvictFlags, MakeResidentError, SpaceKind};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

fn two_segments() -> (Mm, DeviceId) {
    let mut mm = adapter_of_two(64, SegmentFlags::empty());
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, device)
}

#[test]
fn who_can_go_elsewhere_makes_way_for_who_cannot() {
    let (mut mm, device) = two_segments();
    let flexible = create(&mut mm, device, 20, &[VRAM, EXTRA]);
    let bound = create(&mut mm, device, 60, &[VRAM]);
    mm.make_resident(device, &[flexible, bound]).expect("the one in the other segment, the other here");
    assert_eq!(mm.resident_bytes(EXTRA), 20 * PAGE_BYTES);
}

#[test]
fn an_assignment_is_found_if_there_is_one() {
    // Greedy, by size or not, fails: 40 + 24 = 64 and 17 + 15 = 32.
    let (mut mm, device) = two_segments();
    let both = [VRAM, EXTRA];
    let list: Vec<AllocationId> = [17, 40, 24, 15].map(|n| create(&mut mm, device, n, &both)).into();
    // Victims are in the way everywhere.
    let old = [(64, VRAM), (32, EXTRA)].map(|(n, segment)| create(&mut mm, device, n, &[segment]));
    mm.make_resident(device, &old).expect("room");
    mm.evict(device, &old, LAZY, &[]).expect("counted");
    mm.make_resident(device, &list).expect("a perfect packer would");
    let one_more = create(&mut mm, device, 1, &both);
    let error = MakeResidentError::OutOfMemory { bytes_to_trim: PAGE_BYTES };
    assert_eq!(mm.make_resident(device, &[one_more]), Err(error), "now it is full to the last page");
}

#[test]
fn contiguous_requests_are_packed_around_what_stays() {
    let (mut mm, _, device) = with_device(64);
    let mut physical = |pages: u64, segments: &[SegmentId]| {
        let mut wanted = info(pages, segments);
        wanted.flags = AllocationFlags::ACCESSED_PHYSICALLY;
        mm.create_allocation(device, wanted).expect("rules are kept")
    };
    let [first, wall, last] = [24, 8, 32].map(|n| physical(n, &[VRAM]));
    let [small, large, medium] = [10, 32, 14].map(|n| physical(n, &[VRAM]));
    for id in [first, wall, last] {
        mm.make_resident(device, &[id]).expect("room");
    }
    mm.evict(device, &[first, last], LAZY, &[]).expect("counted");
    mm.make_resident(device, &[small, large, medium]).expect("10 + 14 before the wall, 32 behind it");
    assert_eq!(mm.resident_bytes(VRAM), 64 * PAGE_BYTES);
}

const BOTH: [&[SegmentId]; 4] = [&[VRAM], &[EXTRA], &[VRAM, EXTRA], &[EXTRA, VRAM]];

/// Whether these fit into what is free of both segments, each wholly in one that it may be in: all ways are tried.
fn fits(free: [u64; 2], list: &[(u64, usize)]) -> bool {
    let Some((&(pages, kind), rest)) = list.split_first() else { return true };
    BOTH[kind].iter().any(|segment| {
        let at = usize::from(*segment == EXTRA);
        let mut left = free;
        left[at] = left[at].wrapping_sub(pages);
        free[at] >= pages && fits(left, rest)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Scattered requests with a choice, beside what is pinned, while victims lie everywhere.
    // spec: memory §8.1, memory §5.2
    #[test]
    fn a_list_is_refused_exactly_if_a_perfect_packer_refuses_it(
        pinned in prop::collection::vec((1u64..16, 0usize..2), 0..4),
        victims in prop::collection::vec((1u64..20, 0usize..4), 0..8),
        wanted in prop::collection::vec((1u64..33, 0usize..4), 1..7),
    ) {
        let (mut mm, device) = two_segments();
        let mut free = [64, 32];
        for (pages, kind) in pinned {
            let id = create(&mut mm, device, pages, BOTH[kind]);
            if mm.make_resident(device, &[id]).is_ok() {
                mm.pin(id).expect("resident");
                free[kind] -= pages;
            }
        }
        for (pages, kind) in victims {
            let id = create(&mut mm, device, pages, BOTH[kind]);
            if mm.make_resident(device, &[id]).is_ok() {
                mm.evict(device, &[id], LAZY, &[]).expect("counted");
            }
        }
        let before = [VRAM, EXTRA].map(|segment| mm.resident_bytes(segment));
        let list: Vec<AllocationId> =
            wanted.iter().map(|&(pages, kind)| create(&mut mm, device, pages, BOTH[kind])).collect();
        let granted = mm.make_resident(device, &list).is_ok();
        prop_assert_eq!(granted, fits(free, &wanted), "{:?} free, {:?} wanted", free, wanted);
        prop_assert!(granted || before == [VRAM, EXTRA].map(|segment| mm.resident_bytes(segment)));
    }

    /// A run, between walls that are pinned, while victims lie everywhere else.
    // spec: memory §1.6, memory §8.1
    #[test]
    fn a_run_is_refused_exactly_if_no_gap_between_the_pinned_holds_it(
        blocks in prop::collection::vec((1u64..12, any::<bool>()), 4..16),
        pages in 1u64..40,
    ) {
        let (mut mm, _, device) = with_device(64);
        let gaps = gaps_between_walls(&mut mm, device, &blocks);
        let longest = gaps.into_iter().max().unwrap_or(0);
        let run = physical(&mut mm, device, pages);
        prop_assert_eq!(mm.make_resident(device, &[run]).is_ok(), pages <= longest, "{} of {}", pages, longest);
    }

    /// Several runs, between walls that are pinned, while victims lie everywhere else.
    // spec: memory §1.6, memory §8.1
    #[test]
    fn runs_are_refused_exactly_if_the_gaps_between_the_pinned_do_not_hold_them(
        blocks in prop::collection::vec((1u64..12, any::<bool>()), 4..16),
        wanted in prop::collection::vec(1u64..24, 2..6),
    ) {
        let (mut mm, _, device) = with_device(64);
        let gaps = gaps_between_walls(&mut mm, device, &blocks);
        let list: Vec<AllocationId> = wanted.iter().map(|&pages| physical(&mut mm, device, pages)).collect();
        let granted = mm.make_resident(device, &list).is_ok();
        prop_assert_eq!(granted, fill(&gaps, &wanted), "{:?} into {:?}", wanted, gaps);
    }
}

fn physical(mm: &mut Mm, device: DeviceId, pages: u64) -> AllocationId {
    let wanted = ddi::AllocationInfo { flags: AllocationFlags::ACCESSED_PHYSICALLY, ..info(pages, &[VRAM]) };
    mm.create_allocation(device, wanted).expect("rules are kept")
}

/// Fills the memory with blocks, of which some are pinned and the others may go; how long the gaps between the pinned are.
fn gaps_between_walls(mm: &mut Mm, device: DeviceId, blocks: &[(u64, bool)]) -> Vec<u64> {
    let mut taken = Vec::new();
    for &(pages, stays) in blocks {
        let id = physical(mm, device, pages);
        if mm.make_resident(device, &[id]).is_ok() {
            taken.push((id, pages, stays));
        }
    }
    let mut walls = vec![64];
    for (id, pages, stays) in taken {
        let (_, address) = mm.whereabouts(id).place.expect("resident");
        let first = (address - VRAM_BASE) / PAGE_BYTES;
        if stays {
            mm.pin(id).expect("resident");
            walls.extend(first..first + pages);
        } else {
            mm.evict(device, &[id], LAZY, &[]).expect("counted");
        }
    }
    walls.sort_unstable();
    let starts = std::iter::once(0).chain(walls.iter().map(|wall| wall + 1));
    starts.zip(&walls).map(|(start, wall)| wall - start).filter(|gap| *gap > 0).collect()
}

/// Whether runs can be laid into gaps: all ways are tried.
fn fill(gaps: &[u64], wanted: &[u64]) -> bool {
    let Some((&pages, rest)) = wanted.split_first() else { return true };
    (0..gaps.len()).any(|at| {
        let mut left = gaps.to_vec();
        left[at] = left[at].wrapping_sub(pages);
        gaps[at] >= pages && fill(&left, rest)
    })
}
