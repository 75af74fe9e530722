//! The acceptance rows: those whose rule speaks of several things and that no test proves with two of them, and those without a break that
//! is known to be seen.

use std::collections::BTreeSet;

use super::source::Sources;
use super::{Measure, Measured};
use crate::mutants::planted;
use crate::report::Finding;
use crate::spec;

/// The rows.
const SEEDS: &str = "docs/spec/seeds.md";
/// Words of a rule that holds for several things.
const SEVERAL: [&str; 9] = ["all", "each", "every", "any", "until", "only", "both", "several", "other"];

/// Rows that speak of several things, and that no test names as one with two of them (`seed: N112 (two)`).
pub fn of_several(sources: &Sources<'_>) -> Measured {
    let named: BTreeSet<&str> = sources
        .rust
        .iter()
        .flat_map(|source| &source.lines)
        .flat_map(|line| spec::rows_of_two(&line.comment))
        .collect();
    let says_several = |text: &str| {
        text.split(|c: char| !c.is_alphanumeric()).any(|word| SEVERAL.contains(&word.to_lowercase().as_str()))
    };
    let text = |row: &str| format!("{row} speaks of several things, and no test of it has two");
    places(sources, |row, line| says_several(line) && !named.contains(row), text)
}

/// Rows of which the table of breaks has none.
pub fn without_break(sources: &Sources<'_>) -> Measured {
    let table = sources.text(planted::TABLE)?;
    let broken: BTreeSet<String> = planted::rows(table)?;
    places(sources, |row, _| !broken.contains(row), |row| format!("{} has no break of {row}", planted::TABLE))
}

fn places(sources: &Sources<'_>, counts: impl Fn(&str, &str) -> bool, text: impl Fn(&str) -> String) -> Measured {
    let lines = (1..).zip(sources.text(SEEDS)?.lines());
    let rows = lines.filter_map(|(number, line)| Some((number, line, spec::row_id(line)?)));
    let open = rows.filter(|(_, line, row)| counts(row, line));
    Ok(Measure::of(open.map(|(number, _, row)| Finding::new(SEEDS, number, text(row))).collect()))
}
