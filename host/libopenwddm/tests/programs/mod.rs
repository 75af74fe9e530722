//! How the tests of this crate build C programs, run them in a process with a kernel of its own, or bring them to a kernel that is served.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits, ProcessLimits, Socket, give_up_calls, give_up_files};
use tempfile::TempDir;

/// Tells the daemon where to serve; the daemon says it back when it does.
const SERVES: &str = "OPENWDDM_SERVES";
/// Tells it the adapter.
const PROFILE: &str = "OPENWDDM_SERVES_PROFILE";

/// The folder of the libraries that this test was built with.
pub fn libraries() -> PathBuf {
    let program = std::env::current_exe().expect("this test is a file");
    program.parent().expect("it lies in a folder").to_path_buf()
}

/// The C interface: its header, its examples, its tests.
pub fn interface() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../client/d3dkmt_c")
}

/// Builds a program of a folder of the interface.
pub fn build_from(sources: &str, folder: &Path, name: &str, link: &[&str]) -> PathBuf {
    let program = folder.join(name);
    build_source(&interface().join(format!("{sources}/{name}.c")), &program, link);
    program
}

/// Builds a program.
pub fn build_source(source: &Path, program: &Path, link: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"]);
    cc.arg("-I").arg(interface().join("include")).arg("-I").arg(interface().join("examples"));
    cc.arg(source).arg("-o").arg(program).arg("-L").arg(libraries()).args(link).arg("-pthread");
    if cfg!(feature = "wsl") {
        cc.arg("-DOPENWDDM_WSL");
    }
    let output = cc.output().expect("there is a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a program, with a kernel of its own if the environment names none.
pub fn run(program: &Path, environment: &[(&str, &str)]) -> Output {
    command(program, environment).output().expect("the program runs")
}

/// A program, to be run with a kernel of its own if the environment names none.
pub fn command(program: &Path, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.env_remove("OPENWDDM_SOCKET").env("LD_LIBRARY_PATH", libraries()).env("OPENWDDM_REFUSALS", "1");
    command.env("OPENWDDM_VRAM", "33554432").envs(environment.iter().copied());
    command
}

/// Builds and runs a program; returns its output.
pub fn said_by(sources: &str, name: &str, environment: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    said(&run(&build_from(sources, folder.path(), name, &["-lopenwddm"]), environment))
}

/// The output of a program, which must have ended well.
pub fn said(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("panicked"), "{}: {errors}", output.status);
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The daemon of [`Served`]: a process of its own with the rights of a daemon, until its input ends. Each test program has a test of the name
/// `the_daemon` that calls it.
pub fn daemon() {
    let Some(path) = std::env::var_os(SERVES).map(PathBuf::from) else { return };
    // Before it gives up files.
    let profile = std::env::var(PROFILE).expect("the test says it");
    let profile = Profile::asked(&profile).expect("a profile");
    let socket = Socket::bind(&path, 0o600).expect("a socket");
    give_up_files(path.parent(), false).expect("Landlock, or none");
    let sizes = HostConfig { vram_bytes: 32 << 20, system_bytes: 64 << 20, ..HostConfig::new(profile, Mode::Real) };
    let host = Host::start(HostConfig { isolates_processes: true, ..sizes }).expect("a kernel");
    host.prepare_descriptors().expect("an instance of inotify");
    give_up_calls().expect("a filter");
    // The machine may be as slow as it is.
    let process = ProcessLimits { answer_ms: 60_000, ..ProcessLimits::default() };
    let daemon = Daemon::listen(Arc::clone(&host), socket, Limits { process, ..Limits::default() }).expect("a thread");
    println!("\n{SERVES}");
    while std::io::stdin().read(&mut [0]).is_ok_and(|read| read > 0) {}
    drop(daemon);
    // The kernel reaps each process before the program ends, as that of a slow end does.
    while Arc::strong_count(&host) > 1 {
        // A daemon has given up the calls of `sleep`.
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    // The harness would need more than a daemon may do.
    std::process::exit(0);
}

/// A kernel that is served by another process.
pub struct Served {
    daemon: Child,
    /// Kept: a harness that can print nothing any more ends.
    _lines: std::io::Lines<BufReader<ChildStdout>>,
    socket: PathBuf,
    _folder: TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Served {
    /// Starts the daemon.
    pub fn start() -> Served {
        Served::of("discrete-4k")
    }

    /// Starts the daemon with this adapter.
    pub fn of(profile: &str) -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("kernel");
        let mut daemon = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "the_daemon", "--nocapture", "--test-threads=1"])
            .env(SERVES, &socket)
            .env(PROFILE, profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(daemon.stdout.take().expect("piped")).lines();
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line == SERVES), "it serves");
        Served { daemon, _lines: lines, socket, _folder: folder }
    }

    /// The environment of a program that is to come to it: its own kernel is not even started.
    pub fn environment(&self) -> [(&'static str, &str); 2] {
        [("OPENWDDM_SOCKET", self.socket.to_str().expect("text")), ("OPENWDDM_ADAPTER", "no-such-profile")]
    }

    /// Kills the daemon, if it runs.
    pub fn kill(&mut self) {
        self.daemon.kill().expect("a child of this program");
        self.daemon.wait().expect("a child of this program");
    }

    /// Ends the daemon; its socket is there still, and leads nowhere.
    pub fn end(&mut self) {
        drop(self.daemon.stdin.take());
        assert!(self.daemon.wait().expect("it ends").success());
    }
}
