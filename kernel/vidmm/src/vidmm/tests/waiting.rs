//! Refusals of a device that waits for its turn: how much it has to evict before the same call succeeds.

use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{
    AllocationId, DeviceId, EvictFlags, MakeResidentError, MakeResidentFlags, NextResume, SegmentGroup, SpaceId,
};

const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };

/// A device of a process whose 36 pages wait for a turn, because 36 pages of another device of the process have the segment of 48 pages.
fn one_waits() -> (Mm, SpaceId, [DeviceId; 2], Vec<AllocationId>) {
    let (mut mm, [(space, runs)]) = with_processes::<1>(48);
    let waits = mm.create_device(space);
    let theirs = create(&mut mm, runs, 36, &[VRAM]);
    let lists: Vec<AllocationId> = (0..9).map(|_| create(&mut mm, waits, 4, &[VRAM])).collect();
    mm.make_resident(waits, &lists).expect("room");
    mm.set_device_idle(waits, true);
    mm.make_resident(runs, &[theirs]).expect("the other gives its place");
    assert!(mm.is_suspended(waits) && !mm.is_suspended(runs));
    mm.set_device_idle(waits, false);
    (mm, space, [waits, runs], lists)
}

const MUST: MakeResidentFlags = MakeResidentFlags { cant_trim_further: true, must_succeed: true };

fn missing(pages: u64) -> Result<Option<crate::Work<u8>>, MakeResidentError> {
    Err(MakeResidentError::OutOfMemory { bytes_to_trim: pages * PAGE_BYTES })
}

#[test]
fn a_device_that_waits_hears_how_much_its_list_is_too_long() {
    // spec: memory §5.2, memory §10.1 row 11
    let (mut mm, _, [waits, _], lists) = one_waits();
    let [long, half, rest] = [14, 24, 25].map(|pages| create(&mut mm, waits, pages, &[VRAM]));
    assert_eq!(mm.make_resident(waits, &[long]), missing(2), "50 pages of 48");
    assert_eq!(mm.make_resident(waits, &[half, rest]), missing(49), "no eviction makes room for them");
    mm.evict(waits, &lists[..1], NOW, &[]).expect("counted");
    assert_eq!(mm.make_resident(waits, &[long]), Ok(None), "it comes with the turn");
    mm.check_invariants(&[]).expect("all rules hold");
}

/// Queued work of the device uses what the process has evicted: the turn brings that, and the turn behind it what has come for it.
#[test]
fn evictions_behind_queued_work_count_for_what_comes_next() {
    // spec: memory §5.2, memory §5.3, memory §8.6
    let (mut mm, _, [waits, runs], lists) = one_waits();
    let [long, longer] = [14, 18].map(|pages| create(&mut mm, waits, pages, &[VRAM]));
    mm.evict(waits, &lists[..1], NOW, &[point(1, 5)]).expect("counted");
    assert_eq!(mm.make_resident(waits, &[longer]), missing(2), "32 pages stay");
    assert!(!mm.withholds(waits), "a refused call changes nothing");
    assert_eq!(mm.make_resident(waits, &[long]), Ok(None));
    assert!(mm.withholds(waits) && mm.count(waits, long) == 1);
    assert_eq!(mm.make_resident(waits, &[longer]), missing(16), "46 pages of 48 are asked for");
    mm.check_invariants(&[]).expect("all rules hold");
    mm.set_device_idle(runs, true);
    assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(waits));
    mm.resume(waits).expect("there is room");
    assert!(mm.is_resident(lists[0]) && !mm.is_resident(long), "the queued work has what it uses");
    mm.settle_postponed(waits, |point| point.value <= 5);
    drop(mm.list_withheld(waits));
    assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(waits));
    mm.resume(waits).expect("there is room");
    assert!(mm.is_resident(long) && !mm.withholds(waits) && mm.count(waits, lists[0]) == 0);
    mm.check_invariants(&[]).expect("all rules hold");
}

#[test]
fn evictions_behind_queued_work_count_against_no_budget() {
    // spec: memory §5.2, memory §5.3
    let (mut mm, space, [waits, _], lists) = one_waits();
    mm.set_budget(space, SegmentGroup::Local, Some(46 * PAGE_BYTES));
    assert_eq!(mm.bytes_over_budget(space), 26 * PAGE_BYTES, "two lists of 36 pages");
    mm.evict(waits, &lists[..1], NOW, &[point(1, 5)]).expect("counted");
    assert_eq!(mm.bytes_over_budget(space), 22 * PAGE_BYTES, "the answer of Evict");
    mm.evict(waits, &lists[1..], NOW, &[point(1, 5)]).expect("counted");
    assert_eq!(mm.bytes_over_budget(space), 0);
    let also = mm.create_device(space);
    mm.make_resident_with(also, &lists[..8], MUST).expect("the process has paid for them");
    assert_eq!(mm.bytes_over_budget(space), 22 * PAGE_BYTES, "another device of the process lists what was evicted");
    mm.evict(also, &lists[..8], NOW, &[]).expect("counted");
    let [fits, too_long] = [10, 11].map(|pages| create(&mut mm, waits, pages, &[VRAM]));
    assert_eq!(mm.make_resident(waits, &[too_long]), missing(1), "36 pages of 46 stay");
    assert_eq!(mm.make_resident(waits, &[fits]), Ok(None));
    mm.check_invariants(&[]).expect("all rules hold");
}

/// Values of paging queues keep the places until the turn is decided: what a later call withholds must not stand before them.
#[test]
fn places_of_what_is_withheld_rise_although_the_device_lists_it_meanwhile() {
    // spec: memory §8.6, memory §10.1
    let (mut mm, _, [waits, _], lists) = one_waits();
    let [first, second] = [14, 4].map(|pages| create(&mut mm, waits, pages, &[VRAM]));
    mm.evict(waits, &lists[..1], NOW, &[point(1, 5)]).expect("counted");
    assert_eq!(mm.make_resident(waits, &[first]), Ok(None));
    let [_, earlier] = mm.withheld_places(waits).expect("there is no room beside what the work uses");
    mm.settle_postponed(waits, |point| point.value <= 5);
    drop(mm.list_withheld(waits));
    assert!(!mm.withholds(waits), "its turn brings everything");
    mm.evict(waits, &lists[1..2], NOW, &[point(1, 7)]).expect("counted");
    assert_eq!(mm.make_resident(waits, &[second]), Ok(None));
    let [later, _] = mm.withheld_places(waits).expect("50 pages of 48");
    assert!(earlier < later, "{earlier:?} was promised before {later:?}");
    mm.check_invariants(&[]).expect("all rules hold");
}
