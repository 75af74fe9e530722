//! Content that a device has offered while its queued work uses it, and the device gives way.

use super::*;

/// The content is kept for the use, and comes back with the device's turn: the offer counts after that.
#[test]
fn offered_content_in_use_is_kept_for_the_use() {
    // spec: memory §5.9, memory §8.6, memory §10.1
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let used = create(&mut mm, a, 30, &[VRAM]);
    let given = create(&mut mm, a, 4, &[APERTURE]);
    mm.make_resident(a, &[used, given]).expect("room");
    mm.evict(a, &[used], NOW, &[point(1, 5)]).expect("counted");
    let flags = OfferFlags { allow_decommit: true };
    mm.offer(a, &[given], OfferPriority::Low, flags, &[point(1, 5)]).expect("it may be");
    let theirs = create(&mut mm, b, 50, &[VRAM]);
    let work = mm.make_resident(b, &[theirs]).expect("room").expect("it comes");
    let counts = |mm: &Mm| mm.allocations[given].offer().map(|offer| offer.discarded);
    assert_eq!((&work.after[..], counts(&mm)), (&[point(1, 5)][..], Some(false)));
    assert!(mm.give_way(a, of(1), &uses_of(&work)));
    mm.check_invariants(&[]).expect("all rules hold");
    assert_eq!((counts(&mm), mm.offered(given)), (None, Some(false)), "its process has offered it all the same");
    mm.set_device_idle(b, true);
    assert_eq!(comes_back(&mut mm, a, used), [(MoveKind::PageIn, 16)]);
    assert!(mm.is_resident(given), "the use is not over");
    assert_eq!(counts(&mm), Some(false), "a device that runs postpones nothing: a discard waits for the use");
    assert_eq!(mm.allocations[given].last_use, [point(1, 5)]);
    mm.check_invariants(&[]).expect("all rules hold");
}

/// The use ends while the device is suspended: the offer counts from then on.
#[test]
fn an_offer_counts_after_the_use_that_it_waited_for() {
    // spec: memory §5.9
    let (mut mm, [a, _], _, work) = taken(30, false);
    let given = create(&mut mm, a, 4, &[APERTURE]);
    drop(mm.make_resident(a, &[given]).expect("room"));
    mm.offer(a, &[given], OfferPriority::Low, OfferFlags::default(), &[point(1, 5)]).expect("it may be");
    assert!(mm.give_way(a, of(1), &uses_of(&work)));
    mm.settle_postponed(a, |point| point.value <= 4);
    assert!(mm.allocations[given].offer().is_none(), "the use is not over");
    mm.settle_postponed(a, |point| point.value <= 5);
    assert!(mm.allocations[given].offer().is_some());
    mm.check_invariants(&[]).expect("all rules hold");
    assert!(mm.reclaim(a, &[given]).is_ok());
}

/// A device has offered content that its work uses until point 5, and another process's list takes its room. `listed`: a list of the device
/// names it. Otherwise the content is clean, so that the backing store has all of it.
fn discarded(listed: bool) -> (Mm, [DeviceId; 2], AllocationId, Work<u8>) {
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let given = create(&mut mm, a, 30, &[VRAM]);
    mm.make_resident(a, &[given]).expect("room");
    if !listed {
        mm.evict(a, &[given], NOW, &[]).expect("counted");
        drop(mm.make_resident(a, &[given]).expect("room"));
        let lazily = EvictFlags { only_if_necessary: true, not_written_to: true };
        mm.evict(a, &[given], lazily, &[]).expect("counted");
    }
    mm.offer(a, &[given], OfferPriority::Low, OfferFlags { allow_decommit: true }, &[point(1, 5)]).expect("it may be");
    let theirs = create(&mut mm, b, 50, &[VRAM]);
    let work = mm.make_resident(b, &[theirs]).expect("room").expect("it comes");
    assert_eq!((&work.after[..], mm.offered(given)), (&[point(1, 5)][..], Some(true)));
    (mm, [a, b], given, work)
}

