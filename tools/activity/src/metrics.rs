//! The kernel's figures for a collector (`openwddm serve --metrics`), as text in the exposition format 0.0.4 of Prometheus, at
//! `GET /metrics` of a small HTTP server.
//!
//! # The law of this boundary
//! Each client is a stranger. It may ask for one page and nothing else: nothing that it sends reaches the kernel, changes anything, or is
//! kept. Its bytes and its time are bounded ([`listener`]); the server serves as many strangers as it has threads at the same
//! time, and the others wait in the operating system. The server asks the kernel for figures as any process does ([`crate::feed`]), all of
//! them before it writes the first byte: no lock of the kernel is held over a network. Every process on this machine may read figures, and so
//! the server listens on this machine only, unless it is told an address.
//!
//! | module | what it is |
//! |---|---|
//! | `listener` | threads, sockets, bounds |
//! | `request` | requests and responses, as functions of bytes |
//! | `exposition` | figures as text |

pub mod exposition;
pub mod listener;
mod request;

use std::net::SocketAddr;
use std::sync::Arc;

use kmt_link::Link;

use self::listener::Listener;
use crate::feed;

/// Serves the figures of the kernel at the other end of a link until the value is dropped.
///
/// # Errors
/// When nothing can listen at the address.
pub fn serve(link: Arc<dyn Link>, address: SocketAddr) -> std::io::Result<Listener> {
    let page = move || feed::read(&*link).ok().map(|adapters| exposition::text(&adapters));
    Listener::start(address, page)
}
