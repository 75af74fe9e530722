//! The rules of a new allocation, one after the other: flags by generation, sets, primaries, memory that exists, pinned
//! ones, sharing.

use ddi::{
    AllocationFlags as F, AllocationFlags2, AllocationInfo, DdiVersion, DriverModel, SegmentFlags, SegmentPreference,
    VidMmCaps,
};
use wddm_types::{GpuVa, PageRun, Pages, SegmentSet};

use super::world::*;
use crate::allocation::{AllocationError, Origin, Placement, Terms, check};
use crate::{
    EvictFlags, Location, MakeResidentError, MapRequest, MemoryLayout, Operation, Protection, SpaceKind, VidMm,
};

fn verdict(info: AllocationInfo, primary: bool, model: DriverModel) -> Result<u64, AllocationError> {
    let version = MemoryLayout::new(model, Vec::new()).version;
    verdict_of(info, primary, version, VidMmCaps::MAP_APERTURE2_SUPPORTED)
}

fn verdict_of(
    info: AllocationInfo,
    primary: bool,
    version: DdiVersion,
    caps: VidMmCaps,
) -> Result<u64, AllocationError> {
    let mm = adapter(64, SegmentFlags::CPU_VISIBLE);
    let origin = Origin { primary, existing: None };
    let terms = Terms { model: version.model(), version, caps, segments: mm.segments() };
    check(info, &origin, terms).map(|(_, pages)| pages)
}

fn both(flags: F) -> AllocationInfo {
    let info = info(4, &[VRAM, APERTURE]);
    AllocationInfo { flags, read_segments: info.supported_segments, ..info }
}

#[test]
fn every_flag_has_its_answer_in_each_generation() {
    // spec: memory §2.2
    use AllocationError::{ExistingMemory, Flags, NotBuilt};
    let unbuilt = |result: Result<u64, AllocationError>| matches!(result, Err(NotBuilt(_)));
    for bit in 0..32 {
        let flags = F::from_bits_retain(1 << bit);
        let visible = flags | F::CPU_VISIBLE;
        for (model, primary) in [(DriverModel::Wddm1, false), (DriverModel::Wddm2, false), (DriverModel::Wddm2, true)] {
            let first = model == DriverModel::Wddm1;
            let alone = verdict(both(flags), primary, model);
            let seen = verdict(both(visible), primary, model);
            let name = format!("bit {bit}, {model:?}, primary {primary}");
            match bit {
                // CpuVisible, Protected, FromEndOfSegment, bit 7, Overlay, Capture, AccessedPhysically, on demand
                0 | 6 | 7 | 8 | 9 | 15 | 18 => assert_eq!(alone, Ok(4), "{name}"),
                1 | 2 if primary => assert_eq!((alone, seen), (Err(Flags), Err(Flags)), "{name}"),
                1 | 2 => assert_eq!((alone, seen), (Err(Flags), Ok(4)), "{name}: needs CpuVisible"),
                3..=5 if primary => assert_eq!(alone, Err(Flags), "{name}"),
                3 => assert_eq!(alone, Ok(4), "{name}"),
                4 => assert_eq!(alone, Err(ExistingMemory), "{name}"),
                5 => assert!(unbuilt(alone), "{name}"),
                10 if first => assert_eq!(alone, Err(Flags), "{name}: primaries only"),
                11 if first => assert_eq!(alone, Ok(4), "{name}"),
                12 | 13 if first => assert_eq!(alone, Ok(4), "{name}: one GPU is its own link"),
                10 => assert!(unbuilt(alone), "{name}"),
                11 | 12 => assert_eq!(alone, Err(Flags), "{name}: reserved"),
                13 => assert_eq!(alone, Ok(4), "{name}: the driver has the capability"),
                14 => assert!(alone == Err(Flags), "{name}: a history buffer is CPU-visible"),
                16 => assert_eq!(alone, Err(Flags), "{name}: needs AccessedPhysically"),
                17 => assert!(unbuilt(alone), "{name}"),
                _ => assert_eq!(alone, Err(Flags), "{name}: reserved"),
            }
        }
    }
    let alternate = both(F::USE_ALTERNATE_VA);
    assert_eq!(verdict(alternate, true, DriverModel::Wddm1), Ok(4), "a primary of the first generation");
    let history = F::HISTORY_BUFFER | F::CPU_VISIBLE;
    assert_eq!(verdict(both(history), false, DriverModel::Wddm2), Ok(4));
    assert_eq!(verdict(both(history | F::FROM_END_OF_SEGMENT), false, DriverModel::Wddm2), Err(Flags), "no others");
}

