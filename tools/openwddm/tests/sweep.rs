//! `openwddm sweep` from outside: table, page and rows; cut, in parts, and with faulty input. All figures are those of virtual time, exact.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn openwddm(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openwddm"));
    command.current_dir(folder).args(words).output().expect("the binary runs")
}

fn sweep(folder: &Path, words: &[&str]) -> String {
    let output = openwddm(folder, &[&["sweep"], words].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The JSON of a sweep.
fn swept(folder: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&sweep(folder, &[words, &["--json"]].concat())).unwrap()
}

fn refused(folder: &Path, words: &[&str], wanted: &[&str]) {
    let output = openwddm(folder, &[&["sweep"], words].concat());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
    assert!(output.stdout.is_empty(), "{words:?}");
    for word in wanted {
        assert!(text.contains(word), "{words:?} does not say `{word}`: {text}");
    }
}

/// The files of the rows: name and bytes.
fn rows(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(files) = fs::read_dir(out.join("rows")) else { return BTreeMap::new() };
    let files =
        files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "parquet"));
    files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

fn timed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timed.rrs.json")
}

#[test]
fn a_row_has_the_figures_of_its_run_and_of_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let found = swept(folder.path(), &["--vram", "0.5,0.9", "--steps", "2", "--policy", "lru,kept"]);
    let rows = found["rows"].as_array().unwrap();
    let order: Vec<_> =
        rows.iter().map(|row| (row["policy"].as_str().unwrap(), row["asked_bytes"].as_u64().unwrap())).collect();
    assert_eq!(order, [("lru", 124_162_718), ("lru", 223_492_892), ("kept", 124_162_718), ("kept", 223_492_892)]);
    for row in rows {
        let asked = row["asked_bytes"].to_string();
        let policy = row["policy"].as_str().unwrap();
        let words = ["run", "--virtual-time", "--vram", &asked, "--policy", policy, "--json", "n.json"];
        assert!(openwddm(folder.path(), &words).status.success());
        let run: Value = serde_json::from_slice(&fs::read(folder.path().join("n.json")).unwrap()).unwrap();
        for same in [
            "vram_bytes",
            "elapsed_ns",
            "ideal_ns",
            "stall_ns",
            "paged_in_bytes",
            "paged_out_bytes",
            "discarded_bytes",
            "ops",
            "trace_hash",
            "fewest_bytes",
        ] {
            assert_eq!(row[same], run[same], "{same} of {asked} bytes, {policy}");
        }
        let last = &run["per_step"][1];
        assert_eq!(row["last_step_elapsed_ns"], last["elapsed_ns"]);
        assert_eq!(row["last_step_paged_in_bytes"], last["paged_in_bytes"]);
        let (ideal, took) = (run["ideal_ns"].as_u64().unwrap() / 2, last["elapsed_ns"].as_u64().unwrap());
        assert_eq!(row["share_millionths"].as_u64().unwrap(), ideal * 1_000_000 / took);
        let vram = row["vram_bytes"].to_string();
        let bound = openwddm(folder.path(), &["bound", "--vram", &vram, "--json"]);
        let bound: Value = serde_json::from_slice(&bound.stdout).unwrap();
        assert_eq!(row["fewest_bytes"], bound["asked"]["moved_bytes"]);
        assert_eq!(row["fewest_paged_in_bytes"], bound["asked"]["paged_in_bytes"]);
        assert_eq!(row["further_step_fewest_bytes"], bound["further_step_bytes"]);
        let further_ns = bound["further_step_bytes"].as_u64().unwrap() / 25;
        let best = ideal * 1_000_000 / further_ns.max(ideal);
        assert_eq!(row["share_at_best_millionths"].as_u64().unwrap(), best);
    }
}

