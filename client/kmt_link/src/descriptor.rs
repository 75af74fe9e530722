//! Descriptors for NT handles, as the Linux subsystem has them: each process that holds a copy may open what the handle names, pass it on
//! over a socket, and close it with `close`. The keeper closes the handle when the last copy in any process is closed.
//!
//! A descriptor is an empty, sealed memory file. The operating system gives the file an identity, by which the keeper knows it
//! again, and says by `inotify` when the last copy is closed; so the keeper needs no descriptor of its own for each. The process in which the
//! kernel runs uses this, for processes here and elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

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
    /// Says which files have gone.
    watches: OwnedFd,
    /// Lists the watches that are left. Open from the start: a program may give up the right to open files.
    left: File,
    /// Ends the thread that waits for closes.
    end: OwnedFd,
}

#[derive(Default)]
struct Kept {
    /// The handles by the identity of the file that was given out, and its watch.
    given: BTreeMap<Identity, (u64, Watch)>,
    by_watch: BTreeMap<Watch, Identity>,
}

/// The operating system's identity of a file, a device and a number: no other file has it as long as a copy is open.
type Identity = (u64, u64);

/// A number of `inotify`.
type Watch = i32;

/// A descriptor that stands for nothing yet.
pub struct Unnamed {
    file: OwnedFd,
    identity: Identity,
    watch: Watch,
}

impl Descriptors {
    /// None yet. `closed` is called with each handle whose last descriptor was closed: on a thread of its own, or by [`Descriptors::settle`].
    ///
    /// # Errors
    /// When the operating system gives no thread, no descriptor or no instance of `inotify` (`fs.inotify.max_user_instances`), or has no
    /// `/proc`.
    pub fn new(closed: Closed) -> std::io::Result<Descriptors> {
        let watches = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let left = File::open(format!("/proc/self/fdinfo/{}", watches.as_raw_fd()))?;
        let shared = Arc::new(Shared { kept: Mutex::default(), closed: Mutex::new(closed), watches, left, end });
        let watched = Arc::clone(&shared);
        shared_words::own_threads::spawn("nt descriptors", move || watched.watch())?;
        Ok(Descriptors { shared })
    }

    /// A descriptor to be.
    ///
    /// # Errors
    /// When the operating system has none left, or no watch (`fs.inotify.max_user_watches`).
    pub fn unnamed(&self) -> Result<Unnamed, Errno> {
        let file = rustix::fs::memfd_create("nt handle", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::WRITE | SealFlags::SEAL)?;
        let identity = identity(file.as_fd())?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let watch = inotify::add_watch(&self.shared.watches, path, WatchFlags::DELETE_SELF)?;
        Ok(Unnamed { file, identity, watch })
    }

    /// A descriptor stands for a handle from now on.
    pub fn name(&self, unnamed: Unnamed, handle: u64) -> OwnedFd {
        let Unnamed { file, identity, watch } = unnamed;
        let mut kept = self.shared.kept();
        kept.by_watch.insert(watch, identity);
        kept.given.insert(identity, (handle, watch));
        file
    }

    /// The handle of a descriptor that was given out here; `None` for any other.
    pub fn handle(&self, descriptor: BorrowedFd<'_>) -> Option<u64> {
        let identity = identity(descriptor).ok()?;
        self.shared.kept().given.get(&identity).map(|(handle, _)| *handle)
    }

    /// Closes the handles whose last descriptor was closed and of which the thread that waits for closes has not heard: when this returns,
    /// those that were closed before are closed.
    pub fn settle(&self) {
        self.shared.close();
    }

