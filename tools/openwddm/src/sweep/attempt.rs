//! One run of a sweep, in virtual time, and its row. Called by `pool` and `kept`.

use std::sync::atomic::AtomicBool;

use dxgk_host::Profile;

use crate::bound_command::link_of;
use crate::error::RunError;
use crate::outcome::Summary;
use crate::progress::Progress;
use crate::run;
use crate::sweep::limit::{Cut, Limits, share};
use crate::sweep::plan::{Plan, Point, digest};
use crate::sweep::row::Row;

/// The row that says which run a point is, without its figures.
pub(super) fn asked(plan: &Plan, point: &Point) -> Row {
    let (subject, options) = (plan.subject(point), plan.options());
    Row {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        workload: subject.name().to_owned(),
        workload_hash: subject.digest.clone(),
        adapter: adapter_name(plan.adapter()),
        link_bytes_per_us: options.link.map(|link| link.bytes_per_us),
        policy: point.policy_name(),
        processes: point.processes.into(),
        steps: options.steps.into(),
        asked_bytes: point.asked_bytes,
        peak_bytes: subject.peak_bytes,
        ..Row::default()
    }
}

/// How a run ended.
pub(super) enum Ended {
    /// With its figures.
    Done(Box<Row>),
    /// The memory was too small for it, which only the run could tell; why.
    Unfit(String),
    /// The caller interrupted it.
    Interrupted,
}

/// Runs a point.
///
/// # Errors
/// When the run fails.
pub(super) fn attempt(
    plan: &Plan,
    point: &Point,
    limits: Option<&Limits>,
    cancel: &AtomicBool,
) -> Result<Ended, RunError> {
    let subject = plan.subject(point);
    let executed =
        run::execute_opened(&plan.run_options(point), subject.copies(point.processes), &Progress::silent(), cancel);
    let outcome = match executed {
        Err(RunError::Argument { argument, problem, .. }) if argument == "--vram" => return Ok(Ended::Unfit(problem)),
        other => other?,
    };
    if outcome.interrupted {
        return Ok(Ended::Interrupted);
    }
    match outcome.summary.lost {
        None => {}
        Some(lost) if lost == run::OUT_OF_MEMORY => {
            return Ok(Ended::Unfit(format!("a process lost its device: {lost}")));
        }
        Some(lost) => {
            return Err(RunError::Kernel {
                problem: format!("{} in {} bytes lost its device: {lost}", subject.name(), point.asked_bytes),
                remedy: "run it alone with `openwddm run --virtual-time --trace`, and report it with the workload"
                    .to_owned(),
            });
        }
    }
    let mut row = asked(plan, point);
    take_figures(&mut row, &outcome.summary);
    let has_bound = || run::has_bound(plan.adapter(), &outcome.summary, row.processes);
    if let Some(limits) = limits.filter(|_| has_bound()) {
        let asked = (plan.options().steps, row.vram_bytes, plan.options().bound_seconds);
        match limits.of((point.subject, subject.workload()), asked, cancel) {
            Ok(Some(limit)) => limit.note(&mut row, link_of(plan.adapter(), plan.options().link)),
            Ok(None) => {}
            // The bound would be missing in the row for good.
            Err(Cut) => return Ok(Ended::Interrupted),
        }
    }
    Ok(Ended::Done(Box::new(row)))
}

fn take_figures(row: &mut Row, summary: &Summary) {
    row.vram_bytes = summary.vram_bytes;
    row.ops = summary.ops;
    row.elapsed_ns = summary.elapsed_ns;
    row.ideal_ns = summary.ideal_ns;
    row.stall_ns = summary.stall_ns;
    row.paged_in_bytes = summary.paged_in_bytes;
    row.paged_out_bytes = summary.paged_out_bytes;
    row.discarded_bytes = summary.discarded_bytes;
    row.mapped_bytes = summary.mapped_bytes;
    row.trace_hash = summary.trace_hash.clone();
    row.share_millionths = share(row.ideal_ns, row.elapsed_ns);
    // The first step also brings what is there before; of several processes each has steps of its own.
    if let ([_, .., last], 1) = (&summary.per_step[..], row.processes) {
        // Without recorded times every step has the same operations, and the engine takes as long for each.
        let ideal_ns = last.ideal_ns.unwrap_or(summary.ideal_ns / summary.steps.max(1));
        row.last_step_elapsed_ns = Some(last.elapsed_ns);
        row.last_step_ideal_ns = Some(ideal_ns);
        row.last_step_paged_in_bytes = Some(last.paged_in_bytes);
        row.last_step_paged_out_bytes = Some(last.paged_out_bytes);
        row.share_millionths = share(ideal_ns, last.elapsed_ns);
    }
}

/// The adapter's name in a row. Beside the name a row of a file's adapter has a hash of the file's content, so that rows that an earlier
/// sweep left of another adapter of the same name are not taken for its own.
fn adapter_name(profile: &Profile) -> String {
    if Profile::named(profile.name) == Some(profile) {
        return profile.name.to_owned();
    }
    format!("{}@{}", profile.name, digest(profile.to_toml().as_bytes()))
}
