//! Devices that give way: works of others wait for no use of theirs, and the content comes back with their turn.

use wddm_types::{FencePoint, PAGE_BYTES};

use super::world::*;
use crate::{
    AllocationId, Cut, DeviceId, Direction, EvictFlags, MakeResidentFlags, MoveKind, NextResume, OfferFlags,
    OfferPriority, Operation, PortionError, ReclaimResult, Use, UsedContent, Work,
};

mod again;
mod apertures;
mod destroyed;
mod offered;

const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };

/// A device has content of so many pages, evicts or destroys it while work uses it, and another process's list takes the room of it.
fn taken(pages: u64, destroyed: bool) -> (Mm, [DeviceId; 2], AllocationId, Work<u8>) {
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let used = create(&mut mm, a, pages, &[VRAM]);
    mm.make_resident(a, &[used]).expect("room");
    mm.evict(a, &[used], NOW, &[point(1, 5)]).expect("counted");
    if destroyed {
        mm.doom_allocation(used, &[point(1, 5)], &[]);
    }
    let theirs = create(&mut mm, b, 50, &[VRAM]);
    let work = mm.make_resident(b, &[theirs]).expect("room").expect("it comes");
    assert_eq!(work.after, [point(1, 5)], "the content is in use");
    (mm, [a, b], used, work)
}

/// The content that a work takes behind uses.
fn uses_of(work: &Work<u8>) -> Vec<(u64, &UsedContent<u8>)> {
    work.used.iter().map(|used| (work.serial, used)).collect()
}

/// Points of the queue with this fence.
fn of(fence: u8) -> impl Fn(&FencePoint<u8>) -> bool {
    move |point| point.fence == fence
}

/// The way that content of an allocation comes, with a device's turn.
fn comes_back(mm: &mut Mm, device: DeviceId, id: AllocationId) -> Vec<(MoveKind, u64)> {
    assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(device));
    let work = mm.resume(device).expect("there is room").expect("it comes");
    assert_eq!((work.after, mm.is_suspended(device)), (vec![], false));
    let moves = work.moves.iter().filter(|step| step.allocation == id);
    moves.map(|step| (step.kind, step.bytes / PAGE_BYTES)).collect()
}

/// A device has one turn after the other; each ends with the uses up to a value, and this content is there until then.
fn takes_turns(mm: &mut Mm, device: DeviceId, turns: &[(u64, AllocationId)]) {
    for &(value, here) in turns {
        assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(device), "until {value}");
        drop(mm.resume(device).expect("there is room"));
        assert!(mm.is_resident(here), "{here:?} until {value}");
        mm.settle_postponed(device, |point| point.value <= value);
        drop(mm.list_withheld(device));
        mm.check_invariants(&[]).expect("all rules hold");
    }
}

#[test]
fn a_device_gives_way_and_has_its_content_back_with_its_turn() {
    // spec: memory §8.6, memory §10.1
    let (mut mm, [a, b], used, work) = taken(30, false);
    let uses = uses_of(&work);
    assert!(mm.give_way(a, of(1), &uses));
    assert_eq!((mm.is_suspended(a), mm.count(a, used)), (true, 0), "its process has evicted it");
    assert_eq!(mm.rescue(uses[0].1), [], "the work copies it out itself");
    mm.check_invariants(&[]).expect("all rules hold");
    mm.set_device_idle(b, true);
    assert_eq!(comes_back(&mut mm, a, used), [(MoveKind::PageIn, 16)], "as many pages as the other has taken");
    mm.check_invariants(&[]).expect("all rules hold");
}

/// A process has other content resident in place of what its work uses, and then the first content again: each turn has the room that the
/// work before it leaves.
#[test]
fn content_that_is_made_resident_again_comes_behind_what_took_its_room() {
    // spec: memory §4.9, memory §8.6
    let (mut mm, [(_, device)]) = with_processes::<1>(64);
    let [again, now, small] = [28, 35, 5].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let came = mm.make_resident(device, &[again]).expect("room").expect("it comes");
    mm.completed(came.serial);
    mm.evict(device, &[again], NOW, &[point(2, 3)]).expect("counted");
    let first = mm.make_resident(device, &[now, small]).expect("room").expect("it comes");
    mm.evict(device, &[small], NOW, &[point(2, 5)]).expect("counted");
    let second = mm.make_resident(device, &[again]).expect("room").expect("it comes");
    assert_eq!([&first.after[..], &second.after[..]], [[point(2, 3)], [point(2, 5)]]);
    let uses: Vec<_> = [&first, &second].into_iter().flat_map(uses_of).collect();
    assert!(mm.give_way(device, of(2), &uses), "68 pages of 64 in three turns");
    mm.check_invariants(&[]).expect("all rules hold");
    takes_turns(&mut mm, device, &[(3, again), (5, now), (7, again)]);
    assert_eq!((mm.withholds(device), mm.count(device, again)), (false, 1));
}

