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

/// A work that discards the content was decided before: nothing brings that content back for the use.
#[test]
fn a_device_whose_content_in_use_is_discarded_cannot_give_way() {
    // spec: memory §5.9
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let given = create(&mut mm, a, 30, &[VRAM]);
    mm.make_resident(a, &[given]).expect("room");
    mm.offer(a, &[given], OfferPriority::Low, OfferFlags::default(), &[point(1, 5)]).expect("it may be");
    let theirs = create(&mut mm, b, 50, &[VRAM]);
    let work = mm.make_resident(b, &[theirs]).expect("room").expect("it comes");
    assert_eq!((&work.after[..], mm.offered(given)), (&[point(1, 5)][..], Some(true)));
    let state = mm.state_digest();
    assert!(!mm.give_way(a, of(1), &uses_of(&work)));
    assert_eq!(mm.state_digest(), state);
}
