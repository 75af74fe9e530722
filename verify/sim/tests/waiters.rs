//! Worlds of waiters come to their end with every checker content; a driver that forgets is found.

use std::collections::BTreeMap;

use sim::{Sabotage, run_waiters, run_waiters_sabotaged};

#[test]
fn no_waiter_sleeps_when_its_value_has_come_and_the_interrupt_is_delivered() {
    // spec: sync §3.10, sync §3.14 (overrun), sync §3.15, sync §3.19
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 1..=40 {
        let report = run_waiters(seed).unwrap_or_else(|violation| panic!("{violation}"));
        for (kind, count) in report.seen {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    for kind in ["CpuWaitEnded", "FenceClosed", "FenceInterrupt", "interrupt for several", "log run over"] {
        assert!(seen.get(kind).is_some_and(|count| *count >= 40), "{kind} was seen {:?}: {seen:?}", seen.get(kind));
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in [2, 3] {
        assert_eq!(run_waiters(seed).unwrap(), run_waiters(seed).unwrap());
    }
}

#[test]
fn a_driver_that_forgets_what_it_has_kept_is_noticed() {
    // spec: sync §3.10
    let found = (1..=40).filter_map(|seed| run_waiters_sabotaged(seed, Sabotage::DriverForgetsFolded).err());
    let found: Vec<_> = found.collect();
    assert!(found.iter().any(|violation| violation.checker == "fences"), "{found:#?}");
}