/// A device that runs has evicted content which its queued work uses until this point, and has made other content resident in its place.
fn replaced() -> (Mm, DeviceId, [AllocationId; 2], Work<u8>) {
    let (mut mm, [(_, device)]) = with_processes::<1>(64);
    let [before, now] = [40, 40].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let came = mm.make_resident(device, &[before]).expect("room").expect("it comes");
    mm.completed(came.serial);
    mm.evict(device, &[before], NOW, &[point(2, 3)]).expect("counted");
    let work = mm.make_resident(device, &[now]).expect("room").expect("it comes");
    assert_eq!((&work.after[..], mm.withholds(device)), (&[point(2, 3)][..], false));
    (mm, device, [before, now], work)
}

#[test]
fn a_device_withholds_what_it_has_made_resident_in_place_of_what_its_work_uses() {
    // spec: memory §4.9, memory §8.6
    let (mut mm, device, [before, now], work) = replaced();
    assert!(mm.give_way(device, of(2), &uses_of(&work)), "80 pages of 64 in two turns");
    assert_eq!((mm.withholds(device), mm.count(device, before), mm.count(device, now)), (true, 0, 1));
    mm.check_invariants(&[]).expect("all rules hold");
    // Its process makes more resident, evicts some of that, and destroys the rest, while the first turn lasts.
    let more = [10, 10].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    assert_eq!(mm.make_resident(device, &more).expect("beside what comes, not what goes"), None);
    let beyond = create(&mut mm, device, 5, &[VRAM]);
    let before_refused = mm.state_digest();
    mm.make_resident(device, &[beyond]).expect_err("65 pages of 64");
    assert_eq!(mm.state_digest(), before_refused);
    assert_eq!(comes_back(&mut mm, device, before), [(MoveKind::PageIn, 16)]);
    mm.check_invariants(&[]).expect("all rules hold");
    assert_eq!(mm.list_withheld(device), None, "its work still uses the other");
    mm.evict(device, &[more[0]], NOW, &[point(2, 9)]).expect("it was made resident");
    mm.evict(device, &[more[0]], NOW, &[]).expect_err("once");
    mm.doom_allocation(more[1], &[], &[]);
    mm.check_invariants(&[]).expect("all rules hold");
    mm.settle_postponed(device, |point| point.value <= 3);
    let stop = mm.list_withheld(device).expect("it runs");
    assert_eq!((&stop.suspends[..], mm.withholds(device)), (&[device][..], false));
    mm.check_invariants(&[]).expect("all rules hold");
    assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(device));
    let second = mm.resume(device).expect("there is room").expect("it comes");
    let back = second.moves.iter().filter(|step| step.allocation == now).map(|step| step.bytes / PAGE_BYTES);
    assert_eq!((back.sum::<u64>(), &second.after[..]), (16, &[point(2, 3)][..]));
    assert_eq!((mm.count(device, now), mm.count(device, more[0])), (1, 0));
    mm.check_invariants(&[]).expect("all rules hold");
}

#[test]
fn what_is_withheld_goes_with_its_owner_and_with_its_device() {
    // spec: memory §6.2, memory §8.6
    let (mut mm, device, [before, now], work) = replaced();
    assert!(mm.give_way(device, of(2), &uses_of(&work)));
    assert_eq!(comes_back(&mut mm, device, before), [(MoveKind::PageIn, 16)]);
    mm.evict(device, &[now], NOW, &[]).expect("it was made resident");
    assert_eq!((mm.count(device, now), mm.withholds(device)), (0, true));
    [before, now].into_iter().for_each(|id| drop(mm.destroy_allocation(id, &[])));
    mm.check_invariants(&[]).expect("all rules hold");
    mm.destroy_device(device, &[]);
    assert_eq!(mm.withholding(), []);
    mm.check_invariants(&[]).expect("all rules hold");
}

