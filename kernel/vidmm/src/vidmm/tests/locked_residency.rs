//! MakeResident that a lock holds up: the counts rise at once, the device is suspended until its turn after the unlock.

use super::world::*;
use crate::{EvictFlags, MakeResidentError, MakeResidentFlags, NextResume};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const PLAIN: MakeResidentFlags = MakeResidentFlags { cant_trim_further: false, must_succeed: false };

#[test]
fn what_a_lock_keeps_out_counts_at_once_and_comes_with_the_turn_after_the_unlock() {
    // spec: memory §10.1 row 23, memory §5.2
    let (mut mm, [(_, device)]) = with_processes::<1>(64);
    let [kept, there, other] = [4; 3].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(device, &[there]).expect("room");
    mm.lock(kept).expect("not resident");
    assert!(mm.is_kept_out(kept) && !mm.is_kept_out(there));
    let locked = Err(MakeResidentError::Locked { allocation: kept });
    assert_eq!(mm.make_resident(device, &[other, kept]), locked);
    let work = mm.make_resident_held(device, &[other, kept, kept], PLAIN).expect("it fits").expect("it stops");
    assert_eq!((work.suspends, work.moves), (vec![device], vec![]));
    assert_eq!((mm.count(device, kept), mm.count(device, other)), (2, 1));
    let later = 10 * mm.policy.residency_quantum_ns;
    assert_eq!(mm.next_to_resume(later), NextResume::NoDevice, "and what it has stays where it is");
    assert_eq!(mm.make_resident_held(device, &[kept], PLAIN), Ok(None), "it is suspended already");
    mm.unlock(kept).expect("locked");
    assert_eq!(mm.next_to_resume(later), NextResume::Resume(device));
    assert!(mm.resume(device).expect("room").is_some());
    assert!([kept, there, other].into_iter().all(|id| mm.is_resident(id)));
    assert_eq!(mm.evict(device, &[kept; 3], LAZY, &[]), Ok(None));
    assert!(mm.evict(device, &[kept], LAZY, &[]).is_err(), "one count for each time");
}

#[test]
fn what_is_evicted_again_is_not_waited_for() {
    // spec: memory §5.3, §10.1 row 23
    let (mut mm, [(_, device)]) = with_processes::<1>(64);
    let kept = create(&mut mm, device, 4, &[VRAM]);
    mm.lock(kept).expect("not resident");
    let _ = mm.make_resident_held(device, &[kept], PLAIN).expect("it fits");
    mm.evict(device, &[kept], LAZY, &[point(1, 7)]).expect("counted");
    assert_eq!(
        (mm.count(device, kept), mm.next_to_resume(1)),
        (0, NextResume::NoDevice),
        "work of before may still name it"
    );
    mm.settle_postponed(device, |_| true);
    assert_eq!(mm.next_to_resume(1), NextResume::Resume(device));
    assert_eq!(mm.resume(device), Ok(None));
}

#[test]
fn what_no_queued_buffer_names_leaves_the_list_of_a_suspended_device_at_once() {
    // spec: memory §5.3, memory §6.1, memory §10.1 row 23
    let (mut mm, [(_, device)]) = with_processes::<1>(64);
    let [used, soon, free] = [4; 3].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.lock(free).expect("not resident");
    let _ = mm.make_resident_held(device, &[used, soon, free, free], PLAIN).expect("it fits");
    assert_eq!(mm.kept_out_of(device), Some(free));
    let uses = [(used, vec![point(1, 9)]), (soon, vec![point(1, 7)]), (free, vec![]), (free, vec![])];
    assert!(
        mm.evict_each(device, &[&uses[..], &uses[..1]].concat(), LAZY, &|_| false).is_err(),
        "one count for each time"
    );
    assert_eq!((mm.count(device, used), mm.count(device, free)), (1, 2), "nothing changed");
    assert_eq!(mm.evict_each(device, &uses, LAZY, &|_| false), Ok(Vec::new()), "nothing moves");
    assert_eq!((mm.list_of(device), mm.kept_out_of(device)), (vec![used, soon], None), "the lock keeps no turn away");
    mm.settle_postponed(device, |point| point.value <= 7);
    assert_eq!(mm.list_of(device), [used], "a step waits for none of another allocation");
    mm.settle_postponed(device, |point| point.value <= 9);
    assert!(mm.list_of(device).is_empty());
    mm.check_invariants(&[]).expect("all rules hold");
}

#[test]
fn a_device_that_waits_for_an_unlock_keeps_no_other_from_a_turn() {
    // spec: memory §8.6, §10.1 row 23
    let (mut mm, [(_, a), (_, b), (_, c)]) = with_processes::<3>(64);
    let [kept, other] = [4, 10].map(|pages| create(&mut mm, a, pages, &[VRAM]));
    mm.make_resident(a, &[other]).expect("room");
    mm.lock(kept).expect("not resident");
    let _ = mm.make_resident_held(a, &[kept], PLAIN).expect("it fits");
    // Behind it come two devices that do not fit beside each other.
    let [x, y] = [(b, 40), (c, 40)].map(|(device, pages)| create(&mut mm, device, pages, &[VRAM]));
    let must = MakeResidentFlags { cant_trim_further: true, must_succeed: true };
    mm.make_resident_with(b, &[x], must).expect("alone");
    let work = mm.make_resident_with(c, &[y], must).expect("alone").expect("it moves");
    assert_eq!(work.suspends, [b]);
    let mut now = 0;
    let mut turns = Vec::new();
    for _ in 0..8 {
        match mm.next_to_resume(now) {
            NextResume::At(at) => now = at,
            NextResume::Resume(device) => {
                let _ = mm.resume(device).expect("as was said");
                turns.push(device);
            }
            other => panic!("{other:?} after {turns:?}"),
        }
    }
    assert!(turns.len() >= 3 && !turns.contains(&a), "{turns:?}");
    mm.unlock(kept).expect("locked");
    assert_eq!(
        mm.next_to_resume(now + 10 * mm.policy.residency_quantum_ns),
        NextResume::Resume(a),
        "first in the line"
    );
}

#[test]
fn what_would_not_fit_alone_is_refused_although_it_would_wait() {
    // spec: memory §5.2, §10.4 item 5
    let (mut mm, [(_, device)]) = with_processes::<1>(64);
    let [kept, large] = [4, 61].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.lock(kept).expect("not resident");
    let refused = mm.make_resident_held(device, &[kept, large], PLAIN);
    assert!(matches!(refused, Err(MakeResidentError::OutOfMemory { .. })), "{refused:?}");
    assert_eq!((mm.count(device, kept), mm.is_suspended(device)), (0, false));
}