#[test]
fn a_history_buffer_is_cached_where_an_aperture_is_coherent() {
    // spec: memory §2.2
    let mut aperture = aperture_descriptor(64);
    aperture.flags |= SegmentFlags::CACHE_COHERENT;
    let (segments, bits) = ([vram_descriptor(64, SegmentFlags::CPU_VISIBLE), aperture], [5, 5, 6]);
    let mm: Mm = VidMm::new(policy(), &segments, mmu(&bits), &levels(&bits)).expect("rules are kept");
    let history = F::HISTORY_BUFFER | F::CPU_VISIBLE;
    let verdict = |flags| check(both(flags), &Origin::default(), mm.creation_terms()).map(|(_, pages)| pages);
    assert_eq!(verdict(history), Err(AllocationError::Flags), "an engine snoops what the CPU reads");
    assert_eq!(verdict(history | F::CACHED), Ok(4));
}

#[test]
fn the_second_flags_have_theirs() {
    // spec: memory §2.2
    for bit in 0..32 {
        let flags2 = AllocationFlags2::from_bits_retain(1 << bit);
        let info = AllocationInfo { flags2, ..both(F::empty()) };
        let second = verdict(info, false, DriverModel::Wddm2);
        match bit {
            0 => assert_eq!(second, Err(AllocationError::SharedBackingStore), "it may lie in video memory"),
            1..=5 => assert_eq!(second, Ok(4), "bit {bit}"),
            _ => assert_eq!(second, Err(AllocationError::Flags), "bit {bit}: reserved"),
        }
        assert_eq!(
            verdict(info, false, DriverModel::Wddm1),
            Err(AllocationError::Flags),
            "bit {bit}: from WDDM 3.0 on"
        );
    }
}

#[test]
fn flags_belong_to_versions_and_capabilities() {
    // spec: memory §2.1, memory §2.2
    let none = VidMmCaps::empty();
    let second = |flags2, version| verdict_of(AllocationInfo { flags2, ..both(F::empty()) }, false, version, none);
    let refused = Err(AllocationError::Flags);
    for flags2 in [AllocationFlags2::NO_IMPLICIT_SYNCHRONIZATION, AllocationFlags2::NOTIFY_EVICTION] {
        let by_version = [DdiVersion::WDDM_2_0, DdiVersion::WDDM_3_1, DdiVersion::WDDM_3_2].map(|v| second(flags2, v));
        assert_eq!(by_version, [refused, refused, Ok(4)], "{flags2:?}");
    }
    let shared = AllocationFlags2::SHARE_BACKING_STORE_WITH_KMD;
    assert_eq!(second(shared, DdiVersion::WDDM_2_9), refused);
    assert_eq!(second(shared, DdiVersion::WDDM_3_0), Err(AllocationError::SharedBackingStore));
    let in_system = AllocationInfo { flags2: shared, ..info(4, &[APERTURE]) };
    assert_eq!(verdict_of(in_system, false, DdiVersion::WDDM_3_0, none), Ok(4));
    let existing = Origin { existing: Some(vec![PageRun { first: 0, count: Pages(4) }]), ..Origin::default() };
    let brought = AllocationInfo { flags: F::EXISTING_SYS_MEM, ..in_system };
    let mm = adapter(64, SegmentFlags::CPU_VISIBLE);
    let terms = Terms { version: DdiVersion::WDDM_3_2, ..mm.creation_terms() };
    assert_eq!(check(brought, &existing, terms), Err(AllocationError::SharedBackingStore));
    let seen = both(F::MAP_APERTURE_CPU_VISIBLE);
    for (version, caps, answer) in [
        (DdiVersion::WDDM_3_2, none, Err(AllocationError::NoMapAperture2)),
        (DdiVersion::WDDM_2_6, VidMmCaps::MAP_APERTURE2_SUPPORTED, Err(AllocationError::NoMapAperture2)),
        (DdiVersion::WDDM_2_9, VidMmCaps::MAP_APERTURE2_SUPPORTED, Ok(4)),
        // Bit 13 is LinkInstanced there.
        (DdiVersion::WDDM_1_3, none, Ok(4)),
    ] {
        assert_eq!(verdict_of(seen, false, version, caps), answer, "{version}");
    }
}

