//! Runs that look for hangs: one that has none is the same run, and one whose device is lost tells what was reached.

use std::sync::atomic::AtomicBool;

use dxgk_host::{OnTimeout, RecoveryPolicy};
use openwddm::arguments::default_run;
use openwddm::outcome::Summary;
use openwddm::progress::Progress;
use openwddm::run::{RunOptions, Stage, execute};
use openwddm::table::table;

fn run(stage: Stage, recovery: RecoveryPolicy) -> (Summary, String) {
    let options = RunOptions {
        virtual_time: true,
        verify: false,
        recorded: false,
        trace: None,
        report: None,
        steps: 1,
        stages: vec![stage],
        // Its operations take far longer than its paging work, which maps and copies nothing.
        adapters: vec!["integrated".parse().expect("an adapter")],
        recovery,
        ..default_run()
    };
    let progress = Progress::new(Box::new(std::io::sink()), false);
    let outcome = execute(&options, &progress, &AtomicBool::new(false)).expect("the run ends");
    let text = table(&outcome, &[]);
    (outcome.summary, text)
}

const STAGES: [Stage; 3] = [Stage::Packet, Stage::Hardware, Stage::User];

#[test]
fn looking_for_hangs_changes_nothing_where_there_are_none() {
    // spec: sync §4.4
    for stage in STAGES {
        let off = RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() };
        let [(off, _), (on, text)] = [off, RecoveryPolicy::default()].map(|policy| run(stage, policy));
        assert_eq!((on.elapsed_ns, on.paged_in_bytes, on.ops), (off.elapsed_ns, off.paged_in_bytes, off.ops));
        assert_eq!((on.trace_hash, on.lost, on.recoveries.len()), (off.trace_hash, None, 0));
        assert!(!text.contains("recovery"), "{text}");
    }
}

/// The delay is far below what a large operation takes, and above what paging work does. The device does not
/// preempt a packet in the middle of an operation; a hardware queue of this device leaves its engine at once, so none hangs.
#[test]
fn a_run_whose_device_is_lost_says_so() {
    // spec: sync §4.4
    let impatient = RecoveryPolicy { delay_ns: Some(20_000), ..RecoveryPolicy::default() };
    for on_timeout in [OnTimeout::Recover, OnTimeout::Stop] {
        let (summary, text) = run(Stage::Packet, RecoveryPolicy { on_timeout, ..impatient });
        let lost = summary.lost.expect("it was lost");
        assert!(summary.ops > 0 && text.contains(&format!("the device was lost, {lost}")), "{text}");
        let stopped = summary.recoveries.contains_key("the adapter was stopped");
        assert_eq!(stopped, on_timeout == OnTimeout::Stop, "{:?}", summary.recoveries);
        assert!(!summary.recoveries.is_empty() && text.contains("recovery"), "{text}");
    }
    for stage in [Stage::Hardware, Stage::User] {
        let (summary, _) = run(stage, impatient);
        assert_eq!((summary.lost, summary.recoveries.len()), (None, 0));
    }
}
