//! Hands rows and columns to a solver of linear programs, and takes its answer. Called by `search`.
//!
//! Everything is counted in `unit` bytes, so that a solver's tolerances mean the same for kilobytes and terabytes.

use good_lp::{
    Constraint, Expression, Solution, SolutionStatus, SolverModel, Variable, WithTimeLimit, constraint, variable,
    variables,
};

use crate::columns::Column;

/// How much of each column is out in each of its spans, as a share from 0 to 1.
pub(crate) type Shares = Vec<Vec<f64>>;

/// Longest time that a solver is given, in seconds: about thirty years.
const SECONDS_MAX: f64 = 1e9;

/// Most entries, one for each row that a span crosses: a solver keeps some dozen bytes for each, and none has solved as many.
const ENTRIES_MAX: usize = 20_000_000;

/// Why there is no optimum.
pub(crate) enum SolveError {
    /// It was not found in time, or the program is so large that no time would do.
    OutOfTime,
    /// The solver's own words.
    Failed(String),
}

/// Of every row at least `over` bytes are out, at the least cost.
///
/// # Errors
/// [`SolveError`].
pub(crate) fn solve(over: &[u64], columns: &[Column], unit: f64, seconds: f64) -> Result<Shares, SolveError> {
    let spans = columns.iter().flat_map(|column| &column.shape.spans);
    let entries = spans.fold(0usize, |sum, span| sum.saturating_add(span.rows.len()));
    if seconds.is_nan() || seconds <= 0.0 || entries > ENTRIES_MAX {
        return Err(SolveError::OutOfTime);
    }
    let mut variables = variables!();
    let mut cost = Expression::from(0.0);
    let mut out: Vec<Expression> = over.iter().map(|_| Expression::from(0.0)).collect();
    let mut ties: Vec<(Variable, Variable)> = Vec::new();
    let mut placed: Vec<Vec<Variable>> = Vec::with_capacity(columns.len());
    for column in columns {
        let most = column.bytes as f64 / unit;
        let written_back = column.shape.is_epoch.then(|| variables.add(variable().min(0.0).max(most)));
        written_back.into_iter().for_each(|epoch| cost.add_mul(1.0, epoch));
        let mut of_spans = Vec::with_capacity(column.shape.spans.len());
        for span in &column.shape.spans {
            let share = variables.add(variable().min(0.0).max(most));
            cost.add_mul(f64::from(span.price), share);
            span.rows.clone().for_each(|row| out[row].add_mul(1.0, share));
            ties.extend(written_back.map(|epoch| (share, epoch)));
            of_spans.push(share);
        }
        placed.push(of_spans);
    }
    let mut model = variables.minimise(cost).using(good_lp::microlp).with_time_limit(seconds.min(SECONDS_MAX));
    for (out, over) in out.into_iter().zip(over) {
        let enough: Constraint = constraint!(out >= *over as f64 / unit);
        model.add_constraint(enough);
    }
    for (share, epoch) in ties {
        model.add_constraint(constraint!(share <= epoch));
    }
    let solution = match model.solve() {
        Ok(solution) if matches!(solution.status(), SolutionStatus::Optimal) => solution,
        // Its words for a time that ran out before anything was found.
        Ok(_) | Err(good_lp::ResolutionError::Other(_)) => return Err(SolveError::OutOfTime),
        Err(error) => return Err(SolveError::Failed(error.to_string())),
    };
    let shares = placed.iter().zip(columns).map(|(of_spans, column)| {
        let share = |variable: &Variable| (solution.value(*variable) * unit / column.bytes as f64).clamp(0.0, 1.0);
        of_spans.iter().map(share).collect()
    });
    Ok(shares.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Shape, Span};

    #[test]
    fn no_time_and_a_program_beyond_all_time_are_out_of_time() {
        let columns = |rows: usize| {
            [Column { shape: Shape { spans: vec![Span { rows: 0..rows, price: 1 }], is_epoch: false }, bytes: 8 }]
        };
        let solved = |rows, seconds| solve(&[4], &columns(rows), 1.0, seconds);
        assert!(solved(1, f64::INFINITY).is_ok());
        for (rows, seconds) in [(1, f64::NAN), (1, 0.0), (1, -1.0), (ENTRIES_MAX + 1, 1.0)] {
            assert!(matches!(solved(rows, seconds), Err(SolveError::OutOfTime)), "{rows} rows in {seconds} s");
        }
    }
}
