//! The socket at which the daemon listens: one that it makes, or one that a service manager hands it when it starts (`LISTEN_FDS`).
//!
//! # The law of this boundary
//! A file at the path of the socket belongs to its maker. The daemon removes two things and nothing else: when it starts, a socket that no
//! program has any more; when it ends, the very socket that it has made, known by device and inode. The daemon names any other file in
//! its error and leaves it alone: an ordinary file, a folder, a link, a pipe, a socket that a program still has, and a file that has
//! replaced the daemon's socket since. A service manager removes the socket that it has handed over.
//!
//! Unsafe: the daemon knows a descriptor that was handed over by its number alone, and only the environment says that the daemon owns it.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::listener::ServeError;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// The first descriptor that a service manager hands over.
const FIRST_HANDED: i32 = 3;
/// How often a turn is asked for.
const TURN_TRIES: u32 = 200;
/// How long another may have it in between.
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// A socket that listens.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    /// The file that is removed with it; one that was handed over is its maker's.
    made: Option<Made>,
}

/// A file that this program has made, and still has: nothing else gets its number.
#[derive(Debug)]
struct Made {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Socket {
    /// A socket at a path, which is the owner's alone unless `mode` gives it to others, too. A socket that no program has any more is
    /// taken over.
    ///
    /// # Errors
    /// See [`ServeError`]; a file that stands at the path is untouched then.
    pub fn bind(path: &Path, mode: u32) -> Result<Socket, ServeError> {
        let refused = |source| ServeError::Socket { path: path.display().to_string(), source };
        if path.as_os_str().is_empty() {
            // The operating system would choose a name of its own.
            return Err(refused(Errno::NOENT));
        }
        let address = SocketAddrUnix::new(path).map_err(refused)?;
        let socket = seqpacket().map_err(refused)?;
        let mode = Mode::from_raw_mode(mode);
        // No other user has access for a moment: the file has this mode from its beginning, less the bits of the process's umask.
        rustix::fs::fchmod(&socket, mode).map_err(refused)?;
        // Several daemons may find the same stale socket: one at a time checks it and takes over.
        let _turn = turn_in(path);
        match rustix::net::bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                remove_stale(path, &address)?;
                rustix::net::bind(&socket, &address).map_err(refused)?;
            }
            other => other.map_err(refused)?,
        }
        // The file and no other, wherever the path leads by now.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(refused)?;
        let stat = rustix::fs::fstat(&file).map_err(refused)?;
        if !is_socket(&stat) {
            return Err(taken(path, &stat));
        }
        let made = Made { path: path.to_owned(), device: stat.st_dev, inode: stat.st_ino };
        let socket = Socket { socket, made: Some(made) };
        if Mode::from_raw_mode(stat.st_mode) != mode {
            rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode).map_err(refused)?;
        }
        rustix::net::listen(&socket.socket, BACKLOG).map_err(refused)?;
        Ok(socket)
    }

    /// The socket that a service manager has handed to this process, if it has.
    ///
    /// # Errors
    /// [`ServeError::Handed`]: there are several, or it is no local socket of sequenced packets that listens.
    pub fn handed_over() -> Result<Option<Socket>, ServeError> {
        let said = |name| std::env::var(name).ok();
        let ours = said("LISTEN_PID").is_some_and(|pid| pid == std::process::id().to_string());
        let handed = said("LISTEN_FDS").filter(|count| ours && count != "0");
        let Some(count) = handed else { return Ok(None) };
        if count != "1" {
            return Err(ServeError::Handed(format!("there are {count} descriptors; hand over exactly one socket")));
        }
        // SAFETY: LISTEN_PID says that the service manager handed the descriptor to this process, which therefore owns it. The binary
        // calls this once, before it opens or closes anything that could have the number.
        let socket = unsafe { OwnedFd::from_raw_fd(FIRST_HANDED) };
        Socket::over(socket).map(Some)
    }

    /// The same of a descriptor that is at hand.
    ///
    /// # Errors
    /// As [`handed_over`](Self::handed_over).
    pub fn over(socket: OwnedFd) -> Result<Socket, ServeError> {
        let wrong = |problem: &str| ServeError::Handed(problem.to_owned());
        let of = socket.as_fd();
        let kind = (socket_domain(of), socket_type(of), socket_acceptconn(of));
        match kind {
            (Ok(AddressFamily::UNIX), Ok(SocketType::SEQPACKET), Ok(true)) => {}
            (Ok(AddressFamily::UNIX), Ok(SocketType::SEQPACKET), _) => {
                return Err(wrong("the socket does not listen"));
            }
            (Ok(_), ..) => {
                return Err(wrong("it is no local socket of sequenced packets; use ListenSequentialPacket="));
            }
            (Err(error), ..) => return Err(wrong(&format!("it is no socket: {error}"))),
        }
        rustix::io::fcntl_setfd(of, rustix::io::FdFlags::CLOEXEC).map_err(|error| wrong(&error.to_string()))?;
        Ok(Socket { socket, made: None })
    }

    /// The file that is removed with it.
    pub fn path(&self) -> Option<&Path> {
        self.made.as_ref().map(|made| made.path.as_path())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let Some(made) = &self.made else { return };
        // The descriptor is there still, and so no other file has got the number.
        let stands = rustix::fs::statat(CWD, &made.path, AtFlags::SYMLINK_NOFOLLOW);
        if stands.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (made.device, made.inode)) {
            // A folder that no longer lets it go keeps it; the next daemon there takes it over.
            let _ = rustix::fs::unlink(&made.path);
        }
    }
}

/// Removes a socket that no program has any more.
///
/// # Errors
/// [`ServeError`]: it is anything else.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), ServeError> {
    let refused = |source| ServeError::Socket { path: path.display().to_string(), source };
    let look = || rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    let before = match look() {
        // It has gone by itself.
        Err(Errno::NOENT) => return Ok(()),
        found => found.map_err(refused)?,
    };
    if !is_socket(&before) {
        return Err(taken(path, &before));
    }
    // A datagram socket connects as a probe: PROTOTYPE comes from a socket that a program has, CONNREFUSED from one without a program.
    let asks = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    match rustix::net::connect(&asks.map_err(refused)?, address) {
        Err(Errno::CONNREFUSED) => {}
        Ok(()) | Err(Errno::PROTOTYPE) => return Err(ServeError::Busy(path.display().to_string())),
        Err(error) => return Err(refused(error)),
    }
    match look() {
        Ok(now) if (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino) => {
            rustix::fs::unlink(path).map_err(refused)
        }
        Err(Errno::NOENT) => Ok(()),
        Ok(now) => Err(taken(path, &now)),
        Err(error) => Err(refused(error)),
    }
}

/// A turn among the daemons that start at paths in this folder; it is over when the value is dropped. Where the folder cannot be read or
/// locked there is none, and two that start at the same moment on the remains of a third may both believe that they serve.
fn turn_in(path: &Path) -> Option<OwnedFd> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
    for _ in 0..TURN_TRIES {
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            // Another program has the lock, and a hostile one may never release it.
            Err(Errno::WOULDBLOCK) => std::thread::sleep(BETWEEN_TRIES),
            done => return done.ok().map(|()| folder),
        }
    }
    None
}

fn is_socket(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Socket
}

fn taken(path: &Path, stat: &Stat) -> ServeError {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "an ordinary file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket that was made a moment ago",
        _ => "a device",
    };
    ServeError::Taken { path: path.display().to_string(), what }
}

fn seqpacket() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}
