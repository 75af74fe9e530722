//! A kernel behind a socket, and programs that use it, each a process of its own.

mod crowd;
mod daemon;
#[path = "serve/handed.rs"]
mod handed;
mod served;

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use daemon::Daemon;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use served::{NEVER, openwddm};

/// A daemon whose log is read.
struct Logged(Child);

impl Drop for Logged {
    fn drop(&mut self) {
        // One that has ended already needs no signal.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn connect(socket: &Path, more: &[&str]) -> Child {
    let mut command = openwddm(&["run", "--verify", "--connect"]);
    command.arg(socket).args(more).spawn().expect("the binary starts")
}

fn ended(child: Child) -> (Output, String) {
    let output = child.wait_with_output().expect("it ends");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, text)
}

#[test]
fn processes_share_memory_that_does_not_hold_them_and_each_finds_its_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let _daemon = Daemon::start(&socket, &["--adapter", "discrete-4k,vram=128MiB", "--system", "2GiB"]);
    let of_stage = |(seed, stage)| connect(&socket, &["--seed", seed, "--steps", "1", "--stage", stage]);
    let running: Vec<Child> = [("1", "hardware"), ("2", "packet"), ("3", "user")].into_iter().map(of_stage).collect();
    for child in running {
        let (output, text) = ended(child);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("998 operations in 1 steps") && text.contains("every byte as it was written"), "{text}");
    }
}

#[test]
fn a_process_whose_kernel_is_killed_ends_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let daemon = Daemon::start(&socket, &["--adapter", "discrete-4k,vram=128MiB", "--system", "2GiB"]);
    let child = connect(&daemon.socket, &["--steps", "1000"]);
    let began = Instant::now();
    while processes(&daemon.socket).is_empty() {
        assert!(began.elapsed() < NEVER, "it does not begin");
    }
    drop(daemon);
    let (output, text) = ended(child);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("kernel"), "{text}");
    // The socket that it has left behind does not keep the next daemon out.
    let _daemon = Daemon::start(&socket, &[]);
}

#[test]
fn a_stage_that_the_served_adapter_has_not_is_refused_with_what_to_choose() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let _daemon = Daemon::start(&socket, &["--adapter", "wddm2-packets,vram=128MiB", "--system", "2GiB"]);
    for stage in ["hardware", "user"] {
        let (output, text) = ended(connect(&socket, &["--steps", "1", "--stage", stage]));
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("not supported") && text.contains("--stage packet"), "{text}");
    }
}

#[test]
fn what_cannot_be_served_or_connected_to_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = folder.path().join("nowhere");
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        let output = openwddm(arguments).output().expect("the binary starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{part} is missing in {text}"));
    };
    let path = nowhere.to_str().expect("a path in UTF-8");
    refused(&["run", "--connect", path], 2, &[path, "No such file", "openwddm serve"]);
    refused(&["run", "--connect", path, "--vram", "1GiB"], 2, &["--vram", "cannot be used with"]);
    refused(&["run", "--connect", path, "--stage", "packet,hardware"], 2, &["--stage", "name one"]);
    refused(&["run", "--connect", path, "--policy", "planner"], 2, &["--policy planner", "leave it out"]);
    let budget = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gpt.cpu.rrs.json.gz,budget=1GiB");
    refused(&["run", budget, "--connect", path], 2, &["budget=", "leave it out", "process.budget"]);
    refused(&["serve"], 2, &["--socket"]);
    refused(&["serve", "--socket", path, "--mode", "999"], 2, &["octal"]);
    refused(&["serve", "--socket", path, "--adapter", "no-such"], 2, &["no-such", "discrete-4k"]);
    refused(&["serve", "--socket", path, "--adapter", "iommu"], 1, &["not supported", "CPU addresses"]);
    refused(&["serve", "--socket", path, "--adapter", "discrete-4k,vram=50%"], 2, &["no workload", "give bytes"]);
    refused(
        &["serve", "--socket", "/no/such/folder/kernel"],
        2,
        &["--socket /no/such/folder/kernel: /no/such/folder is no folder that is there"],
    );
    let config = folder.path().join("config.toml");
    let config = config.to_str().expect("a path in UTF-8");
    refused(&["serve", "--config", config], 2, &["config.toml", "No such file", "--write-config"]);
    std::fs::write(config, "processes = 4\n\n[process]\nhandels = 3\n").expect("a file");
    for more in [&["--socket", path][..], &["--check-config"]] {
        refused(&[&["serve", "--config", config], more].concat(), 2, &["config.toml", "line 4", "handels", "handles"]);
    }
    std::fs::write(config, "[tdr]\nlevel = \"off\"\ndelay = 1\n").expect("a file");
    refused(&["serve", "--config", config, "--check-config"], 2, &["config.toml", "does not watch", "[tdr]"]);
    refused(&["serve", "--check-config", "--adapter", "no-such"], 2, &["no-such", "discrete-4k"]);
    refused(
        &["serve", "--check-config", "--adapter", "discrete-4k,vram=1KiB"],
        1,
        &["did not start", "1024 bytes", "memory"],
    );
    let many =
        ["serve", "--check-config"].into_iter().chain(["--adapter", "discrete-4k"].into_iter().cycle().take(130));
    refused(&many.collect::<Vec<_>>(), 2, &["65", "at most 64", "another daemon"]);
    refused(&["serve", "--check-config", "--write-config"], 2, &["cannot be used with"]);
    refused(&["serve", "--socket", path, "--limit", "user.memory=much"], 2, &["user.memory=much", "no amount"]);
    let many = &["serve", "--socket", path, "--processes", "1000000000"];
    refused(many, 2, &["descriptors", "1000000000 processes", "LimitNOFILE"]);
    assert!(!nowhere.exists(), "a refused daemon leaves nothing behind");
}

