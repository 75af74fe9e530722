//! Daemons that a service manager starts with a socket, or without one.

use super::*;

/// A socket that listens, as a service manager makes it.
fn listening(path: &Path, kind: SocketType) -> OwnedFd {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a socket");
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("a free path");
    rustix::net::listen(&socket, 8).expect("it listens");
    socket
}

/// Starts the daemon with a descriptor as a service manager does: by number and environment.
fn handed(descriptor: OwnedFd, count: &str, more: &[&str]) -> Logged {
    let script = "count=$1; shift
        LISTEN_PID=$$ LISTEN_FDS=$count exec \"$0\" serve --adapter discrete-4k,vram=128MiB --system 2GiB \"$@\" 3<&0 </dev/null";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_openwddm"), count]).args(more);
    command.stdin(descriptor).stdout(Stdio::piped()).stderr(Stdio::piped());
    Logged(command.spawn().expect("a shell"))
}

#[test]
fn who_connects_before_the_daemon_runs_is_served_when_it_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let descriptor = listening(&socket, SocketType::SEQPACKET);
    let waits = connect(&socket, &["--steps", "1"]);
    let mut daemon = handed(descriptor, "1", &[]);
    let (output, text) = ended(waits);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let pid = rustix::process::Pid::from_child(&daemon.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert_eq!(daemon.0.wait().expect("it ends").code(), Some(0));
    assert!(socket.exists(), "a socket that was handed over is its maker's");
    for (kind, count, part) in
        [(SocketType::STREAM, "1", "ListenSequentialPacket"), (SocketType::SEQPACKET, "2", "2 descriptors")]
    {
        let mut refused = handed(listening(&folder.path().join(count.to_owned() + part), kind), count, &[]);
        assert_eq!(refused.0.wait().expect("it ends").code(), Some(1));
        let mut log = String::new();
        refused.0.stderr.take().expect("its log").read_to_string(&mut log).expect("text");
        assert!(log.contains(part), "{part} is missing in {log}");
    }
}

/// A service manager that hands no socket over says so with the number 0: the daemon makes its own.
#[test]
fn a_daemon_that_is_handed_nothing_makes_its_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let nothing = OwnedFd::from(std::fs::File::open("/dev/null").expect("a device"));
    let mut daemon = handed(nothing, "0", &["--socket", socket.to_str().expect("UTF-8")]);
    let began = Instant::now();
    while !served::listens(&socket) {
        assert!(began.elapsed() < NEVER, "it does not serve");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(processes(&socket).is_empty(), "no process has work");
    kill_process(Pid::from_child(&daemon.0), Signal::TERM).expect("it runs");
    assert_eq!(daemon.0.wait().expect("it ends").code(), Some(0));
}
