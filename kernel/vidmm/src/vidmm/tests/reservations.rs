//! Reserved addresses, protections, and mapping over mappings (memory §4.8 to §4.11).

use ddi::{GpuMmuFlags, PteFlags};
use wddm_types::{GpuVa, PAGE_BYTES, Pages};

use super::world::*;
use crate::{
    AllocationId, MapError, MapRequest, Operation, Protection, ReserveRequest, Reserved, SpaceId, SpaceKind, Target,
    VidMm,
};

const BITS: [u32; 3] = [5, 5, 6];
const FIRST: u64 = 1 << 10;
const UNIT: u64 = 65536;

fn reserve(size_bytes: u64) -> ReserveRequest {
    ReserveRequest {
        size_bytes,
        base: None,
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        reserved: Reserved::NoAccess,
        driver_protection: 0,
    }
}

fn map(target: Target, base: GpuVa, pages: u64) -> MapRequest {
    MapRequest {
        target,
        size_pages: Pages(pages),
        base: Some(base),
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: Protection::READ_WRITE,
    }
}

fn part(allocation: AllocationId, offset: u64) -> Target {
    Target::Allocation { allocation, offset_pages: Pages(offset) }
}

fn flags_at(machine: &Machine, mm: &Mm, space: SpaceId, va: GpuVa) -> Option<PteFlags> {
    machine.walk(mm.root(space), &BITS, va).map(|entry| entry.flags)
}

fn with_flags(flags: GpuMmuFlags) -> (Mm, Machine, SpaceId, crate::DeviceId) {
    let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
    let mut caps = mmu(&BITS);
    caps.flags = flags;
    let mut mm: Mm = VidMm::new(policy(), &descriptors, caps, &levels(&BITS)).expect("rules are kept");
    let mut machine = Machine::default();
    let (space, made) = mm.create_space(SpaceKind::Process).expect("tables");
    machine.carry_out(&made);
    let device = mm.create_device(space);
    (mm, machine, space, device)
}

#[test]
fn reservations_come_in_units_of_64_kb() {
    // spec: memory §4.8
    let (mut mm, _, space, device) = with_flags(GpuMmuFlags::empty());
    let (base, work) = mm.reserve_gpu_va(space, reserve(2 * UNIT)).expect("room");
    assert!(base.0.is_multiple_of(UNIT) && work.is_none(), "NoAccess needs no entry");
    let at = |bytes| Some(base.offset(bytes));
    let rows = [
        ("no size", reserve(0), MapError::Misaligned),
        ("4 KB", reserve(4096), MapError::Misaligned),
        ("base", ReserveRequest { base: at(4096), ..reserve(UNIT) }, MapError::Misaligned),
        (
            "no unit between",
            ReserveRequest {
                minimum: base.offset(2 * UNIT + 4096),
                maximum: base.offset(4 * UNIT - 2),
                ..reserve(UNIT)
            },
            MapError::NoRoom,
        ),
        ("taken", ReserveRequest { base: at(UNIT), ..reserve(2 * UNIT) }, MapError::ConflictingAddresses),
        ("a half of the first unit", ReserveRequest { maximum: GpuVa(UNIT), ..reserve(UNIT) }, MapError::NoRoom),
        ("too large", reserve(1 << 40), MapError::NoRoom),
        (
            "a small window",
            ReserveRequest { minimum: base.offset(2 * UNIT), maximum: base.offset(3 * UNIT), ..reserve(2 * UNIT) },
            MapError::NoRoom,
        ),
    ];
    for (name, request, error) in rows {
        assert_eq!(mm.reserve_gpu_va(space, request), Err(error), "{name}");
    }
    // With an exact base the window is not looked at.
    let exact = ReserveRequest { base: at(4 * UNIT), minimum: GpuVa(1), maximum: GpuVa(2), ..reserve(UNIT) };
    assert_eq!(mm.reserve_gpu_va(space, exact).expect("free").0, base.offset(4 * UNIT));
    // base + size is at most the maximum.
    let tight = ReserveRequest { maximum: base.offset(3 * UNIT), ..reserve(UNIT) };
    assert_eq!(mm.reserve_gpu_va(space, tight).expect("free").0, base.offset(2 * UNIT));
    // VidMm chooses no reserved addresses, and a range half inside is refused.
    let a = create(&mut mm, device, 32, &[VRAM]);
    let elsewhere = MapRequest { base: None, ..map(part(a, 0), base, 8) };
    assert!(mm.map_gpu_va(space, elsewhere).expect("room").0 >= base.offset(3 * UNIT));
    let across = map(part(a, 0), base.offset(UNIT), 32);
    assert_eq!(mm.map_gpu_va(space, across), Err(MapError::ConflictingAddresses));
    assert!(mm.free_gpu_va(space, base, 2 * UNIT).is_ok());
    assert_eq!(mm.free_gpu_va(space, base, 2 * UNIT), Err(MapError::NotMapped));
}

