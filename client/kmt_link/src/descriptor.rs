//! Descriptors for NT handles, as the Linux subsystem has them: each process that holds a copy may open what the handle names, pass it on
//! over a socket, and close it with `close`. The keeper closes the handle when the last copy in any process is closed.
//!
//! A descriptor is one end of a pair of sockets; the keeper holds the other end, knows each pair by the identity that the operating
//! system gives it, and learns of the last close from it. The keeper reads nothing that a process writes into the pair. The process in
//! which the kernel runs uses this, for processes here and elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// The keeper calls this with the handle whose last descriptor was closed.
pub type Closed = Box<dyn Fn(u64) + Send + Sync>;

/// The descriptors that a keeper has given out.
pub struct Descriptors {
    shared: Arc<Shared>,
}

struct Shared {
    kept: Mutex<Kept>,
    /// Held by the thread that takes closed ones out, until it has called this for each of them.
    closed: Mutex<Closed>,
    /// Something said at the first wakes the thread that waits for closes, at the second.
    changed: (OwnedFd, OwnedFd),
}

#[derive(Default)]
struct Kept {
    /// By the identity of the end that was given out.
    given: BTreeMap<Identity, Given>,
    /// Those of which the thread that waits for closes has not heard.
    fresh: Vec<(Identity, Arc<OwnedFd>)>,
    ended: bool,
}

/// The operating system's identity of an end, a device and a number: no other file has it as long as a copy is open.
type Identity = (u64, u64);

struct Given {
    handle: u64,
    /// Open as long as it is known by its identity.
    ours: Arc<OwnedFd>,
}

/// A descriptor that stands for nothing yet.
pub struct Pair {
    identity: Identity,
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Descriptors {
    /// None yet. `closed` is called, on a thread of its own, with each handle whose last descriptor was closed.
    ///
    /// # Errors
    /// When the operating system gives no thread or no descriptor.
    pub fn new(closed: Closed) -> std::io::Result<Descriptors> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let changed = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let shared = Arc::new(Shared { kept: Mutex::default(), closed: Mutex::new(closed), changed });
        let watched = Arc::clone(&shared);
        shared_words::own_threads::spawn("nt descriptors", move || watched.watch())?;
        Ok(Descriptors { shared })
    }

    /// The two ends of a descriptor to be.
    ///
    /// # Errors
    /// When the operating system has none left.
    pub fn pair() -> Result<Pair, Errno> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        Ok(Pair { identity: identity(theirs.as_fd())?, ours, theirs })
    }

    /// A descriptor stands for a handle from now on.
    pub fn name(&self, pair: Pair, handle: u64) -> OwnedFd {
        let Pair { identity, ours, theirs } = pair;
        let ours = Arc::new(ours);
        let mut kept = self.shared.kept();
        kept.fresh.push((identity, Arc::clone(&ours)));
        kept.given.insert(identity, Given { handle, ours });
        drop(kept);
        self.shared.wake();
        theirs
    }

    /// The handle of a descriptor that was given out here; `None` for any other.
    pub fn handle(&self, descriptor: BorrowedFd<'_>) -> Option<u64> {
        let identity = identity(descriptor).ok()?;
        self.shared.kept().given.get(&identity).map(|given| given.handle)
    }

    /// Closes the handles whose last descriptor was closed and of which the thread that waits for closes has not heard: when this returns,
    /// those that were closed before are closed.
    pub fn settle(&self) {
        let closed = self.shared.closed();
        let given: Vec<_> = {
            let kept = self.shared.kept();
            kept.given.iter().map(|(identity, given)| (*identity, Arc::clone(&given.ours))).collect()
        };
        let mut polled: Vec<PollFd<'_>> = given.iter().map(|(_, ours)| PollFd::new(ours, PollFlags::empty())).collect();
        // If that cannot be found out, the thread finds it later.
        if poll(&mut polled, Some(&Timespec::default())).is_err() {
            return;
        }
        let ends = polled.iter().zip(&given).filter(|(polled, _)| is_closed(polled));
        self.shared.close(&closed, ends.map(|(_, (identity, _))| *identity));
    }

    /// How many are out.
    pub fn count(&self) -> usize {
        self.shared.kept().given.len()
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        self.shared.kept().ended = true;
        self.shared.wake();
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // One that is full wakes, too.
        let _ = rustix::io::write(&self.changed.0, &[1]);
    }

    fn closed(&self) -> MutexGuard<'_, Closed> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out those whose last copies were closed, and says so. One that another thread has taken out is left.
    fn close(&self, closed: &Closed, gone: impl Iterator<Item = Identity>) {
        for identity in gone {
            let given = self.kept().given.remove(&identity);
            if let Some(given) = given {
                closed(given.handle);
            }
        }
    }

    /// Waits for closes until nothing is kept any more.
    fn watch(&self) {
        let mut watched = Vec::new();
        loop {
            {
                let mut kept = self.kept();
                if kept.ended {
                    return;
                }
                watched.append(&mut kept.fresh);
            }
            let gone: BTreeSet<Identity> = self.closed_of(&watched).into_iter().collect();
            watched.retain(|(identity, _)| !gone.contains(identity));
            self.close(&self.closed(), gone.into_iter());
        }
    }

    /// Waits until all copies of some given descriptors are closed, or until there are more to watch; returns the ends that were closed.
    fn closed_of(&self, watched: &[(Identity, Arc<OwnedFd>)]) -> Vec<Identity> {
        let mut polled: Vec<PollFd<'_>> = vec![PollFd::new(&self.changed.1, PollFlags::IN)];
        polled.extend(watched.iter().map(|(_, ours)| PollFd::new(ours, PollFlags::empty())));
        if poll(&mut polled, None).is_err() {
            return Vec::new();
        }
        // Empties the pipe of wake-ups; bytes that stay in it end the next poll at once.
        let _ = rustix::io::read(&self.changed.1, &mut [0; 64]);
        let ends = polled[1..].iter().zip(watched).filter(|(polled, _)| is_closed(polled));
        ends.map(|(_, (identity, _))| *identity).collect()
    }
}

