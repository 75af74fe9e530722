//! The services of memory §4.8 at their edges.

use ddi::PteFlags;
use wddm_types::{GpuVa, PAGE_BYTES, PageRun, Pages, PhysicalAddress};

use super::world::*;
use crate::{AllocationId, MapError, MapRequest, Operation, Protection, ReserveRequest, Reserved, SpaceKind, Target};

/// Pages below which entry 0 of the root translates, with the tables of [`adapter`].
const FIRST: u64 = 1 << 10;

fn request(allocation: AllocationId, pages: u64) -> MapRequest {
    MapRequest {
        target: Target::Allocation { allocation, offset_pages: Pages(0) },
        size_pages: Pages(pages),
        base: None,
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        protection: Protection::READ_WRITE,
    }
}

fn at(page: u64) -> GpuVa {
    GpuVa(page * PAGE_BYTES)
}

#[test]
fn wrong_requests_are_refused_and_change_nothing() {
    // spec: memory §4.3, §4.6, §4.8, §9.3, §10.4 item 28
    let (mut mm, space, device) = with_device(64);
    let a = create(&mut mm, device, 8, &[VRAM]);
    let good = request(a, 8);
    mm.map_gpu_va(space, MapRequest { base: Some(at(FIRST + 4)), ..good }).expect("free");
    let own = mm.allocate_system(8).expect("free");
    let kernels = MapRequest { target: Target::SystemPages(own), base: Some(at(FIRST + 32)), ..good };
    mm.map_gpu_va(space, kernels).expect("free");
    let reserved = |reserved| MapRequest { target: Target::Reserved(reserved), base: Some(at(FIRST + 4)), ..good };
    let tables = mm.table_bytes(SpaceKind::Process);
    let system = |count| Target::SystemPages(PageRun { first: 1, count: Pages(count) });
    let rows = [
        ("no page", request(a, 0), MapError::Misaligned),
        ("beyond the end", request(a, 9), MapError::BeyondAllocation),
        ("sizes differ", MapRequest { target: system(7), ..good }, MapError::BeyondAllocation),
        ("no page boundary", MapRequest { base: Some(GpuVa(FIRST * PAGE_BYTES + 1)), ..good }, MapError::Misaligned),
        ("the first pages", MapRequest { base: Some(at(15)), ..good }, MapError::OutsideSpace),
        ("behind the end", MapRequest { base: Some(at((1 << 16) - 7)), ..good }, MapError::OutsideSpace),
        ("not canonical", MapRequest { base: Some(GpuVa(1 << 40)), ..good }, MapError::OutsideSpace),
        ("free and mapped", MapRequest { base: Some(at(FIRST)), ..good }, MapError::ConflictingAddresses),
        ("the kernel's pages", MapRequest { base: Some(at(FIRST + 32)), ..good }, MapError::ConflictingAddresses),
        ("zeros where Map was", reserved(Reserved::Zero), MapError::NotReserved),
        ("nothing where Map was", reserved(Reserved::NoAccess), MapError::NotReserved),
        ("zeros at a free choice", MapRequest { base: None, ..reserved(Reserved::Zero) }, MapError::NotReserved),
        ("no room", MapRequest { minimum: at(FIRST), maximum: at(FIRST + 16), ..good }, MapError::NoRoom),
        ("no page between", MapRequest { minimum: GpuVa(1), maximum: GpuVa(PAGE_BYTES), ..good }, MapError::NoRoom),
        ("behind every address", MapRequest { minimum: GpuVa(1 << 40), ..good }, MapError::NoRoom),
    ];
    for (name, request, error) in rows {
        assert_eq!(mm.map_gpu_va(space, request), Err(error), "{name}");
    }
    let frees = [
        ("nothing", at(FIRST + 4), 0, MapError::Misaligned),
        ("more than is mapped", at(FIRST + 4), 9 * PAGE_BYTES, MapError::NotMapped),
        ("before it", at(FIRST + 3), PAGE_BYTES, MapError::NotMapped),
        ("the kernel's", at(FIRST + 32), PAGE_BYTES, MapError::Kernels),
        ("the first pages", at(15), PAGE_BYTES, MapError::OutsideSpace),
        ("behind the end", at((1 << 16) - 1), 2 * PAGE_BYTES, MapError::OutsideSpace),
    ];
    for (name, base, bytes, error) in frees {
        assert_eq!(mm.free_gpu_va(space, base, bytes), Err(error), "{name}");
    }
    assert_eq!(mm.table_bytes(SpaceKind::Process), tables);
}

