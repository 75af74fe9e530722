//! Devices that give way for uses of content that its owner has destroyed.

use super::*;

#[test]
fn what_was_destroyed_and_is_in_use_is_saved_first() {
    // spec: memory §6.2, memory §8.6
    let (mut mm, [a, b], used, work) = taken(30, true);
    let uses = uses_of(&work);
    assert!(uses[0].1.drops_content(), "its owner reads it no more");
    assert!(mm.give_way(a, of(1), &uses));
    let saved = mm.rescue(uses[0].1);
    let copied = saved.iter().map(|operation| match operation {
        Operation::Transfer { size_bytes, direction: Direction::Out, .. } => size_bytes / PAGE_BYTES,
        other => panic!("a copy out, not {other:?}"),
    });
    assert_eq!(copied.sum::<u64>(), 16);
    mm.check_invariants(&[]).expect("all rules hold");
    mm.set_device_idle(b, true);
    assert_eq!(comes_back(&mut mm, a, used), [(MoveKind::PageIn, 16)]);
    mm.check_invariants(&[]).expect("all rules hold");
    let gone = mm.destroy_allocation(used, &[]).expect("it leaves");
    assert!(gone.moves.iter().all(|step| step.kind == MoveKind::Discard), "{:?}", gone.moves);
    mm.check_invariants(&[]).expect("all rules hold");
}

#[test]
fn a_device_that_gives_way_again_destroys_content_after_all_of_its_uses() {
    // spec: memory §6.2, memory §8.6
    let (mut mm, [a, _], used, work) = taken(30, true);
    for _ in 0..2 {
        assert!(mm.give_way(a, of(1), &uses_of(&work)), "the work is queued all along");
    }
    mm.settle_postponed(a, |point| point.value < 5);
    assert_eq!(mm.allocations[used].count, 2, "no use is over");
    mm.settle_postponed(a, |point| point.value <= 5);
    mm.check_invariants(&[]).expect("all rules hold");
    assert_eq!(mm.allocations[used].count, 0);
    let gone = mm.destroy_allocation(used, &[]).expect("it leaves");
    assert!(gone.moves.iter().all(|step| step.kind == MoveKind::Discard), "{:?}", gone.moves);
    mm.check_invariants(&[]).expect("all rules hold");
}

#[test]
fn destroyed_content_comes_once_for_uses_before_and_once_for_those_behind_what_is_withheld() {
    // spec: memory §6.2, memory §8.6
    let (mut mm, device, [before, now], work) = replaced();
    // The content comes again behind the other, and its owner destroys it as soon as the call has returned.
    mm.evict(device, &[now], NOW, &[point(2, 5)]).expect("counted");
    let again = mm.make_resident(device, &[before]).expect("room").expect("it comes");
    mm.evict(device, &[before], NOW, &[point(2, 7)]).expect("counted");
    mm.doom_allocation(before, &[point(2, 7)], &[]);
    let works = [&work, &again];
    let uses: Vec<_> = works.into_iter().flat_map(uses_of).collect();
    assert!(mm.give_way(device, of(2), &uses), "80 pages of 64 in three turns");
    mm.check_invariants(&[]).expect("all rules hold");
    for (value, first) in [(3, before), (5, now), (7, before)] {
        assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(device), "until {value}");
        drop(mm.resume(device).expect("there is room"));
        assert!(mm.is_resident(first), "{first:?} until {value}");
        mm.check_invariants(&[]).expect("all rules hold");
        mm.settle_postponed(device, |point| point.value <= value);
        mm.check_invariants(&[]).expect("all rules hold");
        drop(mm.list_withheld(device));
        mm.check_invariants(&[]).expect("all rules hold");
    }
    assert!(!mm.withholds(device));
    let gone = mm.destroy_allocation(before, &[]);
    assert!(gone.iter().flat_map(|work| &work.moves).all(|step| step.kind == MoveKind::Discard), "{gone:?}");
}

