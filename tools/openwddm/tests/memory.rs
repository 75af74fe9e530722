//! Workloads that are in memory and not in a file: the same run, and refusals that name them. Extensions of other languages hand them in.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use openwddm::error::RunError;
use openwddm::progress::Progress;
use openwddm::run::Workload;
use openwddm::sweep::{Row, SweepOptions, sweep};

fn timed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timed.rrs.json")
}

fn rows(workload: Workload) -> Result<Vec<Row>, RunError> {
    let sizes = vec!["1.0".parse().unwrap()];
    let options = SweepOptions { workloads: vec![workload], sizes, bound_seconds: 0, ..SweepOptions::default() };
    sweep(&options, &Progress::silent(), &AtomicBool::new(false)).map(|swept| swept.rows)
}

fn memory(name: &str, text: &[u8]) -> Workload {
    Workload::Memory { name: name.to_owned(), text: text.into() }
}

#[test]
fn a_workload_in_memory_is_that_of_its_file() {
    let text = std::fs::read(timed()).unwrap();
    let found = rows(memory("another name", &text)).unwrap();
    let of_file = rows(Workload::File(timed())).unwrap();
    let figures = |row: &Row| (row.policy.clone(), row.workload_hash.clone(), row.elapsed_ns, row.trace_hash.clone());
    assert_eq!(found.iter().map(figures).collect::<Vec<_>>(), of_file.iter().map(figures).collect::<Vec<_>>());
    assert!(!found.is_empty());
}

#[test]
fn a_fault_in_memory_has_its_name_and_its_place() {
    let refused = |text: &[u8]| {
        let error = rows(memory("my step", text)).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    };
    let cut = refused(b"{\"format\": \"residency-reference-string/1\",");
    assert!(cut.contains("workload in memory my step") && cut.contains("line 1"), "{cut}");
    for snapshot in [&b"\x80\x04\x95"[..], b"\x80\x03}", b"{\"segments\": [], \"device_traces\": []}"] {
        let told = refused(snapshot);
        assert!(told.contains("python -m openwddm snapshot"), "{told}");
    }
}
