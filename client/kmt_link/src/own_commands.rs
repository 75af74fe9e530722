//! The commands that engines have begun for the process that asks, by kind. The host counts them, the socket link carries the counts.

use serde::{Deserialize, Serialize};

/// Commands of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandUses {
    /// The kind, as the device names it; `signal`, `wait`, `fault`.
    pub kind: String,
    /// How many an engine has begun, and of waits ended.
    pub done: u64,
    /// How many faulted.
    pub failed: u64,
    /// The number of the first among all commands of the process, from 1 on.
    pub first: u64,
    /// How long ago it was, by the device's clock.
    pub first_age_ns: u64,
    /// Why the first of them faulted; empty: none has.
    pub why: String,
}

/// Those of a process since it asked first, by kind, each kind once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCommands {
    /// The kinds in the order of their names.
    pub kinds: Vec<CommandUses>,
}
