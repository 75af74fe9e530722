//! The machine under the measures: which two processors, how far apart, and whether a sleeping one halts. Asked by every
//! measure; printed at the head of the report.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use shared_words::across::Processors;

use crate::calibration::Calibration;

/// A cache line that takes less than this one way stays inside one package's cache.
const TOGETHER_ONE_WAY_NS: f64 = 120.0;
const LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";

/// How far the two processors are from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// They share a cache.
    Together,
    /// They do not.
    Apart,
    /// There is one processor only.
    Alone,
}

/// Whether a sleeping processor halts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleExit {
    /// The request for no latency is held: an idle processor polls.
    Held,
    /// It is not held, with the reason.
    NotHeld(String),
}

/// The report's description of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's own name.
    pub model: String,
    /// Processors this process may use.
    pub processors: usize,
    /// The two that the measures are pinned to.
    pub pair: Option<[usize; 2]>,
    /// Its figures at the start of the run; `None` without a pair.
    pub calibration: Option<Calibration>,
    /// How far apart they are.
    pub placement: Placement,
    /// Whether a sleeping processor halts (except where a row says otherwise).
    pub idle_exit: IdleExit,
}

impl Machine {
    /// Looks at the machine. `idle_exit` is what was done about it.
    pub(crate) fn look(idle_exit: IdleExit) -> Machine {
        let allowed = allowed();
        let pair = match allowed[..] {
            [first, second, ..] => Some([first, second]),
            _ => None,
        };
        let calibration = pair.map(Calibration::take);
        let placement = match calibration.map(|figures| figures.line_ns) {
            None => Placement::Alone,
            Some(ns) if ns < TOGETHER_ONE_WAY_NS => Placement::Together,
            Some(_) => Placement::Apart,
        };
        Machine { model: model(), processors: allowed.len(), pair, calibration, placement, idle_exit }
    }

    /// Nothing is known.
    #[cfg(test)]
    pub(crate) fn unknown() -> Machine {
        let idle_exit = IdleExit::NotHeld("not asked for".into());
        Machine {
            model: String::new(),
            processors: 0,
            pair: None,
            calibration: None,
            placement: Placement::Alone,
            idle_exit,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine: {}, {} processors", self.model, self.processors)?;
        if let (Some([first, second]), Some(figures)) = (self.pair, self.calibration) {
            let label = if self.placement == Placement::Together { "together" } else { "apart" };
            let Calibration { line_ns, null_call_ns, barrier_ns, copy_bytes_per_ns } = figures;
            write!(
                f,
                ", pinned to {first} and {second}, {label} (a cache line takes {line_ns:.0} ns, a null system call {null_call_ns:.0} ns, "
            )?;
            write!(f, "a store with a full barrier {barrier_ns:.1} ns, a copy of 64 MiB {copy_bytes_per_ns:.1} GB/s)")?;
        }
        match &self.idle_exit {
            IdleExit::Held => write!(f, ", idle exit held"),
            IdleExit::NotHeld(reason) => write!(f, ", idle exit not held ({reason})"),
        }
    }
}

/// The request that idle processors poll instead of halting, for as long as it lives.
pub(crate) struct NoHalt {
    _request: File,
}

impl NoHalt {
    /// Makes the request, or says why it may not.
    pub(crate) fn hold() -> Result<NoHalt, String> {
        let attempt = || -> std::io::Result<File> {
            let mut file = OpenOptions::new().write(true).open(LATENCY_DEVICE)?;
            file.write_all(&0u32.to_le_bytes())?;
            Ok(file)
        };
        attempt().map(|request| NoHalt { _request: request }).map_err(|error| format!("{LATENCY_DEVICE}: {error}"))
    }
}

/// All processors, as they were when this was asked first: before a measure pins its thread.
pub(crate) fn all_processors() -> Option<Processors> {
    static ALL: OnceLock<Option<Processors>> = OnceLock::new();
    ALL.get_or_init(Processors::all).clone()
}

/// The processors that the calling thread may use, which it gets back when this goes: what it starts then is not pinned with it.
pub(crate) struct AsBefore(Option<CpuSet>);

impl AsBefore {
    pub(crate) fn note() -> AsBefore {
        AsBefore(sched_getaffinity(None).ok())
    }
}

impl Drop for AsBefore {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// Pins the calling thread. A refusal is no error: the figures only scatter more.
pub(crate) fn pin_here(processor: usize) {
    let _ = sched_setaffinity(None, &only(processor));
}

/// Pins the threads of this process that bear these names, as soon as they do. Returns whether all were found.
pub(crate) fn pin_named(names: &[(&str, usize)]) -> bool {
    let patience = std::time::Duration::from_millis(1);
    (0..200).any(|attempt| {
        if attempt != 0 {
            std::thread::sleep(patience);
        }
        names.iter().all(|(name, processor)| pin_one_named(name, *processor))
    })
}

fn pin_one_named(name: &str, processor: usize) -> bool {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    let mut found = false;
    for task in tasks.flatten() {
        let is_it = std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name);
        let id = task.file_name().to_str().and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
        if let (true, Some(id)) = (is_it, id) {
            let _ = sched_setaffinity(Some(id), &only(processor));
            found = true;
        }
    }
    found
}

fn only(processor: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(processor);
    set
}

/// The processors that the calling thread may use.
pub(crate) fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
}

fn model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    name.unwrap_or("unknown processor").to_owned()
}
