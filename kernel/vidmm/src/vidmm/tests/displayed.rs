//! Displayed primaries: in which aperture they are mapped, from when until when.

use ddi::{AllocationFlags as F, AllocationInfo, CpuAccess, DriverModel, SegmentFlags, VidMmCaps};
use wddm_types::{CpuPlace, CpuRun, PAGE_BYTES, PageRun, Pages, SegmentId};

use super::world::*;
use crate::allocation::{Origin, Placement};
use crate::{
    AllocationId, DeviceId, DisplayError, EvictFlags, LegacyLock, MemoryLayout, Operation, SegmentDescription,
    SpaceKind, VidMm, Work,
};

fn primary(mm: &mut Mm, device: DeviceId, pages: u64, segment: SegmentId, flags: F) -> AllocationId {
    let info = info(pages, &[segment]);
    let info = AllocationInfo { flags: F::CPU_VISIBLE | flags, read_segments: info.supported_segments, ..info };
    let id = mm.create_allocation_from(device, info, Origin { primary: true, existing: None }).expect("it fits");
    mm.make_resident(device, &[id]).expect("room");
    id
}

/// Pages of an aperture at which works show something, and at which they hide it.
fn shown(work: Option<Work<u8>>) -> (Vec<u64>, Vec<u64>) {
    let (mut maps, mut unmaps) = (Vec::new(), Vec::new());
    for operation in work.into_iter().flat_map(|work| work.operations) {
        match operation {
            Operation::MapAperture { device: None, offset_in_pages, .. } => maps.push(offset_in_pages),
            Operation::UnmapAperture { device: None, offset_in_pages, .. } => unmaps.push(offset_in_pages),
            _ => {}
        }
    }
    (maps, unmaps)
}

#[test]
fn a_primary_that_engines_reach_by_address_is_in_an_aperture_only_while_it_is_displayed() {
    // spec: memory §1.6
    let (mut mm, _, device) = with_device(64);
    let id = primary(&mut mm, device, 8, APERTURE, F::empty());
    assert_eq!((mm.whereabouts(id).place, mm.resident_bytes(APERTURE)), (None, 0));
    let (maps, unmaps) = shown(mm.pin_displayed(id).unwrap());
    assert_eq!((maps.len(), unmaps.len()), (1, 0));
    let place = mm.whereabouts(id).place;
    assert_eq!(place, Some((APERTURE, APERTURE_BASE + maps[0] * 4096)));
    // Another flip to it, and the first one over.
    assert!(mm.pin_displayed(id).unwrap().is_none());
    mm.unpin_displayed(id);
    assert!(mm.hide_undisplayed().is_none() && mm.whereabouts(id).place == place);
    mm.unpin_displayed(id);
    // It is flipped to again before anybody has hidden it.
    assert!(mm.pin_displayed(id).unwrap().is_none());
    assert!(mm.hide_undisplayed().is_none() && mm.whereabouts(id).place == place);
    mm.unpin_displayed(id);
    assert_eq!(shown(mm.hide_undisplayed()), (vec![], maps));
    assert_eq!((mm.whereabouts(id).place, mm.resident_bytes(APERTURE)), (None, 0));
    mm.check_invariants(&[]).unwrap();
}

#[test]
fn what_is_accessed_physically_is_there_before_and_after() {
    // spec: memory §1.6
    let mut mm = adapter(64, SegmentFlags::CPU_VISIBLE);
    let (space, _) = mm.create_space(crate::SpaceKind::Process).unwrap();
    let device = mm.create_device(space);
    let physical = primary(&mut mm, device, 8, APERTURE, F::ACCESSED_PHYSICALLY);
    let local = primary(&mut mm, device, 8, VRAM, F::empty());
    for id in [physical, local] {
        let place = mm.whereabouts(id).place;
        assert!(place.is_some());
        assert!(mm.pin_displayed(id).unwrap().is_none());
        mm.unpin_displayed(id);
        assert!(mm.hide_undisplayed().is_none());
        assert_eq!(mm.whereabouts(id).place, place);
    }
    let Placement::Memory(_, extents) = &mm.allocations[local].placement else { panic!("in memory") };
    assert_eq!(extents.iter().count(), 1, "in one piece");
    // A primary that only a display has kept there leaves once it is displayed no more.
    mm.pin_displayed(physical).unwrap();
    mm.evict(device, &[physical], EvictFlags::default(), &[]).unwrap();
    assert_eq!(mm.resident_bytes(APERTURE), 8 * 4096, "it is displayed");
    mm.unpin_displayed(physical);
    assert_eq!(shown(mm.hide_undisplayed()).1.len(), 1);
    assert_eq!(mm.resident_bytes(APERTURE), 0);
    mm.check_invariants(&[]).unwrap();
}

