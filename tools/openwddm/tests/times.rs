//! Recorded times (`op_ns`) in virtual time, and the link: exact figures, for both repeat exactly.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Four blocks of 256 MiB that live for ever; four operations of two blocks each.
const TIMED: &str = "timed.rrs.json";
const BLOCK: u64 = 256 << 20;
const OPS: u64 = 4;
/// The sum of its times.
const STEP_NS: u64 = 100_000_000;

/// What the cost model has for the commands that frame an operation: its nested buffer (50), and the signal of its progress (150).
const FRAME_NS: u64 = 200;
/// The call in which the CPU waits for the end of a step; the next step begins behind it.
const CALL_NS: u64 = 500;

fn timed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(TIMED)
}

fn openwddm(folder: &Path, file: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openwddm"));
    command.current_dir(folder).arg("run").arg(file).args(words).output().expect("the binary runs")
}

/// Runs a string in virtual time; its table and its numbers.
fn run(file: &Path, words: &[&str]) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let words = [words, &["--virtual-time", "--json", "n.json"]].concat();
    let output = openwddm(folder.path(), file, &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let numbers = std::fs::read(folder.path().join("n.json")).unwrap();
    (String::from_utf8(output.stdout).unwrap(), serde_json::from_slice(&numbers).unwrap())
}

fn ns(numbers: &Value, field: &str) -> u64 {
    numbers[field].as_u64().unwrap_or_else(|| panic!("{field}: {}", numbers[field]))
}

/// A string of these storages (all alive before), events and times, in a folder.
fn string(folder: &Path, storages: &[u64], events: &str, times: &str) -> PathBuf {
    let storages: Vec<(u64, u64)> = storages.iter().map(|bytes| (*bytes, 1)).collect();
    let file = folder.join("string.json");
    let text = format!(
        r#"{{"format": "residency-reference-string/2", "op_names": ["op"], "storages": {}, "events": {events}, "op_ns": {times}}}"#,
        serde_json::to_string(&storages).unwrap()
    );
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn with_memory_enough_a_further_step_takes_its_times_and_what_frames_them() {
    // What the kernel feeds has a Nop (50) before each operation; packets are completed and handed over one by one.
    let user = OPS * FRAME_NS + CALL_NS;
    for (stage, frames_ns) in [("user", user), ("hardware", user + OPS * 50), ("packet", 1_750)] {
        let (table, numbers) = run(&timed(), &["--vram", "110%", "--steps", "3", "--stage", stage]);
        for step in &numbers["per_step"].as_array().unwrap()[1..] {
            assert_eq!(ns(step, "elapsed_ns"), STEP_NS + frames_ns, "stage {stage}");
            assert_eq!(ns(step, "ideal_ns"), STEP_NS);
        }
        assert_eq!(ns(&numbers, "ideal_ns"), 3 * STEP_NS);
        let share = u128::from(3 * STEP_NS) * 1_000_000 / u128::from(ns(&numbers, "elapsed_ns"));
        assert_eq!(u128::from(ns(&numbers, "recorded_ideal_millionths")), share);
        assert_eq!(numbers["imports"][0]["recorded_times_used"], true);
        for said in ["are those of this run", "last step", "100.0 % of its ideal 100.00 ms"] {
            assert!(table.contains(said), "{said}: {table}");
        }
    }
}

#[test]
fn engines_without_addresses_take_the_same_times() {
    let (_, numbers) = run(&timed(), &["--vram", "110%", "--steps", "2", "--adapter", "wddm1-banks"]);
    let step = ns(&numbers["per_step"][1], "elapsed_ns");
    assert!((STEP_NS..STEP_NS + STEP_NS / 1000).contains(&step), "{step}");
}

#[test]
fn what_the_cpu_hands_an_operation_is_within_its_time() {
    let plain = ns(&run(&timed(), &["--vram", "110%"]).1["per_step"][1], "elapsed_ns");
    let with = ns(&run(&timed(), &["--vram", "110%", "--constants", "65536"]).1["per_step"][1], "elapsed_ns");
    // 65,536 bytes from system memory take the kernel of an operation 4,672 ns by the cost model, four times.
    assert!((plain..plain + 4_672).contains(&with), "{plain} {with}");
}

#[test]
fn bytes_come_at_the_rate_of_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let file = string(folder.path(), &[BLOCK], "[[0, [0], []]]", "[1000]");
    let at = |link| ns(&run(&file, &["--vram", "110%", "--steps", "1", "--link", link]).1, "elapsed_ns");
    let (slow, fast) = (at("16GB/s"), at("32GB/s"));
    assert_eq!(slow - fast, (BLOCK * 1000).div_ceil(16_000) - (BLOCK * 1000).div_ceil(32_000));
}

