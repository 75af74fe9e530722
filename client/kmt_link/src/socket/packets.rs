//! Messages of bytes and descriptors over a connection. A message longer than a packet goes in several; the receiver says how long a
//! message may be and how many descriptors it may bring.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::packet::{Connection, FILES_MAX, Files, LAST, MORE, PACKET_BYTES, PacketError};

/// Most bytes of one request: a list of 2^20 fences with their values is a quarter of it. Where a daemon's limit of messages
/// (`process.messages`) is lower, that limit refuses the call. Answers have no such bound: a process believes its kernel, and they
/// are as long as what the process has asked for.
pub const MESSAGE_MAX: usize = 64 << 20;
/// The bytes of a message, or why there was no room for them.
pub type Bytes = Result<Vec<u8>, String>;

/// One end of a connection.
#[derive(Debug)]
pub struct Packets {
    connection: Connection,
}

impl Packets {
    /// An end that the caller has connected: a local socket of sequenced packets.
    pub fn new(socket: OwnedFd) -> Packets {
        Packets { connection: Connection::new(socket) }
    }

    /// The same for a process that may make any system call, to a peer that it believes: it sends a message without descriptors, and
    /// receives one that may bring none, by calls that know of none. They take the operating system less time, and the operating system
    /// closes descriptors that a peer sends with such a message nevertheless.
    #[must_use]
    pub fn shortly(mut self) -> Packets {
        self.connection.shortly = true;
        self
    }

