//! Content moves up to where it would rather be when there is room and nothing else to do (memory §8.1 step 4).

use ddi::{AllocationFlags, SegmentFlags};
use wddm_types::{PAGE_BYTES, SegmentId};

use super::world::*;
use crate::{
    AllocationId, Cause, DeviceId, EvictFlags, MoveKind, OfferFlags, OfferPriority, Promotion, SegmentGroup, SpaceId,
    SpaceKind, Work,
};

const NOW: EvictFlags = EvictFlags { only_if_necessary: false, not_written_to: false };
const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

fn moved(promotion: Promotion<u8>) -> Option<Work<u8>> {
    match promotion {
        Promotion::Work(work) => Some(*work),
        Promotion::Later | Promotion::Nothing => None,
    }
}

/// The first process's 40 pages lie in system memory, because the other's 40 stood where they would rather be.
fn displaced() -> (Mm, [(SpaceId, DeviceId); 2], AllocationId, AllocationId) {
    let (mut mm, processes) = with_processes::<2>(64);
    let [(_, a), (_, b)] = processes;
    let y = create(&mut mm, b, 40, &[VRAM]);
    let x = create(&mut mm, a, 40, &[VRAM, APERTURE]);
    mm.make_resident(b, &[y]).expect("room");
    mm.make_resident(a, &[x]).expect("in system memory");
    assert_eq!(mm.resident_bytes(VRAM), 40 * PAGE_BYTES);
    (mm, processes, x, y)
}

#[test]
fn it_moves_up_when_there_is_room_and_its_devices_have_nothing_to_run() {
    // spec: memory §8.1
    let (mut mm, [(_, a), (_, b)], x, y) = displaced();
    mm.set_device_idle(a, true);
    assert!(matches!(mm.promote(1000), Promotion::Nothing), "no room");
    mm.evict(b, &[y], NOW, &[]).expect("counted");
    mm.set_device_idle(a, false);
    assert!(matches!(mm.promote(1000), Promotion::Later), "the promotion stops no device");
    mm.set_device_idle(a, true);
    mm.policy.promote = false;
    assert!(matches!(mm.promote(1000), Promotion::Nothing), "the policy says no");
    mm.policy.promote = true;
    let work = moved(mm.promote(1)).expect("one is moved whatever its size");
    let moves: Vec<_> = work.moves.iter().map(|m| (m.allocation, m.kind, m.cause, m.bytes / PAGE_BYTES)).collect();
    let once = [(x, MoveKind::Unmap, Cause::Promote, 40), (x, MoveKind::PageIn, Cause::Promote, 40)];
    assert_eq!(moves, once, "and no other allocation moves");
    assert_eq!((&work.quiesced[..], mm.is_suspended(a)), (&[a][..], false), "it only quiesces meanwhile");
    assert_eq!(mm.resident_bytes(VRAM), 40 * PAGE_BYTES);
    assert!(!mm.may_promote(), "nothing is left to be done");
}

#[test]
fn who_is_never_idle_is_stopped_when_patience_ends() {
    // spec: memory §8.1
    let (mut mm, [(_, a), (_, b)], x, y) = displaced();
    let patience = 1_000_000_000;
    mm.policy.promote_patience_ns = patience;
    mm.set_time(500);
    assert!(matches!(mm.promote(1000), Promotion::Nothing), "no room: no patience counts");
    mm.evict(b, &[y], NOW, &[]).expect("counted");
    mm.set_time(1000);
    assert!(matches!(mm.promote(1000), Promotion::Later), "from now on it waits");
    mm.set_time(1000 + patience - 1);
    assert!(matches!(mm.promote(1000), Promotion::Later));
    // Room that goes and comes lets the time begin anew.
    mm.make_resident(b, &[y]).expect("room");
    assert!(matches!(mm.promote(1000), Promotion::Nothing));
    mm.evict(b, &[y], NOW, &[]).expect("counted");
    mm.set_time(1000 + patience);
    assert!(matches!(mm.promote(1000), Promotion::Later));
    mm.set_time(1000 + 2 * patience - 1);
    assert!(matches!(mm.promote(1000), Promotion::Later));
    mm.set_time(1000 + 2 * patience);
    mm.policy.promote_patience_ns = u64::MAX;
    assert!(matches!(mm.promote(1000), Promotion::Later), "never, says the policy");
    mm.policy.promote_patience_ns = patience;
    let work = moved(mm.promote(1000)).expect("it has waited long enough");
    assert_eq!((work.moves[0].allocation, &work.quiesced[..], mm.is_suspended(a)), (x, &[a][..], false));
    assert!(!mm.may_promote());
}

