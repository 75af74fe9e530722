//! The figures of the main job: bytes moved against two oracles, repeatability, size.

mod traced;
mod turns;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use openwddm::arguments::{Policy, default_run};
use openwddm::outcome::{Outcome, Summary};
use openwddm::placed::Placed;
use openwddm::progress::Progress;
use openwddm::run::{Priority, RunOptions, Share, Stage, Terms, Workload, execute};
use openwddm::size::MemorySize;
use openwddm::timeline::{CounterKind, SliceKind, Timeline, TrackKind};

fn data(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bundled = root.join("examples").join(name);
    if bundled.exists() { bundled } else { root.join("workload/replay/tests/data").join(name) }
}

fn options(name: &str) -> RunOptions {
    RunOptions {
        workload: Workload::File(data(name)),
        virtual_time: true,
        verify: false,
        recorded: false,
        trace: None,
        report: None,
        ..default_run()
    }
}

fn run(options: &RunOptions) -> Outcome {
    execute(options, &Progress::new(Box::new(std::io::sink()), false), &AtomicBool::new(false))
        .expect("the run ends well")
}

/// The same work at each stage moves the same bytes; the calls and the interrupts differ.
#[test]
fn stages_move_the_same_bytes_and_differ_in_calls_and_interrupts() {
    // spec: sync §4.1
    let stages = vec![Stage::Packet, Stage::Hardware, Stage::User];
    let compared = run(&RunOptions { stages: stages.clone(), ..options("gpt.cpu.rrs.json.gz") }).summary;
    let names: Vec<_> = compared.stages.iter().map(|stage| stage.stage).collect();
    assert_eq!(names, ["packet", "hardware", "user"]);
    assert_eq!(compared.stage, "user");
    let [packet, hardware, user] = &compared.stages[..] else { panic!("three stages") };
    assert!(compared.stages.iter().all(|stage| stage.submissions == compared.ops && stage.round_trip_ns > 0));
    assert!(user.calls + compared.ops <= packet.calls.min(hardware.calls), "a doorbell is no call");
    assert!(user.interrupts < hardware.interrupts && hardware.interrupts < packet.interrupts, "{compared:?}");
    for (index, stage) in stages.iter().enumerate() {
        let alone = run(&RunOptions { stages: vec![*stage], ..options("gpt.cpu.rrs.json.gz") }).summary;
        assert_eq!(alone.stages, [compared.stages[index].clone()], "runs do not touch each other");
        assert_eq!(alone.paged_in_bytes, 230_240_256);
    }
    let verified = RunOptions { stages, steps: 1, virtual_time: false, verify: true, ..options("gpt.cpu.rrs.json.gz") };
    let real = run(&verified).summary;
    assert_eq!((real.verify.as_str(), real.stages.len()), ("ok", 3), "the others' content was right too");
}

/// Two processes, and one doorbell that they take from each other: nothing that either has rung is lost.
#[test]
fn two_runs_share_one_doorbell() {
    // spec: sync §3.17
    let shared = |virtual_time, verify| {
        let of = options("gpt.cpu.rrs.json.gz");
        let others = vec![Share { workload: of.workload.clone(), terms: of.terms }];
        let adapters = vec!["few-doorbells".parse().expect("an adapter")];
        run(&RunOptions { steps: 1, virtual_time, verify, others, adapters, stages: vec![Stage::User], ..of }).summary
    };
    let both = shared(true, false);
    assert!(both.doorbells_passed_on > 2, "{}", both.doorbells_passed_on);
    assert_eq!(both.trace_hash, shared(true, false).trace_hash);
    assert_eq!(shared(false, true).verify, "ok");
}

/// Two steps at 60 % of the peak with 4-KB segment pages. The exact numbers are those of a page-granular LRU that shares no
/// code with the kernel; the last column is what a byte-granular simulation of the same strings gives (in + out). The difference is
/// the rounding of each storage to whole pages: 1.0 % and 1.6 % where half of the storages are smaller than a page, nothing where
/// they are large.
#[test]
fn bytes_moved_are_those_of_an_exact_lru() {
    // spec: memory §8.2, memory §8.3
    let strings = [
        ("gpt.cpu.rrs.json.gz", 227_214_590 + 135_151_562u64),
        ("res.cpu.rrs.json.gz", 343_425_271 + 210_331_275),
        ("gpt2m.meta.rrs.json.gz", 30_771_939_744 + 25_218_714_016),
        ("gpt2xl-infer.meta.rrs.json.gz", 13_105_384_448),
    ];
    for (name, simulated) in strings {
        let options = options(name);
        let summary = run(&options).summary;
        let workload = replay::Workload::open(data(name)).expect("a workload");
        let exact = replay::lru_bytes(&workload, 2, summary.vram_bytes, 4096).expect("it fits");
        assert_eq!((summary.paged_in_bytes, summary.paged_out_bytes), (exact.paged_in, exact.paged_out), "{name}");
        let moved = summary.paged_in_bytes + summary.paged_out_bytes;
        assert!(moved.abs_diff(simulated) * 100 <= simulated * 2, "{name}: {moved} against {simulated}");
        assert_eq!(
            summary.per_step.iter().map(|step| step.paged_in_bytes).sum::<u64>(),
            summary.paged_in_bytes,
            "{name}"
        );
        assert_eq!(
            summary.per_step.iter().map(|step| step.paged_out_bytes).sum::<u64>(),
            summary.paged_out_bytes,
            "{name}"
        );
    }
}

