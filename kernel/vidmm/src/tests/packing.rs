//! No request is refused that a perfect packer would grant with all victims gone.

use ddi::{AllocationFlags, SegmentFlags};
use wddm_types::{PAGE_BYTES, SegmentId};

use super::world::*;
use crate::{AllocationId, DeviceId, EvictFlags, MakeResidentError, SpaceKind};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

fn two_segments() -> (Mm, DeviceId) {
    let mut mm = adapter_of_two(64, SegmentFlags::empty());
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    (mm, device)
}

#[test]
fn who_can_go_elsewhere_makes_way_for_who_cannot() {
    let (mut mm, device) = two_segments();
    let flexible = create(&mut mm, device, 20, &[VRAM, EXTRA]);
    let bound = create(&mut mm, device, 60, &[VRAM]);
    mm.make_resident(device, &[flexible, bound]).expect("the one in the other segment, the other here");
    assert_eq!(mm.resident_bytes(EXTRA), 20 * PAGE_BYTES);
}

#[test]
fn an_assignment_is_found_if_there_is_one() {
    // Greedy, by size or not, fails: 40 + 24 = 64 and 17 + 15 = 32.
    let (mut mm, device) = two_segments();
    let both = [VRAM, EXTRA];
    let list: Vec<AllocationId> = [17, 40, 24, 15].map(|n| create(&mut mm, device, n, &both)).into();
    // Victims are in the way everywhere.
    let old = [(64, VRAM), (32, EXTRA)].map(|(n, segment)| create(&mut mm, device, n, &[segment]));
    mm.make_resident(device, &old).expect("room");
    mm.evict(device, &old, LAZY, &[]).expect("counted");
    mm.make_resident(device, &list).expect("a perfect packer would");
    let one_more = create(&mut mm, device, 1, &both);
    let error = MakeResidentError::OutOfMemory { bytes_to_trim: PAGE_BYTES };
    assert_eq!(mm.make_resident(device, &[one_more]), Err(error), "now it is full to the last page");
}

#[test]
fn contiguous_requests_are_packed_around_what_stays() {
    let (mut mm, _, device) = with_device(64);
    let mut physical = |pages: u64, segments: &[SegmentId]| {
        let mut wanted = info(pages, segments);
        wanted.flags = AllocationFlags::ACCESSED_PHYSICALLY;
        mm.create_allocation(device, wanted).expect("rules are kept")
    };
    let [first, wall, last] = [24, 8, 32].map(|n| physical(n, &[VRAM]));
    let [small, large, medium] = [10, 32, 14].map(|n| physical(n, &[VRAM]));
    for id in [first, wall, last] {
        mm.make_resident(device, &[id]).expect("room");
    }
    mm.evict(device, &[first, last], LAZY, &[]).expect("counted");
    mm.make_resident(device, &[small, large, medium]).expect("10 + 14 before the wall, 32 behind it");
    assert_eq!(mm.resident_bytes(VRAM), 64 * PAGE_BYTES);
}
