//! The recording that measures replay: a training step of a small model. Called by `daemon` and `processes`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kmt_link::Link;
use replay::{ContentMode, DriveOptions, Observer, ResidencyPolicy, Stage, Workload, drive};

use crate::report::BenchError;

const RECORDING: &[u8] = include_bytes!("../../../examples/gpt.cpu.rrs.json.gz");

/// The step.
pub(crate) fn recording() -> Result<Workload, BenchError> {
    Workload::from_bytes("gpt.cpu.rrs.json.gz", RECORDING).map_err(|fault| BenchError::Device(fault.to_string()))
}

/// One process's whole replay, fed by itself.
pub(crate) fn replayed(
    workload: &Workload,
    link: Arc<dyn Link>,
    seed: u64,
    steps: u32,
    content: ContentMode,
) -> Result<(), BenchError> {
    let options = DriveOptions {
        steps,
        content,
        seed,
        residency: ResidencyPolicy::PerOperation,
        hears_budget: false,
        stage: Some(Stage::User),
        keeps_submissions: false,
        ahead_bytes: None,
        constant_bytes: None,
        recorded_times: false,
        in_place: false,
    };
    let driven = drive(workload, link, options, &mut Unheard, &AtomicBool::new(false));
    let driven = driven.map_err(|error| BenchError::Device(error.to_string()))?;
    if let Some(state) = driven.lost {
        return Err(BenchError::Device(format!("a device was lost: {state:?}")));
    }
    if let Some(mismatch) = driven.mismatch {
        return Err(BenchError::Device(format!("not what was written: {mismatch}")));
    }
    Ok(())
}

/// An observer that ignores the progress.
struct Unheard;

impl Observer for Unheard {
    fn progress(&mut self, _done: u64, _total: u64) {}

    fn step_done(&mut self, _step: u32, _now_ns: u64) {}
}
