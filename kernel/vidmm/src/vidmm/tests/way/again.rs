//! Content that comes, goes and comes again with works which the ring has not begun.

use super::*;

/// A process brings content, evicts it and brings it again. Only the content that lay there before the first of these works is needed at
/// once: the rest is withheld, each for the work that brings it. Answers with the world before the device gives way, and the contents in the
/// order of its uses, which end at 3, 5, 7 and 9.
fn brought_twice() -> (Mm, DeviceId, [AllocationId; 4], Vec<Work<u8>>) {
    let (mut mm, [(_, device)]) = with_processes::<1>(64);
    let [there, again, between] = [40, 40, 40].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let came = mm.make_resident(device, &[there]).expect("room").expect("it comes");
    mm.completed(came.serial);
    let mut works = Vec::new();
    for (goes, comes, value) in [(there, again, 3), (again, between, 5), (between, again, 7)] {
        mm.evict(device, &[goes], NOW, &[point(2, value)]).expect("counted");
        works.push(mm.make_resident(device, &[comes]).expect("room").expect("it comes"));
    }
    (mm, device, [there, again, between, again], works)
}

#[test]
fn content_that_comes_twice_is_needed_from_the_first_time_on() {
    // spec: memory §8.6, memory §10.1
    let (mut mm, device, used, works) = brought_twice();
    let uses: Vec<_> = works.iter().flat_map(uses_of).collect();
    assert!(mm.give_way(device, of(2), &uses), "40 pages of 64 in each turn");
    mm.check_invariants(&[]).expect("all rules hold");
    let turns: Vec<_> = [3, 5, 7, 9].into_iter().zip(used).collect();
    takes_turns(&mut mm, device, &turns);
    assert_eq!((mm.withholds(device), mm.count(device, used[3])), (false, 1));
}

/// The owner of content that comes twice has destroyed it: the second of its uses has it, too, and then it dies.
#[test]
fn destroyed_content_that_comes_twice_dies_after_the_last_use() {
    // spec: memory §6.2, memory §8.6
    let (mut mm, device, used, works) = brought_twice();
    let again = used[3];
    mm.evict(device, &[again], NOW, &[point(2, 9)]).expect("counted");
    mm.doom_allocation(again, &[point(2, 9)], &[]);
    let uses: Vec<_> = works.iter().flat_map(uses_of).collect();
    assert!(mm.give_way(device, of(2), &uses), "40 pages of 64 in each turn");
    mm.check_invariants(&[]).expect("all rules hold");
    let turns: Vec<_> = [3, 5, 7, 9].into_iter().zip(used).collect();
    takes_turns(&mut mm, device, &turns[..3]);
    assert!(mm.allocations[again].doomed.is_none(), "a use is not over");
    takes_turns(&mut mm, device, &turns[3..]);
    assert!(mm.allocations[again].doomed.is_some());
    assert_eq!((mm.withholds(device), mm.allocations[again].count), (false, 0));
    let gone = mm.destroy_allocation(again, &[]);
    assert!(gone.iter().flat_map(|work| &work.moves).all(|step| step.kind == MoveKind::Discard), "{gone:?}");
    mm.check_invariants(&[]).expect("all rules hold");
}

/// A MakeResident that needs no work has answered: its content is there, and the device withholds none of it.
#[test]
fn content_that_needs_no_work_is_not_withheld() {
    // spec: memory §5.2, memory §8.6
    let (mut mm, device, [_, now], work) = replaced();
    let there = create(&mut mm, device, 4, &[APERTURE]);
    assert!(mm.make_resident(device, &[there]).expect("room").is_none());
    assert!(mm.give_way(device, of(2), &uses_of(&work)));
    assert_eq!((mm.withheld_place(device, now).is_some(), mm.withheld_place(device, there)), (true, None));
    mm.check_invariants(&[]).expect("all rules hold");
}

/// Content that comes more often than twice before the ring has begun the first of the works: each coming has its own uses behind it, and the
/// other content comes between.
#[test]
fn each_of_many_comings_has_its_own_place() {
    // spec: memory §4.9, memory §8.6
    let (mut mm, [(_, device)]) = with_processes::<1>(64);
    let [x, y] = [40; 2].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let came = mm.make_resident(device, &[x]).expect("room").expect("it comes");
    mm.completed(came.serial);
    mm.evict(device, &[x], NOW, &[point(2, 1)]).expect("counted");
    let turns = [(1, x), (2, y), (3, x), (4, y), (5, x), (6, y)];
    let works = turns[1..].iter().map(|&(value, id)| {
        let work = mm.make_resident(device, &[id]).expect("room").expect("it comes");
        mm.evict(device, &[id], NOW, &[point(2, value)]).expect("counted");
        work
    });
    let works: Vec<_> = works.collect();
    let uses: Vec<_> = works.iter().flat_map(uses_of).collect();
    assert!(mm.give_way(device, of(2), &uses), "40 pages of 64 in each turn");
    mm.check_invariants(&[]).expect("all rules hold");
    takes_turns(&mut mm, device, &turns);
    assert!(!mm.withholds(device));
}
