//! One workload on several adapters: the bytes that cross agree with an oracle, and their content is right on arrival.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use openwddm::arguments::{Policy, default_run};
use openwddm::error::RunError;
use openwddm::outcome::{Outcome, Summary};
use openwddm::placed::Placed;
use openwddm::progress::Progress;
use openwddm::run::{Placement, RunOptions, Stage, Workload, execute};
use openwddm::size::MemorySize;
use openwddm::timeline::{SliceKind, Timeline};
use replay::StepEvent;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gpt.cpu.rrs.json.gz")
}

fn tried(options: &RunOptions) -> Result<Outcome, RunError> {
    execute(options, &Progress::new(Box::new(std::io::sink()), false), &AtomicBool::new(false))
}

fn run(options: &RunOptions) -> Outcome {
    tried(options).expect("the run ends well")
}

/// The bundled workload in virtual time.
fn options(adapters: &[&str], placement: Placement) -> RunOptions {
    RunOptions {
        workload: Workload::File(example()),
        virtual_time: true,
        verify: false,
        recorded: false,
        trace: None,
        report: None,
        adapters: adapters.iter().map(|text| text.parse().expect("an adapter")).collect(),
        placement: Some(placement),
        ..default_run()
    }
}

/// Bytes of content that come to each adapter: a storage's content is on the adapter that wrote it last, and on those that have read it
/// since. Storages alive at the beginning lie on the adapter that uses them first.
fn crossing_bytes(workload: &replay::Workload, steps: u32, adapters: usize) -> Vec<u64> {
    let (mut arrived, mut holders) = (vec![0; adapters], BTreeMap::<_, Vec<u32>>::new());
    for event in workload.steps(1) {
        let StepEvent::Op { adapter, reads, writes, .. } = event else { continue };
        for id in reads.into_iter().chain(writes) {
            if workload.storages()[id.storage as usize].persistent {
                holders.entry(id).or_insert_with(|| vec![adapter]);
            }
        }
    }
    for event in workload.steps(steps) {
        let (adapter, reads, writes) = match event {
            StepEvent::Op { adapter, reads, writes, .. } => (adapter, reads, writes),
            StepEvent::Death(id) => {
                holders.remove(&id);
                continue;
            }
        };
        for id in reads {
            if let Some(holders) = holders.get_mut(&id).filter(|holders| !holders.contains(&adapter)) {
                holders.push(adapter);
                arrived[adapter as usize] += workload.storages()[id.storage as usize].bytes;
            }
        }
        writes.into_iter().for_each(|id| drop(holders.insert(id, vec![adapter])));
    }
    arrived
}

fn arrived(summary: &Summary) -> Vec<u64> {
    summary.adapters.iter().map(|adapter| adapter.arrived_bytes).collect()
}

#[test]
fn what_crosses_is_what_another_adapter_wrote_and_no_more() {
    let whole = replay::Workload::open(example()).expect("the bundled workload");
    for (placement, adapters) in [
        (Placement::Split, &["discrete-64k", "integrated"][..]),
        (Placement::InTurn, &["discrete-64k", "datacenter", "discrete-4k"]),
        (Placement::First, &["discrete-64k", "integrated"]),
    ] {
        let count = adapters.len();
        let placed = whole.clone().placed(placement, count as u32).expect("there are enough");
        let expected = crossing_bytes(&placed, 2, count);
        for policy in [Policy::Lru, Policy::Kept] {
            let outcome = run(&RunOptions { policy, ..options(adapters, placement) });
            assert_eq!(arrived(&outcome.summary), expected, "{placement:?}, {policy:?}");
            assert_eq!(outcome.summary.adapters.iter().map(|adapter| adapter.ops).sum::<u64>(), outcome.summary.ops);
        }
        assert_eq!(expected.iter().sum::<u64>() > 0, placement != Placement::First);
    }
}

