//! A link over a local socket: one process's way to a kernel in another.
//!
//! # The law of this boundary
//! Each client that connects is one process to the kernel, and its messages are allegations: a message that is cut, too long, of another
//! version or of no known kind ends that connection and nothing else. The process believes the kernel, for it maps what the kernel hands
//! over. Three kinds of connections belong to one process:
//! - **lanes**, on which the kernel answers each request by a response; a thread that waits in a call has a lane of its own, so that
//!   others go on. The kernel answers no posted call, and makes it before each request that the process sends later, on any lane;
//! - one **stream**, on which the kernel says in order what the process may map, what becomes of it, and what it is notified of. Only
//!   there do descriptors go out; the way back says that a change of a mapping holds, or that a doorbell was rung whose engine sleeps.
//!
//! A response says how far the stream was when the kernel made it; the asking thread goes on when the process has heard that much. So an
//! answer never names memory that the process does not have yet. The last messages before a response, if the call itself caused them and
//! no descriptor goes with them, come with the response: the asking thread carries them out, and no other thread has to wake. Every
//! message on the stream says how many came before it, so that all are carried out in their order whichever way they came.
//!
//! [`Packets`] and the messages are public because the daemon needs them, too; a process needs [`SocketLink`] alone.

mod hearing;
mod lanes;
mod link;
mod message;
mod packet;
mod packets;
mod unasked;

pub use link::{ConnectError, SocketLink};
pub use message::{
    Asked, CALLS_MAX, FileOf, Hello, Lost, PieceOf, Placed, Push, Pushed, QUEUED_MAX, Request, Response, Said, Told,
    VERSION,
};
pub use packet::{FILES_MAX, Files, PacketError};
pub use packets::{MESSAGE_MAX, Packets};
