//! `serve --socket PATH` and what stands at that path: only a socket that no program has is removed, and at the end only the daemon's own.

mod daemon;
mod served;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::time::{Duration, Instant};

use daemon::Daemon;
use kmt_link::socket::SocketLink;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use served::{NEVER, openwddm};

const SMALL: [&str; 4] = ["--adapter", "discrete-4k,vram=128MiB", "--system", "1GiB"];

/// A daemon that serves: a socket that listens may not be served yet.
fn started(socket: &Path, arguments: &[&str]) -> Daemon {
    let daemon = Daemon::start(socket, arguments);
    let began = Instant::now();
    while SocketLink::connect(&daemon.socket).is_err() {
        assert!(began.elapsed() < NEVER, "it does not serve");
    }
    daemon
}

fn refused(path: &Path, part: &str) {
    let before = fs::symlink_metadata(path).expect("something stands there");
    let output = openwddm(&["serve", "--socket"]).arg(path).args(SMALL).output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(part) && text.contains("give another --socket"), "{text}");
    let after = fs::symlink_metadata(path).expect("it stands there still");
    assert_eq!((after.ino(), after.mode(), after.len()), (before.ino(), before.mode(), before.len()));
}

fn stop(mut daemon: Daemon) {
    kill_process(Pid::from_child(&daemon.child), Signal::TERM).expect("it runs");
    assert_eq!(daemon.child.wait().expect("it ends").code(), Some(0), "a daemon that is told to stop");
}

#[test]
fn what_stands_there_and_is_no_stale_socket_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "mine").expect("a file");
    refused(&at("file"), "an ordinary file stands there");
    fs::create_dir(at("folder")).expect("a folder");
    refused(&at("folder"), "a folder stands there");
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    refused(&at("pipe"), "a pipe stands there");
    // A link stays, also one to what would be removed, or to nothing.
    drop(UnixListener::bind(at("stale")).expect("a socket"));
    for (target, name) in [("file", "to file"), ("stale", "to stale"), ("nothing", "to nothing")] {
        symlink(target, at(name)).expect("a link");
        refused(&at(name), "a symbolic link stands there");
    }
    assert!(fs::symlink_metadata(at("stale")).expect("it is there").file_type().is_socket());
    // Sockets that programs have: of every kind, and before they listen.
    let _listens = UnixListener::bind(at("stream")).expect("a socket");
    let _hears = UnixDatagram::bind(at("datagram")).expect("a socket");
    let bound = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .expect("a socket");
    rustix::net::bind(&bound, &SocketAddrUnix::new(at("bound")).expect("a path")).expect("a free path");
    for name in ["stream", "datagram", "bound"] {
        refused(&at(name), "another daemon listens there");
    }
    let daemon = started(&at("kernel"), &SMALL);
    refused(&at("kernel"), "another daemon listens there");
    stop(daemon);
    assert!(!at("kernel").exists(), "its own socket goes with it");
}

#[test]
fn a_stale_socket_is_taken_over_and_has_the_mode_that_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    // Killed: nothing of it was removed.
    drop(started(&socket, &SMALL));
    let left = fs::metadata(&socket).expect("it was left");
    assert!(left.file_type().is_socket());
    for mode in ["666", "600"] {
        let daemon = started(&socket, &[&SMALL[..], &["--mode", mode]].concat());
        let stands = fs::metadata(&socket).expect("a socket").permissions().mode() & 0o7777;
        assert_eq!(format!("{stands:o}"), mode);
        stop(daemon);
        assert!(!socket.exists());
    }
}

#[test]
fn what_has_taken_its_place_is_not_the_daemon_s_to_remove() {
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, moved) = (folder.path().join("kernel"), folder.path().join("moved"));
    // With the sandbox, which has calls for it, and without.
    for more in [&[][..], &["--no-sandbox"]] {
        let daemon = started(&socket, &[&SMALL[..], more].concat());
        fs::remove_file(&socket).expect("it is there");
        fs::write(&socket, "mine").expect("a file");
        stop(daemon);
        assert_eq!(fs::read(&socket).expect("it stays"), b"mine");
        fs::remove_file(&socket).expect("it is there");

        let daemon = started(&socket, &[&SMALL[..], more].concat());
        fs::rename(&socket, &moved).expect("it is there");
        let other = started(&socket, &SMALL);
        stop(daemon);
        assert!(fs::metadata(&socket).expect("it stays").file_type().is_socket(), "another daemon's");
        stop(other);
        assert!(!socket.exists() && moved.exists());
        fs::remove_file(&moved).expect("it is there");
    }
}

#[test]
fn of_daemons_that_start_at_once_on_remains_one_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    drop(UnixListener::bind(&socket).expect("a socket"));
    let start = || openwddm(&["serve", "--socket"]).arg(&socket).args(SMALL).spawn().expect("it starts");
    let mut started: Vec<_> = (0..6).map(|_| start()).collect();
    let began = Instant::now();
    while started.iter_mut().filter_map(|child| child.try_wait().expect("it is there")).count() < 5 {
        assert!(began.elapsed() < NEVER, "more than one believes that it serves");
        std::thread::sleep(Duration::from_millis(5));
    }
    for mut child in started {
        match child.try_wait().expect("it is there") {
            Some(status) => assert_eq!(status.code(), Some(2)),
            None => {
                drop(SocketLink::connect(&socket).expect("it serves"));
                kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
                assert_eq!(child.wait().expect("it ends").code(), Some(0));
            }
        }
    }
    assert!(!socket.exists());
}
