//! Whether the terminal has hung up: its window was closed, its connection broke. Reads of such a terminal return at once, for ever, without
//! keys, and the operating system sends the signal only to processes of the terminal's session. So a thread sleeps until
//! the terminal hangs up, and ends the program; that works also while the page waits for a kernel that does not answer.
//! Called by `top`.
//!
//! The program then ends with status 0, as when the user leaves it, and as on the signal that processes of the session get. It holds
//! nothing that it would have to give back.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The descriptors that report a hangup: those from which keys are read and to which pages go, which may be two terminals.
struct Ends([OwnedFd; 2]);

impl Ends {
    fn of_this_program() -> io::Result<Ends> {
        let (keys, page) = (io::stdin(), io::stdout());
        // The library that reads keys chooses in the same way.
        let keys = if keys.is_terminal() {
            keys.as_fd().try_clone_to_owned()?
        } else {
            OwnedFd::from(File::open("/dev/tty")?)
        };
        Ok(Ends([keys, page.as_fd().try_clone_to_owned()?]))
    }

    /// Whether one of them has hung up; with `waits` it waits until one has.
    fn have_gone(&self, waits: bool) -> bool {
        // With no events requested, the operating system reports only hangups and errors.
        let mut ends = self.0.each_ref().map(|end| PollFd::new(end, PollFlags::empty()));
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            match poll(&mut ends, if waits { None } else { Some(&at_once) }) {
                Ok(count) => return count > 0,
                Err(Errno::INTR) => {}
                // Too little memory for the poll: the program goes on.
                Err(_) => return false,
            }
        }
    }
}

/// From now on the program ends when its terminal goes.
///
/// # Errors
/// When there is none, or the operating system gives no thread.
pub fn end_with_terminal() -> io::Result<()> {
    let ends = Ends::of_this_program()?;
    let watch = move || {
        if ends.have_gone(true) {
            std::process::exit(0);
        }
    };
    std::thread::Builder::new().name("hangup".to_owned()).spawn(watch).map(drop)
}

/// Whether the terminal has hung up, or there was none.
pub fn has_gone() -> bool {
    Ends::of_this_program().map_or(true, |ends| ends.have_gone(false))
}