/// An adapter whose engines have no GPU virtual addresses runs the same work, named by lists and patched; its allocations lie in
/// one piece each, so it moves more, and where holes are depends on when the dead leave theirs.
#[test]
fn engines_without_addresses_run_the_main_job() {
    // spec: memory §5.6
    for name in ["gpt.cpu.rrs.json.gz", "res.cpu.rrs.json.gz"] {
        let physical = RunOptions { adapters: vec!["wddm1-banks".parse().unwrap()], ..options(name) };
        let real = run(&RunOptions { virtual_time: false, verify: true, ..physical.clone() }).summary;
        assert_eq!((real.verify.as_str(), real.adapter.as_str()), ("ok", "wddm1-banks"), "{name}");
        assert!(real.paged_in_bytes > 0, "{name}: memory is short");
        let (first, again) = (run(&physical), run(&physical));
        assert_eq!(first.summary.trace_hash, again.summary.trace_hash, "{name}");
        let scattered = run(&options(name));
        assert!(first.summary.paged_in_bytes >= scattered.summary.paged_in_bytes, "{name}");
        // The timeline draws the waits of its packets: the rows and the number count the same time.
        let recorded = run(&RunOptions { recorded: true, ..physical });
        let timeline = Timeline::of(&recorded.recordings[0]);
        let waits = timeline.slices.iter().filter(|slice| slice.kind == SliceKind::Wait);
        let drawn_ns: u64 = waits.map(|slice| slice.end_ns - slice.begin_ns).sum();
        assert_eq!((drawn_ns, first.summary.stall_ns > 0), (first.summary.stall_ns, true), "{name}");
    }
}

/// The same work on adapters that take packets: paged by address the same bytes move as elsewhere, and every one is right; at the
/// CPU's addresses none moves at all.
#[test]
fn packets_at_addresses_run_the_main_job() {
    // spec: memory §3.3, memory §4.1
    let moved = |summary: &openwddm::outcome::Summary| (summary.paged_in_bytes, summary.paged_out_bytes);
    let on = |adapter: &str| {
        run(&RunOptions { adapters: vec![adapter.parse().unwrap()], ..options("gpt.cpu.rrs.json.gz") }).summary
    };
    let expected = moved(&on("wddm2-packets"));
    for (adapter, expected) in [("packets-by-address", expected), ("iommu-packets", (0, 0))] {
        assert_eq!(moved(&on(adapter)), expected, "{adapter}");
        let real = RunOptions {
            adapters: vec![adapter.parse().unwrap()],
            virtual_time: false,
            verify: true,
            ..options("gpt.cpu.rrs.json.gz")
        };
        assert_eq!(run(&real).summary.verify, "ok", "{adapter}");
    }
}

/// The kernel converts leaf tables of 64-KB entries, and suspends processes for that or for every change: the same bytes move
/// as with plain tables, every one is right, and table and timeline say why it suspended a process.
#[test]
fn tables_that_are_converted_and_idle_spaces_run_the_main_job() {
    // spec: memory §4.2, memory §4.5
    let moved = |summary: &openwddm::outcome::Summary| (summary.paged_in_bytes, summary.paged_out_bytes);
    let plain =
        run(&RunOptions { adapters: vec!["discrete-64k".parse().unwrap()], ..options("gpt.cpu.rrs.json.gz") }).summary;
    assert!(plain.tables_converted_by_cause.is_empty() && plain.stood_still_by_cause.is_empty());
    for (name, cause) in
        [("leaves-64k", "a leaf table is converted"), ("idle-spaces", "the hardware wants an idle space")]
    {
        let timed =
            RunOptions { adapters: vec![name.parse().unwrap()], recorded: true, ..options("gpt.cpu.rrs.json.gz") };
        let real = run(&RunOptions { virtual_time: false, verify: true, recorded: false, ..timed.clone() }).summary;
        assert_eq!((real.verify.as_str(), moved(&real)), ("ok", moved(&plain)), "{name}");
        let timed = run(&timed);
        assert_eq!(moved(&timed.summary), moved(&plain), "{name}");
        for summary in [&real, &timed.summary] {
            assert!(summary.tables_converted_by_cause["part of a 64-KB page"] > 0, "{name}");
            assert!(summary.stood_still_by_cause[cause] > 0, "{name}: {:?}", summary.stood_still_by_cause);
        }
        let timeline = Timeline::of(&timed.recordings[0]);
        let told = |slice: &&openwddm::timeline::Slice| {
            slice.kind == SliceKind::Suspended
                && slice.notes.contains(&openwddm::timeline::Note::Text("cause", cause.to_owned()))
        };
        assert!(timeline.slices.iter().any(|slice| told(&slice)), "{name}");
        let converted = timeline.instants.iter().filter(|at| timeline.names.text(at.name) == "leaf table converted");
        let counted: u64 = timed.summary.tables_converted_by_cause.values().sum();
        assert_eq!(converted.count() as u64, counted, "{name}");
    }
}

