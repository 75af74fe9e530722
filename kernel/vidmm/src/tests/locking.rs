//! Lock2 as far as it is built.

use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{Cause, EvictFlags, LockError, MakeResidentError};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

#[test]
fn a_lock_shows_the_backing_store() {
    // spec: memory §6.3 rows 2, 7, 8
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 4, &[VRAM, APERTURE]);
    let plan = mm.lock(a).expect("not resident");
    assert_eq!((plan.work, plan.wait_for), (None, None));
    assert_eq!(plan.clear, plan.backing, "nobody wrote it yet");
    assert_eq!(plan.backing, mm.backing(a));
    let nested = mm.lock(a).expect("locks nest");
    assert!(nested.clear.is_empty(), "the CPU may have written it");
    assert_eq!((mm.unlock(a), mm.unlock(a), mm.unlock(a)), (Ok(()), Ok(()), Err(LockError::NotLocked)));
}

#[test]
fn leftovers_are_written_out_first() {
    // spec: memory §6.3 row 8, §10.4 item 10
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 4, &[VRAM, APERTURE]);
    mm.make_resident(device, &[a]).expect("it fits");
    assert_eq!(mm.lock(a), Err(LockError::NotSupported));
    mm.evict(device, &[a], LAZY, &[point(1, 1)]).expect("counted");
    let plan = mm.lock(a).expect("on no list");
    let work = plan.work.expect("a copy out");
    assert_eq!((work.moves[0].cause, work.moves[0].bytes), (Cause::Lock, 4 * PAGE_BYTES));
    assert_eq!((work.after, plan.wait_for), (vec![point(1, 1)], Some(work.serial)));
    assert_eq!(mm.resident_bytes(VRAM), 0);
    mm.unlock(a).expect("locked");
    mm.completed(work.serial);
    assert_eq!(mm.lock(a).expect("not resident").wait_for, None);
}

#[test]
fn the_locked_stay_out_of_memory_segments() {
    // spec: memory §6.3 requirements, §10.1 row 22, §10.4 item 12
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 4, &[VRAM]);
    let b = create(&mut mm, device, 4, &[VRAM, APERTURE]);
    mm.lock(a).expect("not resident");
    mm.lock(b).expect("not resident");
    assert_eq!(mm.make_resident(device, &[b, a]), Err(MakeResidentError::Locked { allocation: a }));
    assert_eq!(mm.count(device, b), 0);
    mm.make_resident(device, &[b]).expect("system memory");
    assert_eq!(mm.resident_bytes(VRAM), 0);
    mm.unlock(a).expect("locked");
    let work = mm.make_resident(device, &[a]).expect("room").expect("it moves");
    assert_eq!(work.moves[0].kind, crate::MoveKind::PageIn, "what the CPU wrote comes along");
}

#[test]
fn resident_without_aperture_cannot_be_locked() {
    // spec: memory §6.3 row 9
    let (mut mm, _, device) = with_device(64);
    let a = create(&mut mm, device, 4, &[VRAM]);
    mm.make_resident(device, &[a]).expect("it fits");
    assert_eq!(mm.lock(a), Err(LockError::CantLock));
    // spec: memory §10.1 row 27, destroying the locked is no error
    let b = create(&mut mm, device, 4, &[VRAM]);
    mm.lock(b).expect("not resident");
    assert!(mm.destroy_allocation(b, &[]).is_none());
}
