//! C programs over the library: each example is built with `cc` as its users would, against the shared or the static library, and run.

#[path = "programs/hour.rs"]
mod hour;
mod pointers;
mod programs;

use std::path::{Path, PathBuf};

use programs::{Served, build_from, run, said, said_by};

/// Builds an example.
fn build(folder: &Path, name: &str, link: &[&str]) -> PathBuf {
    build_from("examples", folder, name, link)
}

/// Builds and runs an example; returns its output.
fn example(name: &str, environment: &[(&str, &str)]) -> String {
    said_by("examples", name, environment)
}

#[test]
fn the_adapters_are_listed() {
    let lines = example("enumerate", &[("OPENWDDM_ADAPTER", "discrete-4k,wddm2-packets")]);
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("32 MiB of its own") && lines[0].ends_with("native fences on"), "{lines:?}");
    assert!(lines[1].contains("32 MiB of its own") && lines[1].ends_with("native fences off"), "{lines:?}");
}

/// Every call's cost is told at each size; how much it is depends on the machine.
#[test]
fn costs_are_told_by_size() {
    let table = example("growth", &[]);
    let mut lines = table.lines();
    assert!(lines.next().is_some_and(|head| head.split_whitespace().eq([
        "microseconds",
        "beside",
        "100",
        "1000",
        "ratio"
    ])));
    let rows: Vec<&str> = lines.collect();
    assert_eq!(rows.len(), 9, "{table}");
    for row in rows {
        let figures: Vec<f64> = row.split_whitespace().rev().map_while(|figure| figure.parse().ok()).collect();
        assert!(figures.len() == 3 && figures.iter().all(|figure| *figure > 0.0), "{row}");
    }
}

/// On adapters of each kind: with video memory that the CPU sees, through a window of it, without any.
#[test]
fn an_allocation_lives() {
    for profile in ["discrete-4k", "small-bar", "integrated", "wddm2-packets"] {
        assert_eq!(example("memory", &[("OPENWDDM_ADAPTER", profile)]), "kept its content\n", "{profile}");
    }
}

// spec: sync §2.2, sync §2.4, sync §2.5
#[test]
fn work_is_submitted_and_waited_for() {
    for (profile, by) in [("discrete-4k", "hardware queue\n"), ("wddm2-packets", "packet context\n")] {
        assert_eq!(example("submit", &[("OPENWDDM_ADAPTER", profile)]), by, "{profile}");
    }
}

// spec: sync §2.9, sync §3.17
#[test]
fn a_program_rings_by_a_store() {
    for profile in ["discrete-4k", "few-doorbells", "power-saving"] {
        assert_eq!(example("doorbell", &[("OPENWDDM_ADAPTER", profile)]), "rang and woke\n", "{profile}");
    }
}

// spec: sync §2.3, sync §5, memory §9.3
#[test]
fn what_no_program_should_do_is_refused() {
    assert_eq!(example("bad_input", &[]), "refused\n");
}

// spec: sync §2.2, sync §3.4
#[test]
fn handles_tell_whose_they_are() {
    assert_eq!(example("handles", &[]), "told apart\n");
}

// spec: sync §2.4
#[test]
fn events_are_set_by_hand() {
    for profile in ["discrete-4k", "wddm2-packets"] {
        assert_eq!(
            example("events", &[("OPENWDDM_ADAPTER", profile)]),
            "set by hand and by a fence
",
            "{profile}"
        );
    }
}

// spec: sync §2.2, sync §2.4
#[cfg(feature = "wsl")]
#[test]
fn events_and_nt_handles_are_descriptors() {
    assert_eq!(example("descriptors", &[]), "descriptors\n");
}

// spec: sync §2.2, memory §2.7
#[test]
fn shared_objects_are_found_by_name() {
    assert_eq!(example("names", &[]), "found by name\n");
}

// spec: sync §2.2
#[test]
fn a_keyed_mutex_goes_from_thread_to_thread() {
    assert_eq!(example("keyed_mutex", &[]), "handed on between threads\n");
}

// spec: memory §5.5, sync §2.1, sync §2.10
#[test]
fn adapters_answer_questions() {
    let text = example("questions", &[("OPENWDDM_ADAPTER", "discrete-4k,wddm1-banks,iommu")]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 7 && lines[0].contains("hardware scheduling on"), "{text}");
    assert!(lines[2].contains("hardware scheduling off") && lines[2].contains("version 1"), "{text}");
    assert!(lines[6].ends_with(" displays") && !lines[6].starts_with('0'), "{text}");
    for (line, place) in [(1, "00:01.0"), (3, "00:02.0"), (5, "00:03.0")] {
        assert_eq!(lines[line], format!("  6f77:0001 of 6f77:0001, revision 1, bus type 1, at {place}"), "{text}");
    }
}

