//! Lists that are residency: what fits of a buffer, where it is cut, what may go in between.

use std::collections::BTreeSet;

use ddi::AllocationFlags;
use proptest::prelude::*;
use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{
    AllocationId, Cut, DeviceId, MoveKind, OfferFlags, OfferPriority, PortionError, ProcessPriority, SegmentGroup, Use,
    Work,
};

fn bind(slot: u32, split_offset: u32, allocation: AllocationId) -> Use {
    Use { slot, split_offset, allocation: Some(allocation) }
}

/// A portion as made: its patch locations, the byte where the next begins, what is there, the work.
type Made = (std::ops::Range<usize>, Option<u32>, Vec<AllocationId>, Vec<Work<u8>>);

/// Every portion of a list, each queued behind its own point of fence 1.
fn portions(mm: &mut Mm, device: DeviceId, uses: &[Use], written: bool) -> Result<Vec<Made>, PortionError> {
    let (mut made, mut from) = (Vec::new(), Cut::default());
    loop {
        let portion = mm.bring_in(device, uses, &from)?;
        let point = point(1, made.len() as u64 + 1);
        let left = mm.portion_queued(device, &portion.needs, |_| written, point);
        assert!(left.is_empty(), "content of memory segments leaves when its room is needed");
        let next = portion.cut.as_ref().map(|cut| cut.offset);
        made.push((portion.uses, next, portion.needs, portion.work));
        match portion.cut {
            Some(cut) => from = cut,
            None => return Ok(made),
        }
    }
}

fn moved(work: &[Work<u8>], kind: MoveKind) -> u64 {
    let moves = work.iter().flat_map(|work| &work.moves).filter(|step| step.kind == kind);
    moves.map(|step| step.bytes / PAGE_BYTES).sum()
}

#[test]
fn a_list_that_fits_is_one_portion_and_stays_on_no_list() {
    // spec: memory §6.1, memory §7.4
    let (mut mm, _, device) = with_device(64);
    let [a, b] = [30, 34].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let uses = [bind(1, 0, a), bind(2, 0, b), bind(1, 8, a)];
    let made = portions(&mut mm, device, &uses, true).expect("room");
    assert_eq!((made.len(), &made[0].0, made[0].1), (1, &(0..3), None));
    assert_eq!((mm.count(device, a), mm.count(device, b)), (0, 0));
    assert!(mm.is_resident(a) && mm.is_resident(b), "it stays until another claim needs the room");
    let again = portions(&mut mm, device, &uses, true).expect("room");
    assert_eq!(again[0].3, [], "nothing moves twice");
}

#[test]
fn a_list_without_addresses_is_one_portion_that_needs_nothing() {
    // spec: memory §7.3
    let (mut mm, _, device) = with_device(64);
    assert_eq!(portions(&mut mm, device, &[], true), Ok(vec![(0..0, None, vec![], vec![])]));
}

#[test]
fn what_is_bound_stays_and_the_rest_may_go() {
    // spec: memory §7.3
    let (mut mm, _, device) = with_device(64);
    let [kept, first, second, third] = [16, 40, 40, 48].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let uses = [bind(1, 0, kept), bind(2, 0, first), bind(2, 8, second), bind(2, 16, third)];
    let made = portions(&mut mm, device, &uses, true).expect("each fits beside what is kept");
    let cuts: Vec<_> = made.iter().map(|(uses, next, needs, _)| (uses.clone(), *next, needs.clone())).collect();
    let expected =
        [(0..2, Some(8), vec![kept, first]), (2..3, Some(16), vec![kept, second]), (3..4, None, vec![kept, third])];
    assert_eq!(cuts, expected);
    // 16 + 40 fit; 8 are free, so 32 of the first leave for the second, as much as is needed of what may lie scattered.
    assert_eq!(made.iter().map(|m| moved(&m.3, MoveKind::PageOut)).collect::<Vec<_>>(), [0, 32, 48]);
    assert_eq!(made[1].3[0].after, [point(1, 1)], "behind the portion that used it");
}

