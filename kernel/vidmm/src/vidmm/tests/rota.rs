//! Processes that fit one at a time take turns, although each list of theirs would find room.

use super::world::*;
use crate::foreseen::Foreseen;
use crate::{AllocationId, DeviceId, EvictFlags, Eviction, NextResume};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

/// Two processes under the planner, and the content that each uses by parts: of 64 pages, so many each.
fn two(pages: u64) -> (Mm, [DeviceId; 2], [[AllocationId; 2]; 2]) {
    let (mut mm, processes) = with_processes::<2>(64);
    mm.policy.eviction = Eviction::Planner;
    mm.foreseen = Foreseen::open(Eviction::Planner, &mm.segments);
    let devices = processes.map(|(_, device)| device);
    let content = devices.map(|device| [pages / 2; 2].map(|pages| create(&mut mm, device, pages, &[VRAM])));
    (mm, devices, content)
}

/// One operation on one allocation: its list comes and goes. Whether it moved anything.
fn uses(mm: &mut Mm, device: DeviceId, id: AllocationId, value: u64) -> bool {
    let work = mm.make_resident(device, &[id]).expect("room");
    mm.evict(device, &[id], LAZY, &[point(1, value)]).expect("counted");
    mm.check_invariants(&[]).expect("what always holds");
    work.is_some()
}

#[test]
fn the_second_of_two_that_fit_one_at_a_time_waits_for_its_turn() {
    // spec: memory §8.6
    let (mut mm, [a, b], [x, y]) = two(48);
    let quantum = mm.policy.residency_quantum_ns;
    mm.set_time(quantum);
    for value in 0..4 {
        uses(&mut mm, a, x[value as usize % 2], value);
    }
    assert!(uses(&mut mm, b, y[0], 1), "nothing says yet that it needs more");
    assert!(!mm.is_suspended(b));
    let work = mm.make_resident(b, &[y[1]]).expect("it would fit alone").expect("its device is stopped");
    assert_eq!((work.suspends.clone(), work.moves.len()), (vec![b], 0), "and takes nothing");
    assert!(!mm.is_resident(y[1]));
    mm.turn_began(a, quantum, 0);
    assert_eq!(mm.next_to_resume(quantum + 1), NextResume::At(2 * quantum), "the turn lasts a quantum");
    uses(&mut mm, a, x[0], 5);
    assert!(!mm.is_suspended(a));
    assert_eq!(mm.next_to_resume(2 * quantum), NextResume::Resume(b));
    let work = mm.resume(b).expect("room").expect("it moves");
    assert_eq!(work.suspends, [a], "now the other one stands in line");
    assert!(mm.is_resident(y[1]) && mm.is_suspended(a) && !mm.is_suspended(b));
    mm.check_invariants(&[]).expect("what always holds");
}

#[test]
fn processes_that_fit_together_and_those_that_never_fit_alternate() {
    for pages in [32, 80] {
        let (mut mm, [a, b], [x, y]) = two(pages);
        for value in 0..6 {
            uses(&mut mm, a, x[value as usize % 2], value);
            uses(&mut mm, b, y[value as usize % 2], value);
            assert!(!mm.any_suspended(), "{pages} pages each");
        }
    }
}

#[test]
fn who_has_nothing_left_to_run_holds_up_no_process() {
    // spec: memory §8.6
    let (mut mm, [a, b], [x, y]) = two(48);
    let quantum = mm.policy.residency_quantum_ns;
    mm.set_time(5 * quantum);
    for value in 0..2 {
        uses(&mut mm, a, x[value as usize], value);
    }
    uses(&mut mm, b, y[0], 1);
    mm.turn_began(a, 5 * quantum, quantum);
    let _ = mm.make_resident(b, &[y[1]]).expect("alone it fits");
    assert!(mm.is_suspended(b));
    mm.set_device_idle(a, true);
    assert!(matches!(mm.next_to_resume(5 * quantum), NextResume::At(_)), "between two steps it keeps its turn");
    assert_eq!(mm.next_to_resume(6 * quantum + 1), NextResume::Resume(b));
    let work = mm.resume(b).expect("room").expect("it moves");
    assert_eq!(work.suspends, [], "what is idle is not stopped");
}

#[test]
fn a_holder_that_makes_devices_again_and_again_prolongs_no_turn() {
    // spec: memory §8.6
    let (mut mm, [a, b], [x, y]) = two(48);
    let quantum = mm.policy.residency_quantum_ns;
    mm.set_time(quantum);
    for value in 0..2 {
        uses(&mut mm, a, x[value as usize], value);
    }
    uses(&mut mm, b, y[0], 1);
    let _ = mm.make_resident(b, &[y[1]]).expect("alone it fits");
    assert!(mm.is_suspended(b));
    mm.set_time(quantum + quantum / 2);
    let _ = mm.create_device(mm.space_of(a));
    assert_eq!(mm.next_to_resume(quantum + quantum / 2), NextResume::At(2 * quantum), "as before");
    let again = mm.create_device(mm.space_of(a));
    mm.turn_began(again, quantum + quantum / 2, quantum);
    assert_eq!(mm.next_to_resume(2 * quantum), NextResume::Resume(b));
}

