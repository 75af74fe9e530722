//! `openwddm serve --metrics`: where it listens. The figures and the server are `activity`'s. Called by `serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use activity::metrics::listener::Listener;
use dxgk_host::{Host, ProcessLink};

use crate::error::RunError;

/// Serves the figures of a kernel until the value is dropped.
///
/// # Errors
/// [`RunError::Argument`] when nothing can listen there.
pub fn serve(host: &Arc<Host>, address: SocketAddr) -> Result<Listener, RunError> {
    // To the kernel it is a process without a device: it is in none of the figures that it asks for.
    let link = ProcessLink::new(Arc::clone(host));
    activity::metrics::serve(link, address).map_err(|error| RunError::Argument {
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