/// The processes with work there, as `top` tells them.
fn processes(socket: &Path) -> Vec<serde_json::Value> {
    let output = openwddm(&["top", "--once", "--json", "--interval", "0.1", "--connect"]).arg(socket).output();
    let seen: serde_json::Value = serde_json::from_slice(&output.expect("it starts").stdout).expect("JSON");
    let all = seen["adapters"][0]["processes"].as_array().expect("a list").clone();
    all.into_iter().filter(|process| process["process"] != 0).collect()
}

#[test]
fn a_workload_has_its_class_in_a_served_kernel_and_the_budget_that_the_daemon_gives() {
    const GPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gpt.cpu.rrs.json.gz");
    let folder = tempfile::tempdir().expect("a folder");
    let adapter = ["--adapter", "discrete-4k,vram=128MiB", "--system", "2GiB"];
    let run = |socket: &Path, class: &str, steps: &str| {
        let workload = format!("{GPT},priority={class}");
        let mut command = openwddm(&["run", &workload, "--steps", steps, "--connect"]);
        command.arg(socket).spawn().expect("the binary starts")
    };
    let socket = folder.path().join("ordinary");
    let _ordinary = Daemon::start(&socket, &adapter);
    let (output, text) = ended(run(&socket, "idle", "1"));
    assert_eq!(output.status.code(), Some(0), "{text}");
    let (output, text) = ended(run(&socket, "high", "1"));
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("priority=high") && text.contains("process.raise_priority"), "{text}");

    let socket = folder.path().join("generous");
    let limits = ["--limit", "process.raise_priority=true", "--limit", "process.budget=48MiB"];
    let _generous = Daemon::start(&socket, &[&adapter[..], &limits[..]].concat());
    let mut running = [run(&socket, "high", "1000"), run(&socket, "below-normal", "1000")];
    let began = Instant::now();
    let seen = loop {
        let seen = processes(&socket);
        if seen.len() == 2 {
            break seen;
        }
        assert!(began.elapsed() < NEVER, "they do not come: {seen:#?}");
    };
    for child in &mut running {
        // Ending what has ended already is no fault.
        let _ = child.kill();
        let _ = child.wait();
    }
    let mut classes: Vec<_> = seen.iter().map(|process| process["priority_class"].as_u64()).collect();
    classes.sort_unstable();
    assert_eq!(classes, [Some(1), Some(4)], "{seen:#?}");
    for process in &seen {
        assert_eq!(process["local"]["budget_bytes"], 48 << 20, "{process:#}");
    }
}

