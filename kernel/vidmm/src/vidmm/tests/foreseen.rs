//! What the planner is told of lists: its LRU has on a list what a device's list has, however a list came and went.

use ddi::{PRIORITY_NORMAL, SegmentPreference};

use super::world::*;
use crate::foreseen::Foreseen;
use crate::slab::Key as _;
use crate::{AllocationId, Cut, DeviceId, EvictFlags, Eviction, MakeResidentFlags, PropertyUpdate, Use};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

fn planned(mut mm: Mm) -> Mm {
    mm.policy.eviction = Eviction::Planner;
    mm.foreseen = Foreseen::open(Eviction::Planner, &mm.segments);
    mm
}

/// 64 pages under the planner, and two devices of a process with `a` and `b` of 40 pages each.
fn two() -> (Mm, [DeviceId; 2], [AllocationId; 2]) {
    let (mm, space, device) = with_device(64);
    let mut mm = planned(mm);
    let other = mm.create_device(space);
    let content = [40, 40].map(|n| create(&mut mm, device, n, &[VRAM]));
    (mm, [device, other], content)
}

fn makes(mm: &mut Mm, device: DeviceId, list: &[AllocationId]) {
    let _ = mm.make_resident(device, list).expect("room");
    mm.check_invariants(&[]).expect("what always holds");
}

fn evicts(mm: &mut Mm, device: DeviceId, list: &[AllocationId]) {
    mm.evict(device, list, LAZY, &[point(1, 1)]).expect("counted");
    mm.check_invariants(&[]).expect("what always holds");
}

/// Pages that LRU would have copied out.
fn lru_out(mm: &Mm) -> u64 {
    mm.foreseen.of(VRAM).expect("planned").report().lru.paged_out
}

#[test]
fn what_one_evict_takes_off_a_list_twice_is_on_no_list() {
    let (mut mm, [device, _], [a, b]) = two();
    makes(&mut mm, device, &[a]);
    makes(&mut mm, device, &[a]);
    evicts(&mut mm, device, &[a, a]);
    makes(&mut mm, device, &[b]);
    assert_eq!(lru_out(&mm), 16, "LRU takes it too");
}

#[test]
fn what_one_list_named_twice_stays_on_it_until_the_second_evict() {
    let (mut mm, [device, _], [a, _]) = two();
    let small = create(&mut mm, device, 20, &[VRAM]);
    let more = create(&mut mm, device, 20, &[VRAM]);
    makes(&mut mm, device, &[a, a]);
    evicts(&mut mm, device, &[a]);
    makes(&mut mm, device, &[small]);
    evicts(&mut mm, device, &[small]);
    makes(&mut mm, device, &[more]);
    assert_eq!(lru_out(&mm), 16, "of the small one, because the first is on the list");
    evicts(&mut mm, device, &[more]);
    evicts(&mut mm, device, &[a]);
    makes(&mut mm, device, &[small]);
    assert_eq!(lru_out(&mm), 32, "of the one that left the list longest ago");
}

#[test]
fn what_is_locked_when_a_list_names_it_is_on_that_list() {
    let (mut mm, [device, _], [a, _]) = two();
    let small = create(&mut mm, device, 10, &[VRAM]);
    let held = |mm: &mut Mm, list: &[AllocationId]| {
        let _ = mm.make_resident_held(device, list, MakeResidentFlags::default()).expect("room");
        mm.check_invariants(&[]).expect("the lists that hold it were told");
    };
    // The device is suspended, so `a` stays without content, and its lock moves nothing.
    held(&mut mm, &[small]);
    held(&mut mm, &[a]);
    evicts(&mut mm, device, &[a]);
    let _ = mm.lock(a).expect("there is system memory");
    held(&mut mm, &[a]);
    evicts(&mut mm, device, &[a]);
}

#[test]
fn a_device_that_goes_takes_its_list_with_it() {
    let (mut mm, [device, other], [a, b]) = two();
    makes(&mut mm, other, &[a]);
    mm.destroy_device(other, &[point(1, 2)]);
    mm.check_invariants(&[]).expect("what always holds");
    makes(&mut mm, device, &[b]);
    assert_eq!(lru_out(&mm), 16);
}

