//! Failures on demand at the command line and in a served kernel.

mod daemon;
mod served;

use std::path::{Path, PathBuf};

use daemon::Daemon;
use served::openwddm;

const SMALL: [&str; 4] = ["--adapter", "discrete-4k,vram=128MiB", "--system", "1GiB"];

fn workload() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workload/replay/tests/recordings/mlp_one_step.exact.rrs.json.gz")
}

/// Exit code, output, and errors.
fn said(arguments: &[&str], variable: Option<&str>) -> (Option<i32>, String, String) {
    let mut command = openwddm(arguments);
    command.env_remove("OPENWDDM_FAULTS").envs(variable.map(|text| ("OPENWDDM_FAULTS", text)));
    let output = command.output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_list_has_forms_calls_and_statuses_and_a_text_is_explained() {
    let (code, text, _) = said(&["faults", "--list"], None);
    assert_eq!(code, Some(0));
    for word in ["CALL#N=STATUS", "interrupt=drop N/M", "  MakeResident\n", "  CreateAllocation\n", "  NO_MEMORY\n"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    let (code, text, _) = said(&["faults", "MakeResident#3=NO_MEMORY; device=remove@call 100"], None);
    assert_eq!(code, Some(0));
    assert_eq!(
        text,
        "MakeResident#3=NO_MEMORY: call number 3 of MakeResident fails with STATUS_NO_MEMORY (0xc0000017), before it reaches the kernel\n\
         device=remove@call 100: the device is pulled out with call 100\n"
    );
}

#[test]
fn a_wrong_text_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let path = socket.to_str().expect("a path in UTF-8");
    let wrong = "seed=1; MakeResident#3=NO_MEM";
    for (arguments, variable) in [
        (&["faults", wrong][..], None),
        (&["faults"], None),
        (&["serve", "--socket", path, "--faults", wrong], None),
        (&["serve", "--socket", path], Some(wrong)),
    ] {
        let (code, _, error) = said(arguments, variable);
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
        assert!(arguments == ["faults"] || error.contains("clause 2") && error.contains("NO_MEM"), "{error}");
        assert!(!socket.exists(), "{arguments:?} has begun to serve");
    }
}

/// The faults of a served kernel count the calls of all its clients: the first client fails, the second one runs.
#[test]
fn a_client_of_a_served_kernel_gets_the_status_and_the_next_one_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let faults = ["--faults", "CreateDevice#1=NO_MEMORY"];
    let daemon = Daemon::start(&socket, &[&SMALL[..], &faults].concat());
    let workload = workload();
    let run = [
        "run",
        workload.to_str().expect("a path in UTF-8"),
        "--connect",
        daemon.socket.to_str().expect("a path in UTF-8"),
    ];
    let (code, _, error) = said(&run, None);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("STATUS_NO_MEMORY") && error.contains("CreateDevice number 1"), "{error}");
    let (code, text, error) = said(&run, None);
    assert_eq!(code, Some(0), "{text}{error}");
}

/// The same hang has the consequence that `[tdr]` says: the kernel resets what hangs and goes on, or stops the adapter.
#[test]
fn the_watch_for_hangs_of_a_served_kernel_is_its_configuration_s() {
    // spec: sync §4.4
    let folder = tempfile::tempdir().expect("a folder");
    let workload = workload();
    let after_a_hang = |level: &str| {
        let (socket, config) = (folder.path().join(level), folder.path().join(format!("{level}.toml")));
        std::fs::write(&config, format!("[tdr]\nlevel = {level:?}\ndelay = 0.05\n")).expect("a file");
        let config = ["--config", config.to_str().expect("a path in UTF-8"), "--faults", "engine 0=hang@call 100"];
        let daemon = Daemon::start(&socket, &[&SMALL[..], &config].concat());
        let path = daemon.socket.to_str().expect("a path in UTF-8");
        let run = ["run", workload.to_str().expect("a path in UTF-8"), "--connect", path];
        let (code, text, error) = said(&run, None);
        assert_eq!(code, Some(1), "its work did not end: {text}{error}");
        let (next, text, error) = said(&run, None);
        (format!("{text}{error}").contains("the adapter was stopped"), next)
    };
    assert_eq!(after_a_hang("recover"), (false, Some(0)), "the next client has the adapter again");
    assert_eq!(after_a_hang("bugcheck"), (true, Some(1)), "no client has an adapter that stopped");
}
