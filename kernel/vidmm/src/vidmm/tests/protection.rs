//! The order in which content loses its place, and what protects it (memory §8.2, §2.3).

use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{
    AllocationId, EvictFlags, MakeResidentError, MakeResidentFlags, MoveKind, NextResume, OfferFlags, OfferPriority,
    PinError, PriorityError, ProcessPriority, SegmentGroup, Work,
};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };

/// The allocations that lost pages by a work, in order.
fn losers(work: &Option<Work<u8>>) -> Vec<(AllocationId, u64)> {
    let left = |kind| matches!(kind, MoveKind::PageOut | MoveKind::Discard);
    let moves = work.iter().flat_map(|work| work.moves.iter());
    moves.filter(|m| left(m.kind)).map(|m| (m.allocation, m.bytes / PAGE_BYTES)).collect()
}

#[test]
fn the_whole_order_from_the_doomed_to_the_pinned() {
    // spec: memory §8.2
    let (mut mm, [(low, background), (_, normal), (high, asking)]) = with_processes::<3>(64);
    mm.set_process_priority(low, ProcessPriority::Background);
    mm.set_process_priority(high, ProcessPriority::Foreground);
    let [doomed, worthless, dear, lazy, cheap, shown, listed] = [6; 7].map(|n| create(&mut mm, normal, n, &[VRAM]));
    let [low_lazy, low_listed] = [6; 2].map(|n| create(&mut mm, background, n, &[VRAM]));
    mm.make_resident(normal, &[doomed, worthless, dear, lazy, cheap, shown, listed]).expect("room");
    mm.make_resident(background, &[low_lazy, low_listed]).expect("room");
    mm.pin(shown).expect("it is resident");
    mm.evict(normal, &[lazy, cheap, shown], LAZY, &[]).expect("counted");
    mm.evict(background, &[low_lazy], LAZY, &[]).expect("counted");
    mm.set_allocation_priority(&[(cheap, 0x5000_0000)]).expect("not 0");
    mm.offer(normal, &[dear], OfferPriority::High, OfferFlags::default(), &[]).expect("not offered");
    mm.offer(normal, &[worthless], OfferPriority::Low, OfferFlags::default(), &[]).expect("not offered");
    mm.doom_allocation(doomed, &[], &[]);
    let mut take = |pages: u64| {
        let wanted = create(&mut mm, asking, pages, &[VRAM]);
        let work = mm.make_resident(asking, &[wanted]).expect("victims suffice");
        (losers(&work), work.map_or(Vec::new(), |work| work.suspends))
    };
    assert_eq!(take(10), (vec![], vec![]), "10 pages were free");
    assert_eq!(take(6).0, [(doomed, 6)]);
    assert_eq!(take(12).0, [(worthless, 6), (dear, 6)]);
    assert_eq!(take(6).0, [(low_lazy, 6)], "the lower process first");
    assert_eq!(take(6), (vec![(low_listed, 6)], vec![background]), "even what it lists");
    assert_eq!(take(12).0, [(cheap, 6), (lazy, 6)], "then the lower priority, whenever it was evicted");
    assert_eq!(take(6), (vec![(listed, 6)], vec![normal]));
    let last = create(&mut mm, asking, 1, &[VRAM]);
    assert!(mm.make_resident(asking, &[last]).is_err(), "what is pinned stays");
    mm.unpin(shown);
    assert_eq!(losers(&mm.make_resident(asking, &[last]).expect("a victim now")), [(shown, 1)]);
}

#[test]
fn a_device_whose_room_higher_processes_have_keeps_no_other_from_a_turn() {
    // spec: memory §8.2, memory §8.6
    let (mut mm, [(low, last), (high, first), (_, one), (_, other)]) = with_processes::<4>(64);
    mm.set_process_priority(low, ProcessPriority::Background);
    mm.set_process_priority(high, ProcessPriority::Foreground);
    let must = MakeResidentFlags { cant_trim_further: true, must_succeed: true };
    for (device, pages, suspends) in
        [(last, 30, vec![]), (first, 40, vec![last]), (one, 20, vec![]), (other, 20, vec![one])]
    {
        let content = create(&mut mm, device, pages, &[VRAM]);
        let work = mm.make_resident_with(device, &[content], must).expect("alone").expect("it comes");
        assert_eq!(work.suspends, suspends);
    }
    assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(one), "the background waits for the foreground");
    mm.set_process_priority(high, ProcessPriority::Background);
    assert_eq!(mm.next_to_resume(u64::MAX / 2), NextResume::Resume(last), "the longest waiting first");
}

