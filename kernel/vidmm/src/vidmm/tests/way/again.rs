//! Content that comes, goes and comes again with works which the ring has not begun.

use super::*;

/// A process brings content, evicts it and brings it again. Only the content that lay there before the first of these works is needed at
/// once: the rest is withheld, each for the work that brings it.
#[test]
fn content_that_comes_twice_is_needed_from_the_first_time_on() {
    // spec: memory §8.6, memory §10.1
    let (mut mm, [(_, device)]) = with_processes::<1>(64);
    let [there, again, between] = [40, 40, 40].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let came = mm.make_resident(device, &[there]).expect("room").expect("it comes");
    mm.completed(came.serial);
    let mut works = Vec::new();
    for (goes, comes, value) in [(there, again, 3), (again, between, 5), (between, again, 7)] {
        mm.evict(device, &[goes], NOW, &[point(2, value)]).expect("counted");
        works.push(mm.make_resident(device, &[comes]).expect("room").expect("it comes"));
    }
    let uses: Vec<_> = works.iter().flat_map(uses_of).collect();
    assert!(mm.give_way(device, of(2), &uses), "40 pages of 64 in each turn");
    mm.check_invariants(&[]).expect("all rules hold");
    for (value, here) in [(3, there), (5, again), (7, between), (9, again)] {
        assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(device), "until {value}");
        drop(mm.resume(device).expect("there is room"));
        assert!(mm.is_resident(here), "{here:?} until {value}");
        mm.settle_postponed(device, |point| point.value <= value);
        drop(mm.list_withheld(device));
        mm.check_invariants(&[]).expect("all rules hold");
    }
    assert_eq!((mm.withholds(device), mm.count(device, again)), (false, 1));
}
