//! What the planner wants ahead of need, carried out.

use foresight::Wanted;
use wddm_types::{FencePoint, PAGE_BYTES};

use super::world::*;
use crate::foreseen::{Foreseen, key_of};
use crate::vidmm::placement::fetch::Ahead;
use crate::{AllocationId, Cause, DeviceId, EvictFlags, Eviction, MoveKind, Work};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

type Moved = (AllocationId, MoveKind, u64, Cause);

/// 64 pages under the planner; `a` of 40 pages has been written and evicted, then `b` of 40, which took 16 of `a`.
fn two() -> (Mm, DeviceId, AllocationId, AllocationId) {
    let (mut mm, _, device) = with_device(64);
    mm.policy.eviction = Eviction::Planner;
    mm.foreseen = Foreseen::open(Eviction::Planner, &mm.segments);
    let [a, b] = [40, 40].map(|n| create(&mut mm, device, n, &[VRAM]));
    for (id, value) in [(a, 1), (b, 2)] {
        let _ = mm.make_resident(device, &[id]).expect("room");
        mm.evict(device, &[id], LAZY, &[point(1, value)]).expect("counted");
    }
    (mm, device, a, b)
}

fn ahead(mm: &mut Mm, wanted: Wanted) -> (u64, Option<Work<u8>>) {
    ahead_at(mm, wanted, u64::MAX)
}

/// The same when fence 1 has this value.
fn ahead_at(mm: &mut Mm, wanted: Wanted, value: u64) -> (u64, Option<Work<u8>>) {
    let is_over = |point: &FencePoint<u8>| point.value <= value;
    let mut ahead = Ahead::new(VRAM, mm.works.begin(), &is_over);
    let done = mm.do_ahead(wanted, 1000, &mut ahead);
    let work = mm.finish(ahead.batch, false);
    mm.check_invariants(&[]).expect("what always holds");
    (done, work)
}

fn moved(work: Option<Work<u8>>) -> Vec<Moved> {
    let work = work.expect("it moves");
    assert_eq!(work.suspends.len() + work.quiesced.len(), 0, "nothing stops for it");
    work.moves.iter().map(|m| (m.allocation, m.kind, m.bytes / PAGE_BYTES, m.cause)).collect()
}

#[test]
fn content_comes_into_the_place_of_another_and_is_there_when_a_list_names_it() {
    // spec: memory §8.3
    let (mut mm, device, a, b) = two();
    let (done, work) = ahead(&mut mm, Wanted::Fetch { key: key_of(a), pages: 10, instead_of: Some(key_of(b)) });
    assert_eq!(done, 10);
    assert_eq!(work.as_ref().map(|work| &work.after[..]), Some(&[point(1, 2)][..]), "behind the last use of b");
    assert_eq!(moved(work), [(b, MoveKind::PageOut, 10, Cause::Foreseen), (a, MoveKind::PageIn, 10, Cause::Foreseen)]);
    let (done, work) = ahead(&mut mm, Wanted::Fetch { key: key_of(a), pages: 90, instead_of: Some(key_of(b)) });
    assert_eq!((done, moved(work).len()), (6, 2), "no more than is missing");
    assert_eq!(mm.make_resident(device, &[a]), Ok(None), "all of it is there");
}

#[test]
fn it_takes_only_what_no_list_names_and_brings_nothing_dead() {
    let (mut mm, device, a, b) = two();
    let wanted = Wanted::Fetch { key: key_of(a), pages: 10, instead_of: Some(key_of(b)) };
    let _ = mm.make_resident(device, &[b]).expect("room");
    assert_eq!(ahead(&mut mm, wanted), (0, None), "b is on a list");
    let free = Wanted::Fetch { key: key_of(a), pages: 10, instead_of: None };
    assert_eq!(ahead(&mut mm, free), (0, None), "no frame is free");
    mm.doom_allocation(a, &[], &[]);
    assert_eq!(ahead(&mut mm, wanted), (0, None), "a is destroyed");
    let c = create(&mut mm, device, 30, &[VRAM]);
    let wanted = Wanted::Fetch { key: key_of(c), pages: 30, instead_of: Some(key_of(b)) };
    let (done, work) = ahead(&mut mm, wanted);
    let expected = [(a, MoveKind::Discard, 24, Cause::Destroy), (c, MoveKind::Fill, 24, Cause::Foreseen)];
    assert_eq!((done, moved(work)), (24, expected.to_vec()), "the dead give room first");
}

#[test]
fn what_leaves_ahead_leaves_from_its_end_and_what_was_copied_out_before_is_dropped() {
    let (mut mm, device, _, b) = two();
    let (done, work) = ahead(&mut mm, Wanted::WriteBack { key: key_of(b), pages: 12 });
    assert_eq!((done, moved(work)), (12, vec![(b, MoveKind::PageOut, 12, Cause::Ahead)]));
    assert!(mm.is_resident(b), "it stays");
    let (done, work) = ahead(&mut mm, Wanted::Clear { key: key_of(b), pages: 15 });
    assert_eq!(done, 15);
    let expected = [(b, MoveKind::PageOut, 3, Cause::Foreseen), (b, MoveKind::Discard, 12, Cause::Foreseen)];
    assert_eq!(moved(work), expected, "the last twelve are clean");
    assert_eq!(mm.segment(VRAM).free_pages(), 15);
    let work = mm.make_resident(device, &[b]).expect("room");
    assert_eq!(moved(work), [(b, MoveKind::PageIn, 15, Cause::MakeResident)]);
}

#[test]
fn what_queued_work_still_uses_stays_for_no_process_waits_for_it() {
    // spec: memory §8.3
    let (mut mm, device, a, b) = two();
    for wanted in [
        Wanted::Clear { key: key_of(b), pages: 15 },
        Wanted::WriteBack { key: key_of(b), pages: 15 },
        Wanted::Fetch { key: key_of(a), pages: 10, instead_of: Some(key_of(b)) },
    ] {
        assert_eq!(ahead_at(&mut mm, wanted, 1), (0, None), "b's last use is at 2: {wanted:?}");
    }
    let c = create(&mut mm, device, 30, &[VRAM]);
    mm.doom_allocation(b, &[point(1, 9)], &[]);
    let wanted = Wanted::Fetch { key: key_of(c), pages: 30, instead_of: None };
    assert_eq!(ahead_at(&mut mm, wanted, 8), (0, None), "the dead one is in use until 9");
    assert_eq!(ahead_at(&mut mm, wanted, 9).0, 30);
}
