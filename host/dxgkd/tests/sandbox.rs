//! A child process tries the files and calls that a daemon has given up: this program again, and its environment says what to try.

use std::fs::File;
use std::io::ErrorKind;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use d3dkmt::{FenceFlags, NativeFenceRequest, SyncObjectAccess};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Files, Limits, ProcessLimits, Socket, give_up_calls, give_up_files};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use shared_words::StoresElsewhere;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, SurfaceKind};
use wddm_types::NodeId;

/// Says what the child tries.
const TRIES: &str = "OPENWDDM_TRIES";
/// A folder for it.
const FOLDER: &str = "OPENWDDM_FOLDER";
/// The signal of a forbidden system call.
const SIGSYS: i32 = 31;

/// This program once more, with nothing to do but this.
fn child(tries: &str) -> (Output, String) {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["kept", "other/kept"] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, "kept").expect("a file");
    }
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "the_child", "--nocapture", "--test-threads=1"]);
    let output = program.env(TRIES, tries).env(FOLDER, folder.path()).output().expect("it starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, text)
}

#[test]
fn the_child() {
    let Ok(tries) = std::env::var(TRIES) else { return };
    let folder = PathBuf::from(std::env::var(FOLDER).expect("a folder"));
    match tries.as_str() {
        "files" => try_files(&folder),
        "nothing" => give_up_calls().expect("a filter"),
        "open" => after_calls(|| drop(File::open("/etc/hostname").expect_err("files are given up"))),
        "socket" => after_calls(forbidden),
        "thread" => after_calls(|| drop(std::thread::spawn(forbidden).join())),
        "older thread" => {
            let (tell, told) = std::sync::mpsc::channel();
            let older = std::thread::spawn(move || told.recv().map(|()| forbidden()));
            after_calls(|| {
                tell.send(()).expect("it waits");
                drop(older.join());
            });
        }
        // The daemon checks the descriptor of its first client, and no adapter has opened such a descriptor before.
        "stores" => after_calls(|| {
            let ours = StoresElsewhere::ours().map(|ours| ours.try_clone_to_owned().expect("a descriptor"));
            let given = ours.map(|ours| StoresElsewhere::given(ours).map(drop));
            assert!(given.is_none_or(|given| given.is_ok()));
        }),
        "serve" => serve(&folder),
        "unlink that is kept" => {
            give_up_calls().expect("a filter");
            rustix::fs::unlink(folder.join("kept")).expect("the socket goes at the end");
        }
        other => panic!("{TRIES} names no test of this program: {other}"),
    }
    println!("it lives");
}

/// A system call that no daemon makes.
fn forbidden() {
    drop(std::os::unix::net::UnixDatagram::unbound());
}

fn after_calls(tries: impl FnOnce()) {
    give_up_calls().expect("a filter");
    tries();
}

fn try_files(folder: &Path) {
    if give_up_files(Some(folder), false).expect("Landlock, or none") == Files::Kept {
        println!("this kernel has no Landlock");
        return;
    }
    let denied = |result: std::io::Result<()>| {
        assert_eq!(result.expect_err("files are given up").kind(), ErrorKind::PermissionDenied);
    };
    denied(File::open("/etc/hostname").map(drop));
    denied(File::open(folder.join("kept")).map(drop));
    denied(File::create(folder.join("new")).map(drop));
    denied(std::fs::read_dir(folder).map(drop));
    denied(std::fs::remove_file("/etc/hostname"));
    denied(std::net::TcpListener::bind("127.0.0.1:0").map(drop));
    let thread = std::thread::spawn(|| File::open("/etc/hostname").map(drop));
    denied(thread.join().expect("no panic"));
    std::fs::remove_file(folder.join("kept")).expect("the socket goes at the end");
}