    /// Two ends of a new connection.
    ///
    /// # Errors
    /// When the operating system has no descriptors left.
    pub fn pair() -> Result<(Packets, OwnedFd), Errno> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Packets::new(ours), theirs))
    }

    /// Sends a message with descriptors.
    ///
    /// # Errors
    /// When the peer has gone.
    ///
    /// # Panics
    /// With more than [`FILES_MAX`] descriptors: the caller sends more in several messages.
    pub fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), PacketError> {
        self.send_all(bytes, files, None)
    }

    /// The same to a peer that is waited for no longer than this at each packet.
    ///
    /// # Errors
    /// When it has gone; `AGAIN` when it did not hear in time.
    ///
    /// # Panics
    /// As [`Packets::send`].
    pub fn send_within(&self, patience: Duration, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), PacketError> {
        self.send_all(bytes, files, Some(patience))
    }

    /// Sends a message if it fits a packet and the peer has room for it now; false: it has not been sent.
    ///
    /// # Errors
    /// When the peer has gone.
    ///
    /// # Panics
    /// As [`Packets::send`].
    pub fn send_at_once(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<bool, PacketError> {
        assert!(files.len() <= FILES_MAX, "{} descriptors in a message", files.len());
        if bytes.len() > PACKET_BYTES {
            return Ok(false);
        }
        match self.connection.send(LAST, bytes, files, Some(Duration::ZERO)) {
            Ok(()) => Ok(true),
            Err(PacketError::System(Errno::AGAIN)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn send_all(&self, bytes: &[u8], files: &[BorrowedFd<'_>], patience: Option<Duration>) -> Result<(), PacketError> {
        assert!(files.len() <= FILES_MAX, "{} descriptors in a message", files.len());
        let mut chunks = bytes.chunks(PACKET_BYTES).peekable();
        let mut files = Some(files);
        loop {
            let chunk = chunks.next().unwrap_or_default();
            let first = if chunks.peek().is_some() { MORE } else { LAST };
            self.connection.send(first, chunk, files.take().unwrap_or_default(), patience)?;
            if first == LAST {
                return Ok(());
            }
        }
    }

    /// Waits for the next message of at most `bytes_max` bytes and `files_max` descriptors.
    ///
    /// # Errors
    /// When the peer has gone, or says what is no such message: nothing more is to be had from it then. Descriptors that the limit of this
    /// process keeps out are no error of the connection: [`Files::all`] tells.
    pub fn receive(&self, bytes_max: usize, files_max: usize) -> Result<(Vec<u8>, Files), PacketError> {
        let (bytes, files) = self.receive_within(bytes_max, files_max, &mut |_| Ok(()))?;
        Ok((bytes.expect("there is always room"), files))
    }

    /// The same from a peer that is waited for no longer than this at each packet.
    ///
    /// # Errors
    /// As of [`Packets::receive`]; `AGAIN` when it did not speak in time.
    pub fn receive_patiently(
        &self,
        patience: Duration,
        bytes_max: usize,
        files_max: usize,
    ) -> Result<(Vec<u8>, Files), PacketError> {
        let (bytes, files) = self.receive_all(bytes_max, files_max, &mut |_| Ok(()), Some(patience))?;
        Ok((bytes.expect("there is always room"), files))
    }

    /// The same as [`Packets::receive`], asking before each packet behind the first whether there is room for so many bytes more. If
    /// there is none, the rest of the message is thrown away, and there is the reason instead of its bytes: the next message is received
    /// as if nothing had been.
    ///
    /// # Errors
    /// As of [`Packets::receive`].
    pub fn receive_within(
        &self,
        bytes_max: usize,
        files_max: usize,
        room: &mut dyn FnMut(usize) -> Result<(), String>,
    ) -> Result<(Bytes, Files), PacketError> {
        self.receive_all(bytes_max, files_max, room, None)
    }

    fn receive_all(
        &self,
        bytes_max: usize,
        files_max: usize,
        room: &mut dyn FnMut(usize) -> Result<(), String>,
        patience: Option<Duration>,
    ) -> Result<(Bytes, Files), PacketError> {
        let (mut bytes, mut files) = (Vec::new(), Files::default());
        // Of a message for which there is no room: why, and how long it was up to here.
        let mut thrown = None;
        loop {
            let first = self.connection.receive(&mut bytes, &mut files, files_max, patience)?;
            if files.count() > files_max {
                return Err(PacketError::Malformed("more descriptors than it may have"));
            }
            let before = match &mut thrown {
                None => 0,
                Some((_, length)) => {
                    *length += bytes.len();
                    bytes.clear();
                    *length
                }
            };
            if before + bytes.len() > bytes_max {
                return Err(PacketError::Malformed("longer than it may be"));
            }
            if thrown.is_none()
                && first == MORE
                && let Err(reason) = room(PACKET_BYTES)
            {
                thrown = Some((reason, bytes.len()));
                bytes = Vec::new();
            }
            match first {
                LAST => return Ok((thrown.map_or(Ok(bytes), |(reason, _)| Err(reason)), files)),
                MORE => {}
                _ => {
                    return Err(PacketError::Malformed(
                        "the first byte of a packet says neither that the message ends nor that it goes on",
                    ));
                }
            }
        }
    }

    /// Whether the peer has said something that was not received yet.
    pub fn has_unread(&self) -> bool {
        self.connection.has_unread()
    }

    /// Whether the connection has ended, by either end: nothing more is said on it.
    pub fn has_ended(&self) -> bool {
        self.connection.has_ended()
    }

    /// Ends the connection for both: a thread that waits at either end is told that the peer has gone.
    pub fn close(&self) {
        self.connection.close();
    }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
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
    fn a_message_arrives_whole_whatever_its_length() {
        let (ours, theirs) = pair();
        for length in [0, 1, PACKET_BYTES - 1, PACKET_BYTES, PACKET_BYTES + 1, 5 * PACKET_BYTES + 7] {
            let message: Vec<u8> = (0..length).map(|at| at as u8).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| ours.send(&message, &[]).expect("the peer listens"));
                let (bytes, files) = theirs.receive(MESSAGE_MAX, 0).expect("a message");
                assert_eq!((bytes == message, files.count()), (true, 0), "{length} bytes");
            });
        }
    }

    #[test]
    fn descriptors_arrive_with_their_message_and_only_as_many_as_wanted() {
        let (ours, theirs) = pair();
        let files = [ours.as_fd(); FILES_MAX];
        ours.send(b"many", &files).expect("the peer listens");
        assert_eq!(theirs.receive(16, FILES_MAX).expect("a message").1.count(), FILES_MAX);
        ours.send(b"two", &files[..2]).expect("the peer listens");
        assert!(matches!(theirs.receive(16, 1), Err(PacketError::Malformed("more descriptors than it may have"))));
    }

    #[test]
    fn a_message_that_never_ends_is_refused_at_its_bound() {
        let (ours, theirs) = pair();
        ours.connection.send(MORE, &[0; 100], &[], None).expect("the peer listens");
        ours.connection.send(MORE, &[0; 100], &[], None).expect("the peer listens");
        assert!(matches!(theirs.receive(150, 0), Err(PacketError::Malformed("longer than it may be"))));
        ours.connection.send(7, &[], &[], None).expect("the peer listens");
        assert!(matches!(theirs.receive(150, 0), Err(PacketError::Malformed(_))));
        rustix::net::send(&ours, &[0; PACKET_BYTES + 2], rustix::net::SendFlags::empty()).expect("the peer listens");
        assert!(matches!(theirs.receive(MESSAGE_MAX, 0), Err(PacketError::Malformed("a packet that is too long"))));
    }

    #[test]
    fn a_message_without_room_is_thrown_away_and_the_next_one_is_heard() {
        let (ours, theirs) = pair();
        let long = vec![7; 4 * PACKET_BYTES];
        let files = [ours.as_fd()];
        let mut asked = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ours.send(&long, &files).expect("the peer listens");
                ours.send(b"next", &[]).expect("the peer listens");
                ours.send(&long, &[]).expect("the peer listens");
            });
            let mut room = |more| {
                asked.push(more);
                if asked.len() < 3 { Ok(()) } else { Err("full".to_owned()) }
            };
            let (bytes, files) = theirs.receive_within(MESSAGE_MAX, 1, &mut room).expect("a message");
            assert_eq!((bytes, files.count()), (Err("full".to_owned()), 1));
            let mut none = |_| Err("none".to_owned());
            let next = theirs.receive_within(MESSAGE_MAX, 0, &mut none).expect("a message").0;
            assert_eq!(next, Ok(b"next".to_vec()), "a packet comes with its lane");
            let refused = theirs.receive_within(3 * PACKET_BYTES, 0, &mut none);
            assert!(matches!(refused, Err(PacketError::Malformed("longer than it may be"))), "thrown away or not");
        });
        assert_eq!(asked, [PACKET_BYTES; 3], "once for each packet behind the first, until there is none");
    }

    #[test]
    fn a_peer_that_neither_speaks_nor_hears_is_not_waited_for_for_ever() {
        let (ours, theirs) = pair();
        let patience = Duration::from_millis(20);
        let over = |result: PacketError| assert!(matches!(result, PacketError::System(Errno::AGAIN)), "{result}");
        over(ours.receive_patiently(patience, 16, 0).expect_err("it says nothing"));
        theirs.connection.send(MORE, &[0; 8], &[], None).expect("the peer listens");
        over(ours.receive_patiently(patience, 16, 0).expect_err("it never ends"));
        let late = std::iter::repeat_with(|| ours.send_within(patience, &[0; 1000], &[])).find_map(Result::err);
        over(late.expect("no socket takes everything"));
        assert!(!ours.send_at_once(&[0; 1000], &[]).expect("it is there"), "there is no room yet");
        // One that does both in time is heard, and hears.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while theirs.receive(2000, 0).is_ok_and(|(bytes, _)| bytes.len() == 1000) {}
                theirs.send(b"well", &[]).expect("the peer listens");
            });
            let patience = Duration::from_secs(20);
            ours.send_within(patience, b"well?", &[]).expect("it hears");
            assert_eq!(ours.receive_patiently(patience, 16, 0).expect("it speaks").0, b"well");
        });
        assert!(ours.send_at_once(b"at once", &[]).expect("it is there"));
        assert_eq!(theirs.receive(16, 0).expect("a message").0, b"at once");
        assert!(!ours.send_at_once(&[0; PACKET_BYTES + 1], &[]).expect("it is there"), "more than a packet");
        drop(theirs);
        assert!(matches!(ours.send_at_once(b"?", &[]), Err(PacketError::Closed)));
        assert!(matches!(ours.receive_patiently(patience, 16, 0), Err(PacketError::Closed)));
    }

    #[test]
    fn a_waiting_thread_is_told_that_the_peer_has_gone() {
        let (ours, theirs) = pair();
        drop(theirs);
        assert!(matches!(ours.receive(1, 0), Err(PacketError::Closed)));
        assert!(matches!(ours.send(b"?", &[]), Err(PacketError::Closed)));
        let (ours, _theirs) = pair();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| ours.receive(1, 0));
            ours.close();
            assert!(matches!(waits.join().expect("no panic"), Err(PacketError::Closed)));
        });
    }
}