#[test]
fn a_turn_is_as_long_as_its_content_is_worth_and_no_longer_than_fifty_quanta() {
    // spec: memory §8.6
    for (switches, lasts) in [(1, 8), (10, 50), (20, 80)] {
        let (mut mm, [a, b], [x, y]) = two(48);
        let quantum = mm.policy.residency_quantum_ns;
        mm.set_time(quantum);
        for value in 0..2 {
            uses(&mut mm, a, x[value as usize], value);
        }
        uses(&mut mm, b, y[0], 1);
        let _ = mm.make_resident(b, &[y[1]]).expect("alone it fits");
        mm.set_time(2 * quantum);
        let _ = mm.resume(b).expect("its turn").expect("it moves");
        assert!(mm.is_suspended(a));
        mm.turn_began(b, 2 * quantum, switches * quantum);
        assert_eq!(mm.next_to_resume(2 * quantum), NextResume::At((2 + lasts) * quantum), "{switches} quanta to come");
    }
}

#[test]
fn a_refused_list_gives_its_process_no_turn() {
    let (mut mm, [a, b], [x, _]) = two(48);
    let more = create(&mut mm, a, 60, &[VRAM]);
    let before = mm.state_digest();
    assert!(mm.make_resident(a, &[x[0], x[1], more]).is_err(), "108 pages do not fit");
    assert_eq!(mm.state_digest().differences(&before), Vec::<String>::new());
    assert_eq!(mm.devices.holder(), None);
    uses(&mut mm, b, x[0], 1);
    assert_eq!(mm.devices.holder(), Some(mm.space_of(b)));
}

#[test]
fn the_content_of_the_process_that_has_its_turn_goes_last_from_its_first_list_on() {
    // spec: memory §8.2
    let (mut mm, [a, b], [x, y]) = two(32);
    let quantum = mm.policy.residency_quantum_ns;
    uses(&mut mm, b, y[0], 1);
    assert_eq!(mm.devices.holder(), Some(mm.space_of(b)));
    mm.set_device_idle(b, true);
    mm.set_time(2 * quantum);
    uses(&mut mm, a, x[0], 1);
    assert_eq!(mm.devices.holder(), Some(mm.space_of(a)), "the other one has nothing to run");
    mm.set_device_idle(b, false);
    uses(&mut mm, b, y[0], 2);
    let order: Vec<AllocationId> = mm.segment(VRAM).victims().lazily_evicted().collect();
    assert_eq!(order, [y[0], x[0]], "although the other one's was used later");
}

/// Work of a device that waits for its turn uses what its process has destroyed: the content that waits comes behind it.
#[test]
fn a_device_that_stands_back_withholds_what_does_not_fit_beside_what_its_work_uses() {
    // spec: memory §8.6, memory §10.1
    let (mut mm, [a, b], [x, _]) = two(48);
    let [used, beside, next] = [30, 20, 40].map(|pages| create(&mut mm, b, pages, &[VRAM]));
    let quantum = mm.policy.residency_quantum_ns;
    mm.set_time(quantum);
    for value in 0..4 {
        uses(&mut mm, a, x[value as usize % 2], value);
    }
    let came = mm.make_resident(b, &[used, beside]).expect("room").expect("it comes");
    mm.completed(came.serial);
    mm.evict(b, &[used], LAZY, &[point(1, 9)]).expect("counted");
    mm.evict(b, &[beside], LAZY, &[]).expect("counted");
    mm.doom_allocation(used, &[point(1, 9)], &[]);
    let work = mm.make_resident(b, &[next]).expect("it would fit alone").expect("its device is stopped");
    assert_eq!((&work.suspends[..], &work.after[..]), (&[b][..], &[point(1, 9)][..]));
    assert!(mm.give_way(b, |point| point.value == 9, &[]), "70 pages of 64 in two turns");
    mm.check_invariants(&[]).expect("what always holds");
    assert_eq!((mm.withholds(b), mm.count(b, next)), (true, 1));
    mm.set_device_idle(a, true);
    assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(b));
    drop(mm.resume(b).expect("room"));
    assert!(mm.is_resident(used) && !mm.is_resident(next));
    mm.settle_postponed(b, |point| point.value <= 9);
    drop(mm.list_withheld(b));
    assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(b));
    drop(mm.resume(b).expect("room"));
    assert!(mm.is_resident(next));
    mm.check_invariants(&[]).expect("what always holds");
}