/// In the program's own kernel and in a served one; adapters without a place get those that are free.
// spec: sync §2.10
#[test]
fn an_adapter_is_on_the_bus_as_its_file_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("maker.toml").display().to_string();
    let pci = [
        "name = \"maker\"\n[pci]",
        "vendor = 0x10de\ndevice = 0x2684\nsubsystem_vendor = 0x1043\nsubsystem = 0x889a",
        "revision = 0xa1\nbus_type = \"pci-express\"\naddress = \"00:01.0\"\n",
    ];
    std::fs::write(&file, pci.join("\n")).expect("a file");
    let said = "  10de:2684 of 1043:889a, revision a1, bus type 3, at 00:01.0";
    let text = example("questions", &[("OPENWDDM_ADAPTER", &format!("discrete-4k,{file}"))]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[3], said, "{text}");
    assert!(lines[1].ends_with("at 00:02.0"), "{text}");
    let mut served = Served::of(&file);
    let text = example("questions", &served.environment());
    served.end();
    assert_eq!(text.lines().nth(1), Some(said), "{text}");

    // What is wrong is said before a kernel starts.
    let program = build(folder.path(), "questions", &["-lopenwddm"]);
    let refused = |adapters: &str| {
        let output = run(&program, &[("OPENWDDM_ADAPTER", adapters)]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let errors = refused(&format!("{file},{file}"));
    assert!(errors.contains("maker and maker are both at 00:01.0 on the bus"), "{errors}");
    std::fs::write(&file, pci.join("\n").replace("0x2684", "0x12684")).expect("a file");
    let errors = refused(&file);
    assert!(
        errors.contains("maker.toml: line 4, column 1: pci.device: 0x12684 is not from 0x0000 to 0xffff"),
        "{errors}"
    );
}

// spec: memory §2.7
#[test]
fn a_shared_resource_is_asked_for_and_opened() {
    for profile in ["discrete-4k", "wddm2-packets"] {
        assert_eq!(example("resources", &[("OPENWDDM_ADAPTER", profile)]), "opened twice\n", "{profile}");
    }
}

// spec: memory §2.2, memory §5.9, memory §6.7
#[test]
fn memory_is_offered_and_lies_over_what_is_there() {
    assert_eq!(example("offers", &[("OPENWDDM_ADAPTER", "discrete-4k")]), "taken back\n");
}

// spec: memory §6.5, memory §7.2, memory §7.3
#[test]
fn a_buffer_with_lists_is_rendered() {
    assert_eq!(example("patched", &[("OPENWDDM_ADAPTER", "wddm1-banks")]), "rendered and locked\n");
}

#[test]
fn figures_are_told() {
    let line = example("statistics", &[]);
    assert!(line.starts_with("process 1: node 0 ran ") && line.ends_with(" MiB are committed\n"), "{line}");
}

// spec: memory §5.4
#[test]
fn a_trim_calls_back() {
    assert_eq!(example("trim", &[]), "asked to trim\n");
}

/// The static library needs the system libraries of Rust programs.
#[test]
fn a_program_may_have_the_library_inside() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = ["-Wl,-Bstatic", "-lopenwddm", "-Wl,-Bdynamic", "-lpthread", "-ldl", "-lm", "-lgcc_s"];
    let program = build(folder.path(), "enumerate", &link);
    assert_eq!(said(&run(&program, &[])).lines().count(), 1);
}

#[test]
fn a_profile_that_is_none_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path(), "enumerate", &["-lopenwddm"]);
    let output = run(&program, &[("OPENWDDM_ADAPTER", "no-such-profile")]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-profile"));
}

/// Not a test: the daemon of the one below.
#[test]
fn the_daemon() {
    programs::daemon();
}

/// The same programs as processes of a kernel that is served: their own is not even started.
#[test]
fn programs_come_to_a_served_kernel() {
    let mut served = Served::start();
    let there = served.environment().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let there = there.each_ref().map(|(name, value)| (name.as_str(), value.as_str()));
    assert!(example("enumerate", &there).contains("32 MiB of its own"));
    assert_eq!(example("memory", &there), "kept its content\n");
    // This program locks an allocation that may lie in video memory only.
    assert_eq!(example("submit", &there), "hardware queue\n");
    assert!(example("statistics", &there).contains("node 0 ran"));
    assert_eq!(example("events", &there), "set by hand and by a fence\n");
    // spec: sync §2.2: shared by NT handle
    assert_eq!(example("share", &there), "one fence, two processes\n");
    assert_eq!(example("names", &there), "found by name\n");
    assert_eq!(example("keyed_mutex", &there), "handed on between threads and processes\n");
    // spec: sync §3.17
    assert_eq!(example("doorbell", &there), "rang and woke\n");
    if cfg!(feature = "wsl") {
        assert_eq!(example("descriptors", &there), "descriptors between processes\n");
    }
    served.end();
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path(), "enumerate", &["-lopenwddm"]);
    let output = run(&program, &there);
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && reason.contains("OPENWDDM_SOCKET"), "{reason}");
}