#[test]
fn vidmm_chooses_the_lowest_aligned_address() {
    // spec: memory §4.5, §4.8
    let (mut mm, space, device) = with_device(64);
    let a = create(&mut mm, device, 8, &[VRAM]);
    let places: Vec<u64> =
        (0..3).map(|_| mm.map_gpu_va(space, request(a, 8)).expect("room").0.0 / PAGE_BYTES).collect();
    assert_eq!(places, [FIRST, FIRST + 16, FIRST + 32]);
    mm.free_gpu_va(space, at(FIRST + 16), 8 * PAGE_BYTES).expect("mapped");
    assert_eq!(mm.map_gpu_va(space, request(a, 8)).expect("room").0, at(FIRST + 16), "reusable at return");
    let bounded = MapRequest { minimum: at(FIRST + 100), maximum: at(FIRST + 120), ..request(a, 8) };
    assert_eq!(mm.map_gpu_va(space, bounded).expect("room").0, at(FIRST + 112));
}

#[test]
fn bounds_are_rounded_inward_and_may_be_the_last_byte() {
    // spec: memory §4.8
    let (mut mm, space, device) = with_device(64);
    let a = create(&mut mm, device, 8, &[VRAM]);
    let within = |minimum, maximum| MapRequest { minimum: GpuVa(minimum), maximum: GpuVa(maximum), ..request(a, 8) };
    let (page, first) = (PAGE_BYTES, FIRST * PAGE_BYTES);
    let rows = [
        ("a minimum within a page", within(first + 1, 0), Ok(FIRST + 16)),
        ("the last byte as maximum", within(first, first + 8 * page - 1), Ok(FIRST)),
        ("a byte less", within(first, first + 8 * page - 2), Err(MapError::NoRoom)),
        ("a byte more", within(first, first + 8 * page + 1), Ok(FIRST)),
        ("all addresses", within(first, u64::MAX), Ok(FIRST)),
        ("a sign extension", within(u64::MAX << 27, u64::MAX), Ok(1 << 15)),
        ("a maximum that is one", within(first, u64::MAX << 27), Ok(FIRST)),
        ("the last byte of all", within(((1 << 16) - 16) * page, (1 << 28) - 1), Ok((1 << 16) - 16)),
    ];
    for (name, request, expected) in rows {
        let made = mm.map_gpu_va(space, request).map(|(base, _)| base.0 / PAGE_BYTES);
        assert_eq!(made, expected, "{name}");
        if let Ok(page) = made {
            mm.free_gpu_va(space, at(page), 8 * PAGE_BYTES).expect("it was just mapped");
        }
    }
}

/// A driver that shares addresses with the CPU reserves nearly all of them at once.
#[test]
fn what_the_first_root_entry_translates_is_the_process_s() {
    // spec: memory §4.6
    let (mut mm, space, device) = with_device(64);
    let mut machine = Machine::default();
    // As many as 64 KB have: fewer begin at any page.
    let words = mm.allocate_system(16).expect("free");
    let a = create(&mut mm, device, 8, &[VRAM]);
    let kernels = MapRequest { target: Target::FencePages(words), ..request(a, 16) };
    let (top, work) = mm.map_gpu_va(space, kernels).expect("room");
    machine.queue(work);
    assert_eq!(top, at((1 << 16) - 16), "the kernel's own lie at the top");
    let whole = ReserveRequest {
        size_bytes: top.0 - (2 << 20),
        base: Some(GpuVa(2 << 20)),
        minimum: GpuVa::NULL,
        maximum: GpuVa::NULL,
        reserved: Reserved::NoAccess,
        driver_protection: 0,
    };
    mm.reserve_gpu_va(space, whole).expect("nothing lies there");
    let tables = mm.table_bytes(SpaceKind::Process);
    // Below what is reserved, where VidMm chooses only when all else is taken.
    let (low, work) = mm.map_gpu_va(space, request(a, 8)).expect("room");
    assert_eq!(low, at(16), "behind the first 64 KiB");
    machine.queue(work);
    machine
        .queue(mm.map_gpu_va(space, MapRequest { base: Some(GpuVa(2 << 20)), ..request(a, 8) }).expect("reserved").1);
    machine.queue(mm.make_resident(device, &[a]).expect("room"));
    machine.run(&mut mm);
    for base in [low, GpuVa(2 << 20)] {
        assert!(machine.walk(mm.root(space), &[5, 5, 6], base).is_some(), "{base:?}");
    }
    assert!(mm.table_bytes(SpaceKind::Process) > tables, "the first entry of the root has come");
    for base in [low, GpuVa(2 << 20)] {
        machine.queue(mm.free_gpu_va(space, base, 8 * PAGE_BYTES).expect("mapped"));
    }
    machine.run(&mut mm);
    assert!(machine.walk(mm.root(space), &[5, 5, 6], low).is_none());
    assert_eq!(mm.table_bytes(SpaceKind::Process), tables, "and goes with what was mapped below it");
    mm.check_invariants(&[words]).expect("in order");
}