#[test]
fn an_unbound_slot_keeps_nothing() {
    // spec: memory §7.3: NULL with a slot unbinds
    let (mut mm, _, device) = with_device(64);
    let [kept, large] = [16, 60].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let bound = [bind(1, 0, kept), bind(2, 8, large)];
    let error = portions(&mut mm, device, &bound, true).expect_err("16 + 60 of 64, and 16 are still bound");
    assert_eq!(error, PortionError::Unsplittable { split_offset: 8, bytes_to_trim: 76 * PAGE_BYTES });
    assert_eq!((mm.resident_bytes(VRAM), mm.count(device, kept)), (0, 0), "it is known before anything is begun");
    let unbound = [bound[0], Use { slot: 1, split_offset: 8, allocation: None }, bound[1]];
    let made = portions(&mut mm, device, &unbound, true).expect("one after the other");
    assert_eq!(made.iter().map(|(uses, ..)| uses.clone()).collect::<Vec<_>>(), [0..1, 1..3]);
}

#[test]
fn one_command_is_never_split() {
    // spec: memory §7.1, §7.3: several entries of one split point
    let (mut mm, _, device) = with_device(64);
    let [a, b, c] = [30, 30, 30].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let uses = [bind(1, 0, a), bind(1, 8, b), bind(2, 8, c)];
    let made = portions(&mut mm, device, &uses, true).expect("two commands");
    assert_eq!(
        made.iter().map(|(uses, next, ..)| (uses.clone(), *next)).collect::<Vec<_>>(),
        [(0..1, Some(8)), (1..3, None)]
    );
    let all = [bind(1, 0, a), bind(2, 0, b), bind(3, 0, c)];
    let error = portions(&mut mm, device, &all, true).expect_err("90 of 64 at once");
    assert_eq!(error, PortionError::Unsplittable { split_offset: 0, bytes_to_trim: 90 * PAGE_BYTES });
}

#[test]
fn what_was_only_read_leaves_uncopied() {
    // spec: memory §8.3
    for written in [true, false] {
        let (mut mm, _, device) = with_device(64);
        let [a, b] = [40, 40].map(|pages| create(&mut mm, device, pages, &[VRAM]));
        let _ = portions(&mut mm, device, &[bind(1, 0, a)], true).expect("room");
        let _ = portions(&mut mm, device, &[bind(1, 0, b)], true).expect("room");
        let _ = portions(&mut mm, device, &[bind(1, 0, a)], written).expect("room");
        let made = portions(&mut mm, device, &[bind(1, 0, b)], true).expect("room");
        let out = if written { 16 } else { 0 };
        assert_eq!(moved(&made[0].3, MoveKind::PageOut), out, "written: {written}");
    }
}

#[test]
fn splitting_comes_before_others_are_stopped() {
    // spec: memory §8.1 step 3
    let (mut mm, [(_, other), (_, device)]) = with_processes::<2>(64);
    let held = create(&mut mm, other, 24, &[VRAM]);
    mm.make_resident(other, &[held]).expect("room");
    mm.set_device_idle(other, true);
    let [a, b, large] = [30, 30, 60].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let made = portions(&mut mm, device, &[bind(1, 0, a), bind(1, 8, b)], true).expect("one beside it");
    assert_eq!(made.len(), 2);
    assert!(!mm.is_suspended(other));
    let made = portions(&mut mm, device, &[bind(1, 0, large)], true).expect("the idle device gives way");
    assert_eq!((made.len(), mm.is_suspended(other)), (1, true));
    // A running device keeps its list until it has run for a quantum.
    let (mut mm, [(_, other), (_, device)]) = with_processes::<2>(64);
    let [held, large] = [(other, 24), (device, 60)].map(|(owner, pages)| create(&mut mm, owner, pages, &[VRAM]));
    mm.make_resident(other, &[held]).expect("room");
    let refused = portions(&mut mm, device, &[bind(1, 0, large)], true);
    let held = PortionError::Held { split_offset: 0, bytes_to_trim: 20 * PAGE_BYTES };
    assert_eq!(refused.expect_err("it would fit alone"), held);
    mm.set_time(mm.policy.residency_quantum_ns);
    portions(&mut mm, device, &[bind(1, 0, large)], true).expect("its quantum is over");
}

/// `first`, unlisted, and what stays after it of two allocations in one piece: 24 pages in the middle are `other`'s.
fn with_leftovers() -> (Mm, DeviceId, DeviceId, [AllocationId; 2]) {
    let (mut mm, [(_, other), (_, device)]) = with_processes::<2>(64);
    // Moves within the segment would free the same room in another way.
    mm.policy.moves_within_segments = false;
    let mut physical = |owner, pages| {
        let wanted = ddi::AllocationInfo { flags: AllocationFlags::ACCESSED_PHYSICALLY, ..info(pages, &[VRAM]) };
        mm.create_allocation(owner, wanted).expect("rules are kept")
    };
    let [first, named, held, large] =
        [(device, 20), (device, 4), (other, 24), (device, 24)].map(|(owner, pages)| physical(owner, pages));
    for (owner, id) in [(device, first), (device, named), (other, held)] {
        mm.make_resident(owner, &[id]).expect("one behind the other");
    }
    let lazy = crate::EvictFlags { only_if_necessary: true, not_written_to: false };
    mm.evict(device, &[first, named], lazy, &[]).expect("listed");
    mm.set_device_idle(other, true);
    (mm, other, device, [named, large])
}

