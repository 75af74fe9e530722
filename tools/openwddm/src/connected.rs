//! `openwddm run --connect`: workloads against a kernel in another process. This program is then nothing but clients: one connection, and
//! so one process of that kernel, for each workload. Text and `--json` have what clients see ([`seen`]): the kernel's figures of their processes.
//! `--trace`, `--report` and `--demotions` are made of the events that the kernel has about these processes alone ([`own_events`]). Called by `entry`.

mod own_events;
mod seen;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use d3dkmt::{Adapter, enum_adapters};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use replay::{ContentMode, DriveError, DriveOptions, Driven, Observer, Workload, drive};
use softgpu_umd::UmdError;
use wddm_types::NtStatus;

use crate::arguments::Policy;
use crate::connected::own_events::{Kept, merged};
use crate::connected::seen::{ProcessSeen, RunSeen, Seen};
use crate::console::Out;
use crate::error::RunError;
use crate::imported::Imported;
use crate::interruption::INTERRUPTED;
use crate::outcome::Summary;
use crate::progress::Progress;
use crate::run::{Priority, RunOptions, Stage, Terms, open_placed, residency, stage_name, title};
use crate::run::{budget, client};
use crate::run_command::Outputs;
use terminal_text::printable;
use terminal_text::units;

/// Runs the workloads at the same time, writes and prints; returns the exit code.
///
/// # Errors
/// [`RunError::Argument`] when no daemon listens, when a workload is to have what only the daemon gives, or needs more than it gives,
/// [`RunError::NotSupported`] for a stage that processes elsewhere do not have, and those of
/// [`crate::run::execute`].
pub fn run(
    options: &RunOptions,
    socket: &Path,
    progress: &Progress,
    cancel: &AtomicBool,
    out: &mut Out,
) -> Result<u8, RunError> {
    let stage = stage_of(options)?;
    judge_policy(options.policy)?;
    let outputs = Outputs::check(options)?;
    let workloads = open_placed(options)?;
    if workloads.iter().any(|(_, terms)| terms.budget.is_some()) {
        return Err(RunError::Argument {
            argument: "budget= with --connect".to_owned(),
            problem: "the daemon that serves the kernel sets the budgets of its processes".to_owned(),
            remedy: "leave it out, and set process.budget or users.NUMBER.process.budget in the daemon's configuration"
                .to_owned(),
        });
    }
    let connect = |_| SocketLink::connect(socket).map_err(|error| unreachable_kernel(socket, &error.to_string()));
    let links = workloads.iter().map(connect).collect::<Result<Vec<_>, _>>()?;
    for ((_, terms), link) in workloads.iter().zip(&links) {
        take_class(link, *terms, socket)?;
    }
    let mut given = workloads.iter().zip(&links);
    given.try_for_each(|((workload, _), link)| budget::judge_given(workload, link, socket))?;
    let total = workloads.iter().map(|(workload, _)| workload.ops() as u64 * u64::from(options.steps)).sum();
    progress.begin(&format!("{} processes at {}", links.len(), socket.display()), total);
    let mut driven = drive_all(options, stage, (&workloads, links), progress, cancel).map_err(|error| {
        // The error has a line of its own.
        progress.finish();
        failed_there(error, socket)
    })?;
    progress.finish();
    let kept: Vec<Kept> = driven.iter_mut().filter_map(|played| played.events.take()).collect();
    let mut text = outcomes(&workloads, &driven, options.verify);
    let code = exit_code(driven.iter().map(|played| &played.driven));
    if !kept.is_empty() {
        let known = known(options, stage, &workloads, &driven);
        let (events, lost) = merged(kept);
        let keeps_demotions = options.demotions.is_some();
        let outcome = client::outcome(events, lost, keeps_demotions, known, code == INTERRUPTED);
        outputs.write_recordings(&outcome, out);
        if lost > 0 {
            // Writing to a string does not fail.
            let _ = writeln!(text, "the files lack {lost} events for which there was no room");
        }
    }
    let seen = RunSeen {
        seen_by: "client",
        socket: printable::path(socket),
        stage: stage_name(stage).to_owned(),
        seed: options.seed,
        processes: driven.into_iter().map(|played| played.seen).collect(),
    };
    outputs.write_numbers(&seen, out);
    outputs.tell(&text, out);
    Ok(code)
}

