//! The same work at many memory sizes, under several policies, by one process or several: a run in virtual time for each, one [`Row`]
//! a run.
//!
//! [`sweep`] is a function of its options: it prints nothing, and writes only below the folder that the options name. The command line
//! (`sweep_command`) calls it, and so may any program, such as an extension of Python:
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use openwddm::{progress::Progress, run::Workload, sweep::{SweepOptions, sweep}};
//!
//! let options = SweepOptions {
//!     workloads: vec![Workload::File("step.rrs.json.gz".into())],
//!     sizes: vec!["0.3..1.0".parse().unwrap()],
//!     ..SweepOptions::default()
//! };
//! let swept = sweep(&options, &Progress::silent(), &AtomicBool::new(false)).unwrap();
//! for row in &swept.rows {
//!     println!("{} {} {}", row.policy, row.vram_bytes, row.share_millionths);
//! }
//! ```
//! One size, one policy and one process are a single what-if. A [`Row`] is plain data that `serde` writes.
//!
//! | module | has |
//! |---|---|
//! | `sizes`, `shard` | the words of the command line for memory sizes and parts of a sweep |
//! | `plan` | the runs, each judged before the first begins |
//! | `attempt` | one run, and its row |
//! | `limit` | the bound beside it |
//! | `pool` | the runs over the cores |
//! | `kept`, `columns` | rows in a folder, as Parquet |
//! | `knee` | the memory that a share of the ideal needs |
//! | `table`, `page` | what people look at |

mod attempt;
mod columns;
mod kept;
mod knee;
mod limit;
mod page;
mod plan;
mod pool;
mod row;
mod shard;
mod sizes;
mod table;

pub use knee::{Knee, knees};
pub use page::page;
pub use row::Row;
pub use shard::Shard;
pub use sizes::Sizes;
pub use table::table;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use serde::Serialize;

use crate::arguments::Policy;
use crate::error::RunError;
use crate::imported::Imported;
use crate::link::LinkRate;
use crate::progress::Progress;
use crate::run::Workload;
use crate::size::MemorySize;
use crate::sweep::kept::Kept;
use crate::sweep::plan::Plan;
use crate::sweep::pool::Made;

/// What is swept.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// The workloads, each for itself.
    pub workloads: Vec<Workload>,
    /// Memory sizes; shares are those of the peak of one process.
    pub sizes: Vec<Sizes>,
    /// How victims are chosen.
    pub policies: Vec<Policy>,
    /// How many processes replay a workload at the same time.
    pub processes: Vec<u32>,
    /// Steps of each run, at least 1.
    pub steps: u32,
    /// The adapter profile; `None`: the usual one.
    pub adapter: Option<String>,
    /// The rate of the bus; `None`: as the adapter's cost model has it.
    pub link: Option<LinkRate>,
    /// The part of the sweep to run; `None`: all of it.
    pub shard: Option<Shard>,
    /// Runs at a time; `None`: as many as there are cores.
    pub jobs: Option<NonZero<usize>>,
    /// Seconds for each bound; 0: none is computed.
    pub bound_seconds: u32,
    /// The folder that keeps the rows, and has those of an earlier sweep; `None`: they are in the result alone.
    pub rows: Option<PathBuf>,
}

impl Default for SweepOptions {
    /// The bundled workload from 30 % of its peak to all of it, under every policy, by one process.
    fn default() -> SweepOptions {
        let share = |millionths| MemorySize::OfPeak { millionths };
        SweepOptions {
            workloads: vec![Workload::Bundled],
            sizes: vec![Sizes::between(share(300_000), share(1_000_000))],
            policies: Policy::value_variants().to_vec(),
            processes: vec![1],
            steps: STEPS,
            adapter: None,
            link: None,
            shard: None,
            jobs: None,
            bound_seconds: BOUND_SECONDS,
            rows: None,
        }
    }
}

/// The steps of a run unless the options say otherwise: the last of them has the first two behind it.
pub const STEPS: u32 = 3;
/// Seconds for each bound unless the options say otherwise.
pub const BOUND_SECONDS: u32 = 20;