/// An adapter that uses the CPU's addresses runs the same work without page tables of its own. Its memory is the computer's, so
/// nothing moves, as on the integrated one that has page tables.
#[test]
fn engines_behind_an_iommu_run_the_main_job() {
    // spec: memory §4.1
    let name = "gpt.cpu.rrs.json.gz";
    let shared = RunOptions { adapters: vec!["iommu".parse().unwrap()], ..options(name) };
    let real = run(&RunOptions { virtual_time: false, verify: true, ..shared.clone() }).summary;
    assert_eq!((real.verify.as_str(), real.adapter.as_str()), ("ok", "iommu"));
    let (first, again) = (run(&shared), run(&shared));
    assert_eq!(first.summary.trace_hash, again.summary.trace_hash);
    let integrated = run(&RunOptions { adapters: vec!["integrated".parse().unwrap()], ..options(name) }).summary;
    let moved = |summary: &Summary| (summary.paged_in_bytes, summary.paged_out_bytes);
    assert_eq!((moved(&first.summary), moved(&integrated)), ((0, 0), (0, 0)));
}

/// Real time moves the same bytes as virtual time, and every word that an operation reads is checked.
#[test]
fn real_bytes_come_back_right() {
    for (name, percent) in [("gpt.cpu.rrs.json.gz", 35), ("res.cpu.rrs.json.gz", 30)] {
        let vram = Some(openwddm::size::MemorySize::OfPeak { millionths: percent * 10_000 });
        let real = run(&RunOptions { virtual_time: false, verify: true, vram, ..options(name) }).summary;
        assert_eq!(real.verify, "ok", "{name}");
        let timed = run(&RunOptions { vram, ..options(name) }).summary;
        let bytes = |summary: &openwddm::outcome::Summary| {
            (summary.paged_in_bytes, summary.paged_out_bytes, summary.discarded_bytes)
        };
        assert_eq!(bytes(&real), bytes(&timed), "{name}");
    }
}

/// The same call gives the same events at the same times, in this build and in every other.
#[test]
fn a_virtual_run_repeats_itself() {
    let first = run(&options("gpt.cpu.rrs.json.gz")).summary;
    let second = run(&options("gpt.cpu.rrs.json.gz")).summary;
    assert_eq!(first.trace_hash, second.trace_hash);
    assert_eq!((first.elapsed_ns, first.stall_ns), (second.elapsed_ns, second.stall_ns));
    // In virtual time, drained by its own waits, each interrupt releases a wait.
    assert_eq!(first.interrupts_raised, first.interrupt_dispatches_releasing);
}

/// Enough memory: nothing is paged out, and each storage that was there before comes in once.
#[test]
fn with_all_the_memory_nothing_leaves() {
    let name = "gpt.cpu.rrs.json.gz";
    let vram = Some(openwddm::size::MemorySize::OfPeak { millionths: 1_100_000 });
    let summary = run(&RunOptions { vram, ..options(name) }).summary;
    let workload = replay::Workload::open(data(name)).expect("a workload");
    let persistent = workload
        .storages()
        .iter()
        .filter(|storage| storage.persistent)
        .map(|storage| storage.bytes.next_multiple_of(4096))
        .sum();
    assert_eq!((summary.paged_in_bytes, summary.paged_out_bytes, summary.discarded_bytes), (persistent, 0, 0));
}

#[test]
fn a_recorded_execution_trace_runs_too() {
    for name in ["et_transformer_train_step.json.gz", "et_resnet18_train_step.json.gz"] {
        let summary = run(&RunOptions { virtual_time: false, verify: true, ..options(name) }).summary;
        assert_eq!(summary.verify, "ok", "{name}");
        assert!(summary.paged_out_bytes > 0, "{name}: 60 % of the peak is too little to keep everything");
    }
}