#[test]
fn recorded_times_give_the_share_to_the_nanosecond_and_the_knee() {
    let folder = tempfile::tempdir().unwrap();
    let file = timed();
    let words =
        [file.to_str().unwrap(), "--vram", "50%,110%", "--policy", "lru", "--processes", "1,2", "--link", "25GB/s"];
    let text = sweep(folder.path(), &words);
    let found = swept(folder.path(), &words);
    assert_eq!((&found["found"], &found["made"]), (&Value::from(4), &Value::from(0)), "what is there is not run again");
    let row = |at: usize| &found["rows"][at];
    // Four operations with what frames them (200 ns each), and the call behind a step (500 ns).
    assert_eq!(row(1)["last_step_elapsed_ns"], 100_001_300);
    assert_eq!(row(1)["share_millionths"], 100_000_000_000_000_u64 / 100_001_300);
    assert_eq!((row(1)["processes"].as_u64(), row(2)["processes"].as_u64()), (Some(1), Some(2)));
    assert!(row(2)["last_step_elapsed_ns"].is_null(), "each of several processes has steps of its own");
    let fewest = |at: usize| row(at)["fewest_bytes"].as_u64().unwrap();
    assert_eq!(fewest(2), 2 * fewest(0), "each alone in all of the memory");
    let knee = &found["knees"][0];
    assert_eq!(knee["needed_bytes"], row(1)["vram_bytes"]);
    assert_eq!(knee["too_small_share_millionths"], row(0)["share_millionths"]);
    for part in [
        "3 steps, 1 process on discrete-4k, link 25,000 MB/s each way",
        "3 steps, 2 processes on discrete-4k",
        "those of the last step",
        "those of the whole run",
        "under lru needs 1.10 GiB (110.0 % of the peak) for 95.0 % of the ideal speed in a further step; in 512.00 MiB it has",
        "rows: 4 in out/sweep/rows\n",
        "picture: out/sweep/sweep.html\n",
        "recording timed: its times",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    let page = fs::read_to_string(folder.path().join("out/sweep/sweep.html")).unwrap();
    assert!(page.contains(knee["sentence"].as_str().unwrap()) && page.contains("Leon Sorokin"));
}

#[test]
fn a_sweep_that_is_killed_loses_no_finished_row() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["--vram", "0.3..1.0/40", "--steps", "2", "--policy", "lru"];
    let mut cut = Command::new(env!("CARGO_BIN_EXE_openwddm"))
        .current_dir(folder.path())
        .arg("sweep")
        .args(words)
        .args(["--out", "cut"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let cut_out = folder.path().join("cut");
    let since = Instant::now();
    while rows(&cut_out).len() < 3 {
        assert!(since.elapsed() < Duration::from_secs(300), "no row appears");
        std::thread::sleep(Duration::from_millis(2));
    }
    cut.kill().unwrap();
    cut.wait().unwrap();
    let before = rows(&cut_out);
    assert!((3..40).contains(&before.len()), "{} rows", before.len());
    let found = swept(folder.path(), &[&words[..], &["--out", "cut"]].concat());
    assert_eq!(
        (found["found"].as_u64().unwrap(), found["made"].as_u64().unwrap()),
        (before.len() as u64, 40 - before.len() as u64)
    );
    let after = rows(&cut_out);
    assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)), "they are what they were");
    swept(folder.path(), &[&words[..], &["--out", "whole"]].concat());
    assert_eq!(after, rows(&folder.path().join("whole")), "as if it had never been cut");
}

#[test]
fn parts_add_up_to_the_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let words = |more: &[&'static str]| [&["--vram", "0.4..0.9/5", "--steps", "2"], more].concat();
    let whole = swept(folder.path(), &words(&["--out", "whole"]));
    let all = whole["rows"].as_array().unwrap().len() as u64;
    let mut missing = all;
    for shard in ["3/3", "1/3", "2/3"] {
        let part = swept(folder.path(), &words(&["--out", "parts", "--shard", shard]));
        missing -= part["made"].as_u64().unwrap();
        assert_eq!(part["missing"].as_u64().unwrap(), missing, "part {shard}");
        assert!(part["made"].as_u64().unwrap() >= all / 3);
    }
    assert_eq!(missing, 0);
    assert_eq!(rows(&folder.path().join("parts")), rows(&folder.path().join("whole")));
    let drawn = swept(folder.path(), &words(&["--out", "parts"]));
    assert_eq!((&drawn["rows"], drawn["made"].as_u64()), (&whole["rows"], Some(0)));
}

