//! The daemon detects that a client has gone, even while another process, or the daemon itself, holds the client's end of the connection.
//!
//! # The law of this boundary
//! - A stream ends when the last copy of the client's end is closed. The daemon itself may hold a copy: a client may send its end in a
//!   message, which the daemon opens when earlier requests are over, and these may wait for the client. So the thread that reads a
//!   client's answers watches its first lane, too. The client may have sent that as well: so the thread watches the client's process,
//!   where the operating system gives a descriptor of it.
//! - The kernel completes the requests that a client made before it went: the daemon ends it after [`LEFT_TO_DO`], or when a lane reports
//!   a closed connection.
//! - A call that asks for something of other processes comes behind the end of those that had gone before it: the thread that makes the call
//!   looks for the signs itself ([`Signs::are_there`]), because the threads of the others may not have run yet.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kmt_link::socket::Packets;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long the pending requests of a client that has gone may still take.
pub(super) const LEFT_TO_DO: Duration = Duration::from_secs(1);

/// The signs by which the daemon sees that a client has gone.
pub(crate) struct Signs {
    lane: Arc<Packets>,
    /// Readable when it has died.
    process: Option<OwnedFd>,
}

impl Signs {
    /// Of a client with this first lane, and this process.
    pub fn new(lane: Arc<Packets>, process: Option<OwnedFd>) -> Signs {
        Signs { lane, process }
    }

    /// What to poll. Without a descriptor of the process, the lane fills its place and reports nothing new.
    fn watched(&self) -> [PollFd<'_>; 2] {
        let (process, died) = match &self.process {
            Some(process) => (process.as_fd(), PollFlags::IN),
            None => (self.lane.as_fd(), PollFlags::empty()),
        };
        [PollFd::new(&*self.lane, PollFlags::empty()), PollFd::from_borrowed_fd(process, died)]
    }

    /// Whether the client has gone.
    pub fn are_there(&self) -> bool {
        let mut watched = self.watched();
        // If that cannot be found out, the thread that watches finds it later.
        poll(&mut watched, Some(&Timespec::default())).is_ok() && seen(watched).is_some()
    }
}

/// The sign that these polled descriptors show.
fn seen(watched: [PollFd<'_>; 2]) -> Option<&'static str> {
    let [lane, process] = watched.map(|watched| watched.revents());
    if process.contains(PollFlags::IN) {
        Some("its process has died")
    } else {
        lane.contains(PollFlags::HUP).then_some("it has closed its first lane")
    }
}

/// A watch for the signs that a client has gone.
pub(crate) struct Hangup {
    signs: Arc<Signs>,
    /// The client has gone: when the daemon saw it, and by which sign.
    gone: Option<(Instant, &'static str)>,
}

impl Hangup {
    /// For a client with these signs.
    pub fn new(signs: Arc<Signs>) -> Hangup {
        Hangup { signs, gone: None }
    }

    /// Waits until a client's stream is readable or has ended.
    ///
    /// # Errors
    /// Why the client has gone, which the stream does not show.
    pub fn or_says(&mut self, stream: BorrowedFd<'_>) -> Result<(), &'static str> {
        loop {
            let mut left = None;
            if let Some((since, reason)) = self.gone {
                let rest = LEFT_TO_DO.saturating_sub(since.elapsed());
                if rest.is_zero() {
                    return Err(reason);
                }
                // PANIC: a second can be said.
                left = Some(Timespec::try_from(rest).expect("a time"));
            }
            let [lane, process] = self.signs.watched();
            let mut watched = [PollFd::from_borrowed_fd(stream, PollFlags::IN), lane, process];
            // A sign that was seen once would end every further poll at once.
            let watches = if self.gone.is_some() { 1 } else { watched.len() };
            match poll(&mut watched[..watches], left.as_ref()) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                // The operating system lacks memory: the caller reads the stream, without this watch.
                Err(_) => return Ok(()),
            }
            let [says, lane, process] = watched;
            let says = !says.revents().is_empty();
            if let Some(sign) = seen([lane, process]) {
                self.gone = Some((Instant::now(), sign));
            }
            if says {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Packets, Packets) {
        let (ours, theirs) = Packets::pair().expect("two descriptors");
        (ours, Packets::new(theirs))
    }

    #[test]
    fn who_has_gone_is_heard_for_a_while_and_no_longer_however_much_is_said() {
        let [(lane, its_lane), (other, _kept), (stream, its_stream), (dies, lives)] = std::array::from_fn(|_| pair());
        // This pair stands for a process: it is readable from the death on. The test keeps the lane of that client open.
        let process = dies.as_fd().try_clone_to_owned().expect("a descriptor");
        let goings = [(Arc::new(lane), None), (Arc::new(other), Some(process))];
        its_stream.send(b"said", &[]).expect("it is heard");
        lives.send(b"died", &[]).expect("it is heard");
        drop(its_lane);
        for ((lane, process), why) in goings.into_iter().zip(["it has closed its first lane", "its process has died"]) {
            let (mut hangup, began) = (Hangup::new(Arc::new(Signs::new(lane, process))), Instant::now());
            // The test never reads the stream, so it stays readable.
            let reason = std::iter::repeat_with(|| hangup.or_says(stream.as_fd())).find_map(Result::err);
            assert_eq!(reason, Some(why));
            assert!(began.elapsed() >= Duration::from_secs(1), "{why}, after {:?}", began.elapsed());
        }
    }
}
