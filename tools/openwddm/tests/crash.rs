//! A panic of the kernel leaves a record, which a process of its own writes where the configuration says, and a line in the log. The hook of
//! panics is the whole program's, so each test runs it in a program of its own: in this one, and in this one started again as a daemon in
//! its sandbox.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use dxgkd::{Daemon, Limits, Outside, Socket, give_up_calls, give_up_files};
use events::{Event, Tracer};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use openwddm::serve::crash::{LastEvents, log_panics, record_panics};

/// Panics at the first device.
struct Falls;

impl Tracer for Falls {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        assert!(!matches!(event, Event::DeviceCreated { .. }), "a defect of the kernel");
    }
}

/// The outside process, which writes records into a folder if there is one.
fn outside(records: Option<&Path>) -> Arc<Outside> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_openwddm"));
    program.arg("serve-outside");
    if let Some(records) = records {
        program.arg("--records").arg(records);
    }
    Arc::new(Outside::start(program).expect("it starts"))
}

/// A kernel that falls over a device, and whose last events a record has.
fn falls(last: LastEvents, mode: Mode) -> HostConfig {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    HostConfig { tracer: Box::new((last, Falls)), ..HostConfig::new(profile, mode) }
}

/// The only record there, after its first line.
fn the_record(records: &Path, thread: &str) {
    let files: Vec<_> =
        std::fs::read_dir(records).expect("the folder").map(|file| file.expect("a file").path()).collect();
    let [path] = &files[..] else { panic!("one record: {files:?}") };
    let text = std::fs::read_to_string(path).expect("its text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], concat!("openwddm ", env!("CARGO_PKG_VERSION")));
    let reason = format!("reason: thread \"{thread}\" panicked at ");
    assert!(lines[1].starts_with(&reason) && lines[1].ends_with("a defect of the kernel"), "{text}");
    assert_eq!(lines[2], "adapters: discrete-4k");
    assert!(lines.last().is_some_and(|last| last.contains("DeviceCreated")), "{text}");
}

#[test]
fn a_kernel_that_falls_leaves_a_record_with_the_reason_and_its_last_events() {
    if std::env::var_os(FOLDER).is_some() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let outside = outside(Some(folder.path()));
    let own = i32::try_from(std::process::id()).expect("a number of the operating system");
    assert!(outside.name_of(own).is_some_and(|name| !name.is_empty()), "it looks at processes");
    assert!(outside.file().is_err(), "it was told no file");

    let last = LastEvents::default();
    record_panics(Arc::clone(&outside), last.clone(), "discrete-4k".to_owned());
    let host = Host::start(falls(last, Mode::Virtual { stored: false }));
    let link: Arc<dyn Link> = ProcessLink::new(host.expect("a kernel"));
    let falls = std::thread::Builder::new().name("lane 7".to_owned());
    let falls = falls.spawn(move || softgpu_umd::Gpu::open(link).map(drop)).expect("a thread");
    assert!(falls.join().is_err(), "the kernel falls over a device");
    the_record(folder.path(), "lane 7");
}

/// Where the daemon of the next tests has its socket, and its records if there is a folder for them.
const FOLDER: &str = "OPENWDDM_CRASH_FOLDER";

/// The daemon of the next tests: nothing else is run in its program. It gives up files and system calls as `openwddm serve` does, in that order.
#[test]
fn the_daemon_of_the_next_tests() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).finish();
    tracing::subscriber::set_global_default(log).expect("it is the first");
    let socket = Socket::bind(&folder.join("kernel"), 0o600).expect("a socket");
    let records = Some(folder.join("records")).filter(|records| records.exists());
    let outside = outside(records.as_deref());
    let last = LastEvents::default();
    if records.is_some() {
        record_panics(Arc::clone(&outside), last.clone(), "discrete-4k".to_owned());
    } else {
        log_panics();
    }
    give_up_files(Some(&folder), false).expect("Landlock, or none");
    let host = Host::start(HostConfig { isolates_processes: true, ..falls(last, Mode::Real) }).expect("a kernel");
    give_up_calls().expect("a filter");
    let names = Box::new(move |pid| outside.name_of(pid));
    let _daemon = Daemon::listen_with(Arc::clone(&host), socket, Limits::default(), names).expect("it serves");
    // Until the other program has seen enough.
    let _ = std::io::stdin().read(&mut [0]);
}

/// A daemon in its sandbox whose kernel falls over the first client's device: the daemon disconnects the client and goes on until it is told to
/// end. Returns how it ended, and its log.
fn a_daemon_that_falls(folder: &Path) -> (ExitStatus, String) {
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "the_daemon_of_the_next_tests", "--test-threads=1", "--nocapture"]).env(FOLDER, folder);
    // A backtrace takes calls that the sandbox forbids.
    program.env("RUST_BACKTRACE", "1");
    program.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut daemon = program.spawn().expect("it starts");
    let began = Instant::now();
    let link = loop {
        match SocketLink::connect(&folder.join("kernel")) {
            Ok(link) => break link,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(120), "it does not serve: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let fell = softgpu_umd::Gpu::open(Arc::clone(&link) as Arc<dyn Link>);
    assert!(fell.is_err(), "the kernel falls over the device of this client");
    assert!(link.own_events().is_err(), "the daemon has disconnected the client");
    drop(daemon.stdin.take());
    let ended = daemon.wait_with_output().expect("it ends");
    (ended.status, String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[test]
fn a_sandboxed_daemon_whose_kernel_falls_leaves_a_record_and_disconnects_its_clients() {
    if std::env::var_os(FOLDER).is_some() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("records")).expect("a folder");
    let (ended, log) = a_daemon_that_falls(folder.path());
    the_record(&folder.path().join("records"), "lane 1");
    assert_eq!(ended.signal(), None, "{log}");
}

/// The daemon has no place for records: it logs the reason, and no forbidden call ends it.
#[test]
fn a_sandboxed_daemon_without_records_logs_why_its_kernel_fell_and_disconnects_its_clients() {
    if std::env::var_os(FOLDER).is_some() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (ended, log) = a_daemon_that_falls(folder.path());
    assert_eq!(ended.signal(), None, "{log}");
    let line = log.lines().find(|line| line.contains("thread \"lane 1\" panicked at ")).expect("a line of the log");
    assert!(line.ends_with("a defect of the kernel"), "{line}");
}
