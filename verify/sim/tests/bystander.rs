//! A process that only makes ordinary calls lives beside those of every world, and none of them holds it.

use std::collections::BTreeMap;

use sim::{Sabotage, run, run_holders, run_holders_sabotaged};

/// The first of the worlds that have a bystander.
const BYSTANDERS_FROM: u64 = 10_000_000_000;

#[test]
fn holders_hold_no_bystander() {
    // spec: memory §10.1
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in BYSTANDERS_FROM..BYSTANDERS_FROM + 60 {
        let report = run_holders(seed).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.seen["bystander: rounds"] > 5, "a bystander that gets somewhere: {report}");
        for (kind, count) in report.seen {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    // Worlds in which holders leave nothing undone would prove nothing.
    for kind in [
        "CallRefused: CreateAllocation",
        "DeviceInError",
        "EnginePower",
        "GpuVaUpdated",
        "Moved: page out for evict",
        "ProcessDied",
        "entries copied",
        "interrupt heard late",
    ] {
        assert!(seen.get(kind).is_some_and(|count| *count >= 10), "{kind} was seen {:?} times", seen.get(kind));
    }
}

/// Twenty-six in a row have each kind of world twice, and those of several adapters, displays, waiters and readers.
#[test]
fn every_world_has_a_bystander() {
    for seed in BYSTANDERS_FROM..BYSTANDERS_FROM + 26 {
        let report = run(seed).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.seen["bystander: rounds"] > 2, "a bystander that gets somewhere: {report}");
    }
}

/// Worlds in which no work of the bystander stood in the ring behind the use of a holder: its device stood in the line, its packet needed content
/// that the ring moves, its lock had no answer. In the last one a holder had made content resident while its device was suspended.
#[test]
fn a_bystander_without_work_in_the_ring_is_not_held() {
    // spec: memory §8.6, memory §10.1
    for world in [2782, 20421, 4936, 20776] {
        run(BYSTANDERS_FROM + world).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// The kernel once showed a DMA buffer where it split the room of an aperture that the work of a device which gives way needs in one piece.
#[test]
fn a_bystander_is_not_held_by_where_the_kernel_shows_its_own_pages() {
    // spec: memory §7.1, memory §8.6
    run(BYSTANDERS_FROM + 721_960).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A process waits for work that its own lock keeps out; another of its threads ends the lock.
#[test]
fn work_ends_when_another_thread_ends_the_lock_that_keeps_it_out() {
    // spec: memory §10.1 row 23
    run(BYSTANDERS_FROM + 728_642).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A device withheld content, listed it for its next turn, and withheld other content before that turn: the paging queue's values of the first stood
/// behind the second.
#[test]
fn a_paging_fence_comes_before_what_is_withheld_later() {
    // spec: memory §4.9, memory §8.6
    run(11_796_085_626).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A renderer of low protection lacks three pages that the bystander has and does not use: it has them when the bystander goes.
#[test]
fn a_bystander_of_higher_protection_keeps_its_room_until_it_goes() {
    // spec: memory §8.2
    run(BYSTANDERS_FROM + 70946).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn worlds_that_tests_name_by_their_seeds_have_none() {
    let report = run(1_795_400_176).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(!report.seen.contains_key("bystander: rounds"), "{report}");
}

/// The hardware loses interrupts, and the kernel is told not to look for them: calls wait for ever.
#[test]
fn a_bystander_that_is_held_is_noticed() {
    let held = |seed| matches!(run_holders_sabotaged(seed, Sabotage::LostInterrupts), Err(broken) if broken.checker == "bystander");
    assert!((BYSTANDERS_FROM..BYSTANDERS_FROM + 40).any(held), "a bystander waits for ever, and no checker says so");
}
