//! The report: what was measured, against what, and how it is judged, as a table. It measures nothing. Filled by the suite, read by the
//! command line and by `record`, `compare` and `page`.

use std::fmt;

use serde::{Deserialize, Serialize};
use shared_words::MemoryError;

use crate::machine::Machine;
use crate::statistic::Ratio;

/// Why a run gave no report, or a report that shows a broken promise.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The caller's output took no more.
    #[error("the report could not be written: {0}")]
    Output(#[from] std::io::Error),
    /// No memory for the buffers.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The kernel refused something that the measure needs.
    #[error(transparent)]
    Refused(#[from] d3dkmt::Refusal),
    /// So did the user-mode driver.
    #[error(transparent)]
    Driver(#[from] softgpu_umd::UmdError),
    /// The device did not do what its data sheet says.
    #[error("the software GPU: {0}")]
    Device(String),
    /// A count that has to be zero was not.
    #[error("broken promise: {measure} counted {counted}, and must count 0")]
    Broken {
        /// The measure of the row.
        measure: String,
        /// The count.
        counted: u64,
    },
}

/// The goal that a row is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Printed for its own sake.
    None,
    /// The ratio is at most this.
    AtMost(f64),
    /// The ratio is at least this.
    AtLeast(f64),
    /// The count is exactly zero.
    Zero {
        /// The count.
        counted: u64,
    },
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::None => f.pad("-"),
            Goal::AtMost(limit) => write!(f, "<= {limit:.2}"),
            Goal::AtLeast(limit) => write!(f, ">= {limit:.2}"),
            Goal::Zero { .. } => f.pad("exactly 0"),
        }
    }
}

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not judged: no goal, or nothing to measure it with.
    Printed,
    /// The goal is reached.
    Reached,
    /// It is not.
    Missed,
    /// A count that has to be zero is not: the run fails.
    Broken,
}

impl Verdict {
    /// The word of the table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Printed => "-",
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::Broken => "BROKEN",
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The name of the measure.
    pub measure: String,
    /// Ours, with its unit.
    pub ours: String,
    /// The peer or limit of the same run, with its unit.
    pub peer: String,
    /// The ratio that is judged.
    pub ratio: Option<Ratio>,
    /// The goal that it is judged by.
    pub goal: Goal,
}

impl Row {
    /// The row of a measure that this machine does not allow, with the reason.
    pub(crate) fn absent(measure: &str, reason: &str) -> Row {
        Row { measure: measure.into(), ours: "not measured".into(), peer: reason.into(), ratio: None, goal: Goal::None }
    }

    /// The verdict on the row.
    pub fn verdict(&self) -> Verdict {
        let judged = |reached: bool| if reached { Verdict::Reached } else { Verdict::Missed };
        match (self.goal, self.ratio) {
            (Goal::Zero { counted: 0 }, _) => Verdict::Reached,
            (Goal::Zero { .. }, _) => Verdict::Broken,
            (Goal::AtMost(limit), Some(ratio)) => judged(ratio.value <= limit),
            (Goal::AtLeast(limit), Some(ratio)) => judged(ratio.value >= limit),
            _ => Verdict::Printed,
        }
    }

    fn cells(&self) -> [String; 8] {
        let ratio = self.ratio.map_or("-".into(), |ratio| format!("{:.2}", ratio.value));
        let interval = self.ratio.and_then(|ratio| ratio.interval);
        let interval = interval.map_or("-".into(), |[low, high]| format!("{low:.2} .. {high:.2}"));
        let rounds = self.ratio.map_or("-".into(), |ratio| match ratio.rounds {
            0 => "exact".into(),
            rounds => rounds.to_string(),
        });
        let [measure, ours, peer] = [&self.measure, &self.ours, &self.peer].map(Clone::clone);
        [measure, ours, peer, ratio, interval, rounds, self.goal.to_string(), self.verdict().word().into()]
    }
}

/// All of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// Where it ran.
    pub machine: Machine,
    /// The rows of the result.
    pub rows: Vec<Row>,
}

impl BenchReport {
    /// The table; [`crate::run`] has printed the machine above it. The interval holds the true median 95 times of 100.
    pub fn table(&self) -> String {
        let head = ["measure", "ours", "peer or limit", "ratio", "95 % interval", "rounds", "goal", "verdict"];
        columns(std::iter::once(head.map(String::from)).chain(self.rows.iter().map(Row::cells)))
    }

    /// The first count that had to be zero and was not.
    pub fn broken(&self) -> Option<BenchError> {
        self.rows.iter().find_map(|row| match row.goal {
            Goal::Zero { counted } if counted != 0 => {
                Some(BenchError::Broken { measure: row.measure.clone(), counted })
            }
            _ => None,
        })
    }
}

/// Lines of cells, each column as wide as its widest cell.
pub(crate) fn columns<const N: usize>(lines: impl Iterator<Item = [String; N]>) -> String {
    let lines: Vec<[String; N]> = lines.collect();
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for cells in &lines {
        let line: Vec<_> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: Option<f64>, goal: Goal) -> Row {
        let ratio = ratio.map(Ratio::exact);
        Row { measure: "hop".into(), ours: "80 ns".into(), peer: "20 ns".into(), ratio, goal }
    }

    #[test]
    fn verdicts_are_what_the_goal_says() {
        for (ratio, goal, verdict) in [
            (Some(5.0), Goal::AtMost(5.0), Verdict::Reached),
            (Some(5.1), Goal::AtMost(5.0), Verdict::Missed),
            (Some(0.79), Goal::AtLeast(0.8), Verdict::Missed),
            (Some(0.8), Goal::AtLeast(0.8), Verdict::Reached),
            (None, Goal::AtLeast(0.8), Verdict::Printed),
            (Some(1.0), Goal::None, Verdict::Printed),
            (None, Goal::Zero { counted: 0 }, Verdict::Reached),
            (None, Goal::Zero { counted: 1 }, Verdict::Broken),
        ] {
            assert_eq!(row(ratio, goal).verdict(), verdict, "{ratio:?} {goal:?}");
        }
    }

    #[test]
    fn a_broken_promise_is_an_error_and_a_missed_goal_is_none() {
        let report = |rows| BenchReport { machine: Machine::unknown(), rows };
        assert!(report(vec![row(Some(9.0), Goal::AtMost(5.0))]).broken().is_none());
        let broken = report(vec![row(None, Goal::Zero { counted: 3 })]).broken();
        assert!(matches!(broken, Some(BenchError::Broken { counted: 3, .. })));
    }
}
