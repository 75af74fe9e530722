//! What shipped user-mode drivers expect, line by line: each is a C program of `programs`, built with `cc` as its users would, which says
//! what it expects and ends with a message where that is not so. They run with the kernel in their own process and, where it matters, as
//! processes of one that is served.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits, ProcessLimits, Socket, give_up_calls, give_up_files};

/// Says where to serve, to who is to do so; and is said when it does.
const SERVES: &str = "OPENWDDM_SERVES";

/// The folder of the libraries that this test was built with.
fn libraries() -> PathBuf {
    let program = std::env::current_exe().expect("this test is a file");
    program.parent().expect("it lies in a folder").to_path_buf()
}

fn build(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    let (here, program) = (Path::new(env!("CARGO_MANIFEST_DIR")), folder.join(name));
    let interface = here.join("../../client/d3dkmt_c");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"]);
    cc.arg("-I").arg(interface.join("include")).arg("-I").arg(interface.join("examples"));
    cc.arg(here.join(format!("tests/programs/{name}.c"))).arg("-o").arg(&program);
    cc.arg("-L").arg(libraries()).args(["-lopenwddm", "-pthread"]).args(more);
    if cfg!(feature = "wsl") {
        cc.arg("-DOPENWDDM_WSL");
    }
    let output = cc.output().expect("there is a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env_remove("OPENWDDM_SOCKET").env("LD_LIBRARY_PATH", libraries());
    command.env("OPENWDDM_REFUSALS", "1").env("OPENWDDM_VRAM", "33554432").env("OPENWDDM_SYSTEM", "67108864");
    command.envs(environment.iter().copied()).output().expect("the program runs")
}

fn said(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("panicked"), "{}: {errors}", output.status);
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// What a program prints in the process of its kernel.
fn program(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    said(&run(&build(folder.path(), name, &[]), arguments, environment))
}

/// What it prints there, and what it prints as a process of a kernel that is served.
fn both(name: &str) -> [String; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let built = build(folder.path(), name, &[]);
    let served = Served::start();
    let there = said(&run(&built, &[], &[("OPENWDDM_SOCKET", served.path())]));
    let here = said(&run(&built, &[], &[]));
    served.end();
    [here, there]
}

/// A daemon of its own.
struct Served {
    socket: PathBuf,
    daemon: Child,
    // Kept: a harness that can print nothing any more ends.
    _lines: Box<dyn std::any::Any>,
    _folder: tempfile::TempDir,
}

impl Served {
    fn start() -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("kernel");
        let mut daemon = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "the_daemon", "--nocapture", "--test-threads=1"])
            .env(SERVES, &socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(daemon.stdout.take().expect("piped")).lines();
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line == SERVES), "it serves");
        Served { socket, daemon, _lines: Box::new(lines), _folder: folder }
    }

    fn path(&self) -> &str {
        self.socket.to_str().expect("text")
    }

    fn end(mut self) {
        drop(self.daemon.stdin.take());
        assert!(self.daemon.wait().expect("it ends").success());
    }
}

/// Not a test: the daemon of the others, a process of its own with the rights of a daemon, until its input ends.
#[test]
fn the_daemon() {
    let Some(path) = std::env::var_os(SERVES).map(PathBuf::from) else { return };
    let socket = Socket::bind(&path, 0o600).expect("a socket");
    give_up_files(path.parent(), false).expect("Landlock, or none");
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let sizes = HostConfig { vram_bytes: 32 << 20, system_bytes: 64 << 20, ..HostConfig::new(profile, Mode::Real) };
    let host = Host::start(HostConfig { isolates_processes: true, ..sizes }).expect("a kernel");
    give_up_calls().expect("a filter");
    // The machine may be as slow as it is.
    let process = ProcessLimits { answer_ms: 60_000, ..ProcessLimits::default() };
    let daemon = Daemon::listen(host, socket, Limits { process, ..Limits::default() }).expect("a thread");
    println!("\n{SERVES}");
    while std::io::stdin().read(&mut [0]).is_ok_and(|read| read > 0) {}
    drop(daemon);
    // The harness would need more than a daemon may do.
    std::process::exit(0);
}

// spec: memory §4.3, memory §4.6, memory §4.8
#[test]
fn nearly_all_addresses_are_reserved_at_once() {
    assert_eq!(program("addresses", &[], &[]), "mapped where it was reserved\n");
}

// spec: memory §7.1, sync §2.5
#[test]
fn private_data_go_to_the_driver() {
    assert_eq!(program("submission_data", &[], &[]), "handed on\n");
    assert_eq!(program("submission_data", &["patched"], &[("OPENWDDM_ADAPTER", "wddm1-banks")]), "handed on\n");
}

// spec: memory §6.2, sync §4.2
#[test]
fn priorities_rise_by_one_and_lists_stand_beside_resources() {
    assert_eq!(program("small_answers", &[], &[]), "raised and freed\n");
}

// spec: memory §9.2
#[test]
fn scarcity_says_whether_something_helps() {
    assert_eq!(program("scarcity", &[], &[]), "it helped\n");
}

// spec: memory §2.7
#[test]
fn allocations_lie_over_memory_of_the_program() {
    let all = "heap\nstatic\nstack\nprotected\nread only\nothers\n";
    assert_eq!(both("program_memory"), [all, all]);
}

// spec: memory §2.7
#[test]
fn existing_heaps_need_nothing_else() {
    assert_eq!(both("existing_heap"), ["over a heap\n"; 2]);
}

#[test]
fn calls_work_until_the_process_ends() {
    let all = "main\nat exit\nanother thread at exit\ndestructor\nclosed\n";
    assert_eq!(both("at_exit"), [all, all]);
}

#[test]
fn a_child_is_refused_and_its_parent_goes_on() {
    assert_eq!(both("forks"), ["the child was refused\n"; 2]);
}

#[test]
fn a_program_handles_its_own_faults() {
    assert_eq!(both("own_handler"), ["its own handler\n"; 2]);
}

#[test]
fn a_program_may_end_without_destroying_anything() {
    assert_eq!(both("leaves"), ["left\n"; 2]);
}

/// Its code and data lie at addresses that were chosen when it was linked, low ones among them.
#[test]
fn a_program_need_not_be_position_independent() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["addresses", "program_memory"] {
        let built = build(folder.path(), name, &["-no-pie", "-fno-pie"]);
        said(&run(&built, &[], &[]));
    }
}

/// The reason is the true one: not that of another adapter, where the operating system is to blame.
// spec: memory §6.3, memory §6.7
#[test]
fn a_lock_without_an_address_says_why_it_has_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let built = build(folder.path(), "lock_reason", &[]);
    let there = run(&built, &[], &[("OPENWDDM_ADAPTER", "discrete-4k")]);
    assert_eq!(said(&there), "locked\n");
    let caches = run(&built, &[], &[("OPENWDDM_ADAPTER", "noncoherent")]);
    assert_eq!(said(&caches), "refused\n");
    let reasons = String::from_utf8_lossy(&caches.stderr).into_owned();
    assert!(reasons.contains("has the CPU's caches in software") && !reasons.contains("userfaultfd"), "{reasons}");
}
