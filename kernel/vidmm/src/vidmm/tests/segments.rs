//! Segments of every form: rules with names, banks, invalid ranges, the CPU's way, totals.

mod banks;

use ddi::{
    AllocationInfo, CpuAccess, CpuHostAperture, DriverModel, MemoryRange, PreferredBank, PreferredSegment,
    SegmentBankPreference, SegmentDescriptor, SegmentDescriptor3, SegmentFlags as F, SegmentPreference,
};
use wddm_types::{PAGE_BYTES, PageRun, Pages, SegmentId};

use super::world::*;
use crate::allocation::Placement;
use crate::{MemoryLayout, MemoryTotals, SegmentDescription, SegmentError, SpaceKind, VidMm};

const BITS: [u32; 3] = [5, 5, 6];

/// Memory of 64 pages without page tables, as the first generation describes it, and an aperture of 64 pages.
fn old_layout() -> MemoryLayout {
    let memory =
        SegmentDescriptor3 { base_address: VRAM_BASE, size_bytes: (64 + RESERVE) * PAGE_BYTES, ..Default::default() };
    let aperture = SegmentDescription::from(&aperture_descriptor(64));
    MemoryLayout::new(DriverModel::Wddm1, vec![SegmentDescription::from(&memory), aperture])
}

fn new_layout() -> MemoryLayout {
    MemoryLayout::from(&[vram_descriptor(64, F::empty()), aperture_descriptor(64)])
}

fn banked(count: u32, ends: &[u64]) -> MemoryLayout {
    let mut layout = old_layout();
    let memory = &mut layout.segments[0];
    memory.flags |= F::USE_BANKING;
    (memory.bank_count, memory.bank_ends) = (count, ends.iter().map(|page| page * PAGE_BYTES).collect());
    layout
}

fn open(layout: MemoryLayout) -> Mm {
    VidMm::new(policy(), layout, mmu(&BITS), &levels(&BITS)).expect("the description keeps the rules")
}

fn refused(change: impl FnOnce(&mut Vec<SegmentDescription>), layout: MemoryLayout, error: SegmentError) {
    let mut layout = layout;
    change(&mut layout.segments);
    assert_eq!(layout.check(), Err(error));
    let opened: Result<Mm, _> = VidMm::new(policy(), layout, mmu(&BITS), &levels(&BITS));
    assert_eq!(opened.err(), Some(error), "and the adapter does not start");
}

#[test]
fn each_rule_of_the_cpus_way_and_of_ranges_has_a_name() {
    // spec: memory §1.4, memory §1.5, memory §1.7
    use SegmentError as E;
    let window = CpuAccess::HostAperture(CpuHostAperture { physical_address: 1 << 50, size_in_pages: 16 });
    refused(|s| s[0].flags |= F::SUPPORTS_CPU_HOST_APERTURE, new_layout(), E::CpuAccess(VRAM));
    refused(|s| s[0].cpu = window, new_layout(), E::CpuAccess(VRAM));
    refused(
        |s| {
            s[0].flags |= F::SUPPORTS_CPU_HOST_APERTURE;
            s[0].cpu = CpuAccess::HostAperture(CpuHostAperture { size_in_pages: 0, ..Default::default() });
        },
        new_layout(),
        E::HostApertureSize(VRAM),
    );
    refused(
        |s| {
            s[0].flags |= F::CPU_VISIBLE;
            s[0].cpu = CpuAccess::Translated(u64::MAX - PAGE_BYTES);
        },
        new_layout(),
        E::BusAddress(VRAM),
    );
    let range = |offset, bytes| MemoryRange { segment_offset: offset, size_bytes: bytes };
    for ranges in [
        vec![range(100, PAGE_BYTES)],
        vec![range(0, 100)],
        vec![range(0, 0)],
        vec![range(u64::MAX - PAGE_BYTES + 1, PAGE_BYTES)],
        vec![range((64 + RESERVE) * PAGE_BYTES, PAGE_BYTES)],
        vec![range(PAGE_BYTES, 2 * PAGE_BYTES), range(2 * PAGE_BYTES, PAGE_BYTES)],
    ] {
        refused(|s| s[0].invalid_ranges = ranges, new_layout(), E::InvalidRange(VRAM));
    }
    refused(|s| s[1].invalid_ranges = vec![range(0, PAGE_BYTES)], new_layout(), E::InvalidRange(APERTURE));
    let protected = |offset, bytes| {
        move |s: &mut Vec<SegmentDescription>| {
            s[0].flags |= F::VPR_SUPPORTED;
            (s[0].protected_offset, s[0].protected_bytes, s[0].protected_alignment) = (offset, bytes, 65536);
        }
    };
    refused(protected(4096, 65536), new_layout(), E::ProtectedRange(VRAM));
    refused(protected(0, 4096), new_layout(), E::ProtectedRange(VRAM));
    refused(protected(0, 1 << 40), new_layout(), E::ProtectedRange(VRAM));
    // spec: memory §1.5 bits 17 and 18
    refused(|s| s[0].flags |= F::VPR_PRESERVED_DURING_STANDBY, new_layout(), E::ProtectedRangeMissing(VRAM));
    for flags in [F::VPR_SUPPORTED | F::VPR_PRESERVED_DURING_STANDBY, F::ENCRYPTED_PAGING_SUPPORTED] {
        let mut layout = new_layout();
        layout.segments[0].flags |= flags;
        assert!(matches!(layout.check(), Err(E::NotBuilt(VRAM, _))), "{flags:?}");
        let mut layout = new_layout();
        layout.segments[1].flags |= flags;
        assert_eq!(layout.check(), Ok(()), "on an aperture it means nothing");
    }
}

