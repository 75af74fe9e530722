//! Which victims lose pages, how many, and which pages are copied out.

use ddi::SegmentFlags;
use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{AllocationId, Cause, EvictFlags, MakeResidentError, Move, MoveKind, SpaceKind, Work};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const CLEAN: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: true };
const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };

/// Moves as allocation, kind, pages.
fn moves(work: &Option<Work<u8>>) -> Vec<(AllocationId, MoveKind, u64)> {
    let row = |m: &Move| (m.allocation, m.kind, m.bytes / PAGE_BYTES);
    work.iter().flat_map(|work| work.moves.iter().map(row)).collect()
}

#[test]
fn the_least_recently_evicted_loses_from_its_end() {
    // spec: memory §8.2, §8.3 partial residency, §10.4 item 26
    let (mut mm, _, device) = with_device(64);
    let [a, b, c] = [20, 20, 24].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let d = create(&mut mm, device, 30, &[VRAM]);
    mm.make_resident(device, &[a, b, c]).expect("they fit");
    mm.evict(device, &[c, a], LAZY, &[point(7, 1)]).expect("counted");
    assert_eq!(mm.resident_bytes(VRAM), 64 * PAGE_BYTES, "lazy evicts move nothing");
    let work = mm.make_resident(device, &[d]).expect("victims suffice");
    use MoveKind::{Fill, PageIn, PageOut};
    assert_eq!(moves(&work), [(c, PageOut, 24), (a, PageOut, 6), (d, Fill, 30)]);
    let work = work.expect("it moves");
    assert_eq!(work.moves[0].cause, Cause::Pressure { for_allocation: d });
    assert_eq!(work.after, [point(7, 1)]);
    // Only what is missing comes back.
    mm.evict(device, &[d], NOW, &[]).expect("counted");
    let work = mm.make_resident(device, &[a]).expect("room");
    assert_eq!(moves(&work), [(a, PageIn, 6)]);
}

#[test]
fn victims_of_one_call_go_in_list_order_and_a_use_in_between_saves() {
    // spec: memory §8.2
    let (mut mm, _, device) = with_device(64);
    let [a, b, c, d] = [16, 16, 16, 16].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let e = create(&mut mm, device, 17, &[VRAM]);
    mm.make_resident(device, &[a, b, c, d]).expect("they fit");
    mm.evict(device, &[c, a, b], CLEAN, &[]).expect("counted");
    mm.make_resident(device, &[c]).expect("it is there");
    mm.evict(device, &[c], CLEAN, &[]).expect("counted");
    let work = mm.make_resident(device, &[e]).expect("victims suffice");
    use MoveKind::{Discard, Fill};
    assert_eq!(moves(&work), [(a, Discard, 16), (b, Discard, 1), (e, Fill, 17)]);
}

/// A destroyed allocation that work still uses is room for any claim, before any victim, uncopied, behind its last use.
#[test]
fn the_doomed_go_first_and_no_other_content_for_them() {
    // spec: memory §6.2, §8.2, §8.5
    use MoveKind::{Discard, Fill, PageOut};
    let (mut mm, _, device) = with_device(64);
    let [a, b, c] = [20, 20, 20].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    let d = create(&mut mm, device, 30, &[VRAM]);
    mm.make_resident(device, &[a, b, c]).expect("they fit");
    mm.evict(device, &[a], LAZY, &[]).expect("counted");
    mm.doom_allocation(b, &[point(4, 9)], &[]);
    mm.doom_allocation(c, &[point(4, 7)], &[]);
    let work = mm.make_resident(device, &[d]).expect("the doomed suffice");
    assert_eq!(moves(&work), [(b, Discard, 20), (c, Discard, 6), (d, Fill, 30)]);
    let work = work.expect("it moves");
    assert_eq!(work.moves[0].cause, Cause::Destroy);
    assert_eq!(work.after, [point(4, 9)], "one wait for the later of the two uses of one fence");
    let rest = mm.destroy_allocation(c, &[]).expect("it still had pages");
    assert_eq!((moves(&Some(rest)), mm.resident_bytes(VRAM)), (vec![(c, Discard, 14)], 50 * PAGE_BYTES));
    assert!(mm.destroy_allocation(b, &[]).is_none_or(|work| work.moves.is_empty()), "nothing of it was left");
    let e = create(&mut mm, device, 30, &[VRAM]);
    let work = mm.make_resident(device, &[e]).expect("the lazy one is a victim now");
    assert_eq!(moves(&work), [(a, PageOut, 16), (e, Fill, 30)]);
}

