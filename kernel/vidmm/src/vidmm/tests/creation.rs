//! Creating and destroying allocations.

use ddi::{AllocationFlags as A, AllocationInfo, SegmentFlags};
use wddm_types::{PAGE_BYTES, PageRun, Pages, SegmentId};

use super::world::*;
use crate::{AllocationError, EvictFlags, Origin, SpaceKind};

type Change = fn(&mut AllocationInfo);

#[test]
fn descriptions_that_break_a_rule_are_refused() {
    // spec: memory §1.13, §2.1, §2.2, §6.3
    let rows: &[(&str, Change, AllocationError)] = &[
        ("size 0", |i| i.size_bytes = 0, AllocationError::ZeroSize),
        ("priority 0", |i| i.priority = 0, AllocationError::ZeroPriority),
        ("alignment 3", |i| i.alignment_bytes = 3, AllocationError::Alignment),
        ("cached, not visible", |i| i.flags = A::CACHED, AllocationError::Flags),
        ("permanent, not visible", |i| i.flags = A::PERMANENT_SYS_MEM, AllocationError::Flags),
        (
            "protected and permanent",
            |i| i.flags = A::CPU_VISIBLE | A::PERMANENT_SYS_MEM | A::PROTECTED,
            AllocationError::Flags,
        ),
        ("protected and existing", |i| i.flags = A::PROTECTED | A::EXISTING_SYS_MEM, AllocationError::Flags),
        ("two existing", |i| i.flags = A::EXISTING_KERNEL_SYS_MEM | A::EXISTING_SYS_MEM, AllocationError::Flags),
        (
            "notification without physical access",
            |i| i.flags = A::EXPLICIT_RESIDENCY_NOTIFICATION,
            AllocationError::Flags,
        ),
        ("existing", |i| i.flags = A::EXISTING_SYS_MEM, AllocationError::ExistingMemory),
        (
            "no segment",
            |i| {
                i.supported_segments = set(&[]);
            },
            AllocationError::NoSegment,
        ),
        (
            "no such segment",
            |i| i.supported_segments = set(&[VRAM, SegmentId(7)]),
            AllocationError::NoSuchSegment(SegmentId(7)),
        ),
        (
            "preferred, not supported",
            |i| i.preferred_segment = ddi::SegmentPreference::of(&[VRAM, APERTURE]),
            AllocationError::PreferredNotSupported(APERTURE),
        ),
        ("evicted through memory", |i| i.eviction_segments = set(&[VRAM]), AllocationError::EvictionNotAperture(VRAM)),
        // seed: U16
        ("visible without aperture", |i| i.flags = A::CPU_VISIBLE, AllocationError::LockNeedsAperture),
        ("the same, on demand", |i| i.flags = A::CPU_VISIBLE_ON_DEMAND, AllocationError::LockNeedsAperture),
        ("larger than the segment", |i| i.size_bytes = 65 * PAGE_BYTES, AllocationError::TooLarge),
        ("larger than 64 bits", |i| i.size_bytes = u64::MAX, AllocationError::TooLarge),
    ];
    let (mut mm, _, device) = with_device(64);
    let free = mm.free_system_pages();
    for (name, change, error) in rows {
        let mut info = info(4, &[VRAM]);
        change(&mut info);
        assert_eq!(mm.create_allocation(device, info), Err(*error), "{name}");
    }
    assert_eq!(mm.free_system_pages(), free, "a refusal takes nothing");
    // seed: M55
    assert!(mm.create_allocation(device, info(4, &[VRAM])).is_ok());
}

/// A driver that lies about sizes: the backing stores of a list exceed 64 bits together.
#[test]
fn backing_stores_beyond_all_memory_are_refused() {
    // spec: memory §2.7
    let (mm, _, _) = with_device(64);
    let large = AllocationInfo { size_bytes: u64::MAX - PAGE_BYTES + 1, ..info(1, &[APERTURE]) };
    let list = vec![(large, Origin::default()); 3];
    let refused = mm.check_allocations(&list).expect_err("48 EiB");
    let text = format!("it needs 55340232221128642560 bytes, {} are free", mm.free_system_pages().bytes());
    assert!(refused.to_string().contains(&text), "{refused}");
}

#[test]
fn large_pages_need_their_alignment_and_round_the_size() {
    // spec: memory §1.13, §4.5
    let mut mm = adapter(64, SegmentFlags::USE_64KB_PAGES);
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let mut info = info(17, &[VRAM]);
    assert_eq!(mm.create_allocation(device, info), Err(AllocationError::Alignment64Kb));
    info.alignment_bytes = 65536;
    let allocation = mm.create_allocation(device, info).expect("rules are kept");
    assert_eq!(mm.allocation_bytes(allocation), 32 * PAGE_BYTES);
}

