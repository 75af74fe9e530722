//! Packets over a connection that keeps their bounds, each of some bytes and descriptors. The first byte says whether its message goes on in
//! the next.
//!
//! # The law of this file
//! Descriptors that another process has opened come into this one here and nowhere else, with `recvmsg` in `Connection::receive_files`
//! (`cargo xtask tidy` looks). The operating system closes each when another program is started; each has an owner from the moment that
//! it is there, and is closed with its message if the message is refused. A packet cannot bring more than the operating system takes,
//! 253. Where the limit of this process keeps some out, the packet arrives with a word of that ([`Files`]), and the connection goes on. This
//! file does not look at what they are open on: the receiver judges that.

use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::LocalKey;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, RecvMsg, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown,
};
use shared_words::MemoryError;

/// Most descriptors of one message; the operating system takes 253.
pub const FILES_MAX: usize = 200;
/// Bytes of a packet behind its first.
pub(super) const PACKET_BYTES: usize = 32 << 10;
/// Bytes of the longest packet, and one more, by which a longer one is found.
const ARRIVAL_BYTES: usize = 1 + PACKET_BYTES + 1;
/// This packet ends its message.
pub(super) const LAST: u8 = 1;
/// The message goes on in the next packet.
pub(super) const MORE: u8 = 0;

