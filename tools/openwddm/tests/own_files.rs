//! `run --connect` with a trace, a report and a list of moves: made of the events that the kernel has about the run's processes, with the same
//! moves as the run in one program, and nothing of another client.

mod daemon;
mod served;

use std::collections::BTreeMap;
use std::path::Path;

use daemon::Daemon;
use serde_json::Value;
use served::openwddm;

/// Three operations on storages of 24 MiB each, two of which fit beside each other into the memory.
const TIGHT: &str = r#"{"format": "residency-reference-string/1", "model": "tight", "op_names": ["a", "b", "c"],
 "storages": [[25165824, 1], [25165824, 1], [25165824, 1], [25165824, 1]],
 "events": [[0, [0], [1]], [1, [1], [2]], [2, [2], [3]]]}"#;

/// The files of one run.
struct Files {
    /// Number of moves and their bytes, by how and why.
    moves: BTreeMap<(String, String), (u64, u64)>,
    demotions: Vec<Value>,
    report: Value,
    trace: Vec<u8>,
}

fn run(folder: &Path, name: &str, more: &[&str]) -> Files {
    let at = |kind: &str| folder.join(format!("{name}.{kind}"));
    let workload = folder.join("tight.rrs.json");
    std::fs::write(&workload, TIGHT).expect("a file");
    let mut command = openwddm(&["run", "--steps", "3", "--seed", "7", "--verify", "--stage", "hardware"]);
    command.arg(&workload).args(more);
    for kind in ["trace", "report", "demotions", "json"] {
        command.arg(format!("--{kind}")).arg(at(kind));
    }
    let output = command.output().expect("the binary starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(!text.contains("for which there was no room"), "{text}");
    let lines = std::fs::read_to_string(at("demotions")).expect("the list");
    let demotions: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut moves = BTreeMap::new();
    for moved in &demotions {
        let word = |field: &str| moved[field].as_str().expect("a word").to_owned();
        let sum: &mut (u64, u64) = moves.entry((word("how"), word("cause"))).or_default();
        *sum = (sum.0 + 1, sum.1 + moved["bytes"].as_u64().expect("bytes"));
    }
    let page = std::fs::read_to_string(at("report")).expect("the report");
    let begin = page.split_once("<script type=\"application/json\" id=\"data\">").expect("the data block").1;
    let report = serde_json::from_str(begin.split_once("</script>").expect("its end").0).expect("JSON");
    Files { moves, demotions, report, trace: std::fs::read(at("trace")).expect("the trace") }
}

#[test]
fn the_files_of_a_run_at_a_served_kernel_have_the_moves_of_the_run_in_one_program() {
    const ADAPTER: [&str; 4] = ["--adapter", "discrete-4k,vram=64MiB", "--system", "256MiB"];
    let folder = tempfile::tempdir().expect("a folder");
    let here = run(folder.path(), "here", &ADAPTER);
    let socket = folder.path().join("kernel");
    let daemon = Daemon::start(&socket, &ADAPTER);
    let connected = ["--connect", daemon.socket.to_str().expect("a path in UTF-8")];
    let there = run(folder.path(), "there", &connected);

    assert!(here.moves.keys().any(|(how, _)| how == "page out"), "the memory does not hold it: {:?}", here.moves);
    assert_eq!(there.moves, here.moves, "the same kernel has made the same moves");
    assert_eq!(there.report["summary"]["seen_by"], "client");
    assert_eq!(here.report["summary"]["seen_by"], Value::Null);
    let figure = |files: &Files, name: &str| files.report["summary"][name].as_u64().expect("a number");
    for name in ["paged_in_bytes", "paged_out_bytes", "discarded_bytes", "filled_bytes", "ops", "steps", "vram_bytes"] {
        assert_eq!(figure(&there, name), figure(&here, name), "{name}");
    }
    let causes = |files: &Files| files.report["views"][0]["movers"]["causes"].clone();
    assert_eq!(causes(&there), causes(&here));
    assert!(there.report["views"][0]["adapter"].as_str() == here.report["views"][0]["adapter"].as_str());
    for part in ["page in", "paging", "CPU waits", "memory moves"] {
        let has = |files: &Files| files.trace.windows(part.len()).any(|window| window == part.as_bytes());
        assert_eq!(has(&there), has(&here), "{part}");
    }
    let owner = |files: &Files| files.demotions[0]["owner"].clone();
    for moved in &there.demotions {
        assert_eq!(moved["owner"], owner(&there), "{moved}");
        assert!(!moved["completed_ns"].is_null() || moved["cause"] == "destroy", "{moved}");
    }

    // Two clients that take each other's memory: each file has the moves of its own process alone.
    let both: Vec<Files> = std::thread::scope(|scope| {
        let run_in = |name| {
            let folder = folder.path().join(name);
            std::fs::create_dir(&folder).expect("a folder");
            scope.spawn(move || run(&folder, name, &connected))
        };
        let ran = ["one", "two"].map(run_in);
        ran.into_iter().map(|run| run.join().expect("it ends")).collect()
    });
    assert_ne!(owner(&both[0]), owner(&both[1]));
    for files in &both {
        let own = owner(files);
        let only = |moved: &Value| moved["owner"] == own && (moved["requester"] == own || moved["requester"] == 0);
        assert!(files.demotions.iter().all(only), "nothing of the other client's");
    }
}
