//! The binary for tests, and whether a daemon serves.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long anything may take before it counts as never.
pub const NEVER: Duration = Duration::from_secs(120);

/// The binary with these arguments.
pub fn openwddm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openwddm"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Whether a daemon listens at this path: between its bind and its listen the operating system refuses connections.
pub fn listens(path: &Path) -> bool {
    // PANIC: only procfs tells, and every system that runs this has it.
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("procfs");
    let listens = |line: &str| line.split_whitespace().nth(3) == Some("00010000");
    sockets.lines().any(|line| listens(line) && line.ends_with(&format!(" {}", path.display())))
}