#[test]
fn what_cannot_be_swept_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    refused(at, &["--shard", "5/4"], &["--shard", "5/4", "no part 5 of 4", "from 1 to N"]);
    refused(at, &["--shard", "0/4"], &["0/4", "no part 0 of 4"]);
    refused(at, &["--vram", "1.0..0.3"], &["--vram", "1.0..0.3", "write 0.3..1.0"]);
    refused(at, &["--vram", "0.3..24GiB"], &["share of the peak and the other a size"]);
    refused(
        at,
        &["--vram", "0.001..0.002"],
        &["--vram 0.001..0.002:", "no size of the sweep fits gpt", "give at least", "the peak is 248325436"],
    );
    refused(at, &["--policy", "fifo"], &["fifo", "lru"]);
    refused(at, &["--processes", "0"], &["--processes 0", "1 to 64"]);
    refused(at, &["--target", "150%"], &["150%", "up to 100 %"]);
    refused(at, &["--adapter", "nonesuch"], &["--adapter nonesuch", "discrete-4k"]);
    refused(at, &["nowhere.json"], &["nowhere.json"]);
    fs::write(at.join("file"), "").unwrap();
    refused(
        at,
        &["--out", "file"],
        &["--out file", "a file stands there, and a folder is needed", "move the file away"],
    );
    assert!(rows(&at.join("out/sweep")).is_empty());
}

#[test]
fn sizes_that_are_too_small_are_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let text = sweep(folder.path(), &["--vram", "0.001,0.9", "--steps", "1", "--policy", "lru"]);
    assert!(text.contains("left out: 1 size up to") && text.contains("the largest operation needs"), "{text}");
    assert!(text.contains("rows: 1 in"), "{text}");
    // Four banks have room for the largest operation, and not for each way in which it comes to lie.
    let banks = ["--adapter", "wddm1-banks", "--vram", "0.203,0.4", "--steps", "1", "--policy", "lru"];
    let found = swept(folder.path(), &[&banks[..], &["--out", "banks"]].concat());
    let left = &found["left_out"][0];
    assert_eq!((left["policy"].as_str(), left["asked_bytes"].as_u64()), (Some("lru"), Some(50_410_063)), "{found:#}");
    assert!(left["problem"].as_str().unwrap().contains("could not be brought back"), "{left}");
    assert_eq!((found["rows"].as_array().unwrap().len(), found["missing"].as_u64()), (1, Some(0)));
    refused(
        folder.path(),
        &[&banks[..2], &["--vram", "0.203"], &banks[4..]].concat(),
        &["--vram 0.203:", "no size", "larger"],
    );
}

/// The page's sample has the columns and the figures that the same command prints.
#[test]
fn the_sample_of_the_page_is_what_a_sweep_prints() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sweep.md")).unwrap();
    let (_, sample) = page.split_once("$ openwddm sweep --vram 0.5..1.0/6\n").expect("the sample");
    let (sample, _) = sample.split_once("```").expect("its end");
    let words = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let folder = tempfile::tempdir().unwrap();
    let (printed, sample) = (sweep(folder.path(), &["--vram", "1.0"]), words(sample));
    // Head, unit, columns, and the one row.
    for line in &words(&printed)[..4] {
        assert!(sample.contains(line), "the page lacks `{line}` of\n{printed}");
    }
}

