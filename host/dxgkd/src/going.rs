//! How it is seen that a client has gone, whoever has its connection still.
//!
//! # The law of this boundary
//! - A stream ends when nobody has the client's end of it any more. The daemon itself may have it: a client may send it in a message, which is
//!   looked at when what was asked before is over, and that may wait for the client. So whoever hears a client watches its first
//!   lane, too. That it may have sent as well: so its process is watched where the operating system tells of it.
//! - What a client has asked for before it went is done: it is ended after [`LEFT_TO_DO`], or when its lanes have found out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kmt_link::socket::Packets;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long what a client has asked for may take when it has gone.
const LEFT_TO_DO: Duration = Duration::from_secs(1);

/// What tells that a client has gone.
pub(crate) struct Going {
    lane: Arc<Packets>,
    /// Readable when it has died.
    process: Option<OwnedFd>,
    /// It has gone: since when it is known, and by what.
    gone: Option<(Instant, &'static str)>,
}

impl Going {
    /// Of a client with this first lane, and this process.
    pub fn new(lane: Arc<Packets>, process: Option<OwnedFd>) -> Going {
        Going { lane, process, gone: None }
    }

    /// Waits until there is something to be heard on a client's stream, its end included.
    ///
    /// # Errors
    /// Why the client has gone, which is not heard there.
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
            // Where the process is not told of, its lane stands for it.
            let (process, died) = match &self.process {
                Some(process) => (process.as_fd(), PollFlags::IN),
                None => (self.lane.as_fd(), PollFlags::empty()),
            };
            let mut watched = [
                PollFd::from_borrowed_fd(stream, PollFlags::IN),
                PollFd::new(&*self.lane, PollFlags::empty()),
                PollFd::from_borrowed_fd(process, died),
            ];
            // What has been seen once would be seen at once.
            let watches = if self.gone.is_some() { 1 } else { watched.len() };
            match poll(&mut watched[..watches], left.as_ref()) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                // For want of memory: the stream is heard as if nobody watched.
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
        // As a process: readable from its death on. Somebody has that one's lane.
        let process = dies.as_fd().try_clone_to_owned().expect("a descriptor");
        let goings = [(Arc::new(lane), None), (Arc::new(other), Some(process))];
        its_stream.send(b"said", &[]).expect("it is heard");
        lives.send(b"died", &[]).expect("it is heard");
        drop(its_lane);
        for ((lane, process), why) in goings.into_iter().zip(["it has closed its first lane", "its process has died"]) {
            let (mut going, began) = (Going::new(lane, process), Instant::now());
            // Nobody reads it: there is something to be heard all the time.
            let reason = std::iter::repeat_with(|| going.or_says(stream.as_fd())).find_map(Result::err);
            assert_eq!(reason, Some(why));
            assert!(began.elapsed() >= Duration::from_secs(1), "{why}, after {:?}", began.elapsed());
        }
    }
}
