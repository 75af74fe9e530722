//! `openwddm top` beside a kernel that serves other processes: it counts figures for the process that made them, and leaves the terminal
//! as it was.

mod daemon;
mod served;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use softgpu_umd::{Gpu, SurfaceKind};

use daemon::Daemon;
use served::{NEVER, openwddm};

const MIB: u64 = 1 << 20;

fn daemon() -> (Daemon, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    (Daemon::start(&socket, &["--adapter", "discrete-4k,vram=128MiB", "--system", "1GiB"]), folder)
}

fn look(daemon: &Daemon) -> Value {
    let output = openwddm(&["top", "--once", "--json", "--interval", "0.2", "--connect"])
        .arg(&daemon.socket)
        .output()
        .expect("the binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The sum over those of a list whose field `key` is this.
fn sum_where(values: &Value, key: &str, is: &Value, field: &str) -> u64 {
    let values = values.as_array().expect("a list").iter().filter(|value| value[key] == *is);
    values.map(|value| value[field].as_u64().expect("a number")).sum()
}

#[test]
fn figures_are_those_of_the_processes_that_made_them() {
    let (daemon, _folder) = daemon();
    let link = kmt_link::socket::SocketLink::connect(&daemon.socket).expect("a kernel");
    let gpu = Gpu::open(link).expect("an adapter");
    let ours = |seen: &Value| {
        let processes = seen["adapters"][0]["processes"].as_array().expect("a list").clone();
        processes.into_iter().find(|process| process["process"] != 0).expect("we have a device")
    };
    let before = ours(&look(&daemon));
    let surfaces: Vec<_> =
        (0..3).map(|_| gpu.create_surface(SurfaceKind::Local, 4 * MIB).expect("a surface")).collect();
    surfaces[..2].iter().for_each(|surface| gpu.pin(surface).expect("room"));
    let seen = look(&daemon);
    let after = ours(&seen);
    let grown = |field: &str| after[field].as_u64().expect("a number") - before[field].as_u64().expect("a number");
    assert_eq!(after["pid"], std::process::id());
    let comm = std::fs::read_to_string("/proc/self/comm").expect("this program has a name");
    assert_eq!(after["name"], comm.trim_end(), "the daemon, which can open no file, was told it");
    assert_eq!((grown("allocations"), grown("allocated_bytes")), (3, 12 * MIB));
    assert_eq!((grown("resident_bytes"), grown("committed_bytes")), (8 * MIB, 8 * MIB));
    assert_eq!(
        after["local"]["usage_bytes"].as_u64().expect("a number"),
        gpu.adapter().video_memory_info(true).expect("an answer").current_usage_bytes
    );
    let adapter = &seen["adapters"][0];
    assert_eq!(adapter["adapter"], "discrete-4k");
    assert_eq!(adapter["segments"][0]["capacity_bytes"], 128 * MIB);
    assert!(adapter["elapsed_ns"].as_u64().expect("a number") >= 200_000_000);
    for segment in adapter["segments"].as_array().expect("a list") {
        let theirs = |field: &str| -> u64 {
            let of = |process: &Value| sum_where(&process["segments"], "segment", &segment["segment"], field);
            adapter["processes"].as_array().expect("a list").iter().map(of).sum()
        };
        let number = |field: &str| segment[field].as_u64().expect("a number");
        assert_eq!(theirs("committed_bytes") + number("unowned_bytes"), number("committed_bytes"), "{segment}");
        assert_eq!(theirs("resident_bytes"), number("resident_bytes") + number("repeated_bytes"), "{segment}");
    }
    drop(surfaces);
    // The drop does not wait for the destruction; the kernel answers a later call of this process behind it.
    gpu.adapter().video_memory_info(true).expect("an answer");
    let left = ours(&look(&daemon));
    assert_eq!(left["allocations"], before["allocations"], "and what is destroyed is not there any more");
}

#[test]
fn a_workload_beside_it_is_seen_at_work() {
    let (daemon, _folder) = daemon();
    let mut running =
        openwddm(&["run", "--steps", "1000", "--connect"]).arg(&daemon.socket).spawn().expect("it starts");
    let began = Instant::now();
    let adapter = loop {
        let seen = look(&daemon)["adapters"][0].clone();
        let mut loads = seen["processes"].as_array().expect("a list").iter().filter(|process| process["process"] != 0);
        // The workload is larger than the memory: something is paged.
        if loads.any(|process| process["load"].as_f64() > Some(0.0))
            && seen["paging"]["filled_bytes"].as_u64() > Some(0)
        {
            break seen;
        }
        assert!(began.elapsed() < NEVER, "no process has a load, or nothing is paged: {seen:#}");
    };
    // Ending what has ended already is no fault.
    let _ = running.kill();
    let _ = running.wait();
    let nodes = adapter["nodes"].as_array().expect("a list");
    let busiest = nodes.iter().max_by_key(|node| node["completed"].as_u64()).expect("a node");
    assert!(busiest["completed"].as_u64() > Some(0) && busiest["load"].as_f64() <= Some(1.0), "{busiest}");
    assert!(busiest["completed"].as_u64() <= busiest["submitted"].as_u64(), "{busiest}");
    // Nothing has more than there is.
    for segment in adapter["segments"].as_array().expect("a list") {
        assert!(segment["committed_bytes"].as_u64() <= segment["capacity_bytes"].as_u64(), "{segment}");
    }
    let text =
        openwddm(&["top", "--once", "--interval", "0.1", "--connect"]).arg(&daemon.socket).output().expect("it starts");
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("engines") && text.contains("discrete-4k") && text.contains("processes"), "{text}");
}

#[test]
fn a_workload_that_feeds_its_queues_itself_is_seen_at_work_too() {
    // spec: sync §3.17
    let (daemon, _folder) = daemon();
    let mut running = openwddm(&["run", "--steps", "1000", "--stage", "user", "--connect"])
        .arg(&daemon.socket)
        .spawn()
        .expect("it starts");
    let began = Instant::now();
    let adapter = loop {
        let seen = look(&daemon)["adapters"][0].clone();
        if seen["nodes"][0]["load"].as_f64() > Some(0.0) {
            break seen;
        }
        assert!(began.elapsed() < NEVER, "no process has a load: {seen:#}");
    };
    // Ending what has ended already is no fault.
    let _ = running.kill();
    let _ = running.wait();
    let processes = adapter["processes"].as_array().expect("a list");
    let theirs = processes.iter().find(|process| process["process"] != 0).expect("its process");
    // No other process uses the engine, and the kernel has handed it nothing.
    for field in ["load", "running_ns"] {
        assert_eq!(theirs["nodes"][0][field], adapter["nodes"][0][field], "{adapter:#}");
    }
    assert_eq!(adapter["nodes"][0]["submitted"], 0, "{adapter:#}");
    assert!(adapter["nodes"][0]["load"].as_f64() <= Some(1.0), "{adapter:#}");
}

#[test]
fn what_cannot_be_watched_is_refused_with_what_to_do() {
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        let output = openwddm(arguments).output().expect("the binary starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "{part} is missing in {text}"));
    };
    refused(&["top"], 2, &["--connect"]);
    refused(&["top", "--connect", "/no/such/kernel", "--once"], 2, &["/no/such/kernel", "openwddm serve"]);
    refused(&["top", "--connect", "/no/such/kernel", "--json"], 2, &["--once"]);
    refused(&["top", "--connect", "/no/such/kernel", "--interval", "0"], 2, &["0.1 to 60"]);
    let (daemon, _folder) = daemon();
    refused(&["top", "--connect", daemon.socket.to_str().expect("UTF-8")], 2, &["no terminal", "--once"]);
}

/// A terminal, and a program that has it.
struct Watched {
    ours: std::fs::File,
    theirs: OwnedFd,
    child: Child,
    seen: String,
}

impl Watched {
    fn start(mut command: Command) -> Watched {
        // The test alone has it: it goes when the test lets it go.
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&ours).expect("a terminal");
        unlockpt(&ours).expect("a terminal");
        let name = ptsname(&ours, Vec::new()).expect("its name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("its other end");
        tcsetwinsize(&theirs, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).expect("a size");
        let end = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("it starts");
        Watched { ours: std::fs::File::from(ours), theirs, child, seen: String::new() }
    }

    /// Reads until the terminal has shown this since the last question.
    fn until(&mut self, part: &str) {
        let mut some = [0; 4096];
        while !self.seen.contains(part) {
            let got = self.ours.read(&mut some).expect("the terminal is there");
            self.seen.push_str(&String::from_utf8_lossy(&some[..got]));
        }
        self.seen.clear();
    }

    fn press(&mut self, keys: &[u8]) {
        self.ours.write_all(keys).expect("the terminal is there");
    }

    /// Waits for the end; returns the exit code, and the text that was shown.
    fn ended(self) -> (Option<i32>, String) {
        let Watched { mut ours, theirs, mut child, mut seen } = self;
        // The program would wait for a terminal that is full. The read ends when no process has the other end open.
        let rest = std::thread::spawn(move || {
            let mut rest = Vec::new();
            let _ = ours.read_to_end(&mut rest);
            rest
        });
        let status = child.wait().expect("it ends");
        let mode = tcgetattr(&theirs).expect("a mode");
        assert!(mode.local_modes.contains(rustix::termios::LocalModes::ICANON | rustix::termios::LocalModes::ECHO));
        drop(theirs);
        seen.push_str(&String::from_utf8_lossy(&rest.join().expect("it reads")));
        assert!(seen.contains("\u{1b}[?1049l") && seen.contains("\u{1b}[?25h"), "{seen:?}");
        (status.code(), seen)
    }
}

fn watched(daemon: &Daemon) -> Watched {
    // A shell has a test in the background ignore these signals, and so would the program.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,QUIT", env!("CARGO_BIN_EXE_openwddm")]);
    command.args(["top", "--interval", "0.1", "--connect"]).arg(&daemon.socket);
    let mut watched = Watched::start(command);
    watched.until("engines");
    watched
}

#[test]
fn however_it_ends_the_terminal_is_what_it_was() {
    let (daemon, _folder) = daemon();
    for (keys, code) in [(&b"q"[..], 0), (b"?xq", 0), (b"\x03", 0), (b"/q\x03", 0)] {
        let mut top = watched(&daemon);
        top.press(keys);
        assert_eq!(top.ended().0, Some(code), "{keys:?}");
    }
    let top = watched(&daemon);
    let id = rustix::process::Pid::from_child(&top.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it is there");
    assert_eq!(top.ended().0, Some(0), "a signal");
    let top = watched(&daemon);
    let id = rustix::process::Pid::from_child(&top.child);
    rustix::process::kill_process(id, rustix::process::Signal::QUIT).expect("it is there");
    assert_eq!(top.ended().0, None, "a signal that ends a program at once");
    let top = watched(&daemon);
    drop(daemon);
    let (code, shown) = top.ended();
    assert_eq!(code, Some(1));
    assert!(shown.contains("error: ") && shown.contains("start the kernel again"), "{shown:?}");
}

#[test]
fn it_ends_when_its_terminal_has_gone_also_when_the_kernel_does_not_answer() {
    let (daemon, _folder) = daemon();
    let daemon_id = rustix::process::Pid::from_child(&daemon.child);
    for answers in [true, false] {
        let Watched { ours, theirs, mut child, .. } = watched(&daemon);
        if !answers {
            rustix::process::kill_process(daemon_id, rustix::process::Signal::STOP).expect("it is there");
        }
        // Closes the terminal, as a closed window would; the program is of no session, and gets no signal.
        drop((ours, theirs));
        let began = Instant::now();
        let code = loop {
            if let Some(status) = child.try_wait().expect("it is there") {
                break status.code();
            }
            if began.elapsed() > NEVER {
                let _ = child.kill();
                panic!("it goes on without a terminal");
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert_eq!(code, Some(0), "as by the signal that others get");
    }
    rustix::process::kill_process(daemon_id, rustix::process::Signal::CONT).expect("it is there");
}

#[test]
fn a_second_signal_finds_the_terminal_given_back() {
    let (daemon, _folder) = daemon();
    let top = watched(&daemon);
    let daemon_id = rustix::process::Pid::from_child(&daemon.child);
    // A kernel that does not answer keeps it from seeing the first.
    rustix::process::kill_process(daemon_id, rustix::process::Signal::STOP).expect("it is there");
    let id = rustix::process::Pid::from_child(&top.child);
    let terms = std::thread::spawn(move || {
        // It ends by the second that it sees; signals that come together are one.
        while rustix::process::kill_process(id, rustix::process::Signal::TERM).is_ok()
            && std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()))
                .is_ok_and(|stat| !stat.contains(") Z "))
        {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    // 0 when the program saw the first signal before its next call of the kernel, else 130.
    assert!(matches!(top.ended().0, Some(0 | 130)));
    terms.join().expect("it ends");
    rustix::process::kill_process(daemon_id, rustix::process::Signal::CONT).expect("it is there");
}

/// The program that the next test starts in a terminal of its own.
#[test]
fn panics_in_a_terminal() {
    if std::env::var_os("PANICS_IN_A_TERMINAL").is_some() {
        let mut screen = activity::top::screen::Screen::take().expect("a terminal");
        screen.show(|_, _| ()).expect("a terminal");
        panic!("in the middle of it");
    }
}

#[test]
fn after_a_panic_the_terminal_is_what_it_was_and_the_message_can_be_read() {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "panics_in_a_terminal", "--nocapture"]).env("PANICS_IN_A_TERMINAL", "1");
    let (code, shown) = Watched::start(command).ended();
    assert_ne!(code, Some(0));
    let (_, after) = shown.split_once("\u{1b}[?1049l").expect("it was left");
    assert!(after.contains("in the middle of it"), "{shown:?}");
}
