//! Finds the optimum with few rows: solves with some, looks which others the answer breaks, adds the worst of these, and again.
//! Called by `bound`.
//!
//! An optimum over some rows that keeps all others is an optimum over all; one that breaks others is less, so each round's is a bound, too.
//! Few rows also make few columns.

use std::fmt;

use crate::columns::{Column, Columns, crossed};
use crate::cover::{FITS, cover, single_price};
use crate::program::Program;
use crate::rows::{Row, rows};
use crate::solve::{Shares, SolveError, solve};

/// Share of the capacity by which a row may be missed: solvers count in floating point.
const TOLERANCE: f64 = 1e-9;

/// How large a program was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Operations at which not everything fits and that no neighbour implies.
    pub rows: usize,
    /// Those of them that the largest program solved had.
    pub rows_solved: usize,
    /// The variables of that program; 0: no linear program was needed.
    pub variables: usize,
    /// The programs solved, each with more rows.
    pub rounds: u32,
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effort { rows: 0, .. } => f.write_str("no program: everything fits"),
            Effort { rows, variables: 0, .. } => write!(f, "a covering of {rows} rows"),
            Effort { rows, rows_solved, variables, rounds } => write!(
                f,
                "a linear program of {rows} rows, solved with {rows_solved} of them and {variables} variables in round {rounds}"
            ),
        }
    }
}

/// Why there is no optimum.
pub(crate) enum SearchError {
    /// The time was over; a cost that is no more than the optimum.
    OutOfTime { effort: Effort, at_least: f64 },
    /// The solver's own words, or what is wrong with its answer.
    Solver { effort: Effort, problem: String },
}

/// The least cost of keeping within the capacity, in bytes; `page_ins` is the least where only page-ins cost ([`Program::page_ins`]).
pub(crate) fn least_cost(
    program: &Program,
    (capacity, page_ins): (u64, u64),
    seconds_left: &mut dyn FnMut() -> f64,
) -> Result<(f64, Effort), SearchError> {
    let all = rows(program, capacity);
    let ops: Vec<usize> = all.iter().map(|row| row.op).collect();
    let mut effort = Effort { rows: all.len(), ..Effort::default() };
    let over_all = Columns::over(program, &ops);
    if over_all.columns.is_empty() {
        return Ok((0.0, effort));
    }
    if let Some(price) = single_price(&over_all.columns) {
        let out = cover(&all, over_all.columns.iter()).expect(FITS);
        return Ok((f64::from(price) * out as f64, effort));
    }
    // Where a choice without write-backs moves no more than the fewest page-ins, nothing moves less.
    if cover(&all, over_all.columns.iter().filter(|column| column.price() == Some(1))) == Some(page_ins) {
        return Ok((page_ins as f64, effort));
    }
    let unit = capacity as f64 / 1000.0;
    let (mut chosen, mut at_least) = (peaks(&all), page_ins as f64);
    loop {
        let rows = || all.iter().zip(&chosen).filter(|(_, is_chosen)| **is_chosen).map(|(row, _)| *row);
        let (some, over): (Vec<usize>, Vec<u64>) = rows().map(|row| (row.op, row.over)).unzip();
        let over_some = Columns::over(program, &some);
        effort.counts(some.len(), &over_some.columns);
        let shares = solve(&over, &over_some.columns, unit, seconds_left()).map_err(|error| match error {
            SolveError::OutOfTime => SearchError::OutOfTime { effort, at_least },
            SolveError::Failed(problem) => SearchError::Solver { effort, problem },
        })?;
        let least = cost(&over_some.columns, &shares);
        at_least = at_least.max(least);
        let missed = missed(program, &all, &ops, &some, &over_some, &shares);
        let worst = worst_of_runs(&missed, TOLERANCE * capacity as f64);
        if worst.is_empty() {
            return Ok((least, effort));
        }
        let added = worst.into_iter().filter(|row| !std::mem::replace(&mut chosen[*row], true)).count();
        if added == 0 {
            let problem = "its answer breaks a row that it was given".to_owned();
            return Err(SearchError::Solver { effort, problem });
        }
    }
}

impl Effort {
    fn counts(&mut self, rows: usize, columns: &[Column]) {
        let of = |column: &Column| column.shape.spans.len() + usize::from(column.shape.is_epoch);
        self.rows_solved = rows;
        self.variables = columns.iter().map(of).sum();
        self.rounds += 1;
    }
}

/// Rows that have more bytes over than both neighbours, of equal ones the last.
fn peaks(all: &[Row]) -> Vec<bool> {
    let over = |at: usize| all.get(at).map_or(0, |row| row.over);
    (0..all.len()).map(|at| over(at) >= over(at.wrapping_sub(1)) && over(at) > over(at + 1)).collect()
}

/// The bytes by which each row is missed; negative: what is out beyond need.
fn missed(
    program: &Program,
    all: &[Row],
    all_ops: &[usize],
    some_ops: &[usize],
    solved: &Columns,
    shares: &Shares,
) -> Vec<f64> {
    let mut changes = vec![0.0f64; all.len() + 1];
    for (group, column) in program.groups.iter().zip(&solved.became) {
        let Some(column) = column else { continue };
        let spans = group.stretches.iter().filter(|stretch| !crossed(stretch, some_ops).is_empty());
        for (stretch, share) in spans.zip(&shares[*column]) {
            let rows = crossed(stretch, all_ops);
            changes[rows.start] += share * group.bytes as f64;
            changes[rows.end] -= share * group.bytes as f64;
        }
    }
    let mut out = 0.0;
    let missed = all.iter().zip(changes).map(|(row, change)| {
        out += change;
        row.over as f64 - out
    });
    missed.collect()
}

/// Of each run of rows that are missed by more than the tolerance, the worst.
fn worst_of_runs(missed: &[f64], tolerance: f64) -> Vec<usize> {
    let mut worst: Vec<usize> = Vec::new();
    let mut in_run = false;
    for (row, by) in missed.iter().enumerate() {
        let is_missed = *by > tolerance;
        match worst.last_mut().filter(|_| in_run) {
            Some(last) if is_missed && *by > missed[*last] => *last = row,
            None if is_missed => worst.push(row),
            _ => {}
        }
        in_run = is_missed;
    }
    worst
}

/// The bytes moved for what is out.
fn cost(columns: &[Column], shares: &Shares) -> f64 {
    let of_column = |(column, shares): (&Column, &Vec<f64>)| {
        let spans = column.shape.spans.iter().zip(shares);
        let prices: f64 = spans.map(|(span, share)| f64::from(span.price) * share).sum();
        let back = if column.shape.is_epoch { shares.iter().copied().fold(0.0, f64::max) } else { 0.0 };
        (prices + back) * column.bytes as f64
    };
    columns.iter().zip(shares).map(of_column).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_each_run_joins() {
        assert_eq!(worst_of_runs(&[0.0, 2.0, 3.0, 1.0, -1.0, 0.0, 2.0, 2.0], 0.5), [2, 6]);
        assert_eq!(worst_of_runs(&[2.0, 0.2], 0.5), [0]);
        assert!(worst_of_runs(&[], 0.5).is_empty());
    }

    #[test]
    fn the_first_rows_are_the_peaks() {
        let rows = [3, 3, 1, 5].map(|over| Row { op: 0, over });
        assert_eq!(peaks(&rows), [false, true, false, true]);
    }
}