/// A primary's pages lie in a row, because a display reads them; no device is named where it is mapped, even if one
/// owns it.
#[test]
fn a_primary_lies_in_one_run_of_memory() {
    // spec: memory §1.6, memory §3.4
    let mut mm = adapter(64, SegmentFlags::CPU_VISIBLE);
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let eights: Vec<_> = (0..8).map(|_| create(&mut mm, device, 8, &[VRAM])).collect();
    mm.make_resident(device, &eights).expect("all of the segment");
    let primary = || Origin { primary: true, existing: None };
    let runs = [Origin::default(), primary()].map(|origin| {
        // Four holes of eight pages; others have to move for twelve in a row.
        let id = mm.create_allocation_from(device, info(12, &[VRAM]), origin).expect("it is small");
        for hole in eights.iter().step_by(2) {
            mm.evict(device, &[*hole], EvictFlags::default(), &[]).expect("it is listed");
        }
        mm.make_resident(device, &[id]).expect("room");
        let Placement::Memory(_, extents) = &mm.allocations[id].placement else { panic!("it is in memory") };
        let extents: Vec<_> = extents.iter().collect();
        mm.check_invariants(&[]).expect("whatever moved");
        mm.destroy_allocation(id, &[]);
        for hole in eights.iter().step_by(2) {
            mm.make_resident(device, &[*hole]).expect("room again");
        }
        1 + extents.windows(2).filter(|pair| pair[0].frame + pair[0].count != pair[1].frame).count()
    });
    assert_eq!(runs, [2, 1]);
    let physical = AllocationInfo { flags: F::CPU_VISIBLE | F::ACCESSED_PHYSICALLY, ..info(4, &[APERTURE]) };
    let devices = [Origin::default(), primary()].map(|origin| {
        let id = mm.create_allocation_from(device, physical, origin).expect("four pages");
        let work = mm.make_resident(device, &[id]).expect("room").expect("it is shown");
        let found = work.operations.iter().find_map(|operation| match operation {
            Operation::MapAperture { device, .. } => Some(*device),
            _ => None,
        });
        found.expect("an aperture shows it")
    });
    assert_eq!(devices, [Some(device), None]);
}

#[test]
fn read_and_write_sets_count_by_generation() {
    // spec: memory §2.1
    let mm = adapter(64, SegmentFlags::CPU_VISIBLE);
    let effective = |read: SegmentSet, model| {
        let base =
            AllocationInfo { read_segments: read, preferred_segment: SegmentPreference::NONE, ..both(F::empty()) };
        check(base, &Origin::default(), Terms { model, ..mm.creation_terms() }).map(|(info, _)| info.supported_segments)
    };
    let write = both(F::empty()).supported_segments;
    assert_eq!(effective(set(&[VRAM]), DriverModel::Wddm2), Ok(write), "the read set is ignored");
    assert_eq!(effective(set(&[VRAM]), DriverModel::Wddm1), Ok(set(&[VRAM])), "what is read and written");
    assert_eq!(effective(SegmentSet::NONE, DriverModel::Wddm1), Ok(write));
}

#[test]
fn sizes_and_sets_that_cannot_be_are_refused() {
    // spec: memory §2.1, memory §2.6
    let base = both(F::empty());
    let small = AllocationInfo { pitch_aligned_size_bytes: base.size_bytes - 1, ..base };
    assert_eq!(verdict(small, false, DriverModel::Wddm2), Err(AllocationError::PitchAlignedSize));
    let large = AllocationInfo { pitch_aligned_size_bytes: base.size_bytes, ..base };
    assert_eq!(verdict(large, false, DriverModel::Wddm2), Ok(4));
    let elsewhere = AllocationInfo { physical_adapter: 1, ..base };
    assert_eq!(verdict(elsewhere, false, DriverModel::Wddm2), Err(AllocationError::PhysicalAdapter));
}

#[test]
fn a_primary_lies_where_the_cpu_reaches() {
    // spec: memory §2.7
    let unseen = adapter(64, SegmentFlags::empty());
    let primary = Origin { primary: true, existing: None };
    let on = |preferred: &[wddm_types::SegmentId]| {
        let info = AllocationInfo { preferred_segment: SegmentPreference::of(preferred), ..both(F::empty()) };
        check(info, &primary, unseen.creation_terms()).map(drop)
    };
    assert_eq!(on(&[VRAM]), Err(AllocationError::PrimaryNotVisible(VRAM)));
    assert_eq!(on(&[]), Err(AllocationError::PrimaryNotVisible(VRAM)), "without preferences the whole set counts");
    assert_eq!(on(&[APERTURE]), Ok(()));
    let relaxed = Terms { caps: VidMmCaps::NON_CPU_VISIBLE_PRIMARY, ..unseen.creation_terms() };
    assert!(check(both(F::empty()), &primary, relaxed).is_ok(), "a driver that copes with it");
    assert_eq!(verdict(both(F::empty()), true, DriverModel::Wddm2), Ok(4), "where all is seen");
}

