//! `openwddm replay-calls`: a recording of a C program's calls (`OPENWDDM_TRACE=calls:FILE.jsonl`), made again at a fresh kernel or a served
//! one, and the first call whose status is another. `recording` reads the lines, `order` sorts them, `names` maps handles, `memory` puts back what
//! engines read, `skip` takes their commands away, `judgement` compares, `player` makes the calls, each recorded thread's on a thread of its own, `kernel` is what they
//! are made at. docs/calls.md is the page. Called by `entry`.

mod judgement;
mod kernel;
mod memory;
mod names;
mod order;
mod player;
mod recording;
mod skip;

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use dxgk_host::parse_bytes;
use terminal_text::printable::{line as printable, path as shown};

use crate::console::Out;
use crate::error::RunError;
use player::{Ended, Outcome};
use recording::Recording;

/// The exit code of a replay that ended at a submission whose commands the recording does not have.
const NO_COMMANDS: u8 = 3;
/// Most lines of a report that say what the recording lacks.
const LACKS_MAX: usize = 8;

/// Arguments of `replay-calls`.
#[derive(Debug, Args)]
pub struct ReplayCallsArguments {
    /// The recording: JSON lines, as OPENWDDM_TRACE=calls:FILE.jsonl writes them
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Adapter profile, or a file that describes an adapter, FILE.toml; several for several adapters [default: those of the recording]
    #[arg(long = "adapter", value_name = "PROFILE", conflicts_with = "connect")]
    pub adapters: Vec<String>,
    /// Video memory of each adapter: bytes, or a number with KiB … TiB or KB … TB [default: that of the recording]
    #[arg(long, value_name = "SIZE", value_parser = |text: &str| parse_bytes(text).map_err(|error| error.to_string()), conflicts_with = "connect")]
    pub vram: Option<u64>,
    /// Make the calls at the kernel that `openwddm serve` serves there, as a process of it
    #[arg(long, value_name = "SOCKET")]
    pub connect: Option<PathBuf>,
    /// How long a call may take before it counts as one that does not return: seconds. A call of an older recording, which has not the kernel's
    /// order, may wait for another thread's when a hundredth is over
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub patience: f64,
    /// Complete submissions without executing their commands: for recordings without memory, and for those of programs whose driver is another
    #[arg(long)]
    pub skip_commands: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("give seconds, more than 0 and at most 86400".to_owned()),
    }
}

/// Makes the calls and prints what came of it; 0: each has its recorded status, 1: one has another, or memory has another content, 3: the commands of a
/// submission are not recorded.
///
/// # Errors
/// [`RunError::File`] for a recording that is none, with the line; [`RunError::Argument`] for adapters that are none;
/// [`RunError::Kernel`] when the kernel does not start.
pub fn replay_calls(arguments: &ReplayCallsArguments, out: &mut Out) -> Result<u8, RunError> {
    let recording = Recording::open(&arguments.file)?;
    let kernel = kernel::open(arguments, &recording)?;
    let patience = Duration::from_secs_f64(arguments.patience);
    let outcome = player::play((&recording, &arguments.file), kernel.link, patience, arguments.skip_commands)?;
    out.print(&report(arguments, &recording, &kernel.name, &outcome));
    Ok(match outcome.ended {
        Ended::Equal => 0,
        Ended::Differs { .. } | Ended::Waits { .. } | Ended::Content { .. } => 1,
        Ended::NoCommands { .. } => NO_COMMANDS,
    })
}

fn report(arguments: &ReplayCallsArguments, recording: &Recording, kernel: &str, outcome: &Outcome) -> String {
    let (calls, file) = (recording.calls.len(), shown(&arguments.file));
    let mut text = match &outcome.ended {
        Ended::Equal => format!(
            "{} calls of {file} at {kernel}: each has its recorded status ({} successes, {} refusals)\n",
            outcome.equal,
            outcome.equal - outcome.refused,
            outcome.refused
        ),
        Ended::Differs { call, status, reason } => format!(
            "line {}: {}: recorded {}, now {status}{}\n{} calls before it have their recorded status, of {calls} of {file} at {kernel}\n",
            recording.calls[*call].line,
            recording.calls[*call].function,
            recording.calls[*call].status,
            reason.as_deref().map(|reason| format!(": {}", printable(reason))).unwrap_or_default(),
            outcome.equal
        ),
        Ended::Waits { call } => format!(
            "line {}: {}: recorded {}, now it has not returned within {} s\n{} calls before it have their recorded status, of {calls} of {file} at {kernel}\n",
            recording.calls[*call].line,
            recording.calls[*call].function,
            recording.calls[*call].status,
            arguments.patience,
            outcome.equal
        ),
        Ended::Content { call, problem } => format!(
            "line {}: {}: {problem}\n{} calls before it have their recorded status, of {calls} of {file} at {kernel}\n",
            recording.calls[*call].line, recording.calls[*call].function, outcome.equal
        ),
        Ended::NoCommands { call, reason } => format!(
            "{} calls equal, commands are not recorded: line {} of {file}, {}, submits commands; {reason}\nof {calls} calls at {kernel}, {} are not made\n",
            outcome.equal,
            recording.calls[*call].line,
            recording.calls[*call].function,
            calls - outcome.equal - outcome.polls
        ),
    };
    // PANIC: writing into a string does not fail.
    if outcome.polls > 0 {
        writeln!(text, "{} looks at an event that was not set are left out", outcome.polls).expect("a string takes it");
    }
    let lacks: Vec<_> = recording.calls.iter().filter(|call| call.lacks.is_some()).collect();
    for call in lacks.iter().take(LACKS_MAX) {
        let lack = call.lacks.as_deref().unwrap_or_default();
        writeln!(text, "not in the recording: line {}, {}: {}", call.line, call.function, printable(lack))
            .expect("a string takes it");
    }
    if lacks.len() > LACKS_MAX {
        writeln!(text, "and so of {} further calls", lacks.len() - LACKS_MAX).expect("a string takes it");
    }
    text
}