#[test]
fn a_fence_point_is_waited_for_once() {
    let (mut mm, _, device) = with_device(64);
    let [a, b] = [64, 8].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(device, &[a]).expect("it fits");
    mm.evict(device, &[a], LAZY, &[point(1, 5), point(1, 3), point(2, 9)]).expect("counted");
    let first = mm.make_resident(device, &[b]).expect("victims suffice").expect("it moves");
    assert_eq!(first.after, [point(1, 5), point(2, 9)]);
    let second = mm.destroy_allocation(a, &[point(3, 1)]).expect("frames are given back");
    assert_eq!(second.after, [point(3, 1)], "the ring has waited for the others already");
    assert_eq!((first.serial, second.serial), (2, 3));
}

#[test]
fn only_dirty_pages_are_copied() {
    // spec: memory §8.3 what is clean, §10.4 items 7 and 25
    use MoveKind::{Discard, Fill, PageIn, PageOut};
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 8, &[VRAM]);
    let clean_now = EvictFlags { only_if_necessary: false, not_written_to: true };
    let again = |mm: &mut Mm| moves(&mm.make_resident(device, &[a]).expect("room"));
    assert_eq!(again(&mut mm), [(a, Fill, 8)]);
    assert_eq!(moves(&mm.evict(device, &[a], clean_now, &[]).expect("counted")), [(a, Discard, 8)]);
    assert_eq!(again(&mut mm), [(a, Fill, 8)], "it still has no content");
    assert_eq!(moves(&mm.evict(device, &[a], NOW, &[]).expect("counted")), [(a, PageOut, 8)]);
    assert_eq!(again(&mut mm), [(a, PageIn, 8)]);
    assert_eq!(
        moves(&mm.evict(device, &[a], clean_now, &[]).expect("counted")),
        [(a, Discard, 8)],
        "a clean eviction is free"
    );
    // Item 25: written in an earlier interval, then not; it never left in between.
    assert_eq!(again(&mut mm), [(a, PageIn, 8)]);
    mm.evict(device, &[a], LAZY, &[]).expect("counted");
    assert_eq!(again(&mut mm), []);
    assert_eq!(moves(&mm.evict(device, &[a], clean_now, &[]).expect("counted")), [(a, PageOut, 8)]);
}

#[test]
fn counts_are_per_device_and_occurrence() {
    // seed: R09
    // spec: memory §5.1, §10.1 rows 7 and 13, §10.4 item 4
    let (mut mm, space, one) = with_device(64);
    let two = mm.create_device(space);
    let a = create(&mut mm, one, 8, &[VRAM]);
    assert!(mm.make_resident(one, &[a, a]).expect("room").is_some());
    assert!(mm.make_resident(two, &[a]).expect("room").is_none(), "it is there already");
    assert_eq!((mm.count(one, a), mm.count(two, a)), (2, 1));
    for device in [one, two] {
        assert_eq!(mm.evict(device, &[a], NOW, &[]), Ok(None), "others still need it");
    }
    let below = crate::EvictError::BelowZero { allocation: a };
    assert_eq!(mm.evict(one, &[a, a], NOW, &[]), Err(below));
    assert_eq!(mm.count(one, a), 1, "a refusal changes nothing");
    assert!(mm.evict(one, &[a], NOW, &[]).expect("counted").is_some());
    assert!(!mm.is_resident(a));
}

