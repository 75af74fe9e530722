//! The command line's arguments and their meaning. This module judges words only; `output` and the run judge files.

mod present;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use dxgk_host::RecoveryPolicy;

use crate::bench_command::{BenchArguments, FencesArguments};
use crate::bound_command::BoundArguments;
use crate::error::RunError;
use crate::faults::FaultsArguments;
use crate::hangs::HangArguments;
use crate::link::LinkRate;
use crate::pages::{CompletionsArguments, ManArguments};
use crate::replay_calls::ReplayCallsArguments;
use crate::run::{AdapterChoice, Placement, RunOptions, Share, Stage, Terms, Workload, parse_placement, parse_stage};
use crate::serve::ServeArguments;
use crate::serve::outside::OutsideArguments;
use crate::size::MemorySize;
use crate::sweep_command::SweepArguments;
use crate::top::TopArguments;

pub use present::PresentArguments;

/// An open WDDM graphics kernel in user space. Without arguments: replays a bundled training step of a small GPT with
/// 60 % of the memory it needs, checks every byte, and writes a trace and a report into `out`.
#[derive(Debug, Parser)]
#[command(name = "openwddm", version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// The command; none: the default run.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Replay a recorded workload against a memory size; report the memory that moved, the causes, and the waits.
    Run(Box<RunArguments>),
    /// Compute the fewest bytes that any memory manager moves for a recorded workload in a memory size, and how far LRU is from it.
    Bound(BoundArguments),
    /// Replay workloads in many memory sizes under several policies: a table, a picture with the bound and the knee, a Parquet row a run.
    Sweep(Box<SweepArguments>),
    /// List the adapter profiles, or start one and say what it has: segments, memory, engines, capabilities.
    Adapters(AdaptersArguments),
    /// Failures on demand: list their forms, calls and statuses, or say what a text means.
    Faults(FaultsArguments),
    /// Make the recorded calls of a C program again (OPENWDDM_TRACE=calls:FILE.jsonl): the first call whose status is another.
    ReplayCalls(ReplayCallsArguments),
    /// Measure the time from the signal of a fence until its waiter knows, path by path.
    Fences(FencesArguments),
    /// Draw pictures and flip them on a display of the software GPU: how many were shown, and whether one was torn.
    Present(PresentArguments),
    /// Serve a kernel to other processes at a local socket, until a signal stops it.
    Serve(ServeArguments),
    /// Look at files for a daemon that has given them up; `serve` starts it.
    #[command(name = "serve-outside", hide = true)]
    ServeOutside(OutsideArguments),
    /// Watch a served kernel: engines, memory, paging, fences, and the processes that use them.
    Top(TopArguments),
    /// Print the page of the manual, or write those of all commands.
    Man(ManArguments),
    /// Print what a shell reads to complete the words of a command line.
    Completions(CompletionsArguments),
    /// Measure this build against peers and limits of this machine.
    Bench(BenchArguments),
}