#[test]
fn a_device_that_would_never_have_a_turn_gives_no_way() {
    // spec: memory §8.6
    let (mut mm, [a, _], _, work) = taken(30, false);
    let more = create(&mut mm, a, 40, &[VRAM]);
    mm.make_resident(a, &[more]).expect_err("others run");
    let uses = uses_of(&work);
    let mut locked = uses[0].1.clone();
    locked.ends_first = true;
    let before = mm.state_digest();
    assert!(!mm.give_way(a, of(1), &[(work.serial, &locked)]), "a lock needs what the use writes");
    assert_eq!(mm.state_digest(), before);
    let (mut mm, [_, b], ..) = taken(30, false);
    let own = create(&mut mm, b, 14, &[VRAM]);
    mm.make_resident(b, &[own]).expect("room");
    mm.evict(b, &[own], NOW, &[point(2, 3)]).expect("counted");
    let beside = create(&mut mm, b, 14, &[VRAM]);
    let work = mm.make_resident(b, &[beside]).expect("room").expect("it comes");
    assert_eq!(work.after, [point(2, 3)]);
    mm.completed(work.serial);
    let before = mm.state_digest();
    assert!(!mm.give_way(b, of(2), &uses_of(&work)), "78 pages of 64, and its work may use all");
    assert_eq!(mm.state_digest(), before);
}

#[test]
fn a_device_withholds_what_it_made_resident_while_a_work_that_suspends_it_stood_behind_its_use() {
    // spec: memory §4.9, memory §8.6
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let theirs = create(&mut mm, b, 50, &[VRAM]);
    mm.make_resident(b, &[theirs]).expect("room");
    mm.set_device_idle(b, true);
    let [used, listed, next] = [30, 20, 20].map(|pages| create(&mut mm, a, pages, &[VRAM]));
    let beyond = MakeResidentFlags { cant_trim_further: true, ..MakeResidentFlags::default() };
    let came = mm.make_resident_with(a, &[used, listed], beyond).expect("the other is idle").expect("it comes");
    mm.completed(came.serial);
    mm.evict(a, &[used], NOW, &[point(1, 5)]).expect("counted");
    mm.set_device_idle(b, false);
    let later = 10 * mm.policy.residency_quantum_ns;
    assert_eq!(mm.next_to_resume(later), NextResume::Resume(b));
    let work = mm.resume(b).expect("there is room").expect("it comes");
    assert_eq!((&work.after[..], mm.is_suspended(a)), (&[point(1, 5)][..], true));
    assert!(mm.make_resident_with(a, &[next], beyond).expect("it would fit alone").is_none(), "it comes with a turn");
    assert!(mm.give_way(a, of(1), &uses_of(&work)), "70 pages of 64 in two turns");
    mm.check_invariants(&[]).expect("all rules hold");
    assert_eq!((mm.withholds(a), mm.count(a, next)), (true, 1));
    mm.set_device_idle(b, true);
    assert_eq!(comes_back(&mut mm, a, next), []);
    mm.settle_postponed(a, |point| point.value <= 5);
    drop(mm.list_withheld(a));
    assert!(!mm.withholds(a));
    assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(a));
    drop(mm.resume(a).expect("there is room"));
    assert!(mm.is_resident(next), "the use of the other content is over");
    mm.check_invariants(&[]).expect("all rules hold");
}

/// A device that withholds content withholds what its buffers need as well, and refuses what it may not have.
#[test]
fn buffers_of_a_device_that_withholds_content_come_behind_it() {
    // spec: memory §5.9, memory §7.3, memory §8.6
    let (mut mm, device, [before, now], work) = replaced();
    assert!(mm.give_way(device, of(2), &uses_of(&work)));
    assert_eq!(comes_back(&mut mm, device, before), [(MoveKind::PageIn, 16)]);
    let [named, given, large] = [10, 10, 30].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.offer(device, &[given], OfferPriority::Low, OfferFlags::default(), &[]).expect("it may be");
    let of_one = |id| [Use { slot: 0, split_offset: 0, allocation: Some(id) }];
    let state = mm.state_digest();
    let refused = mm.bring_in(device, &of_one(given), &Cut::default()).map(drop);
    assert_eq!((refused, mm.may_bring_in_behind(device, &[large])), (Err(PortionError::Offered), false));
    assert_eq!(mm.state_digest(), state);
    let portion = mm.bring_in(device, &of_one(named), &Cut::default()).expect("beside what comes");
    assert_eq!(
        (portion.work.len(), portion.cut.is_none(), mm.portion_queued(device, &[named], |_| true, point(2, 4)).len()),
        (0, true, 0)
    );
    assert_eq!((mm.withheld_place(device, named).is_some(), mm.withheld_place(device, before)), (true, None));
    mm.check_invariants(&[]).expect("all rules hold");
    mm.settle_postponed(device, |point| point.value <= 3);
    drop(mm.list_withheld(device).expect("the use is over"));
    let came = mm.resume(device).expect("there is room").expect("it comes");
    let pages =
        |id| came.moves.iter().filter(|step| step.allocation == id).map(|step| step.bytes / PAGE_BYTES).sum::<u64>();
    assert_eq!((pages(now), pages(named), mm.withholds(device)), (16, 10, false));
    mm.check_invariants(&[]).expect("all rules hold");
}
