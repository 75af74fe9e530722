//! A segment that aligns pitches: content takes its PitchAlignedSize there and its Size in the backing store, as one piece
//! that only the driver can convert.

use ddi::{AllocationFlags as F, AllocationInfo, SegmentDescriptor4, SegmentFlags};
use wddm_types::{GpuVa, PAGE_BYTES, Pages};

use super::world::*;
use crate::allocation::{AllocationError, Placement};
use crate::{
    Cause, DeviceId, Direction, EvictFlags, LockError, MakeResidentError, MapError, MapRequest, MemoryLayout, MoveKind,
    Operation, PropertyUpdate, Protection, SpaceId, SpaceKind, Target, VidMm, Work,
};

/// Memory of 64 pages, an aperture of 64 pages, and a segment of 32 pages that aligns pitches.
fn world() -> (Mm, SpaceId, DeviceId) {
    let bits = [5, 5, 6];
    let extra = SegmentDescriptor4 {
        flags: SegmentFlags::PITCH_ALIGNMENT | SegmentFlags::CPU_VISIBLE,
        base_address: EXTRA_BASE,
        size_bytes: 32 * PAGE_BYTES,
        cpu: ddi::CpuAccess::Translated(EXTRA_BAR),
        ..Default::default()
    };
    let descriptors = [vram_descriptor(64, SegmentFlags::CPU_VISIBLE), aperture_descriptor(64), extra];
    let mut mm = VidMm::new(policy(), MemoryLayout::from(&descriptors), mmu(&bits), &levels(&bits)).expect("the rules");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, space, device)
}

/// Eight pages of content that take twelve where pitches are aligned.
fn pitched(segments: &[wddm_types::SegmentId]) -> AllocationInfo {
    AllocationInfo {
        flags: F::ACCESSED_PHYSICALLY | F::CPU_VISIBLE,
        pitch_aligned_size_bytes: 12 * PAGE_BYTES,
        ..info(8, segments)
    }
}

/// The same, and the CPU never looks.
fn unseen() -> AllocationInfo {
    AllocationInfo { flags: F::ACCESSED_PHYSICALLY, ..pitched(&[EXTRA]) }
}

fn moved(work: &Work<u8>) -> Vec<(MoveKind, u64)> {
    work.moves.iter().map(|what| (what.kind, what.bytes / PAGE_BYTES)).collect()
}

#[test]
fn the_segment_is_sized_by_the_aligned_pitch_and_the_backing_store_by_the_size() {
    // spec: memory §1.5, memory §2.6
    // seed: M11
    let (mut mm, _, device) = world();
    let id = mm.create_allocation(device, pitched(&[EXTRA, APERTURE])).expect("it fits");
    assert_eq!(mm.backing(id).iter().map(|run| run.count.0).sum::<u64>(), 8);
    let came = mm.make_resident(device, &[id]).expect("room").expect("it is filled");
    assert_eq!(mm.resident_bytes(EXTRA), 12 * PAGE_BYTES);
    let fill = came.operations.iter().find(|what| matches!(what, Operation::Fill { .. }));
    assert!(matches!(fill, Some(Operation::Fill { size_bytes, .. }) if *size_bytes == 12 * PAGE_BYTES), "{fill:?}");
    let went = mm.evict(device, &[id], EvictFlags::default(), &[]).expect("it is on the list").expect("copied out");
    assert_eq!(moved(&went), [(MoveKind::PageOut, 12)], "the room that it had");
    let Some(Operation::Transfer { size_bytes, backing, address, direction: Direction::Out, contiguous: true, .. }) =
        went.operations.iter().find(|what| matches!(what, Operation::Transfer { .. }))
    else {
        panic!("one transfer: {:?}", went.operations)
    };
    assert_eq!((*size_bytes, *address), (8 * PAGE_BYTES, EXTRA_BASE));
    assert_eq!(backing.as_slice(), mm.backing(id));
    assert_eq!(mm.resident_bytes(EXTRA), 0);
    let back = mm.make_resident(device, &[id]).expect("room").expect("it is copied in");
    assert_eq!(moved(&back), [(MoveKind::PageIn, 12)]);
    assert_eq!(mm.resident_bytes(EXTRA), 12 * PAGE_BYTES);
    // Two of twelve pages and one of eight fit into 32; three of twelve do not.
    let others = [(); 2].map(|()| mm.create_allocation(device, unseen()).expect("it fits"));
    mm.make_resident(device, &others[..1]).expect("room for a second");
    let refused = mm.make_resident(device, &others[1..]);
    assert_eq!(refused.err(), Some(MakeResidentError::OutOfMemory { bytes_to_trim: 4 * PAGE_BYTES }));
}

#[test]
fn what_is_evicted_under_pressure_goes_as_one_piece() {
    // spec: memory §2.6, memory §8.3
    // seed: M11
    let (mut mm, _, device) = world();
    let ids = [(); 3].map(|()| mm.create_allocation(device, unseen()).expect("it fits"));
    mm.make_resident(device, &ids[..2]).expect("room for two");
    let lazily = EvictFlags { only_if_necessary: true, ..EvictFlags::default() };
    mm.evict(device, &ids[..1], lazily, &[]).expect("it is on the list");
    let work = mm.make_resident(device, &ids[2..]).expect("the first gives way").expect("work");
    let causes: Vec<_> = work.moves.iter().map(|what| (what.allocation, what.kind, what.bytes / PAGE_BYTES)).collect();
    assert_eq!(causes, [(ids[0], MoveKind::PageOut, 12), (ids[2], MoveKind::Fill, 12)]);
    assert!(work.moves.iter().any(|what| what.cause == Cause::Pressure { for_allocation: ids[2] }));
    assert!(!mm.is_resident(ids[0]) && mm.is_resident(ids[2]));
    assert_eq!(mm.resident_bytes(EXTRA), 24 * PAGE_BYTES);
}