/// The outcome of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// The known rows of all shards: by workload, processes and policy in the order of the options, then by memory size.
    pub rows: Vec<Row>,
    /// The imports of recordings that are not exactly what runs: one for each workload at most.
    pub imports: Vec<Imported>,
    /// Sizes that were left out, because they are too small for a workload.
    pub unfit: Vec<Unfit>,
    /// Rows that the folder had.
    pub found: usize,
    /// Runs that were made.
    pub made: usize,
    /// Runs of the whole sweep without a row: of other shards, or those that an interruption left.
    pub missing: usize,
    /// The folder did not take rows, which are in the result alone.
    pub unkept: Option<Unkept>,
    /// The caller ended it early; all other fields are those reached until then.
    pub interrupted: bool,
}

/// A size that is too small for a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unfit {
    /// Name of the workload.
    pub workload: String,
    /// How many processes.
    pub processes: u32,
    /// Under which policy; `None`: whatever the policy.
    pub policy: Option<String>,
    /// The size.
    pub asked_bytes: u64,
    /// Why it does not do.
    pub problem: String,
}

/// Rows that the folder did not take.
#[derive(Clone, Debug)]
pub struct Unkept {
    /// How many.
    pub rows: usize,
    /// The folder, and why it did not take the first of them.
    pub error: RunError,
}

impl Unkept {
    fn of(folder: &Path, rows: usize, first: RunError) -> Unkept {
        let problem = match first {
            RunError::File { problem, .. } | RunError::Unwritten { problem, .. } => problem,
            other => other.to_string(),
        };
        let problem = format!("{rows} rows, of the first: {problem}");
        let (role, path) = ("rows".to_owned(), folder.to_owned());
        Unkept { rows, error: RunError::Unwritten { role, path, problem } }
    }
}

/// Makes the runs that have no row yet, until their end or until `cancel` is set, and gives all rows.
///
/// Each run is one of virtual time, so its row is the same in every sweep and on every machine. A row is in the folder before the next
/// run of its core begins. Rows of the folder are trusted after one of each policy was run again and came out equal.
///
/// # Errors
/// [`RunError::File`] for a workload that does not open and a file among the rows that is none of a sweep, [`RunError::Argument`] for what
/// cannot be run, [`RunError::Kernel`] when a run fails; rows that were finished until then stay in the folder.
pub fn sweep(options: &SweepOptions, progress: &Progress, cancel: &AtomicBool) -> Result<Swept, RunError> {
    let plan = Plan::of(options)?;
    let kept = options.rows.as_deref().map(Kept::open).transpose()?;
    let mut rows: Vec<Option<Row>> = plan.points().iter().map(|point| kept.as_ref()?.row(&plan, point)).collect();
    let found = rows.iter().flatten().count();
    kept::verify(&plan, &rows, cancel)?;
    let mine = |at: &usize| rows[*at].is_none() && options.shard.is_none_or(|shard| shard.has(*at));
    let open: Vec<usize> = (0..rows.len()).filter(mine).collect();
    let Made { rows: made, unfit, unkept } = pool::run(&plan, &open, kept.as_ref(), (options.jobs, progress), cancel)?;
    let count = made.len();
    made.into_iter().for_each(|(at, row)| rows[at] = Some(row));
    let missing = rows.iter().filter(|row| row.is_none()).count() - unfit.len();
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    let imports = plan.imports();
    let unfit = plan.with_unfit(unfit);
    let interrupted = cancel.load(Ordering::Relaxed);
    match unfit.last() {
        Some(largest) if rows.is_empty() && missing == 0 && !interrupted => Err(RunError::Argument {
            argument: format!("--vram {}", largest.asked_bytes),
            problem: format!("no size of the sweep fits {}: {}", largest.workload, largest.problem),
            remedy: "give larger sizes".to_owned(),
        }),
        _ => {
            let unkept = kept.zip(unkept).map(|(kept, (rows, error))| Unkept::of(kept.folder(), rows, error));
            Ok(Swept { rows, imports, unfit, found, made: count, missing, unkept, interrupted })
        }
    }
}
