//! `openwddm run --policy planner` through the whole kernel: bytes against LRU's and against the bound, in exact bytes.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use openwddm::arguments::{Choice, Policy, default_run};
use openwddm::outcome::{StepSummary, Summary};
use openwddm::progress::Progress;
use openwddm::run::{RunOptions, Share, Terms, Workload, execute};
use openwddm::size::MemorySize;

const INFERENCE: &str = "gpt2xl-infer.meta.rrs.json.gz";

fn data(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bundled = root.join("examples").join(name);
    if bundled.exists() { bundled } else { root.join("workload/replay/tests/data").join(name) }
}

fn options(name: &str, percent: u64, steps: u32, policy: Policy) -> RunOptions {
    RunOptions {
        workload: Workload::File(data(name)),
        vram: Some(MemorySize::OfPeak { millionths: percent * 10_000 }),
        steps,
        policy,
        virtual_time: true,
        verify: false,
        recorded: false,
        trace: None,
        report: None,
        ..default_run()
    }
}

fn run(options: &RunOptions) -> Summary {
    execute(options, &Progress::new(Box::new(std::io::sink()), false), &AtomicBool::new(false))
        .expect("the run ends well")
        .summary
}

fn moved(summary: &Summary) -> (u64, u64) {
    (summary.paged_in_bytes, summary.paged_out_bytes)
}

/// A pass of inference reads each weight once: nothing can be foreseen in it.
#[test]
fn while_nothing_is_foreseen_the_planner_moves_what_lru_moves() {
    for percent in [50, 70, 90] {
        let lru = run(&options(INFERENCE, percent, 1, Policy::Lru));
        let planned = run(&options(INFERENCE, percent, 1, Policy::Planner));
        assert_eq!((moved(&lru), moved(&planned)), ((6_553_423_872, 0), (6_553_423_872, 0)), "{percent} %");
        assert_eq!(planned.discarded_bytes, lru.discarded_bytes, "{percent} %");
        assert_eq!((lru.policy.as_str(), planned.policy.as_str()), ("lru", "planner"));
    }
}

/// Forecasts within a first step are uncertain: the account bounds their cost.
#[test]
fn a_first_step_costs_at_most_a_hundredth_more_than_under_lru() {
    for name in ["gpt.cpu.rrs.json.gz", "res.cpu.rrs.json.gz"] {
        for percent in [50, 70, 90] {
            let bytes = |policy| {
                let (paged_in, paged_out) = moved(&run(&options(name, percent, 1, policy)));
                paged_in + paged_out
            };
            let (lru, planned) = (bytes(Policy::Lru), bytes(Policy::Planner));
            assert!(
                lru > 0 && planned <= lru + lru / 100,
                "{name} at {percent} %: {planned} bytes, and {lru} under LRU"
            );
        }
    }
}

/// The bound of a further pass at 90 % of the peak is 658,008,771 bytes (`workload/bound/tests/recordings.rs`); LRU moves ten times as many.
#[test]
fn further_passes_of_inference_move_what_the_bound_says_and_a_twentieth() {
    let planned = run(&options(INFERENCE, 90, 4, Policy::Planner));
    let steps: Vec<u64> = planned.per_step.iter().map(|step| step.paged_in_bytes + step.paged_out_bytes).collect();
    assert_eq!(steps[0], 6_553_423_872);
    assert!(steps[1] <= 6_553_423_872 / 5, "{steps:?}");
    // The bar is 1.05; docs/planner.md has what the kernel adds to the harness' 1.00 and 1.01.
    assert!(steps[2..].iter().all(|bytes| bytes * 100 <= 658_008_771 * 109), "{steps:?}");
}