/// Arguments of `adapters`.
#[derive(Debug, Args)]
pub struct AdaptersArguments {
    /// The profile to be started, or a file that describes an adapter, FILE.toml [default: list all]
    #[arg(value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print a file that describes the profile, with every name and its meaning; --adapter takes the path of such a file
    #[arg(long, requires = "profile", conflicts_with = "json")]
    pub toml: bool,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Recorded workloads, plain or gzipped JSON; several share the adapter, each in a process of its own
    /// [default: the bundled GPT training step]
    #[arg(value_name = "FILE[,priority=CLASS][,budget=SIZE]")]
    pub workloads: Vec<Share>,
    /// Run them against the kernel that `openwddm serve` serves there, as processes of its own: its adapters and their memory are given
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["vram", "system", "adapters", "place", "virtual_time", "link", "choices",
        "log_submissions", "delay", "level", "limit"])]
    pub connect: Option<PathBuf>,
    /// Video memory of each adapter: a share of the workload's peak (60%, 0.6), or a number with KiB … TiB or KB … TB, or bytes
    /// [default: what an adapter's file says, of a built-in adapter 60%]
    #[arg(long, value_name = "SIZE|PERCENT", allow_hyphen_values = true)]
    pub vram: Option<MemorySize>,
    /// System memory for the storages of each adapter, which stays theirs while they are in video memory: a size as with --vram
    /// [default: what this computer has, taken as it is used; with --virtual-time as much as the workloads need]
    #[arg(long, value_name = "SIZE|PERCENT", allow_hyphen_values = true)]
    pub system: Option<MemorySize>,
    /// Adapter profile, `openwddm adapters` lists them, or a file that describes an adapter, FILE.toml. Several, each with its --adapter, share the work: they are counted from 0, an
    /// operation may name one, and content that one wrote and another reads crosses through memory that both reach
    #[arg(long = "adapter", value_name = "PROFILE[,vram=SIZE]")]
    pub adapters: Vec<AdapterChoice>,
    /// Which operation runs on which of several adapters: as the workload names them, all on the first, the step cut into parts one
    /// behind the other, or one by one in turn [default: recorded if any operation names one, else split]
    #[arg(long, value_name = "recorded|first|split|in-turn", value_parser = parse_placement)]
    pub place: Option<Placement>,
    /// How work reaches the engine: the kernel submits packets, the kernel feeds hardware queues, or the process feeds them itself.
    /// Several, separated by commas, run one after the other and are compared; the files tell of the last [default: the latest that the adapter has]
    #[arg(long = "stage", value_name = "packet|hardware|user", value_delimiter = ',', value_parser = parse_stage)]
    pub stages: Vec<Stage>,
    /// How many steps to replay
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = steps, allow_hyphen_values = true)]
    pub steps: u32,
    /// Count time instead of spending it: no bytes are stored, so any memory size fits. Where the recording has times (op_ns), its
    /// operations take these
    #[arg(long)]
    pub virtual_time: bool,
    /// With --virtual-time: bytes a second between video memory and system memory, each way and both ways at once
    /// [default: the adapter's cost model, one way at a time]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub link: Option<LinkRate>,
    /// How victims are chosen
    #[arg(long, value_enum, default_value_t = Policy::Lru)]
    pub policy: Policy,
    /// One choice of the memory manager, made otherwise than the profile makes it; `openwddm adapters PROFILE` lists them
    #[arg(long = "set", value_name = "CHOICE=VALUE")]
    pub choices: Vec<Choice>,
    /// Whether the kernel watches for hangs.
    #[command(flatten)]
    pub hangs: HangArguments,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Fill every storage with known bytes and check them before each use
    #[arg(long)]
    pub verify: bool,
    /// Before each operation the CPU writes so many bytes that the operation reads, as a program sets the constants of a draw: appended
    /// (no-overwrite), and thrown away when four are full (discard), for which the user-mode driver renames; a multiple of 8, 65536 at most
    #[arg(long, value_name = "BYTES", value_parser = constants)]
    pub constants: Option<u64>,
    /// Write a Perfetto trace
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write a report: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the numbers as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Have queues log also when their submissions begin; the trace and the report show it
    #[arg(long)]
    pub log_submissions: bool,
    /// Write every move of memory with cause, requester and owner: one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub demotions: Option<PathBuf>,
}

/// How victims are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// The least recently used first: the driver keeps nothing on its list between operations, the kernel decides.
    Lru,
    /// The one that is foreseen to be used last, once the submissions repeat: the kernel decides by what it has seen of them, works ahead, and
    /// is the least recently used policy as long as it foresees nothing.
    Planner,
    /// The driver keeps what it used on its list and gives back when the kernel refuses or asks.
    Kept,
}

/// A choice of the memory manager: its name and its value. The kernel judges both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The name of the choice.
    pub name: String,
    /// The value to choose.
    pub value: String,
}

impl FromStr for Choice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Choice, Self::Err> {
        let (name, value) = text.split_once('=').ok_or("a choice is written CHOICE=VALUE")?;
        Ok(Choice { name: name.to_owned(), value: value.to_owned() })
    }
}

/// Most bytes of constants, as many as programs bind for a draw.
const CONSTANTS_MAX: u64 = 65_536;

fn constants(text: &str) -> Result<u64, String> {
    let bytes = text.parse().ok().filter(|bytes| (8..=CONSTANTS_MAX).contains(bytes) && bytes % 8 == 0);
    bytes.ok_or_else(|| format!("give a multiple of 8 from 8 to {CONSTANTS_MAX} bytes"))
}

/// Most steps of a run: a progress value can number their operations with room to spare.
pub const STEPS_MAX: u32 = 1_000_000;

const EXIT_CODES: &str = "Exit codes: 0 done; 1 bytes did not match, a replayed call has another status, the kernel failed, or what is written found no room; 2 bad input; \
                          130 ended by Ctrl-C, 143 by SIGTERM (such as `timeout` sends), 129 by a closed terminal, with what was reached until then. A reader that goes early changes none of them.";

