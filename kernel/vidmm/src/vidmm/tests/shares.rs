//! Budgets: their size, their effect on MakeResident, their changes (memory §5.5, §5.2).

use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{EvictFlags, MakeResidentError, MakeResidentFlags, ProcessPriority, ReservationError, SegmentGroup};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };
const LOCAL: SegmentGroup = SegmentGroup::Local;
const CANT_TRIM: MakeResidentFlags = MakeResidentFlags { cant_trim_further: true, must_succeed: false };
const MUST: MakeResidentFlags = MakeResidentFlags { cant_trim_further: true, must_succeed: true };

fn trim(pages: u64) -> MakeResidentError {
    MakeResidentError::OutOfMemory { bytes_to_trim: pages * PAGE_BYTES }
}

#[test]
fn alone_everything_among_equals_the_even_share() {
    // spec: memory §5.5
    let (mut mm, [(one, a), (two, b)]) = with_processes::<2>(64);
    let budget = |mm: &Mm, space| mm.video_memory_info(space, LOCAL).budget_bytes / PAGE_BYTES;
    assert_eq!((budget(&mm, one), budget(&mm, two)), (64, 64));
    let [x, y] = [(a, 40), (b, 10)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("room");
    assert_eq!((budget(&mm, one), budget(&mm, two)), (64, 32), "who has much leaves half to who has nothing");
    mm.make_resident(b, &[y]).expect("room");
    assert_eq!((budget(&mm, one), budget(&mm, two)), (54, 32), "what one does not need is the other's");
    mm.set_process_priority(one, ProcessPriority::Foreground);
    assert_eq!((budget(&mm, one), budget(&mm, two)), (64, 24), "the higher is served first");
    mm.evict(a, &[x], LAZY, &[]).expect("counted");
    assert_eq!(budget(&mm, two), 64, "content on no list counts against no budget");
}

#[test]
fn over_the_budget_the_overshoot_is_to_be_trimmed() {
    // spec: memory §5.2, §5.3
    let (mut mm, [(one, a), (_, _)]) = with_processes::<2>(64);
    mm.set_budget(one, LOCAL, Some(30 * PAGE_BYTES));
    let [x, y, z] = [20, 15, 10].map(|n| create(&mut mm, a, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("within");
    assert_eq!(mm.make_resident(a, &[y]), Err(trim(5)));
    assert_eq!(mm.make_resident(a, &[z, y]), Err(trim(15)));
    assert_eq!(mm.count(a, z), 0, "nothing changed");
    assert_eq!(mm.make_resident_with(a, &[y], CANT_TRIM), Err(trim(5)), "a cap is the maximum");
    mm.make_resident(a, &[z]).expect("exactly");
    mm.set_budget(one, LOCAL, Some(24 * PAGE_BYTES));
    assert_eq!(mm.bytes_over_budget(one), 6 * PAGE_BYTES);
    mm.evict(a, &[z], LAZY, &[]).expect("counted");
    assert_eq!(mm.bytes_over_budget(one), 0);
    mm.set_budget(one, LOCAL, None);
    mm.make_resident(a, &[y, z]).expect("no cap, no pressure");
}

#[test]
fn cant_trim_further_exceeds_the_current_budget_and_takes_no_other_s_share() {
    // spec: memory §5.2
    let (mut mm, [(one, a), (_, b)]) = with_processes::<2>(64);
    let [x, y, z] = [(a, 30), (b, 20), (a, 20)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(b, &[y]).expect("room");
    mm.set_process_priority(one, ProcessPriority::Background);
    // Its budget is what the other does not need; with 14 more of it the rest shrinks to 30.
    let more = create(&mut mm, b, 14, &[VRAM]);
    mm.make_resident(b, &[more]).expect("room");
    mm.make_resident(a, &[x]).expect("30 are left");
    assert_eq!(mm.make_resident(a, &[z]), Err(trim(20)));
    assert_eq!(mm.make_resident_with(a, &[z], CANT_TRIM), Err(trim(20)), "there is no room either");
    assert_eq!(mm.make_resident_with(a, &[z], MUST), Err(trim(20)), "and the protected process keeps its pages");
    mm.evict(b, &[more], LAZY, &[]).expect("counted");
    mm.set_process_priority(one, ProcessPriority::Normal);
    let w = create(&mut mm, a, 14, &[VRAM]);
    let c = create(&mut mm, b, 12, &[VRAM]);
    mm.make_resident(b, &[c]).expect("the other's own cache");
    // 62 of 64 are listed; the even share of both is 32.
    assert_eq!(mm.make_resident(a, &[w]), Err(trim(12)));
    let error = mm.make_resident_with(a, &[w], CANT_TRIM);
    assert_eq!(error, Err(trim(12)), "the other keeps within its budget and keeps its place");
    let work = mm.make_resident_with(a, &[w], MUST).expect("at any price").expect("it moves");
    assert_eq!(work.suspends, [b]);
}

#[test]
fn content_within_the_budget_stays_in_its_segment_beyond_it_goes_to_system_memory() {
    // spec: memory §8.1, step 1
    let (mut mm, [(one, a), (_, _)]) = with_processes::<2>(64);
    mm.set_budget(one, LOCAL, Some(20 * PAGE_BYTES));
    let [x, y] = [20, 8].map(|n| create(&mut mm, a, n, &[VRAM, APERTURE]));
    mm.make_resident(a, &[x, y]).expect("the aperture is another group");
    assert_eq!(mm.resident_bytes(VRAM), 20 * PAGE_BYTES);
    assert_eq!(mm.video_memory_info(one, SegmentGroup::NonLocal).current_usage_bytes, 8 * PAGE_BYTES);
}

#[test]
fn reservations_are_bounded_and_honoured() {
    // spec: memory §5.5
    let (mut mm, [(one, _), (two, b)]) = with_processes::<2>(64);
    let available = |mm: &Mm, space| mm.video_memory_info(space, LOCAL).available_for_reservation_bytes / PAGE_BYTES;
    assert_eq!(available(&mm, one), 31, "half of it, in whole pages");
    let error = ReservationError { available_bytes: 31 * PAGE_BYTES };
    assert_eq!(mm.change_reservation(one, LOCAL, 32 * PAGE_BYTES), Err(error));
    mm.change_reservation(one, LOCAL, 20 * PAGE_BYTES).expect("available");
    assert_eq!((available(&mm, one), available(&mm, two)), (31, 11));
    mm.change_reservation(two, LOCAL, 11 * PAGE_BYTES).expect("available");
    mm.set_process_priority(two, ProcessPriority::Foreground);
    let y = create(&mut mm, b, 60, &[VRAM]);
    mm.make_resident(b, &[y]).expect("room");
    let info = mm.video_memory_info(one, LOCAL);
    assert_eq!((info.current_reservation_bytes, info.budget_bytes), (20 * PAGE_BYTES, 20 * PAGE_BYTES));
}

#[test]
fn a_process_is_told_when_its_budget_changes() {
    // spec: memory §5.5
    let (mut mm, [(one, a), (two, b)]) = with_processes::<2>(64);
    assert_eq!(mm.budget_changes(), [], "who starts asks");
    let [x, y] = [(a, 40), (b, 1)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("room");
    let told: Vec<_> =
        mm.budget_changes().into_iter().map(|c| (c.space, c.group, c.budget_bytes / PAGE_BYTES)).collect();
    assert_eq!(told, [(two, LOCAL, 32)]);
    mm.make_resident(b, &[y]).expect("room");
    assert_eq!(mm.budget_changes(), [], "one page is no news");
    mm.set_budget(one, LOCAL, Some(0));
    let told: Vec<_> = mm.budget_changes().into_iter().map(|c| (c.space, c.budget_bytes / PAGE_BYTES)).collect();
    assert_eq!(told, [(one, 0), (two, 64)]);
}

#[test]
fn usage_counts_an_allocation_once_per_process() {
    // spec: memory §10.1 row 7
    let (mut mm, [(one, a), (two, b)]) = with_processes::<2>(64);
    let also = mm.create_device(one);
    let x = create(&mut mm, a, 10, &[VRAM]);
    let usage = |mm: &Mm, space| mm.video_memory_info(space, LOCAL).current_usage_bytes / PAGE_BYTES;
    for device in [a, also, b, a] {
        mm.make_resident(device, &[x]).expect("room");
    }
    assert_eq!((usage(&mm, one), usage(&mm, two)), (10, 10));
    mm.evict(a, &[x, x], LAZY, &[]).expect("counted");
    assert_eq!(usage(&mm, one), 10);
    mm.evict(also, &[x], LAZY, &[]).expect("counted");
    assert_eq!((usage(&mm, one), usage(&mm, two)), (0, 10));
    mm.doom_allocation(x, &[point(1, 1)], &[]);
    assert_eq!(usage(&mm, two), 0);
}

#[test]
fn cant_trim_further_goes_beyond_the_share_where_there_is_room() {
    // spec: memory §5.2
    let (mut mm, [(_, a), (two, b)]) = with_processes::<2>(64);
    let [x, y, z] = [(a, 60), (b, 10), (b, 25)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("alone");
    mm.make_resident(b, &[y]).expect("within its share");
    assert!(mm.is_suspended(a), "its content is room for others until its turn");
    assert_eq!(mm.make_resident(b, &[z]), Err(trim(3)), "35 pages are beyond the share of 32");
    mm.make_resident_with(b, &[z], CANT_TRIM).expect("there is room");
    assert_eq!(mm.bytes_over_budget(two), 3 * PAGE_BYTES, "which Evict and the trim callback say");
}