#[test]
fn a_device_that_closes_an_allocation_has_it_on_its_list_no_more() {
    let (mut mm, [device, other], [a, b]) = two();
    makes(&mut mm, device, &[a]);
    makes(&mut mm, other, &[a]);
    makes(&mut mm, other, &[a]);
    let _ = mm.leave_allocation(a, other, Some(device), false);
    mm.check_invariants(&[]).expect("what always holds");
    evicts(&mut mm, device, &[a]);
    makes(&mut mm, device, &[b]);
    assert_eq!(lru_out(&mm), 16);
}

#[test]
fn a_portion_of_a_list_is_a_list() {
    // spec: memory §7.4
    let (mut mm, [device, _], [a, b]) = two();
    for (id, value) in [(a, 1), (b, 2)] {
        let uses = [Use { slot: 1, split_offset: 0, allocation: Some(id) }];
        let portion = mm.bring_in(device, &uses, &Cut::default()).expect("room");
        mm.check_invariants(&[]).expect("what always holds");
        assert!(mm.portion_queued(device, &portion.needs, |_| true, point(1, value)).is_empty());
        mm.check_invariants(&[]).expect("what always holds");
    }
    assert_eq!(lru_out(&mm), 16);
}

#[test]
fn content_that_prefers_another_segment_from_now_on_is_planned_there() {
    // spec: memory §2.8
    let mut mm = planned(adapter_of_two(64, ddi::SegmentFlags::default()));
    let (space, _) = mm.create_space(crate::SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let a = create(&mut mm, device, 30, &[VRAM, EXTRA]);
    makes(&mut mm, device, &[a]);
    evicts(&mut mm, device, &[a]);
    let process = space.parts().0;
    let footprints = |mm: &Mm| [VRAM, EXTRA].map(|at| mm.foreseen.of(at).expect("planned").footprint(process));
    assert_eq!(footprints(&mm), [30, 0]);
    let preferred_segment = Some(SegmentPreference::of(&[EXTRA]));
    let _ = mm.update_property(a, PropertyUpdate { preferred_segment, ..PropertyUpdate::default() }).expect("allowed");
    mm.check_invariants(&[]).expect("what always holds");
    assert_eq!(mm.foreseen.outside(VRAM), 30, "what it still has there is no subject's");
    mm.doom_allocation(a, &[], &[]);
    assert_eq!(footprints(&mm), [0, 0]);
}

#[test]
fn the_account_asks_only_for_what_may_go_instead() {
    // spec: memory §8.2
    let (mut mm, [device, _], [a, b]) = two();
    let low = mm.create_allocation(device, ddi::AllocationInfo { priority: PRIORITY_NORMAL - 1, ..info(10, &[VRAM]) });
    let low = low.expect("it fits");
    for id in [a, low, b] {
        makes(&mut mm, device, &[id]);
        evicts(&mut mm, device, &[id]);
    }
    let before = mm.foreseen.of(VRAM).expect("planned").report().loss.followed;
    let asked = mm.foreseen.victim(VRAM, low, 8, |_| false);
    let after = mm.foreseen.of(VRAM).expect("planned").report().loss.followed;
    assert_eq!((asked, after), ((low, 8), before), "nothing that may not go is counted as gone");
}

#[test]
fn of_a_process_that_has_ended_the_planner_keeps_a_report_and_no_stream() {
    let (mm, space, device) = with_device(64);
    let mut mm = planned(mm);
    let content = create(&mut mm, device, 40, &[VRAM]);
    makes(&mut mm, device, &[content]);
    evicts(&mut mm, device, &[content]);
    let streams = |mm: &Mm| mm.plan_reports().next().expect("planned").1.streams;
    assert_eq!(streams(&mm).iter().map(|stream| stream.ended).collect::<Vec<_>>(), [false]);
    let _ = mm.destroy_allocation(content, &[]);
    mm.destroy_device(device, &[]);
    let _ = mm.destroy_space(space);
    let ended = streams(&mm);
    assert_eq!((ended.len(), ended[0].ended, ended[0].operations), (1, true, 1), "{ended:?}");
    assert_eq!(mm.foreseen.footprint(space.parts().0), 0);
}
