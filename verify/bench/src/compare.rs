//! Two reports side by side: which ratios have changed, and by more than noise. It measures nothing. Called by the command line.
//!
//! Reports of different machines, or of one machine whose processors lie together once and apart the other time, are not to be compared;
//! the head of the table has both machines, and says so where their placement differs.

use std::fmt::Write;

use crate::report::{BenchReport, Goal, Row, columns};

/// What has become of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The intervals meet, or the exact figures are equal.
    Noise,
    /// Beyond noise, towards the goal.
    Better,
    /// Beyond noise, away from the goal.
    Worse,
    /// Beyond noise, and the row has no goal that says which way is better.
    Other,
}

impl Change {
    /// Judges the ratio of a row against that of an older one; `None` where one of both has none.
    pub fn of(new: &Row, old: &Row) -> Option<Change> {
        let (ratio, before) = (new.ratio?, old.ratio?);
        if ratio.meets(&before) {
            return Some(Change::Noise);
        }
        let less = ratio.value < before.value;
        Some(match new.goal {
            Goal::AtMost(_) if less => Change::Better,
            Goal::AtLeast(_) if !less => Change::Better,
            Goal::AtMost(_) | Goal::AtLeast(_) => Change::Worse,
            Goal::None | Goal::Zero { .. } => Change::Other,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Change::Noise => "within noise",
            Change::Better => "better",
            Change::Worse => "WORSE",
            Change::Other => "changed",
        }
    }
}

/// The table of a comparison, and the rows that one report has alone.
pub fn comparison(new: &BenchReport, old: &BenchReport) -> String {
    let mut text = format!("compared with {}\n", old.machine);
    if new.machine.placement != old.machine.placement || new.machine.model != old.machine.model {
        text.push_str("the machines differ: a change may be theirs\n");
    }
    let pairs: Vec<(&Row, &Row)> = new.rows.iter().filter_map(|row| Some((row, named(old, row)?))).collect();
    let head = ["measure", "before", "now", "change", "verdict"].map(String::from);
    let lines = pairs.iter().filter_map(|(row, before)| {
        let (ratio, older) = (row.ratio?, before.ratio?);
        let percent = format!("{:+.1} %", (ratio.value / older.value - 1.0) * 100.0);
        let verdict = Change::of(row, before)?.word().to_owned();
        Some([row.measure.clone(), format!("{:.3}", older.value), format!("{:.3}", ratio.value), percent, verdict])
    });
    text.push_str(&columns(std::iter::once(head).chain(lines)));
    for (which, of, others) in [("now", new, old), ("before", old, new)] {
        for row in of.rows.iter().filter(|row| named(others, row).is_none()) {
            let _ = writeln!(text, "only {which}: {}", row.measure);
        }
    }
    text
}

fn named<'a>(report: &'a BenchReport, row: &Row) -> Option<&'a Row> {
    report.rows.iter().find(|other| other.measure == row.measure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::statistic::Ratio;

    fn row(measure: &str, [low, value, high]: [f64; 3], goal: Goal) -> Row {
        let ratio = Some(Ratio { value, interval: Some([low, high]), rounds: 31 });
        Row { measure: measure.into(), ours: String::new(), peer: String::new(), ratio, goal }
    }

    #[test]
    fn a_change_beyond_noise_is_judged_by_the_goal() {
        let before = [1.9, 2.0, 2.1];
        for (now, goal, change) in [
            ([2.05, 2.2, 2.3], Goal::AtMost(9.0), Change::Noise),
            ([2.2, 2.3, 2.4], Goal::AtMost(9.0), Change::Worse),
            ([2.2, 2.3, 2.4], Goal::AtLeast(0.1), Change::Better),
            ([1.0, 1.1, 1.2], Goal::AtMost(9.0), Change::Better),
            ([1.0, 1.1, 1.2], Goal::AtLeast(0.1), Change::Worse),
            ([1.0, 1.1, 1.2], Goal::None, Change::Other),
        ] {
            assert_eq!(Change::of(&row("hop", now, goal), &row("hop", before, goal)), Some(change), "{now:?} {goal:?}");
        }
    }

    #[test]
    fn rows_of_one_report_alone_are_named() {
        let report = |names: &[&str]| BenchReport {
            machine: Machine::unknown(),
            rows: names.iter().map(|name| row(name, [1.0; 3], Goal::AtMost(2.0))).collect(),
        };
        let text = comparison(&report(&["hop", "calls"]), &report(&["hop", "copies"]));
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>(),
            ["hop", "1.000", "1.000", "+0.0", "%", "within", "noise"]
        );
        assert_eq!(lines[2..], ["only now: calls", "only before: copies"]);
    }
}