#[test]
fn a_reserved_page_goes_through_its_states() {
    // spec: memory §4.8, §4.10
    let flags = GpuMmuFlags::ZERO_IN_PTE_SUPPORTED | GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED;
    let (mut mm, mut machine, space, device) = with_flags(flags);
    let zero = Some(PteFlags::VALID | PteFlags::ZERO);
    for (reserved, empty) in [(Reserved::NoAccess, None), (Reserved::Zero, zero)] {
        let a = create(&mut mm, device, 4, &[VRAM]);
        let (base, work) = mm.reserve_gpu_va(space, ReserveRequest { reserved, ..reserve(UNIT) }).expect("room");
        machine.queue(work);
        machine.run(&mut mm);
        let second = base.offset(PAGE_BYTES);
        assert_eq!(flags_at(&machine, &mm, space, second), empty, "reserved");
        machine.queue(mm.map_gpu_va(space, map(part(a, 0), base, 4)).expect("inside").1);
        machine.run(&mut mm);
        assert_eq!(flags_at(&machine, &mm, space, second), None, "mapped, not resident");
        machine.queue(mm.make_resident(device, &[a]).expect("room"));
        machine.run(&mut mm);
        assert_eq!(flags_at(&machine, &mm, space, second), Some(PteFlags::VALID), "mapped, resident");
        for (want, flags) in [(Reserved::Zero, zero), (Reserved::NoAccess, None)] {
            machine.queue(mm.map_gpu_va(space, map(Target::Reserved(want), second, 1)).expect("inside").1);
            machine.run(&mut mm);
            assert_eq!(flags_at(&machine, &mm, space, second), flags, "{want:?}");
        }
        assert_eq!(flags_at(&machine, &mm, space, base), Some(PteFlags::VALID), "its neighbour stays");
        machine.queue(mm.destroy_allocation(a, &[]));
        machine.run(&mut mm);
        assert_eq!(flags_at(&machine, &mm, space, base), empty, "as it was reserved");
        assert_eq!(
            mm.reserve_gpu_va(space, ReserveRequest { base: Some(base), ..reserve(UNIT) }),
            Err(MapError::ConflictingAddresses)
        );
        machine.queue(mm.free_gpu_va(space, base, UNIT).expect("reserved"));
        machine.run(&mut mm);
        assert_eq!(flags_at(&machine, &mm, space, base), None, "free");
    }
}

#[test]
fn zeros_are_a_page_of_zeros_where_entries_cannot_say_it() {
    // spec: memory §4.10
    let (mut mm, mut machine, space, device) = with_flags(GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED);
    let before = mm.free_system_pages();
    let zeros = ReserveRequest { reserved: Reserved::Zero, ..reserve(2 * UNIT) };
    let (base, work) = mm.reserve_gpu_va(space, zeros).expect("room");
    let page = work.as_ref().expect("entries").clear[0];
    machine.queue(work);
    machine.run(&mut mm);
    for page_number in 0..32 {
        let entry = machine.walk(mm.root(space), &BITS, base.offset(page_number * PAGE_BYTES)).expect("valid");
        assert_eq!(
            (entry.address.offset, entry.flags),
            (page.first * PAGE_BYTES, PteFlags::VALID | PteFlags::READ_ONLY)
        );
        assert_eq!(machine.read(entry.address.segment, page.first), 0);
    }
    mm.destroy_device(device, &[]);
    machine.queue(mm.destroy_space(space));
    machine.run(&mut mm);
    assert_eq!(mm.free_system_pages(), before);
}

#[test]
fn addresses_of_map_live_as_long_as_what_they_show() {
    // spec: memory §4.8
    let (mut mm, mut machine, space, device) = with_flags(GpuMmuFlags::empty());
    let (a, b) = (create(&mut mm, device, 8, &[VRAM]), create(&mut mm, device, 2, &[VRAM]));
    machine.queue(mm.make_resident(device, &[a, b]).expect("room"));
    let base = GpuVa(FIRST * PAGE_BYTES);
    machine.queue(mm.map_gpu_va(space, map(part(a, 0), base, 8)).expect("free").1);
    // Inside a range from Map, the new mapping takes the place of the old one.
    machine.queue(mm.map_gpu_va(space, map(part(b, 0), base.offset(3 * PAGE_BYTES), 2)).expect("inside").1);
    // One allocation may have many mappings.
    machine.queue(mm.map_gpu_va(space, map(part(b, 1), base.offset(UNIT), 1)).expect("free").1);
    machine.run(&mut mm);
    let page = |machine: &Machine, mm: &Mm, at: u64| {
        machine.walk(mm.root(space), &BITS, base.offset(at * PAGE_BYTES)).map(|entry| entry.address.offset / PAGE_BYTES)
    };
    let shown: Vec<_> = (0..9).map(|at| page(&machine, &mm, at)).collect();
    assert_eq!(shown, [Some(0), Some(1), Some(2), Some(8), Some(9), Some(5), Some(6), Some(7), None]);
    assert_eq!(page(&machine, &mm, 16), Some(9));
    machine.queue(mm.destroy_allocation(a, &[]));
    machine.run(&mut mm);
    let shown: Vec<_> = (0..9).map(|at| page(&machine, &mm, at)).collect();
    assert_eq!(shown, [None, None, None, Some(8), Some(9), None, None, None, None]);
    // The addresses that mapped A are free again, those of B are not.
    let c = create(&mut mm, device, 3, &[VRAM]);
    assert_eq!(mm.map_gpu_va(space, map(part(c, 0), base.offset(PAGE_BYTES), 3)), Err(MapError::ConflictingAddresses));
    machine.queue(mm.map_gpu_va(space, map(part(c, 0), base, 3)).expect("free").1);
    machine.queue(mm.free_gpu_va(space, base, 5 * PAGE_BYTES).expect("two ranges, side by side"));
    machine.queue(mm.destroy_allocation(b, &[]));
    machine.queue(mm.destroy_allocation(c, &[]));
    machine.run(&mut mm);
    assert_eq!(mm.table_bytes(SpaceKind::Process), PAGE_BYTES, "the root is left");
}