#[test]
fn unneeded_content_leaves_before_others_are_stopped() {
    // spec: memory §8.1 step 3, memory §8.2
    let (mut mm, other, device, [named, large]) = with_leftovers();
    // 20, 4, 24, 16 free: 24 in one piece are there when the first two have left, or when the idle device has.
    let made = portions(&mut mm, device, &[bind(1, 0, named), bind(2, 0, large)], true).expect("they fit");
    assert!(!mm.is_suspended(other), "unneeded content leaves before any device is suspended");
    let [(.., work)] = &made[..] else { panic!("one portion: {made:?}") };
    let [clears, brings] = &work[..] else { panic!("what leaves, and what comes: {work:?}") };
    assert_eq!(moved(std::slice::from_ref(clears), MoveKind::PageOut), 24, "no byte of them is lost");
    assert_eq!(moved(std::slice::from_ref(brings), MoveKind::PageIn), 4, "what is named comes back from there");
    assert!(mm.is_resident(named) && mm.is_resident(large));
    mm.check_invariants(&[]).expect("in order");
}

#[test]
fn who_is_over_its_budget_gives_way_before_its_quantum_is_over() {
    // spec: memory §8.2, memory §5.5
    let (mut mm, [(space, other), (_, device)]) = with_processes::<2>(64);
    let [held, large] = [(other, 24), (device, 60)].map(|(owner, pages)| create(&mut mm, owner, pages, &[VRAM]));
    mm.make_resident(other, &[held]).expect("room");
    let refused = portions(&mut mm, device, &[bind(1, 0, large)], true);
    assert!(matches!(refused, Err(PortionError::Held { .. })), "it runs, keeps to its budget, and has just begun");
    mm.set_budget(space, SegmentGroup::Local, Some(8 * PAGE_BYTES));
    portions(&mut mm, device, &[bind(1, 0, large)], true).expect("it does not keep to its budget");
    assert!(mm.is_suspended(other));
}

#[test]
fn what_is_locked_and_has_no_other_place_is_not_a_question_of_room() {
    // spec: memory §6.3, memory §6.5, memory §9.2
    let (mut mm, _, device) = with_device(64);
    let [a, b] = [8, 8].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.lock(a).expect("it is in system memory");
    let refused = portions(&mut mm, device, &[bind(1, 0, b), bind(1, 8, a)], true);
    assert_eq!(refused.expect_err("the CPU has it"), PortionError::Locked);
    assert_eq!(mm.resident_bytes(VRAM), 0, "it is known before anything is begun");
    mm.unlock(a).expect("locked");
    portions(&mut mm, device, &[bind(1, 0, b), bind(1, 8, a)], true).expect("room");
}

#[test]
fn a_begun_buffer_is_finished_although_another_device_runs_by_now() {
    // spec: memory §7.3
    let (mut mm, [(_, other), (_, device)]) = with_processes::<2>(64);
    let held = create(&mut mm, other, 24, &[VRAM]);
    mm.make_resident(other, &[held]).expect("room");
    mm.set_device_idle(other, true);
    let [small, large] = [30, 60].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let uses = [bind(1, 0, small), bind(1, 8, large)];
    let first = mm.bring_in(device, &uses, &Cut::default()).expect("the idle device would give way for the second");
    assert!(mm.portion_queued(device, &first.needs, |_| true, point(1, 1)).is_empty());
    assert!(!mm.is_suspended(other), "the first fits beside it");
    mm.set_device_idle(other, false);
    let cut = first.cut.expect("they do not fit together");
    let second = mm.bring_in(device, &uses, &cut).expect("it has been promised");
    assert_eq!((second.needs, second.cut, mm.is_suspended(other)), (vec![large], None, true));
    mm.check_invariants(&[]).expect("in order");
}

