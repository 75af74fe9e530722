//! How content leaves and what the driver is told: through an aperture, uncopied, by notices.

use ddi::{AllocationFlags, AllocationInfo, DriverModel, SegmentDescriptor4, SegmentFlags};
use wddm_types::{PAGE_BYTES, PhysicalAddress, SegmentId};

use super::world::*;
use crate::{AllocationId, DeviceId, EvictFlags, MemoryLayout, Operation, SegmentDescription, SpaceKind, VidMm};

const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };
const UNWRITTEN: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: true };

/// An adapter with an aperture of `aperture_pages`, coherent or not.
fn world(aperture_pages: u64, coherent: bool) -> (Mm, DeviceId) {
    let bits = [5, 5, 6];
    let mut aperture = aperture_descriptor(aperture_pages);
    aperture.flags.set(SegmentFlags::CACHE_COHERENT, coherent);
    let descriptors = [vram_descriptor(64, SegmentFlags::empty()), aperture];
    let mut mm: Mm = VidMm::new(policy(), &descriptors, mmu(&bits), &levels(&bits)).expect("rules are kept");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, device)
}

fn described(mm: &mut Mm, device: DeviceId, describe: impl FnOnce(&mut ddi::AllocationInfo)) -> AllocationId {
    let mut info = info(16, &[VRAM]);
    describe(&mut info);
    mm.create_allocation(device, info).expect("the rules are kept")
}

/// The operations of one way in and one out.
fn in_and_out(mm: &mut Mm, device: DeviceId, id: AllocationId, flags: EvictFlags) -> [Vec<Operation>; 2] {
    let came = mm.make_resident(device, &[id]).expect("room").expect("it moves").operations;
    let went = mm.evict(device, &[id], flags, &[]).expect("counted").expect("it moves").operations;
    [came, went]
}

#[test]
fn an_eviction_goes_through_an_aperture_that_the_driver_names() {
    // spec: memory §8.3, memory §2.1
    let (mut mm, device) = world(64, true);
    let id = described(&mut mm, device, |info| info.eviction_segments = set(&[APERTURE]));
    let [_, went] = in_and_out(&mut mm, device, id, NOW);
    let [
        Operation::MapAperture { offset_in_pages, backing, device: Some(owner), .. },
        Operation::Transfer { through: Some((APERTURE, at)), size_bytes, .. },
        Operation::UnmapAperture { offset_in_pages: unmapped, number_of_pages: 16, dummy_page, .. },
    ] = &went[..]
    else {
        panic!("map, copy, unmap: {went:?}")
    };
    assert_eq!((*owner, unmapped), (device, offset_in_pages));
    assert_eq!(*at, APERTURE_BASE + offset_in_pages * PAGE_BYTES);
    assert_eq!((backing.iter().map(|run| run.count.0).sum::<u64>(), *size_bytes), (16, 16 * PAGE_BYTES));
    assert_eq!(*dummy_page, mm.dummy_page_address());
    assert_eq!(mm.resident_bytes(APERTURE), 0, "the aperture is taken only for the copy");
}

#[test]
fn a_full_aperture_does_not_fail_an_eviction() {
    // spec: memory §8.3, memory §2.1
    let (mut mm, device) = world(8, true);
    let id = described(&mut mm, device, |info| info.eviction_segments = set(&[APERTURE]));
    let [_, went] = in_and_out(&mut mm, device, id, NOW);
    assert!(matches!(&went[..], [Operation::Transfer { through: None, .. }]), "by the page list: {went:?}");
}

#[test]
fn what_leaves_uncopied_is_announced_and_what_dies_is_not() {
    // spec: memory §3.3, memory §8.3
    let (mut mm, device) = world(64, true);
    let id = described(&mut mm, device, |_| ());
    let [_, went] = in_and_out(&mut mm, device, id, UNWRITTEN);
    assert!(matches!(&went[..], [Operation::Discard { segment: VRAM, address: VRAM_BASE, .. }]), "{went:?}");
    mm.make_resident(device, &[id]).expect("room");
    let work = mm.destroy_allocation(id, &[]);
    assert!(work.is_none_or(|work| work.operations.is_empty()), "its driver is told of the end itself");
}

#[test]
fn only_cacheable_pages_in_a_coherent_aperture_are_mapped_coherently() {
    // seed: M07
    // spec: memory §3.4, memory §1.5
    let cached = AllocationFlags::CPU_VISIBLE | AllocationFlags::CACHED;
    for (flags, coherent, expected) in [
        (cached, true, true),
        (cached, false, false),
        (AllocationFlags::CPU_VISIBLE, true, false),
        (AllocationFlags::empty(), true, false),
    ] {
        let (mut mm, device) = world(64, coherent);
        let id = described(&mut mm, device, |info| {
            info.flags = flags | AllocationFlags::ACCESSED_PHYSICALLY;
            info.supported_segments = set(&[APERTURE]);
            info.preferred_segment = super::world::info(1, &[APERTURE]).preferred_segment;
        });
        let [came, went] = in_and_out(&mut mm, device, id, NOW);
        // A commit to an aperture maps the backing pages and copies nothing; the way back unmaps them.
        let [Operation::MapAperture { cache_coherent, .. }] = &came[..] else { panic!("one map: {came:?}") };
        assert!(matches!(&went[..], [Operation::UnmapAperture { .. }]), "one unmap: {went:?}");
        assert_eq!(*cache_coherent, expected, "{flags:?} in an aperture that is coherent: {coherent}");
    }
    let (mut mm, _) = world(64, true);
    let run = mm.allocate_system(1).expect("a page");
    let (_, map) = mm.aperture_map_system(APERTURE, run).expect("room");
    assert!(matches!(map, Operation::MapAperture { cache_coherent: false, .. }), "the kernel's own are write-combined");
}

