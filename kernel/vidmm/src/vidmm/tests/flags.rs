//! Effects of allocation flags beyond the rules of creation: zones, synchronous paging. Copies in system memory are `copies`.

use ddi::{AllocationFlags as F, AllocationInfo, DriverModel, SegmentFlags};

use super::world::*;
use crate::allocation::Placement;
use crate::{EvictFlags, MemoryLayout, SegmentDescription, SpaceKind, VidMm};

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
