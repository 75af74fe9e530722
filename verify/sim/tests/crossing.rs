//! Worlds with two adapters come to their end with every checker content; something broken is found.

use std::collections::BTreeMap;

use sim::{Sabotage, run_crossing, run_crossing_sabotaged};

#[test]
fn worlds_with_two_adapters_keep_every_rule() {
    // spec: sync §3.12, sync §3.13, sync §3.18, sync §3.19
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 1..=24 {
        let report = run_crossing(seed).unwrap_or_else(|violation| panic!("{violation}"));
        for (kind, count) in report.seen {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    for kind in ["CrossAdapterValueArrived", "CpuWaitEnded", "FenceInterrupt", "FenceSignaledFromCpu", "ProcessDied"] {
        assert!(seen.get(kind).is_some_and(|count| *count >= 10), "{kind} was seen {:?}: {seen:?}", seen.get(kind));
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in [2, 3] {
        assert_eq!(run_crossing(seed).unwrap(), run_crossing(seed).unwrap());
    }
}

/// One of the first worlds notices, by this checker.
fn assert_found_by(sabotage: Sabotage, checkers: &[&str]) {
    let mut others = Vec::new();
    for seed in 1..=48 {
        let Err(violation) = run_crossing_sabotaged(seed, sabotage) else { continue };
        if checkers.contains(&violation.checker) {
            return;
        }
        others.push(*violation);
    }
    panic!("{sabotage:?}: {others:#?}");
}

#[test]
fn an_adapter_that_does_not_hear_of_the_other_forgets_who_waits() {
    // spec: sync §3.12
    // Nor does it store what its own CPU signals.
    assert_found_by(Sabotage::DriverForgetsNews, &["fences", "liveness"]);
}

#[test]
fn lost_interrupts_are_noticed() {
    // spec: sync §3.10, sync §3.12
    assert_found_by(Sabotage::LostInterrupts, &["fences"]);
}
