//! The result of a run.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls that are shown with a failure.
const LAST_CALLS: usize = 24;

/// Worlds that held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Calls made.
    pub calls: u64,
    /// Calls refused.
    pub refused: u64,
    /// Refusals at which the whole state was compared with the one before.
    pub compared: u64,
    /// Times that the computer slept.
    pub sleeps: u64,
    /// Rounds of work whose bytes the witness found right.
    pub rounds: u64,
    /// How often each kind of call was answered, and refused.
    pub by_call: BTreeMap<String, [u64; 2]>,
    /// How often each reason was given, by call, numbers left out.
    pub reasons: BTreeMap<String, u64>,
    /// Lies that were told, by kind.
    pub lies: BTreeMap<String, u64>,
    /// Adapters that were stopped or did not start.
    pub stopped: u64,
}

impl Report {
    /// Both together.
    pub fn add(&mut self, other: Report) {
        self.calls += other.calls;
        self.refused += other.refused;
        self.compared += other.compared;
        self.rounds += other.rounds;
        self.sleeps += other.sleeps;
        self.stopped += other.stopped;
        for (call, [answered, refused]) in other.by_call {
            let sum = self.by_call.entry(call).or_default();
            *sum = [sum[0] + answered, sum[1] + refused];
        }
        for (reason, count) in other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        for (lie, count) in other.lies {
            *self.lies.entry(lie).or_default() += count;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (calls, refused, compared) = (self.calls, self.refused, self.compared);
        write!(
            f,
            "{calls} calls, {refused} refused, {compared} of them compared; {} rounds, {} sleeps",
            self.rounds, self.sleeps
        )?;
        if !self.lies.is_empty() {
            write!(f, "; {} lies, {} adapters stopped", self.lies.values().sum::<u64>(), self.stopped)?;
        }
        Ok(())
    }
}

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed of the world.
    pub seed: u64,
    /// The rule that did not hold.
    pub rule: &'static str,
    /// The failure.
    pub place: String,
    /// How many steps of the world it takes.
    pub steps: usize,
    /// The last calls.
    pub last: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}: {} ({} steps)", self.seed, self.rule, self.place, self.steps)?;
        self.last.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

/// The last calls of a world, kept where a panic does not take them along.
#[derive(Clone, Debug, Default)]
pub struct Diary(Arc<Mutex<VecDeque<String>>>);

impl Diary {
    /// Adds a line.
    pub fn write(&self, line: String) {
        let mut lines = self.lines();
        lines.push_back(line);
        if lines.len() > LAST_CALLS {
            lines.pop_front();
        }
    }

    /// All lines that are kept.
    pub fn read(&self) -> Vec<String> {
        self.lines().iter().cloned().collect()
    }

    fn lines(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
