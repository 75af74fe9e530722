//! The command `sweep`: its arguments, the files below its folder, and its words. The sweep itself is `sweep`'s. Called by `entry`.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::{Args, ValueEnum};
use dxgk_host::{scaled, split_amount};
use terminal_text::printable::{line, path as shown};
use terminal_text::units::{bytes, grouped};

use crate::adapters::asked;
use crate::arguments::{Policy, steps};
use crate::console::Out;
use crate::error::RunError;
use crate::interruption::INTERRUPTED;
use crate::link::LinkRate;
use crate::output::{Output, make_folder};
use crate::progress::Progress;
use crate::run::Workload;
use crate::sweep::{BOUND_SECONDS, Knee, STEPS, Shard, Sizes, SweepOptions, Swept, Unfit, knees, page, sweep, table};

/// Arguments of `sweep`.
#[derive(Debug, Args)]
pub struct SweepArguments {
    /// Recorded workloads, plain or gzipped JSON, each swept for itself [default: the bundled GPT training step]
    #[arg(value_name = "WORKLOAD")]
    pub workloads: Vec<PathBuf>,
    /// Video memory: shares of the peak of one process, or sizes; one, a range of 15, or a range of COUNT
    #[arg(
        long,
        value_name = "SIZE|FROM..TO[/COUNT]",
        value_delimiter = ',',
        default_value = "0.3..1.0",
        allow_hyphen_values = true
    )]
    pub vram: Vec<Sizes>,
    /// How victims are chosen [default: each of these]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub policy: Vec<Policy>,
    /// How many processes replay the workload at the same time
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", allow_hyphen_values = true)]
    pub processes: Vec<u32>,
    /// How many steps each run has
    #[arg(long, value_name = "N", default_value_t = STEPS, value_parser = steps, allow_hyphen_values = true)]
    pub steps: u32,
    /// Adapter profile, or a file that describes an adapter, FILE.toml [default: the first of `openwddm adapters`]
    #[arg(long, value_name = "PROFILE")]
    pub adapter: Option<String>,
    /// Bytes a second between video memory and system memory, each way and both ways at once
    /// [default: the adapter's cost model, one way at a time]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub link: Option<LinkRate>,
    /// The share of the ideal speed whose memory is looked for
    #[arg(long, value_name = "PERCENT", default_value = "95%", value_parser = target, allow_hyphen_values = true)]
    pub target: u64,
    /// Run one of N equal parts; the parts write into one folder, or into folders whose rows are put together
    #[arg(long, value_name = "I/N", allow_hyphen_values = true)]
    pub shard: Option<Shard>,
    /// Runs at a time [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZero<usize>>,
    /// Seconds for the solver of each bound; 0: no bound
    #[arg(long, value_name = "SECONDS", default_value_t = BOUND_SECONDS, allow_hyphen_values = true)]
    pub time_limit: u32,
    /// The folder: below it the rows, a Parquet file for each run, and the page; rows that are there are not run again
    #[arg(long, value_name = "FOLDER", default_value = "out/sweep")]
    pub out: PathBuf,
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
}

/// The folder of the rows, below that of the sweep: other programs read it as one data set.
const ROWS: &str = "rows";
/// The page, beside it.
const PAGE: &str = "sweep.html";

/// A share of the ideal: `95%` or `0.95`.
fn target(text: &str) -> Result<u64, String> {
    let amount = split_amount(text).ok();
    let millionths = amount.and_then(|(number, unit)| match unit {
        "%" => scaled(number, 10_000).ok(),
        "" => scaled(number, 1_000_000).ok(),
        _ => None,
    });
    let found = millionths.filter(|millionths| *millionths <= 1_000_000);
    found.ok_or_else(|| "give a share above 0 % and up to 100 %: 95%, 0.95".to_owned())
}

impl SweepArguments {
    fn options(&self) -> SweepOptions {
        let files = self.workloads.iter().cloned().map(Workload::File);
        let workloads = if self.workloads.is_empty() { vec![Workload::Bundled] } else { files.collect() };
        let policies = if self.policy.is_empty() { Policy::value_variants().to_vec() } else { self.policy.clone() };
        SweepOptions {
            workloads,
            sizes: self.vram.clone(),
            policies,
            processes: self.processes.clone(),
            steps: self.steps,
            adapter: self.adapter.clone(),
            link: self.link,
            shard: self.shard,
            jobs: self.jobs,
            bound_seconds: self.time_limit,
            rows: Some(self.out.join(ROWS)),
        }
    }
}