#[test]
fn a_second_adapter_that_has_nothing_to_do_changes_nothing() {
    let alone = run(&options(&["discrete-4k"], Placement::First)).summary;
    let beside = run(&options(&["discrete-4k", "integrated"], Placement::First)).summary;
    assert_eq!((alone.paged_in_bytes, alone.adapters.len()), (230_240_256, 0));
    let moved = |summary: &Summary| (summary.paged_in_bytes, summary.paged_out_bytes, summary.discarded_bytes);
    assert_eq!(moved(&beside), moved(&alone));
    assert_eq!(beside.adapters[1].ops, 0);
}

#[test]
fn two_gpus_are_faster_than_one_where_the_work_allows_it_and_every_run_is_the_same() {
    // Two chains that have nothing to do with each other: each adapter pages its own.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.json");
    let chain = |adapter: u32| (0..40).map(move |_| format!("[0,[{}],[{}],{adapter}]", adapter * 2, adapter * 2 + 1));
    let events: Vec<String> = chain(0).zip(chain(1)).flat_map(|(one, other)| [one, other]).collect();
    let sizes = ["[8388608,1]"; 4].join(",");
    let text = format!(
        r#"{{"format":"residency-reference-string/1","op_names":["a"],"storages":[{sizes}],"events":[{}]}}"#,
        events.join(",")
    );
    std::fs::write(&file, text).unwrap();
    let two = RunOptions {
        workload: Workload::File(file),
        vram: Some(MemorySize::OfPeak { millionths: 1_000_000 }),
        ..options(&["discrete-64k", "discrete-64k"], Placement::Recorded)
    };
    let both = run(&two).summary;
    assert_eq!(arrived(&both), [0, 0]);
    let one = run(&RunOptions { placement: Some(Placement::First), ..two.clone() }).summary;
    assert!(both.elapsed_ns * 10 < one.elapsed_ns * 6, "{} against {}", both.elapsed_ns, one.elapsed_ns);
    assert_eq!(run(&two).summary.trace_hash, both.trace_hash);
}

/// GPUs that ring each other's doorbells tell each other what has arrived; without, each signal interrupts, and the CPU carries the news.
#[test]
fn doorbells_between_gpus_save_the_interrupts_of_what_crosses() {
    // spec: sync §3.12, sync §3.18
    let of = |profile: &str| run(&RunOptions { steps: 1, ..options(&[profile, profile], Placement::InTurn) }).summary;
    let (carried, rung) = (of("discrete-4k"), of("peer-doorbells"));
    assert_eq!((arrived(&rung), rung.paged_in_bytes), (arrived(&carried), carried.paged_in_bytes));
    let parts = carried.interrupts_raised - carried.interrupt_dispatches_releasing;
    assert!(parts > 1_000, "two for each part that crosses: {parts}");
    assert_eq!(rung.interrupts_raised, rung.interrupt_dispatches_releasing, "the CPU's own waits alone");
}

#[test]
fn content_that_crosses_is_right_at_every_stage() {
    // spec: memory §2.7, sync §3.12
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cross.json");
    // A storage of 5 MiB and a bit goes round three adapters, and one that all of them read.
    let events = (0..24).map(|at| format!("[0,[0,1],[0],{}]", at % 3)).collect::<Vec<_>>().join(",");
    let text = format!(
        r#"{{"format":"residency-reference-string/1","op_names":["a"],"storages":[[5251072,1],[70000,1]],"events":[{events}]}}"#
    );
    std::fs::write(&file, text).unwrap();
    let real = |adapters: &[&str], stages: Vec<Stage>, policy| {
        let options = RunOptions {
            workload: Workload::File(file.clone()),
            virtual_time: false,
            verify: true,
            vram: Some(MemorySize::Bytes(6 << 20)),
            stages,
            policy,
            ..options(adapters, Placement::Recorded)
        };
        let summary = run(&options).summary;
        assert_eq!(summary.verify, "ok", "{adapters:?}");
        // All but the first operation of the first step finds the one elsewhere; the other goes to two of them once.
        let expected = (24 * 2 - 1) * 5_251_072 + 2 * 70_000;
        assert_eq!(arrived(&summary).iter().sum::<u64>(), expected, "{adapters:?}");
    };
    let three = ["discrete-64k", "integrated", "small-bar"];
    for stage in [Stage::User, Stage::Hardware] {
        real(&three, vec![stage], Policy::Lru);
    }
    real(&three, Vec::new(), Policy::Kept);
    real(&["discrete-4k", "packets-by-address", "discrete-64k"], Vec::new(), Policy::Lru);
}