#[test]
fn an_address_and_its_sign_extension_are_one() {
    // spec: memory §4.3. 28 bits of address.
    let (mut mm, space, device) = with_device(64);
    let a = create(&mut mm, device, 8, &[VRAM]);
    let high = GpuVa(u64::MAX << 27);
    let (base, _) = mm.map_gpu_va(space, MapRequest { base: Some(high), ..request(a, 8) }).expect("free");
    assert_eq!(base, GpuVa(1 << 27));
    let again = MapRequest { base: Some(GpuVa(1 << 27)), ..request(a, 8) };
    let beyond = MapRequest { size_pages: Pages(9), ..again };
    let b = create(&mut mm, device, 9, &[VRAM]);
    let beyond = MapRequest { target: request(b, 9).target, ..beyond };
    assert_eq!(mm.map_gpu_va(space, beyond), Err(MapError::ConflictingAddresses), "a mapped range and a free page");
    assert_eq!(mm.map_gpu_va(space, again).expect("inside a mapped range").0, GpuVa(1 << 27));
    assert!(mm.free_gpu_va(space, high, 8 * PAGE_BYTES).is_ok());
}

#[test]
fn entries_say_place_and_protection() {
    // spec: memory §4.4: the offset does not contain the segment's base
    let (mut mm, space, device) = with_device(64);
    let a = create(&mut mm, device, 2, &[VRAM]);
    mm.make_resident(device, &[a]).expect("it fits");
    let (_, work) =
        mm.map_gpu_va(space, MapRequest { protection: Protection::default(), ..request(a, 2) }).expect("room");
    let work = work.expect("tables and entries");
    let Some(Operation::UpdatePageTable { level: 0, count: 2, first, initial: false, .. }) =
        work.operations.iter().nth_back(1)
    else {
        panic!("{:?}", work.operations);
    };
    assert_eq!(first.address, PhysicalAddress { segment: VRAM, offset: 0 });
    assert_eq!(first.flags, PteFlags::VALID | PteFlags::READ_ONLY);
}

#[test]
fn the_paging_process_is_written_by_the_cpu_with_frames_of_its_own() {
    // spec: memory §4.7
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 8, &[VRAM]);
    let (paging, _) = mm.create_space(SpaceKind::Paging).expect("tables");
    assert_eq!(mm.map_gpu_va(paging, request(a, 8)), Err(MapError::AllocationInPagingSpace));
    let run = mm.allocate_system(3).expect("free");
    let pages = MapRequest { target: Target::SystemPages(run), ..request(a, 3) };
    let (base, work) = mm.map_gpu_va(paging, pages).expect("room");
    let work = work.expect("entries");
    assert!(work.immediate && work.serial == 0);
    assert_eq!(mm.table_bytes(SpaceKind::Paging), 3 * PAGE_BYTES, "a root and two tables");
    assert!(mm.free_system_va(paging, base, Pages(3)).expect("entries").immediate);
    let work = mm.make_resident(device, &[a]).expect("room").expect("a fill");
    assert_eq!(work.serial, 1, "immediate works are not counted");
}

#[test]
fn a_partly_freed_mapping_keeps_the_rest() {
    let (mut mm, space, device) = with_device(64);
    let mut machine = Machine::default();
    let a = create(&mut mm, device, 30, &[VRAM]);
    let (base, _) = mm.map_gpu_va(space, request(a, 30)).expect("room");
    mm.free_gpu_va(space, base.offset(10 * PAGE_BYTES), 10 * PAGE_BYTES).expect("mapped");
    machine.queue(mm.make_resident(device, &[a]).expect("room"));
    let shown: u32 = machine.ring[0]
        .operations
        .iter()
        .filter_map(|o| match o {
            Operation::UpdatePageTable { level: 0, count, .. } => Some(*count),
            _ => None,
        })
        .sum();
    assert_eq!(shown, 20);
    // seed: M14
    assert!(machine.ring[0].operations.iter().any(|o| matches!(o, Operation::Fill { address: VRAM_BASE, .. })));
    assert!(mm.destroy_allocation(a, &[]).is_some());
    assert_eq!(mm.table_bytes(SpaceKind::Process), PAGE_BYTES, "its addresses go with it");
}