/// What does not fit stays in system memory, and each pass reads it there: no transient room, no write-back, no fetch in parts.
#[test]
fn passes_that_read_in_place_move_what_the_bound_says_and_a_fiftieth() {
    let base = options(INFERENCE, 90, 4, Policy::Planner);
    let brought = run(&base);
    let read = run(&RunOptions { choices: vec![in_place("on")], ..base });
    let carried = |summary: &Summary| summary.per_step.iter().map(StepSummary::carried_bytes).collect::<Vec<_>>();
    let (of_brought, of_read) = (carried(&brought), carried(&read));
    assert_eq!(
        of_read[..2],
        of_brought[..2],
        "of what is unknown nothing is read in place; the second pass has to carry the same"
    );
    assert!(of_read[2..].iter().all(|bytes| bytes * 100 <= 658_008_771 * 102), "{of_read:?}");
    assert!(of_read[3] < of_brought[3] && read.per_step[3].elapsed_ns < brought.per_step[3].elapsed_ns, "{read:?}");
    let [plan] = &read.plans[..] else { panic!("one memory segment: {:?}", read.plans) };
    assert_eq!((plan.in_place_bytes(), plan.written_in_place_bytes), (read.in_place_bytes.unwrap(), 0));
    assert_eq!(read.per_step.iter().filter_map(|step| step.in_place_bytes).sum::<u64>(), plan.in_place_bytes());
    assert_eq!(plan.moved_bytes(), of_read.iter().sum::<u64>(), "the account counts what the run counts");
    assert_eq!(brought.in_place_bytes, None);
}

/// Twelve weights of which ten fit are read in each of six passes, and a result is written: the GPU compares every word that it reads.
#[test]
fn what_is_read_in_place_is_right() {
    let weights: Vec<String> = (0..12).map(|_| "[262144, 1]".to_owned()).collect();
    let reads: Vec<String> = (0..12).map(|weight| format!("[0, [{weight}], [12]]")).collect();
    let text = format!(
        r#"{{"format": "residency-reference-string/1", "op_names": ["layer"],
            "storages": [{}, [4096, 0]], "events": [{}, [-1, [12]]]}}"#,
        weights.join(","),
        reads.join(",")
    );
    let workload = Workload::Memory { name: "passes".to_owned(), text: text.into_bytes().into() };
    let base = RunOptions { workload, verify: true, virtual_time: false, ..options(INFERENCE, 85, 6, Policy::Planner) };
    let read = run(&RunOptions { choices: vec![in_place("on")], ..base });
    assert!(read.in_place_bytes.is_some_and(|bytes| bytes >= 262_144), "{read:?}");
    assert_eq!(read.verify, "ok", "{read:?}");
}

#[test]
fn without_the_planner_nothing_is_read_in_place() {
    for policy in [Policy::Lru, Policy::Kept] {
        let torn = RunOptions { choices: vec![in_place("on")], ..options("gpt.cpu.rrs.json.gz", 60, 1, policy) };
        let error = execute(&torn, &Progress::new(Box::new(std::io::sink()), false), &AtomicBool::new(false)).err();
        let error = error.expect("only the planner says what is read in place");
        assert_eq!(error.exit_code(), 2);
        let said = error.to_string();
        assert!(said.contains("--set read_in_place=on") && said.contains("add --policy planner"), "{said}");
    }
}

fn in_place(value: &str) -> Choice {
    Choice { name: "read_in_place".to_owned(), value: value.to_owned() }
}

#[test]
fn the_choice_of_the_kernel_is_the_policy() {
    let chosen = |value: &str| Choice { name: "eviction".to_owned(), value: value.to_owned() };
    let base = options("gpt.cpu.rrs.json.gz", 60, 1, Policy::Lru);
    let set = run(&RunOptions { choices: vec![chosen("planner")], ..base });
    assert_eq!(set.policy, "planner");
    let kept = options("gpt.cpu.rrs.json.gz", 60, 1, Policy::Kept);
    assert_eq!(run(&RunOptions { choices: vec![chosen("planner")], ..kept }).policy, "kept");
    let torn = RunOptions { choices: vec![chosen("lru")], ..options("gpt.cpu.rrs.json.gz", 60, 1, Policy::Planner) };
    let error = execute(&torn, &Progress::new(Box::new(std::io::sink()), false), &AtomicBool::new(false)).err();
    let error = error.expect("one forbids what the other asks for");
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("--policy planner") && error.to_string().contains("leave out"), "{error}");
}

