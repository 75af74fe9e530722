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
        "FenceClosed",
        "FenceInterrupt",
        "FenceOpened",
        "FenceSignaledFromCpu",
        "GpuVaFreed",
        "MakeResidentRefused",
        "Moved: discard for pressure",
        "Moved: fill for make resident",
        "Moved: page in for make resident",
        "Moved: page in for promotion",
        "Moved: page in for resume",
        "Moved: page out for evict",
        "Moved: page out for lock",
        "Moved: page out for pressure",
        "ProcessDied",
        "QueueHeld",
        "QueueReleased",
        "TablesEvicted",
        "TablesRestored",
    ] {
        assert!(seen.get(kind).is_some_and(|count| *count >= 10), "{kind} was seen {:?} times", seen.get(kind));
    }
}

/// Tables change where idle address spaces are wanted, and a device of the process is lost: its queues were stopped, and there is nothing
/// in it to quiesce.
#[test]
fn a_lost_device_does_not_keep_its_process_from_changing() {
    // spec: memory §4.2, memory §8.6
    for seed in [1_795_400_176, 1_795_430_235] {
        let report = run(seed).unwrap_or_else(|violation| panic!("{violation}"));
        for kind in ["DeviceInError", "ProcessStandsStill"] {
            assert!(report.seen.contains_key(kind), "{kind} in {report}");
        }
    }
}

/// A device of the first generation is suspended, its process holds a lock of an allocation that the device lists, and gives it work; or it
/// has given it work already when the locked content has to leave.
#[test]
fn a_process_does_not_wait_for_its_own_unlock() {
    // spec: memory §6.5, memory §10.1 row 23
    for seed in [2254, 8040] {
        let report = run(seed).unwrap_or_else(|violation| panic!("{violation}"));
        for kind in ["DeviceSuspended", "Moved: page out for lock", "CallRefused: Render"] {
            assert!(report.seen.contains_key(kind), "{kind} in {report}");
        }
    }
}

/// A device of the first generation is suspended with a buffer that names an instance, the allocation is renamed, and a later buffer
/// retires the instance: the kernel gives it up behind the turn, and not before it.
#[test]
fn what_is_renamed_and_given_up_while_a_buffer_waits_is_there_for_it() {
    // spec: memory §5.9, memory §6.5, memory §8.6
    let report = run(12_031).unwrap_or_else(|violation| panic!("{violation}"));
    for kind in ["DeviceSuspended", "AllocationRenamed"] {
        assert!(report.seen.contains_key(kind), "{kind} in {report}");
    }
}

/// A wait for two fences ends when one of them is destroyed, though the other has not come so far.
#[test]
fn a_wait_for_all_ends_with_a_fence_that_goes() {
    // spec: sync §6 B8
    let report = run(1_795_430_265).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.seen.contains_key("FenceDestroyed"), "{report}");
}

/// A CPU reads locked content while a work takes it out, brings other content to its place, and demotes a page of fence words in between.
#[test]
fn nothing_comes_to_where_a_cpu_reads() {
    // spec: memory §6.3, sync §1.5
    let report = run(77_700_271).unwrap_or_else(|violation| panic!("{violation}"));
    for kind in ["Moved: page out for pressure", "words moved"] {
        assert!(report.seen.contains_key(kind), "{kind} in {report}");
    }
}

/// The kernel promotes a page of fence words, and before the ring has got to that it decides that the page leaves again for a fresh one, which the
/// paging process is shown at once: the entry is the new owner's.
#[test]
fn a_fresh_page_of_words_is_seen_before_its_content_comes() {
    // spec: sync §1.5, memory §8.1
    let report = run(88_803_961).unwrap_or_else(|violation| panic!("{violation}"));
    for kind in ["Moved: page in for promotion", "words moved"] {
        assert!(report.seen.contains_key(kind), "{kind} in {report}");
    }
}

