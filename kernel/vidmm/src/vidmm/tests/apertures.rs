//! Several apertures of an adapter of the first generation: each has its pages, and one commit limit counts for all.

use ddi::{AllocationFlags as F, AllocationInfo, DriverModel};
use wddm_types::{PAGE_BYTES, PageRun, Pages, SegmentId};

use super::world::*;
use crate::allocation::Placement;
use crate::{
    DeviceId, EvictFlags, LockError, MakeResidentError, MemoryLayout, Operation, SegmentDescription, SpaceKind, VidMm,
};

const OTHER: SegmentId = EXTRA;

/// Memory of 64 pages, two apertures of 64 pages each, and a limit over both.
fn world(limit_pages: u64) -> (Mm, DeviceId) {
    let bits = [5, 5, 6];
    let other = ddi::SegmentDescriptor4 { base_address: APERTURE_BASE * 2, ..aperture_descriptor(64) };
    let descriptors = [vram_descriptor(64, ddi::SegmentFlags::empty()), aperture_descriptor(64), other];
    let segments = descriptors.iter().map(SegmentDescription::from).collect();
    let mut layout = MemoryLayout::new(DriverModel::Wddm1, segments);
    layout.aperture_commit_limit_bytes = limit_pages * PAGE_BYTES;
    let mut mm = VidMm::new(policy(), layout, mmu(&bits), &levels(&bits)).expect("any number of apertures");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, device)
}

fn physical(pages: u64, segments: &[SegmentId]) -> AllocationInfo {
    AllocationInfo { flags: F::ACCESSED_PHYSICALLY | F::CPU_VISIBLE, ..info(pages, segments) }
}

#[test]
fn one_commit_limit_counts_for_all_apertures() {
    // spec: memory §1.12
    let (mut mm, device) = world(48);
    assert_eq!((mm.capacity_bytes(APERTURE), mm.capacity_bytes(OTHER)), (48 * PAGE_BYTES, 48 * PAGE_BYTES));
    let [first, second, third] = [(30, APERTURE), (18, OTHER), (1, OTHER)]
        .map(|(pages, id)| mm.create_allocation(device, physical(pages, &[id])).expect("it fits"));
    mm.make_resident(device, &[first, second]).expect("48 pages in both");
    let kernel = PageRun { first: 9, count: Pages(1) };
    let refused = mm.make_resident(device, &[third]);
    assert!(matches!(refused, Err(MakeResidentError::OutOfMemory { .. })), "not a page more: {refused:?}");
    assert!(mm.aperture_map_system(OTHER, kernel).is_err(), "nor for the kernel");
    assert!(mm.map_dma_buffer(OTHER, &[kernel]).is_err(), "nor for a DMA buffer");
    mm.evict(device, &[first], EvictFlags::default(), &[]).expect("it is on the list");
    mm.make_resident(device, &[third]).expect("what one gave up the other may have");
    mm.aperture_map_system(OTHER, kernel).expect("so may the kernel");
    let whole = mm.create_allocation(device, physical(49, &[OTHER]));
    assert!(whole.is_err(), "what exceeds the limit by itself is refused when it is created");
}

#[test]
fn content_is_shown_and_hidden_by_the_aperture_that_it_went_to() {
    // spec: memory §1.6, memory §3.4
    let (mut mm, device) = world(u64::MAX / PAGE_BYTES);
    let id = mm.create_allocation(device, physical(8, &[OTHER])).expect("it fits");
    let work = mm.make_resident(device, &[id]).expect("room").expect("it is mapped");
    assert!(matches!(work.operations[0], Operation::MapAperture { segment: OTHER, .. }), "{:?}", work.operations);
    assert_eq!((mm.resident_bytes(APERTURE), mm.resident_bytes(OTHER)), (0, 8 * PAGE_BYTES));
    let place = mm.whereabouts(id).place.expect("it is there");
    assert_eq!(place, (OTHER, APERTURE_BASE * 2), "the GPU reaches it there");
    let work = mm.evict(device, &[id], EvictFlags::default(), &[]).expect("it is on the list");
    let operations = work.expect("it is unmapped").operations;
    assert!(matches!(operations[0], Operation::UnmapAperture { segment: OTHER, number_of_pages: 8, .. }));
    assert_eq!(mm.resident_bytes(OTHER), 0);
}

#[test]
fn a_lock_moves_content_behind_an_aperture_that_it_supports() {
    // spec: memory §6.3, memory §1.12
    let (mut mm, device) = world(40);
    let id = mm.create_allocation(device, physical(16, &[VRAM, OTHER])).expect("it fits");
    mm.make_resident(device, &[id]).expect("room");
    assert!(matches!(mm.allocations[id].placement, Placement::Memory(VRAM, _)));
    let filler = mm.create_allocation(device, physical(30, &[APERTURE])).expect("it fits");
    mm.make_resident(device, &[filler]).expect("room");
    assert_eq!(mm.lock(id).map(drop), Err(LockError::CantLock), "10 pages are left of the limit");
    mm.evict(device, &[filler], EvictFlags::default(), &[]).expect("it is on the list");
    mm.lock(id).expect("room");
    assert!(matches!(mm.allocations[id].placement, Placement::System(Some((OTHER, _)))));
}
