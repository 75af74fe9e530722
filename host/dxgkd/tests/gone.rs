//! A client that has gone, while the daemon itself holds the client's end of the connection: the client sent it in a message that the daemon
//! has not opened yet. The daemon ends the client and leaves nothing behind, as for any client that goes.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits};
use kmt_calls::wire::encode;
use kmt_link::socket::{Asked, Hello, MESSAGE_MAX, Packets, Request};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

/// Says where the kernel is of which the child is a client.
const KERNEL: &str = "OPENWDDM_KERNEL";

fn serve() -> (Daemon, tempfile::TempDir, PathBuf) {
    let mut config = HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (8 << 20, 4 << 20, 32 << 20);
    config.isolates_processes = true;
    let host = Host::start(config).expect("the adapter starts");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default()).expect("a socket");
    (daemon, folder, path)
}

/// A client's first lane and its stream.
fn begin(path: &Path) -> (Packets, Packets) {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("a kernel");
    let (lane, (stream, theirs)) = (Packets::new(socket), Packets::pair().expect("two descriptors"));
    lane.send(&encode(&Hello::OURS, Vec::new()), &[theirs.as_fd()]).expect("it listens");
    lane.receive(MESSAGE_MAX, 0).expect("it is a client");
    (lane, stream)
}

/// Asks for a lane, behind so many posted calls.
fn ask_for_lane(on: &Packets, after: u64, lane: BorrowedFd<'_>) {
    let asked = Asked { after, ..Asked::only(Request::Lane) };
    on.send(&encode(&asked, Vec::new()), &[lane]).expect("it hears");
}

fn all_go(daemon: &Daemon) {
    let began = Instant::now();
    while daemon.clients() != 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} are still there", daemon.clients());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_client_that_has_closed_its_lane_goes_even_while_its_stream_is_held() {
    let (daemon, _folder, path) = serve();
    let (lane, stream) = begin(&path);
    // The request waits for a posted call that never comes.
    ask_for_lane(&lane, 1, stream.as_fd());
    drop((lane, stream));
    all_go(&daemon);
}

#[test]
fn a_client_whose_process_has_died_goes_even_while_its_connection_is_held() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
    let numbers: Vec<u32> = release.split(['.', '-']).map_while(|number| number.parse().ok()).collect();
    if numbers < vec![6, 5] {
        // This Linux gives no descriptor of a peer's process, so the daemon cannot see the death.
        return;
    }
    let (daemon, _folder, path) = serve();
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "the_child", "--test-threads=1"]).env(KERNEL, &path);
    assert!(program.status().expect("it starts").success());
    all_go(&daemon);
}

#[test]
fn the_child() {
    let Ok(path) = std::env::var(KERNEL) else { return };
    let (first, stream) = begin(Path::new(&path));
    let (second, theirs) = Packets::pair().expect("two descriptors");
    ask_for_lane(&first, 0, theirs.as_fd());
    first.receive(MESSAGE_MAX, 0).expect("it has a lane");
    // A lane that waits for a posted call which never comes holds each of them.
    ask_for_lane(&first, 1, stream.as_fd());
    ask_for_lane(&second, 1, first.as_fd());
}