#[test]
fn the_daemon_keeps_the_limits_of_its_configuration_and_says_who_is_over_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, config) = (folder.path().join("kernel"), folder.path().join("config.toml"));
    let printed = openwddm(&["serve", "--write-config"]).output().expect("the binary starts");
    assert_eq!(printed.status.code(), Some(0));
    let text = String::from_utf8(printed.stdout).expect("text");
    assert!(text.contains("\nhandles = 65536"), "{text}");
    std::fs::write(&config, text.replacen("\nhandles = 65536", "\nhandles = 20", 1)).expect("a file");
    let mut command = openwddm(&["serve", "--config", config.to_str().expect("a path in UTF-8")]);
    command.arg("--socket").arg(&socket).args(["--limit", "process.queued=5000"]);
    let mut daemon = Logged(command.spawn().expect("the binary starts"));
    let began = Instant::now();
    while !served::listens(&socket) {
        assert!(began.elapsed() < NEVER, "it does not serve");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (output, text) = ended(connect(&socket, &["--steps", "1"]));
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("limit of handles: the process has 20 of 20"), "{text}");
    daemon.0.kill().expect("it runs");
    let mut log = String::new();
    daemon.0.stderr.take().expect("its log").read_to_string(&mut log).expect("text");
    for part in ["limit of handles", "20 of 20", "uid=", "pid=", "process.handles"] {
        assert!(log.contains(part), "{part} is missing in {log}");
    }
}

#[test]
fn a_configuration_is_checked_without_a_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, config) = (folder.path().join("kernel"), folder.path().join("config.toml"));
    std::fs::write(&config, "processes = 3\n[[adapter]]\nprofile = \"wddm2-packets\"\n[process]\ndescriptors = 20\n")
        .expect("a file");
    let check = |more: &[&str]| {
        let mut command = openwddm(&["serve", "--check-config", "--config"]);
        let output = command.arg(&config).args(more).output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let text = check(&["--socket", socket.to_str().expect("a path in UTF-8")]);
    for part in ["wddm2-packets", "kernel", "3 processes"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!socket.exists(), "nothing listens");
    assert!(check(&[]).contains("a service manager hands over"));
}

/// Two operations on three storages of 1 MiB.
const SMALL: &str = r#"{"format": "residency-reference-string/1", "model": "small", "op_names": ["a", "b"],
 "storages": [[1048576, 1], [1048576, 1], [1048576, 1]], "events": [[0, [0], [1]], [1, [1], [2]]]}"#;

#[test]
fn a_daemon_with_few_descriptors_serves_as_many_clients_as_one_with_many() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let serve = |files: &str| {
        let mut command = std::process::Command::new("sh");
        let script = format!(
            "ulimit -n {files} && exec \"$0\" serve --socket \"$1\" --adapter discrete-4k,vram=128MiB --system 2GiB"
        );
        command.args(["-c", &script, env!("CARGO_BIN_EXE_openwddm")]).arg(&socket).stderr(std::process::Stdio::piped());
        Logged(command.spawn().expect("the shell starts"))
    };
    let mut refused = serve("400");
    assert_eq!(refused.0.wait().expect("it ends").code(), Some(2));
    let mut daemon = serve("1024");
    let began = Instant::now();
    while !served::listens(&socket) {
        assert!(began.elapsed() < NEVER, "it does not serve");
        std::thread::sleep(Duration::from_millis(5));
    }
    let small = folder.path().join("small.rrs.json");
    std::fs::write(&small, SMALL).expect("a file");
    let mut small = openwddm(&["run", small.to_str().expect("a path in UTF-8"), "--verify", "--connect"]);
    let (output, text) = ended(small.arg(&socket).spawn().expect("the binary starts"));
    assert_eq!(output.status.code(), Some(0), "{text}");
    daemon.0.kill().expect("it runs");
    let mut log = String::new();
    daemon.0.stderr.take().expect("its log").read_to_string(&mut log).expect("text");
    assert!(log.contains("each process may have 64 of 1024 sections and NT handles as descriptors"), "{log}");
}

