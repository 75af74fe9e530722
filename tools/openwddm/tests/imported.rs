//! A run gives the same account of its recording in the table, the report and the JSON.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

fn recording(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workload/replay/tests/recordings").join(file)
}

/// Runs a recording in virtual time; the table, the report and the JSON.
fn run(file: &Path) -> (String, String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_openwddm"));
    command.current_dir(folder.path()).arg("run").arg(file);
    command.args(["--vram", "200%", "--virtual-time", "--steps", "1", "--json", "n.json", "--report", "r.html"]);
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    (table, read("r.html"), serde_json::from_str(&read("n.json")).unwrap())
}

#[test]
fn what_is_left_out_is_said_everywhere() {
    let (table, report, numbers) = run(&recording("et_mlp_compiled_step.json.gz"));
    let left =
        "kernels of 2 compiled graphs left out: not in the recording; at least 9 storages come from them, 2.00 MiB";
    assert!(table.contains(left), "{table}");
    assert!(report.contains(left), "the report's data");
    let imported = &numbers["imports"][0];
    assert_eq!(
        imported["left_out"],
        json!([{"reason": "not recorded", "kernels": 2, "storages": 9, "bytes": 2_101_504}])
    );
    assert_eq!((&imported["operations"], &imported["kind"]), (&json!(119), &json!("execution trace")));
}

#[test]
fn kernels_without_tensors_are_said_with_their_number() {
    let side = |tensors: Value| {
        let count = tensors.as_array().unwrap().len();
        json!({"values": tensors, "shapes": vec![json!([4096]); count], "types": vec!["Tensor(float)"; count], "strides": vec![json!([1]); count]})
    };
    let kernel = |id: u64, tensors: Value| {
        json!({"id": id, "name": "triton_poi_fused_add_0", "ctrl_deps": 1, "inputs": side(tensors), "outputs": side(json!([])),
            "attrs": [{"name": "kernel_backend", "type": "string", "value": "triton"}]})
    };
    let nodes = [kernel(2, json!([[9, 5, 0, 4096, 4, "cuda:0"]])), kernel(3, json!([])), kernel(4, json!([]))];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernels.json");
    std::fs::write(&file, json!({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}).to_string()).unwrap();
    let (table, report, numbers) = run(&file);
    for text in [&table, &report] {
        assert!(text.contains("2 of 3 kernels left out: no tensors"), "{text}");
    }
    assert_eq!((&numbers["imports"][0]["kernels"], &numbers["ops"]), (&json!(3), &json!(1)));
}

#[test]
fn iterations_and_times_are_said() {
    let (table, _, numbers) = run(&recording("f4_three_steps.json"));
    assert!(table.contains("6 operations of 3 iterations, imported as one step"), "{table}");
    assert_eq!((&numbers["imports"][0]["iterations"], &numbers["peak_bytes"]), (&json!(3), &json!(40 << 20)));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("timed.json");
    let string = |more: &str, format: u32| {
        let text = format!(
            r#"{{"format": "residency-reference-string/{format}", "op_names": ["a"], "storages": [[4096, 1]], "events": [[0, [0], []]]{more}}}"#
        );
        std::fs::write(&file, text).unwrap();
        run(&file)
    };
    let (plain, _, without) = string("", 1);
    assert!(without.get("imports").is_none() && !plain.contains("recording"), "an exact string is what runs: {plain}");
    let (timed, _, with) = string(r#", "op_ns": [7000000], "source": "a lathe""#, 2);
    assert!(timed.contains("its times, 7.00 ms for all operations of a step, are those of this run"), "{timed}");
    assert!(timed.contains("by its own account: a lathe"), "{timed}");
    let imported = &with["imports"][0];
    assert_eq!((&imported["recorded_ns"], &imported["recorded_times_used"]), (&json!(7_000_000), &json!(true)));
    let ns = |numbers: &Value, field: &str| numbers[field].as_u64().unwrap();
    assert_eq!(ns(&with, "ideal_ns"), 7_000_000);
    assert!(without.get("recorded_ideal_millionths").is_none());
    // The untimed one touches a page: 50 ns to decode, 2,000 to launch, 5 for the bytes.
    assert_eq!(ns(&with, "elapsed_ns") - ns(&without, "elapsed_ns"), 7_000_000 - 2_055);
}
