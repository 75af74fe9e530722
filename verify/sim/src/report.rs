//! How a world ended.

use std::collections::BTreeMap;
use std::fmt;

/// A world that came to its end with every checker content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// The hash of every event with its time: equal for equal runs, in every build.
    pub trace_hash: u64,
    /// The number of events.
    pub events: u64,
    /// Calls of all processes.
    pub calls: u64,
    /// Turns of the world.
    pub turns: u64,
    /// Virtual time at the end, in nanoseconds.
    pub virtual_ns: u64,
    /// How often each kind of event was seen; moves of memory by how and why, refusals by call.
    pub seen: BTreeMap<String, u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: trace {:#018x}, {} events, {} calls, {} turns, {} us",
            self.seed,
            self.trace_hash,
            self.events,
            self.calls,
            self.turns,
            self.virtual_ns / 1000
        )
    }
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed that shows it again.
    pub seed: u64,
    /// The checker that found it.
    pub checker: &'static str,
    /// Where, and what.
    pub place: String,
    /// The last events before it.
    pub last_events: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}: {}", self.seed, self.checker, self.place)?;
        self.last_events.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl std::error::Error for Violation {}