#[test]
fn the_log_has_the_lines_of_its_level() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = |level: &str| {
        let (socket, config) = (folder.path().join(level), folder.path().join("config.toml"));
        std::fs::write(&config, format!("log = {level:?}\n")).expect("a file");
        let mut command = openwddm(&["serve", "--no-sandbox", "--adapter", "discrete-4k,vram=64MiB", "--config"]);
        let mut daemon = Logged(command.arg(&config).arg("--socket").arg(&socket).spawn().expect("the binary starts"));
        let began = Instant::now();
        while !served::listens(&socket) {
            assert!(began.elapsed() < NEVER, "it does not serve");
            std::thread::sleep(Duration::from_millis(5));
        }
        // A daemon that has answered a client handles signals, and a signal ends it behind all lines of its start.
        assert!(processes(&socket).is_empty(), "no process has work");
        kill_process(Pid::from_child(&daemon.0), Signal::TERM).expect("it runs");
        assert_eq!(daemon.0.wait().expect("it ends").code(), Some(0));
        let mut log = String::new();
        daemon.0.stderr.take().expect("its log").read_to_string(&mut log).expect("text");
        let [warned, ready] = ["keeps files", "discrete-4k at"].map(|part| log.contains(part));
        (warned, ready)
    };
    assert_eq!(["error", "warn", "info"].map(log), [(false, false), (true, false), (true, true)]);
}

/// The error of a client that runs out of descriptors, wherever that happens, names the descriptors and not the kernel; the daemon
/// serves on.
#[test]
fn a_client_without_descriptors_is_told_of_these() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon =
        Daemon::start(&folder.path().join("kernel"), &["--adapter", "discrete-4k,vram=128MiB", "--system", "2GiB"]);
    let limited = |most: u32| {
        let script = "ulimit -n $1; exec \"$0\" run --connect \"$2\" --steps 1";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_openwddm"), &most.to_string()]).arg(&daemon.socket);
        let output = command.stdin(Stdio::null()).output().expect("a shell");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let mut without = 0;
    for most in 5..=12 {
        let (code, text) = limited(most);
        if code == Some(0) {
            continue;
        }
        // 2: the connection, which an argument named, did not even begin.
        assert!(matches!(code, Some(1 | 2)), "{most}: {code:?}: {text}");
        assert!(text.contains("Too many open files"), "{most}: {text}");
        assert!(
            !text.contains("the connection to the kernel is lost") && !text.contains("version of the protocol"),
            "{most}: {text}"
        );
        without += 1;
    }
    assert!(without > 0, "12 descriptors are not enough for all of it");
    assert_eq!(limited(64).0, Some(0), "the daemon serves on");
}

#[test]
fn the_numbers_of_a_run_at_a_served_kernel_are_those_of_its_process_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, numbers) = (folder.path().join("kernel"), folder.path().join("numbers.json"));
    let small = folder.path().join("small.rrs.json");
    std::fs::write(&small, SMALL).expect("a file");
    let small = small.to_str().expect("a path in UTF-8");
    let _daemon = Daemon::start(&socket, &["--adapter", "discrete-4k,vram=64MiB", "--system", "256MiB"]);
    let run = |json: &str| {
        let mut command = openwddm(&["run", small, small, "--steps", "3", "--verify", "--seed", "7", "--json", json]);
        ended(command.arg("--connect").arg(&socket).spawn().expect("the binary starts"))
    };
    let (output, text) = run(numbers.to_str().expect("a path in UTF-8"));
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("paged in 3.00 MiB, paged out 0 bytes of its memory"), "{text}");
    let said: serde_json::Value = serde_json::from_slice(&std::fs::read(&numbers).expect("a file")).expect("JSON");
    assert_eq!((&said["seen_by"], &said["stage"], &said["seed"]), (&"client".into(), &"hardware".into(), &7.into()));
    let processes = said["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 2, "{said:#}");
    assert_ne!(processes[0]["process"], processes[1]["process"], "each is one of its own");
    for process in processes {
        let steps = process["per_step"].as_array().expect("a list");
        let sum = |field: &str| steps.iter().map(|step| step[field].as_u64().expect("a number")).sum::<u64>();
        assert_eq!((&process["steps"], steps.len(), &process["verify"]), (&3.into(), 3, &"ok".into()), "{process:#}");
        for moved in ["paged_in_bytes", "paged_out_bytes", "discarded_bytes"] {
            assert_eq!(process[moved], sum(moved), "{moved} of {process:#}");
        }
        assert_eq!(process["paged_in_bytes"], 3 << 20, "its three storages, once: {process:#}");
        assert!(process["elapsed_ns"].as_u64() > Some(0), "{process:#}");
    }
    let (output, text) = run("/dev/stdout");
    assert_eq!(output.status.code(), Some(0), "{text}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
    assert_eq!(said["processes"][0]["ops"], processes[0]["ops"]);
}
