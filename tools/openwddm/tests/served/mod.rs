//! A daemon for tests: started, waited for, and ended with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before it counts as never.
pub const NEVER: Duration = Duration::from_secs(120);

/// The binary with these arguments.
pub fn openwddm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openwddm"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A daemon that is ended with the test.
pub struct Daemon {
    /// Its process.
    pub child: Child,
    /// Where it listens.
    pub socket: PathBuf,
}

impl Daemon {
    /// Starts it and waits until it serves.
    pub fn start(socket: &Path, arguments: &[&str]) -> Daemon {
        let mut command = openwddm(&["serve", "--socket", socket.to_str().expect("a path in UTF-8")]);
        let child = command.args(arguments).stderr(Stdio::null()).spawn().expect("the binary starts");
        let daemon = Daemon { child, socket: socket.to_owned() };
        let began = Instant::now();
        while !listens(socket) {
            assert!(began.elapsed() < NEVER, "it does not serve");
            std::thread::sleep(Duration::from_millis(5));
        }
        daemon
    }
}

/// Whether a daemon listens at this path: between its bind and its listen the operating system refuses connections.
pub fn listens(path: &Path) -> bool {
    // PANIC: only procfs tells, and every system that runs this has it.
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("procfs");
    let listens = |line: &str| line.split_whitespace().nth(3) == Some("00010000");
    sockets.lines().any(|line| listens(line) && line.ends_with(&format!(" {}", path.display())))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended already needs no signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
