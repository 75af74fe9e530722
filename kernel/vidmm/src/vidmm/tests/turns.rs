//! Devices whose lists do not fit together take turns (memory §5.1, §8.6).

use std::collections::BTreeMap;

use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{
    AllocationId, Cause, DeviceId, EvictFlags, MakeResidentError, MoveKind, NextResume, OfferFlags, OfferPriority,
    ProcessPriority,
};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };

#[test]
fn a_device_over_budget_makes_room_and_comes_back_when_there_is_some() {
    // seed: R04
    // seed: R05
    // spec: memory §5.1, §8.2, §10.1 row 10
    let (mut mm, [(one, a), (_, b)]) = with_processes::<2>(64);
    let quantum = mm.policy.residency_quantum_ns;
    let x = [20; 3].map(|n| create(&mut mm, a, n, &[VRAM]));
    mm.make_resident(a, &x).expect("alone");
    let y = create(&mut mm, b, 30, &[VRAM]);
    let work = mm.make_resident(b, &[y]).expect("within its share").expect("it moves");
    assert_eq!(work.suspends, [a]);
    assert!(mm.is_suspended(a) && !mm.is_suspended(b));
    let lost: u64 = work.moves.iter().filter(|m| m.kind == MoveKind::PageOut).map(|m| m.bytes / PAGE_BYTES).sum();
    assert_eq!(lost, 26, "only what is needed, and what is on a list counts as written");
    assert_eq!(mm.next_to_resume(1), NextResume::At(quantum), "what left does not come back within a quantum");
    // It trims: then there is room for the rest.
    assert_eq!(mm.bytes_over_budget(one), 26 * PAGE_BYTES);
    mm.evict(a, &x[..2], LAZY, &[]).expect("counted");
    assert_eq!(mm.next_to_resume(quantum), NextResume::Resume(a));
    let work = mm.resume(a).expect("room");
    assert!(!mm.is_suspended(a) && mm.is_resident(x[2]));
    assert!(work.is_none_or(|work| work.suspends.is_empty()
        && work.moves.iter().all(|m| m.cause == Cause::Resume || m.kind != MoveKind::PageIn)));
    assert_eq!(mm.next_to_resume(quantum), NextResume::NoDevice);
}

#[test]
fn lists_that_do_not_fit_together_take_turns_for_ever() {
    // spec: memory §8.6
    const N: usize = 4;
    let (mut mm, processes) = with_processes::<N>(64);
    let quantum = mm.policy.residency_quantum_ns;
    let devices = processes.map(|(_, device)| device);
    let lists = devices.map(|device| [20, 20].map(|n| create(&mut mm, device, n, &[VRAM])));
    let mut now = 0;
    for (&device, list) in devices.iter().zip(&lists) {
        now += quantum;
        mm.set_time(now);
        // Alone each would fit; MustSucceed is how it insists.
        let flags = crate::MakeResidentFlags { cant_trim_further: true, must_succeed: true };
        mm.make_resident_with(device, list, flags).expect("it would fit alone");
    }
    let mut turns: BTreeMap<DeviceId, u32> = BTreeMap::new();
    let mut away: BTreeMap<AllocationId, u64> = BTreeMap::new();
    let mut last = Vec::new();
    for _ in 0..40 {
        match mm.next_to_resume(now) {
            NextResume::Withdraw(_) => unreachable!("content with one place to go to is never in its own way"),
            NextResume::Resume(device) => {
                let work = mm.resume(device).expect("it was said so").expect("it moves");
                for step in &work.moves {
                    if step.kind == MoveKind::PageOut {
                        away.insert(step.allocation, now);
                    } else if step.kind == MoveKind::PageIn {
                        let left = away.get(&step.allocation).copied().unwrap_or(0);
                        assert!(now - left >= quantum, "nothing leaves and comes back within a quantum");
                    }
                }
                *turns.entry(device).or_default() += 1;
                last.push(device);
                let list = &lists[devices.iter().position(|d| *d == device).expect("known")];
                assert!(list.iter().all(|id| mm.is_resident(*id)), "all of the list is there before it runs");
                for (other, list) in devices.iter().zip(&lists) {
                    let whole = list.iter().all(|id| mm.is_resident(*id));
                    assert!(whole || mm.is_suspended(*other), "who runs has all of its list");
                }
            }
            NextResume::At(at) => {
                assert!(at > now && at <= now + quantum, "no device waits longer than a quantum for the next turn");
                now = at;
            }
            NextResume::NoDevice => panic!("a device waits"),
        }
    }
    assert!(turns.len() == N && turns.values().max().unwrap() - turns.values().min().unwrap() <= 1, "{turns:?}");
    assert!(
        last.windows(N).all(|w| w.iter().collect::<std::collections::BTreeSet<_>>().len() == N),
        "in turn: {last:?}"
    );
}

