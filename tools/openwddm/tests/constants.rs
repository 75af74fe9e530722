//! Constants that the CPU hands each operation arrive, on adapters of every kind, while the GPU still reads earlier ones: the user-mode
//! driver renames.

use std::sync::atomic::AtomicBool;

use openwddm::arguments::default_run;
use openwddm::progress::Progress;
use openwddm::run::{RunOptions, Stage, execute};
use openwddm::table::table;

// spec: memory §6.4
// seed: M49
// seed: U05
#[test]
fn constants_are_appended_and_renamed_at_every_stage() {
    for (profile, stages) in [
        ("discrete-4k", &[Stage::Packet, Stage::Hardware, Stage::User][..]),
        ("wddm2-packets", &[Stage::Packet]),
        ("atomics-32", &[Stage::Packet]),
        ("iommu-packets", &[Stage::Packet]),
    ] {
        for stage in stages {
            let options = RunOptions {
                adapters: vec![profile.parse().expect("an adapter")],
                stages: vec![*stage],
                constants: Some(4096),
                recorded: false,
                trace: None,
                report: None,
                steps: 1,
                ..default_run()
            };
            let progress = Progress::new(Box::new(std::io::sink()), false);
            let outcome = execute(&options, &progress, &AtomicBool::new(false)).expect("it runs");
            assert!(table(&outcome, &[]).contains("maps by the CPU"), "{profile}, {stage:?}");
            let summary = outcome.summary;
            assert_eq!(summary.verify, "ok", "{profile}, {stage:?}");
            let done = summary.constants.expect("it was asked for");
            assert_eq!(done.maps, summary.ops, "{profile}, {stage:?}: one for each operation");
            assert!(done.renames > 0, "{profile}, {stage:?}: the GPU was still reading");
            let discards = summary.ops.div_ceil(4);
            assert!(
                done.renames <= discards,
                "{profile}, {stage:?}: {} renames of {discards} maps that throw the content away; the others append",
                done.renames
            );
            // Asked first, waited then: between the two the GPU may finish.
            assert!(done.waits <= done.still_drawing, "{profile}, {stage:?}: {done:?}");
        }
    }
}

#[test]
fn an_adapter_without_addresses_has_no_constants() {
    let options = RunOptions {
        adapters: vec!["wddm1-banks".parse().expect("an adapter")],
        constants: Some(64),
        recorded: false,
        trace: None,
        report: None,
        ..default_run()
    };
    let progress = Progress::new(Box::new(std::io::sink()), false);
    let refused = execute(&options, &progress, &AtomicBool::new(false)).expect_err("nothing to rename by");
    assert!(refused.to_string().contains("no GPU virtual addresses"), "{refused}");
}
