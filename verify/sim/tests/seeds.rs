//! Many worlds come to their end with every checker content; the same seed is the same world.

use std::collections::BTreeMap;

use sim::{Report, run};

fn run_all(seeds: std::ops::RangeInclusive<u64>) -> Vec<Report> {
    seeds.map(|seed| run(seed).unwrap_or_else(|violation| panic!("{violation}"))).collect()
}

#[test]
fn fifty_worlds_keep_every_rule() {
    // spec: memory §5.2, memory §5.3, memory §8.3, sync §3.9
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for report in run_all(1..=50) {
        assert!(report.calls > 50, "a world in which something happens: {report}");
        for (kind, count) in report.seen {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    // Worlds in which the hard things never happen would prove nothing.
    for kind in [
        "CallRefused: Evict",
        "CpuWaitEnded",
        "DeviceInError",
        "DeviceResumed",
        "DeviceSuspended",
        "DoorbellConnected",
        "FenceInterrupt",
        "FenceSignaledFromCpu",
        "GpuVaFreed",
        "MakeResidentRefused",
        "Moved: discard for pressure",
        "Moved: fill for make resident",
        "Moved: page in for make resident",
        "Moved: page in for resume",
        "Moved: page out for evict",
        "Moved: page out for lock",
        "Moved: page out for pressure",
        "ProcessDied",
        "QueueHeld",
        "QueueReleased",
    ] {
        assert!(seen.get(kind).is_some_and(|count| *count >= 10), "{kind} was seen {:?} times", seen.get(kind));
    }
}

#[test]
fn a_seed_is_one_world() {
    for seed in [1, 7, 1 << 40] {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1).map(|report| report.trace_hash), run(2).map(|report| report.trace_hash));
}

/// The hashes are those of a release build: debug and release, today and tomorrow, see the same world. A change of the
/// kernel that changes what happens changes them, and has to mean it.
#[test]
fn a_seed_is_one_world_in_every_build() {
    let pinned = [(1, 0x3d7b_0b40_cfaf_52af), (2, 0x7d76_66d1_31ab_0864), (3, 0x49c8_5f14_ffe9_ef17)];
    for (seed, hash) in pinned {
        let report = run(seed).unwrap_or_else(|violation| panic!("{violation}"));
        assert_eq!(report.trace_hash, hash, "seed {seed}: {:#018x}", report.trace_hash);
    }
}
