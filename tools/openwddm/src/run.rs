//! The seam to the kernel: what a run shall do goes in, its [`Outcome`] comes out.
//!
//! It reads the workload and drives it; it writes no file and prints nothing. `run_command` calls it.

mod recorder;
mod setup;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dxgk_host::{Host, PROFILES, ProcessLink, Profile};
use kmt_link::Link;
use replay::{DriveError, DriveOptions, Driven, Observer, drive};

use crate::arguments::Policy;
use crate::error::RunError;
use crate::outcome::{Outcome, Summary};
use crate::progress::Progress;
use crate::run::recorder::{Numbers, Recorder};
use crate::run::setup::Setup;
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
}

/// What a run shall do; every combination that gets here makes sense.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// What to replay.
    pub workload: Workload,
    /// How much video memory.
    pub vram: MemorySize,
    /// Adapter profile; `None` for the usual one.
    pub adapter: Option<String>,
    /// How many steps, at least 1.
    pub steps: u32,
    /// Virtual time: no bytes stored.
    pub virtual_time: bool,
    /// How victims are chosen.
    pub policy: Policy,
    /// Seed of everything random.
    pub seed: u64,
    /// Check contents.
    pub verify: bool,
    /// Somebody wants the recording: a trace or a report will be written.
    pub recorded: bool,
    /// Where the trace goes.
    pub trace: Option<PathBuf>,
    /// Where the report goes.
    pub report: Option<PathBuf>,
    /// Where the numbers go.
    pub json: Option<PathBuf>,
}

/// Runs the workload until its end, or until `cancel` is set, and says what happened.
///
/// # Errors
/// [`RunError::File`] and [`RunError::Argument`] for input that cannot be used, [`RunError::Kernel`] when the run fails.
pub fn execute(options: &RunOptions, progress: &Progress, cancel: &AtomicBool) -> Result<Outcome, RunError> {
    let workload = open(&options.workload)?;
    let setup = Setup::judge(options, &workload)?;
    let recorder = Recorder::new(options.recorded);
    let host = setup.start_host(options, &recorder)?;
    let link = ProcessLink::new(Arc::clone(&host));
    let mut observer = Steps { recorder: &recorder, host: &host, progress, begun: false, what: workload.name() };
    let drive_options = DriveOptions { steps: options.steps, content: setup.content(options), seed: options.seed };
    recorder.begin(&host);
    let driven =
        drive(&workload, Arc::clone(&link) as Arc<dyn Link>, drive_options, &mut observer, cancel).map_err(failed)?;
    let numbers = recorder.numbers(&host, &driven);
    drop(link);
    let summary = summary(options, &setup, &workload, &driven, numbers);
    let recording = recorder.take(&workload, &driven, setup.vram_bytes);
    Ok(Outcome { summary, recording, profile: setup.profile.name.to_owned(), interrupted: driven.interrupted })
}

/// The adapter profiles, one line each: name, what it is.
///
/// # Errors
/// None: the profiles are built in.
pub fn adapters() -> Result<Vec<String>, RunError> {
    let line = |profile: &Profile| format!("{:14} {}", profile.name, profile.description);
    Ok(PROFILES.iter().map(line).collect())
}

/// Measures this build against peers and limits of this machine and prints the table.
///
/// # Errors
/// [`RunError::Kernel`] when a measurement fails or a count that must be zero is not.
pub fn measure(smoke: bool) -> Result<(), RunError> {
    let options = bench::BenchOptions { smoke, ..bench::BenchOptions::default() };
    let failed = |error: bench::BenchError| RunError::Kernel {
        problem: error.to_string(),
        remedy: "run it again on a quiet machine; a broken promise that stays is a fault to report".to_owned(),
    };
    bench::run(&options, &mut std::io::stdout()).map(drop).map_err(failed)
}

fn open(workload: &Workload) -> Result<replay::Workload, RunError> {
    match workload {
        Workload::Bundled => replay::Workload::from_bytes("gpt.cpu (bundled)", BUNDLED).map_err(|fault| {
            RunError::Kernel { problem: format!("the bundled workload does not open: {fault}"), remedy: fault.remedy() }
        }),
        Workload::File(path) => replay::Workload::open(path).map_err(|error| RunError::File {
            role: "workload".to_owned(),
            path: path.clone(),
            problem: error.fault.to_string(),
            remedy: error.fault.remedy(),
        }),
    }
}

/// Who tells the recorder where a step ends, and the terminal how far the run is.
struct Steps<'a> {
    recorder: &'a Recorder,
    host: &'a Host,
    progress: &'a Progress,
    begun: bool,
    what: &'a str,
}

impl Observer for Steps<'_> {
    fn progress(&mut self, done: u64, total: u64) {
        if !std::mem::replace(&mut self.begun, true) {
            self.progress.begin(self.what, total);
        }
        self.progress.advance(done);
    }

    fn step_done(&mut self, _step: u32, now_ns: u64) {
        self.recorder.end_step(self.host, now_ns);
    }
}

fn failed(error: DriveError) -> RunError {
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

fn summary(
    options: &RunOptions,
    setup: &Setup,
    workload: &replay::Workload,
    driven: &Driven,
    numbers: Numbers,
) -> Summary {
    let verify = match (&driven.mismatch, options.verify) {
        (Some(mismatch), _) => mismatch.to_string(),
        (None, true) => "ok".to_owned(),
        (None, false) => "off".to_owned(),
    };
    Summary {
        workload: workload.name().to_owned(),
        adapter: setup.profile.name.to_owned(),
        ops: driven.ops,
        steps: u64::from(driven.steps),
        peak_bytes: setup.peak_bytes,
        vram_bytes: setup.vram_bytes,
        verify,
        time: if options.virtual_time { "virtual" } else { "real" }.to_owned(),
        policy: match options.policy {
            Policy::Lru => "lru".to_owned(),
        },
        seed: options.seed,
        elapsed_ns: driven.elapsed_ns,
        ..numbers.into_summary()
    }
}