#[test]
fn promotion_takes_only_free_room_that_no_device_waits_for() {
    // spec: memory §8.1, memory §5.5
    let (mut mm, [(one, a), (_, b)], _, y) = displaced();
    mm.set_device_idle(a, true);
    mm.evict(b, &[y], LAZY, &[]).expect("counted");
    assert!(matches!(mm.promote(1000), Promotion::Nothing), "what stays lazily is not displaced");
    mm.make_resident(b, &[y]).expect("still there");
    mm.evict(b, &[y], NOW, &[]).expect("counted");
    mm.set_budget(one, SegmentGroup::Local, Some(39 * PAGE_BYTES));
    assert!(matches!(mm.promote(1000), Promotion::Nothing), "beyond its budget");
    mm.set_budget(one, SegmentGroup::Local, None);
    // A device that waits for its turn comes first.
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let late = mm.create_device(space);
    let (big, must) = (create(&mut mm, late, 40, &[VRAM]), crate::MakeResidentFlags::default());
    mm.make_resident_with(late, &[big], must).expect("room");
    let other = create(&mut mm, b, 40, &[VRAM]);
    let insists = crate::MakeResidentFlags { cant_trim_further: true, must_succeed: true };
    mm.make_resident_with(b, &[other], insists).expect("at the other's cost");
    mm.evict(b, &[other], NOW, &[]).expect("counted");
    assert!(mm.is_suspended(late) && !mm.may_promote());
    mm.set_device_idle(late, true);
    assert!(matches!(mm.promote(1000), Promotion::Nothing), "no device waits, but the share of the first is less");
    mm.evict(late, &[big], NOW, &[]).expect("counted");
    assert!(moved(mm.promote(1000)).is_some(), "no device waits");
}

#[test]
fn what_is_pinned_locked_or_offered_stays() {
    // spec: memory §8.2, memory §5.9, memory §6.3
    let (mut mm, [(_, a), (_, b)], x, y) = displaced();
    mm.set_device_idle(a, true);
    mm.evict(b, &[y], NOW, &[]).expect("counted");
    mm.pin(x).expect("resident");
    assert!(matches!(mm.promote(1000), Promotion::Nothing));
    mm.unpin(x);
    mm.offer(a, &[x], OfferPriority::Low, OfferFlags::default(), &[]).expect("it may be");
    assert!(matches!(mm.promote(1000), Promotion::Nothing));
    let _ = mm.reclaim(a, &[x]).expect("kept");
    let _ = mm.promote(1000);
    assert_eq!(mm.resident_bytes(VRAM), 40 * PAGE_BYTES, "wherever the reclaim put it, it is there now");
}

#[test]
fn from_one_memory_segment_to_the_better_one() {
    // spec: memory §8.1
    let mut mm = adapter_of_two(64, SegmentFlags::empty());
    mm.policy.suspend_others = true;
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let wall = create(&mut mm, device, 60, &[VRAM]);
    let mut wanted = info(16, &[VRAM, EXTRA]);
    wanted.flags = AllocationFlags::ACCESSED_PHYSICALLY;
    let x = mm.create_allocation(device, wanted).expect("rules are kept");
    mm.make_resident(device, &[wall, x]).expect("one here, one there");
    assert_eq!(mm.resident_bytes(EXTRA), 16 * PAGE_BYTES);
    mm.evict(device, &[wall], NOW, &[]).expect("counted");
    mm.set_device_idle(device, true);
    let work = moved(mm.promote(1000)).expect("room");
    let moves: Vec<(MoveKind, SegmentId, u64)> =
        work.moves.iter().map(|m| (m.kind, m.segment, m.bytes / PAGE_BYTES)).collect();
    assert_eq!(moves, [(MoveKind::PageOut, EXTRA, 16), (MoveKind::PageIn, VRAM, 16)], "evict and commit");
    assert_eq!((mm.resident_bytes(EXTRA), mm.resident_bytes(VRAM)), (0, 16 * PAGE_BYTES));
}
