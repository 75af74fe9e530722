//! The kernel's events about the process that asks for them, as a daemon hands them out. The host fills these, the socket link carries them.

use events::Event;
use serde::{Deserialize, Serialize};

/// An event about the asking process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnEvent {
    /// The adapter whose numbers it has; `None`: it is about no adapter.
    pub adapter: Option<u32>,
    /// When it happened, by the kernel's clock.
    pub now_ns: u64,
    /// The event; numbers and bytes of other processes in it are 0.
    pub event: Event,
}

/// Those that have come since the process looked last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnEvents {
    /// The oldest first. The first look of a process has the facts of all adapters alone, and events come from then on.
    pub events: Vec<OwnEvent>,
    /// How many had no room because the process looked too seldom.
    pub lost: u64,
    /// More are there already.
    pub more: bool,
}