/// A daemon that has given up everything, until its input ends.
fn serve(folder: &Path) {
    let path = folder.join("kernel");
    let socket = Socket::bind(&path, 0o600).expect("a socket");
    give_up_files(Some(folder), false).expect("Landlock, or none");
    let mut config = HostConfig::new(Profile::named("discrete-4k").expect("a profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (8 << 20, 4 << 20, 32 << 20);
    config.isolates_processes = true;
    let host = Host::start(config).expect("a kernel");
    host.prepare_descriptors().expect("an instance of inotify");
    give_up_calls().expect("a filter");
    // The machine may be as slow as it is.
    let process = ProcessLimits { answer_ms: 60_000, ..ProcessLimits::default() };
    let daemon = Daemon::listen(host, socket, Limits { process, ..Limits::default() }).expect("a thread");
    let mut input = [0];
    while std::io::stdin().read(&mut input).is_ok_and(|read| read > 0) {}
    drop(daemon);
    println!("removed: {}", !path_is_there(&path));
    std::process::exit(0);
}

/// The filter allows no question whether a socket is there: the file is gone if it cannot be removed again.
fn path_is_there(path: &Path) -> bool {
    rustix::fs::unlink(path).is_ok()
}

/// Whether a program listens at this path: the system refuses a connection between the making of a socket and the listening.
fn listens(path: &Path) -> bool {
    // PANIC: every system that runs this has procfs, and nothing else lists listening sockets.
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("procfs");
    let listens = |line: &str| line.split_whitespace().nth(3) == Some("00010000");
    sockets.lines().any(|line| listens(line) && line.ends_with(&format!(" {}", path.display())))
}

#[test]
fn a_daemon_that_has_given_up_everything_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "the_child", "--nocapture", "--test-threads=1"]).env(TRIES, "serve");
    program.env(FOLDER, folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut daemon = program.spawn().expect("it starts");
    let path = folder.path().join("kernel");
    let began = Instant::now();
    while !listens(&path) {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not serve");
        std::thread::sleep(Duration::from_millis(2));
    }
    // The signals interrupt the daemon's waiting threads, which wait again when it goes on.
    let pid = rustix::process::Pid::from_child(&daemon);
    for signal in [rustix::process::Signal::STOP, rustix::process::Signal::CONT] {
        rustix::process::kill_process(pid, signal).expect("it is there");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::scope(|scope| {
        for seed in 1..4 {
            let path = &path;
            scope.spawn(move || work(path, seed));
        }
    });
    drop(daemon.stdin.take());
    let output = daemon.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("removed: true"), "{:?}: {text}", output.status);
    assert!(!path.exists(), "the socket has gone with the daemon");
}

/// A client's work: memory that does not hold all clients, locks, fences, queues, calls that wait, and a death.
fn work(path: &Path, seed: u32) {
    for _ in 0..2 {
        let link = SocketLink::connect(path).expect("a kernel");
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
        let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
        let surfaces: Vec<_> =
            (0..3).map(|_| gpu.create_surface(SurfaceKind::LocalThenSystem, 1 << 20).expect("a surface")).collect();
        for surface in &surfaces {
            gpu.pin(surface).expect("room for it");
            let mut commands = Commands::new();
            commands.fill(surface.va(), 1 << 20, seed);
            let value = stream.submit(&gpu, &[], &commands).expect("a submission");
            stream.wait(&gpu, value).expect("it completes");
            let lock = surface.lock().expect("it can be locked");
            assert_eq!(lock.read_word(4096), u64::from(seed) << 32 | u64::from(seed));
        }
        let fence = gpu.device().create_native_fence(Default::default()).expect("a fence");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| gpu.device().wait(&[(&fence, 1)]));
            gpu.device().signal(&fence, 1).expect("a signal");
            waits.join().expect("no panic").expect("it is signalled");
        });
        // An NT handle as a descriptor, which comes back, and of which all copies are closed.
        let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
        let fence = gpu.device().create_native_fence(NativeFenceRequest { flags, ..Default::default() });
        let fence = fence.expect("a fence");
        let name = fence.share(SyncObjectAccess::ALL_ACCESS).expect("a name");
        let descriptor = link.descriptor(name.token()).expect("a descriptor");
        assert_eq!(link.described(descriptor.as_fd()).expect("it is known"), name.token());
    }
}

#[test]
fn no_file_is_opened_made_or_removed_but_the_socket() {
    let (output, text) = child("files");
    assert!(output.status.success(), "{text}");
}

#[test]
fn a_process_that_makes_another_call_is_killed() {
    for tries in ["socket", "thread", "older thread"] {
        let (output, text) = child(tries);
        assert_eq!(output.status.signal(), Some(SIGSYS), "{tries}: {text}");
        assert!(!text.contains("it lives"), "{tries}");
    }
}

#[test]
fn what_is_kept_goes_on() {
    for tries in ["nothing", "open", "stores", "unlink that is kept"] {
        let (output, text) = child(tries);
        assert!(output.status.success() && text.contains("it lives"), "{tries}: {text}");
    }
}
