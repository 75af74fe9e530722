//! Calls, visible: C programs run under `OPENWDDM_TRACE`, with a kernel of their own and with a served one, and their traces say each call
//! with its arguments, its results and its status.

mod programs;

use std::path::Path;

use programs::{Served, build_from, run, said, said_by};
use serde_json::{Value, json};

/// Runs an example under the variable, which writes into a file of the folder; returns what stands there.
fn traced(folder: &Path, example: &str, (kinds, file): (&str, &str), environment: &[(&str, &str)]) -> String {
    let program = build_from("examples", folder, example, &["-lopenwddm"]);
    let trace = folder.join(file);
    let wanted = format!("{kinds}:{}", trace.display());
    let output = run(&program, &[environment, &[("OPENWDDM_TRACE", &wanted)]].concat());
    assert!(!said(&output).is_empty());
    std::fs::read_to_string(trace).expect("the trace is written")
}

/// The lines of a JSON trace without the first, which is checked.
fn calls(trace: &str, of: &str) -> Vec<Value> {
    let mut lines = trace.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let head = lines.next().expect("a head");
    assert_eq!((&head["openwddm_calls"], &head["calls"]), (&json!(1), &json!(of)));
    assert_eq!(head["flavour"], if cfg!(feature = "wsl") { "wsl" } else { "windows" });
    assert_eq!((&head["elements_max"], &head["bytes_max"]), (&json!(4096), &json!(65536)));
    assert!(head["not_carried"].as_str().is_some_and(|words| words.contains("content of memory")), "{head}");
    // The table of fidelity ends a trace.
    let mut calls: Vec<Value> = lines.collect();
    assert!(calls.pop().is_some_and(|end| end["fidelity"].is_array()));
    calls
}

fn named<'trace>(calls: &'trace [Value], function: &str) -> Vec<&'trace Value> {
    calls.iter().filter(|call| call["call"] == function).collect()
}

/// What a call says but for its times and the program's own addresses.
fn told(call: &Value) -> (String, String) {
    let text = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
    (text("call"), text("status"))
}

#[test]
fn a_trace_has_each_call_with_its_arguments_and_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = traced(folder.path(), "resources", ("calls", "calls.jsonl"), &[("OPENWDDM_ADAPTER", "discrete-4k")]);
    let calls = calls(&trace, "all");
    for (nth, call) in calls.iter().enumerate() {
        assert_eq!(call["number"], nth + 1, "numbers rise line by line");
        let thread = call["thread"].as_str().and_then(|thread| thread.parse::<u32>().ok());
        assert!(thread.is_some() && call["start_ns"].is_u64() && call["duration_ns"].is_u64(), "{call}");
    }
    let create = named(&calls, "D3DKMTCreateDevice")[0];
    let (adapter, device) = (&create["in"]["hAdapter"], create["out"]["hDevice"].as_str().expect("a handle"));
    assert!(adapter.as_str().is_some_and(|text| text.starts_with("adapter 0x")), "{create}");
    assert!(device.starts_with("device 0x") && create["in"]["hDevice"] == "device 0x0", "{create}");
    assert_eq!((&create["status"], &create["name"]), (&json!("0x00000000"), &json!("STATUS_SUCCESS")));

    // A list of structures, in each a list of bytes: what was read, and what the call wrote.
    let create = named(&calls, "D3DKMTCreateAllocation2")[0];
    let (given, out) = (&create["in"], &create["out"]);
    assert_eq!((&given["hDevice"], &given["NumAllocations"]), (&json!(device), &json!(2)));
    assert_eq!(given["Flags"], "CreateResource|CreateShared");
    let runtime: String = "what a runtime says of it\0".bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(given["pPrivateRuntimeData"]["bytes"], runtime);
    let infos = given["pAllocationInfo2"]["list"].as_array().expect("a list");
    assert_eq!(infos.len(), 2);
    assert_eq!((&infos[1]["PrivateDriverDataSize"], &infos[1]["hAllocation"]), (&json!(24), &json!("allocation 0x0")));
    // "SGAL", version 1, system memory, that the CPU sees, 64 KiB.
    let data = infos[1]["pPrivateDriverData"]["bytes"].as_str().expect("bytes");
    assert_eq!(data, "5347414c0100020001000000000000000000010000000000");
    assert_eq!(infos[1]["pPrivateDriverData"]["room"], 24);
    let made = out["pAllocationInfo2"]["list"].as_array().expect("a list");
    assert!(made[0]["hAllocation"].as_str().is_some_and(|text| text.starts_with("allocation 0x4")), "{out}");
    assert!(made[0]["hAllocation"] != made[1]["hAllocation"] && out.get("NumAllocations").is_none(), "{out}");
    let resource = out["hResource"].as_str().expect("a handle");
    let share = out["hGlobalShare"].as_str().expect("a handle");
    assert!(resource.starts_with("resource 0x") && share.starts_with("global-share 0x"), "{out}");

    // The same names where the program uses what it got.
    let destroy = named(&calls, "D3DKMTDestroyAllocation2")[0];
    assert_eq!((&destroy["in"]["hResource"], &destroy["in"]["Flags"]), (&json!(resource), &json!("0")));
    let opens = named(&calls, "D3DKMTOpenResource2");
    assert_eq!(opens[0]["in"]["hGlobalShare"], share);
    let small = opens.iter().find(|call| call["name"] == "STATUS_NO_MEMORY").expect("one has too little room");
    assert_eq!((&small["status"], &small["out"]), (&json!("0xc0000017"), &json!({})));
    assert!(small["reason"].as_str().is_some_and(|reason| reason.contains("has 47 bytes")), "{small}");
    let lock = named(&calls, "D3DKMTLock2")[0];
    assert_eq!(lock["not_carried"], "what the program stores at pData");
    assert!(lock["out"]["pData"]["at"].is_string(), "{lock}");
}

