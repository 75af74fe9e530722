//! The times that recordings have (`op_ns`), and the time that a run takes beside them. Called by `setup` (judging) and `summary`.

use crate::error::RunError;
use crate::run::RunOptions;
use crate::run::play::Played;
use crate::run::share::Terms;

/// The longest ideal time of a run, half of what its clock counts: room for the time that it takes beside it.
const IDEAL_NS_MAX: u64 = u64::MAX / 2;

/// Judges whether the clock counts to the end of the run.
///
/// # Errors
/// When the times of all steps are longer.
pub(super) fn judge(options: &RunOptions, workloads: &[(replay::Workload, Terms)]) -> Result<(), RunError> {
    if !options.virtual_time {
        return Ok(());
    }
    let of = |workload: &replay::Workload| workload.recorded_ns(workload.ops() as u64).map(u128::from);
    let of_a_step: u128 = workloads.iter().filter_map(|(workload, _)| of(workload)).sum();
    let sum = of_a_step * u128::from(options.steps);
    if sum <= u128::from(IDEAL_NS_MAX) {
        return Ok(());
    }
    Err(RunError::Argument {
        argument: format!("--steps {}", options.steps),
        problem: format!("the recorded times of all steps are {sum} ns; a run has room for {IDEAL_NS_MAX} (292 years)"),
        remedy: "replay fewer steps, or leave \"op_ns\" out of the recording".to_owned(),
    })
}

/// With recorded times in virtual time: nanoseconds that the submitted operations take with memory enough, of all workloads
/// together; `None` when one of them has no times.
pub(super) fn ideal_ns(
    options: &RunOptions,
    workloads: &[(replay::Workload, Terms)],
    played: &[Played],
) -> Option<u64> {
    let of = |((workload, _), played): (&(replay::Workload, Terms), &Played)| workload.recorded_ns(played.driven.ops);
    let all = workloads.iter().zip(played).map(of).try_fold(0u64, |sum, ns| Some(sum.saturating_add(ns?)));
    all.filter(|_| options.virtual_time)
}

/// `part` of `whole`, in millionths, rounded down; 0 when there is no whole.
pub(super) fn millionths(part: u64, whole: u64) -> u64 {
    let share = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
