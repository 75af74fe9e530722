//! Addresses that a driver keeps while its process is created (memory §4.6).

use ddi::GpuMmuFlags;
use wddm_types::{GpuVa, PAGE_BYTES, Pages};

use super::world::*;
use crate::{
    AllocationId, DeviceId, DriverRange, MapError, MapRequest, Protection, ReserveRequest, Reserved, SpaceId,
    SpaceKind, Target, UpdateError, UpdateOperation, VidMm,
};

const BITS: [u32; 3] = [5, 5, 6];
/// The bytes that a leaf table covers.
const LEAF: u64 = 32 * PAGE_BYTES;
/// The first address below the second entry of the root.
const FIRST: GpuVa = GpuVa(1024 * PAGE_BYTES);
const END: u64 = (1 << 16) * PAGE_BYTES;

fn range(size_bytes: u64) -> DriverRange {
    DriverRange { size_bytes, alignment_bytes: 0, base: None, user_maps: false }
}

fn at(base: GpuVa, size_bytes: u64) -> DriverRange {
    DriverRange { base: Some(base), ..range(size_bytes) }
}

fn reserve(base: Option<GpuVa>) -> ReserveRequest {
    let (minimum, maximum) = (GpuVa::NULL, GpuVa::NULL);
    ReserveRequest { size_bytes: 65536, base, minimum, maximum, reserved: Reserved::NoAccess, driver_protection: 0 }
}

fn map(target: Target, base: Option<GpuVa>) -> MapRequest {
    let (minimum, maximum) = (GpuVa::NULL, GpuVa::NULL);
    MapRequest { target, size_pages: Pages(4), base, minimum, maximum, protection: Protection::READ_WRITE }
}

fn whole(allocation: AllocationId) -> Target {
    Target::Allocation { allocation, offset_pages: Pages(0) }
}

fn started() -> (Mm, Machine, SpaceId) {
    let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
    let mut caps = mmu(&BITS);
    caps.flags = GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED;
    let mut mm: Mm = VidMm::new(policy(), &descriptors, caps, &levels(&BITS)).expect("rules are kept");
    let mut machine = Machine::default();
    let (space, made) = mm.create_space(SpaceKind::Process).expect("tables");
    machine.carry_out(&made);
    (mm, machine, space)
}

/// An allocation on its device's list.
fn resident(mm: &mut Mm, machine: &mut Machine, space: SpaceId) -> (DeviceId, AllocationId) {
    let device = mm.create_device(space);
    let allocation = create(mm, device, 4, &[VRAM]);
    machine.queue(mm.make_resident(device, &[allocation]).expect("room"));
    machine.run(mm);
    (device, allocation)
}

#[test]
fn a_driver_reserves_whole_leaf_tables() {
    // spec: memory §4.6
    let (mut mm, _, space) = started();
    assert_eq!(mm.reserve_for_driver(space, range(2 * LEAF)), Ok(FIRST), "behind the first entry of the root");
    let rows = [
        ("zero", range(0), MapError::Misaligned),
        ("a page", range(PAGE_BYTES), MapError::Misaligned),
        ("more than a leaf table", range(LEAF + 65536), MapError::Misaligned),
        ("an odd alignment", DriverRange { alignment_bytes: 3 * LEAF, ..range(LEAF) }, MapError::Misaligned),
        ("inside a leaf table", at(FIRST.offset(PAGE_BYTES), LEAF), MapError::Misaligned),
        (
            "off its alignment",
            DriverRange { alignment_bytes: 8 * LEAF, ..at(FIRST.offset(4 * LEAF), LEAF) },
            MapError::Misaligned,
        ),
        ("the same again", at(FIRST, 2 * LEAF), MapError::ConflictingAddresses),
        ("half of it", at(FIRST.offset(LEAF), 2 * LEAF), MapError::ConflictingAddresses),
        ("the first entry of the root", at(GpuVa(LEAF), LEAF), MapError::OutsideSpace),
        ("across the end", at(GpuVa(END - LEAF), 2 * LEAF), MapError::OutsideSpace),
        ("behind the end", at(GpuVa(END), LEAF), MapError::OutsideSpace),
        ("past every number", at(GpuVa(END - LEAF), 0u64.wrapping_sub(LEAF)), MapError::OutsideSpace),
        ("more than there is", range(END), MapError::NoRoom),
    ];
    let before = format!("{:?}", mm.spaces[space]);
    for (name, wrong, error) in rows {
        assert_eq!(mm.reserve_for_driver(space, wrong), Err(error), "{name}");
        assert_eq!(format!("{:?}", mm.spaces[space]), before, "{name}: nothing has changed");
    }
    let aligned = DriverRange { alignment_bytes: 8 * LEAF, ..range(LEAF) };
    assert_eq!(mm.reserve_for_driver(space, aligned), Ok(FIRST.offset(8 * LEAF)));
    assert_eq!(mm.reserve_for_driver(space, at(GpuVa(END - LEAF), LEAF)), Ok(GpuVa(END - LEAF)), "the last one");
    assert_eq!(mm.check_invariants(&[]), Ok(()));
}