#[test]
fn protections_reach_the_entries() {
    // spec: memory §4.2, §4.4, §4.8, §4.11
    let all = GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED | GpuMmuFlags::NO_EXECUTE_MEMORY_SUPPORTED;
    let (read, exec) = (PteFlags::READ_ONLY, PteFlags::NO_EXECUTE);
    for (caps, write, execute, flags) in [
        (all, false, false, read | exec),
        (all, true, false, exec),
        (all, false, true, read),
        (all, true, true, PteFlags::empty()),
        (GpuMmuFlags::empty(), false, false, PteFlags::empty()),
    ] {
        let (mut mm, mut machine, space, device) = with_flags(caps);
        let a = create(&mut mm, device, 2, &[VRAM]);
        machine.queue(mm.make_resident(device, &[a]).expect("room"));
        let protection = Protection { write, execute, driver: 7 };
        let request = MapRequest { protection, ..map(part(a, 1), GpuVa(FIRST * PAGE_BYTES), 1) };
        let (base, work) = mm.map_gpu_va(space, request).expect("free");
        let work = work.expect("entries");
        for operation in &work.operations {
            let Operation::UpdatePageTable { level, driver_protection, behind, first, .. } = operation else {
                continue;
            };
            let leaf = *level == 0 && first.flags.contains(PteFlags::VALID);
            assert_eq!(*driver_protection, if leaf { 7 } else { 0 });
            assert_eq!(behind.map(|(_, offset)| offset), leaf.then_some(PAGE_BYTES));
        }
        machine.queue(Some(work));
        machine.run(&mut mm);
        assert_eq!(flags_at(&machine, &mm, space, base), Some(PteFlags::VALID | flags));
    }
}

#[test]
fn a_unique_protection_is_one_everywhere() {
    // spec: memory §4.11
    let (mut mm, _, space, device) = with_flags(GpuMmuFlags::empty());
    let a = create(&mut mm, device, 16, &[VRAM]);
    let unique = |value: u64| Protection { driver: 1 << 63 | value, ..Protection::READ_WRITE };
    let (base, _) = mm.reserve_gpu_va(space, reserve(4 * UNIT)).expect("room");
    let mut at = |from: u64, pages, place: u64, protection| {
        let request = MapRequest { protection, ..map(part(a, from), base.offset(place * PAGE_BYTES), pages) };
        mm.map_gpu_va(space, request).map(drop)
    };
    assert_eq!(at(0, 8, 0, unique(1)), Ok(()));
    assert_eq!(at(4, 8, 16, unique(1)), Ok(()), "the same value");
    for protection in [unique(2), Protection::READ_WRITE] {
        assert_eq!(at(11, 2, 32, protection), Err(MapError::UniqueProtection));
    }
    assert_eq!(at(12, 4, 32, Protection::READ_WRITE), Ok(()));
    assert_eq!(at(12, 1, 48, unique(1)), Err(MapError::UniqueProtection), "it is mapped with another value");
    // Free does not clear it; NoAccess does.
    mm.free_gpu_va(space, base.offset(16 * PAGE_BYTES), 8 * PAGE_BYTES).expect("reserved");
    let mut at = |from: u64, pages, place: u64, protection| {
        let request = MapRequest { protection, ..map(part(a, from), base.offset(place * PAGE_BYTES), pages) };
        mm.map_gpu_va(space, request).map(drop)
    };
    assert_eq!(at(8, 4, 48, Protection::READ_WRITE), Err(MapError::UniqueProtection));
    assert_eq!(at(8, 4, 48, unique(1)), Ok(()));
    mm.map_gpu_va(space, map(Target::Reserved(Reserved::NoAccess), base.offset(48 * PAGE_BYTES), 4)).expect("inside");
    let other = MapRequest { protection: Protection::READ_WRITE, ..map(part(a, 8), base.offset(48 * PAGE_BYTES), 4) };
    assert!(mm.map_gpu_va(space, other).is_ok());
}
