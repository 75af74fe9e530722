//! The life of a doorbell: one enum, one table (sync §2.9, §3.17).
//!
//! ```text
//!                 Connect                                    Lose
//! Disconnected ──────────▶ Connected ─────────────────────────────────────────────▶ Aborted
//!      ▲                       │         (from Disconnected, too)
//!      └───────────────────────┘ Take
//! ```
//! Connected, the process rings the physical doorbell; else it rings at a page that leads nowhere, and its status says so. Taking away a
//! doorbell that is not connected changes nothing; one that is lost stays lost.

use super::doorbell_status;

/// Where a doorbell is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// Its process may connect it.
    Disconnected,
    /// Its process rings the physical doorbell that the driver has assigned.
    Connected,
    /// Its process can only destroy it.
    Aborted,
}

/// What happens to a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The driver has assigned a physical doorbell.
    Connect,
    /// Another queue needs it, its engine loses power, its queue gets other logs.
    Take,
    /// Its device is lost, or the driver says that it is.
    Lose,
}

impl Connection {
    /// The next state. The kernel connects no doorbell that is lost; if the driver loses one while it connects it, its last word counts.
    // spec: sync §3.17
    pub(super) fn after(self, change: Change) -> Connection {
        use Change::*;
        use Connection::*;
        match (self, change) {
            (_, Connect) => Connected,
            (Disconnected | Connected, Take) => Disconnected,
            (Aborted, Take) | (_, Lose) => Aborted,
        }
    }

    /// The status word of a doorbell that its process cannot ring; `None`: it can.
    // spec: sync §2.9
    pub(super) fn status(self) -> Option<u64> {
        match self {
            Connection::Disconnected => Some(doorbell_status::DISCONNECTED_RETRY),
            Connection::Connected => None,
            Connection::Aborted => Some(doorbell_status::DISCONNECTED_ABORT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Change::*;
    use super::Connection::*;

    #[test]
    fn every_change_in_every_state() {
        // spec: sync §2.9, sync §3.17
        #[rustfmt::skip]
        let table = [
            //              Connect    Take          Lose
            (Disconnected, [Connected, Disconnected, Aborted]),
            (Connected,    [Connected, Disconnected, Aborted]),
            (Aborted,      [Connected, Aborted,      Aborted]),
        ];
        for (state, row) in table {
            for (change, next) in [Connect, Take, Lose].into_iter().zip(row) {
                assert_eq!(state.after(change), next, "{change:?} in {state:?}");
            }
        }
        assert_eq!([Disconnected, Connected, Aborted].map(super::Connection::status), [Some(2), None, Some(3)]);
    }
}