/// The flag of the aperture that content comes to counts: neither that of another aperture nor one on a memory segment.
#[test]
fn every_aperture_is_coherent_by_its_own_flag_alone() {
    // spec: memory §1.5, memory §2.2
    // seed: M09
    for (memory, first, second) in
        [(false, true, false), (false, false, true), (true, false, false), (true, true, true), (false, false, false)]
    {
        let other = SegmentDescriptor4 { base_address: APERTURE_BASE << 1, ..aperture_descriptor(64) };
        let segments = [(vram_descriptor(64, SegmentFlags::CPU_VISIBLE), memory), (aperture_descriptor(64), first)];
        let described = segments.into_iter().chain([(other, second)]).map(|(mut segment, coherent)| {
            segment.flags.set(SegmentFlags::CACHE_COHERENT, coherent);
            SegmentDescription::from(&segment)
        });
        let (layout, bits) = (MemoryLayout::new(DriverModel::Wddm1, described.collect()), [5, 5, 6]);
        let mut mm: Mm = VidMm::new(policy(), layout, mmu(&bits), &levels(&bits)).expect("rules are kept");
        let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
        let device = mm.create_device(space);
        let mut create = |flags, segment| {
            let info = AllocationInfo { flags, read_segments: set(&[segment]), ..info(4, &[segment]) };
            let id = mm.create_allocation(device, info).ok()?;
            Some(mm.make_resident(device, &[id]).expect("room").expect("it moves").operations)
        };
        let cached = AllocationFlags::CPU_VISIBLE | AllocationFlags::CACHED | AllocationFlags::ACCESSED_PHYSICALLY;
        for (segment, coherent) in [(APERTURE, first), (EXTRA, second)] {
            let came = create(cached, segment).expect("the rules are kept");
            let [Operation::MapAperture { segment: mapped, cache_coherent, .. }] = came[..] else {
                panic!("one map: {came:?}")
            };
            assert_eq!((mapped, cache_coherent), (segment, coherent), "{memory}, {first}, {second}");
        }
        let history = AllocationFlags::HISTORY_BUFFER | AllocationFlags::CPU_VISIBLE;
        assert!(create(history | AllocationFlags::CACHED, VRAM).is_some(), "it may always be");
        assert_eq!(create(history, VRAM).is_some(), !(first || second), "it has to be where an engine snoops");
    }
}

#[test]
fn a_driver_that_wants_to_know_is_told_once_in_the_right_place() {
    // spec: memory §3.4
    let (mut mm, device) = world(64, true);
    let wanted = AllocationFlags::ACCESSED_PHYSICALLY | AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION;
    let id = described(&mut mm, device, |info| info.flags = wanted);
    let nowhere = PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 };
    let here = PhysicalAddress { segment: VRAM, offset: 0 };
    for _ in 0..2 {
        let [came, went] = in_and_out(&mut mm, device, id, NOW);
        assert!(matches!(&came[0], Operation::Fill { .. } | Operation::Transfer { .. }), "content first: {came:?}");
        assert!(matches!(&came[1..], [Operation::NotifyResidency { address, resident: true, .. }] if *address == here));
        assert!(
            matches!(&went[0], Operation::NotifyResidency { address, resident: false, .. } if *address == nowhere),
            "before the copy: {went:?}"
        );
        assert!(matches!(&went[1..], [Operation::Transfer { .. }]));
    }
    // Counting twice changes nothing about where it is.
    mm.make_resident(device, &[id, id]).expect("room");
    assert!(mm.evict(device, &[id], NOW, &[]).expect("counted").is_none());
    // The dead go too.
    let work = mm.destroy_allocation(id, &[]).expect("it was there");
    assert!(matches!(&work.operations[..], [Operation::NotifyResidency { resident: false, .. }]));
}