/// How many pages a work copies out first for the uses of the content that it drops.
fn rescued(mm: &mut Mm, work: &Work<u8>) -> u64 {
    let saved = work.used.iter().flat_map(|used| mm.rescue(used));
    let pages = saved.map(|operation| match operation {
        Operation::Transfer { size_bytes, direction: Direction::Out, .. } => size_bytes / PAGE_BYTES,
        other => panic!("a copy out, not {other:?}"),
    });
    pages.sum()
}

/// A work that discards the content was decided before the device gives way: the content is kept all the same.
#[test]
fn content_in_use_that_a_work_discards_is_kept_for_the_use() {
    // spec: memory §5.9, memory §8.6
    for (listed, dropped) in [(true, 30), (false, 0)] {
        let (mut mm, [a, b], given, work) = discarded(listed);
        assert!(mm.give_way(a, of(1), &uses_of(&work)));
        assert_eq!((rescued(&mut mm, &work), mm.offered(given)), (dropped, Some(false)), "listed: {listed}");
        mm.check_invariants(&[]).expect("all rules hold");
        mm.set_device_idle(b, true);
        assert_eq!(comes_back(&mut mm, a, given), [(MoveKind::PageIn, 30)], "listed: {listed}");
        assert_eq!(mm.allocations[given].last_use, [point(1, 5)], "the offer counts behind the use");
        mm.check_invariants(&[]).expect("all rules hold");
    }
}

/// The process has taken the offer back and knows that the content is lost: nothing of it comes back over new content.
#[test]
fn discarded_content_that_was_reclaimed_stays_lost() {
    // spec: memory §5.9
    for again in [false, true] {
        let (mut mm, [a, _], given, work) = discarded(false);
        let back = mm.reclaim(a, &[given]).expect("no list names it");
        assert_eq!((&back.results[..], back.work), (&[ReclaimResult::Discarded][..], None));
        if again {
            mm.offer(a, &[given], OfferPriority::Low, OfferFlags::default(), &[point(1, 6)]).expect("it may be");
        }
        assert!(mm.give_way(a, of(1), &uses_of(&work)));
        assert_eq!((rescued(&mut mm, &work), mm.offered(given)), (0, again.then_some(false)));
        assert!(mm.allocations[given].valid.is_empty());
        mm.check_invariants(&[]).expect("all rules hold");
    }
}

/// Two devices use content, and one of them offers it. A work has taken some of its pages behind both uses, and a later one discards the rest
/// behind the use of the device that has offered it: the other device has all of it back.
#[test]
fn discarded_content_is_kept_for_another_device_whose_use_an_earlier_work_has_taken() {
    // spec: memory §5.9, memory §8.6
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let other = mm.create_device(mm.devices[a].space());
    let given = create(&mut mm, a, 30, &[VRAM]);
    mm.make_resident(a, &[given]).expect("room");
    assert_eq!(mm.make_resident(other, &[given]).expect("it is there"), None);
    let lazily = EvictFlags { only_if_necessary: true, not_written_to: false };
    mm.evict(a, &[given], lazily, &[point(1, 5)]).expect("counted");
    mm.evict(other, &[given], lazily, &[point(2, 7)]).expect("counted");
    let [some, rest] = [44, 20].map(|pages| create(&mut mm, b, pages, &[VRAM]));
    let first = mm.make_resident(b, &[some]).expect("room").expect("it comes");
    mm.offer(a, &[given], OfferPriority::Low, OfferFlags::default(), &[point(1, 6)]).expect("it may be");
    let second = mm.make_resident(b, &[rest]).expect("room").expect("it comes");
    assert_eq!((&second.after[..], mm.offered(given)), (&[point(1, 6)][..], Some(true)));
    let uses: Vec<_> = [&first, &second].into_iter().flat_map(uses_of).collect();
    assert!(mm.give_way(other, of(2), &uses));
    assert_eq!((rescued(&mut mm, &second), mm.offered(given)), (20, Some(false)));
    mm.check_invariants(&[]).expect("all rules hold");
    mm.set_device_idle(b, true);
    assert_eq!(comes_back(&mut mm, other, given), [(MoveKind::PageIn, 30)]);
    mm.check_invariants(&[]).expect("all rules hold");
}
