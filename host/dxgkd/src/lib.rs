//! The daemon: one kernel, and processes elsewhere that do not trust each other or it.
//!
//! # The law of this boundary
//! Whoever connects is a process of its own to the kernel, known by what the operating system says of it, never by what it says
//! itself. What it sends is decoded once and handed over; what is no message of this version ends that client with a line in the log,
//! and touches nobody else. A client that does not listen, or does not answer, costs what its limits allow and is ended then: neither
//! the kernel nor another client ever waits for it. Nothing is handed out but files that hold pages lent to that very process, and
//! descriptors that stand for NT handles of it; one that comes back is known by its identity, and nothing is read from it.
//!
//! What a client leaves behind when it goes is cleared away for it, and its process waits for that before it is a client again ([`ProcessLimits::clearing_percent`]).
//!
//! A kernel that has failed (`Host::has_failed`) ends all clients, whoever waits in a call with them, and nobody becomes one any more.
//!
//! Threads: one accepts; each client has one that writes its stream, one that hears what holds, and one for each of its lanes, which
//! sleeps in the kernel where a call waits. The one that hears looks whether the client has gone, too (`going`, decision 0035).

mod client;
mod departures;
mod descriptors;
mod going;
mod kept_waiting;
mod lane;
mod limits;
mod listener;
mod mappings;
mod peer;
mod posts;
mod refusals;
mod sandbox;
mod socket;
mod stream;
mod user;

pub use descriptors::raise_descriptors;
pub use limits::{Limits, OfUser, ProcessLimits, UNLIMITED, UserLimits};
pub use listener::{Daemon, ServeError};
pub use sandbox::{Files, SandboxError, give_up_calls, give_up_files};
pub use socket::Socket;