/// Two processes at 60 % of what both need: as long as the one in the background has anything left, the one in the
/// foreground loses nothing, to the byte; and a run of several repeats exactly.
#[test]
fn the_foreground_loses_no_byte_while_the_background_has_any() {
    // spec: memory §8.2, memory §5.5
    // seed: M19
    let share = |priority| Share {
        workload: Workload::File(data("res.cpu.rrs.json.gz")),
        terms: Terms { priority, ..Terms::default() },
    };
    for policy in [Policy::Lru, Policy::Kept] {
        let terms = Terms { priority: Priority::High, ..Terms::default() };
        let together =
            RunOptions { policy, terms, others: vec![share(Priority::Idle)], ..options("gpt.cpu.rrs.json.gz") };
        let first = run(&together).summary;
        let lost =
            |victim: u32| first.displaced.iter().filter(|one| one.victim == victim).map(|one| one.bytes).sum::<u64>();
        let (foreground, background) = (first.processes[0].process, first.processes[1].process);
        assert_eq!(lost(foreground), 0, "{policy:?}: {:?}", first.displaced);
        assert!(lost(background) > 0, "{policy:?}: the background gave way");
        assert_eq!(run(&together).summary.trace_hash, first.trace_hash, "{policy:?}");
        // Without protection both give way.
        let equals = RunOptions { policy, others: vec![share(Priority::Normal)], ..options("gpt.cpu.rrs.json.gz") };
        let equal = run(&equals).summary;
        assert!(equal.displaced.iter().any(|one| one.victim == foreground), "{policy:?}: {:?}", equal.displaced);
    }
}

/// Two processes that keep what they used get by with two fifths of what both need: each gives back what it has when it is
/// refused, and waits for its own work before it insists. The timeline shows their memory and their budgets.
#[test]
fn two_that_keep_what_they_used_end_in_two_fifths() {
    // spec: memory §5.2, memory §5.4, memory §5.5
    let other = Share { workload: Workload::File(data("gpt.cpu.rrs.json.gz")), terms: Terms::default() };
    let vram = Some(MemorySize::OfPeak { millionths: 400_000 });
    let together = RunOptions {
        policy: Policy::Kept,
        vram,
        others: vec![other],
        recorded: true,
        ..options("gpt.cpu.rrs.json.gz")
    };
    let outcome = run(&together);
    let timeline = Timeline::of(&outcome.recordings[0]);
    for process in &outcome.summary.processes {
        assert_eq!(process.steps, 2);
        let told = |kind| timeline.counters.iter().any(|counter| counter.kind == kind && !counter.points.is_empty());
        assert!(told(CounterKind::Held(process.process)) && told(CounterKind::Budget(process.process)));
    }
}

/// The demotion log alone says what is resident, page by page: replayed, it is what the kernel has after every step and at the
/// end, in memory segments, in apertures and in system memory.
#[test]
fn the_demotion_log_reproduces_the_residency() {
    // spec: memory §8.5
    let other = || Share { workload: Workload::File(data("res.cpu.rrs.json.gz")), terms: Terms::default() };
    let profiles = [
        ("discrete-64k", &["page in", "page out", "discard", "fill"][..], Vec::new()),
        // Memory and an aperture, several of each; two processes whose lists do not fit together.
        ("two-memories", &["page in", "page out", "discard", "fill", "map", "unmap"], vec![other()]),
        ("integrated", &["map", "unmap"], Vec::new()),
        ("iommu", &["map", "unmap"], Vec::new()),
        ("wddm1-banks", &["page in", "page out", "discard", "fill"], Vec::new()),
    ];
    for (profile, expected, others) in profiles {
        let logged = RunOptions {
            demotions: Some(PathBuf::from("unused")),
            adapters: vec![profile.parse().unwrap()],
            others,
            ..options("gpt.cpu.rrs.json.gz")
        };
        let outcome = run(&logged);
        assert_eq!(outcome.summary.demotion_log, "ok", "{profile}");
        let demotions = &outcome.recordings[0].demotions;
        let ways: std::collections::BTreeSet<&str> = demotions.iter().map(|demotion| demotion.how).collect();
        assert!(expected.iter().all(|way| ways.contains(way)), "{profile}: {ways:?}");
        for demotion in demotions {
            let named = demotion.pages.iter().map(|(_, count)| count * 4096).sum::<u64>();
            // Where it goes is named as well.
            let named = if demotion.how == "relocate" { named / 2 } else { named };
            assert_eq!(named, demotion.bytes, "{demotion:?}");
            assert!(demotion.work > 0 || demotion.completed_ns == Some(demotion.decided_ns), "{demotion:?}");
        }
        // A log that lacks a line is not the same log.
        let mut placed = Placed::default();
        let lacking = demotions.iter().filter(|line| !line.stays()).skip(1);
        assert!(lacking.into_iter().try_for_each(|line| placed.replay(line)).is_err(), "{profile}");
    }
}
