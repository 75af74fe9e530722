//! The JSON form of a report, schema `openwddm-bench/1`: what `bench --json` prints and `--compare` reads. It judges nothing. Called by the
//! command line.
//!
//! An object: `schema`; `machine` with `model`, `processors`, `pair`, `placement`, `idle_exit` and `calibration` (nanoseconds of a cache line one
//! way, of a null system call, of a store with a full barrier; bytes a nanosecond of a copy of 64 MiB); `rows`, each with `measure`, `ours` and
//! `peer` (text with units), `ratio` (`null`, or `value`, `interval` of 95 %, `rounds`: 0 for what is exact) and `goal` (`"none"`, `at_most`,
//! `at_least`, `zero`). A later schema has another number; fields are added within one.

use serde::{Deserialize, Serialize};

use crate::report::BenchReport;

/// The schema that this build writes and reads.
pub const SCHEMA: &str = "openwddm-bench/1";

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    #[serde(flatten)]
    report: &'a BenchReport,
}

#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

/// The report as JSON, with a line end.
pub fn to_json(report: &BenchReport) -> String {
    let written = serde_json::to_string_pretty(&Written { schema: SCHEMA, report });
    let mut text = written.unwrap_or_else(|error| unreachable!("numbers and texts are JSON: {error}"));
    text.push('\n');
    text
}

/// A report that [`to_json`] wrote.
///
/// # Errors
/// What is wrong with the text, with its line and column or with the schema that it names.
pub fn from_json(text: &str) -> Result<BenchReport, String> {
    let head: Head = serde_json::from_str(text).map_err(|error| format!("not a report of `bench --json`: {error}"))?;
    match head.schema.as_deref() {
        Some(SCHEMA) => serde_json::from_str(text).map_err(|error| format!("not a report of {SCHEMA}: {error}")),
        Some(other) => Err(format!("its schema is `{}`, and this build reads {SCHEMA}", other.escape_debug())),
        None => Err(format!("it names no schema, and this build reads {SCHEMA}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use crate::machine::Machine;
    use crate::report::Goal;
    use crate::statistic::Ratio;

    fn report() -> BenchReport {
        let row = |measure: &str, ratio, goal| Row {
            measure: measure.into(),
            ours: "80 ns".into(),
            peer: "20 ns".into(),
            ratio,
            goal,
        };
        let rows = vec![
            row("hop", Some(Ratio { value: 4.0, interval: Some([3.5, 4.25]), rounds: 31 }), Goal::AtMost(2.5)),
            row("share", Some(Ratio::exact(0.5)), Goal::AtLeast(0.1)),
            row("interrupts", None, Goal::Zero { counted: 0 }),
            row("waiters", None, Goal::None),
        ];
        BenchReport { machine: Machine::unknown(), rows }
    }

    #[test]
    fn a_report_comes_back_as_it_was_written() {
        assert_eq!(from_json(&to_json(&report())), Ok(report()));
    }

    #[test]
    fn a_text_that_is_no_report_is_refused_with_its_place() {
        let whole = to_json(&report());
        let cut = from_json(&whole[..whole.len() / 2]).expect_err("half a text");
        assert!(cut.contains("line"), "{cut}");
        let other = from_json(&whole.replace("bench/1", "bench/7")).expect_err("another schema");
        assert_eq!(other, "its schema is `openwddm-bench/7`, and this build reads openwddm-bench/1");
        let none = from_json("{}").expect_err("no schema");
        assert_eq!(none, "it names no schema, and this build reads openwddm-bench/1");
        let wrong = from_json(&whole.replace("3.5", "\"x\"")).expect_err("a text for a number");
        assert!(wrong.starts_with("not a report of openwddm-bench/1: "), "{wrong}");
    }
}
