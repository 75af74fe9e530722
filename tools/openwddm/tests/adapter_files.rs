//! Adapters as files: one that describes a profile is that profile, and a wrong one is refused with line and rule, with nothing started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dxgk_host::PROFILES;

fn workload() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workload/replay/tests/recordings/mlp_one_step.exact.rrs.json.gz")
}

fn openwddm(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_openwddm")).current_dir(folder).args(words).output().expect("the binary runs")
}

/// The output of a run on this adapter and the bytes of its JSON file.
fn run(folder: &Path, adapter: &str) -> (Option<i32>, String, Vec<u8>) {
    let (workload, json) = (workload(), folder.join("numbers.json"));
    let words = [
        "run",
        workload.to_str().unwrap(),
        "--virtual-time",
        "--vram",
        "100%",
        "--adapter",
        adapter,
        "--json",
        "numbers.json",
    ];
    let output = openwddm(folder, &words);
    let bytes = fs::read(&json).unwrap_or_else(|error| panic!("{adapter}: {error}: {output:?}"));
    fs::remove_file(json).expect("it was there");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"), bytes)
}

#[test]
fn a_run_with_the_file_of_a_profile_is_the_run_with_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    for profile in PROFILES {
        let printed = openwddm(folder.path(), &["adapters", profile.name, "--toml"]);
        assert_eq!(printed.status.code(), Some(0), "{printed:?}");
        let file = format!("file-of-{}.toml", profile.name);
        fs::write(folder.path().join(&file), &printed.stdout).unwrap();
        let [by_name, by_file] = [profile.name, &file].map(|adapter| run(folder.path(), adapter));
        assert_eq!(by_name.0, Some(0), "{}", by_name.1);
        assert!(by_name == by_file, "{}:\n{}\n{}", profile.name, by_name.1, by_file.1);
        for form in [&["adapters"][..], &["adapters", "--json"]] {
            let [by_name, by_file] =
                [profile.name, &file].map(|of| openwddm(folder.path(), &[form, &[of]].concat()).stdout);
            assert!(by_name == by_file && !by_name.is_empty(), "{}", profile.name);
        }
    }
}

#[test]
fn an_adapter_that_is_changed_in_its_file_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let printed = openwddm(folder.path(), &["adapters", "discrete-4k", "--toml"]).stdout;
    let printed = String::from_utf8(printed).unwrap();
    let slow = printed.replace("copy_bytes_per_us = 25000", "copy_bytes_per_us = 250");
    assert_ne!(slow, printed);
    fs::write(folder.path().join("slow.toml"), slow).unwrap();
    let old = "name = \"old\"\nwddm = \"2.1\"\nengines.hardware_scheduling = false\nfences.native = false\n";
    fs::write(folder.path().join("old.toml"), old).unwrap();
    let [fast, slow, old] = ["discrete-4k", "slow.toml", "old.toml"].map(|adapter| run(folder.path(), adapter));
    let elapsed = |bytes: &[u8]| -> u64 {
        let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        value["elapsed_ns"].as_u64().expect("a time")
    };
    assert!(elapsed(&slow.2) > elapsed(&fast.2));
    assert_eq!((old.0, elapsed(&old.2) > 0), (Some(0), true), "{}", old.1);
    let text = String::from_utf8(openwddm(folder.path(), &["adapters", "old.toml"]).stdout).unwrap();
    assert!(text.contains("0x6003") && !text.contains("INVALID_TLB_ENTRIES_NOT_CACHED"), "{text}");
}

#[test]
fn a_run_has_the_memory_that_the_file_says_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("some.toml"), "name = \"some\"\nmemory.vram = \"1GiB\"\n").unwrap();
    let workload = workload();
    let ran = |more: &[&str]| {
        let words = ["run", workload.to_str().unwrap(), "--virtual-time", "--json", "numbers.json"];
        let output = openwddm(folder.path(), &[&words[..], more].concat());
        let bytes = fs::read(folder.path().join("numbers.json")).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let numbers: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let vram_bytes = numbers["vram_bytes"].as_u64().expect("a size");
        (vram_bytes, String::from_utf8(output.stdout).unwrap().contains("as some.toml says"))
    };
    assert_eq!(ran(&["--adapter", "some.toml"]), (1 << 30, true));
    assert_eq!(ran(&["--adapter", "some.toml,vram=512MiB"]), (512 << 20, false));
    assert_eq!(ran(&["--adapter", "some.toml", "--vram", "256MiB"]), (256 << 20, false));
    let of_peak = |size: (u64, bool)| (size.0 < 256 << 20, size.1);
    assert_eq!(of_peak(ran(&["--adapter", "discrete-4k"])), (true, false), "60 % of the peak");
}

#[test]
fn a_wrong_file_is_refused_with_line_and_rule() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let workload = workload();
    let workload = workload.to_str().unwrap();
    fs::write(at.join("bar.toml"), "name = \"x\"\n\n[memory]\nbar_window_pages = 16\n").unwrap();
    fs::write(at.join("word.toml"), "name = \"x\"\n[engines]\ndorbells = 1\n").unwrap();
    let files = || fs::read_dir(at).unwrap().count();
    let before = files();
    for (file, line, rule) in [
        ("bar.toml", "line 4, column 1", "behind a resized BAR or behind a window"),
        ("word.toml", "line 3, column 1", "there is no engines.dorbells"),
        ("none.toml", "none.toml", "No such file"),
        ("voodoo", "voodoo", "no profile has this name"),
    ] {
        for words in [
            &["run", workload, "--json", "numbers.json", "--adapter", file][..],
            &["adapters", file],
            &["adapters", file, "--toml"],
            &["sweep", workload, "--adapter", file],
            &["bound", workload, "--adapter", file],
            &["present", "--adapter", file],
            &["serve", "--socket", "kernel", "--adapter", file],
        ] {
            let output = openwddm(at, words);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
            assert!(said.contains(line) && said.contains(rule) && said.contains("what to do"), "{words:?}: {said}");
            assert_eq!(files(), before, "{words:?} left something behind");
        }
    }
}
