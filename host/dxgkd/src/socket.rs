//! The socket at which the daemon listens: one that it makes, or one that a service manager hands it when it starts (`LISTEN_FDS`).
//!
//! Unsafe: a descriptor that was handed over is known by its number alone, and only the environment says that it is ours.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::listener::ServeError;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// The first descriptor that a service manager hands over.
const FIRST_HANDED: i32 = 3;

/// A socket that listens.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    /// The file that is removed with it; one that was handed over is its maker's.
    path: Option<PathBuf>,
}

impl Socket {
    /// A socket at a path, which is the owner's alone unless `mode` gives it to others, too. A socket that nobody listens at any more is
    /// taken over.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn bind(path: &Path, mode: u32) -> Result<Socket, ServeError> {
        let refused = |source| ServeError::Socket { path: path.display().to_string(), source };
        let address = SocketAddrUnix::new(path).map_err(refused)?;
        let socket = seqpacket().map_err(refused)?;
        match rustix::net::bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                let asks = seqpacket().map_err(refused)?;
                if rustix::net::connect(&asks, &address) != Err(Errno::CONNREFUSED) {
                    return Err(ServeError::Busy(path.display().to_string()));
                }
                rustix::fs::unlink(path).and_then(|()| rustix::net::bind(&socket, &address)).map_err(refused)?;
            }
            other => other.map_err(refused)?,
        }
        let socket = Socket { socket, path: Some(path.to_owned()) };
        rustix::fs::chmod(path, Mode::from_raw_mode(mode)).map_err(refused)?;
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
        let Some(count) = said("LISTEN_FDS").filter(|_| ours) else { return Ok(None) };
        if count != "1" {
            return Err(ServeError::Handed(format!("{count} descriptors, and one is needed")));
        }
        // SAFETY: LISTEN_PID says that this process was handed the descriptor, and whoever was handed it owns it. The binary calls this
        // once, before it opens or closes anything that could have the number.
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
                return Err(wrong("a socket that does not listen"));
            }
            (Ok(_), ..) => return Err(wrong("no local socket of sequenced packets (ListenSequentialPacket=)")),
            (Err(error), ..) => return Err(wrong(&format!("no socket: {error}"))),
        }
        rustix::io::fcntl_setfd(of, rustix::io::FdFlags::CLOEXEC).map_err(|error| wrong(&error.to_string()))?;
        Ok(Socket { socket, path: None })
    }

    /// The file that is removed with it.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Somebody may have removed it before.
        let _ = self.path.as_ref().map(rustix::fs::unlink);
    }
}

fn seqpacket() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}