/// Two blocks and memory for one, page by page: each operation takes one out and brings the other in.
#[test]
fn both_ways_are_used_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = string(folder.path(), &[BLOCK; 2], "[[0, [], [0]], [0, [], [1]]]", "[0, 0]");
    let vram = (BLOCK + 65_536).to_string();
    let (table, numbers) = run(&file, &["--vram", &vram, "--steps", "3", "--link", "16GB/s"]);
    let step = &numbers["per_step"][2];
    let each_way = ns(step, "paged_in_bytes");
    assert_eq!(each_way, ns(step, "paged_out_bytes"));
    assert!(each_way > 2 * BLOCK - (1 << 20), "{each_way}");
    let one_way_ns = each_way * 1000 / 16_000;
    let elapsed = ns(step, "elapsed_ns");
    assert!((one_way_ns..one_way_ns + one_way_ns / 100).contains(&elapsed), "{elapsed} for {one_way_ns}");
    assert_eq!(ns(&numbers, "link_bytes_per_us"), 16_000);
    assert!(table.contains("16,000 MB/s each way"), "{table}");
    // Without a link the profile's bus carries 25 GB/s, one way at a time.
    let (_, numbers) = run(&file, &["--vram", &vram, "--steps", "3"]);
    let elapsed = ns(&numbers["per_step"][2], "elapsed_ns");
    assert!(elapsed > 2 * each_way * 1000 / 25_000, "{elapsed}");
}

#[test]
fn under_pressure_the_figures_repeat_exactly() {
    let words = ["--vram", "769MiB", "--steps", "3", "--link", "16GB/s"];
    let numbers = run(&timed(), &words).1;
    assert_eq!(numbers, run(&timed(), &words).1);
    let step = &numbers["per_step"][2];
    // Memory for three of four blocks, less a MiB: LRU exchanges one for each operation, and a part of that beside the one before.
    let exchanged = OPS * (BLOCK - (1 << 20));
    assert_eq!((ns(step, "paged_in_bytes"), ns(step, "paged_out_bytes")), (exchanged, exchanged));
    let (stall, elapsed) = (ns(step, "stall_ns"), ns(step, "elapsed_ns"));
    assert!(stall < exchanged * 1000 / 16_000 && stall > 0, "{stall}");
    // The commands around an operation are here a look at the paging fence, too: 150 ns, of which the stall has what is waited.
    assert!((elapsed - stall - STEP_NS) < OPS * (FRAME_NS + 150) + 2 * CALL_NS, "{elapsed} {stall}");
}

/// Adapters work beside each other: the sum of the recorded times is no time that such a run could take, so no share of it is said.
#[test]
fn several_adapters_have_no_recorded_ideal() {
    let (_, one) = run(&timed(), &["--vram", "70%"]);
    assert!(one["recorded_ideal_millionths"].is_u64() && one["per_step"][1]["ideal_ns"] == STEP_NS, "{one}");
    let two = ["--adapter", "discrete-4k,vram=700MiB", "--adapter", "discrete-4k,vram=700MiB", "--place", "split"];
    let (table, two) = run(&timed(), &two);
    let absent = ["recorded_ideal_millionths", "ideal_ns"];
    assert_eq!((two.get(absent[0]), two["per_step"][1].get(absent[1])), (None, None), "{two}");
    assert!(!table.contains("last step"), "{table}");
}

#[test]
fn bad_times_and_bad_rates_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |file: &Path, words: &[&str], wanted: &[&str]| {
        let output = openwddm(folder.path(), file, words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        wanted.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
    };
    for (times, wanted) in [
        ("[5, -3]", ["operation 1", "-3"]),
        ("[0.5, 1]", ["operation 0", "0.5"]),
        ("[1, \"soon\"]", ["operation 1", "\"soon\""]),
        ("[1, null]", ["operation 1", "null"]),
        ("[86400000000001, 1]", ["operation 0: its time in \"op_ns\" is 86400000000001", "more than a day"]),
        ("[5]", ["1 times", "operation 1 has no time"]),
        ("[5, 6, 7]", ["3 times", "time 2 belongs to no operation"]),
        ("{}", ["line 1", "column"]),
    ] {
        let file = string(folder.path(), &[4096], "[[0, [0], []], [0, [0], []]]", times);
        refused(&file, &["--virtual-time"], &wanted);
        refused(&file, &["--verify"], &wanted);
    }
    let day = string(folder.path(), &[4096], "[[0, [0], []]]", "[86400000000000]");
    refused(
        &day,
        &["--virtual-time", "--steps", "1000000"],
        &["--steps 1000000", "are 86400000000000000000 ns", "292 years"],
    );
    refused(&timed(), &["--link", "16GB/s"], &["--link 16000MB/s", "real time", "--virtual-time", "leave --link out"]);
    refused(&timed(), &["--virtual-time", "--link", "16GB"], &["--link", "\"/s\" is missing"]);
    refused(&timed(), &["--virtual-time", "--link", "-1GB/s"], &["--link", "negative"]);
}