#[test]
fn destroyed_content_that_comes_later_makes_room_meanwhile() {
    // spec: memory §8.2, memory §8.6
    let (mut mm, device, [before, now], work) = replaced();
    mm.evict(device, &[now], NOW, &[point(2, 5)]).expect("counted");
    mm.doom_allocation(now, &[point(2, 5)], &[]);
    assert!(mm.give_way(device, of(2), &uses_of(&work)), "80 pages of 64 in two turns");
    assert_eq!((mm.allocations[now].count, mm.allocations[now].resident_pages()), (0, 40), "it comes with the second");
    mm.check_invariants(&[]).expect("all rules hold");
    assert_eq!(comes_back(&mut mm, device, before), [(MoveKind::PageIn, 16)]);
}

#[test]
fn the_rest_of_what_was_destroyed_is_saved_in_front_of_the_work_that_drops_it() {
    // spec: memory §6.2, memory §8.6
    let (mut mm, [a, b], used, first) = taken(30, true);
    let more = create(&mut mm, b, 10, &[VRAM]);
    let second = mm.make_resident(b, &[more]).expect("room").expect("it comes");
    assert_eq!(second.after, [], "the first work waits for the use");
    assert!(mm.give_way(a, of(1), &uses_of(&first)));
    let [rest] = &second.used[..] else { panic!("{:?}", second.used) };
    assert_eq!((rest.allocation, rest.drops_content(), &rest.until[..]), (used, true, &[][..]));
    let saved: Vec<Operation> = [&first.used[0], rest].into_iter().flat_map(|used| mm.rescue(used)).collect();
    let bytes = saved.iter().map(|operation| match operation {
        Operation::Transfer { size_bytes, direction: Direction::Out, .. } => *size_bytes,
        other => panic!("a copy out, not {other:?}"),
    });
    assert_eq!(bytes.sum::<u64>(), 26 * PAGE_BYTES, "50 and 10 pages of 64 came, and 34 were free");
    mm.check_invariants(&[]).expect("all rules hold");
}

/// A destruction notes all queued work of its device, although content that had left memory before is used by none of it.
#[test]
fn destroyed_content_that_lies_nowhere_needs_no_turn() {
    // spec: memory §6.2, memory §8.6
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [gone, used] = [40, 50].map(|pages| create(&mut mm, a, pages, &[VRAM]));
    for (id, last_use) in [(gone, vec![]), (used, vec![point(1, 3)])] {
        let came = mm.make_resident(a, &[id]).expect("room").expect("it comes");
        mm.completed(came.serial);
        mm.evict(a, &[id], NOW, &last_use).expect("counted");
    }
    mm.doom_allocation(gone, &[point(1, 3)], &[]);
    let theirs = create(&mut mm, b, 30, &[VRAM]);
    let work = mm.make_resident(b, &[theirs]).expect("room").expect("it comes");
    assert_eq!(work.after, [point(1, 3)]);
    assert!(mm.give_way(a, of(1), &uses_of(&work)), "50 pages of 64");
    mm.check_invariants(&[]).expect("all rules hold");
    mm.set_device_idle(b, true);
    assert_eq!(comes_back(&mut mm, a, used), [(MoveKind::PageIn, 16)]);
    mm.check_invariants(&[]).expect("all rules hold");
}

/// A destruction notes all queued work of its device, although content that was evicted before is used by none that was queued since.
#[test]
fn destroyed_content_comes_back_for_no_use_that_its_eviction_did_not_note() {
    // spec: memory §6.2, memory §8.6
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [gone, used] = [20, 40].map(|pages| create(&mut mm, a, pages, &[VRAM]));
    for (id, value) in [(gone, 2), (used, 3)] {
        let came = mm.make_resident(a, &[id]).expect("room").expect("it comes");
        mm.completed(came.serial);
        mm.evict(a, &[id], NOW, &[point(1, value)]).expect("counted");
    }
    mm.doom_allocation(gone, &[point(1, 3)], &[]);
    let theirs = create(&mut mm, b, 30, &[VRAM]);
    let work = mm.make_resident(b, &[theirs]).expect("room").expect("it comes");
    assert_eq!(work.after, [point(1, 3)]);
    assert!(mm.give_way(a, |point| point.value > 2, &uses_of(&work)), "the work before is over");
    assert_eq!([gone, used].map(|id| mm.allocations[id].count), [0, 1], "the other one is used until 3");
    mm.check_invariants(&[]).expect("all rules hold");
}