thread_local! {
    /// Where packets arrive, whole: it is cleared once for each thread, not for each packet, which would cost more than a short one itself.
    static ARRIVAL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Where packets are put together, for the operating system takes one piece faster than two.
    static DEPARTURE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends a buffer of this thread. A thread that ends has none any more when it calls from a destructor, as the main thread does from those of
/// a program's statics: it has one for this packet alone.
fn with_buffer<T>(kept: &'static LocalKey<RefCell<Vec<u8>>>, work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut work = Some(work);
    let mut go_on = |buffer: &mut Vec<u8>| (work.take().expect("a buffer is lent once"))(buffer);
    match kept.try_with(|buffer| go_on(&mut buffer.borrow_mut())) {
        Ok(done) => done,
        Err(_) => go_on(&mut Vec::new()),
    }
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// The peer has gone.
    #[error("the peer has closed the connection")]
    Closed,
    /// This end has given the connection up, for this reason: it could not go on with what the peer had said.
    #[error("this process has closed the connection after an error: {0}")]
    GivenUp(String),
    /// The peer says what no peer says.
    #[error("malformed message: {0}")]
    Malformed(&'static str),
    /// Another lane is over a limit of this process or its user.
    #[error("{0}")]
    NoLane(String),
    /// The message is longer than any that the peer reads: it has not been sent.
    #[error("the message has {0} bytes, and {max} are the most; ask for less at a time", max = super::packets::MESSAGE_MAX)]
    TooLong(usize),
    /// The caller is a child that `fork` has made of the process that the kernel knows.
    #[error("this process was forked from the one that opened the connection, and cannot use it")]
    Forked,
    /// The operating system refuses.
    #[error(transparent)]
    System(#[from] Errno),
    /// It gives no addresses for what came with the message, or that is not what it should be.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// The descriptors that come with a message.
#[derive(Debug, Default)]
pub struct Files {
    came: Vec<OwnedFd>,
    /// The limit of this process has kept some out (`RLIMIT_NOFILE`).
    kept_out: bool,
}

impl Files {
    /// All of them.
    ///
    /// # Errors
    /// `MFILE`: the limit of this process has kept some out. Those that came are closed.
    pub fn all(self) -> Result<Vec<OwnedFd>, Errno> {
        if self.kept_out { Err(Errno::MFILE) } else { Ok(self.came) }
    }

    /// How many have come.
    pub(super) fn count(&self) -> usize {
        self.came.len()
    }
}

/// A local socket of sequenced packets.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    /// Whether packets without descriptors go by the shorter calls.
    pub shortly: bool,
}

impl Connection {
    pub fn new(socket: OwnedFd) -> Connection {
        Connection { socket, shortly: false }
    }

    /// Sends a packet; to a peer that is waited for no longer than this, if it is said.
    pub fn send(
        &self,
        first: u8,
        chunk: &[u8],
        files: &[BorrowedFd<'_>],
        patience: Option<Duration>,
    ) -> Result<(), PacketError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(files)), "there is room for them");
        }
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::DONTWAIT, patience.is_some());
        with_buffer(&DEPARTURE, |packet| {
            packet.clear();
            packet.push(first);
            packet.extend_from_slice(chunk);
            let part = [IoSlice::new(packet)];
            loop {
                let sent = match self.shortly && files.is_empty() {
                    true => rustix::net::send(&self.socket, &part[0], flags),
                    false => rustix::net::sendmsg(&self.socket, &part, &mut control, flags),
                };
                match sent {
                    Ok(_) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => match patience.filter(|patience| !patience.is_zero()) {
                        Some(patience) => self.await_peer(PollFlags::OUT, patience)?,
                        None => return Err(Errno::AGAIN.into()),
                    },
                    Err(Errno::PIPE | Errno::CONNRESET) => return Err(PacketError::Closed),
                    Err(error) => return Err(error.into()),
                }
            }
        })
    }

    /// Appends a packet that brings no more descriptors than are wanted; returns its first byte. A peer is waited for no longer than this, if it is said.
    pub fn receive(
        &self,
        bytes: &mut Vec<u8>,
        files: &mut Files,
        files_max: usize,
        patience: Option<Duration>,
    ) -> Result<u8, PacketError> {
        patience.map_or(Ok(()), |patience| self.await_peer(PollFlags::IN, patience))?;
        if self.shortly && files_max == 0 { self.receive_bytes(bytes) } else { self.receive_files(bytes, files) }
    }

    /// Appends a packet without descriptors; returns its first byte.
    fn receive_bytes(&self, bytes: &mut Vec<u8>) -> Result<u8, PacketError> {
        with_buffer(&ARRIVAL, |arrival| {
            arrival.resize(ARRIVAL_BYTES, 0);
            loop {
                match rustix::net::recv(&self.socket, &mut arrival[..], RecvFlags::empty()) {
                    Ok((0, _)) => return Err(PacketError::Closed),
                    Ok((ARRIVAL_BYTES.., _)) => return Err(PacketError::Malformed("a packet that is too long")),
                    Ok((got, _)) => {
                        bytes.extend_from_slice(&arrival[1..got]);
                        return Ok(arrival[0]);
                    }
                    // As below.
                    Err(Errno::INTR | Errno::CONNRESET) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        })
    }

    /// The one place at which descriptors of others come in.
    fn receive_into(
        &self,
        parts: &mut [IoSliceMut<'_>],
        control: &mut RecvAncillaryBuffer<'_>,
        flags: RecvFlags,
    ) -> Result<RecvMsg, Errno> {
        rustix::net::recvmsg(&self.socket, parts, control, flags)
    }

    /// Appends a packet; returns its first byte.
    fn receive_files(&self, bytes: &mut Vec<u8>, files: &mut Files) -> Result<u8, PacketError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let (got, first) = with_buffer(&ARRIVAL, |arrival| {
            arrival.resize(ARRIVAL_BYTES, 0);
            loop {
                let mut part = [IoSliceMut::new(&mut arrival[..1 + PACKET_BYTES])];
                match self.receive_into(&mut part, &mut control, RecvFlags::CMSG_CLOEXEC) {
                    Ok(got) => {
                        // A packet that is longer is refused below.
                        bytes.extend_from_slice(&arrival[1..got.bytes.clamp(1, 1 + PACKET_BYTES)]);
                        return Ok((got, arrival[0]));
                    }
                    // A peer that went without hearing all is told of once, before what it had said: that is read yet.
                    Err(Errno::INTR | Errno::CONNRESET) => {}
                    Err(error) => return Err(error),
                }
            }
        })?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.came.extend(rights);
            }
        }
        if got.bytes == 0 {
            return Err(PacketError::Closed);
        }
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(PacketError::Malformed("a packet that is too long"));
        }
        // There is room for as many as a packet brings: so only the limit of this process keeps some out.
        files.kept_out |= got.flags.contains(ReturnFlags::CTRUNC);
        Ok(first)
    }

    /// Waits until the peer has said something, or has room for something; or has gone, which is found then.
    fn await_peer(&self, what: PollFlags, patience: Duration) -> Result<(), PacketError> {
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // PANIC: no caller's patience is longer than a clock can say.
            let left = Timespec::try_from(left).expect("a time");
            match poll(&mut [PollFd::new(&self.socket, what)], Some(&left)) {
                Ok(0) => return Err(Errno::AGAIN.into()),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a packet has come that was not received yet.
    pub fn has_unread(&self) -> bool {
        let (mut first, mut control) = ([0], RecvAncillaryBuffer::default());
        let looks = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let looked = self.receive_into(&mut [IoSliceMut::new(&mut first)], &mut control, looks);
        looked.is_ok_and(|looked| looked.bytes > 0)
    }

    /// Whether either end has ended it.
    pub fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        // If that cannot be found out, nothing has ended it.
        poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().contains(PollFlags::HUP)
    }

    /// Ends the connection for both: a thread that waits at either end is told that the peer has gone.
    pub fn close(&self) {
        // A peer that has gone already has closed it.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