    /// How many are out.
    pub fn count(&self) -> usize {
        self.shared.kept().given.len()
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // A counter that is full ends the thread, too.
        let _ = rustix::io::write(&self.shared.end, &1u64.to_ne_bytes());
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for closes until nothing is kept any more.
    fn watch(&self) {
        let mut polled = [PollFd::new(&self.end, PollFlags::IN), PollFd::new(&self.watches, PollFlags::IN)];
        loop {
            match poll(&mut polled, None) {
                Ok(_) if !polled[0].revents().is_empty() => return,
                Ok(_) => self.close(),
                Err(_) => {}
            }
        }
    }

    /// Takes out those whose last copies were closed, and says so.
    fn close(&self) {
        // One thread at a time: another one that looks then finds nothing that the first has not said.
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = Reader::new(&self.watches, &mut buffer);
        while let Ok(event) = events.next() {
            match event.events() {
                lost if lost.contains(ReadFlags::QUEUE_OVERFLOW) => self.close_unwatched(&closed),
                gone if gone.contains(ReadFlags::DELETE_SELF) => self.close_one(event.wd(), &closed),
                // The watch has gone with its file: IGNORED follows each DELETE_SELF.
                _ => {}
            }
        }
    }

    fn close_one(&self, watch: Watch, closed: &Closed) {
        let handle = {
            let mut kept = self.kept();
            let identity = kept.by_watch.remove(&watch);
            identity.and_then(|identity| kept.given.remove(&identity))
        };
        if let Some((handle, _)) = handle {
            closed(handle);
        }
    }

    /// Events were lost: the operating system lists the watches that are left.
    fn close_unwatched(&self, closed: &Closed) {
        // Before the list is read: what is given out meanwhile is on neither.
        let known: Vec<Watch> = self.kept().by_watch.keys().copied().collect();
        let Ok(left) = self.left() else { return };
        let watch = |line: &str| Watch::from_str_radix(line.strip_prefix("inotify wd:")?.split(' ').next()?, 16).ok();
        let left: BTreeSet<Watch> = left.lines().filter_map(watch).collect();
        let gone = known.into_iter().filter(|watch| !left.contains(watch));
        gone.for_each(|watch| self.close_one(watch, closed));
    }

    fn left(&self) -> std::io::Result<String> {
        let (mut text, mut part) = (Vec::new(), [0; 4096]);
        loop {
            match self.left.read_at(&mut part, text.len() as u64)? {
                0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
                bytes => text.extend_from_slice(&part[..bytes]),
            }
        }
    }
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

    fn named(descriptors: &Descriptors, handle: u64) -> OwnedFd {
        descriptors.name(descriptors.unnamed().expect("a descriptor"), handle)
    }

    #[test]
    fn what_was_closed_before_is_closed_behind_a_look_whether_the_thread_has_run_or_not() {
        let (said, heard) = channel();
        let descriptors = Descriptors::new(Box::new(move |handle| said.send(handle).expect("the test hears")));
        let descriptors = descriptors.expect("a thread");
        for handle in 0..200 {
            drop(named(&descriptors, handle));
            descriptors.settle();
            assert_eq!((heard.try_recv(), descriptors.count()), (Ok(handle), 0));
        }
        let kept = named(&descriptors, 200);
        descriptors.settle();
        assert_eq!(descriptors.handle(kept.as_fd()), Some(200), "one that is open stays");
    }

    #[test]
    fn a_handle_goes_with_the_last_copy_of_its_descriptor() {
        let (said, heard) = channel();
        let descriptors =
            Descriptors::new(Box::new(move |handle| said.send(handle).expect("the test hears"))).expect("a thread");
        let given = [7, 8].map(|handle| named(&descriptors, handle));
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

    /// A copy that was opened by its path counts as one that was passed on; the file takes no bytes.
    #[test]
    fn a_copy_is_a_copy_however_it_was_made_and_takes_no_bytes() {
        let (said, heard) = channel();
        let descriptors =
            Descriptors::new(Box::new(move |handle| said.send(handle).expect("the test hears"))).expect("a thread");
        let given = named(&descriptors, 7);
        let copy = std::fs::File::open(format!("/proc/self/fd/{}", given.as_raw_fd())).expect("it opens");
        assert!(rustix::io::write(&given, b"x").is_err());
        drop(given);
        descriptors.settle();
        assert_eq!((heard.try_recv().ok(), descriptors.handle(copy.as_fd())), (None, Some(7)));
        drop(copy);
        descriptors.settle();
        assert_eq!(heard.try_recv(), Ok(7));
    }

    /// More closes than the operating system queues: none is forgotten, and the list of what is left is a new one each time.
    #[test]
    fn closes_that_were_lost_are_found() {
        const MANY: u64 = 300;
        let (said, heard) = channel();
        let descriptors =
            Descriptors::new(Box::new(move |handle| said.send(handle).expect("the test hears"))).expect("a thread");
        let mut given: Vec<OwnedFd> = (0..MANY).map(|handle| named(&descriptors, handle)).collect();
        for handle in (0..MANY).rev() {
            // The thread finds nothing while this one looks.
            let closed = descriptors.shared.closed.lock().expect("a test");
            drop(given.pop());
            descriptors.shared.close_unwatched(&closed);
            drop(closed);
            assert_eq!((heard.try_recv(), descriptors.count() as u64), (Ok(handle), handle));
            assert!(given.last().is_none_or(|last| descriptors.handle(last.as_fd()) == Some(handle - 1)));
        }
    }
}