#[test]
fn a_protected_process_loses_no_byte_while_a_lower_one_holds_any() {
    // spec: memory §8.2
    let (mut mm, [(space, game), (_, other)]) = with_processes::<2>(64);
    mm.set_process_priority(space, ProcessPriority::Foreground);
    let cache = [16; 3].map(|n| create(&mut mm, game, n, &[VRAM]));
    mm.make_resident(game, &cache).expect("room");
    mm.evict(game, &cache, LAZY, &[]).expect("counted");
    // The lower one has nothing yet: it may take content on no list.
    let [a, b] = [20, 10].map(|n| create(&mut mm, other, n, &[VRAM]));
    let work = mm.make_resident(other, &[a]).expect("4 of them come from the cache");
    assert_eq!(losers(&work), [(cache[0], 4)]);
    // Now it holds something, so the rest of the cache is out of its reach.
    let error = MakeResidentError::OutOfMemory { bytes_to_trim: 10 * PAGE_BYTES };
    assert_eq!(mm.make_resident(other, &[b]), Err(error));
    mm.evict(other, &[a], LAZY, &[]).expect("counted");
    assert_eq!(losers(&mm.make_resident(other, &[b]).expect("its own cache")), [(a, 10)]);
    // The protected one takes everything that the lower one has before a byte of its own goes.
    let all = create(&mut mm, game, 20, &[VRAM]);
    let work = mm.make_resident(game, &[all]).expect("the lower one gives way");
    assert_eq!(losers(&work), [(a, 10), (b, 10)]);
    assert_eq!(work.expect("it moves").suspends, [other]);
}