#[test]
fn user_mode_has_no_part_in_what_a_driver_keeps_for_itself() {
    // spec: memory §4.6, memory §4.8
    let (mut mm, mut machine, space) = started();
    let kept = mm.reserve_for_driver(space, range(LEAF)).expect("room");
    let (device, a) = resident(&mut mm, &mut machine, space);
    let end = kept.offset(LEAF);
    let (va, work) = mm.map_gpu_va(space, map(whole(a), None)).expect("room");
    machine.queue(work);
    assert!(va >= end, "nor by chance");
    assert!(mm.reserve_gpu_va(space, reserve(None)).expect("room").0 >= end);
    let conflict = Err(MapError::ConflictingAddresses);
    assert_eq!(mm.map_gpu_va(space, map(whole(a), Some(kept))), conflict);
    assert_eq!(mm.reserve_gpu_va(space, reserve(Some(kept))), conflict);
    let nothing = Target::Reserved(Reserved::NoAccess);
    assert_eq!(mm.map_gpu_va(space, map(nothing, Some(kept))), Err(MapError::NotReserved));
    assert_eq!(mm.free_gpu_va(space, kept, PAGE_BYTES), Err(MapError::Drivers));
    let tile = UpdateOperation::Unmap { base: kept, size_bytes: PAGE_BYTES, reserved: Reserved::NoAccess };
    assert_eq!(mm.prepare_update(space, &[tile]).map(drop), Err(UpdateError::Targets));
    // The driver maps there, and what it maps goes with what is shown; the addresses stay its own.
    machine.queue(mm.map_for_driver(space, map(whole(a), Some(kept))).expect("its own").1);
    machine.run(&mut mm);
    assert!(machine.walk(mm.root(space), &BITS, kept).is_some());
    assert_eq!(mm.free_gpu_va(space, kept, 4 * PAGE_BYTES), Err(MapError::Drivers));
    machine.queue(mm.destroy_allocation(a, &[]));
    machine.run(&mut mm);
    assert!(machine.walk(mm.root(space), &BITS, kept).is_none());
    assert_eq!(mm.reserve_gpu_va(space, reserve(Some(kept))), conflict);
    assert_eq!(mm.check_invariants(&[]), Ok(()));
    mm.destroy_device(device, &[]);
    machine.queue(mm.destroy_space(space));
}

#[test]
fn where_user_mode_may_map_the_addresses_stay_the_drivers() {
    // spec: memory §4.6
    let (mut mm, mut machine, space) = started();
    let kept = mm.reserve_for_driver(space, DriverRange { user_maps: true, ..range(LEAF) }).expect("room");
    let (_, a) = resident(&mut mm, &mut machine, space);
    let (va, work) = mm.map_gpu_va(space, map(whole(a), None)).expect("room");
    machine.queue(work);
    assert!(va >= kept.offset(LEAF), "only by name");
    for freed in [true, false] {
        machine.queue(mm.map_gpu_va(space, map(whole(a), Some(kept))).expect("allowed").1);
        machine.run(&mut mm);
        assert!(machine.walk(mm.root(space), &BITS, kept).is_some());
        if freed {
            machine.queue(mm.free_gpu_va(space, kept, 4 * PAGE_BYTES).expect("what it mapped"));
        } else {
            machine.queue(mm.map_gpu_va(space, map(Target::Reserved(Reserved::NoAccess), Some(kept))).expect("too").1);
        }
        machine.run(&mut mm);
        assert!(machine.walk(mm.root(space), &BITS, kept).is_none());
        assert_eq!(mm.reserve_gpu_va(space, reserve(Some(kept))), Err(MapError::ConflictingAddresses));
        assert_eq!(mm.check_invariants(&[]), Ok(()));
    }
}

#[test]
fn an_abandoned_space_leaves_nothing() {
    // spec: memory §4.6
    let (mut mm, ..) = started();
    let before = mm.table_bytes(SpaceKind::Process);
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    mm.reserve_for_driver(space, range(LEAF)).expect("room");
    mm.abandon_space(space);
    assert_eq!(mm.table_bytes(SpaceKind::Process), before);
    assert_eq!(mm.check_invariants(&[]), Ok(()));
}