/// Runs the workloads, each on its link and its thread.
fn drive_all(
    options: &RunOptions,
    stage: Stage,
    (workloads, links): (&[(Workload, Terms)], Vec<Arc<SocketLink>>),
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Vec<Played>, DriveError> {
    let keeps_events = options.recorded || options.demotions.is_some();
    let watcher = Watcher { progress, done: AtomicU64::new(0) };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(workloads.iter().zip(links))
            .map(|(number, ((workload, terms), link))| {
                let drive_options = DriveOptions {
                    steps: options.steps,
                    content: if options.verify { ContentMode::Verified } else { ContentMode::Written },
                    // Two processes never share content by accident.
                    seed: options.seed.wrapping_add(number),
                    residency: residency(options),
                    hears_budget: false,
                    stage: Some(stage),
                    keeps_submissions: false,
                    ahead_bytes: None,
                    constant_bytes: options.constants,
                    recorded_times: false,
                    in_place: false,
                };
                let watcher = &watcher;
                scope.spawn(move || {
                    let mut seen = Seen::new(&link, watcher, keeps_events);
                    let driven = drive(workload, link as Arc<_>, drive_options, &mut seen, cancel)?;
                    let events = seen.take_events();
                    let seen = seen.into_summary(workload, *terms, &driven, options);
                    Ok(Played { driven, seen, events })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect::<Result<_, _>>()
    })
}

/// A workload that was played.
struct Played {
    driven: Driven,
    seen: ProcessSeen,
    /// Events about its process, where a file is made of them.
    events: Option<Kept>,
}

/// What the replay tells of the run, for files that are made of events.
fn known(options: &RunOptions, stage: Stage, workloads: &[(Workload, Terms)], played: &[Played]) -> Summary {
    let all = || played.iter().map(|played| &played.driven);
    let started_ns = all().map(|driven| driven.started_ns).min().unwrap_or(0);
    let ended_ns = all().map(|driven| driven.started_ns + driven.elapsed_ns).max().unwrap_or(0);
    let verdicts = || played.iter().map(|played| &played.seen.verify);
    let wrong = verdicts().find(|verify| !matches!(verify.as_str(), "ok" | "off"));
    Summary {
        workload: title(workloads),
        stage: stage_name(stage).to_owned(),
        ops: all().map(|driven| driven.ops).sum(),
        steps: all().map(|driven| u64::from(driven.steps)).max().unwrap_or(0),
        peak_bytes: workloads.iter().map(|(workload, _)| workload.peak_bytes(options.steps)).sum(),
        elapsed_ns: ended_ns - started_ns,
        per_step: match played {
            [only] => only.seen.per_step.clone(),
            _ => Vec::new(),
        },
        verify: wrong.or_else(|| verdicts().next()).cloned().unwrap_or_default(),
        lost: played.iter().find_map(|played| played.seen.lost),
        time: "real".to_owned(),
        policy: "the daemon's".to_owned(),
        seed: options.seed,
        ..Summary::default()
    }
}

/// The one path to the engine.
fn stage_of(options: &RunOptions) -> Result<Stage, RunError> {
    match options.stages[..] {
        [] => Ok(Stage::Hardware),
        [stage] => Ok(stage),
        _ => Err(RunError::Argument {
            argument: "--stage".to_owned(),
            problem: "stages are compared on a kernel that no other process uses, so not on a served one".to_owned(),
            remedy: "name one stage".to_owned(),
        }),
    }
}

/// The victims are the served kernel's choice.
fn judge_policy(policy: Policy) -> Result<(), RunError> {
    if policy == Policy::Planner {
        return Err(RunError::Argument {
            argument: "--policy planner with --connect".to_owned(),
            problem: "the kernel that is served chooses its victims, and no client chooses for it".to_owned(),
            remedy: "leave it out".to_owned(),
        });
    }
    Ok(())
}

/// A line for each workload, and below it what its import left out.
fn outcomes(workloads: &[(Workload, Terms)], played: &[Played], verify: bool) -> String {
    let mut text = String::new();
    for ((workload, _), Played { driven, seen, .. }) in workloads.iter().zip(played) {
        let verdict = match (&driven.mismatch, driven.lost) {
            (Some(mismatch), _) => mismatch.to_string(),
            (None, Some(state)) => format!("the device was lost: {state:?}"),
            (None, None) if verify => "every byte as it was written".to_owned(),
            (None, None) => "not checked".to_owned(),
        };
        let (ops, steps, time) = (driven.ops, driven.steps, units::duration(driven.elapsed_ns));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}: {ops} operations in {steps} steps, {time}; {verdict}",
            printable::line(workload.name())
        );
        if let (Some(came), Some(went)) = (seen.paged_in_bytes, seen.paged_out_bytes) {
            let (came, went) = (units::bytes(came), units::bytes(went));
            let _ =
                writeln!(text, "  paged in {came}, paged out {went} of its memory, as the kernel's figures have it");
        }
        let imported = Imported::of(workload, false).map(|said| Imported { is_elsewhere: true, ..said });
        for said in imported.iter().flat_map(Imported::sentences) {
            let _ = writeln!(text, "  {}", printable::line(&said));
        }
    }
    text
}

/// 1 after wrong bytes or a lost device; else the code of an interrupted run, if one was interrupted.
fn exit_code<'a>(driven: impl Iterator<Item = &'a Driven> + Clone) -> u8 {
    match () {
        () if driven.clone().any(|driven| driven.mismatch.is_some() || driven.lost.is_some()) => 1,
        () if driven.clone().any(|driven| driven.interrupted) => INTERRUPTED,
        () => 0,
    }
}

