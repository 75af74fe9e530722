//! Known failures of other memory managers, which do not happen here.

use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{AllocationId, EvictFlags, MakeResidentError, MakeResidentFlags, MoveKind, NextResume};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

/// Elsewhere two users each evict what the other needs next, for ever, and none runs. Here a call that succeeds has its
/// content, keeps it for a quantum, and a call that cannot succeed moves nothing.
#[test]
fn no_endless_eviction() {
    let (mut mm, [(_, a), (_, b)]) = with_processes::<2>(64);
    let [x, y] = [(a, 40), (b, 40)].map(|(device, n)| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(a, &[x]).expect("room");
    let resident = mm.resident_bytes(VRAM);
    for _ in 0..1000 {
        assert!(mm.make_resident(b, &[y]).is_err(), "beyond its share");
    }
    assert_eq!(mm.resident_bytes(VRAM), resident, "a thousand refusals move nothing");
    let must = MakeResidentFlags { cant_trim_further: true, must_succeed: true };
    mm.make_resident_with(b, &[y], must).expect("at any price");
    let (mut now, mut moved) = (0, 0);
    let quantum = mm.policy.residency_quantum_ns;
    // However often the kernel asks, content moves once per quantum.
    for _ in 0..10_000 {
        now += quantum / 100;
        if let NextResume::Resume(device) = mm.next_to_resume(now) {
            let work = mm.resume(device).expect("it was said so");
            moved += u64::from(work.is_some());
        }
    }
    assert!((50..=100).contains(&moved), "a hundred quanta, {moved} turns");
}

/// Elsewhere one process more makes all the others evict each other in turn. Here one gives way, the others notice
/// nothing.
#[test]
fn one_process_more_displaces_one_not_all() {
    const N: usize = 8;
    let (mut mm, processes) = with_processes::<9>(64);
    for (_, device) in &processes[..N] {
        let id = create(&mut mm, *device, 8, &[VRAM]);
        mm.make_resident(*device, &[id]).expect("they fill the memory exactly");
    }
    let (_, late) = processes[N];
    let id = create(&mut mm, late, 7, &[VRAM]);
    let work = mm.make_resident(late, &[id]).expect("within an even share").expect("it moves");
    assert_eq!(work.suspends.len(), 1);
    let moved: u64 = work.moves.iter().filter(|m| m.kind == MoveKind::PageOut).map(|m| m.bytes).sum();
    assert_eq!(moved, 7 * PAGE_BYTES);
    let suspended = processes.iter().filter(|(_, device)| mm.is_suspended(*device)).count();
    assert_eq!(suspended, 1);
}

/// Elsewhere a bind evicts its own process's memory, then fails for lack of a contiguous run, and what was there is
/// gone. Here feasibility is decided first: a refusal leaves every page where it was.
#[test]
fn a_refusal_has_evicted_nothing() {
    let (mut mm, _, device) = with_device(64);
    let parts: Vec<AllocationId> = (0..8).map(|_| create(&mut mm, device, 8, &[VRAM])).collect();
    mm.make_resident(device, &parts).expect("they fill the memory");
    // Pinned content does not move out of the way.
    parts.iter().skip(1).step_by(2).for_each(|part| mm.pin(*part).expect("it is resident"));
    let every_other: Vec<AllocationId> = parts.iter().copied().step_by(2).collect();
    mm.evict(device, &every_other, LAZY, &[]).expect("counted");
    let mut run = info(16, &[VRAM]);
    run.flags = ddi::AllocationFlags::ACCESSED_PHYSICALLY;
    let run = mm.create_allocation(device, run).expect("rules are kept");
    let error = MakeResidentError::OutOfMemory { bytes_to_trim: 16 * PAGE_BYTES };
    assert_eq!(mm.make_resident(device, &[run]), Err(error), "32 pages can go, no 16 of them in a row");
    assert_eq!(mm.resident_bytes(VRAM), 64 * PAGE_BYTES);
    assert_eq!(mm.make_resident(device, &every_other), Ok(None), "all of it is still there");
}
