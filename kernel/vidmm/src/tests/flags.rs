//! What allocation flags do beyond the rules of creation: copies in system memory, zones, paging that everybody waits for.

use ddi::{AllocationFlags as F, AllocationInfo, DriverModel, SegmentFlags};
use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::allocation::{AllocationError, Origin, Placement};
use crate::{
    DeviceId, EvictFlags, MemoryLayout, MoveKind, OfferFlags, OfferPriority, SegmentDescription, SpaceKind, VidMm, Work,
};

fn moved(work: &Work<u8>) -> Vec<(MoveKind, u64)> {
    work.moves.iter().map(|what| (what.kind, what.bytes / PAGE_BYTES)).collect()
}

fn visible() -> (Mm, DeviceId) {
    let mut mm = adapter(64, SegmentFlags::CPU_VISIBLE);
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, device)
}

#[test]
fn a_permanent_system_copy_is_what_a_lock_shows_and_what_clean_content_falls_back_to() {
    // spec: memory §2.2, memory §6.3, memory §8.3
    let (mut mm, device) = visible();
    let flags = F::PERMANENT_SYS_MEM | F::CPU_VISIBLE;
    let alone = mm.create_allocation(device, AllocationInfo { flags, ..info(4, &[VRAM]) });
    assert_eq!(
        alone,
        Err(AllocationError::LockNeedsAperture),
        "a lock takes it to system memory, behind the BAR or not"
    );
    let id = mm.create_allocation(device, AllocationInfo { flags, ..info(4, &[VRAM, APERTURE]) }).expect("it fits");
    mm.make_resident(device, &[id]).expect("room");
    let unwritten = EvictFlags { not_written_to: true, ..EvictFlags::default() };
    let work = mm.evict(device, &[id], unwritten, &[]).expect("it is on the list").expect("it leaves");
    assert_eq!(moved(&work), [(MoveKind::Discard, 4)], "the GPU did not write it: the copy is there");
    mm.make_resident(device, &[id]).expect("room");
    assert!(matches!(mm.allocations[id].placement, Placement::Memory(VRAM, _)));
    let plan = mm.lock(id).expect("it is lockable");
    assert_eq!(plan.runs.iter().map(|seen| seen.run).collect::<Vec<_>>(), mm.backing(id), "never the BAR");
    assert_eq!(moved(&plan.work.expect("what the GPU wrote comes along")), [(MoveKind::PageOut, 4)]);
    mm.evict(device, &[id], EvictFlags::default(), &[]).expect("it is on the list");
    mm.make_resident(device, &[id]).expect("room");
    assert!(matches!(mm.allocations[id].placement, Placement::System(_)), "not in memory while it is locked");
    mm.unlock(id).expect("it was locked");
    mm.evict(device, &[id], EvictFlags::default(), &[]).expect("it is on the list");
    let work = mm.make_resident(device, &[id]).expect("room").expect("it goes up again");
    assert_eq!(moved(&work), [(MoveKind::PageIn, 4)], "an ordinary transfer");
}

#[test]
fn memory_that_exists_has_a_copy_in_a_segment_and_gets_it_back() {
    // spec: memory §2.2, memory §5.9
    let (mut mm, device) = visible();
    let pages = mm.allocate_scattered(4).expect("they are free");
    let flags = F::EXISTING_SYS_MEM;
    let origin = Origin { primary: false, existing: Some(pages.clone()) };
    let described = AllocationInfo { flags, ..info(4, &[VRAM, APERTURE]) };
    let id = mm.create_allocation_from(device, described, origin).expect("it fits");
    let work = mm.make_resident(device, &[id]).expect("room").expect("work");
    assert_eq!(moved(&work), [(MoveKind::PageIn, 4)], "what the caller had, not a fill");
    let work = mm.evict(device, &[id], EvictFlags::default(), &[]).expect("it is on the list").expect("work");
    assert_eq!(moved(&work), [(MoveKind::PageOut, 4)], "into the caller's memory");
    mm.make_resident(device, &[id]).expect("room");
    let plan = mm.lock(id).expect("an aperture is supported");
    assert_eq!(plan.runs.iter().map(|seen| seen.run).collect::<Vec<_>>(), pages);
    mm.unlock(id).expect("it was locked");
    // Thrown away: the caller's memory is not cleared for it.
    mm.evict(device, &[id], EvictFlags::default(), &[]).expect("it is on the list");
    mm.make_resident(device, &[id]).expect("room");
    assert!(matches!(mm.allocations[id].placement, Placement::Memory(..)));
    mm.offer(device, &[id], OfferPriority::Low, OfferFlags::default(), &[]).expect("it may be");
    let large = create(&mut mm, device, 64, &[VRAM]);
    mm.make_resident(device, &[large]).expect("the offered one gives way");
    assert!(mm.allocations[id].offer.is_some_and(|offer| offer.discarded));
    assert_eq!(mm.allocations[id].valid.split(0, 4), [(0, 4, true)]);
}

