//! Work done ahead while the copy engine is idle.

use wddm_types::{PAGE_BYTES, Pages};

use super::world::*;
use crate::{Cause, EvictFlags, MoveKind, Operation};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

#[test]
fn dirty_content_is_written_back_ahead_and_its_eviction_is_free() {
    // spec: memory §8.3
    let (mut mm, _, device) = with_device(64);
    let [a, b, c] = [20, 20, 40].map(|n| create(&mut mm, device, n, &[VRAM]));
    mm.make_resident(device, &[a, b]).expect("room");
    mm.evict(device, &[b, a], LAZY, &[point(1, 3)]).expect("counted");
    assert_eq!(mm.idle_work(1000, &|_| true), None, "off by default: it moves bytes that might never have had to");
    mm.policy.write_back_ahead = true;
    let work = mm.idle_work(25, &|_| true).expect("40 pages are dirty");
    let moved: Vec<_> = work.moves.iter().map(|m| (m.allocation, m.kind, m.bytes / PAGE_BYTES, m.cause)).collect();
    assert_eq!(moved, [(b, MoveKind::PageOut, 20, Cause::Ahead), (a, MoveKind::PageOut, 5, Cause::Ahead)]);
    assert_eq!(work.after, [point(1, 3)], "after its last use");
    assert!(mm.is_resident(a) && mm.is_resident(b), "it stays in place");
    assert_eq!(mm.idle_work(1000, &|_| true).expect("the rest").moves[0].bytes, 15 * PAGE_BYTES);
    assert_eq!(mm.idle_work(1000, &|_| true), None);
    let work = mm.make_resident(device, &[c]).expect("victims suffice").expect("it moves");
    assert!(work.moves.iter().all(|m| m.kind != MoveKind::PageOut), "clean: dropped");
    assert_eq!(work.after, [], "its last use is past");
}

#[test]
fn a_first_commit_into_cleared_pages_fills_nothing() {
    // spec: memory §3.3, operation 1
    let (mut mm, _, device) = with_device(64);
    let fills = |work: &crate::Work<u8>| -> u64 {
        let bytes = |o: &Operation| if let Operation::Fill { size_bytes, .. } = o { *size_bytes } else { 0 };
        work.operations.iter().map(bytes).sum::<u64>() / PAGE_BYTES
    };
    mm.policy.clear_ahead = Pages(24);
    assert_eq!(fills(&mm.idle_work(16, &|_| true).expect("64 are free")), 16);
    assert_eq!(fills(&mm.idle_work(16, &|_| true).expect("8 more are wanted")), 8);
    assert_eq!(mm.idle_work(16, &|_| true), None, "as many as the policy wants");
    let [a, b] = [20, 20].map(|n| create(&mut mm, device, n, &[VRAM]));
    let work = mm.make_resident(device, &[a]).expect("room").expect("it moves");
    assert_eq!(fills(&work), 0, "its pages were cleared");
    assert_eq!(
        (work.moves[0].kind, work.moves[0].bytes),
        (MoveKind::Fill, 20 * PAGE_BYTES),
        "it came, nothing is silent"
    );
    let work = mm.make_resident(device, &[b]).expect("room").expect("it moves");
    assert_eq!(fills(&work), 16, "four were left");
    // Pages that come free again are no longer clear.
    mm.evict(device, &[a, b], EvictFlags::default(), &[]).expect("counted");
    assert_eq!(fills(&mm.idle_work(100, &|_| true).expect("none is clear now")), 24);
    // The same when paging works by GPU virtual address.
    mm.policy.paging_by_gpu_va = true;
    mm.make_resident(device, &[a]).expect("room");
    assert_eq!(fills(&mm.idle_work(100, &|_| true).expect("20 of 24 were taken")), 20);
}