/// A Parquet file with one column of numbers.
fn foreign(path: &Path, column: &str) {
    use parquet::data_type::Int64Type;
    use parquet::file::writer::SerializedFileWriter;
    let schema =
        parquet::schema::parser::parse_message_type(&format!("message other {{ REQUIRED INT64 {column}; }}")).unwrap();
    let mut writer =
        SerializedFileWriter::new(fs::File::create(path).unwrap(), schema.into(), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[1, 2], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn a_file_that_has_no_rows_of_a_sweep_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("out/sweep/rows/other.parquet");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    foreign(&other, "price");
    let before = fs::read(&other).unwrap();
    refused(folder.path(), &[], &["other.parquet", "another schema", "column program is missing", "move it elsewhere"]);
    assert_eq!(fs::read(&other).unwrap(), before);
    fs::write(&other, "no Parquet at all").unwrap();
    refused(folder.path(), &[], &["other.parquet", "no Parquet file", "move it elsewhere"]);
    fs::write(&other, "").unwrap();
    refused(folder.path(), &[], &["other.parquet", "no Parquet file"]);
    // The opening of a pipe waits for a writer, which never comes.
    let pipe = other.with_file_name("pipe.parquet");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(folder.path(), &[], &["other.parquet", "no Parquet file"]);
    fs::remove_file(&other).unwrap();
    refused(folder.path(), &[], &["pipe.parquet", "is no regular file", "move it elsewhere"]);
    fs::remove_file(&pipe).unwrap();
    fs::write(&other, "").unwrap();
    fs::rename(&other, other.with_extension("txt")).unwrap();
    let words = ["--vram", "0.9", "--steps", "1", "--policy", "lru"];
    let name = {
        sweep(folder.path(), &words);
        rows(&folder.path().join("out/sweep")).into_iter().next().unwrap()
    };
    let row = folder.path().join("out/sweep/rows").join(&name.0);
    fs::write(&row, &name.1[..name.1.len() / 2]).unwrap();
    refused(folder.path(), &words, &[&name.0, "no Parquet file"]);
}

/// The documented example, on Dask's local cluster. `OPENWDDM_PYTHON` names an interpreter that has Dask; without one the test says so.
#[test]
fn the_example_sweeps_on_a_dask_cluster_and_reads_the_rows_back() {
    let python = std::env::var("OPENWDDM_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_dask = Command::new(&python).args(["-c", "import dask.dataframe, distributed, pyarrow"]).output();
    if !has_dask.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {python} has no Dask (pip install \"dask[dataframe]\" distributed)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sizes = ["--vram", "0.6..1.0/3", "--steps", "2"];
    let output = Command::new(&python)
        .current_dir(folder.path())
        .arg(root.join("examples/sweep_dask.py"))
        .args(["--openwddm", env!("CARGO_BIN_EXE_openwddm"), "--shards", "3", "--out", "dask"])
        .arg(root.join("examples/gpt.cpu.rrs.json.gz"))
        .args(sizes)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let alone = swept(folder.path(), &[&sizes[..], &["--out", "alone"]].concat());
    let alone = alone["rows"].as_array().unwrap();
    assert!(text.contains(&format!("rows: {0} in dask/rows, {0} of them there before", alone.len())), "{text}");
    for row in alone {
        let (policy, vram) = (row["policy"].as_str().unwrap(), row["vram_bytes"].to_string());
        let moved = row["paged_in_bytes"].as_u64().unwrap() + row["paged_out_bytes"].as_u64().unwrap();
        let line = text.lines().find(|line| line.contains(&vram) && line.contains(policy) && !line.contains("MiB"));
        assert!(line.is_some_and(|line| line.contains(&moved.to_string())), "{row} is missing in\n{text}");
    }
}

/// Cuts a sweep by signals, one behind the other, as soon as it has a row: its exit code, its table, and the folder.
fn cut_by(signals: &[Signal]) -> (Option<i32>, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    // A shell that starts the tests in the background has its commands ignore SIGINT, and a sweep keeps to that.
    let cut = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_openwddm")])
        .current_dir(folder.path())
        .args(["sweep", "--vram", "0.3..1.0/40", "--policy", "lru", "--jobs", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while rows(&folder.path().join("out/sweep")).is_empty() {
        assert!(since.elapsed() < Duration::from_secs(300), "no row appears");
        std::thread::sleep(Duration::from_millis(2));
    }
    for signal in signals {
        kill_process(Pid::from_child(&cut), *signal).unwrap();
    }
    let output = cut.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), folder)
}

fn has_what_it_reached(text: &str, folder: &Path) {
    let known = rows(&folder.join("out/sweep")).len();
    for part in [
        "interrupted: what was reached until then; the same command goes on from there\n".to_owned(),
        format!("missing: {} runs have no row yet\n", 40 - known),
        format!("rows: {known} in out/sweep/rows\n"),
    ] {
        assert!(text.contains(&part), "{part} is missing in\n{text}");
    }
    let table = text.lines().filter(|line| line.ends_with('×')).count();
    assert_eq!(table, known, "a line for each row in\n{text}");
}

#[test]
fn ctrl_c_ends_a_sweep_with_what_it_has() {
    let (code, text, folder) = cut_by(&[Signal::INT]);
    assert_eq!(code, Some(130));
    has_what_it_reached(&text, folder.path());
}

/// GNU `timeout` signals its command, and at once the group of it.
#[test]
fn a_timeout_ends_a_sweep_with_what_it_has() {
    let (code, text, folder) = cut_by(&[Signal::TERM, Signal::TERM]);
    assert_eq!(code, Some(143));
    has_what_it_reached(&text, folder.path());
    let again = swept(folder.path(), &["--vram", "0.3..1.0/40", "--policy", "lru"]);
    let known = text.lines().find_map(|line| line.strip_prefix("rows: ")?.split(' ').next()?.parse::<u64>().ok());
    assert_eq!(again["found"].as_u64(), known, "each row of the table is kept");
    assert!(again["rows"].as_array().unwrap().iter().all(|row| row["fewest_bytes"].is_u64()), "no row lacks its bound");
}