#[test]
fn out_of_memory_changes_nothing_and_says_how_much() {
    // spec: memory §5.2, §10.1 rows 11 and 12, §10.4 item 5
    let (mut mm, _, device) = with_device(64);
    let [a, b, c] = [40, 30, 60].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(device, &[a]).expect("it fits");
    let error = |pages: u64| MakeResidentError::OutOfMemory { bytes_to_trim: pages * PAGE_BYTES };
    assert_eq!(mm.make_resident(device, &[b]), Err(error(6)));
    assert_eq!(mm.make_resident(device, &[b, c]), Err(error(90)), "that can never fit");
    assert_eq!((mm.count(device, b), mm.resident_bytes(VRAM)), (0, 40 * PAGE_BYTES));
    mm.evict(device, &[a], LAZY, &[]).expect("counted");
    assert!(mm.make_resident(device, &[b]).is_ok(), "after the trim the retry succeeds");
}

#[test]
fn placement_follows_preference_and_falls_back_to_system_memory() {
    // seed: M56
    // spec: memory §8.1
    let (mut mm, _, device) = with_device(64);
    let [a, b] = [40, 30].map(|pages| create(&mut mm, device, pages, &[VRAM, APERTURE]));
    mm.make_resident(device, &[a]).expect("it fits");
    let work = mm.make_resident(device, &[b]).expect("system memory has room").expect("entries");
    let [mapped] = &work.moves[..] else { panic!("{:?}", work.moves) };
    assert_eq!((mapped.kind, mapped.segment.0, &mapped.runs[..]), (MoveKind::Map, 0, mm.backing(b)), "not copied");
    assert_eq!(work.clear, mm.backing(b), "it never had content");
    assert_eq!(mm.resident_bytes(VRAM), 40 * PAGE_BYTES);
    assert_eq!(mm.evict(device, &[a, b], LAZY, &[]), Ok(None), "the GPU has no address of it");
    let told: Vec<_> = mm.take_untold(u64::MAX).iter().map(|moved| (moved.allocation, moved.kind)).collect();
    assert_eq!(told, [(b, MoveKind::Unmap)], "but it is told");
    let work = mm.make_resident(device, &[b]).expect("room");
    assert_eq!(moves(&work), [(a, MoveKind::PageOut, 6), (b, MoveKind::PageIn, 30)], "placed anew");
}

#[test]
fn physically_accessed_content_is_contiguous_and_whole() {
    // seed: M07
    // spec: memory §1.6, §8.3 all or nothing
    let (mut mm, _, device) = with_device(64);
    let mut physical = info(20, &[VRAM, APERTURE]);
    physical.flags = ddi::AllocationFlags::ACCESSED_PHYSICALLY;
    physical.alignment_bytes = 4 * PAGE_BYTES;
    let p = mm.create_allocation(device, physical).expect("rules are kept");
    let parts = [10; 6].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(device, &parts).expect("they fit");
    // Pinned content does not move.
    parts.iter().for_each(|part| mm.pin(*part).expect("it is resident"));
    [parts[1], parts[3]].iter().for_each(|part| mm.unpin(*part));
    mm.evict(device, &[parts[1], parts[3]], CLEAN, &[]).expect("counted");
    // 24 pages could be free, but no 20 in a row: it goes behind the aperture.
    let work = mm.make_resident(device, &[p]).expect("the aperture has room").expect("it is mapped");
    assert!(work.operations.iter().any(|o| matches!(o, crate::Operation::MapAperture { allocation: Some(_), .. })));
    assert_eq!(mm.resident_bytes(APERTURE), 20 * PAGE_BYTES);
    mm.unpin(parts[2]);
    mm.evict(device, &[p, parts[2]], LAZY, &[]).expect("counted");
    assert_eq!(mm.resident_bytes(APERTURE), 0, "it leaves the aperture at once");
    let work = mm.make_resident(device, &[p]).expect("two victims, and what lies between them moves");
    use MoveKind::{Discard, PageIn, PageOut, Relocate};
    let expected = [(parts[1], Discard, 10), (parts[3], Discard, 10), (parts[2], Relocate, 10), (p, PageIn, 20)];
    assert_eq!(moves(&work), expected);
    // As a victim it loses everything for one page.
    mm.evict(device, &[p], LAZY, &[]).expect("counted");
    let e = create(&mut mm, device, 15, &[VRAM]);
    let work = mm.make_resident(device, &[e]).expect("victims suffice");
    assert_eq!(moves(&work)[..2], [(parts[2], PageOut, 10), (p, PageOut, 20)]);
}