#[test]
fn it_is_no_eviction_target_and_needs_a_size_and_one_piece() {
    // spec: memory §1.5, memory §2.1, memory §2.6
    // seed: M11
    let (mut mm, _, device) = world();
    let mut verdict = |info: AllocationInfo| mm.create_allocation(device, info).map(drop);
    let base = pitched(&[EXTRA]);
    let target = AllocationInfo { eviction_segments: set(&[EXTRA]), ..pitched(&[VRAM, APERTURE]) };
    assert_eq!(verdict(target), Err(AllocationError::EvictionNotAperture(EXTRA)));
    let without = AllocationInfo { pitch_aligned_size_bytes: 0, ..base };
    assert_eq!(verdict(without), Err(AllocationError::NoSegment), "0: not supported there");
    let scattered = AllocationInfo { flags: F::CPU_VISIBLE, ..pitched(&[EXTRA, APERTURE]) };
    assert_eq!(verdict(scattered), Err(AllocationError::PitchAlignedScattered));
    let large = AllocationInfo { pitch_aligned_size_bytes: 33 * PAGE_BYTES, ..unseen() };
    assert_eq!(verdict(large), Err(AllocationError::TooLarge));
    assert_eq!(verdict(base), Err(AllocationError::LockNeedsAperture), "the CPU sees it in system memory only");
    // Larger than any segment there: it still lives elsewhere.
    let huge = AllocationInfo { pitch_aligned_size_bytes: u64::MAX, ..pitched(&[VRAM, EXTRA, APERTURE]) };
    assert_eq!(verdict(huge), Ok(()));
    let elsewhere = AllocationInfo { pitch_aligned_size_bytes: 0, ..pitched(&[VRAM, EXTRA]) };
    assert_eq!(verdict(elsewhere), Ok(()), "it lives in the other one");
}

#[test]
fn the_cpu_sees_the_one_layout_and_addresses_none() {
    // spec: memory §2.6, memory §6.3
    let (mut mm, space, device) = world();
    let id = mm.create_allocation(device, pitched(&[EXTRA, APERTURE])).expect("it fits");
    mm.make_resident(device, &[id]).expect("room");
    let target = Target::Allocation { allocation: id, offset_pages: Pages(0) };
    let request = MapRequest {
        target,
        size_pages: Pages(8),
        base: None,
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: Protection::READ_WRITE,
    };
    assert_eq!(mm.map_gpu_va(space, request).map(drop), Err(MapError::PitchAligned));
    let plan = mm.lock(id).expect("it goes to system memory");
    assert_eq!(plan.runs.iter().map(|seen| seen.run).collect::<Vec<_>>(), mm.backing(id));
    assert!(matches!(mm.allocations[id].placement, Placement::System(Some(_))));
    let filler = mm.create_allocation(device, pitched(&[EXTRA])).map(drop);
    assert_eq!(filler, Err(AllocationError::LockNeedsAperture));
    let alone = mm.create_allocation(device, unseen()).expect("it is not CPU-visible");
    mm.make_resident(device, &[alone]).expect("room");
    assert_eq!(mm.lock(alone).map(drop), Err(LockError::CantLock));
}

#[test]
fn content_of_which_a_part_was_never_written_is_made_whole_first() {
    // spec: memory §2.6, memory §2.8
    let (mut mm, _, device) = world();
    let base = AllocationInfo { flags: F::CPU_VISIBLE, ..info(8, &[VRAM, APERTURE]) };
    let id = mm.create_allocation(device, AllocationInfo { pitch_aligned_size_bytes: 12 * PAGE_BYTES, ..base });
    let id = id.expect("it fits");
    mm.allocations[id].valid.insert(2, 3);
    let update = PropertyUpdate {
        supported_segments: Some(set(&[EXTRA, APERTURE])),
        preferred_segment: Some(ddi::SegmentPreference::of(&[EXTRA])),
        accessed_physically: Some(true),
        ..PropertyUpdate::default()
    };
    mm.update_property(id, update).expect("it is nowhere");
    assert_eq!(mm.reach_bytes(id), 8 * PAGE_BYTES, "in system memory it has no more");
    let only = mm.create_allocation(device, unseen()).expect("it fits");
    assert_eq!(mm.reach_bytes(only), 12 * PAGE_BYTES);
    let wider = PropertyUpdate { supported_segments: Some(set(&[VRAM, EXTRA])), ..PropertyUpdate::default() };
    assert!(mm.update_property(only, wider).is_err(), "queued buffers may name all twelve");
    let work = mm.make_resident(device, &[id]).expect("room").expect("work");
    assert_eq!(work.clear.iter().map(|run| run.count.0).sum::<u64>(), 5, "the pages never written");
    assert_eq!(moved(&work), [(MoveKind::PageIn, 12)]);
}