/// Sweeps, writes the page, and prints; returns the exit code.
///
/// # Errors
/// Those of [`sweep`], and places that take no file.
pub fn run(
    arguments: &SweepArguments,
    progress: &Progress,
    cancel: &AtomicBool,
    out: &mut Out,
) -> Result<u8, RunError> {
    // A refused adapter leaves no folder behind.
    arguments.adapter.as_deref().map(|adapter| asked("--adapter", adapter)).transpose()?;
    make_folder("--out", &arguments.out)?;
    let picture = Output::check("--out", &arguments.out.join(PAGE))?;
    let swept = sweep(&arguments.options(), progress, cancel);
    progress.finish();
    let swept = swept?;
    let knees = knees(&swept.rows, arguments.target);
    let drawn = out.file(&picture, |sink| sink.write_all(page(&swept, &knees, arguments.target).as_bytes()));
    match arguments.json {
        true => out.print(&json(&swept, &knees)),
        false => out.print(&format!("{}{}", table(&swept, &knees), closing(&swept, arguments, drawn))),
    }
    if let Some(unkept) = &swept.unkept {
        out.lose(unkept.error.clone());
    }
    Ok(if swept.interrupted { INTERRUPTED } else { 0 })
}

fn json(swept: &Swept, knees: &[Knee]) -> String {
    let value = serde_json::json!({
        "rows": swept.rows,
        "knees": knees,
        "imports": swept.imports,
        "left_out": swept.unfit,
        "found": swept.found,
        "made": swept.made,
        "missing": swept.missing,
        "interrupted": swept.interrupted,
    });
    format!("{value:#}\n")
}

/// What was left out, what is missing, and where the files are.
fn closing(swept: &Swept, arguments: &SweepArguments, drawn: bool) -> String {
    let mut text = String::new();
    for imported in &swept.imports {
        for sentence in imported.sentences() {
            text += &format!("recording {}: {}\n", line(&imported.workload), line(&sentence));
        }
    }
    let whose = |unfit: &Unfit| (unfit.workload.clone(), unfit.processes, unfit.policy.clone());
    for unfit in swept.unfit.chunk_by(|a, b| whose(a) == whose(b)) {
        // Sizes ascend: the last is the largest.
        let Some(largest) = unfit.last() else { continue };
        let (count, size) = (unfit.len(), bytes(largest.asked_bytes));
        let sizes = if count == 1 { "size" } else { "sizes" };
        let under = largest.policy.as_ref().map_or(String::new(), |policy| format!(" under {policy}"));
        let of = format!("{}{under} in {}", line(&largest.workload), processes(largest.processes));
        text += &format!("left out: {count} {sizes} up to {size} for {of}: {}\n", largest.problem);
    }
    if swept.interrupted {
        text += "interrupted: what was reached until then; the same command goes on from there\n";
    }
    let unkept = swept.unkept.as_ref().map_or(0, |unkept| unkept.rows);
    let (missing, known) = (swept.missing as u64, (swept.rows.len() - unkept) as u64);
    if missing > 0 {
        text += &format!("missing: {} runs have no row yet\n", grouped(missing));
    }
    let rows = arguments.out.join(ROWS);
    let found = match swept.found {
        0 => String::new(),
        found => format!(", {} of them there before", grouped(found as u64)),
    };
    text += &format!("rows: {} in {}{found}\n", grouped(known), shown(&rows));
    if drawn {
        text += &format!("picture: {}\n", shown(Path::new(&arguments.out.join(PAGE))));
    }
    text
}

fn processes(count: u32) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_share_of_the_whole() {
        assert_eq!((target("95%"), target("0.95"), target("1")), (Ok(950_000), Ok(950_000), Ok(1_000_000)));
        for text in ["0", "101%", "1.01", "5GiB", "-5%", "much"] {
            assert!(target(text).unwrap_err().contains("95%"), "{text}");
        }
    }
}