#[test]
fn power_flags_mean_something_in_four_combinations() {
    // spec: memory §1.10, memory §10.4
    // seed: M12, M13
    let bits = [F::PRESERVED_DURING_STANDBY, F::PRESERVED_DURING_HIBERNATE, F::PARTIALLY_PRESERVED_DURING_HIBERNATE];
    for combination in 0..8usize {
        let flags = (0..3).filter(|bit| combination >> bit & 1 == 1).fold(F::empty(), |flags, bit| flags | bits[bit]);
        let mut layout = new_layout();
        layout.segments[0].flags |= flags;
        layout.segments[0].system_memory_end_address = PAGE_BYTES;
        let expected = if matches!(combination, 0b000 | 0b001 | 0b011 | 0b101) {
            Ok(())
        } else {
            Err(SegmentError::PowerFlags(VRAM))
        };
        assert_eq!(layout.check(), expected, "{flags:?}");
    }
    let partial = F::PRESERVED_DURING_STANDBY | F::PARTIALLY_PRESERVED_DURING_HIBERNATE;
    refused(|s| s[0].flags |= partial, new_layout(), SegmentError::SystemMemoryEnd(VRAM));
}

#[test]
fn agp_is_refused_with_the_rule_that_it_breaks() {
    // spec: memory §1.5, memory §1.9, memory §1.13
    // seed: M17
    let agp = |s: &mut Vec<SegmentDescription>| s[1].flags = F::AGP;
    refused(agp, old_layout(), SegmentError::AgpWithoutWindow(APERTURE));
    refused(|s| s[1].flags = F::AGP | F::APERTURE, old_layout(), SegmentError::AgpWithFlags(APERTURE));
    refused(agp, new_layout(), SegmentError::Agp(APERTURE));
}

#[test]
fn the_oldest_form_says_the_same_as_the_one_after_it() {
    // spec: memory §1.4
    let old = SegmentDescriptor {
        base_address: 1,
        cpu_translated_address: 2,
        size_bytes: 3,
        bank_count: 4,
        bank_ends: vec![5],
        commit_limit_bytes: 6,
        flags: F::CPU_VISIBLE,
    };
    let new = SegmentDescriptor3 {
        flags: F::CPU_VISIBLE,
        base_address: 1,
        cpu_translated_address: 2,
        size_bytes: 3,
        bank_count: 4,
        bank_ends: vec![5],
        commit_limit_bytes: 6,
        system_memory_end_address: 0,
    };
    assert_eq!(SegmentDescription::from(&old), SegmentDescription::from(&new));
}

#[test]
fn invalid_ranges_go_to_no_allocation_for_ever() {
    // spec: memory §1.4, memory §1.1
    // seed: M18, M20, M21
    let mut layout = new_layout();
    let range = |page, pages| MemoryRange { segment_offset: page * PAGE_BYTES, size_bytes: pages * PAGE_BYTES };
    // The last one reaches into the page-table reserve.
    layout.segments[0].invalid_ranges = vec![range(0, 1), range(10, 5), range(60, 6)];
    let mut mm = open(layout);
    assert_eq!(mm.capacity_bytes(VRAM), 54 * PAGE_BYTES);
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let invalid = |frame: u64| frame == 0 || (10..15).contains(&frame) || (60..66).contains(&frame);
    for _ in 0..3 {
        let id = create(&mut mm, device, 54, &[VRAM]);
        mm.make_resident(device, &[id]).expect("all that is valid");
        let used = frames(&mm, id);
        assert!(used.iter().flat_map(|&(first, pages)| first..first + pages).all(|frame| !invalid(frame)));
        mm.destroy_allocation(id, &[]);
    }
    let too_large = mm.create_allocation(device, info(55, &[VRAM]));
    assert!(too_large.is_err(), "what no segment can hold is refused at once");
    let mut tables = Vec::new();
    while let Ok((space, _)) = mm.create_space(SpaceKind::Process) {
        let root = mm.root(space);
        assert!(!invalid(root.offset / PAGE_BYTES), "nor do page tables lie there");
        tables.push(root);
    }
    assert!(!tables.is_empty());
}