/// The process has the priority class of its workload from now on, for all that it will make.
fn take_class(link: &Arc<SocketLink>, terms: Terms, socket: &Path) -> Result<(), RunError> {
    let priority = terms.priority;
    if priority == Priority::default() {
        return Ok(());
    }
    let link = Arc::clone(link) as Arc<dyn Link>;
    let adapters = enum_adapters(&*link).map_err(|refusal| failed_there(refusal.into(), socket))?;
    let set = |luid| Adapter::open(Arc::clone(&link), luid)?.set_priority_class(priority.class());
    // A class is one of the process, whichever adapter the call names.
    let Some((luid, _)) = adapters.first() else { return Ok(()) };
    set(*luid).map_err(|refusal| match refusal.status {
        NtStatus::PRIVILEGE_NOT_HELD => RunError::Argument {
            argument: format!("priority={}", priority.name()),
            problem: format!(
                "the daemon at {} does not let this process have a class above above-normal",
                socket.display()
            ),
            remedy: "take above-normal or lower, or set process.raise_priority = true in the daemon's configuration"
                .to_owned(),
        },
        _ => failed_there(refusal.into(), socket),
    })
}

/// Translates a failed replay into an error for a client, which sees the kernel from outside only.
pub(crate) fn failed_there(error: DriveError, socket: &Path) -> RunError {
    let lacks = matches!(&error, DriveError::Refused(refusal) | DriveError::Driver(UmdError::Refused(refusal))
        if refusal.status == NtStatus::NOT_SUPPORTED);
    match error {
        DriveError::DoesNotFit { .. } => RunError::Argument {
            argument: format!("--connect {}", socket.display()),
            problem: error.to_string(),
            remedy: "serve an adapter with more memory, `openwddm serve --adapter PROFILE,vram=SIZE`".to_owned(),
        },
        _ if lacks || matches!(error, DriveError::Driver(UmdError::Lacks(_))) => RunError::NotSupported {
            what: format!("this run at {}", socket.display()),
            reason: format!("{error}; choose another path to the engine with --stage packet, hardware or user"),
        },
        _ => RunError::Kernel {
            problem: error.to_string(),
            remedy: "look for this process in the daemon's log and in `openwddm top --connect`".to_owned(),
        },
    }
}

/// No program listens there, or this one cannot speak to it.
pub fn unreachable_kernel(socket: &Path, problem: &str) -> RunError {
    RunError::Argument {
        argument: format!("--connect {}", socket.display()),
        problem: problem.to_owned(),
        remedy: "start `openwddm serve --socket PATH`, and give its path; this program needs a dozen descriptors (ulimit -n)".to_owned(),
    }
}

struct Watcher<'a> {
    progress: &'a Progress,
    done: AtomicU64,
}

impl Observer for &Watcher<'_> {
    fn progress(&mut self, _done: u64, _total: u64) {
        self.progress.advance(self.done.fetch_add(1, Ordering::Relaxed) + 1);
    }

    fn step_done(&mut self, _step: u32, _now_ns: u64) {}
}