#[test]
fn what_was_begun_is_finished_although_its_first_portion_lies_in_the_way() {
    // spec: memory §7.3, memory §8.1
    let (mut mm, [(_, other), (_, device)]) = with_processes::<2>(128);
    let mut physical = |owner, pages| {
        let wanted = ddi::AllocationInfo { flags: AllocationFlags::ACCESSED_PHYSICALLY, ..info(pages, &[VRAM]) };
        mm.create_allocation(owner, wanted).expect("rules are kept")
    };
    let sizes = [(other, 26), (device, 33), (device, 19), (other, 23), (device, 14), (device, 6)];
    let [_, large, small, .., gone, lazy] = sizes.map(|(owner, pages)| (owner, physical(owner, pages)));
    let [second, first] = [27, 37].map(|pages| physical(device, pages));
    for (owner, id) in mm.allocations.iter().map(|(id, known)| (known.owner.unwrap(), id)).take(6).collect::<Vec<_>>() {
        mm.make_resident(owner, &[id]).expect("one behind the other");
    }
    let flags = |only_if_necessary| crate::EvictFlags { only_if_necessary, not_written_to: false };
    mm.evict(device, &[gone.1], flags(false), &[]).expect("listed");
    mm.evict(device, &[lazy.1], flags(true), &[]).expect("listed");
    mm.set_device_idle(other, true);
    // The idle one's 26, 33 and 19 of its own, 23 of the idle one, 14 free, 6 on no list, 7 free: the first portion's 37
    // come into the middle of what is behind its own, and no 27 are left in one piece before or behind it.
    let made = portions(&mut mm, device, &[bind(1, 0, first), bind(1, 8, first), bind(2, 8, second)], true);
    let made = made.expect("both fit beside what it lists itself");
    assert_eq!(made.len(), 2);
    let anew = made[1].3.last().expect("it moves");
    assert_eq!((anew.quiesced.as_slice(), &made[1].2), (&[device][..], &vec![second, first]));
    assert!(anew.after.contains(&point(1, 1)), "behind the portion that used it");
    let compacted = anew.moves.iter().filter(|step| matches!(step.cause, crate::Cause::Compaction { .. }));
    let compacted: BTreeSet<_> = compacted.map(|step| (step.allocation, step.kind)).collect();
    let expected = [large.1, small.1].map(|id| [(id, MoveKind::PageOut), (id, MoveKind::PageIn)]);
    assert_eq!(compacted, expected.into_iter().flatten().collect(), "its own list comes back in the same work");
    assert!([large.1, small.1, first, second].into_iter().all(|id| mm.is_resident(id)));
    mm.check_invariants(&[]).expect("in order");
}

