//! Bad input at the command line: a clear word, exit code 2, nothing half-written.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gpt.cpu.rrs.json.gz")
}

fn openwddm(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_openwddm")).current_dir(folder).args(words).output().expect("the binary runs")
}

/// Runs it and expects a refusal that contains all of `wanted`, and no new file in the folder.
fn refused(folder: &Path, words: &[&str], wanted: &[&str]) {
    let files = || std::fs::read_dir(folder).unwrap().count();
    let before = files();
    let output = openwddm(folder, words);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
    for word in wanted {
        assert!(text.contains(word), "{words:?} does not say `{word}`: {text}");
    }
    assert_eq!(files(), before, "{words:?} left something behind");
}

#[test]
fn each_wrong_input_is_named_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let write = |name: &str, bytes: &[u8]| std::fs::write(at.join(name), bytes).unwrap();
    let whole = std::fs::read(example()).unwrap();
    write("cut.json.gz", &whole[..whole.len() / 2]);
    write("cut.json", b"{\"format\":\"residency-reference-string/1\",\"storages\":[[1,");
    write("empty.json", b"");
    write("profile.json", b"{\"schemaVersion\":1,\"traceEvents\":[]}");
    write("other.json", b"{\"format\":\"something-else/7\"}");
    write("old.json", b"{\"schema\":\"0.0.9\",\"nodes\":[]}");
    write(
        "index.json",
        br#"{"format":"residency-reference-string/1","op_names":["a"],"storages":[[8,1]],"events":[[0,[7],[]]]}"#,
    );
    let example = example();
    let good = example.to_str().unwrap();
    refused(at, &["run", "cut.json.gz"], &["cut.json.gz", "cut off"]);
    refused(at, &["run", "cut.json"], &["cut.json", "line"]);
    refused(at, &["run", "empty.json"], &["empty.json", "the file is empty"]);
    refused(at, &["run", "profile.json"], &["profile.json", "Chrome trace", "ExecutionTraceObserver"]);
    refused(at, &["run", "other.json"], &["other.json", "something-else/7"]);
    refused(at, &["run", "old.json"], &["old.json", "0.0.9", "1.1.1"]);
    refused(at, &["run", "index.json"], &["index.json", "7"]);
    refused(at, &["run", "nowhere.json"], &["nowhere.json"]);
    refused(at, &["run", good, "--vram", "0"], &["--vram", "0"]);
    refused(at, &["run", good, "--vram", "lots"], &["--vram", "lots"]);
    refused(at, &["run", good, "--vram", "1MiB"], &["--vram", "largest operation needs"]);
    refused(at, &["run", good, "--adapter", "voodoo"], &["voodoo", "discrete-4k"]);
    refused(at, &["run", good, "--adapter", "integrated,ram=1GiB"], &["--adapter", "PROFILE,vram=SIZE"]);
    refused(at, &["run", good, "--place", "halves"], &["--place", "in-turn"]);
    refused(at, &["run", good, "--stage", "gpu"], &["--stage", "packet, hardware or user"]);
    refused(at, &["run", good, "--stage", "user,packet,user"], &["--stage", "number 3"]);
    refused(
        at,
        &["run", good, "--stage", "packet,user", "--adapter", "wddm2-packets"],
        &["--stage user", "take packets"],
    );
    refused(at, &["run", good, "--policy", "fifo"], &["fifo"]);
    refused(at, &["run", good, "--set", "promote"], &["--set", "CHOICE=VALUE"]);
    refused(at, &["run", good, "--set", "promote=yes"], &["--set promote=yes", "on or off"]);
    refused(at, &["run", good, "--set", "luck=on"], &["no choice is called", "suspend_others"]);
    refused(at, &["run", good, "--steps", "0"], &["--steps"]);
    refused(at, &["run", good, "--json", "no/such/folder/x.json"], &["no/such/folder", "--json"]);
    refused(at, &["run", good, "--verify", "--virtual-time"], &["--verify", "no bytes are stored"]);
}

#[test]
fn a_good_run_writes_what_was_asked_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let example = example();
    let words = [
        "run",
        example.to_str().unwrap(),
        "--virtual-time",
        "--steps",
        "1",
        "--json",
        "n.json",
        "--trace",
        "t",
        "--report",
        "r.html",
    ];
    let output = openwddm(folder.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let numbers: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("n.json")).unwrap()).unwrap();
    for field in [
        "workload",
        "ops",
        "steps",
        "peak_bytes",
        "vram_bytes",
        "paged_in_bytes",
        "paged_out_bytes",
        "per_step",
        "discarded_bytes",
        "elapsed_ns",
        "ideal_ns",
        "stall_ns",
        "fence_signals",
        "gpu_waits",
        "cpu_waits",
        "interrupts_raised",
        "interrupts_suppressed",
        "verify",
        "time",
        "policy",
        "choices",
        "seed",
        "trace_hash",
    ] {
        assert!(!numbers[field].is_null(), "the JSON lacks `{field}`");
    }
    assert_eq!((numbers["time"].as_str(), numbers["verify"].as_str()), (Some("virtual"), Some("off")));
    assert!(folder.path().join("t").metadata().unwrap().len() > 100_000);
    let page = std::fs::read_to_string(folder.path().join("r.html")).unwrap();
    let fetches = ["src=\"http", "href=\"http", "fetch(", "@import", "XMLHttpRequest"];
    assert!(page.contains("</html>") && !fetches.iter().any(|word| page.contains(word)), "the report needs no network");
}
