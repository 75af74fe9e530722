//! A daemon as it is meant to be: a process of its own, which has given up files and all system calls but its few before the first client
//! came. It is this test program once more, told by its environment that it is the daemon.
//!
//! ```text
//! the suite                              the daemon
//!   start ── --exact the_daemon ──►        listens: "ready"
//!   budget PROCESS BYTES ─────────►        "done"
//!   end ──────────────────────────►        stops; "in order", or the rule that does not hold
//! ```

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use dxgk_host::Host;
use dxgkd::{Daemon, Limits, ProcessLimits, Socket, give_up_calls, give_up_files};
use wddm_types::ProcessId;

use crate::{Way, config};

/// Where the daemon listens: a process with this variable set is the daemon.
const SOCKET: &str = "OPENWDDM_CONFORMANCE_SOCKET";
/// The profile of the daemon's adapter.
const PROFILE: &str = "OPENWDDM_CONFORMANCE_PROFILE";
/// The prefix of the daemon's own lines; lines of its test harness lack it.
const SAYS: &str = "daemon: ";

/// A daemon, and where it listens.
pub(crate) struct Served {
    path: PathBuf,
    talks: Mutex<Talk>,
    _folder: tempfile::TempDir,
}

struct Talk {
    child: Child,
    hears: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Served {
    pub fn start(profile: &str) -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("kernel");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "the_daemon", "--nocapture", "--test-threads=1"])
            .env(SOCKET, &path)
            .env(PROFILE, profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (hears, says) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let talk = Talk { child, hears, says: BufReader::new(says) };
        let served = Served { path, talks: Mutex::new(talk), _folder: folder };
        assert_eq!(served.hear(), "ready");
        served
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The operator gives a process a budget.
    pub fn set_budget(&self, process: ProcessId, bytes: Option<u64>) {
        let bytes = bytes.map_or("none".to_owned(), |bytes| bytes.to_string());
        assert_eq!(self.ask(&format!("budget {} {bytes}", process.0)), "done");
    }

    /// Stops it and returns its verdict on the kernel's invariants.
    pub fn end(&self) -> String {
        self.ask("end")
    }

    fn ask(&self, line: &str) -> String {
        let talk = &mut *self.talks.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(talk.hears, "{line}").expect("it lives");
        talk.hear()
    }

    fn hear(&self) -> String {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner).hear()
    }
}

impl Talk {
    fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            if self.says.read_line(&mut line).expect("a pipe") == 0 {
                panic!("the daemon has ended without a word: {:?}", self.child.wait());
            }
            if let Some((_, said)) = line.split_once(SAYS) {
                return said.trim_end().to_owned();
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let talk = self.talks.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It may have ended.
        let _ = talk.child.kill();
        let _ = talk.child.wait();
    }
}

/// Is the daemon, if this program was started as one; else returns at once.
///
/// # Panics
/// When it cannot serve, or does not understand what it is told.
pub fn daemon() {
    let Some(path) = std::env::var_os(SOCKET).map(PathBuf::from) else { return };
    let profile = std::env::var(PROFILE).expect("the suite names a profile");
    let socket = Socket::bind(&path, 0o600).expect("a socket");
    give_up_files(path.parent(), false).expect("Landlock, or none");
    let host = Host::start(config(Way::Socket, &profile)).expect("the adapter starts");
    host.prepare_descriptors().expect("an instance of inotify");
    give_up_calls().expect("a filter");
    // How long a client may take is a subject of its own, and here the machine may be as slow as it is.
    let process = ProcessLimits { answer_ms: 60_000, ..ProcessLimits::default() };
    let limits = Limits { process, ..Limits::default() };
    let daemon = Daemon::listen(Arc::clone(&host), socket, limits).expect("a thread");
    println!("{SAYS}ready");
    let mut line = String::new();
    loop {
        line.clear();
        std::io::stdin().read_line(&mut line).expect("a pipe");
        match *line.split_whitespace().collect::<Vec<_>>() {
            ["budget", process, bytes] => {
                host.set_process_budget(ProcessId(process.parse().expect("a number")), bytes.parse().ok());
                println!("{SAYS}done");
            }
            ["end"] | [] => break,
            ref other => panic!("a daemon is not told {other:?}"),
        }
    }
    drop(daemon);
    match host.check_invariants() {
        Ok(()) => println!("{SAYS}in order"),
        Err(broken) => println!("{SAYS}{broken}"),
    }
    // The harness would need more than a daemon may do.
    std::process::exit(0);
}
