//! The runs of a sweep, numbered, each judged against its workload before the first of them begins. Called by `sweep`.

use std::fs;

use clap::ValueEnum;
use dxgk_host::{PROFILES, Profile};

use crate::adapters::asked;
use crate::arguments::{Policy, default_run};
use crate::error::RunError;
use crate::imported::Imported;
use crate::run::{self, AdapterChoice, RunOptions, Setup, Share, Terms, Workload};
use crate::size::MemorySize;
use crate::sweep::{SweepOptions, Unfit};

/// Most runs of a sweep.
const RUNS_MAX: usize = 100_000;
/// Most processes of a run: in virtual time each is a thread.
const PROCESSES_MAX: u32 = 64;

/// All runs of a sweep.
pub(super) struct Plan {
    options: SweepOptions,
    adapter: &'static Profile,
    subjects: Vec<Subject>,
    points: Vec<Point>,
    unfit: Vec<Unfit>,
}

/// A workload that is swept.
pub(super) struct Subject {
    /// The workload with its terms, once for each process of the largest run.
    copies: Vec<(replay::Workload, Terms)>,
    file: Workload,
    /// Hash of the file's bytes, in hexadecimal digits.
    pub(super) digest: String,
    /// Most bytes alive at once in one process.
    pub(super) peak_bytes: u64,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// The workload's place in the plan.
    pub(super) subject: usize,
    pub(super) processes: u32,
    pub(super) policy: Policy,
    /// Video memory, before it is rounded down to pages.
    pub(super) asked_bytes: u64,
}

impl Plan {
    /// Opens the workloads and judges every run.
    ///
    /// # Errors
    /// What [`super::sweep`] says of input; a workload that no size fits, with the size that would.
    pub(super) fn of(options: &SweepOptions) -> Result<Plan, RunError> {
        let most = judge_processes(&options.processes)?;
        let mut subjects: Vec<Subject> = Vec::new();
        for file in &options.workloads {
            let subject = Subject::open(file, options, most)?;
            if !subjects.iter().any(|other| other.digest == subject.digest) {
                subjects.push(subject);
            }
        }
        let adapter = match &options.adapter {
            None => &PROFILES[0],
            Some(adapter) => asked("--adapter", adapter)?,
        };
        let mut plan = Plan { options: options.clone(), adapter, subjects, points: Vec::new(), unfit: Vec::new() };
        let mut processes = options.processes.clone();
        dedup(&mut processes);
        for subject in 0..plan.subjects.len() {
            for count in &processes {
                plan.add(subject, *count)?;
            }
        }
        Ok(plan)
    }

    /// The runs.
    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    /// The workload of a run.
    pub(super) fn subject(&self, point: &Point) -> &Subject {
        &self.subjects[point.subject]
    }