#[test]
fn a_list_that_does_not_fit_even_alone_is_refused_not_rotated() {
    // spec: memory §5.2
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [x, y, z] = [(a, 40), (b, 30), (a, 30)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("alone");
    mm.make_resident(b, &[y]).expect("within its share");
    assert!(mm.is_suspended(a));
    let must = crate::MakeResidentFlags { cant_trim_further: true, must_succeed: true };
    let refused = mm.make_resident_with(a, &[z], must);
    assert!(matches!(refused, Err(MakeResidentError::OutOfMemory { .. })), "70 pages never fit into 64");
    assert_eq!(mm.count(a, z), 0);
    let small = create(&mut mm, a, 20, &[VRAM]);
    assert_eq!(mm.make_resident_with(a, &[small], must), Ok(None), "it comes with the turn");
    assert_eq!((mm.count(a, small), mm.is_resident(small)), (1, false));
    let quantum = mm.policy.residency_quantum_ns;
    assert_eq!(mm.next_to_resume(quantum), NextResume::Resume(a));
    let work = mm.resume(a).expect("its turn").expect("it moves");
    assert_eq!(work.suspends, [b]);
    assert!(mm.is_resident(x) && mm.is_resident(small));
}

#[test]
fn a_turn_is_not_planned_anew_while_only_time_passes() {
    // spec: memory §8.6
    let (mut mm, [(one, a), (_, b)]) = with_processes::<2>(64);
    let quantum = mm.policy.residency_quantum_ns;
    let [x, y] = [(a, 40), (b, 40)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.set_process_priority(one, ProcessPriority::Background);
    mm.make_resident(a, &[x]).expect("alone");
    mm.make_resident(b, &[y]).expect("better protected");
    assert!(mm.is_suspended(a));
    assert_eq!(mm.next_to_resume_if_new(1), NextResume::At(quantum), "what left does not come back within a quantum");
    assert_eq!(
        mm.next_to_resume_if_new(quantum),
        NextResume::Withdraw(a),
        "the time has come, and no device gives way to it"
    );
    assert!(mm.withdraw_suspended(a).is_some());
    assert_eq!(
        mm.next_to_resume_if_new(quantum),
        NextResume::At(2 * quantum),
        "what leaves is seen without being told"
    );
    assert_eq!(mm.next_to_resume_if_new(2 * quantum), NextResume::NoDevice, "it would fit if it were alone");
    // The test does not call forget_turn.
    mm.set_process_priority(one, ProcessPriority::Normal);
    assert_eq!(mm.next_to_resume_if_new(100 * quantum), NextResume::NoDevice, "it is not looked at");
    mm.forget_turn();
    assert_eq!(mm.next_to_resume_if_new(100 * quantum), NextResume::Resume(a));
    // VidMm sees a device fall idle or wake without forget_turn.
    mm.set_process_priority(one, ProcessPriority::Background);
    mm.forget_turn();
    assert_eq!(mm.next_to_resume_if_new(101 * quantum), NextResume::NoDevice);
    mm.set_process_priority(one, ProcessPriority::Normal);
    mm.set_device_idle(b, true);
    assert_eq!(mm.next_to_resume_if_new(102 * quantum), NextResume::Resume(a));
}

#[test]
fn idle_devices_give_way_first_and_do_not_stand_in_line() {
    // spec: memory §8.2
    let (mut mm, [(_, a), (_, b), (_, c)]) = with_processes::<3>(64);
    let [x, y] = [(a, 20), (b, 20)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("room");
    mm.make_resident(b, &[y]).expect("room");
    mm.set_device_idle(b, true);
    let z = create(&mut mm, c, 30, &[VRAM]);
    // Its share is 64 - 40 = 24: the idle one goes although no process is over a budget.
    let little = create(&mut mm, c, 2, &[VRAM]);
    let work = mm.make_resident(c, &[little]).expect("room").expect("it moves");
    assert_eq!(work.suspends, []);
    assert!(mm.make_resident(c, &[z]).is_err(), "beyond its share");
    let w = create(&mut mm, c, 22, &[VRAM]);
    let far = 10 * mm.policy.residency_quantum_ns;
    let more = create(&mut mm, a, 2, &[VRAM]);
    mm.make_resident(c, &[w]).expect("24 were free");
    let work = mm.make_resident(a, &[more]).expect("within its share");
    assert_eq!(work.expect("it moves").suspends, [b]);
    assert_eq!(mm.next_to_resume(far), NextResume::NoDevice, "it has nothing to run");
    mm.set_device_idle(b, false);
    assert_eq!(mm.next_to_resume(far), NextResume::Resume(b), "now it has, and the others have run for a quantum");
}

#[test]
fn as_few_as_do_are_suspended() {
    // spec: memory §8.2
    let (mut mm, [(low, a), (_, b), (high, c)]) = with_processes::<3>(64);
    mm.set_process_priority(low, ProcessPriority::Background);
    mm.set_process_priority(high, ProcessPriority::Foreground);
    let [x, y] = [(a, 4), (b, 60)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("room");
    mm.make_resident(b, &[y]).expect("room");
    let z = create(&mut mm, c, 50, &[VRAM]);
    let work = mm.make_resident(c, &[z]).expect("both stand lower").expect("it moves");
    // The lower loses all that it has before the higher loses a byte.
    assert_eq!(work.suspends, [a, b]);
    let lost: Vec<_> = work.moves.iter().filter(|m| m.kind == MoveKind::PageOut).collect();
    assert_eq!((lost[0].allocation, lost[0].bytes / PAGE_BYTES), (x, 4));
    assert_eq!((lost[1].allocation, lost[1].bytes / PAGE_BYTES), (y, 46));
}

#[test]
fn what_a_suspended_device_lets_go_waits_for_its_turn() {
    // spec: memory §5.3, §6.2, §10.1 row 9
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [x, gone, given] = [20; 3].map(|n| create(&mut mm, a, n, &[VRAM]));
    mm.make_resident(a, &[x, gone, given]).expect("alone");
    mm.evict(a, &[], LAZY, &[]).expect("nothing");
    let used = create(&mut mm, a, 4, &[VRAM]);
    mm.make_resident(a, &[used]).expect("room");
    mm.evict(a, &[used], LAZY, &[point(1, 5)]).expect("counted");
    let y = create(&mut mm, b, 30, &[VRAM]);
    let work = mm.make_resident(b, &[y]).expect("within its share").expect("it moves");
    assert_eq!((work.suspends, work.after), (vec![a], vec![point(1, 5)]), "after its last named use");
    // Its queued work does not run, so nothing may wait for it.
    assert_eq!(mm.evict(a, &[x], NOW, &[point(1, 9)]), Ok(None));
    mm.offer(a, &[given], OfferPriority::Low, OfferFlags::default(), &[point(1, 9)]).expect("not offered");
    mm.doom_allocation(gone, &[point(1, 9)], &[]);
    assert_eq!(mm.count(a, x), 0, "for its process it is evicted");
    let again = mm.evict(a, &[x], NOW, &[]);
    assert!(again.is_err(), "and not twice");
    let more = create(&mut mm, b, 2, &[VRAM]);
    let work = mm.make_resident(b, &[more]).expect("within its share").expect("it moves");
    assert_eq!(work.after, [], "nothing waits for work of a suspended device");
    mm.evict(b, &[y, more], LAZY, &[]).expect("counted");
    let quantum = mm.policy.residency_quantum_ns;
    assert_eq!(mm.next_to_resume(quantum), NextResume::Resume(a));
    let work = mm.resume(a).expect("room").expect("it moves");
    assert_eq!(work.after, [], "its work runs only after this");
    let needed = [x, gone, given].map(|id| mm.is_resident(id));
    assert_eq!(needed, [true; 3], "what it queued before still needs them");
    let rest = create(&mut mm, b, 64, &[VRAM]);
    let must = crate::MakeResidentFlags { cant_trim_further: true, must_succeed: true };
    let work = mm.make_resident_with(b, &[rest], must).expect("everything is a victim").expect("it moves");
    assert_eq!(work.after, [point(1, 9)], "now its last uses come");
}

#[test]
fn a_device_that_ends_while_suspended_leaves_nothing() {
    let (mut mm, [(space, a), (_, b)]) = with_processes::<2>(64);
    let [x, y] = [(a, 60), (b, 30)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("alone");
    mm.make_resident(b, &[y]).expect("within its share");
    mm.evict(a, &[x], LAZY, &[point(1, 1)]).expect("counted");
    let _ = mm.destroy_allocation(x, &[]);
    mm.destroy_device(a, &[]);
    let _ = mm.destroy_space(space);
    assert_eq!(mm.next_to_resume(u64::MAX), NextResume::NoDevice);
    assert_eq!(mm.resident_bytes(VRAM), 30 * PAGE_BYTES);
}

#[test]
fn what_an_idle_device_evicted_is_off_its_list_before_any_turn() {
    // spec: memory §5.3, §8.6
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [early, late, gone] = [20; 3].map(|n| create(&mut mm, a, n, &[VRAM]));
    mm.make_resident(a, &[early, late, gone]).expect("alone");
    let y = create(&mut mm, b, 30, &[VRAM]);
    assert_eq!(mm.make_resident(b, &[y]).expect("within its share").expect("it moves").suspends, [a]);
    // Its work has just ended, nothing else is queued: it is idle, and no turn comes.
    mm.set_device_idle(a, true);
    mm.doom_allocation(gone, &[point(1, 8)], &[]);
    mm.evict(a, &[early], NOW, &[point(1, 9)]).expect("counted");
    mm.evict(a, &[late], NOW, &[point(1, 10)]).expect("counted");
    assert_eq!(mm.next_to_resume(100 * mm.policy.residency_quantum_ns), NextResume::NoDevice);
    let on_list = |mm: &Mm, id| mm.list_of(a).contains(&id);
    mm.settle_postponed(a, |point| point.value <= 7);
    assert_eq!([early, late, gone].map(|id| on_list(&mm, id)), [true; 3], "their uses are to come");
    mm.settle_postponed(a, |point| point.value <= 9);
    assert_eq!([early, late, gone].map(|id| on_list(&mm, id)), [false, true, false]);
    assert_eq!((mm.count(a, early), mm.count(a, late)), (0, 0));
    mm.settle_postponed(a, |_| true);
    assert!(mm.list_of(a).is_empty());
    mm.settle_postponed(a, |_| true);
}