#[test]
fn addresses_are_origin_plus_offset() {
    // spec: memory §0, memory §1.7
    // seed: M14, M22
    let mut layout = new_layout();
    layout.segments[0].flags |= F::CPU_VISIBLE;
    layout.segments[0].cpu = CpuAccess::Translated(0xE000_0000);
    let mm = open(layout);
    let memory = &mm.segments()[0];
    assert_eq!(memory.gpu_address(3), VRAM_BASE + 3 * PAGE_BYTES);
    assert_eq!(memory.bus_address(3), Some(0xE000_0000 + 3 * PAGE_BYTES));
    let hidden = open(new_layout());
    assert_eq!(hidden.segments()[0].bus_address(3), None, "without CpuVisible the address means nothing");
    // And so is what lists are told of content, wherever in the segment it lies.
    let (mut mm, _, device) = with_device(64);
    let list = [4, 8].map(|pages| {
        let wanted = ddi::AllocationInfo { flags: ddi::AllocationFlags::ACCESSED_PHYSICALLY, ..info(pages, &[VRAM]) };
        mm.create_allocation(device, wanted).expect("rules are kept")
    });
    mm.make_resident(device, &list).expect("room");
    let places = list.map(|id| mm.reference(device, id).expect("it is listed").place);
    assert_eq!(places, [0, 4].map(|frame| Some((VRAM, VRAM_BASE + frame * PAGE_BYTES))));
}

#[test]
fn flags_without_meaning_on_a_kind_of_segment_are_ignored() {
    // spec: memory §1.5, memory §10.1
    // seed: M09, M10, M23, M26
    let mut layout = new_layout();
    layout.segments[0].flags |= F::CACHE_COHERENT;
    layout.segments[1].flags |= F::CACHE_COHERENT | F::CPU_VISIBLE | F::USE_64KB_PAGES;
    layout.segments[1].cpu = CpuAccess::Translated(u64::MAX);
    let mm = open(layout);
    let [memory, aperture] = [0, 1].map(|index| &mm.segments()[index]);
    assert!(!memory.descriptor.flags.contains(F::CACHE_COHERENT));
    assert!(aperture.descriptor.flags.contains(F::CACHE_COHERENT), "there it counts");
    assert!(!aperture.descriptor.flags.intersects(F::CPU_VISIBLE | F::USE_64KB_PAGES));
    assert_eq!((aperture.bus_address(0), aperture.page_bytes()), (None, PAGE_BYTES));
    assert!(aperture.reported.contains(F::CPU_VISIBLE), "what the driver said is not forgotten");
    assert!(memory.banks.is_none(), "banks are optional");
}

#[test]
fn totals_follow_from_segments_and_system_memory() {
    // spec: memory §1.12
    const MIB: u64 = 1 << 20;
    let segment = |flags, size_bytes, commit_limit_bytes| SegmentDescription {
        flags,
        size_bytes,
        commit_limit_bytes,
        ..Default::default()
    };
    let mut layout = MemoryLayout::new(
        DriverModel::Wddm1,
        vec![
            segment(F::empty(), 512 * MIB, 0),
            segment(F::POPULATED_FROM_SYSTEM_MEMORY, 100 * MIB, 0),
            segment(F::APERTURE | F::POPULATED_FROM_SYSTEM_MEMORY, 400 * MIB, 300 * MIB),
            segment(F::APERTURE, 400 * MIB, 200 * MIB),
        ],
    );
    let totals = MemoryTotals::of(&layout, 2048 * MIB);
    let expected = MemoryTotals {
        system_for_graphics_bytes: 1024 * MIB,
        dedicated_video_bytes: 512 * MIB,
        dedicated_system_bytes: 100 * MIB,
        shared_bytes: 500 * MIB,
    };
    assert_eq!(totals, expected);
    assert_eq!(totals.video_bytes(), 1112 * MIB);
    layout.aperture_commit_limit_bytes = 50 * MIB;
    assert_eq!(MemoryTotals::of(&layout, 2048 * MIB).shared_bytes, 50 * MIB, "the driver's own limit");
    layout.aperture_commit_limit_bytes = u64::MAX;
    let small = MemoryTotals::of(&layout, 300 * MIB);
    assert_eq!((small.system_for_graphics_bytes, small.shared_bytes), (150 * MIB, 50 * MIB), "what is left of it");
    let least = MemoryTotals::of(&layout, 16 * MIB);
    assert_eq!((least.system_for_graphics_bytes, least.dedicated_system_bytes), (64 * MIB, 64 * MIB));
    assert_eq!(least.shared_bytes, 0);
}

