//! A sweep as Python asks for it, judged in the words of the command line.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use openwddm::arguments::{Policy, STEPS_MAX, default_run};
use openwddm::error::RunError;
use openwddm::output::Output;
use openwddm::run::Workload;
use openwddm::sweep::{SweepOptions, Swept, knees, page};
use pyo3::prelude::*;

use crate::error::{InputError, exception};

/// A workload: the path of a file, or a name and the text of one that is in memory.
#[derive(FromPyObject)]
pub enum Source {
    /// Name and bytes, plain or gzipped.
    Memory(String, Vec<u8>),
    /// A file.
    #[pyo3(transparent)]
    File(PathBuf),
}

/// What Python asks for; `None`: what the command line has by default.
pub struct Request {
    /// One at least.
    pub workloads: Vec<Source>,
    /// As `--vram` has them.
    pub sizes: Vec<String>,
    /// Names of policies.
    pub policies: Option<Vec<String>>,
    /// Numbers of processes.
    pub processes: Option<Vec<u32>>,
    /// Steps of each run.
    pub steps: Option<u32>,
    /// A profile.
    pub adapter: Option<String>,
    /// As `--link` has it.
    pub link: Option<String>,
    /// Runs at a time.
    pub jobs: Option<usize>,
    /// Seconds for each bound.
    pub time_limit: Option<u32>,
    /// The folder of rows.
    pub rows: Option<PathBuf>,
}

impl Request {
    /// The options of the sweep.
    ///
    /// # Errors
    /// [`InputError`] with the argument, its value and what would do.
    pub fn options(self) -> PyResult<SweepOptions> {
        let default = SweepOptions::default();
        let sizes = self.sizes.iter().map(|text| parsed("vram", text)).collect::<PyResult<_>>()?;
        // A run without a word has the command line's policy; a sweep compares all.
        let policies = match self.policies {
            None => vec![default_run().policy],
            Some(names) if names.is_empty() => default.policies,
            Some(names) => names.iter().map(|name| policy(name)).collect::<PyResult<_>>()?,
        };
        let steps = self.steps.unwrap_or(default.steps);
        if !(1..=STEPS_MAX).contains(&steps) {
            return Err(refused("steps", &steps.to_string(), &format!("give a whole number from 1 to {STEPS_MAX}")));
        }
        let jobs = self.jobs.map(|jobs| NonZero::new(jobs).ok_or_else(|| refused("jobs", "0", "give 1 or more")));
        Ok(SweepOptions {
            workloads: self.workloads.into_iter().map(Source::workload).collect(),
            sizes,
            policies,
            processes: self.processes.unwrap_or(default.processes),
            steps,
            adapter: self.adapter,
            link: self.link.map(|text| parsed("link", &text)).transpose()?,
            shard: None,
            jobs: jobs.transpose()?,
            bound_seconds: self.time_limit.unwrap_or(default.bound_seconds),
            rows: self.rows,
        })
    }
}

impl Source {
    fn workload(self) -> Workload {
        match self {
            Source::Memory(name, text) => Workload::Memory { name, text: text.into() },
            Source::File(path) => Workload::File(path),
        }
    }
}

/// The place of the picture of a sweep.
///
/// # Errors
/// [`InputError`] for one that takes no file.
pub fn page_at(path: &Path) -> PyResult<Output> {
    Output::check("page", path).map_err(|error| exception(&error))
}

/// Writes the picture: one file that needs nothing else.
///
/// # Errors
/// [`RunError::Unwritten`] when it has no room.
pub fn write_page(place: &Output, swept: &Swept, target_millionths: u64) -> Result<(), RunError> {
    let found = knees(&swept.rows, target_millionths);
    place.write(|sink| sink.write_all(page(swept, &found, target_millionths).as_bytes()))
}

fn policy(name: &str) -> PyResult<Policy> {
    Policy::from_str(name, false).map_err(|_| {
        let known: Vec<String> = Policy::value_variants()
            .iter()
            .filter_map(|policy| Some(policy.to_possible_value()?.get_name().to_owned()))
            .collect();
        refused("policy", name, &format!("give one of {}", known.join(", ")))
    })
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(argument: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error: T::Err| refused(argument, text, &error.to_string()))
}

fn refused(argument: &str, value: &str, reason: &str) -> PyErr {
    InputError::new_err(format!("{argument}={value}: {reason}"))
}
