//! A daemon while it serves: it reads the limits of its configuration again at a signal, although it has given up files, for processes that come
//! and for those that are there; and its log has an adapter that stops.

mod served;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr};
use std::time::{Duration, Instant};

use kmt_link::socket::SocketLink;
use rustix::process::{Pid, Signal, kill_process};
use served::{NEVER, openwddm};
use softgpu_umd::{Gpu, SurfaceKind, UmdError};
use wddm_types::NtStatus;

/// A daemon over a file in a folder, and its log.
struct Reloading {
    child: Child,
    log: BufReader<ChildStderr>,
    folder: tempfile::TempDir,
}

impl Reloading {
    fn start(text: &str) -> Reloading {
        Reloading::with(text, &[])
    }

    fn with(text: &str, more: &[&str]) -> Reloading {
        let folder = tempfile::tempdir().expect("a folder");
        let (config, socket) = (folder.path().join("config.toml"), folder.path().join("kernel"));
        std::fs::write(&config, text).expect("a file");
        let mut command = openwddm(&["serve", "--adapter", "discrete-4k,vram=64MiB", "--system", "256MiB", "--config"]);
        let mut child =
            command.arg(&config).arg("--socket").arg(&socket).args(more).spawn().expect("the binary starts");
        let log = BufReader::new(child.stderr.take().expect("its log"));
        let began = Instant::now();
        while !served::listens(&socket) {
            assert!(began.elapsed() < NEVER, "it does not serve");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut daemon = Reloading { child, log, folder };
        // The daemon says that it serves when it hears signals; its socket is there before.
        daemon.logged(" after ");
        daemon
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("kernel")
    }

    /// Another file takes the place of the configuration, as editors do it; returns the line of the log that answers the signal.
    fn reload(&mut self, text: &str) -> String {
        let new = self.folder.path().join("new.toml");
        std::fs::write(&new, text).expect("a file");
        self.reload_from(&new)
    }

    /// The same with a file of any kind.
    fn reload_from(&mut self, new: &Path) -> String {
        std::fs::rename(new, self.folder.path().join("config.toml")).expect("it takes its place");
        kill_process(Pid::from_child(&self.child), Signal::HUP).expect("it runs");
        self.logged("was read again")
    }

    /// The next line of the log that has this text.
    fn logged(&mut self, text: &str) -> String {
        let lines = self.log.by_ref().lines().map_while(Result::ok);
        let mut lines = lines.skip_while(|line| !line.contains(text));
        lines.next().unwrap_or_else(|| panic!("it has ended: {:?}", self.child.try_wait()))
    }
}

impl Drop for Reloading {
    fn drop(&mut self) {
        // One that has ended already needs no signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn new_limits_hold_for_processes_that_come_and_that_are_there_and_a_wrong_file_changes_nothing() {
    let mut daemon = Reloading::start("[process]\nsync_objects = 4096\n");
    let gpu = Gpu::open(SocketLink::connect(&daemon.socket()).expect("a kernel")).expect("an adapter");
    let fence = |gpu: &Gpu| gpu.device().create_native_fence(Default::default());
    let has: Vec<_> = (0..20).map(|_| fence(&gpu).expect("within the limits")).collect();

    let line = daemon.reload("[process]\nsync_objects = 10\n");
    assert!(line.contains("its limits hold, for processes that are connected, too"), "{line}");
    let refused = fence(&gpu).err().expect("it has more than it may");
    assert_eq!(refused.status, NtStatus::NO_MEMORY);
    assert!(refused.reason.contains("of 10"), "{}", refused.reason);
    assert_eq!(has.len(), 20, "what it has stays its own");
    gpu.device().signal(&has[19], 1).expect("and can be used");
    let other = Gpu::open(SocketLink::connect(&daemon.socket()).expect("a kernel")).expect("an adapter");
    let made: Vec<_> = std::iter::from_fn(|| fence(&other).ok()).take(20).collect();
    assert!(made.len() < 10, "a process that comes has the limit, too: {}", made.len());

    let line = daemon.reload("[process]\nsync_objects = 4096\nhandels = 7\n");
    assert!(line.contains("nothing has changed") && line.contains("config.toml") && line.contains("line 3"), "{line}");
    assert!(fence(&gpu).is_err(), "the limits are those of before");
    let line = daemon.reload("[process]\nsync_objects = 10\n");
    assert!(line.contains("no limit has changed") && !line.contains("next one"), "{line}");
    let fixed = "log = \"info\"\n[process]\nsync_objects = 10\n[tdr]\ndelay = 5\n";
    let line = daemon.reload(fixed);
    assert!(line.contains("no limit has changed") && line.ends_with("until the next one: log, [tdr]"), "{line}");
    let line = daemon.reload("[process]\nsync_objects = 4096\n");
    assert!(line.contains("its limits hold"), "{line}");
    fence(&gpu).expect("it may have more again");
    assert_eq!(daemon.child.try_wait().expect("it is there"), None, "it serves on");
}

/// The limit of one process and the total of its user are two numbers, before a reload and after it.
#[test]
fn a_reload_keeps_the_limit_of_a_process_apart_from_the_total_of_its_user() {
    let limits =
        |process: u64, user: u64| format!("[process]\nsync_objects = {process}\n[user]\nsync_objects = {user}\n");
    let mut daemon = Reloading::start(&limits(4096, 8192));
    let [first, second] =
        [(); 2].map(|()| Gpu::open(SocketLink::connect(&daemon.socket()).expect("a kernel")).expect("an adapter"));
    let refused = |gpu: &Gpu| loop {
        match gpu.device().create_native_fence(Default::default()) {
            Ok(fence) => std::mem::forget(fence),
            Err(refusal) => break refusal.reason,
        }
    };
    let line = daemon.reload(&limits(20, 30));
    assert!(line.contains("its limits hold, for processes that are connected, too"), "{line}");
    let (process, user) = (refused(&first), refused(&second));
    assert!(process.contains("20 of 20") && process.contains("process.sync_objects"), "{process}");
    assert!(user.contains("30 of 30") && user.contains("user.sync_objects"), "{user}");
}

#[test]
fn a_daemon_without_a_configuration_goes_on_at_the_signal_that_has_others_read_theirs() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let words = ["serve", "--adapter", "discrete-4k,vram=64MiB", "--system", "256MiB", "--socket"];
    let mut child = openwddm(&words).arg(&socket).spawn().expect("the binary starts");
    let log = BufReader::new(child.stderr.take().expect("its log"));
    let mut daemon = Reloading { child, log, folder };
    daemon.logged(" after ");
    kill_process(Pid::from_child(&daemon.child), Signal::HUP).expect("it runs");
    daemon.logged("started without --config");
    Gpu::open(SocketLink::connect(&socket).expect("a kernel")).expect("it serves on");
}

#[test]
fn a_client_locks_as_much_video_memory_as_the_configuration_says_and_more_when_that_says_more() {
    const MIB: u64 = 1 << 20;
    let mut daemon = Reloading::start("[process]\nlocked_video = \"2MiB\"\n");
    let gpu = Gpu::open(SocketLink::connect(&daemon.socket()).expect("a kernel")).expect("an adapter");
    let surfaces = [(); 3].map(|()| {
        let surface = gpu.create_lockable_surface(SurfaceKind::Local, MIB, false).expect("memory enough");
        gpu.pin(&surface).expect("memory enough");
        surface
    });
    let locks = [0, 1].map(|nth| surfaces[nth].lock().expect("within the limit"));
    let Err(UmdError::Refused(refused)) = surfaces[2].lock() else { panic!("it may lock no more") };
    assert_eq!(refused.status, NtStatus::NO_MEMORY);
    let said = "2097152 of 2097152, and 1048576 more are asked for; raise process.locked_video";
    assert!(refused.reason.contains(said), "{}", refused.reason);
    locks[1].write_words(0, &[7]);
    assert_eq!(locks[1].read_word(0), 7, "what it has locked stays its own");

    let line = daemon.reload("[process]\nlocked_video = \"3MiB\"\n");
    assert!(line.contains("its limits hold"), "{line}");
    let third = surfaces[2].lock().expect("it may lock more now");
    daemon.reload("[process]\nlocked_video = \"1MiB\"\n");
    drop((locks, third));
    let last = surfaces[0].lock().expect("it has nothing else");
    assert!(surfaces[1].lock().is_err(), "the limit is lower now");
    drop(last);
}

#[test]
fn a_configuration_that_is_a_pipe_fails_one_reload_and_no_later_one() {
    let mut daemon = Reloading::start("[process]\nsync_objects = 4096\n");
    let pipe = daemon.folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let line = daemon.reload_from(&pipe);
    assert!(
        line.contains("ERROR") && line.contains("nothing has changed") && line.contains("no ordinary file"),
        "{line}"
    );
    let line = daemon.reload("[process]\nsync_objects = 10\n");
    assert!(line.contains("its limits hold"), "{line}");
}

#[test]
fn an_adapter_that_stops_is_an_error_in_the_log_with_its_reason_and_the_daemon_serves_on() {
    // spec: memory §8.6
    let mut daemon = Reloading::with("", &["--faults", "device=remove@call 4; tdr=1ms"]);
    let gpu = Gpu::open(SocketLink::connect(&daemon.socket()).expect("a kernel"));
    let line = daemon.logged("stopped for good");
    assert!(line.contains("ERROR") && line.contains("adapter=0"), "{line}");
    let reason = line.split("what they have: ").nth(1).map(str::trim);
    assert!(reason.is_some_and(|reason| !reason.is_empty()), "{line}");
    SocketLink::connect(&daemon.socket()).expect("it serves on");
    assert_eq!(daemon.child.try_wait().expect("it is there"), None);
    drop(gpu);
}