#[test]
fn the_smaller_of_both_commit_limits_wins() {
    // spec: memory §1.12
    for (segment, adapter, expected) in [(64, u64::MAX, 64), (8, u64::MAX, 8), (64, 4 * PAGE_BYTES, 4)] {
        let mut layout = new_layout();
        layout.segments[1].commit_limit_bytes = segment * PAGE_BYTES;
        layout.aperture_commit_limit_bytes = adapter;
        let mut mm = open(layout);
        assert_eq!(mm.capacity_bytes(APERTURE), expected * PAGE_BYTES);
        let page = PageRun { first: 9, count: Pages(1) };
        for _ in 0..expected {
            mm.aperture_map_system(APERTURE, page).expect("within the limit");
        }
        assert!(mm.aperture_map_system(APERTURE, page).is_err(), "no page more is mapped at once");
    }
}

#[test]
fn without_an_aperture_system_memory_stands_behind_the_segments() {
    // spec: memory §1.6, memory §10.2
    // seed: M24
    let mut mm = open(MemoryLayout::from(&[vram_descriptor(64, F::empty())]));
    assert_eq!(mm.segments().len(), 1, "the driver has one segment");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let system = SegmentId(2);
    let id = create(&mut mm, device, 100, &[system]);
    mm.make_resident(device, &[id]).expect("system memory holds it");
    assert!(matches!(mm.allocations[id].placement, Placement::System(None)));
    let both = create(&mut mm, device, 40, &[VRAM, system]);
    mm.make_resident(device, &[both]).expect("memory first");
    assert!(matches!(mm.allocations[both].placement, Placement::Memory(VRAM, _)));
    let late = create(&mut mm, device, 40, &[VRAM, system]);
    mm.make_resident(device, &[late]).expect("the rest goes to system memory");
    assert!(matches!(mm.allocations[late].placement, Placement::System(None)));
    let physically = AllocationInfo { flags: ddi::AllocationFlags::ACCESSED_PHYSICALLY, ..info(1, &[system]) };
    assert!(mm.create_allocation(device, physically).is_err(), "it needs aperture pages, and there are none");
    assert!(mm.aperture_map_system(APERTURE, PageRun { first: 9, count: Pages(1) }).is_err());
    assert!(mm.create_allocation(device, info(1, &[SegmentId(3)])).is_err(), "and no number behind that");
}

#[test]
fn an_integrated_adapter_has_an_aperture_only() {
    // spec: memory §1.6, memory §4.3
    // seed: M07, M24
    let aperture = SegmentId(1);
    let mut levels = levels(&BITS);
    for level in &mut levels {
        (level.segment, level.paging_process_segment) = (SegmentId::SYSTEM, SegmentId::SYSTEM);
    }
    let mut mm: Mm = VidMm::new(policy(), &[aperture_descriptor(64)], mmu(&BITS), &levels).expect("it keeps the rules");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables in system memory");
    assert!(mm.root(space).segment.is_system());
    let device = mm.create_device(space);
    let id = create(&mut mm, device, 200, &[aperture]);
    let work = mm.make_resident(device, &[id]).expect("the aperture's size is no limit for what is not mapped there");
    let moved: Vec<_> = work.iter().flat_map(|work| &work.operations).collect();
    assert!(moved.is_empty(), "nothing is copied, nothing is mapped: {moved:?}");
    let physically = AllocationInfo { flags: ddi::AllocationFlags::ACCESSED_PHYSICALLY, ..info(8, &[aperture]) };
    let id = mm.create_allocation(device, physically).expect("it fits");
    let work = mm.make_resident(device, &[id]).expect("room").expect("it is mapped");
    let crate::Operation::MapAperture { segment, backing, .. } = &work.operations[0] else {
        panic!("the backing pages are mapped: {:?}", work.operations)
    };
    assert_eq!((*segment, backing.as_slice()), (aperture, mm.backing(id)), "given as a page list");
}
