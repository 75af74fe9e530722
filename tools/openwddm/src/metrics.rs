//! `openwddm serve --metrics`: the kernel's figures for a collector, as text in the exposition format 0.0.4 of Prometheus, at
//! `GET /metrics` of a small HTTP server. Called by `serve`.
//!
//! # The law of this boundary
//! Each client is a stranger. It may ask for one page and nothing else: nothing that it sends reaches the kernel, changes anything, or is
//! kept. Its bytes and its time are bounded ([`listener`]); the server serves as many strangers as it has threads at the same
//! time, and the others wait in the operating system. The server asks the kernel for figures as any process does ([`crate::top::feed`]), all of
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
pub mod request;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use dxgk_host::{Host, ProcessLink};

use self::listener::Listener;
use crate::error::RunError;
use crate::top::feed;

/// Serves the figures of a kernel until the value is dropped.
///
/// # Errors
/// [`RunError::Argument`] when nothing can listen there.
pub fn serve(host: &Arc<Host>, address: SocketAddr) -> Result<Listener, RunError> {
    // To the kernel it is a process without a device: it is in none of the figures that it asks for.
    let link = ProcessLink::new(Arc::clone(host));
    let page = move || feed::read(&*link).ok().map(|adapters| exposition::text(&adapters));
    Listener::start(address, page).map_err(|error| RunError::Argument {
        argument: format!("--metrics {address}"),
        problem: error.to_string(),
        remedy: "give another ADDRESS:PORT".to_owned(),
    })
}

/// `ADDRESS:PORT`, or a port of this machine alone.
///
/// # Errors
/// When it is neither.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| "give ADDRESS:PORT, or a port".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        assert_eq!(address("9100"), Ok(SocketAddr::from(([127, 0, 0, 1], 9100))));
        assert_eq!(address(":9100"), address("9100"));
        assert_eq!(address("[::1]:0").map(|address| address.is_ipv6()), Ok(true));
        for wrong in ["", ":", "65536", "localhost:1", "1.2.3.4"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
