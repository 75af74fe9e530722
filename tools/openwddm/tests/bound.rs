//! `openwddm bound` from outside: figures in words and as JSON, refusals with their place.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn openwddm(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_openwddm")).arg("bound").args(words).output().expect("the binary runs")
}

fn printed(words: &[&str]) -> String {
    let output = openwddm(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(words: &[&str], wanted: &[&str]) {
    let output = openwddm(words);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
    for word in wanted {
        assert!(text.contains(word), "{words:?} does not say `{word}`: {text}");
    }
}

fn recording(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workload/replay/tests/data");
    folder.join(name).to_str().unwrap().to_owned()
}

/// A string of one step, written by hand.
fn string(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("hand.json");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_bound_of_the_bundled_step_is_printed_with_a_further_step_and_lru() {
    let text = printed(&["--vram", "50%"]);
    for part in [
        "in 2 steps",
        "50.0 % of the peak",
        "(441,674,036 bytes), in and out together",
        "(275,809,580 bytes)",
        // 689,983,080 in three steps.
        "(248,309,044 bytes)\n",
        "times the fewest",
        "at 25 GB/s, one way at a time (discrete-4k)",
        "a linear program of 5 rows",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
}

/// The table and the numbers of a run in virtual time.
fn run(words: &[&str]) -> (String, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_openwddm"));
    let output = command
        .current_dir(folder.path())
        .arg("run")
        .args(words)
        .args(["--virtual-time", "--json", "n.json", "--report", "r.html"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    let numbers = serde_json::from_slice(&std::fs::read(folder.path().join("n.json")).unwrap()).unwrap();
    let page = std::fs::read_to_string(folder.path().join("r.html")).unwrap();
    (String::from_utf8(output.stdout).unwrap() + &page, numbers)
}

#[test]
fn a_run_says_the_bound_beside_its_bytes_where_there_is_one() {
    let (text, numbers) = run(&["--vram", "50%"]);
    // 124,162,048 bytes in whole pages.
    assert_eq!(
        (&numbers["fewest_bytes"], &numbers["fewest_paged_in_bytes"]),
        (&441_676_716.into(), &275_810_920.into())
    );
    for part in ["(441,676,716 bytes) in and out; the run moved 1.09 times as much\n", "\"fewest_bytes\":441676716"] {
        assert!(text.contains(part), "{part} is missing in\n{}", text.split_once("<!doctype").unwrap().0);
    }
    // Each of several processes alone in all of the memory, whatever its budget.
    let gpt = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gpt.cpu.rrs.json.gz");
    let gpt = gpt.to_str().unwrap();
    let (_, two) = run(&[gpt, &format!("{gpt},budget=60MiB"), "--vram", "124162048"]);
    assert_eq!(two["fewest_bytes"], 2 * 441_676_716_u64);
    for none in [&["--adapter", "integrated"][..], &["--adapter", "discrete-4k", "--adapter", "discrete-4k"]] {
        let (text, numbers) = run(none);
        assert!(numbers.get("fewest_bytes").is_none() && !text.contains("  fewest possible"), "{none:?}");
    }
}

#[test]
fn the_same_figures_are_json() {
    let file = recording("gpt2xl-infer.meta.rrs.json.gz");
    let text = printed(&[&file, "--vram", "5922077644", "--steps", "2", "--adapter", "datacenter", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["asked"]["moved_bytes"], 7_210_700_852_u64);
    assert_eq!(found["one_step_more"]["moved_bytes"], 7_868_709_480_u64);
    assert_eq!(found["further_step_bytes"], 658_008_628);
    assert_eq!(found["asked"]["cold_bytes"], 6_552_692_224_u64);
    // In pages of 64 KiB, each storage rounded up, LRU has everything come in again.
    assert!(found["lru_further_step_bytes"].as_u64().unwrap() > 6_552_692_224);
    assert_eq!(found["link_bytes_per_s"], 55_000_000_000_u64);
    assert_eq!(found["asked"]["link_ns"], 7_210_700_852_u64 * 1000 / 55_000);
    let text = printed(&[&file, "--vram", "5922077644", "--link", "5GB/s", "--json"]);
    let both_ways: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(both_ways["asked"]["link_ns"], 7_209_881_652_u64 / 5, "more has to come in than go out");
    assert_eq!(found["asked"]["work_ns"], serde_json::Value::Null);
}

#[test]
fn the_work_counts_where_its_time_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = string(
        folder.path(),
        r#"{"format":"residency-reference-string/2","op_names":["a"],"storages":[[50000,1]],"events":[[0,[0],[]]],"op_ns":[1500]}"#,
    );
    let file = path.to_str().unwrap();
    let text = printed(&[file, "--vram", "50000", "--steps", "2"]);
    assert!(text.contains("LRU moves               does not fit in whole pages"), "{text}");
    assert!(text.contains(" of it\n"), "{text}");
    let found: serde_json::Value =
        serde_json::from_str(&printed(&[file, "--vram", "50000", "--steps", "2", "--json"])).unwrap();
    let asked = &found["asked"];
    assert_eq!((&asked["link_ns"], &asked["work_ns"], &asked["least_ns"]), (&2000.into(), &3000.into(), &3000.into()));
    assert!(text.contains("no program: everything fits"), "{text}");
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = string(
        folder.path(),
        r#"{"format":"residency-reference-string/1","op_names":["small","huge"],"storages":[[10,1],[30,0]],"events":[[0,[0],[]],[1,[0],[1]]]}"#,
    );
    let file = path.to_str().unwrap();
    refused(
        &[file, "--vram", "39B"],
        &["--vram 39B:", "operation 1 of the step (huge) needs 40 bytes", "give at least 40"],
    );
    refused(&[file, "--vram", "0"], &["--vram", "6GiB"]);
    refused(&[file, "--vram", "39"], &["'39'", "39% is that share of the peak"]);
    refused(&[file, "--steps", "0"], &["--steps"]);
    refused(&[file, "--adapter", "voodoo"], &["voodoo", "discrete-4k"]);
    refused(&[file, "--link", "5"], &["--link", "15.754GB/s"]);
    refused(&[file, "--time-limit", "0"], &["--time-limit"]);
    refused(&[file, "--time-limit", "-5"], &["--time-limit", "-5"]);
    refused(&["nowhere.json"], &["workload nowhere.json"]);
    let large = recording("gpt2m.meta.rrs.json.gz");
    refused(&[&large, "--steps", "1000000"], &["--steps 1000000", "operations", "give at most 284"]);
}

#[test]
fn a_further_step_without_a_bound_leaves_that_of_the_steps_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, more) = (1u64 << 60, 1u64 << 61);
    let events = r#"[[0,[0],[]],[-1,[0]]]"#;
    let text = format!(
        r#"{{"format":"residency-reference-string/1","op_names":["a"],"storages":[[{bytes},1]],"events":{events}}}"#
    );
    let path = string(folder.path(), &text);
    let (file, vram) = (path.to_str().unwrap(), bytes.to_string());
    let text = printed(&[file, "--vram", &vram, "--steps", "2"]);
    assert!(text.contains("a further step          no bound of it is known\n"), "{text}");
    let found: serde_json::Value =
        serde_json::from_str(&printed(&[file, "--vram", &vram, "--steps", "2", "--json"])).unwrap();
    assert_eq!(found["asked"]["moved_bytes"], more);
    assert!(found["one_step_more"].is_null() && found["further_step_bytes"].is_null(), "{found}");
    refused(
        &[file, "--vram", &vram, "--steps", "3"],
        &["--steps 3", "3458764513820540928 bytes would have to be counted"],
    );
}