#[test]
fn worlds_of_every_kind_keep_every_rule() {
    // spec: memory §3.4, memory §4.2, memory §4.5, memory §4.6, memory §4.8, memory §8.2
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for report in run_all(1000..=1059) {
        for (kind, count) in report.seen {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    for kind in [
        "GpuVaReserved",
        "GpuVaUpdated",
        "LeafTableConverted",
        "Moved: relocate for compaction",
        "ProcessStandsStill",
        "TablesEvicted",
        "TablesRestored",
        "entries copied",
    ] {
        assert!(
            seen.get(kind).is_some_and(|count| *count >= 10),
            "{kind} was seen {:?} times: {seen:?}",
            seen.get(kind)
        );
    }
}

#[test]
fn worlds_of_packets_keep_every_rule() {
    // spec: memory §6.1, memory §6.5, memory §7.3, memory §7.4, sync §4.2, sync §4.3
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for report in run_all(2000..=2047) {
        assert!(report.calls > 50, "a world in which something happens: {report}");
        for (kind, count) in report.seen {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    for kind in [
        "AllocationRenamed",
        "ContextPriority",
        "DeviceResumed",
        "DeviceSuspended",
        "Moved: page in for make resident",
        "Moved: page in for resume",
        "Moved: page out for lock",
        "Moved: page out for pressure",
        "PacketContextDestroyed",
        "PacketPreempted",
        "PacketSplit",
        "PagingPacketStarted",
        "PortionStarted",
        "PreemptionRequested",
        "SwizzlingRangeAcquired",
        "packet again",
        "packet patched",
    ] {
        assert!(
            seen.get(kind).is_some_and(|count| *count >= 10),
            "{kind} was seen {:?} times: {seen:?}",
            seen.get(kind)
        );
    }
}

#[test]
fn worlds_whose_memory_moves_in_other_ways_keep_every_rule() {
    // spec: memory §3.3 operations 8 and 9, memory §3.4 operation 18, memory §4.1, memory §4.7, sync §1.4, sync §1.5
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for report in run_all(4000..=4047) {
        assert!(report.calls > 50, "a world in which something happens: {report}");
        for (kind, count) in report.seen {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    for kind in [
        "Moved: page in for make resident",
        "Moved: page out for evict",
        "Moved: page out for pressure",
        "PacketPreempted",
        "PagingPacketStarted",
        "content moved by address",
        "words moved",
    ] {
        assert!(
            seen.get(kind).is_some_and(|count| *count >= 10),
            "{kind} was seen {:?} times: {seen:?}",
            seen.get(kind)
        );
    }
}

/// From 6000 on kinds take turns; these are the worlds with dual leaf tables.
#[test]
fn worlds_with_dual_leaf_tables_keep_every_rule() {
    // spec: memory §3.4 operation 11, memory §4.5, memory §4.6
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in (6008..).step_by(13).take(24) {
        let report = run(seed).unwrap_or_else(|violation| panic!("{violation}"));
        for (kind, count) in report.seen {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    for kind in ["LeafTableConverted", "TablesEvicted", "TablesRestored", "dual entry written", "entries copied"] {
        assert!(
            seen.get(kind).is_some_and(|count| *count >= 10),
            "{kind} was seen {:?} times: {seen:?}",
            seen.get(kind)
        );
    }
}

/// From 6000 on most worlds have fewer doorbells than queues, or engines that get less power when they have nothing to do; some sleep.
#[test]
fn worlds_in_which_doorbells_are_taken_away_keep_every_rule() {
    // spec: sync §3.17, sync §3.19, memory §8.4
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for report in run_all(6500..=6539) {
        for (kind, count) in report.seen {
            *seen.entry(kind).or_insert(0) += count;
        }
    }
    for kind in ["DoorbellConnected", "DoorbellDisconnected", "EnginePower", "PowerChanged"] {
        assert!(
            seen.get(kind).is_some_and(|count| *count >= 10),
            "{kind} was seen {:?} times: {seen:?}",
            seen.get(kind)
        );
    }
}

/// A client of the first generation evicts its list while the kernel quiesces its device, locks one of these surfaces and renders with others:
/// the buffer waits for the device's turn and is not refused.
#[test]
fn a_client_that_locks_what_it_evicted_goes_on_rendering() {
    // spec: memory §5.3, memory §6.5, memory §10.1 row 23
    run(88_805_463).unwrap_or_else(|violation| panic!("{violation}"));
}

/// A creation waits for memory, and the kernel counts it when its turn is over.
#[test]
fn a_creation_that_waits_for_memory_leaves_nothing_to_settle() {
    run(310_000_183).unwrap_or_else(|violation| panic!("{violation}"));
}

/// Evictions whose use ends behind a death are carried out by no call: the kernel hears of their end by itself.
#[test]
fn evictions_that_no_call_carries_out_are_cleared_without_another_call() {
    // spec: memory §5.3, memory §6.2
    for seed in [310_000_148, 310_000_184] {
        run(seed).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

#[test]
fn a_seed_is_one_world() {
    for seed in [1, 7, 2000, 2001, 4000, 4001, 4002, 6008, 1 << 40] {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(1).map(|report| report.trace_hash), run(2).map(|report| report.trace_hash));
}

/// The hashes are those of a release build: debug and release, today and tomorrow, see the same world. A change of the
/// kernel that changes what happens changes them, and has to mean it.
#[test]
fn a_seed_is_one_world_in_every_build() {
    let pinned = [(1, 0x190a_d579_72b6_f2d2), (2, 0x020c_5c5d_c812_ac3c), (3, 0xc1bf_0745_5ad7_4c33)];
    let found = pinned.map(|(seed, _)| (seed, run(seed).unwrap_or_else(|violation| panic!("{violation}")).trace_hash));
    // All of them at once, so that a change that was meant is pinned in one go.
    let shown = found.map(|(seed, hash)| format!("({seed}, {hash:#018x})")).join(", ");
    assert_eq!(found, pinned, "found [{shown}]");
}
