//! Answers that programs for Windows expect, each in a C program of `client/d3dkmt_c/tests/answers` that checks one: with a kernel in the
//! program, on adapters of several kinds, and with one that is served.

#[path = "../programs/mod.rs"]
mod programs;
mod unchanged;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use programs::{Served, build_from, run, said, said_by};

/// The signal of a store that is not allowed.
const SIGSEGV: i32 = 11;

fn answers(name: &str, environment: &[(&str, &str)]) -> String {
    said_by("tests/answers", name, environment)
}

// spec: memory §2.7, sync §2.2
#[test]
fn an_nt_handle_keeps_what_it_names() {
    for profile in ["discrete-4k", "wddm2-packets", "wddm1-banks", "iommu"] {
        assert_eq!(answers("kept", &[("OPENWDDM_ADAPTER", profile)]), "kept\n", "{profile}");
    }
}

// spec: memory §2.7, memory §6.2, memory §9.3, sync §2.2
#[test]
fn handles_are_small_and_a_processs_own() {
    assert_eq!(answers("handles", &[]), "small and its own\n");
}

// spec: sync §2.4, sync §2.5
#[test]
fn contexts_take_what_drivers_pass_and_no_waiter_is_left_asleep() {
    for profile in ["discrete-4k", "wddm2-packets"] {
        assert_eq!(answers("work", &[("OPENWDDM_ADAPTER", profile)]), "queued and told\n", "{profile}");
    }
}

// spec: sync §4.2, memory §2.3, memory §2.8, memory §5.5, memory §5.9
#[test]
fn priorities_are_told_as_they_were_set() {
    for profile in ["discrete-4k", "wddm2-packets"] {
        assert_eq!(answers("priorities", &[("OPENWDDM_ADAPTER", profile)]), "told again\n", "{profile}");
    }
}

// spec: sync §2.4
#[test]
fn contexts_signal_objects_without_a_word() {
    for profile in ["discrete-4k", "wddm2-packets"] {
        assert_eq!(answers("signals", &[("OPENWDDM_ADAPTER", profile)]), "signalled\n", "{profile}");
    }
}

// spec: memory §2.7, memory §8.6, sync §3.11
#[test]
fn devices_become_idle_or_are_given_up() {
    for profile in ["discrete-4k", "wddm2-packets"] {
        assert_eq!(answers("idle", &[("OPENWDDM_ADAPTER", profile)]), "idle, in error, and found\n", "{profile}");
    }
}

// spec: memory §5.7, sync §3.17, sync §4.6
#[test]
fn surfaces_are_presented() {
    for profile in ["discrete-4k", "wddm2-packets"] {
        assert_eq!(answers("presents", &[("OPENWDDM_ADAPTER", profile)]), "shown and copied\n", "{profile}");
    }
}

// spec: memory §4.1, memory §9.2, sync §1.1, sync §2.2, sync §2.10
#[test]
fn small_questions_have_the_answers_of_windows() {
    for (profile, version) in [("discrete-4k", 3200), ("wddm2-packets", 2600), ("wddm1-banks", 1300), ("iommu", 3200)] {
        let told = answers("questions", &[("OPENWDDM_ADAPTER", profile)]);
        assert_eq!(told, format!("version {version}\n"), "{profile}");
    }
}

// spec: memory §9.2, memory §10.1
#[test]
fn what_memory_is_missing_is_said() {
    assert_eq!(answers("memory", &[]), "said what is missing\n");
}

/// In video memory that is smaller than the program's surfaces.
// spec: sync §2.10 (QueryStatistics)
#[test]
fn bytes_that_paging_moves_are_told_as_bytes_over_the_link() {
    for profile in ["discrete-4k", "wddm2-packets"] {
        assert_eq!(answers("paged", &[("OPENWDDM_ADAPTER", profile)]), "counted each way\n", "{profile}");
    }
}

/// This test's daemon has no process outside of its sandbox that reads names.
// spec: sync §2.10 (QueryStatistics)
#[test]
fn a_process_has_the_number_and_the_name_that_the_operating_system_gives_it() {
    assert_eq!(answers("named", &[]), "a number and a name\n");
    let mut served = Served::start();
    assert_eq!(answers("named", &served.environment()), "a number\n");
    served.end();
}

/// The state of the device, and every refusal behind the loss.
// spec: memory §5.8, memory §8.6
#[test]
fn a_fault_is_told_by_kind_and_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_from("tests/answers", folder.path(), "lost", &["-lopenwddm"]);
    for profile in ["discrete-4k", "wddm2-packets"] {
        let output = run(&program, &[("OPENWDDM_ADAPTER", profile)]);
        assert_eq!(said(&output), "told apart\n", "{profile}");
        let refusals = String::from_utf8_lossy(&output.stderr).into_owned();
        let removed: Vec<&str> = refusals.lines().filter(|line| line.contains("DEVICE_REMOVED")).collect();
        // Four devices: the wait, the state of presents, the new context.
        assert_eq!(removed.len(), 12, "{profile}: {removed:?}");
        for (nth, line) in removed.iter().enumerate() {
            let why = ["an invalid command", "a GPU virtual address without memory", "a write that is not allowed"];
            let why = format!("{} at 0x", why[[0, 1, 1, 2][nth / 3]]);
            assert!(line.contains(&why), "{profile}: {line}");
        }
    }
}

