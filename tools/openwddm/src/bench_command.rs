//! `openwddm bench` and `openwddm fences`: where the measures' report goes. `bench` measures; here are the arguments, the files, and the
//! refusals. Called by `entry`.

use std::io;
use std::path::{Path, PathBuf};

use bench::{BenchError, BenchOptions, BenchReport};
use clap::Args;

use crate::console::{Out, complain};
use crate::error::RunError;
use crate::output::Output;

/// A larger file is no report of `bench --json`.
const REPORT_BYTES_MAX: u64 = 16 << 20;

/// Arguments of `fences`.
#[derive(Debug, Args)]
pub struct FencesArguments {
    /// Few rounds: shows in seconds that everything runs
    #[arg(long)]
    pub smoke: bool,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// Few rounds: shows in seconds that everything runs
    #[arg(long)]
    pub smoke: bool,
    /// One measure instead of all. Most take seconds; `growth`, `processes`, `daemon`, `arenas` and `neighbour` take minutes each on two processors,
    /// `daemon` about five (31 rounds of 32 replays)
    #[arg(long, value_name = "MEASURE", value_parser = bench::MEASURES)]
    pub only: Option<String>,
    /// Print the report as JSON (schema openwddm-bench/1)
    #[arg(long)]
    pub json: bool,
    /// Beside it, what has changed since an older report of `bench --json`, and by more than noise
    #[arg(long, value_name = "OLD.json")]
    pub compare: Option<PathBuf>,
    /// Write a page with a plot of each ratio, its interval and its goal
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// A part of a measure, which starts this program for it
    #[arg(long, hide = true, num_args = 1.., value_name = "WORD", conflicts_with_all = ["smoke", "only", "json", "compare", "page"])]
    pub part: Vec<String>,
}

/// Measures this build against peers and limits of this machine, and prints the report.
///
/// # Errors
/// [`RunError::File`] for an old report that is none and for a page that has no place, before anything is measured; [`RunError::Kernel`] when
/// a measurement fails or a count that must be zero is not.
pub fn measure(arguments: BenchArguments, out: &mut Out) -> Result<(), RunError> {
    let BenchArguments { smoke, only, json, compare, page, part } = arguments;
    if !part.is_empty() {
        return bench::play(&part).map_err(unmeasured);
    }
    let old = compare.as_deref().map(older).transpose()?;
    let page = page.map(|path| Output::check("--page", &path)).transpose()?;
    let options = BenchOptions { smoke, only, program: std::env::current_exe().ok(), ..BenchOptions::default() };
    let measured = if json { bench::run(&options, &mut io::sink()) } else { bench::run(&options, out) };
    let report = measured.map_err(unmeasured)?;
    if let Some(page) = page {
        out.file(&page, |file| file.write_all(bench::page(&report, old.as_ref()).as_bytes()));
    }
    let changes = old.map_or(String::new(), |old| format!("\n{}", bench::comparison(&report, &old)));
    match json {
        true => {
            out.print(&bench::to_json(&report));
            if !changes.is_empty() {
                complain(&changes);
            }
        }
        false => out.print(&(report.table() + &changes)),
    }
    report.broken().map_or(Ok(()), |broken| Err(unmeasured(broken)))
}

/// The report in a file.
fn older(path: &Path) -> Result<BenchReport, RunError> {
    let refused = |problem: String| RunError::File {
        role: "--compare".to_owned(),
        path: path.to_path_buf(),
        problem,
        remedy: "give a file that `openwddm bench --json` of this version wrote".to_owned(),
    };
    let about = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    if about.is_file() && about.len() > REPORT_BYTES_MAX {
        return Err(refused(format!("it has {} bytes, and a report has at most {REPORT_BYTES_MAX}", about.len())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    bench::from_json(&text).map_err(refused)
}

/// `openwddm fences`.
///
/// # Errors
/// [`RunError::Kernel`] when the table could not be measured.
pub fn fence_paths(smoke: bool, out: &mut Out) -> Result<(), RunError> {
    bench::fence_paths(smoke, out).map_err(unmeasured)
}

fn unmeasured(error: BenchError) -> RunError {
    RunError::Kernel {
        problem: error.to_string(),
        remedy: "run it again on an idle machine; report a promise that is broken again".to_owned(),
    }
}