/// LRU moves as many bytes as the planner says that LRU would have moved, to the byte and in each step, although the planner keeps content that
/// LRU copies out, and need not fetch content that LRU would have to copy in. The planner and the run say the same of the planner's own copies.
#[test]
fn a_planned_run_says_what_lru_would_have_moved() {
    let (lru, planned) = (
        run(&options("gpt.cpu.rrs.json.gz", 60, 4, Policy::Lru)),
        run(&options("gpt.cpu.rrs.json.gz", 60, 4, Policy::Planner)),
    );
    assert!(lru.plans.is_empty() && lru.per_step.iter().all(|step| step.lru_bytes.is_none()));
    let [plan] = &planned.plans[..] else { panic!("one memory segment: {:?}", planned.plans) };
    let (paged_in, paged_out) = moved(&lru);
    assert_eq!((plan.lru_paged_in_bytes, plan.lru_paged_out_bytes), (paged_in, paged_out));
    for (step, (of_lru, of_planner)) in lru.per_step.iter().zip(&planned.per_step).enumerate() {
        assert_eq!(of_planner.lru_bytes, Some(of_lru.paged_in_bytes + of_lru.paged_out_bytes), "step {step}");
    }
    assert_eq!((plan.paged_in_bytes, plan.paged_out_bytes), moved(&planned));
    assert!(plan.moved_bytes() * 100 <= (paged_in + paged_out) * 101, "{plan:?}");
    let by_step: u64 = planned.per_step.iter().filter_map(|step| step.lru_bytes).sum();
    assert_eq!(by_step, plan.lru_bytes());
    let stream = &plan.streams[0];
    let step = planned.ops / planned.steps;
    assert_eq!(stream.repeats_after, Some(step));
    let last = planned.per_step.last().unwrap();
    let before = lru.per_step.last().unwrap();
    assert!(
        last.paged_in_bytes + last.paged_out_bytes < before.paged_in_bytes + before.paged_out_bytes,
        "{last:?}, and under LRU {before:?}"
    );
    let text = planned.plans[0].rows();
    let repeats = format!("repeats after {step} operations");
    assert!(text.iter().any(|(name, value)| *name == "planner" && value.starts_with(&repeats)), "{text:?}");
}

/// Two processes of which each one's content fits alone, and not both: LRU loads nearly all of it for each pass, and turns by forecast load each
/// content once, but for the first one's, whose turn began before anything was foreseen.
#[test]
fn processes_that_fit_one_at_a_time_are_loaded_once_for_all_their_passes() {
    const STEPS: u32 = 4;
    let both = |policy| {
        let other = Share { workload: Workload::File(data(INFERENCE)), terms: Terms::default() };
        let alone = options(INFERENCE, 100, STEPS, policy);
        run(&RunOptions { others: vec![other], vram: Some(MemorySize::Bytes(7 << 30)), ..alone })
    };
    let (lru, planned) = (both(Policy::Lru), both(Policy::Planner));
    assert_eq!(moved(&lru), (52_427_390_976, 0), "eight passes");
    let content = planned.processes.iter().map(|process| process.peak_bytes).max().unwrap();
    assert!(planned.paged_out_bytes == 0 && planned.paged_in_bytes <= 3 * content, "{planned:?}");
    // Of LRU's run everything but the work is copying: that is what a byte takes.
    let copying = |bytes: u64| (lru.elapsed_ns - lru.ideal_ns) * (bytes >> 20) / (lru.paged_in_bytes >> 20);
    let floor = planned.ideal_ns + copying(3 * content);
    assert!(planned.elapsed_ns * 10 <= floor * 11, "{} ns, and three loads take {floor}", planned.elapsed_ns);
    assert!(planned.elapsed_ns * 2 < lru.elapsed_ns, "{} ns, and {} under LRU", planned.elapsed_ns, lru.elapsed_ns);
    // Both have ended, and the summary still tells of their streams.
    let repeats: Vec<_> = planned.plans[0].streams.iter().map(|stream| stream.repeats_after).collect();
    assert_eq!(repeats, [Some(822); 2]);
}