    /// The adapter of the runs.
    pub(super) fn adapter(&self) -> &'static Profile {
        self.adapter
    }

    /// The options of the sweep.
    pub(super) fn options(&self) -> &SweepOptions {
        &self.options
    }

    /// The imports of the workloads.
    pub(super) fn imports(&self) -> Vec<Imported> {
        self.subjects.iter().filter_map(|subject| Imported::of(subject.workload(), true)).collect()
    }

    /// The sizes that were left out: those that do not fit, and those of which runs have told it.
    pub(super) fn with_unfit(mut self, mut told: Vec<(usize, String)>) -> Vec<Unfit> {
        told.sort_unstable();
        for (at, problem) in told {
            let point = &self.points[at];
            self.unfit.push(Unfit {
                workload: self.subject(point).name().to_owned(),
                processes: point.processes,
                policy: Some(point.policy_name()),
                asked_bytes: point.asked_bytes,
                problem,
            });
        }
        self.unfit
    }

    /// The options of a run.
    pub(super) fn run_options(&self, point: &Point) -> RunOptions {
        let file = &self.subject(point).file;
        let other = || Share { workload: file.clone(), terms: Terms::default() };
        let adapter = |profile: &String| AdapterChoice { profile: profile.clone(), vram: None };
        RunOptions {
            workload: file.clone(),
            others: (1..point.processes).map(|_| other()).collect(),
            vram: Some(MemorySize::Bytes(point.asked_bytes)),
            adapters: self.options.adapter.iter().map(adapter).collect(),
            steps: self.options.steps,
            virtual_time: true,
            link: self.options.link,
            policy: point.policy,
            verify: false,
            recorded: false,
            bounded: false,
            trace: None,
            report: None,
            ..default_run()
        }
    }

    /// The sizes and policies of one workload in so many processes.
    fn add(&mut self, subject: usize, processes: u32) -> Result<(), RunError> {
        let sizes = self.sizes(subject);
        let mut policies = self.options.policies.clone();
        dedup(&mut policies);
        let Some(policy) = policies.first().copied() else {
            return Err(refused("--policy", "no policy is given", "leave it out for all of them"));
        };
        // The memory that a run needs does not depend on its policy.
        let mut fitting = Vec::new();
        let mut last_refusal = None;
        for asked_bytes in sizes {
            let point = Point { subject, processes, policy, asked_bytes };
            match Setup::judge(&self.run_options(&point), self.subject(&point).copies(processes), None) {
                Ok(_) => fitting.push(asked_bytes),
                Err(refusal) => {
                    let workload = self.subjects[subject].name().to_owned();
                    let problem = match &refusal {
                        RunError::Argument { problem, .. } => problem.clone(),
                        other => other.to_string(),
                    };
                    self.unfit.push(Unfit { workload, processes, policy: None, asked_bytes, problem });
                    last_refusal = Some(refusal);
                }
            }
        }
        if fitting.is_empty() {
            let none = || refused("--vram", "no memory size is given", "leave it out for 0.3..1.0");
            return Err(last_refusal.map_or_else(none, |refusal| self.nothing_fits(subject, refusal)));
        }
        for policy in policies {
            let point = |asked_bytes: &u64| Point { subject, processes, policy, asked_bytes: *asked_bytes };
            self.points.extend(fitting.iter().map(point));
        }
        if self.points.len() > RUNS_MAX {
            let problem = format!("the sweep has more than {RUNS_MAX} runs");
            return Err(refused("--vram", &problem, "give fewer sizes, or sweep fewer workloads at once"));
        }
        Ok(())
    }

    /// The sizes for a workload, ascending, each once.
    fn sizes(&self, subject: usize) -> Vec<u64> {
        let peak_bytes = self.subjects[subject].peak_bytes;
        let each = self.options.sizes.iter().flat_map(|sizes| sizes.each());
        let mut sizes: Vec<u64> = each.map(|size| size.bytes(peak_bytes)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The refusal of the largest size, as one of the whole sweep.
    fn nothing_fits(&self, subject: usize, refusal: RunError) -> RunError {
        match refusal {
            RunError::Argument { argument, problem, remedy } if argument.starts_with("--vram") => {
                let name = self.subjects[subject].name();
                let problem = format!("no size of the sweep fits {name}, not even the largest: {problem}");
                RunError::Argument { argument, problem, remedy }
            }
            other => other,
        }
    }
}

impl Subject {
    fn open(file: &Workload, options: &SweepOptions, copies: u32) -> Result<Subject, RunError> {
        let alone = RunOptions { workload: file.clone(), others: Vec::new(), ..default_run() };
        let opened = run::open_placed(&alone)?.remove(0);
        let digest = match file {
            Workload::Bundled => digest(run::BUNDLED),
            Workload::Memory { text, .. } => digest(text),
            Workload::File(path) => digest(&fs::read(path).map_err(|error| RunError::File {
                role: "workload".to_owned(),
                path: path.clone(),
                problem: format!("cannot be read: {error}"),
                remedy: "name a file that stays while the sweep opens it".to_owned(),
            })?),
        };
        let peak_bytes = opened.0.peak_bytes(options.steps);
        let copies = vec![opened; copies as usize];
        Ok(Subject { copies, file: file.clone(), digest, peak_bytes })
    }

    /// The workload.
    pub(super) fn workload(&self) -> &replay::Workload {
        &self.copies[0].0
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        self.workload().name()
    }

    /// The workload for each of so many processes.
    pub(super) fn copies(&self, processes: u32) -> &[(replay::Workload, Terms)] {
        &self.copies[..processes as usize]
    }
}

impl Point {
    /// The name of its policy.
    pub(super) fn policy_name(&self) -> String {
        policy_name(self.policy)
    }
}

/// The word of a policy on the command line.
fn policy_name(policy: Policy) -> String {
    policy.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The largest number of processes.
fn judge_processes(counts: &[u32]) -> Result<u32, RunError> {
    if let Some(wrong) = counts.iter().find(|count| !(1..=PROCESSES_MAX).contains(*count)) {
        let argument = format!("--processes {wrong}");
        return Err(refused(&argument, "a run has one process at least", &format!("give 1 to {PROCESSES_MAX}")));
    }
    let none = || refused("--processes", "no number of processes is given", "leave it out for one");
    counts.iter().copied().max().ok_or_else(none)
}

fn refused(argument: &str, problem: &str, remedy: &str) -> RunError {
    RunError::Argument { argument: argument.to_owned(), problem: problem.to_owned(), remedy: remedy.to_owned() }
}

/// Keeps the first of equal values.
fn dedup<T: PartialEq + Copy>(values: &mut Vec<T>) {
    let all = std::mem::take(values);
    for value in all {
        if !values.contains(&value) {
            values.push(value);
        }
    }
}

/// FNV-1a over the bytes: it tells recordings apart, it does not protect them.
pub(super) fn digest(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}