#[test]
fn what_is_offered_is_reclaimed_first() {
    // spec: memory §5.9
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 8, &[VRAM]);
    mm.offer(device, &[a], OfferPriority::Low, OfferFlags::default(), &[]).expect("it may be");
    assert_eq!(portions(&mut mm, device, &[bind(1, 0, a)], true).expect_err("offered"), PortionError::Offered);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// A buffer is refused as a whole, or all of its portions are made, wherever content in one piece of devices lies that do not give way.
    // spec: memory §7.3
    #[test]
    fn a_buffer_that_is_begun_is_finished(
        there in prop::collection::vec((any::<bool>(), 1u64..24, 0u8..3), 2..9),
        sizes in prop::collection::vec(4u64..40, 2..6),
        binds in prop::collection::vec((0u32..3, 0usize..6), 2..10),
    ) {
        let (mut mm, [(space, other), (_, device)]) = with_processes::<2>(96);
        let physical = |mm: &mut Mm, owner, pages| {
            let wanted = ddi::AllocationInfo { flags: AllocationFlags::ACCESSED_PHYSICALLY, ..info(pages, &[VRAM]) };
            mm.create_allocation(owner, wanted).expect("rules are kept")
        };
        let mut left = Vec::new();
        for (others, pages, stays) in there {
            let owner = if others { other } else { device };
            let id = physical(&mut mm, owner, pages);
            let fits = mm.segment(VRAM).free_pages() >= pages;
            if fits && mm.make_resident(owner, &[id]).is_ok() && stays < 2 {
                left.push((owner, id, stays == 0));
            }
        }
        for (owner, id, only_if_necessary) in left {
            mm.evict(owner, &[id], crate::EvictFlags { only_if_necessary, not_written_to: false }, &[]).expect("listed");
        }
        mm.set_process_priority(space, ProcessPriority::Foreground);
        let ids: Vec<AllocationId> = sizes.iter().map(|&pages| physical(&mut mm, device, pages)).collect();
        let uses: Vec<Use> =
            (0..).zip(&binds).map(|(at, &(slot, which))| bind(slot, 8 * at, ids[which % ids.len()])).collect();
        let before = mm.state_digest();
        let first = mm.bring_in(device, &uses, &Cut::default());
        let Ok(first) = first else {
            prop_assert_eq!(mm.state_digest(), before, "nothing was begun");
            return Ok(());
        };
        let (mut needs, mut from) = (first.needs, first.cut);
        while let Some(cut) = from {
            drop(mm.portion_queued(device, &needs, |_| true, point(1, cut.next as u64)));
            let next = mm.bring_in(device, &uses, &cut);
            prop_assert!(next.is_ok(), "from {} of {}: {:?}", cut.next, uses.len(), next.err());
            let next = next.unwrap();
            (needs, from) = (next.needs, next.cut);
        }
        mm.check_invariants(&[]).expect("in order");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Portions follow each other without a gap, fit, end only where the next command does not fit, and hold what is bound.
    // spec: memory §7.3
    #[test]
    fn portions_are_as_long_as_they_can_be(
        sizes in prop::collection::vec(1u64..24, 2..8),
        binds in prop::collection::vec((0u32..3, 0usize..8, any::<bool>(), any::<bool>()), 1..24),
        physical in any::<bool>(),
    ) {
        let (mut mm, _, device) = with_device(32);
        let ids: Vec<AllocationId> = sizes.iter().map(|&pages| {
            let mut wanted = info(pages, &[VRAM]);
            if physical {
                wanted.flags = AllocationFlags::ACCESSED_PHYSICALLY;
            }
            mm.create_allocation(device, wanted).expect("rules are kept")
        }).collect();
        let mut split_offset = 0;
        let uses: Vec<Use> = binds.iter().map(|&(slot, which, unbind, next)| {
            split_offset += if next { 8 } else { 0 };
            let allocation = (!unbind).then(|| ids[which % ids.len()]);
            Use { slot, split_offset, allocation }
        }).collect();
        let pages = |needs: &BTreeSet<AllocationId>| needs.iter().map(|id| sizes[ids.iter().position(|of| of == id).unwrap()]).sum::<u64>();
        // The same by hand: commands one by one.
        let mut expected = Vec::new();
        let (mut first, mut bound): (usize, std::collections::BTreeMap<u32, AllocationId>) = (0, Default::default());
        let mut needs: Option<BTreeSet<AllocationId>> = None;
        let (mut at, mut fits) = (0, true);
        for command in uses.chunk_by(|one, other| one.split_offset == other.split_offset) {
            for of in command {
                match of.allocation {
                    Some(id) => bound.insert(of.slot, id),
                    None => bound.remove(&of.slot),
                };
            }
            let own: BTreeSet<AllocationId> = command.iter().filter_map(|of| of.allocation).collect();
            let alone: BTreeSet<AllocationId> = bound.values().chain(&own).copied().collect();
            fits &= pages(&alone) <= 32;
            let longer: BTreeSet<AllocationId> = match &needs {
                Some(needs) => needs.union(&own).copied().collect(),
                None => alone.clone(),
            };
            if needs.is_some() && pages(&longer) > 32 {
                expected.push(first..at);
                first = at;
                needs = Some(alone);
            } else {
                needs = Some(longer);
            }
            at += command.len();
        }
        expected.push(first..at);
        match portions(&mut mm, device, &uses, true) {
            Ok(made) => {
                prop_assert!(fits);
                let made: Vec<_> = made.into_iter().map(|(uses, ..)| uses).collect();
                // Content in one piece may lie in the way of a longer portion, and is not moved for that.
                prop_assert!(made == expected || physical, "{:?}, {:?}", made, expected);
                let ends: Vec<usize> = made.iter().map(|uses| uses.end).collect();
                let starts: Vec<usize> = made.iter().skip(1).map(|uses| uses.start).collect();
                prop_assert_eq!(&ends[..ends.len() - 1], starts);
                prop_assert_eq!(ends.last(), Some(&uses.len()));
            }
            Err(error) => {
                prop_assert!(!fits, "{}", error);
                prop_assert_eq!(mm.resident_bytes(VRAM), 0, "nothing was begun");
            }
        }
        prop_assert!(ids.iter().all(|id| mm.count(device, *id) == 0));
        mm.check_invariants(&[]).expect("whatever was asked");
    }
}
