//! The subjects of the five residency tests of the Windows hardware lab kit, at this boundary: standard MakeResident, multiple heaps,
//! miscellaneous residency, residency query, over-commit. And that nothing but the list controls residency.

use wddm_types::{GpuVa, PAGE_BYTES, Pages};

use super::world::*;
use crate::{
    AllocationId, EvictError, EvictFlags, MakeResidentError, MakeResidentFlags, MapRequest, MoveKind, OfferFlags,
    OfferPriority, SegmentGroup, Target,
};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };

#[test]
fn standard_make_resident() {
    // seed: R06
    // seed: R07
    // seed: R09
    // spec: memory §5.1, §5.2, §5.3, §10.4 item 4
    let (mut mm, _, device) = with_device(64);
    let list = [8; 4].map(|n| create(&mut mm, device, n, &[VRAM]));
    assert!(list.iter().all(|id| !mm.is_resident(*id)), "nothing is resident by being created");
    assert!(mm.make_resident(device, &list).expect("room").is_some(), "pending: it has to be brought in");
    assert_eq!(mm.make_resident(device, &list), Ok(None), "at once: it is there");
    assert_eq!(mm.evict(device, &list, NOW, &[]), Ok(None), "n MakeResident need n Evict");
    assert!(list.iter().all(|id| mm.is_resident(*id)));
    assert!(mm.evict(device, &list, NOW, &[]).expect("counted").is_some());
    assert!(list.iter().all(|id| !mm.is_resident(*id)));
    let below = Err(EvictError::BelowZero { allocation: list[0] });
    assert_eq!(mm.evict(device, &list, NOW, &[]), below);
}

#[test]
fn multiple_heaps() {
    // spec: memory §5.5, §8.1
    let mut mm = adapter_of_two(64, ddi::SegmentFlags::empty());
    let (space, _) = mm.create_space(crate::SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let [a, b, c] = [(40, VRAM), (20, EXTRA), (30, APERTURE)].map(|(n, heap)| create(&mut mm, device, n, &[heap]));
    mm.make_resident(device, &[a, b, c]).expect("one call, three heaps");
    let usage = |group| mm.video_memory_info(space, group).current_usage_bytes / PAGE_BYTES;
    assert_eq!((usage(SegmentGroup::Local), usage(SegmentGroup::NonLocal)), (60, 30));
    assert_eq!((mm.resident_bytes(VRAM), mm.resident_bytes(EXTRA)), (40 * PAGE_BYTES, 20 * PAGE_BYTES));
    let d = create(&mut mm, device, 20, &[EXTRA]);
    let error = MakeResidentError::OutOfMemory { bytes_to_trim: 8 * PAGE_BYTES };
    assert_eq!(mm.make_resident(device, &[d]), Err(error), "room in one heap is none in the other");
}

#[test]
fn miscellaneous_residency() {
    // spec: memory §10.1 rows 12 and 13, §10.4 items 5 and 7
    let (mut mm, _, device) = with_device(64);
    let [a, b, c] = [30, 30, 30].map(|n| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(device, &[a, a, b]).expect("a duplicate counts twice");
    assert_eq!((mm.count(device, a), mm.count(device, b)), (2, 1));
    assert!(mm.make_resident(device, &[b, c, a]).is_err());
    assert_eq!((mm.count(device, a), mm.count(device, b)), (2, 1), "all or nothing");
    let clean = EvictFlags { only_if_necessary: false, not_written_to: true };
    mm.evict(device, &[a], clean, &[]).expect("counted");
    let work = mm.evict(device, &[a], clean, &[]).expect("counted").expect("it leaves");
    assert_eq!(work.moves[0].kind, MoveKind::Discard, "not written: thrown away");
    let parts = [a, b, b];
    assert!(mm.evict(device, &parts, LAZY, &[]).is_err(), "b is listed once, a not at all");
    assert_eq!(mm.count(device, b), 1, "nothing changed");
}

#[test]
fn residency_query() {
    // spec: memory §5.5, §9.2
    let (mut mm, [(space, device), _]) = with_processes::<2>(64);
    let info = mm.video_memory_info(space, SegmentGroup::Local);
    assert_eq!((info.budget_bytes, info.current_usage_bytes), (64 * PAGE_BYTES, 0));
    let a = create(&mut mm, device, 10, &[VRAM]);
    mm.make_resident(device, &[a]).expect("room");
    assert_eq!(mm.video_memory_info(space, SegmentGroup::Local).current_usage_bytes, 10 * PAGE_BYTES);
    mm.evict(device, &[a], LAZY, &[]).expect("counted");
    assert_eq!(mm.video_memory_info(space, SegmentGroup::Local).current_usage_bytes, 0, "only the list counts");
    assert!(mm.is_resident(a), "though it is still there");
}

/// The retry loop of a driver whose content does not fit: trim what the call says, retry, and it goes on.
#[test]
fn over_commit() {
    // spec: memory §5.2, §10.1 row 11
    let (mut mm, _, device) = with_device(64);
    let all: Vec<AllocationId> = (0..20).map(|_| create(&mut mm, device, 8, &[VRAM])).collect();
    let mut listed: std::collections::VecDeque<AllocationId> = Default::default();
    for &id in all.iter().cycle().take(200) {
        if listed.contains(&id) {
            continue;
        }
        while let Err(error) = mm.make_resident(device, &[id]) {
            let MakeResidentError::OutOfMemory { bytes_to_trim } = error else { panic!("{error}") };
            assert_eq!(bytes_to_trim, 8 * PAGE_BYTES, "exactly what is missing");
            let oldest = listed.pop_front().expect("something is on the list");
            mm.evict(device, &[oldest], LAZY, &[]).expect("counted");
        }
        listed.push_back(id);
        assert!(mm.resident_bytes(VRAM) <= 64 * PAGE_BYTES);
    }
    assert_eq!(listed.len(), 8);
    let huge = create(&mut mm, device, 64, &[VRAM]);
    let must = MakeResidentFlags { cant_trim_further: true, must_succeed: true };
    let error = MakeResidentError::OutOfMemory { bytes_to_trim: 64 * PAGE_BYTES };
    assert_eq!(mm.make_resident_with(device, &[huge], must), Err(error), "no other device holds the missing pages");
}

#[test]
fn the_list_alone_controls_residency() {
    // seed: R11
    // spec: memory §5.1, §10.1 row 8
    let (mut mm, space, device) = with_device(64);
    let a = create(&mut mm, device, 8, &[VRAM]);
    let request = MapRequest {
        target: Target::Allocation { allocation: a, offset_pages: Pages(0) },
        size_pages: Pages(8),
        base: None,
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: crate::Protection::READ_WRITE,
    };
    mm.map_gpu_va(space, request).expect("room");
    assert!(!mm.is_resident(a), "an address makes nothing resident");
    let _ = mm.lock(a).expect("nothing against it");
    assert!(!mm.is_resident(a), "nor does a lock");
    mm.unlock(a).expect("locked");
    mm.make_resident(device, &[a]).expect("room");
    assert!(mm.is_resident(a));
    mm.evict(device, &[a], NOW, &[]).expect("counted");
    assert!(!mm.is_resident(a), "an address keeps nothing resident");
    mm.offer(device, &[a], OfferPriority::Normal, OfferFlags::default(), &[]).expect("not offered");
    let back = mm.reclaim(device, &[a]).expect("offered");
    assert!(back.work.is_none() && !mm.is_resident(a), "nor does a reclaim of what no list names");
}
