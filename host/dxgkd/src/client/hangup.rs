//! The daemon detects that a client has gone, even while another process, or the daemon itself, holds the client's end of the connection.
//!
//! # The law of this boundary
//! - A stream ends when the last copy of the client's end is closed. The daemon itself may hold a copy: a client may send its end in a
//!   message, which the daemon opens when earlier requests are over, and these may wait for the client. So the thread that reads a
//!   client's answers watches its first lane, too. The client may have sent that as well: so the thread watches the client's process,
//!   where the operating system gives a descriptor of it.
//! - The kernel completes the requests that a client made before it went: the daemon ends it after [`LEFT_TO_DO`], or when a lane reports
//!   a closed connection.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kmt_link::socket::Packets;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long the pending requests of a client that has gone may still take.
const LEFT_TO_DO: Duration = Duration::from_secs(1);

/// The signs by which the daemon sees that a client has gone.
pub(crate) struct Hangup {
    lane: Arc<Packets>,
    /// Readable when it has died.
    process: Option<OwnedFd>,
    /// The client has gone: when the daemon saw it, and by which sign.
    gone: Option<(Instant, &'static str)>,
}

impl Hangup {
    /// Of a client with this first lane, and this process.
    pub fn new(lane: Arc<Packets>, process: Option<OwnedFd>) -> Hangup {
        Hangup { lane, process, gone: None }
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
            // Without a descriptor of the process, the lane fills its place and reports nothing new.
            let (process, died) = match &self.process {
                Some(process) => (process.as_fd(), PollFlags::IN),
                None => (self.lane.as_fd(), PollFlags::empty()),
            };
            let mut watched = [
                PollFd::from_borrowed_fd(stream, PollFlags::IN),
                PollFd::new(&*self.lane, PollFlags::empty()),
                PollFd::from_borrowed_fd(process, died),
            ];
            // A sign that was seen once would end every further poll at once.
            let watches = if self.gone.is_some() { 1 } else { watched.len() };
            match poll(&mut watched[..watches], left.as_ref()) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                // The operating system lacks memory: the caller reads the stream, without this watch.
                Err(_) => return Ok(()),
            }
            let [says, lane, process] = watched.map(|watched| watched.revents());
            if process.contains(PollFlags::IN) {
                self.gone = Some((Instant::now(), "its process has died"));
            } else if lane.contains(PollFlags::HUP) {
                self.gone = Some((Instant::now(), "it has closed its first lane"));
            }
            if !says.is_empty() {
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
            let (mut hangup, began) = (Hangup::new(lane, process), Instant::now());
            // The test never reads the stream, so it stays readable.
            let reason = std::iter::repeat_with(|| hangup.or_says(stream.as_fd())).find_map(Result::err);
            assert_eq!(reason, Some(why));
            assert!(began.elapsed() >= Duration::from_secs(1), "{why}, after {:?}", began.elapsed());
        }
    }
}
