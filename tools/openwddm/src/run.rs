//! The seam to the kernel: the options of a run go in, its [`Outcome`] comes out.
//!
//! It reads the workload and drives it; it writes no file and prints nothing. `run_command` calls it.

pub(crate) mod budget;
pub(crate) mod client;
mod displaced;
mod fewest;
mod numbers;
mod packet_waits;
mod place;
mod plan;
mod play;
mod recorder;
mod recorders;
mod setup;
mod share;
mod stages;
mod summary;
mod times;

pub(crate) use fewest::has_bound;
pub use place::{AdapterChoice, parse_placement};
pub use replay::{Placement, Stage};
pub(crate) use setup::Setup;
pub use share::{Priority, Share, Terms};
pub(crate) use stages::name as stage_name;
pub use stages::parse as parse_stage;
pub(crate) use summary::{OUT_OF_MEMORY, device_state};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dxgk_host::{Host, ProcessLink, RecoveryPolicy};
use replay::{DriveError, DriveOptions, Fault, Observer, ResidencyPolicy, round_trip_ns};

use crate::arguments::{Choice, Policy};
use crate::error::RunError;
use crate::link::LinkRate;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::run::numbers::Numbers;
use crate::run::play::play;
use crate::run::recorders::Recorders;
use crate::run::summary::summary;
use crate::size::MemorySize;

/// The bundled workload: one training step of a small GPT, gzipped; it travels in the program so that it runs anywhere.
pub const BUNDLED: &[u8] = include_bytes!("../../../examples/gpt.cpu.rrs.json.gz");

/// Where the workload comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// [`BUNDLED`].
    Bundled,
    /// A file.
    File(PathBuf),
    /// The bytes of such a file, in memory, and what to call them.
    Memory {
        /// Its name, unless the recording has one.
        name: String,
        /// Plain or gzipped.
        text: Arc<[u8]>,
    },
}

/// Options of a run; every combination that gets here makes sense.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The workload to replay.
    pub workload: Workload,
    /// On which terms it shares the adapter.
    pub terms: Terms,
    /// Workloads to replay at the same time, each in a process of its own.
    pub others: Vec<Share>,
    /// How much video memory; `None`: as much as the adapter's file says, of a built-in one 60 % of the peak.
    pub vram: Option<MemorySize>,
    /// How much system memory for each adapter; `None`: as much as there is.
    pub system: Option<MemorySize>,
    /// The adapters, in the order in which operations name them; empty: the usual one.
    pub adapters: Vec<AdapterChoice>,
    /// The placement of operations on adapters; `None`: as recorded if any names one, else split.
    pub placement: Option<Placement>,
    /// The paths by which work reaches the engine; each has a run of its own, and files tell of the last. None: the latest that the
    /// adapter has.
    pub stages: Vec<Stage>,
    /// How many steps, at least 1.
    pub steps: u32,
    /// Virtual time: no bytes stored.
    pub virtual_time: bool,
    /// In virtual time: the rate of the bus, each way and both at once; `None`: as the adapter's cost model has it.
    pub link: Option<LinkRate>,
    /// How victims are chosen.
    pub policy: Policy,
    /// Choices of the memory manager that differ from the profile's.
    pub choices: Vec<Choice>,
    /// Whether the kernel watches for hangs, and the consequences.
    pub recovery: RecoveryPolicy,
    /// Seed of everything random.
    pub seed: u64,
    /// Check contents.
    pub verify: bool,
    /// Bytes that the CPU hands each operation.
    pub constants: Option<u64>,
    /// The run keeps a recording: a trace or a report will be written.
    pub recorded: bool,
    /// The bound is computed, where it takes next to no time.
    pub bounded: bool,
    /// Queues log when their submissions begin.
    pub log_submissions: bool,
    /// Where the trace goes.
    pub trace: Option<PathBuf>,
    /// Where the report goes.
    pub report: Option<PathBuf>,
    /// Where the numbers go.
    pub json: Option<PathBuf>,
    /// Where the demotion log goes.
    pub demotions: Option<PathBuf>,
}

