//! Offer and Reclaim (memory §5.9).

use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{
    AllocationId, Cause, DeviceId, EvictFlags, LockError, MakeResidentError, MakeResidentFlags, MoveKind, NextResume,
    OfferError, OfferFlags, OfferPriority, Policy, ProcessPriority, ReclaimError, ReclaimResult,
};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const KEEP: OfferFlags = OfferFlags { allow_decommit: false };

#[test]
fn pressure_discards_low_before_high_uncopied_and_reclaim_says_so() {
    // spec: memory §5.9, §10.4 item 24
    let (mut mm, _, device) = with_device(64);
    let [high, low, kept, x] = [16, 16, 16, 30].map(|n| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(device, &[high, low, kept]).expect("room");
    mm.evict(device, &[kept], LAZY, &[]).expect("counted");
    mm.offer(device, &[high], OfferPriority::High, KEEP, &[point(1, 7)]).expect("not offered");
    mm.offer(device, &[low], OfferPriority::Low, KEEP, &[]).expect("not offered");
    let work = mm.make_resident(device, &[x]).expect("the discarded offer frees the room").expect("it moves");
    let lost: Vec<_> = work.moves.iter().filter(|m| m.kind != MoveKind::Fill).collect();
    assert_eq!(lost.len(), 1, "16 pages were free, and the lowest offer suffices");
    assert_eq!((lost[0].allocation, lost[0].kind, lost[0].bytes), (low, MoveKind::Discard, 16 * PAGE_BYTES));
    assert_eq!(lost[0].cause, Cause::Pressure { for_allocation: x });
    assert_eq!((mm.offered(low), mm.offered(high), mm.offered(kept)), (Some(true), Some(false), None));
    // Both are on the list still; what is lost comes back empty.
    mm.evict(device, &[x], LAZY, &[]).expect("counted");
    let back = mm.reclaim(device, &[high, low]).expect("both were offered");
    assert_eq!(back.results, [ReclaimResult::Ok, ReclaimResult::Discarded]);
    let work = back.work.expect("it comes back in");
    assert!(work.moves.iter().any(|m| (m.allocation, m.kind, m.cause) == (low, MoveKind::Fill, Cause::Reclaim)));
    assert!(mm.is_resident(low) && mm.is_resident(high) && mm.offered(low).is_none());
}

#[test]
fn the_lock_right_after_reclaim_needs_no_fence() {
    // spec: memory §5.9, §10.4 item 24
    let (mut mm, _, device) = with_device(64);
    let [a, b] = [40, 40].map(|n| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(device, &[a]).expect("room");
    mm.evict(device, &[a], LAZY, &[]).expect("counted");
    mm.offer(device, &[a], OfferPriority::Normal, KEEP, &[]).expect("not offered");
    assert_eq!(mm.lock(a), Err(LockError::Offered));
    let work = mm.make_resident(device, &[b]).expect("the offer makes room").expect("it moves");
    assert_eq!(mm.lock(a), Err(LockError::ContentLost));
    mm.completed(work.serial);
    let back = mm.reclaim(device, &[a]).expect("it was offered");
    assert_eq!((back.results, back.work), (vec![ReclaimResult::Discarded], None), "it is on no list");
    let plan = mm.lock(a).expect("the backing store is there");
    assert_eq!((plan.wait_for, plan.clear), (None, mm.backing(a).to_vec()), "the new backing store is cleared");
}

#[test]
fn what_is_offered_is_neither_made_resident_nor_offered_again() {
    // spec: memory §5.9
    let (mut mm, _, device) = with_device(64);
    let [a, b, c, d] = [8; 4].map(|n| create(&mut mm, device, n, &[VRAM]));
    mm.offer(device, &[a], OfferPriority::Auto, KEEP, &[]).expect("not offered");
    assert_eq!(mm.make_resident(device, &[b, a]), Err(MakeResidentError::Offered { allocation: a }));
    assert_eq!(mm.count(device, b), 0, "nothing changed");
    let again = OfferError::Offered { allocation: a };
    assert_eq!(mm.offer(device, &[b, a], OfferPriority::Low, KEEP, &[]), Err(again));
    let twice = OfferError::Offered { allocation: b };
    assert_eq!(mm.offer(device, &[b, b], OfferPriority::Low, KEEP, &[]), Err(twice));
    let _ = mm.lock(c).expect("nothing against it");
    let locked = OfferError::Locked { allocation: c };
    assert_eq!(mm.offer(device, &[b, c], OfferPriority::Low, KEEP, &[]), Err(locked));
    mm.make_resident(device, &[d]).expect("room");
    mm.pin(d).expect("resident");
    let pinned = OfferError::Pinned { allocation: d };
    assert_eq!(mm.offer(device, &[b, d], OfferPriority::Low, KEEP, &[]), Err(pinned));
    assert_eq!(mm.offered(b), None, "nothing changed");
    assert_eq!(mm.reclaim(device, &[a, b]), Err(ReclaimError::NotOffered { allocation: b }));
    assert_eq!(mm.offered(a), Some(false), "nothing changed");
}

#[test]
fn a_listed_offer_that_does_not_fit_beside_others_waits_for_a_turn() {
    // spec: memory §5.9, §9.2
    let (mut mm, [(_, one), (other, two)]) = with_processes::<2>(64);
    mm.set_process_priority(other, ProcessPriority::Foreground);
    let [a, kept, b] = [(one, 40), (one, 8), (two, 40)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(one, &[a, kept]).expect("room");
    mm.offer(one, &[a], OfferPriority::Normal, KEEP, &[]).expect("not offered");
    let work = mm.make_resident(two, &[b]).expect("the discarded offer frees the room").expect("it moves");
    assert!(work.suspends.is_empty() && mm.offered(a) == Some(true));
    let back = mm.reclaim(one, &[a]).expect("there will be a turn");
    assert_eq!(back.results, [ReclaimResult::Discarded]);
    let work = back.work.expect("its device stops");
    assert_eq!((work.suspends, work.moves.len()), (vec![one], 0), "no better protected process loses a page");
    assert!(mm.is_resident(b) && mm.offered(a).is_none());
    assert!(mm.lock(a).is_ok(), "the CPU need not wait");
    mm.unlock(a).expect("locked");
    assert_ne!(mm.next_to_resume(1), NextResume::Resume(one));
    mm.evict(two, &[b], EvictFlags::default(), &[]).expect("counted");
    assert_eq!(mm.next_to_resume(1), NextResume::Resume(one));
    let _ = mm.resume(one).expect("room");
    assert!(mm.is_resident(a) && mm.is_resident(kept));
}

#[test]
fn unwanted_content_is_not_copied_back() {
    // spec: memory §5.9
    for (wanted, kind) in [(true, MoveKind::PageIn), (false, MoveKind::Fill)] {
        let (mut mm, _, device) = with_device(64);
        let [a, b] = [40, 40].map(|n| create(&mut mm, device, n, &[VRAM]));
        mm.make_resident(device, &[a]).expect("room");
        mm.evict(device, &[a], EvictFlags::default(), &[]).expect("counted");
        mm.offer(device, &[a], OfferPriority::High, KEEP, &[]).expect("not offered");
        mm.make_resident(device, &[b]).expect("room");
        mm.evict(device, &[b], LAZY, &[]).expect("counted");
        let back = mm.reclaim_with(device, &[a], wanted).expect("it was offered");
        assert_eq!((back.results, back.work), (vec![ReclaimResult::Ok], None), "it is on no list");
        let work = mm.make_resident(device, &[a]).expect("room").expect("it moves");
        assert!(work.moves.iter().any(|m| (m.allocation, m.kind) == (a, kind)), "{wanted}: {:?}", work.moves);
    }
}

#[test]
fn a_listed_offer_that_does_not_fit_any_more_is_not_reclaimed() {
    let (mut mm, _, device) = with_device(64);
    let [a, b] = [40, 40].map(|n| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(device, &[a]).expect("room");
    mm.offer(device, &[a], OfferPriority::Normal, KEEP, &[]).expect("not offered");
    mm.make_resident(device, &[b]).expect("the offer makes room");
    let error = ReclaimError::OutOfMemory { bytes_to_trim: 16 * PAGE_BYTES };
    assert_eq!(mm.reclaim(device, &[a]), Err(error));
    assert_eq!(mm.offered(a), Some(true), "nothing changed");
    mm.evict(device, &[b], LAZY, &[]).expect("counted");
    assert_eq!(mm.reclaim(device, &[a]).expect("room").results, [ReclaimResult::Discarded]);
}

#[test]
fn a_backing_store_may_go_if_its_owner_allows_it() {
    // spec: memory §5.9, §8.5
    use wddm_types::{PageRun, Pages};
    let bits = [5, 5, 6];
    let policy = Policy { system_pages: PageRun { first: 0, count: Pages(101) }, ..policy() };
    let descriptors = [vram_descriptor(64, Default::default()), aperture_descriptor(64)];
    let mut mm = Mm::new(policy, &descriptors, mmu(&bits), &levels(&bits)).expect("rules are kept");
    let (space, _) = mm.create_space(crate::SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let [a, b] = [40, 40].map(|n| create(&mut mm, device, n, &[VRAM]));
    mm.offer(device, &[a], OfferPriority::Low, OfferFlags { allow_decommit: true }, &[]).expect("not offered");
    mm.offer(device, &[b], OfferPriority::Low, KEEP, &[]).expect("not offered");
    assert!(mm.create_allocation(device, info(61, &[VRAM])).is_err(), "20 are free, 40 may go");
    let c = create(&mut mm, device, 60, &[VRAM]);
    assert_eq!((mm.offered(a), mm.offered(b)), (Some(true), Some(false)));
    let back = mm.reclaim(device, &[a, b]).expect("both were offered");
    assert_eq!(back.results, [ReclaimResult::NotCommitted, ReclaimResult::Ok]);
    assert_eq!(mm.offered(a), Some(true), "it stays offered");
    let _ = mm.destroy_allocation(c, &[]);
    assert_eq!(mm.reclaim(device, &[a]).expect("offered").results, [ReclaimResult::Discarded]);
    assert_eq!(mm.backing(a).iter().map(|run| run.count.0).sum::<u64>(), 40);
}

#[test]
fn what_the_cpu_sees_at_one_address_comes_back_in_one_piece() {
    // spec: memory §3.4, §5.9
    use ddi::{AllocationFlags, DdiVersion, VidMmCaps};
    use wddm_types::{PageRun, Pages};
    let (mut mm, _, device) = with_device(64);
    // The driver maps apertures with the second operation.
    (mm.version, mm.caps) = (DdiVersion::WDDM_3_2, VidMmCaps::MAP_APERTURE2_SUPPORTED);
    let mut description = info(4, &[APERTURE]);
    description.flags |= AllocationFlags::MAP_APERTURE_CPU_VISIBLE;
    let a = mm.create_allocation(device, description).expect("it fits");
    mm.offer(device, &[a], OfferPriority::Low, OfferFlags { allow_decommit: true }, &[]).expect("not offered");
    let row = mm.allocate_system(7).expect("free pages");
    let rest = mm.allocate_scattered(mm.free_system_pages().0 - 4).expect("free pages");
    let b = create(&mut mm, device, 8, &[VRAM]);
    assert_eq!((mm.offered(a), mm.free_system_pages().0), (Some(true), 0));
    // Four pages that do not touch each other are enough of them, and do not do.
    let page = |number: u64| PageRun { first: row.first + number, count: Pages(1) };
    [0, 2, 4, 6].into_iter().for_each(|number| mm.free_system(page(number)));
    assert_eq!(mm.reclaim(device, &[a]).expect("offered").results, [ReclaimResult::NotCommitted]);
    [1, 3].into_iter().for_each(|number| mm.free_system(page(number)));
    assert_eq!(mm.reclaim(device, &[a]).expect("offered").results, [ReclaimResult::Discarded]);
    assert_eq!(mm.backing(a), [PageRun { first: row.first, count: Pages(4) }]);
    let _ = mm.destroy_allocation(b, &[]);
    assert_eq!(mm.check_invariants(&[rest, vec![page(5)]].concat()), Ok(()));
}

#[test]
fn a_backing_store_that_the_driver_sees_stays() {
    // spec: memory §2.2, §5.9
    use ddi::AllocationFlags2;
    for shared in [false, true] {
        let (mut mm, _, device) = with_device(64);
        let mut description = info(4, &[APERTURE]);
        description.flags2.set(AllocationFlags2::SHARE_BACKING_STORE_WITH_KMD, shared);
        let a = mm.create_allocation(device, description).expect("it fits");
        let before = mm.backing(a).to_vec();
        mm.offer(device, &[a], OfferPriority::Low, OfferFlags { allow_decommit: true }, &[]).expect("not offered");
        let rest = mm.allocate_scattered(mm.free_system_pages().0).expect("free pages");
        assert_eq!(mm.create_allocation(device, info(4, &[APERTURE])).is_err(), shared, "only its pages could be had");
        assert_eq!(mm.backing(a) == before, shared);
        drop(rest);
    }
}

#[test]
fn a_creation_that_fails_discards_no_offer() {
    // spec: memory §2.7, §5.9
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 60, &[VRAM]);
    mm.offer(device, &[a], OfferPriority::Low, OfferFlags { allow_decommit: true }, &[]).expect("not offered");
    let left = mm.free_system_pages().0;
    let taken = mm.allocate_scattered(left - 10).expect("free pages");
    let wanted = |pages: u64| (info(pages, &[VRAM]), crate::Origin::default());
    let before = mm.state_digest();
    let both = [wanted(50), wanted(50)];
    let scarce = crate::AllocationError::NoBackingStore { wanted: wddm_types::Pages(100), free: wddm_types::Pages(10) };
    assert_eq!(mm.check_allocations(&both), Err(scarce), "70 pages can be had");
    assert_eq!(mm.check_allocations(&both[..1]), Ok(()));
    // Nor when one of them alone asks for more than there can ever be.
    let huge = mm.create_allocation(device, info(64, &[VRAM])).expect("60 offered and 10 free pages are enough");
    assert_eq!(mm.offered(a), Some(true), "given up for it");
    assert_ne!(mm.state_digest(), before);
    let _ = mm.destroy_allocation(huge, &[]);
    let b = create(&mut mm, device, 40, &[VRAM]);
    mm.offer(device, &[b], OfferPriority::Low, OfferFlags { allow_decommit: true }, &[]).expect("not offered");
    let free = mm.free_system_pages().0;
    let rest = mm.allocate_scattered(free).expect("free pages");
    assert!(mm.create_allocation(device, info(50, &[VRAM])).is_err(), "40 pages are not enough");
    assert_eq!(mm.offered(b), Some(false), "and nothing is lost");
    assert_eq!(mm.check_invariants(&[taken, rest].concat()), Ok(()));
}

/// A device with `used` and `kept` of 20 pages each, which is suspended because another has taken their room, and has queued work before
/// that uses both up to point (1, 9).
fn quiesced_with_work() -> (Mm, [DeviceId; 2], [AllocationId; 3]) {
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [used, kept] = [20; 2].map(|pages| create(&mut mm, a, pages, &[VRAM]));
    mm.make_resident(a, &[used, kept]).expect("alone");
    let y = create(&mut mm, b, 60, &[VRAM]);
    let must = MakeResidentFlags { cant_trim_further: true, must_succeed: true };
    let work = mm.make_resident_with(b, &[y], must).expect("at the other's cost").expect("it moves");
    assert_eq!(work.suspends, [a]);
    mm.completed(work.serial);
    (mm, [a, b], [used, kept, y])
}

#[test]
fn what_a_quiesced_device_offers_is_there_for_the_work_that_it_queued_before() {
    // spec: memory §5.9, §8.6
    let give_up = OfferFlags { allow_decommit: true };
    let (mut mm, [a, b], [used, kept, y]) = quiesced_with_work();
    mm.offer(a, &[used], OfferPriority::Low, give_up, &[point(1, 9)]).expect("not offered");
    assert_eq!(mm.offered(used), Some(false), "for its process it is");
    assert_eq!(mm.lock(used), Err(LockError::Offered));
    let again = mm.offer(a, &[used], OfferPriority::Low, give_up, &[]);
    assert_eq!(again, Err(OfferError::Offered { allocation: used }));
    // No allocation gets its backing store yet: queued work reads its content.
    let rest = mm.allocate_scattered(mm.free_system_pages().0).expect("free pages");
    assert!(mm.create_allocation(b, info(4, &[APERTURE])).is_err());
    assert_eq!(mm.check_invariants(&rest), Ok(()));
    rest.into_iter().for_each(|run| mm.system.give(run));
    mm.evict(b, &[y], LAZY, &[]).expect("counted");
    let work = mm.resume(a).expect("room").expect("it moves");
    assert!(work.moves.iter().any(|step| (step.allocation, step.kind) == (used, MoveKind::PageIn)), "{:?}", work.moves);
    assert!(mm.is_resident(used) && mm.is_resident(kept));
    // With the turn the offer counts: it goes first, uncopied, behind that work.
    let more = create(&mut mm, b, 40, &[VRAM]);
    let work = mm.make_resident(b, &[more]).expect("the discarded offer frees the room").expect("it moves");
    let lost: Vec<_> = work.moves.iter().filter(|step| step.kind == MoveKind::Discard).collect();
    assert_eq!(lost.iter().map(|step| step.allocation).collect::<Vec<_>>(), [used], "{:?}", work.moves);
    assert_eq!((work.after, mm.offered(used)), (vec![point(1, 9)], Some(true)));
}

#[test]
fn an_offer_taken_back_before_the_turn_has_lost_nothing() {
    // spec: memory §5.9, pDiscarded NULL too
    for wanted in [true, false] {
        let (mut mm, [a, b], [used, _, y]) = quiesced_with_work();
        mm.offer(a, &[used], OfferPriority::Low, KEEP, &[point(1, 9)]).expect("not offered");
        let back = mm.reclaim_with(a, &[used], wanted).expect("it was offered");
        assert_eq!((back.results, back.work), (vec![ReclaimResult::Ok], None), "it comes with the turn");
        assert_eq!(mm.reclaim(a, &[used]), Err(ReclaimError::NotOffered { allocation: used }));
        // Offered again, it waits for what was queued until then.
        mm.offer(a, &[used], OfferPriority::Low, KEEP, &[point(1, 11)]).expect("not offered");
        mm.settle_postponed(a, |point| point.value <= 9);
        assert_eq!(mm.check_invariants(&[]), Ok(()));
        mm.evict(b, &[y], LAZY, &[]).expect("counted");
        let work = mm.resume(a).expect("room").expect("it moves");
        assert!(work.moves.iter().any(|step| (step.allocation, step.kind) == (used, MoveKind::PageIn)));
        let more = create(&mut mm, b, 40, &[VRAM]);
        let work = mm.make_resident(b, &[more]).expect("the discarded offer frees the room").expect("it moves");
        assert_eq!(work.after, [point(1, 11)]);
    }
}

#[test]
fn an_offer_of_a_device_whose_work_is_over_counts_without_a_turn() {
    // spec: memory §5.9, §8.6
    let (mut mm, [a, _], [used, kept, _]) = quiesced_with_work();
    mm.offer(a, &[used], OfferPriority::Low, OfferFlags { allow_decommit: true }, &[point(1, 9)]).expect("not offered");
    mm.set_device_idle(a, true);
    mm.settle_postponed(a, |point| point.value <= 8);
    let rest = mm.allocate_scattered(mm.free_system_pages().0).expect("free pages");
    assert!(mm.create_allocation(a, info(4, &[APERTURE])).is_err());
    mm.settle_postponed(a, |point| point.value <= 9);
    let _ = mm.create_allocation(a, info(4, &[APERTURE])).expect("its backing store is given up");
    assert_eq!((mm.offered(used), mm.offered(kept)), (Some(true), None));
    assert_eq!(mm.check_invariants(&rest), Ok(()));
}

#[test]
fn who_closes_what_it_offered_keeps_no_offer_waiting() {
    // spec: memory §5.9, memory §2.7
    let (mut mm, [a, b], [used, _, _]) = quiesced_with_work();
    mm.offer(a, &[used], OfferPriority::Low, OfferFlags { allow_decommit: true }, &[point(1, 9)]).expect("not offered");
    let _ = mm.leave_allocation(used, a, Some(b), true);
    assert_eq!(mm.check_invariants(&[]), Ok(()));
    let rest = mm.allocate_scattered(mm.free_system_pages().0).expect("free pages");
    let _ = mm.create_allocation(b, info(4, &[APERTURE])).expect("its backing store is given up");
    assert_eq!((mm.offered(used), mm.check_invariants(&rest)), (Some(true), Ok(())));
}