#[test]
fn the_recording_tells_each_adapter_apart() {
    let folder = tempfile::tempdir().unwrap();
    let two = RunOptions {
        recorded: true,
        demotions: Some(folder.path().join("d")),
        steps: 1,
        ..options(&["discrete-64k", "discrete-4k,vram=50%"], Placement::Split)
    };
    let outcome = run(&two);
    assert_eq!(outcome.summary.demotion_log, "ok", "each adapter's moves add up to what it has");
    let timelines = Timeline::of_all(&outcome);
    let [first, second] = &timelines[..] else { panic!("two timelines") };
    assert!(first.0.contains("adapter 0: discrete-64k") && second.0.contains("adapter 1: discrete-4k"));
    assert_eq!((first.1.begin_ns, first.1.end_ns), (second.1.begin_ns, second.1.end_ns));
    for ((_, timeline), summary) in timelines.iter().zip(&outcome.summary.adapters) {
        let slices = timeline.slices.iter().filter(|slice| slice.kind == SliceKind::Operation);
        let names: Vec<&str> = slices.map(|slice| timeline.names.text(slice.name)).collect();
        let ops = names.iter().filter(|name| !name.ends_with("leaves") && !name.ends_with("arrives")).count();
        assert_eq!(ops as u64, summary.ops);
        assert_eq!(names.iter().any(|name| name.ends_with("arrives")), summary.arrived_bytes > 0);
    }
    for (number, recording) in (0..).zip(&outcome.recordings) {
        assert!(!recording.demotions.is_empty());
        assert!(recording.demotions.iter().all(|demotion| demotion.adapter == Some(number)));
        let mut placed = Placed::default();
        recording.demotions.iter().for_each(|demotion| placed.replay(demotion).expect("it adds up"));
    }
    assert_eq!(
        outcome.summary.adapters[1].vram_bytes,
        MemorySize::OfPeak { millionths: 500_000 }.bytes(outcome.summary.peak_bytes) / 4096 * 4096
    );
}

#[test]
fn an_adapter_that_is_not_there_or_has_too_little_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("named.json");
    let text = r#"{"format":"residency-reference-string/1","op_names":["a"],"storages":[[8388608,1]],"events":[[0,[0],[],0],[0,[0],[],2]]}"#;
    std::fs::write(&file, text).unwrap();
    let named = |adapters: &[&str], placement| {
        let (workload, vram) = (Workload::File(file.clone()), Some(MemorySize::Bytes(8 << 20)));
        tried(&RunOptions { placement, workload, vram, ..options(adapters, Placement::Recorded) })
    };
    let refused = |result: Result<Outcome, RunError>, words: &[&str]| {
        let error = result.expect_err("it is refused");
        assert_eq!(error.exit_code(), 2);
        words.iter().for_each(|word| assert!(error.to_string().contains(word), "{word} in {error}"));
    };
    let two = ["discrete-64k", "integrated"];
    refused(named(&two, None), &["adapter 2", "2 are given", "give 3 adapters", "--place first"]);
    refused(named(&["discrete-64k"], None), &["adapter 2", "1 is given"]);
    assert!(named(&two, Some(Placement::First)).is_ok());
    let three = ["discrete-64k", "integrated", "discrete-64k,vram=1MiB"];
    refused(named(&three, None), &["--adapter discrete-64k,vram=1048576", "8388608"]);
    refused(named(&["discrete-64k", "wddm1-banks"], Some(Placement::First)), &["wddm1-banks", "first generation"]);
    // One that runs nothing needs nothing.
    assert!(named(&["discrete-64k", "discrete-64k,vram=1MiB", "integrated"], None).is_ok());
}
