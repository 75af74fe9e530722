//! The recordings that travel with the project, imported: sizes, peaks, and how close a derived workload comes to the
//! exact recording of the same step.

use std::path::{Path, PathBuf};

use replay::{Lifetime, SourceKind, Workload, lru_bytes};

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)
}

fn gpt_exact() -> Workload {
    Workload::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gpt.cpu.rrs.json.gz")).unwrap()
}

fn open(file: &str) -> Workload {
    Workload::open(data(file)).unwrap()
}

fn left_over(workload: &Workload) -> usize {
    workload.lifetimes().iter().filter(|life| **life == Lifetime::LeftOver).count()
}

#[test]
fn exact_recordings_have_their_published_measures() {
    let rows = [
        (gpt_exact(), "gpt", 998, 248_325_436, 50_331_648),
        (open("res.cpu.rrs.json.gz"), "res", 741, 292_349_856, 50_333_440),
        (open("gpt2m.meta.rrs.json.gz"), "gpt2m", 3513, 35_687_104_520, 4_945_084_416),
        (open("gpt2xl-infer.meta.rrs.json.gz"), "gpt2xl-infer", 822, 6_580_086_272, 348_520_448),
    ];
    for (workload, name, ops, peak, largest_op) in rows {
        assert_eq!(workload.name(), name);
        assert_eq!(workload.source(), SourceKind::ReferenceString);
        assert_eq!(workload.ops(), ops, "{name}");
        assert_eq!(workload.largest_op_bytes(), largest_op, "{name}");
        for steps in 1..4 {
            assert_eq!(workload.peak_bytes(steps), peak, "{name}, {steps} steps");
        }
    }
}

/// The derived workload against the exact recording of the same step. 2 % is the aim for the peak; the numbers are
/// asserted exactly, so that a change of a rule shows.
#[test]
fn derived_peaks_come_within_two_percent() {
    let rows = [
        (open("et_transformer_train_step.json.gz"), gpt_exact(), 248_325_740, 1087),
        (open("et_resnet18_train_step.json.gz"), open("res.cpu.rrs.json.gz"), 293_398_808, 784),
    ];
    for (derived, exact, peak, ops) in rows {
        assert_eq!(derived.source(), SourceKind::ExecutionTrace);
        assert_eq!((derived.peak_bytes(2), derived.ops()), (peak, ops), "{}", derived.name());
        let within = |ours: u64, theirs: u64, percent: u64| ours.abs_diff(theirs) * 100 <= theirs * percent;
        assert!(within(derived.peak_bytes(2), exact.peak_bytes(2), 2), "{}", derived.name());
        assert!(within(derived.persistent_bytes(), exact.persistent_bytes(), 1), "{}", derived.name());
        assert_eq!(left_over(&derived), left_over(&exact), "every gradient, and nothing else, outlives the step");
    }
}

/// Derived workloads move about as many bytes under pressure as the exact ones: the peak alone could be right by accident.
#[test]
fn derived_workloads_move_like_the_exact_ones() {
    let rows = [
        (open("et_transformer_train_step.json.gz"), gpt_exact()),
        (open("et_resnet18_train_step.json.gz"), open("res.cpu.rrs.json.gz")),
    ];
    for (derived, exact) in rows {
        let capacity = exact.peak_bytes(2) * 6 / 10;
        let ours = lru_bytes(&derived, 2, capacity, 4096).unwrap();
        let theirs = lru_bytes(&exact, 2, capacity, 4096).unwrap();
        let (ours, theirs) = (ours.paged_in + ours.paged_out, theirs.paged_in + theirs.paged_out);
        assert!(ours.abs_diff(theirs) * 100 <= theirs * 10, "{}: {ours} against {theirs}", derived.name());
    }
}

/// How long a processor has worked for this thread, whatever it does for others.
fn worked_seconds() -> f64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs");
    said.split(' ').next().expect("a number").parse::<f64>().expect("nanoseconds") / 1e9
}

/// A generous ceiling that still notices an algorithm gone quadratic.
#[test]
fn importing_takes_well_under_a_second() {
    let begin = worked_seconds();
    open("et_transformer_train_step.json.gz");
    let seconds = worked_seconds() - begin;
    assert!(seconds < 5.0, "{seconds} s");
    println!("import took {seconds:.3} s");
}