#[test]
fn memory_that_exists_is_the_backing_store_and_stays_its_owners() {
    // spec: memory §2.2
    let (mut mm, _, device) = with_device(64);
    let before = mm.free_system_pages();
    let pages = mm.allocate_scattered(4).expect("they are free");
    let flags = F::EXISTING_SYS_MEM;
    let over = |runs: Vec<PageRun>| Origin { primary: false, existing: Some(runs) };
    let info = AllocationInfo { flags, ..info(4, &[APERTURE]) };
    assert_eq!(mm.create_allocation(device, info), Err(AllocationError::ExistingMemory), "the caller gave none");
    let short = vec![PageRun { first: pages[0].first, count: Pages(3) }];
    assert_eq!(mm.create_allocation_from(device, info, over(short)), Err(AllocationError::ExistingMemory));
    let plain = AllocationInfo { flags: F::empty(), ..info };
    let undeclared = mm.create_allocation_from(device, plain, over(pages.clone()));
    assert_eq!(undeclared, Err(AllocationError::ExistingMemory), "the driver did not say so");
    let id = mm.create_allocation_from(device, info, over(pages.clone())).expect("four pages");
    assert_eq!(mm.backing(id), pages);
    assert!(mm.pages_to_clear(id).is_empty(), "its bytes are the caller's");
    mm.destroy_allocation(id, &[]);
    assert_eq!(mm.free_system_pages(), before - Pages(4), "they are not VidMm's to free");
    pages.into_iter().for_each(|run| mm.free_system(run));
    assert_eq!(mm.free_system_pages(), before);
}

#[test]
fn an_overlay_stays_where_it_is_whatever_lists_say() {
    // spec: memory §2.2, bits 8 and 9; memory §8.2
    for flag in [F::OVERLAY, F::CAPTURE] {
        let (mut mm, _, device) = with_device(64);
        let info = AllocationInfo { flags: flag, ..info(40, &[VRAM]) };
        let pinned = mm.create_allocation(device, info).expect("it fits");
        mm.make_resident(device, &[pinned]).expect("room");
        mm.evict(device, &[pinned], EvictFlags::default(), &[]).expect("it is on the list");
        assert_eq!(mm.location(pinned), Location::Memory, "evicted by its owner, and still there");
        let other = create(&mut mm, device, 40, &[VRAM]);
        let refused = mm.make_resident(device, &[other]);
        assert!(matches!(refused, Err(MakeResidentError::OutOfMemory { .. })), "it is no victim");
        assert!(mm.destroy_allocation(pinned, &[]).is_some());
        mm.make_resident(device, &[other]).expect("its room is free again");
    }
}

#[test]
fn who_leaves_a_shared_allocation_takes_counts_and_addresses_along() {
    // spec: memory §2.7, memory §10.1
    let (mut mm, space, first) = with_device(64);
    let (other_space, _) = mm.create_space(crate::SpaceKind::Process).expect("tables");
    let second = mm.create_device(other_space);
    let shared = create(&mut mm, first, 8, &[VRAM]);
    let free = mm.free_system_pages();
    for device in [first, second] {
        mm.make_resident(device, &[shared]).expect("room");
    }
    assert_eq!(mm.free_system_pages(), free, "one backing store for both");
    let target = crate::Target::Allocation { allocation: shared, offset_pages: Pages(0) };
    for space in [space, other_space] {
        let request = MapRequest {
            target,
            size_pages: Pages(8),
            base: None,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            protection: Protection::READ_WRITE,
        };
        mm.map_gpu_va(space, request).expect("addresses");
    }
    let mapped = |mm: &Mm, space| mm.allocations[shared].mappings.iter().filter(|(of, _)| *of == space).count();
    mm.leave_allocation(shared, first, Some(second), true);
    assert_eq!((mm.count(first, shared), mm.count(second, shared)), (0, 1));
    assert_eq!((mapped(&mm, space), mapped(&mm, other_space)), (0, 1));
    assert!(mm.is_resident(shared), "the other's list holds it");
    mm.destroy_device(first, &[]);
    mm.destroy_allocation(shared, &[]);
    mm.destroy_device(second, &[]);
}