impl RunArguments {
    /// The run's options.
    ///
    /// # Errors
    /// [`RunError::Argument`] when two arguments exclude each other.
    pub fn options(self) -> Result<RunOptions, RunError> {
        if self.verify && self.virtual_time {
            return Err(RunError::Argument {
                argument: "--verify --virtual-time".to_string(),
                problem: "in virtual time no bytes are stored, so --verify has none to check".to_string(),
                remedy: "leave out one of the two".to_string(),
            });
        }
        if let (Some(link), false) = (self.link, self.virtual_time) {
            return Err(RunError::Argument {
                argument: format!("--link {}MB/s", link.bytes_per_us),
                problem: "in real time copies are as fast as this computer, which takes no rate".to_string(),
                remedy: "give --virtual-time, too, or leave --link out".to_string(),
            });
        }
        if let Some(twice) = self.stages.iter().enumerate().find(|(at, stage)| self.stages[..*at].contains(stage)) {
            return Err(RunError::Argument {
                argument: "--stage".to_string(),
                problem: format!("number {} of the list repeats an earlier stage", twice.0 + 1),
                remedy: "name each stage once".to_string(),
            });
        }
        let recovery = self.hangs.policy()?;
        let bundled = Share { workload: Workload::Bundled, terms: Terms::default() };
        let mut shares = self.workloads.into_iter();
        let first = shares.next().unwrap_or(bundled);
        Ok(RunOptions {
            workload: first.workload,
            terms: first.terms,
            others: shares.collect(),
            vram: self.vram,
            system: self.system,
            adapters: self.adapters,
            placement: self.place,
            stages: self.stages,
            steps: self.steps,
            virtual_time: self.virtual_time,
            link: self.link,
            policy: self.policy,
            choices: self.choices,
            recovery,
            seed: self.seed,
            verify: self.verify,
            constants: self.constants,
            recorded: self.trace.is_some() || self.report.is_some(),
            bounded: true,
            log_submissions: self.log_submissions,
            trace: self.trace,
            report: self.report,
            json: self.json,
            demotions: self.demotions,
        })
    }
}

/// The options of a run without any arguments.
pub fn default_run() -> RunOptions {
    RunOptions {
        workload: Workload::Bundled,
        terms: Terms::default(),
        others: Vec::new(),
        vram: None,
        system: None,
        adapters: Vec::new(),
        placement: None,
        stages: Vec::new(),
        steps: 2,
        virtual_time: false,
        link: None,
        constants: None,
        policy: Policy::Lru,
        choices: Vec::new(),
        recovery: RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() },
        seed: 0,
        verify: true,
        recorded: true,
        bounded: true,
        log_submissions: false,
        trace: Some(PathBuf::from("out/openwddm-trace.perfetto-trace")),
        report: Some(PathBuf::from("out/openwddm-report.html")),
        json: None,
        demotions: None,
    }
}

/// A number of steps.
pub(crate) fn steps(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(steps @ 1..=STEPS_MAX) => Ok(steps),
        _ => Err(format!("give a whole number from 1 to {STEPS_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str]) -> Result<RunArguments, String> {
        let words = ["openwddm", "run"].iter().chain(words);
        match Arguments::try_parse_from(words) {
            Ok(Arguments { command: Some(Command::Run(run)) }) => Ok(*run),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_defaults_are_the_bundled_workload_at_sixty_percent() {
        let options = run(&[]).unwrap().options().unwrap();
        assert_eq!(options.workload, Workload::Bundled);
        assert_eq!((options.vram, options.steps, options.seed), (default_run().vram, 2, 0));
        assert!(!options.verify && !options.virtual_time && !options.recorded);
        assert_eq!(run(&["--vram", "0.6"]).unwrap().vram, "60%".parse().ok(), "as in a sweep");
    }

    #[test]
    fn a_refusal_names_argument_value_and_remedy() {
        for value in ["0", "-5", "60", "NaN", "5Gi", "99999999999TiB", "-60%"] {
            let message = run(&["--vram", value]).unwrap_err();
            assert!(message.contains("--vram") && message.contains(value) && message.contains("60%"), "{message}");
        }
        for value in ["0", "-1", "1000001", "two"] {
            let message = run(&["--steps", value]).unwrap_err();
            assert!(message.contains("--steps") && message.contains(value) && message.contains("1000000"), "{message}");
        }
        assert!(run(&["--policy", "fifo"]).unwrap_err().contains("lru"));
    }

    #[test]
    fn nothing_can_be_verified_in_virtual_time() {
        let error = run(&["--verify", "--virtual-time"]).unwrap().options().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--verify") && error.to_string().contains("leave out"));
    }
}