/// A context allocation's first content is its driver's, once; then it is content like any other.
#[test]
fn the_driver_makes_the_first_content_of_a_context_allocation() {
    // spec: memory §7.5, memory §3.3
    let (mut mm, device) = world(64, true);
    let segments = [VRAM, APERTURE];
    let cpu = AllocationFlags::CPU_VISIBLE | AllocationFlags::PROTECTED;
    let mut infos = segments.map(|segment| super::world::info(16, &[segment]));
    infos[1].flags = cpu;
    let [local, system] = infos.map(|info| mm.create_context_allocation(device, info).expect("the rules are kept"));
    assert!(mm.update_context_allocation(local, vec![7]).is_none(), "it has no content yet");
    let [came, went] = in_and_out(&mut mm, device, local, UNWRITTEN);
    let [Operation::Fill { .. }, Operation::InitContext { segment: VRAM, pages, cpu_visible: false, .. }, changed] =
        &came[..]
    else {
        panic!("cleared, then initialised, then changed: {came:?}")
    };
    assert!(matches!(changed, Operation::UpdateContext { private_data, .. } if *private_data == [7]), "{changed:?}");
    assert_eq!(pages.iter().map(|run| run.count.0).sum::<u64>(), 16);
    assert!(
        matches!(&went[..], [Operation::Transfer { .. }]),
        "its content is kept although the evict calls it unwritten: {went:?}"
    );
    let [came, _] = in_and_out(&mut mm, device, local, UNWRITTEN);
    assert!(matches!(&came[..], [Operation::Transfer { .. }]), "only once: {came:?}");
    mm.make_resident(device, &[local]).expect("room");
    let update = mm.update_context_allocation(local, vec![1, 2]).expect("it is resident");
    let [Operation::UpdateContext { private_data, .. }] = &update.operations[..] else { panic!("{update:?}") };
    assert_eq!(*private_data, [1, 2]);
    let went = mm.evict(device, &[local], UNWRITTEN, &[]).expect("counted").expect("it moves").operations;
    assert!(matches!(&went[..], [Operation::Transfer { .. }]), "an update is worth keeping: {went:?}");
    for value in [3, 4] {
        assert!(mm.update_context_allocation(local, vec![value]).is_none(), "it is not resident");
    }
    let [came, _] = in_and_out(&mut mm, device, local, UNWRITTEN);
    let changes = came[1..].iter().map(|step| match step {
        Operation::UpdateContext { private_data, .. } => private_data[0],
        other => panic!("behind its content come its changes: {other:?}"),
    });
    assert!(matches!(came[0], Operation::Transfer { .. }) && changes.eq([3, 4]), "{came:?}");
    let came = mm.make_resident(device, &[system]).expect("room").expect("it is shown").operations;
    assert!(matches!(&came[..], [Operation::InitContext { cpu_visible: true, .. }]), "{came:?}");
    let huge = super::world::info(4096, &[APERTURE]);
    assert_eq!(mm.create_context_allocation(device, huge), Err(crate::AllocationError::TooLarge));
}

/// After a reset nothing is anywhere, and the driver has heard of each thing that was.
#[test]
fn a_reset_loses_everything_and_says_so() {
    // spec: memory §3.5, memory §8.4
    let (mut mm, device) = world(64, true);
    let physically = AllocationFlags::ACCESSED_PHYSICALLY;
    let noted = physically | AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION;
    let local = described(&mut mm, device, |_| ());
    let lazy = described(&mut mm, device, |info| info.allocation = ddi::KmdAllocation(77));
    let told = described(&mut mm, device, |info| info.flags = noted);
    let shown = described(&mut mm, device, |info| {
        info.flags = physically;
        info.supported_segments = set(&[APERTURE]);
        info.preferred_segment = super::world::info(1, &[APERTURE]).preferred_segment;
    });
    let away = described(&mut mm, device, |_| ());
    mm.make_resident(device, &[local, lazy, told, shown]).expect("room");
    let later = EvictFlags { only_if_necessary: true, not_written_to: false };
    mm.evict(device, &[lazy], later, &[point(1, 9)]).expect("counted");
    let work = mm.lost_memory();
    assert!(work.immediate && work.after.is_empty(), "the work does not wait for lost hardware");
    let lost = |operation: &&Operation| matches!(operation, Operation::Transfer { size_bytes: 0, .. });
    assert_eq!(work.operations.iter().filter(lost).count(), 3, "{:?}", work.operations);
    let unmaps = |operation: &&Operation| matches!(operation, Operation::UnmapAperture { number_of_pages: 16, .. });
    assert_eq!(work.operations.iter().filter(unmaps).count(), 1);
    assert!(matches!(&work.operations[0], Operation::NotifyResidency { resident: false, .. }), "before its transfer");
    assert_eq!(work.operations.len(), 5, "nothing is copied and no table is written: {:?}", work.operations);
    assert_eq!(work.moves.iter().map(|step| step.bytes).sum::<u64>(), 4 * 16 * PAGE_BYTES, "also what was mapped");
    assert!(work.moves.iter().all(|step| step.cause == crate::Cause::Reset));
    assert_eq!([VRAM, APERTURE].map(|segment| mm.resident_bytes(segment)), [0, 0]);
    for id in [local, lazy, told, shown, away] {
        assert_eq!((mm.is_resident(id), mm.count(device, id)), (false, 0));
    }
    assert!(mm.lost_memory().operations.is_empty(), "once");
    for id in [local, lazy, told, shown, away] {
        assert!(mm.destroy_allocation(id, &[]).is_none_or(|work| work.operations.is_empty()));
    }
    mm.destroy_device(device, &[]);
}