#[test]
fn for_a_contiguous_run_only_those_leave_who_lie_in_it() {
    // spec: memory §8.1, memory §8.2
    let (mut mm, _, device) = with_device(64);
    let mut physical = info(20, &[VRAM]);
    physical.flags = ddi::AllocationFlags::ACCESSED_PHYSICALLY;
    let p = mm.create_allocation(device, physical).expect("rules are kept");
    let parts = [10; 6].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(device, &parts).expect("they fit");
    for part in [parts[0], parts[2], parts[3]] {
        mm.evict(device, &[part], LAZY, &[]).expect("counted");
    }
    let work = mm.make_resident(device, &[p]).expect("two victims in a row");
    use MoveKind::{Fill, PageOut};
    assert_eq!(moves(&work), [(parts[2], PageOut, 10), (parts[3], PageOut, 10), (p, Fill, 20)]);
    assert!(mm.make_resident(device, &[parts[0]]).expect("it is still there").is_none(), "it lost nothing");
}

#[test]
fn content_without_partial_residency_leaves_as_a_whole() {
    // spec: memory §8.3
    let (mut mm, _, device) = with_device(64);
    let mut whole = info(30, &[VRAM]);
    whole.flags2 = ddi::AllocationFlags2::DISABLE_PARTIAL_RESIDENCY;
    let whole = mm.create_allocation(device, whole).expect("rules are kept");
    let [part, x] = [34, 1].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(device, &[whole, part]).expect("room");
    mm.evict(device, &[whole, part], LAZY, &[]).expect("counted");
    let work = mm.make_resident(device, &[x]).expect("victims suffice");
    assert_eq!(moves(&work), [(whole, MoveKind::PageOut, 30), (x, MoveKind::Fill, 1)], "for one page");
}

#[test]
fn what_cannot_be_completed_moves_to_the_next_segment() {
    // spec: memory §8.1
    let mut mm = adapter_of_two(64, SegmentFlags::empty());
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let a = create(&mut mm, device, 20, &[VRAM, EXTRA]);
    let b = create(&mut mm, device, 60, &[VRAM]);
    let c = create(&mut mm, device, 14, &[EXTRA]);
    mm.make_resident(device, &[a, c]).expect("they fit");
    mm.evict(device, &[a], LAZY, &[]).expect("counted");
    mm.make_resident(device, &[b]).expect("16 pages of a suffice");
    let error = MakeResidentError::OutOfMemory { bytes_to_trim: 16 * PAGE_BYTES };
    assert_eq!(mm.make_resident(device, &[a]), Err(error), "18 pages are free in the other segment, 20 are needed");
    mm.evict(device, &[c], LAZY, &[]).expect("counted");
    let work = mm.make_resident(device, &[a]).expect("c is a victim");
    use MoveKind::{PageIn, PageOut};
    assert_eq!(moves(&work), [(a, PageOut, 4), (c, PageOut, 2), (a, PageIn, 20)]);
    assert_eq!(mm.resident_bytes(VRAM), 60 * PAGE_BYTES);
}