#[test]
fn protection_changes_rank_at_once() {
    let (mut mm, [(one, a), (two, b), (_, asking)]) = with_processes::<3>(64);
    let [x, y] = [(a, 32), (b, 32)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("room");
    mm.make_resident(b, &[y]).expect("room");
    mm.evict(a, &[x], LAZY, &[]).expect("counted");
    mm.evict(b, &[y], LAZY, &[]).expect("counted");
    mm.set_process_priority(two, ProcessPriority::Background);
    let wanted = [8; 2].map(|n| create(&mut mm, asking, n, &[VRAM]));
    assert_eq!(losers(&mm.make_resident(asking, &wanted[..1]).expect("room")), [(y, 8)]);
    mm.set_process_priority(two, ProcessPriority::Normal);
    mm.set_process_priority(one, ProcessPriority::Normal);
    assert_eq!(losers(&mm.make_resident(asking, &wanted[1..]).expect("room")), [(x, 8)], "x left its list first");
}

#[test]
fn a_priority_of_zero_is_refused_and_changes_nothing() {
    // spec: memory §2.1, §2.3
    let (mut mm, _, device) = with_device(64);
    let [a, b] = [8; 2].map(|n| create(&mut mm, device, n, &[VRAM]));
    assert_eq!(mm.set_allocation_priority(&[(a, 0xA000_0000), (b, 0)]), Err(PriorityError));
    assert_eq!(mm.allocation_priority(a), ddi::PRIORITY_NORMAL);
    mm.set_allocation_priority(&[(a, ddi::PRIORITY_NORMAL + 1)]).expect("any value between is allowed");
    assert_eq!(mm.allocation_priority(a), ddi::PRIORITY_NORMAL + 1);
}

#[test]
fn a_pin_outlasts_evict_and_counts() {
    // spec: memory §8.2
    let (mut mm, _, device) = with_device(64);
    let [shown, rest] = [24, 60].map(|n| create(&mut mm, device, n, &[VRAM]));
    assert_eq!(mm.pin(shown), Err(PinError::NotResident));
    mm.make_resident(device, &[shown]).expect("room");
    mm.pin(shown).expect("resident");
    mm.pin(shown).expect("resident");
    assert_eq!(mm.evict(device, &[shown], NOW, &[]), Ok(None), "it is on the screen");
    assert!(mm.make_resident(device, &[rest]).is_err());
    mm.unpin(shown);
    assert!(mm.is_pinned(shown) && mm.make_resident(device, &[rest]).is_err());
    mm.unpin(shown);
    assert_eq!(losers(&mm.make_resident(device, &[rest]).expect("a victim now")), [(shown, 20)]);
    assert_eq!(mm.pin(shown), Err(PinError::NotResident), "a part of it is gone");
}

#[test]
fn every_kind_of_content_comes_from_the_same_segments_and_is_shared_out_fairly() {
    // seed: M19
    // spec: memory §1.1, §5.5
    let (mut mm, processes) = with_processes::<4>(64);
    // Vertices, textures, targets (in one piece, as displays want them) and shaders.
    let kinds = [(4, false), (8, false), (16, true), (2, false)];
    let wants = processes.map(|(_, device)| {
        kinds.map(|(pages, whole)| match whole {
            true => run_of(&mut mm, device, pages),
            false => create(&mut mm, device, pages, &[VRAM]),
        })
    });
    // Each in turn wants all that it has, and together they have nearly twice what there is.
    let mut lost = std::collections::BTreeMap::<AllocationId, u64>::new();
    for _ in 0..12 {
        for ((_, device), list) in processes.iter().zip(&wants) {
            let work = mm.make_resident(*device, list).expect("each has room for its own");
            for (id, pages) in losers(&work) {
                *lost.entry(id).or_default() += pages;
            }
            let mut kinds = list.iter();
            assert!(kinds.all(|id| mm.is_resident(*id)), "every kind lies in the segment in its process's turn");
            mm.evict(*device, list, LAZY, &[]).expect("counted");
        }
    }
    let of = |id: &AllocationId| lost.get(id).copied().unwrap_or(0);
    // No process gives way more than others, and no kind of content: a turn more or less.
    let all: u64 = kinds.iter().map(|(pages, _)| pages).sum();
    let by_process = wants.map(|list| list.iter().map(of).sum::<u64>());
    let spread = |values: &[u64]| values.iter().max().unwrap() - values.iter().min().unwrap();
    assert!(by_process.iter().all(|pages| *pages > 0), "{by_process:?}");
    assert!(spread(&by_process) <= all, "{by_process:?}");
    for (nth, (pages, _)) in kinds.into_iter().enumerate() {
        let by_process = wants.map(|list| of(&list[nth]));
        assert!(spread(&by_process) <= pages, "kind {nth}: {by_process:?}");
        let turns = by_process.iter().sum::<u64>() / pages;
        assert!((12..=48).contains(&turns), "kind {nth} goes like any other, {turns} of 48 turns: {by_process:?}");
    }
    for (space, _) in processes {
        let info = mm.video_memory_info(space, SegmentGroup::Local);
        assert!(info.budget_bytes >= 16 * PAGE_BYTES, "no budget is less than an even share");
    }
}

/// Pages of the named kinds of content, and what drivers say of them: the CPU writes vertices, displays and engines want targets in one
/// piece, and shaders lie at the other end of the segment.
const KINDS: [(u64, ddi::AllocationFlags, Option<ddi::UsageHintFlags>); 4] = [
    (4, ddi::AllocationFlags::CPU_VISIBLE, Some(ddi::UsageHintFlags::VERTEX)),
    (8, ddi::AllocationFlags::empty(), Some(ddi::UsageHintFlags::MIP_MAP)),
    (16, ddi::AllocationFlags::ACCESSED_PHYSICALLY, None),
    (2, ddi::AllocationFlags::FROM_END_OF_SEGMENT, Some(ddi::UsageHintFlags::PRIVATE_FORMAT)),
];

fn of_kind(mm: &mut Mm, device: crate::DeviceId, kind: usize) -> AllocationId {
    let (pages, flags, hint) = KINDS[kind];
    let usage_hint = hint.map(|flags| ddi::AllocationUsageHint { flags, ..Default::default() });
    // This segment has no BAR: the CPU reaches content through an aperture.
    let segments = if flags.contains(ddi::AllocationFlags::CPU_VISIBLE) { &[VRAM, APERTURE][..] } else { &[VRAM] };
    mm.create_allocation(device, ddi::AllocationInfo { flags, usage_hint, ..info(pages, segments) }).expect("a kind")
}

/// The orders of four.
fn orders() -> impl Iterator<Item = [usize; 4]> {
    let all = (0..256).map(|n| [n & 3, n >> 2 & 3, n >> 4 & 3, n >> 6]);
    all.filter(|order| (0..4).all(|kind| order.contains(&kind)))
}

/// How content loses its claim to its place.
#[derive(Clone, Copy, Debug)]
enum Loses {
    Evicted,
    EvictedUnwritten,
    Offered,
}

#[test]
fn no_kind_of_content_goes_before_another_for_what_it_is() {
    // seed: M19
    // spec: memory §1.1, §8.2
    assert_eq!(orders().count(), 24);
    let all: u64 = KINDS.iter().map(|(pages, ..)| pages).sum();
    let ways = [Loses::Evicted, Loses::EvictedUnwritten, Loses::Offered];
    for (order, how) in orders().flat_map(|order| ways.map(|how| (order, how))) {
        let (mut mm, [(_, owner), (_, asking)]) = with_processes::<2>(all);
        let kinds = [0, 1, 2, 3].map(|kind| of_kind(&mut mm, owner, kind));
        mm.make_resident(owner, &kinds).expect("it is their room");
        let unwritten = EvictFlags { not_written_to: true, ..LAZY };
        let normal = (OfferPriority::Normal, OfferFlags::default());
        for id in order.map(|kind| kinds[kind]) {
            match how {
                Loses::Evicted => assert_eq!(mm.evict(owner, &[id], LAZY, &[]), Ok(None)),
                Loses::EvictedUnwritten => assert_eq!(mm.evict(owner, &[id], unwritten, &[]), Ok(None)),
                Loses::Offered => assert!(mm.offer(owner, &[id], normal.0, normal.1, &[]).is_ok()),
            }
        }
        // What asks has no kind: it takes the place of one kind after the other, page for page.
        for kind in order {
            let pages = KINDS[kind].0;
            let wanted = create(&mut mm, asking, pages, &[VRAM]);
            let work = mm.make_resident(asking, &[wanted]).expect("there is a victim");
            let lost = losers(&work).into_iter().fold(std::collections::BTreeMap::new(), |mut lost, (id, pages)| {
                *lost.entry(id).or_insert(0) += pages;
                lost
            });
            assert_eq!(
                lost.into_iter().collect::<Vec<_>>(),
                [(kinds[kind], pages)],
                "{how:?}, kinds in order {order:?}"
            );
        }
    }
}

/// Contiguous content of `pages` pages that may lie anywhere.
fn run_of(mm: &mut Mm, device: crate::DeviceId, pages: u64) -> AllocationId {
    let mut wanted = info(pages, &[VRAM]);
    wanted.flags = ddi::AllocationFlags::ACCESSED_PHYSICALLY;
    mm.create_allocation(device, wanted).expect("rules are kept")
}

#[test]
fn a_run_that_takes_free_pages_behind_scattered_content_costs_the_lowest_process() {
    // spec: memory §8.2
    let (mut mm, [(low, background), (_, normal), (_, asking)]) = with_processes::<3>(64);
    mm.set_process_priority(low, ProcessPriority::Background);
    let [listed, lazy, scattered] =
        [(background, 10), (normal, 24), (asking, 28)].map(|(device, pages)| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(background, &[listed]).expect("room");
    mm.make_resident(normal, &[lazy]).expect("room");
    mm.evict(normal, &[lazy], LAZY, &[]).expect("counted");
    // 30 pages are free: the scattered content alone would fit there.
    let run = run_of(&mut mm, asking, 8);
    let work = mm.make_resident(asking, &[scattered, run]).expect("room");
    assert_eq!(losers(&work), [(listed, 6)]);
    assert_eq!(work.expect("it moves").suspends, [background]);
}

#[test]
fn a_run_costs_no_process_a_byte_while_a_lower_one_holds_any() {
    // spec: memory §8.2
    for listed in [false, true] {
        let (mut mm, [(low, background), (_, normal), (high, asking)]) = with_processes::<3>(64);
        mm.set_process_priority(low, ProcessPriority::Background);
        mm.set_process_priority(high, ProcessPriority::Foreground);
        // From the start: 30 pages of the normal one, 4 of the low one, 30 of the normal one.
        let [first, last] = [30, 30].map(|pages| run_of(&mut mm, normal, pages));
        let between = run_of(&mut mm, background, 4);
        mm.make_resident(normal, &[first]).expect("room");
        mm.make_resident(background, &[between]).expect("room");
        mm.make_resident(normal, &[last]).expect("room");
        mm.evict(normal, &[first, last], LAZY, &[]).expect("counted");
        if !listed {
            mm.evict(background, &[between], LAZY, &[]).expect("counted");
        }
        let wanted = run_of(&mut mm, asking, 20);
        let work = mm.make_resident(asking, &[wanted]).expect("with all of them gone").expect("it moves");
        assert_eq!(work.suspends, if listed { vec![background] } else { vec![] });
        let lost: Vec<AllocationId> = losers(&Some(work)).into_iter().map(|(id, _)| id).collect();
        assert!(lost.contains(&between) && lost.len() == 2, "{lost:?}: the low one holds nothing any more");
        assert_eq!(mm.resident_bytes(VRAM), 50 * PAGE_BYTES, "and no other is touched");
    }
}