/// Not a test: the daemon of the one below.
#[test]
fn the_daemon() {
    programs::daemon();
}

/// The same from a kernel in another process.
#[test]
fn a_served_kernel_answers_likewise() {
    let mut served = Served::start();
    let there = served.environment();
    assert_eq!(answers("kept", &there), "kept\n");
    assert_eq!(answers("handles", &there), "small and its own\n");
    assert_eq!(answers("work", &there), "queued and told\n");
    assert_eq!(answers("priorities", &there), "told again\n");
    assert_eq!(answers("signals", &there), "signalled\n");
    assert_eq!(answers("idle", &there), "idle, in error, and found\n");
    assert_eq!(answers("questions", &there), "version 3200\n");
    assert_eq!(answers("memory", &there), "said what is missing\n");
    assert_eq!(answers("lost", &there), "told apart\n");
    // Behind those that look at a display without presents.
    assert_eq!(answers("presents", &there), "shown and copied\n");
    served.end();
}

/// Where a fence's word stands a program may look and not store: with a kernel of its own and with one behind a socket.
// spec: sync §1.4, sync §1.5
// seed: N10, C05, C07
#[test]
fn a_store_into_a_fence_ends_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_from("tests/answers", folder.path(), "stores", &["-lopenwddm"]);
    let served = Served::start();
    let own = [("OPENWDDM_ADAPTER", "discrete-4k")];
    for (kind, reads) in [("native", 7), ("monitored", 7), ("paging", 0)] {
        for environment in [&own[..], &served.environment()] {
            let output = run(&program, &[environment, &[("STORES", kind)]].concat());
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                format!("reads {reads}\n"),
                "{kind}: it has not stored"
            );
            let ended = std::os::unix::process::ExitStatusExt::signal(&output.status);
            assert_eq!(ended, Some(SIGSEGV), "{kind} {environment:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// Starts a program, and waits for its first line; it goes on until its input ends.
fn started(program: &Path, environment: &[(&str, &str)]) -> (Child, Option<ChildStdin>) {
    let mut command = Command::new(program);
    command
        .env("LD_LIBRARY_PATH", programs::libraries())
        .env("OPENWDDM_REFUSALS", "1")
        .envs(environment.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it is there");
    assert!(!line.is_empty(), "it says that it has begun");
    let input = child.stdin.take();
    (child, input)
}

/// A monitor's table of a kernel that works: `monitor` checks that the sums of processes are those of segments and groups.
fn monitored(environment: &[(&str, &str)]) -> Vec<String> {
    said_by("examples", "monitor", environment).lines().map(str::to_owned).collect()
}

// spec: memory §5.5, sync §2.10 (QueryStatistics)
#[test]
fn a_monitor_finds_no_process_in_a_kernel_of_its_own_at_every_level() {
    for (profile, level) in [("discrete-4k", "3200"), ("wddm2-packets", "2600"), ("integrated", "3200")] {
        let lines = monitored(&[("OPENWDDM_ADAPTER", profile)]);
        assert!(lines[0].starts_with(&format!("adapter level {level}, ")), "{lines:?}");
        assert!(lines.last().is_some_and(|line| line.starts_with("0 processes, ")), "{lines:?}");
    }
}

// spec: memory §5.5, sync §2.10 (QueryStatistics)
#[test]
fn a_monitor_sees_the_processes_of_a_busy_daemon_and_their_sums_agree() {
    let mut served = Served::start();
    let there = served.environment().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let there = there.each_ref().map(|(name, value)| (name.as_str(), value.as_str()));
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_from("tests/answers", folder.path(), "busy", &["-lopenwddm"]);
    let mut busy: Vec<_> = (0..2).map(|_| started(&program, &there)).collect();
    let lines = monitored(&there);
    assert!(lines.last().is_some_and(|line| line.starts_with("2 processes, 32768 KiB dedicated")), "{lines:?}");
    for (child, _) in &busy {
        let own = format!(" pid {} ", child.id());
        let line = lines.iter().find(|line| line.contains(&own)).unwrap_or_else(|| panic!("{own} in {lines:?}"));
        let local: u64 = line
            .split("local ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .expect("a figure")
            .parse()
            .expect("KiB");
        assert!((4096..8192).contains(&local), "its surface: {line}");
    }
    let load = lines.iter().find_map(|line| line.strip_prefix("node 0: ")?.split('%').next()?.parse::<f64>().ok());
    assert!(load.is_some_and(|load| load > 0.0), "an engine has run: {lines:?}");
    for (child, input) in &mut busy {
        drop(input.take());
        assert!(child.wait().expect("it ends").success());
    }
    served.end();
}