#[test]
fn what_finds_no_room_in_the_aperture_is_not_pinned() {
    let mut mm = adapter(64, SegmentFlags::CPU_VISIBLE);
    let (space, _) = mm.create_space(crate::SpaceKind::Process).unwrap();
    let device = mm.create_device(space);
    let [one, other] = [40, 40].map(|pages| primary(&mut mm, device, pages, APERTURE, F::empty()));
    mm.pin_displayed(one).unwrap();
    assert!(matches!(mm.pin_displayed(other), Err(DisplayError::Aperture(_))));
    assert!(!mm.is_pinned(other));
    // A destruction hides it with all else.
    mm.unpin_displayed(one);
    let work = mm.destroy_allocation(one, &[]);
    assert_eq!(shown(work).1.len(), 1);
    assert!(mm.hide_undisplayed().is_none());
    mm.pin_displayed(other).unwrap();
    // So does a reset, whatever is displayed.
    mm.unpin_displayed(other);
    assert_eq!(shown(Some(mm.lost_memory())).1.len(), 1);
    assert!(mm.hide_undisplayed().is_none());
    mm.check_invariants(&[]).unwrap();
}

/// Where the CPU finds the aperture.
const APERTURE_BAR: u64 = 7 << 45;

/// Memory and an aperture of the first generation, which the CPU reaches or not.
fn behind_an_aperture(flags: SegmentFlags, caps: VidMmCaps) -> (Mm, DeviceId) {
    let bits = [5, 5, 6];
    let mut segments = [vram_descriptor(32, SegmentFlags::CPU_VISIBLE), aperture_descriptor(64)];
    segments[1].flags |= flags;
    segments[1].cpu = CpuAccess::Translated(APERTURE_BAR);
    let segments = segments.iter().map(SegmentDescription::from).collect();
    let layout = MemoryLayout { caps, ..MemoryLayout::new(DriverModel::Wddm1, segments) };
    let mut mm: Mm = VidMm::new(policy(), layout, mmu(&bits), &levels(&bits)).expect("the description keeps the rules");
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, device)
}

#[test]
fn a_primary_is_locked_where_an_aperture_shows_it_unless_something_else_does() {
    // spec: memory §1.5, memory §1.7
    // seed: M57
    let (visible, none) = (SegmentFlags::CPU_VISIBLE, VidMmCaps::empty());
    for (name, flags, caps, primary_flags, through) in [
        ("an aperture that the CPU reaches", visible, none, F::empty(), true),
        ("one that it does not", SegmentFlags::empty(), none, F::empty(), false),
        ("an alternate address", visible, none, F::USE_ALTERNATE_VA, false),
        ("primaries backed by sections", visible, VidMmCaps::SECTION_BACKED_PRIMARY, F::empty(), false),
    ] {
        let (mut mm, device) = behind_an_aperture(flags, caps);
        // Something before it, so that no offset is 0.
        primary(&mut mm, device, 3, APERTURE, F::ACCESSED_PHYSICALLY);
        let id = primary(&mut mm, device, 4, APERTURE, F::ACCESSED_PHYSICALLY | primary_flags);
        let backing: Vec<CpuRun> = mm.backing(id).iter().copied().map(CpuRun::system).collect();
        let early = mm.lock_legacy(id, LegacyLock::default()).expect("a lock");
        assert_eq!(early.runs, backing, "{name}: the aperture does not show it yet");
        mm.unlock(id).expect("locked");
        mm.completed(early.wait_for.expect("it is being mapped"));
        let run = PageRun { first: APERTURE_BAR / PAGE_BYTES + 3, count: Pages(4) };
        let shown = vec![CpuRun { place: CpuPlace::Bar, run }];
        let plan = mm.lock_legacy(id, LegacyLock::default()).expect("a lock");
        assert_eq!(plan.runs, if through { shown } else { backing.clone() }, "{name}");
        let work = mm.evict(device, &[id], EvictFlags::default(), &[]).expect("counted").expect("it leaves");
        let rotated: Vec<_> = work.rotations.iter().map(|rotation| rotation.runs.clone()).collect();
        assert_eq!(rotated, if through { vec![backing] } else { vec![] }, "{name}: its pages are seen themselves");
        mm.check_invariants(&[]).expect("in order");
        mm.unlock(id).expect("locked");
    }
}
