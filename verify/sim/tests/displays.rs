//! Worlds with displays come to their end with every checker content; something broken is found.

use std::collections::BTreeMap;

use sim::{Sabotage, run_displays, run_displays_sabotaged};

#[test]
fn worlds_with_displays_keep_every_rule() {
    // spec: sync §4.6, memory §5.6, memory §8.2, memory §8.4, memory §10.1
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 1..=160 {
        let report = run_displays(seed).unwrap_or_else(|violation| panic!("{violation}"));
        for (kind, count) in report.seen {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    for kind in [
        "AdapterReset",
        "CallRefused: SetVidPnSourceOwner",
        "DisplayOff",
        "DisplayOn",
        "FlipAwaitsDrain",
        "FlipDropped",
        "FlipLogged",
        "FlipShown",
        "PowerChanged",
        "ProcessDied",
        "QueueHeldForFlip",
        "frame",
    ] {
        assert!(seen.get(kind).is_some_and(|count| *count >= 10), "{kind} was seen {:?}: {seen:?}", seen.get(kind));
    }
}

/// A mode of the first generation that waits for its device to go on behind a sleep; devices of the IoMmu model that go on without
/// anything having to move; a mode that an aperture was to show when its adapter fell asleep.
#[test]
fn devices_go_on_after_a_sleep_without_a_call() {
    // spec: memory §8.4, memory §8.6
    for seed in [5, 326, 367, 368] {
        let report = run_displays(seed).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.seen.contains_key("PowerChanged"), "{report}");
    }
}

/// A primary has no room when it is to come back.
#[test]
fn no_process_flips_to_a_primary_that_is_away() {
    // spec: memory §5.1
    run_displays(10_000_160_535).unwrap_or_else(|violation| panic!("{violation}"));
}

/// The kernel refuses a mode to one process while it brings in the primary of another's.
#[test]
fn a_refused_mode_is_not_the_one_that_is_pending() {
    // spec: memory §5.6
    run_displays(10_000_253_810).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A process sets a mode while the packet of a flip is over and the kernel has not heard so.
#[test]
fn a_mode_ends_flips_on_their_way() {
    // spec: memory §5.6
    run_displays(10_000_080_000).unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in [2, 3] {
        assert_eq!(run_displays(seed).unwrap(), run_displays(seed).unwrap());
    }
}

#[test]
fn pictures_that_are_lost_are_noticed_by_who_looks() {
    // spec: memory §8.3, memory §8.4
    let mut others = Vec::new();
    for seed in 1..=120 {
        match run_displays_sabotaged(seed, Sabotage::DriverSkipsPageOut) {
            Err(violation) if violation.checker == "displays" => return,
            Err(violation) => others.push(*violation),
            Ok(_) => {}
        }
    }
    panic!("{others:#?}");
}
