//! The order of the measures, and how much of each a run makes. Called by the command line.

use std::io::Write;
use std::path::PathBuf;

use crate::machine::{AsBefore, IdleExit, Machine, NoHalt, all_processors};
use crate::part_process::Program;
use crate::report::{BenchError, BenchReport, Row};
use crate::{
    arenas, bytes, calls, copies, daemon, doorbell, frames, growth, handles, hop, litmus, mapping, neighbour,
    page_tables, planner, processes, residency, sched, signals, simulated, tracing, vulkan, waiters, waits,
};

/// The names of the measures, in their order.
pub const MEASURES: [&str; 23] = [
    "litmus",
    "signals",
    "waiters",
    "copies",
    "page-tables",
    "frames",
    "residency",
    "growth",
    "processes",
    "planner",
    "bytes",
    "handles",
    "calls",
    "daemon",
    "arenas",
    "neighbour",
    "sched",
    "tracing",
    "simulated",
    "doorbell",
    "vulkan",
    "waits",
    "hop",
];

/// The options of a run.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Few rounds: shows that everything runs, in seconds. Its ratios are rough.
    pub smoke: bool,
    /// Hold the idle exit where that is allowed, so that waking a processor does not drown what is measured. (The rows that
    /// compare with a wake-up say for themselves how they were taken.)
    pub hold_idle_exit: bool,
    /// One of [`MEASURES`], instead of all.
    pub only: Option<String>,
    /// The program that has [`play`](crate::play) called with the words behind `bench --part`. Without it there are no measures
    /// whose clients are processes.
    pub program: Option<PathBuf>,
}

impl Default for BenchOptions {
    fn default() -> Self {
        BenchOptions { smoke: false, hold_idle_exit: true, only: None, program: None }
    }
}

/// How much of each measure.
struct Amounts {
    races: u64,
    hop_batches: usize,
    wakes: u32,
    signals: u64,
    copy_batches: usize,
}

const FULL: Amounts =
    Amounts { races: 5_000_000, hop_batches: 101, wakes: 1_001, signals: 10_000_000, copy_batches: 31 };
const SMOKE: Amounts = Amounts { races: 100_000, hop_batches: 5, wakes: 51, signals: 100_000, copy_batches: 2 };

/// Prints the machine with its calibration, then measures everything. [`BenchReport::broken`] says whether a count that the protocols promise to
/// be zero is not; a missed goal is no error, its row says so.
///
/// # Errors
/// When the output or the memory fails, or the device does not do what its data sheet says.
pub fn run(options: &BenchOptions, out: &mut dyn Write) -> Result<BenchReport, BenchError> {
    let amounts = if options.smoke { SMOKE } else { FULL };
    let asked = if options.hold_idle_exit { NoHalt::hold() } else { Err("not asked for".into()) };
    let (held, idle_exit) = match asked {
        Ok(held) => (Some(held), IdleExit::Held),
        Err(reason) => (None, IdleExit::NotHeld(reason)),
    };
    let machine = Machine::look(idle_exit);
    writeln!(out, "{machine}")?;
    out.flush()?;
    let mut rows = Vec::new();
    match machine.pair {
        None => rows.push(Row::absent("everything", "needs two processors")),
        Some(pair) => {
            let mut held = held;
            let wanted = |name: &&str| options.only.as_deref().is_none_or(|only| only == *name);
            all_processors();
            for name in MEASURES.iter().filter(|name| wanted(name)) {
                // Processes of the next measure would be pinned as this thread is.
                let _as_before = AsBefore::note();
                rows.extend(match *name {
                    "litmus" => litmus::rows(pair, amounts.races),
                    "signals" => signals::rows(pair, amounts.signals)?,
                    "waiters" => waiters::rows(pair, amounts.copy_batches, options.smoke)?,
                    "copies" => copies::rows(pair, amounts.copy_batches)?,
                    "page-tables" => {
                        let mut rows = page_tables::rows(pair, amounts.copy_batches)?;
                        rows.extend(mapping::rows(pair, amounts.copy_batches)?);
                        rows
                    }
                    "frames" => frames::rows(pair, 3 * amounts.copy_batches, options.smoke),
                    "sched" => sched::rows(pair, options.smoke)?,
                    "tracing" => tracing::rows(amounts.copy_batches)?,
                    "simulated" => simulated::rows(amounts.copy_batches)?,
                    "doorbell" => doorbell::rows(pair, amounts.copy_batches)?,
                    "vulkan" => vulkan::rows(pair, amounts.copy_batches)?,
                    "handles" => handles::rows(pair, amounts.copy_batches, options.smoke),
                    "calls" => calls::rows(pair, amounts.copy_batches, options.smoke)?,
                    "daemon" | "neighbour" => match options.program.as_ref().map(Program) {
                        Some(program) if *name == "daemon" => daemon::rows(program, options.smoke)?,
                        Some(program) => neighbour::rows(program, options.smoke)?,
                        None => vec![Row::absent(name, "needs a program that plays its clients")],
                    },
                    "arenas" => {
                        let program = options.program.as_ref().map(Program);
                        arenas::rows(program, amounts.copy_batches, options.smoke)?
                    }
                    "growth" => growth::rows(pair, options.smoke)?,
                    "processes" => processes::rows(options.smoke)?,
                    "planner" => planner::rows(options.smoke)?,
                    "bytes" => bytes::rows(options.smoke)?,
                    "residency" => residency::rows(pair, amounts.copy_batches, options.smoke)?,
                    // The last two measures wake sleepers whose processor has halted, and so the request ends here.
                    "waits" => {
                        held = None;
                        waits::rows(pair, amounts.copy_batches, amounts.wakes)?
                    }
                    _ => {
                        held = None;
                        hop::rows(pair, amounts.hop_batches, amounts.wakes)?
                    }
                });
            }
            drop(held);
        }
    }
    Ok(BenchReport { machine, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::machine::allowed;

    #[test]
    fn the_smoke_run_goes_through_and_breaks_no_promise() {
        // seed: N06, N07, N27
        // spec: sync §3.9, sync §3.19
        let mut out = Vec::new();
        let options = BenchOptions { smoke: true, ..BenchOptions::default() };
        let report = run(&options, &mut out).expect("the smoke run goes through");
        let text = String::from_utf8(out).expect("the table is text");
        assert!(text.starts_with("machine: ") && text.lines().count() == 1, "{text}");
        assert!(report.rows.iter().all(|row| row.verdict() != Verdict::Broken), "{}", report.table());
        assert!(report.broken().is_none() && report.table().lines().count() == report.rows.len() + 1);
    }

    #[test]
    fn a_measure_that_pins_its_thread_leaves_it_as_it_was() {
        let before = allowed();
        let only = Some("frames".into());
        let options = BenchOptions { smoke: true, hold_idle_exit: false, only, program: None };
        run(&options, &mut Vec::new()).expect("it measures");
        assert_eq!(allowed(), before);
    }
}