/// Runs the workload until its end, or until `cancel` is set, and says what happened; at several stages one after the other.
///
/// # Errors
/// [`RunError::File`] and [`RunError::Argument`] for input that cannot be used, [`RunError::Kernel`] when the run fails.
pub fn execute(options: &RunOptions, progress: &Progress, cancel: &AtomicBool) -> Result<Outcome, RunError> {
    execute_opened(options, &open_placed(options)?, progress, cancel)
}

/// The same of workloads that are open: those that the options name, in their order, each placed.
///
/// # Errors
/// Those of [`execute`].
pub(crate) fn execute_opened(
    options: &RunOptions,
    workloads: &[(replay::Workload, Terms)],
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Outcome, RunError> {
    let Some((last, before)) = options.stages.split_last() else {
        let setup = Setup::judge(options, workloads, None)?;
        return execute_at(options, &setup, workloads, progress, cancel);
    };
    // All are judged before the first of them runs.
    let judged = |stage: &Stage| Setup::judge(options, workloads, Some(*stage));
    let (last, before) = (judged(last)?, before.iter().map(judged).collect::<Result<Vec<_>, _>>()?);
    let unrecorded = RunOptions { recorded: false, demotions: None, ..options.clone() };
    let mut stages = Vec::new();
    for setup in &before {
        let mut outcome = execute_at(&unrecorded, setup, workloads, progress, cancel)?;
        stages.append(&mut outcome.summary.stages);
        if outcome.interrupted
            || outcome.summary.lost.is_some()
            || !matches!(outcome.summary.verify.as_str(), "ok" | "off")
        {
            outcome.summary.stages = stages;
            return Ok(outcome);
        }
    }
    let mut outcome = execute_at(options, &last, workloads, progress, cancel)?;
    stages.append(&mut outcome.summary.stages);
    outcome.summary.stages = stages;
    Ok(outcome)
}

fn execute_at(
    options: &RunOptions,
    setup: &Setup,
    workloads: &[(replay::Workload, Terms)],
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Outcome, RunError> {
    let recorders = Recorders::new(setup.adapters.len(), options.recorded, options.demotions.is_some());
    let host = setup.start_host(options, &recorders)?;
    let what = match options.stages.len() {
        0 => title(workloads),
        _ => format!("{}, stage {}", title(workloads), setup.stage_name()),
    };
    let total = workloads.iter().map(|(workload, _)| workload.ops() as u64 * u64::from(options.steps)).sum();
    let observer =
        Watcher { recorders: &recorders, host: &host, progress, single: workloads.len() == 1, done: AtomicU64::new(0) };
    progress.begin(&what, total);
    let residency = residency(options);
    let (steps, content, seed, stage) = (options.steps, setup.content(options), options.seed, setup.stage);
    // Processes that share the adapter hear their budgets; the report draws them.
    let hears_budget = workloads.len() > 1;
    let keeps_submissions = options.recorded;
    // The dead hold no more than the smallest video memory, of which the GPU cannot use more at once, and no more than is ever alive, for which
    // there are addresses.
    let ahead_bytes = setup.adapters.iter().map(|planned| planned.vram_bytes.min(setup.peak_bytes)).min();
    let constant_bytes = options.constants;
    let drive_options = DriveOptions {
        steps,
        content,
        seed,
        residency,
        hears_budget,
        stage,
        keeps_submissions,
        ahead_bytes,
        constant_bytes,
        recorded_times: options.virtual_time,
        in_place: setup.adapters.iter().any(|planned| planned.memory_policy.read_in_place),
    };
    // Before the workloads create queues, so that the logs of all queues are long.
    host.trace_fences(options.recorded);
    host.trace_scheduling(options.recorded);
    host.set_verbose_logs(options.log_submissions);
    recorders.begin(&host);
    let played = play(&host, workloads, drive_options, options.virtual_time, &observer, cancel).map_err(failed)?;
    // The kernel reads the entries that the logs still hold.
    host.trace_scheduling(false);
    recorders.compare_residence(&host);
    let (numbers, hash) = recorders.numbers(&host, played[0].driven.started_ns);
    let interrupts = numbers.iter().map(Numbers::interrupts).sum();
    let mut summary = summary(options, setup, workloads, &played, numbers, &recorders);
    summary.trace_hash = format!("{hash:016x}");
    let recordings = recorders.take(workloads, &played, setup);
    let interrupted = played.iter().any(|played| played.driven.interrupted);
    let is_whole = !interrupted && summary.lost.is_none();
    fewest::note(&mut summary, options, setup, workloads, is_whole);
    if !options.stages.is_empty() && is_whole {
        // Behind everything that is counted, on the adapter as the workload leaves it.
        let link = ProcessLink::new(Arc::clone(&host));
        let round_trip_ns = round_trip_ns(link, stage, stages::ROUND_TRIPS).map_err(failed)?;
        let call_ns = options.virtual_time.then_some(setup.adapters[0].profile.call_ns);
        let elapsed_ns = summary.elapsed_ns;
        summary.stages =
            vec![stages::summary(setup.adapters[0].stage, elapsed_ns, interrupts, &played, call_ns, round_trip_ns)];
    }
    Ok(Outcome { summary, recordings, profile: setup.profile_name(), interrupted })
}

/// The workloads' names as one.
pub(crate) fn title(workloads: &[(replay::Workload, Terms)]) -> String {
    let names: Vec<&str> = workloads.iter().map(|(workload, _)| workload.name()).collect();
    names.join(" + ")
}

/// The workloads with their terms, each operation placed on an adapter.
pub(crate) fn open_placed(options: &RunOptions) -> Result<Vec<(replay::Workload, Terms)>, RunError> {
    let adapters = options.adapters.len().max(1);
    let opened = |workload| place::place(open(workload)?, options.placement, adapters);
    let mut workloads = vec![(opened(&options.workload)?, options.terms)];
    for other in &options.others {
        workloads.push((opened(&other.workload)?, other.terms));
    }
    Ok(workloads)
}

/// Which storages stay on the residency lists between operations.
pub(crate) fn residency(options: &RunOptions) -> ResidencyPolicy {
    match options.policy {
        Policy::Lru | Policy::Planner => ResidencyPolicy::PerOperation,
        Policy::Kept => ResidencyPolicy::Kept,
    }
}

/// Opens a workload.
pub(crate) fn open(workload: &Workload) -> Result<replay::Workload, RunError> {
    match workload {
        Workload::Bundled => replay::Workload::from_bytes("gpt.cpu (bundled)", BUNDLED).map_err(|fault| {
            RunError::Kernel { problem: format!("the bundled workload does not open: {fault}"), remedy: fault.remedy() }
        }),
        Workload::File(path) => replay::Workload::open(path).map_err(|error| unopened("workload", path, &error.fault)),
        Workload::Memory { name, text } => replay::Workload::from_bytes(name, text)
            .map_err(|fault| unopened("workload in memory", Path::new(name), &fault)),
    }
}

fn unopened(role: &str, path: &Path, fault: &Fault) -> RunError {
    RunError::File { role: role.to_owned(), path: path.to_owned(), problem: fault.to_string(), remedy: fault.remedy() }
}

/// Tells the recorder where a step ends, and the terminal how far the run is.
struct Watcher<'a> {
    recorders: &'a Recorders,
    host: &'a Host,
    progress: &'a Progress,
    /// Only one workload runs: then steps are the run's.
    single: bool,
    done: AtomicU64,
}

impl Observer for &Watcher<'_> {
    fn progress(&mut self, _done: u64, _total: u64) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.progress.advance(done);
    }

    fn step_done(&mut self, _step: u32, now_ns: u64) {
        // The kernel reads the logs while their queues exist, and calibrates the clocks anew.
        if self.host.traces_fences() {
            self.host.trace_fences(true);
        }
        self.recorders.compare_residence(self.host);
        if self.single {
            self.recorders.end_step(self.host, now_ns);
        }
    }
}

pub(crate) fn failed(error: DriveError) -> RunError {
    match error {
        DriveError::DoesNotFit { .. } => RunError::Argument {
            argument: "--vram".to_owned(),
            problem: error.to_string(),
            remedy: "give at least what the operation needs, rounded up to the adapter's pages".to_owned(),
        },
        DriveError::Driver(_) | DriveError::Refused(_) => RunError::Kernel {
            problem: error.to_string(),
            remedy:
                "run it with --trace and look at the last events; if they make no sense, report it with the workload"
                    .to_owned(),
        },
    }
}
