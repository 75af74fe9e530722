//! The summary of a run, in numbers and words, for tables and the JSON.

use dxgk_host::Eviction;
use events::Move;
use replay::{DeviceState, Stage};

use super::numbers::Numbers;
use super::play::Played;
use super::recorders::Recorders;
use super::setup::{self, Setup};
use super::share::Terms;
use super::{RunOptions, stages, times, title};
use crate::arguments::Policy;
use crate::imported::Imported;
use crate::outcome::{AdapterSummary, Constants, ProcessSummary, Summary};

/// The summary of a run.
pub(super) fn summary(
    options: &RunOptions,
    setup: &Setup,
    workloads: &[(replay::Workload, Terms)],
    played: &[Played],
    numbers: Vec<Numbers>,
    recorders: &Recorders,
) -> Summary {
    let wrong = played.iter().find(|played| played.driven.mismatch.is_some());
    let started_ns = played.iter().map(|played| played.driven.started_ns).min().unwrap_or(0);
    let ended_ns = played.iter().map(|played| played.driven.started_ns + played.driven.elapsed_ns).max().unwrap_or(0);
    let process = |(workload, played)| process_summary(options, workload, played, recorders);
    let processes = match played {
        [_] => Vec::new(),
        _ => workloads.iter().zip(played).map(process).collect(),
    };
    let elapsed_ns = ended_ns - started_ns;
    let adapters = match setup.adapters.len() {
        1 => Vec::new(),
        _ => adapters(setup, played, &numbers),
    };
    let mut counted = Numbers::into_summary(numbers);
    if adapters.is_empty() && setup.adapters[0].stage == Stage::Hardware && played.len() == 1 {
        // The kernel holds a queue while what was submitted before still runs: that part is no stall.
        counted.stall_ns = counted.stall_ns.min(elapsed_ns.saturating_sub(counted.ideal_ns));
    }
    // Several adapters work beside each other: the sum of their times is no time that a run could take.
    let recorded_ns = times::ideal_ns(options, workloads, played).filter(|_| adapters.is_empty());
    // The compute queue's busy time would be nearly the same; it counts the commands around the operations, too.
    counted.ideal_ns = recorded_ns.unwrap_or(counted.ideal_ns);
    if let (Some(_), [(workload, _)]) = (recorded_ns, workloads) {
        let step_ns = workload.recorded_ns(workload.ops() as u64);
        counted.per_step.iter_mut().for_each(|step| step.ideal_ns = step_ns);
    }
    Summary {
        workload: title(workloads),
        adapter: setup.profile_name(),
        stage: setup.stage_name(),
        ops: played.iter().map(|played| played.driven.ops).sum(),
        steps: played.iter().map(|played| u64::from(played.driven.steps)).max().unwrap_or(0),
        peak_bytes: setup.peak_bytes,
        vram_bytes: setup.vram_bytes(),
        vram_files: setup.adapters.iter().filter_map(|planned| planned.vram_file.clone()).collect(),
        verify: verdict(wrong.unwrap_or(&played[0]), options),
        lost: played.iter().find_map(lost),
        time: if options.virtual_time { "virtual" } else { "real" }.to_owned(),
        policy: policy(options.policy, setup.adapters[0].memory_policy.eviction).to_owned(),
        choices: setup.adapters[0]
            .memory_policy
            .written()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        seed: options.seed,
        elapsed_ns,
        recorded_ideal_millionths: recorded_ns.map(|ns| times::millionths(ns, elapsed_ns)),
        link_bytes_per_us: options.link.map(|link| link.bytes_per_us),
        imports: workloads.iter().filter_map(|(workload, _)| Imported::of(workload, options.virtual_time)).collect(),
        constants: options.constants.map(|_| constants(played)),
        processes,
        displaced: recorders.displaced(),
        demotion_log: recorders.demotion_verdict(),
        adapters,
        ..counted
    }
}

/// The name of a policy. Where the driver keeps nothing on its list, the kernel's choice of victims is the policy.
fn policy(policy: Policy, eviction: Eviction) -> &'static str {
    match (policy, eviction) {
        (Policy::Kept, _) => "kept",
        (_, eviction) => eviction.name(),
    }
}

/// One of several processes.
fn process_summary(
    options: &RunOptions,
    (workload, terms): &(replay::Workload, Terms),
    played: &Played,
    recorders: &Recorders,
) -> ProcessSummary {
    let peak_bytes = workload.peak_bytes(options.steps);
    let bytes = |how| recorders.moved_bytes(played.process.0, how);
    ProcessSummary {
        process: played.process.0,
        workload: workload.name().to_owned(),
        priority: terms.priority.name(),
        budget_bytes: terms.budget.map(|budget| budget.bytes(peak_bytes)),
        ops: played.driven.ops,
        steps: u64::from(played.driven.steps),
        peak_bytes,
        paged_in_bytes: bytes(Move::PageIn),
        paged_out_bytes: bytes(Move::PageOut),
        discarded_bytes: bytes(Move::Discard),
        elapsed_ns: played.driven.elapsed_ns,
        verify: verdict(played, options),
        lost: lost(played),
    }
}

/// Whether the bytes were as they should be, if the run looked at them.
fn verdict(played: &Played, options: &RunOptions) -> String {
    match (&played.driven.mismatch, options.verify) {
        (Some(mismatch), _) => mismatch.to_string(),
        (None, true) => "ok".to_owned(),
        (None, false) => "off".to_owned(),
    }
}

/// The state of a device that a process has lost.
fn lost(played: &Played) -> Option<&'static str> {
    played.driven.lost.map(device_state)
}

/// Sums of the maps of all processes.
fn constants(played: &[Played]) -> Constants {
    let sites = played.iter().flat_map(|played| &played.driven.sites);
    sites.filter_map(|site| site.constants).fold(Constants::default(), |sum, done| Constants {
        maps: sum.maps + done.maps,
        renames: sum.renames + done.renames,
        still_drawing: sum.still_drawing + done.still_drawing,
        waits: sum.waits + done.waits,
        trimmed_bytes: sum.trimmed_bytes + done.trimmed_bytes,
    })
}

/// The state of a device that was lost because its memory did not fit, in words.
pub(crate) const OUT_OF_MEMORY: &str = "its memory could not be brought back";

/// The state of a lost device, in words.
pub fn device_state(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Active => "active",
        DeviceState::Reset => "the adapter was reset",
        DeviceState::Hung => "its work did not end",
        DeviceState::Stopped => "the adapter has stopped",
        DeviceState::ErrorOutOfMemory => OUT_OF_MEMORY,
        DeviceState::ErrorDmaFault => "a packet faulted",
        DeviceState::ErrorDmaPageFault => "it used an address without memory",
    }
}

/// The summaries of several adapters.
fn adapters(setup: &Setup, played: &[Played], numbers: &[Numbers]) -> Vec<AdapterSummary> {
    let summary = |(number, (planned, numbers)): (usize, (&setup::Planned, &Numbers))| {
        let sites = || played.iter().filter_map(|played| played.driven.sites.get(number));
        AdapterSummary {
            // CAST: adapters are counted in ones.
            adapter: number as u32,
            profile: planned.profile.name.to_owned(),
            stage: stages::name(planned.stage),
            vram_bytes: planned.vram_bytes,
            ops: sites().map(|site| site.ops).sum(),
            arrived_bytes: sites().map(|site| site.arrived_bytes).sum(),
            ..numbers.of_adapter()
        }
    };
    setup.adapters.iter().zip(numbers).enumerate().map(summary).collect()
}