#[test]
fn names_flags_and_values_stand_there_as_c_has_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = traced(folder.path(), "names", ("calls", "calls.json"), &[]);
    let names = calls(&trace, "all");
    let share = named(&names, "D3DKMTShareObjects")[0];
    assert_eq!((&share["in"]["cObjects"], &share["in"]["dwDesiredAccess"]), (&json!(1), &json!(0x1f_0003)));
    let list = share["in"]["hObjects"]["list"].as_array().expect("a list");
    assert!(list.len() == 1 && list[0].as_str().is_some_and(|text| text.starts_with("object 0x")), "{share}");
    let attributes = &share["in"]["pObjectAttributes"]["list"][0];
    let name = attributes["ObjectName"]["list"][0]["Buffer"]["text"].as_str().expect("a name");
    assert!(name.to_lowercase().contains("the fence") && attributes["Length"] == 48, "{share}");
    assert!(share["out"]["phSharedNtHandle"]["list"][0].as_str().is_some_and(|text| text.starts_with("nt-handle 0x")));

    let trace =
        traced(folder.path(), "questions", ("calls", "more.jsonl"), &[("OPENWDDM_ADAPTER", "discrete-4k,iommu")]);
    let asked = calls(&trace, "all");
    let list = &named(&asked, "D3DKMTEnumAdapters")[0]["out"];
    assert_eq!((&list["NumAdapters"], list["Adapters"].as_array().map(Vec::len)), (&json!(2), Some(2)));
    assert_eq!(list["Adapters"][1]["AdapterLuid"].as_str().map(|luid| &luid[..7]), Some("luid 0x"));
    let enabled = named(&asked, "D3DKMTIsFeatureEnabled");
    assert!(enabled.iter().any(|call| call["in"]["FeatureId"] == "DXGK_FEATURE_HWSCH"), "{enabled:?}");
    let flags = enabled.iter().filter_map(|call| call["out"]["Result"]["Value"].as_str());
    assert!(flags.into_iter().any(|flags| flags.starts_with("Enabled|KnownFeature")), "{enabled:?}");
    let sizes = named(&asked, "D3DKMTQueryAdapterInfo");
    let size = sizes.iter().find(|call| call["in"]["Type"] == "KMTQAITYPE_GETSEGMENTSIZE").expect("it asks for sizes");
    assert_eq!(size["out"]["pPrivateDriverData"]["is"]["DedicatedVideoMemorySize"], 32 << 20);
}

