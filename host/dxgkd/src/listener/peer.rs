//! The peer of a connection: the operating system identifies the process at the other end; nothing here comes from that process.
//!
//! Unsafe: no library has a call for one option of a connection.
#![allow(unsafe_code)]

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use kmt_link::socket::Packets;
use rustix::io::Errno;

/// A client's process and user, from the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer {
    pub pid: i32,
    pub uid: u32,
}

impl Peer {
    /// The peer of a connection.
    pub fn of(socket: &Packets) -> Result<Peer, Errno> {
        let credentials = rustix::net::sockopt::socket_peercred(socket)?;
        Ok(Peer { pid: credentials.pid.as_raw_nonzero().get(), uid: credentials.uid.as_raw() })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of user {}", self.pid, self.uid)
    }
}

/// A descriptor that is readable once the connected process has died; `None`: this operating system has none (Linux before 6.5).
///
/// # Errors
/// It has died already, or there is no descriptor left.
pub(crate) fn process_of(connection: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    let (mut descriptor, mut bytes) = (-1_i32, 4);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERPIDFD);
    let room = (&raw mut descriptor).cast();
    // SAFETY: the option is an int, for which there is room at the one address, and its length is at the other.
    let asked = unsafe { libc::getsockopt(connection.as_raw_fd(), level, option, room, &raw mut bytes) };
    if asked != 0 {
        // PANIC: a call that fails says why.
        let error = Errno::from_io_error(&std::io::Error::last_os_error()).expect("of the operating system");
        return match error {
            // The process has died, or the operating system has no descriptor left.
            Errno::SRCH | Errno::MFILE | Errno::NFILE | Errno::NOMEM => Err(error),
            _ => Ok(None),
        };
    }
    // SAFETY: the call above made this descriptor, and gave its ownership to this function.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}