#[test]
fn overlays_live_in_the_last_fifth_unless_a_preference_says_otherwise() {
    // spec: memory §2.2, memory §8.1
    let pages = 64 + RESERVE;
    for (flag, physically) in [(F::OVERLAY, true), (F::CAPTURE, false)] {
        let bits = [5, 5, 6];
        let mut levels = levels(&bits);
        for level in &mut levels {
            (level.segment, level.paging_process_segment) = Default::default();
        }
        let descriptors = [vram_descriptor(64, SegmentFlags::empty()), aperture_descriptor(64)];
        let mut mm: Mm = VidMm::new(policy(), &descriptors, mmu(&bits), &levels).expect("tables in system memory");
        let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
        let device = mm.create_device(space);
        let mut flags = flag;
        flags.set(F::ACCESSED_PHYSICALLY, physically);
        let lowest = |mm: &Mm, id| match &mm.allocations[id].placement {
            Placement::Memory(_, extents) => extents.iter().map(|extent| extent.frame).min().expect("it is there"),
            other => panic!("{other:?}"),
        };
        let mut placed = |described: AllocationInfo| {
            let id = mm.create_allocation(device, described).expect("it fits");
            mm.make_resident(device, &[id]).expect("room");
            lowest(&mm, id)
        };
        let plain = placed(info(8, &[VRAM]));
        let zone = placed(AllocationInfo { flags, ..info(8, &[VRAM]) });
        assert_eq!((plain, zone), (0, pages - 8), "{flag:?}");
        let large = placed(AllocationInfo { flags, ..info(pages / 2, &[VRAM]) });
        assert!(large < pages - pages / 5, "{flag:?}: what the zone does not hold lies elsewhere: {large}");
    }
}

#[test]
fn everybody_waits_for_paging_that_is_synchronous() {
    // spec: memory §2.2
    for (model, flags, waits) in
        [(DriverModel::Wddm1, F::SYNCHRONOUS_PAGING, true), (DriverModel::Wddm1, F::empty(), false)]
    {
        let bits = [5, 5, 6];
        let descriptors = [vram_descriptor(64, SegmentFlags::empty()), aperture_descriptor(64)];
        let layout = MemoryLayout::new(model, descriptors.iter().map(SegmentDescription::from).collect());
        let mut mm: Mm = VidMm::new(policy(), layout, mmu(&bits), &levels(&bits)).expect("the rules");
        let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
        let device = mm.create_device(space);
        let described = info(4, &[VRAM, APERTURE]);
        let read_segments = described.supported_segments;
        let id = mm.create_allocation(device, AllocationInfo { flags, read_segments, ..described }).expect("it fits");
        assert_eq!(mm.synchronous_serial(), 0);
        let came = mm.make_resident(device, &[id]).expect("room").expect("it is filled").serial;
        assert_eq!(mm.synchronous_serial(), if waits { came } else { 0 });
        let other = create(&mut mm, device, 4, &[VRAM]);
        mm.make_resident(device, &[other]).expect("room");
        assert_eq!(mm.synchronous_serial(), if waits { came } else { 0 }, "others move as ever");
        let went = mm.evict(device, &[id], EvictFlags::default(), &[]).expect("on the list").expect("out").serial;
        assert_eq!(mm.synchronous_serial(), if waits { went } else { 0 });
    }
}