/// A work has taken content, and waits for a use of it, when its owner destroys it: the use that the destruction notes is none of the content
/// when it has come back.
#[test]
fn destroyed_content_that_comes_back_is_used_only_until_its_eviction() {
    // spec: memory §6.2, memory §8.6
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [taken, used] = [30, 30].map(|pages| create(&mut mm, a, pages, &[VRAM]));
    let came = mm.make_resident(a, &[taken, used]).expect("room").expect("it comes");
    mm.completed(came.serial);
    mm.evict(a, &[taken], NOW, &[point(1, 6)]).expect("counted");
    let theirs = create(&mut mm, b, 34, &[VRAM]);
    let work = mm.make_resident(b, &[theirs]).expect("room").expect("it comes");
    assert_eq!((&work.after[..], mm.allocations[taken].resident_pages()), (&[point(1, 6)][..], 0));
    mm.evict(a, &[used], NOW, &[point(1, 7)]).expect("counted");
    mm.doom_allocation(taken, &[point(1, 7)], &[point(1, 6)]);
    assert!(mm.give_way(a, of(1), &uses_of(&work)));
    mm.completed(work.serial);
    mm.set_device_idle(b, true);
    assert_eq!(comes_back(&mut mm, a, taken), [(MoveKind::PageIn, 30)]);
    mm.settle_postponed(a, |point| point.value <= 6);
    mm.set_device_idle(b, false);
    let work = mm.make_resident(a, &[]).expect("nothing");
    assert!(work.is_none() && mm.give_way(a, |point| point.value > 6, &[]));
    assert_eq!([taken, used].map(|id| mm.allocations[id].count), [0, 1], "the other one is used until 7");
    mm.check_invariants(&[]).expect("all rules hold");
}

/// A work has taken part of the content, and the hardware runs it, when its owner destroys it: what is left of the content is used by none of the
/// work that the destruction notes.
#[test]
fn destroyed_content_that_a_work_has_taken_is_used_as_the_works_say() {
    // spec: memory §6.2, memory §8.6
    for held in [true, false] {
        let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
        let gone = create(&mut mm, a, 40, &[VRAM]);
        let came = mm.make_resident(a, &[gone]).expect("room").expect("it comes");
        mm.completed(came.serial);
        mm.evict(a, &[gone], NOW, &[point(1, 2)]).expect("counted");
        let theirs = create(&mut mm, b, 34, &[VRAM]);
        let work = mm.make_resident(b, &[theirs]).expect("room").expect("it comes");
        assert_eq!((&work.after[..], mm.allocations[gone].resident_pages()), (&[point(1, 2)][..], 30));
        let taken = if held { work.after.clone() } else { Vec::new() };
        mm.doom_allocation(gone, &[point(1, 3)], &taken);
        let more = create(&mut mm, b, 10, &[VRAM]);
        let next = mm.make_resident(b, &[more]).expect("room").expect("it comes");
        let uses: Vec<_> =
            [&work, &next].into_iter().filter(|work| held || work.serial > came.serial + 1).flat_map(uses_of).collect();
        assert!(mm.give_way(a, of(1), &uses));
        assert_eq!(
            mm.allocations[gone].count,
            u64::from(held),
            "the work that waits for the use has not begun: {held}"
        );
        mm.check_invariants(&[]).expect("all rules hold");
    }
}