#[test]
fn errors_alone_are_the_calls_that_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = traced(folder.path(), "offers", ("calls", "all.jsonl"), &[]);
    let failed = traced(folder.path(), "offers", ("calls,errors", "failed.jsonl"), &[]);
    let (all, failed) = (calls(&all, "all"), calls(&failed, "failed"));
    let wanted: Vec<_> = all.iter().filter(|call| call["status"].as_str() >= Some("0x8")).map(told).collect();
    assert_eq!(failed.iter().map(told).collect::<Vec<_>>(), wanted);
    assert!(failed.len() >= 6 && failed.len() < all.len(), "{} of {}", failed.len(), all.len());
}

#[test]
fn text_goes_to_the_errors_or_into_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_from("examples", folder.path(), "offers", &["-lopenwddm"]);
    let output = run(&program, &[("OPENWDDM_TRACE", "calls")]);
    assert_eq!(said(&output), "taken back\n");
    let errors = String::from_utf8(output.stderr).expect("text");
    let lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("openwddm: #")).collect();
    assert!(lines[0].starts_with("openwddm: #1 thread "), "{errors}");
    assert!(
        lines[0].contains(" s: D3DKMTEnumAdapters{} -> {NumAdapters: 1, Adapters: [{hAdapter: adapter 0x"),
        "{errors}"
    );
    let offer = lines.iter().find(|line| line.contains("D3DKMTOfferAllocations")).expect("it offers");
    for part in ["HandleList: {at: 0x", "list: [allocation 0x", "INVALID_PARAMETER (0xc000000d) after ", " us, "] {
        assert!(offer.contains(part), "{part}: {offer}");
    }
    let text = traced(folder.path(), "offers", ("calls", "calls.txt"), &[]);
    assert_eq!(text.lines().filter(|line| line.starts_with('#')).count(), lines.len());
    assert!(text.lines().any(|line| line.starts_with("kind ")) && errors.contains("openwddm: function "), "{text}");
    assert!(text.starts_with("#1 thread "), "{text}");
    // The process's number in the name of the file.
    traced_by_process(folder.path());
}

fn traced_by_process(folder: &Path) {
    said_by("examples", "enumerate", &[("OPENWDDM_TRACE", &format!("calls:{}/of-%p.txt", folder.display()))]);
    let files =
        std::fs::read_dir(folder).expect("a folder").filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers = files.filter_map(|name| name.strip_prefix("of-")?.strip_suffix(".txt")?.parse::<u32>().ok());
    assert_eq!(numbers.count(), 1);
}

#[test]
fn a_variable_that_says_nothing_useful_is_told_once_and_the_program_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_from("examples", folder.path(), "offers", &["-lopenwddm"]);
    let nowhere = format!("calls:{}/no-such-folder/calls.jsonl", folder.path().display());
    for (value, words) in [("kalls", ["\"kalls\"", "give calls"]), (&nowhere, ["no-such-folder", "does not exist"])] {
        let output = run(&program, &[("OPENWDDM_TRACE", value)]);
        assert_eq!(said(&output), "taken back\n");
        let errors = String::from_utf8(output.stderr).expect("text");
        let told: Vec<&str> = errors.lines().filter(|line| line.contains("OPENWDDM_TRACE")).collect();
        assert!(told.len() == 1 && words.iter().all(|word| told[0].contains(word)), "{value}: {errors}");
        assert!(told[0].ends_with("no call is traced") && !errors.contains("openwddm: #"), "{errors}");
    }
}

/// Not a test: the daemon of the one below.
#[test]
fn the_daemon() {
    programs::daemon();
}

#[test]
fn a_program_at_a_served_kernel_is_traced_likewise() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut served = Served::start();
    let own = traced(folder.path(), "resources", ("calls", "own.jsonl"), &[("OPENWDDM_ADAPTER", "discrete-4k")]);
    let there = traced(folder.path(), "resources", ("calls", "there.jsonl"), &served.environment());
    let (own, there) = (calls(&own, "all"), calls(&there, "all"));
    assert!(own.len() > 40, "{} calls are not all", own.len());
    assert_eq!(own.iter().map(told).collect::<Vec<_>>(), there.iter().map(told).collect::<Vec<_>>());
    served.end();
}