#[test]
fn the_number_behind_the_last_segment_means_system_memory() {
    // spec: memory §10.2
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 4, &[SegmentId(3)]);
    assert_eq!(mm.pages_to_clear(a), mm.backing(a));
    mm.make_resident(device, &[a]).expect("system memory has room");
    assert!(mm.is_resident(a));
}

#[test]
fn backing_store_is_scarce() {
    let (mut mm, _, device) = with_device(64);
    let all = mm.free_system_pages();
    let run = mm.allocate_system(all.0 - 3).expect("it is free");
    assert_eq!(
        mm.create_allocation(device, info(4, &[VRAM])),
        Err(AllocationError::NoBackingStore { wanted: Pages(4), free: Pages(3) })
    );
    mm.free_system(run);
    assert!(mm.create_allocation(device, info(4, &[VRAM])).is_ok());
    assert_eq!(mm.free_system_pages(), all - Pages(4));
    assert_eq!(mm.allocate_system(0), None);
}

#[test]
fn what_lives_in_system_memory_only_is_cleared_at_creation() {
    // spec: memory §3.3 operation 1, FILL never goes to an aperture
    let (mut mm, _, device) = with_device(64);
    let local = create(&mut mm, device, 4, &[VRAM, APERTURE]);
    let system = create(&mut mm, device, 4, &[APERTURE]);
    assert!(mm.pages_to_clear(local).is_empty());
    assert_eq!(mm.pages_to_clear(system), mm.backing(system));
    assert_eq!(mm.backing(system).iter().map(|run| run.count).sum::<Pages>(), Pages(4));
}

#[test]
fn backing_pages_of_the_dead_wait_for_the_ring() {
    let (mut mm, _, device) = with_device(64);
    let free = mm.free_system_pages();
    let allocation = create(&mut mm, device, 4, &[VRAM]);
    let first = mm.make_resident(device, &[allocation]).expect("room").expect("a fill");
    let out = mm.evict(device, &[allocation], EvictFlags::default(), &[]).expect("counted").expect("a copy out");
    mm.completed(first.serial);
    assert!(mm.destroy_allocation(allocation, &[]).is_none(), "nothing is left to do in the ring");
    assert_eq!(mm.free_system_pages(), free - Pages(4), "the copy out is still to come");
    mm.completed(out.serial);
    assert_eq!(mm.free_system_pages(), free);
}

/// No work comes of content that enters system memory, or leaves it, where no table shows the content: nothing may wait for the next work,
/// which may never come.
#[test]
fn a_move_without_a_work_is_no_reason_to_wait() {
    // spec: memory §6.2
    let (mut mm, _, device) = with_device(64);
    let free = mm.free_system_pages();
    let [entered, left] = [(); 2].map(|()| create(&mut mm, device, 4, &[APERTURE]));
    assert!(mm.make_resident(device, &[entered, left]).expect("room").is_none(), "there is nothing to do in the ring");
    assert!(mm.evict(device, &[left], EvictFlags::default(), &[]).expect("counted").is_none());
    assert_eq!((mm.whereabouts(entered).serial, mm.whereabouts(left).serial), (0, 0));
    for allocation in [entered, left] {
        assert!(mm.destroy_allocation(allocation, &[]).is_none());
    }
    assert_eq!(mm.free_system_pages(), free);
    mm.check_invariants(&[]).expect("it holds");
}

#[test]
fn kernel_pages_pass_through_the_aperture() {
    // spec: memory §1.11, §3.4 operations 5 and 6
    let (mut mm, _, _) = with_device(64);
    let pages = mm.allocate_system(3).expect("free");
    let (at, operation) = mm.aperture_map_system(APERTURE, pages).expect("the aperture has room");
    assert_eq!(at.segment, APERTURE);
    let crate::Operation::MapAperture { allocation: None, segment: APERTURE, offset_in_pages, backing, .. } = operation
    else {
        panic!("{operation:?}");
    };
    assert_eq!((offset_in_pages * PAGE_BYTES, backing), (at.offset, vec![pages]));
    assert_eq!(mm.resident_bytes(APERTURE), 3 * PAGE_BYTES);
    assert!(mm.aperture_map_system(APERTURE, PageRun { first: 1, count: Pages(62) }).is_err());
    let undone = mm.aperture_unmap_system(at, Pages(3));
    let crate::Operation::UnmapAperture { dummy_page, number_of_pages: 3, .. } = undone else { panic!("{undone:?}") };
    assert_eq!(dummy_page, mm.dummy_page_address());
    assert_eq!(mm.resident_bytes(APERTURE), 0);
}