fn is_closed(polled: &PollFd<'_>) -> bool {
    polled.revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

fn identity(descriptor: BorrowedFd<'_>) -> Result<Identity, Errno> {
    let stat = rustix::fs::fstat(descriptor)?;
    // CAST: the same bits, whatever their sign here.
    Ok((stat.st_dev as u64, stat.st_ino as u64))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_closed_before_is_closed_behind_a_look_whether_the_thread_has_run_or_not() {
        let (said, heard) = channel();
        let descriptors = Descriptors::new(Box::new(move |handle| said.send(handle).expect("the test hears")));
        let descriptors = descriptors.expect("a thread");
        for handle in 0..200 {
            drop(descriptors.name(Descriptors::pair().expect("descriptors"), handle));
            descriptors.settle();
            assert_eq!((heard.try_recv(), descriptors.count()), (Ok(handle), 0));
        }
        let kept = descriptors.name(Descriptors::pair().expect("descriptors"), 200);
        descriptors.settle();
        assert_eq!(descriptors.handle(kept.as_fd()), Some(200), "one that is open stays");
    }

    #[test]
    fn a_handle_goes_with_the_last_copy_of_its_descriptor() {
        let (said, heard) = channel();
        let descriptors =
            Descriptors::new(Box::new(move |handle| said.send(handle).expect("the test hears"))).expect("a thread");
        let given = [7, 8].map(|handle| descriptors.name(Descriptors::pair().expect("descriptors"), handle));
        let [first, second] = given;
        let copy = first.try_clone().expect("a descriptor");
        assert_eq!(
            [&first, &second, &copy].map(|given| descriptors.handle(given.as_fd())),
            [Some(7), Some(8), Some(7)]
        );
        let (other, _theirs) = crate::socket::Packets::pair().expect("descriptors");
        assert_eq!(descriptors.handle(other.as_fd()), None);
        drop(first);
        drop(second);
        assert_eq!(heard.recv_timeout(Duration::from_secs(120)), Ok(8), "the first has a copy");
        assert_eq!((descriptors.count(), descriptors.handle(copy.as_fd())), (1, Some(7)));
        drop(copy);
        assert_eq!(heard.recv_timeout(Duration::from_secs(120)), Ok(7));
        assert_eq!(descriptors.count(), 0);
    }
}
