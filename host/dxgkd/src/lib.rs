//! The daemon: one kernel, and processes elsewhere that do not trust each other or it.
//!
//! # The law of this boundary
//! Each connection is a process of its own to the kernel. The operating system identifies that process; the daemon believes nothing that
//! the process says of itself. The daemon decodes each message once and hands it to the kernel. A malformed message disconnects and logs
//! that client and no other. A client that does not read or does not answer costs what its limits allow, and the daemon disconnects it
//! then: neither the kernel nor another client ever waits for it. The daemon sends a client only files with pages lent to that very
//! process, and descriptors that stand for NT handles of it. The daemon recognizes a returned descriptor by its identity, and reads
//! nothing from it.
//!
//! The kernel reaps a dead client's objects, and the next client of the same process waits for the time that this has cost
//! ([`ProcessLimits::clearing_percent`]).
//!
//! When a kernel has failed (`Host::has_failed`), the daemon disconnects all clients, also those with a pending call, and refuses new ones.
//!
//! Threads: one accepts; each client has one that writes its stream, one that reads its answers, and one for each of its lanes, which
//! sleeps in the kernel while a call is pending. The thread that reads answers also watches whether the client has gone (`client::hangup`,
//! decision 0035).

mod client;
mod limits;
mod listener;
mod process;

pub use limits::{Limits, OfUser, ProcessLimits, UNLIMITED, UserLimits};
pub use listener::socket::Socket;
pub use listener::{Daemon, Names, ServeError};
pub use process::descriptors::raise_descriptors;
pub use process::outside::{Outside, OutsideError, look};
pub use process::sandbox::{Files, SandboxError, give_up_calls, give_up_files, keep_folders};
