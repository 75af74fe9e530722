//! A link over a local socket: one process's way to a kernel in another.
//!
//! # The law of this boundary
//! Who connects is one process to the kernel, and what it says is an allegation: a message that is cut, too long, of another version
//! or none at all ends that connection and nothing else. The process believes the kernel: it is the one that maps what it is handed.
//! Three kinds of connections belong to one process:
//! - **lanes**, on which a request is answered by a response; a thread that waits in a call has its own, so that others go on. A call that
//!   nobody waits for has no response, and is made before whatever the process asks later, on any lane;
//! - one **stream**, on which the kernel says in order what the process may map, what becomes of it, and what it is notified of. Only
//!   there do descriptors go out; the way back says that a change of a mapping holds, or that a doorbell was rung whose engine sleeps.
//!
//! A response says how far the stream was when it was made; whoever asked goes on when that much has been heard. So an answer never
//! names memory that the process does not have yet.
//!
//! What both sides need ([`Packets`], the messages) is public for the daemon; a process needs [`SocketLink`] alone.

mod hearing;
mod lanes;
mod link;
mod message;
mod packet;
mod packets;

pub use link::{ConnectError, SocketLink};
pub use message::{Asked, CALLS_MAX, Hello, PieceOf, Placed, Push, QUEUED_MAX, Request, Response, Said, Told, VERSION};
pub use packet::{FILES_MAX, PacketError};
pub use packets::{MESSAGE_MAX, Packets};
