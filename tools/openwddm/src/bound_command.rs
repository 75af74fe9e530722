//! `openwddm bound`: the fewest bytes that any memory manager moves for a workload, what a further step costs, and how far LRU is from both.
//! The bound is `bound`'s; here are its arguments, its refusals, and its two forms. Called by `entry`.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

use bound::{Bound, BoundError, LeastTime, Link, OPERATIONS_MAX, USES_MAX, fewest_bytes, least_time};
use clap::Args;
use dxgk_host::{PROFILES, Profile};
use replay::{Moved, lru_bytes};
use terminal_text::printable::line;
use terminal_text::units::{bytes_exact, duration, grouped, percent};

use crate::adapters::asked;
use crate::arguments::steps;
use crate::error::RunError;
use crate::link::LinkRate;
use crate::run::{self, Workload};
use crate::size::MemorySize;

/// Arguments of `bound`.
#[derive(Debug, Args)]
pub struct BoundArguments {
    /// A recorded workload, plain or gzipped JSON [default: the bundled GPT training step]
    #[arg(value_name = "WORKLOAD")]
    pub workload: Option<PathBuf>,
    /// Video memory: a share of the workload's peak (60%, 0.6), or a number with KiB … TiB or KB … TB, or bytes
    #[arg(long, value_name = "SIZE|PERCENT", default_value = "60%", allow_hyphen_values = true)]
    pub vram: MemorySize,
    /// How many steps; the cost of one more is printed beside them
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = steps, allow_hyphen_values = true)]
    pub steps: u32,
    /// The adapter profile whose link to system memory gives the least time, one way at a time, and whose pages LRU has [default: the
    /// first of `openwddm adapters`]
    #[arg(long, value_name = "PROFILE")]
    pub adapter: Option<String>,
    /// Bytes a second of that link, each way and both ways at once
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub link: Option<LinkRate>,
    /// Seconds for the solver alone: what else is done counts, and is not cut short
    #[arg(long, value_name = "SECONDS", default_value_t = 60, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub time_limit: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// More than two steps have the peak of two.
const PEAK_STEPS: u32 = 2;

/// The figures of so many steps.
struct Figures {
    bound: Bound,
    least: LeastTime,
    /// `None`: it does not fit in whole pages, or moves more than 2^64 bytes.
    lru: Option<Moved>,
}

/// All that is printed.
struct Found {
    workload: replay::Workload,
    profile: &'static Profile,
    link: Link,
    steps: u32,
    peak_bytes: u64,
    vram_bytes: u64,
    asked: Figures,
    /// Of one step more; `None`: no bound of it is known.
    further: Option<Figures>,
}

/// The output of `bound`.
///
/// # Errors
/// [`RunError::File`] for a workload that does not open, [`RunError::Argument`] for a size or a profile that does not do, and for a program
/// that was not solved in time.
pub fn bound(arguments: &BoundArguments) -> Result<String, RunError> {
    let profile = match &arguments.adapter {
        None => &PROFILES[0],
        Some(name) => asked("--adapter", name)?,
    };
    let workload = run::open(&arguments.workload.clone().map_or(Workload::Bundled, Workload::File))?;
    let (steps, peak_bytes) = (arguments.steps, workload.peak_bytes(PEAK_STEPS));
    let vram_bytes = arguments.vram.bytes(peak_bytes);
    let link = link_of(profile, arguments.link);
    let began = Instant::now();
    let mut seconds_left = || f64::from(arguments.time_limit) - began.elapsed().as_secs_f64();
    let mut figures = |steps: u32| {
        let bound = fewest_bytes(&workload, steps, vram_bytes, &mut seconds_left)?;
        let lru = lru_bytes(&workload, steps, vram_bytes, profile.segment_page_bytes()).ok();
        Ok(Figures { least: least_time(&bound, link, work_ns(&workload, steps)), bound, lru })
    };
    let refusal = |error| refused(arguments, &workload, error);
    let asked = figures(steps).map_err(refusal)?;
    let further = figures(steps + 1).ok();
    let found = Found { profile, link, steps, peak_bytes, vram_bytes, asked, further, workload };
    Ok(if arguments.json { found.json() } else { found.text() })
}

/// The link that was asked for, or else that of the profile's cost model, as runs have it.
pub(crate) fn link_of(profile: &Profile, asked: Option<LinkRate>) -> Link {
    let bytes_per_us = asked.map_or(profile.timing.copy_bytes_per_us, |link| link.bytes_per_us);
    Link { bytes_per_s: bytes_per_us.saturating_mul(1_000_000), both_ways: asked.is_some() }
}

/// Time of the work itself over all steps, where the recording has it.
fn work_ns(workload: &replay::Workload, steps: u32) -> Option<u64> {
    workload.recorded_ns(workload.ops() as u64 * u64::from(steps))
}

fn refused(arguments: &BoundArguments, workload: &replay::Workload, error: BoundError) -> RunError {
    let problem = error.to_string();
    let (argument, remedy) = match error {
        BoundError::TooSmall { needed, .. } => {
            let peak = workload.peak_bytes(PEAK_STEPS);
            (
                format!("--vram {}", arguments.vram.as_argument()),
                format!("give at least {needed} bytes (the peak is {peak})"),
            )
        }
        BoundError::TooManyOperations { .. } => too_many(arguments.steps, OPERATIONS_MAX, workload.ops() as u64),
        BoundError::TooManyUses { of_a_step, .. } => too_many(arguments.steps, USES_MAX, of_a_step),
        BoundError::TooManyBytes { .. } => (format!("--steps {}", arguments.steps), "ask for fewer steps".to_owned()),
        BoundError::OutOfTime { .. } => {
            let remedy =
                "give it more seconds, or ask for fewer --steps or more --vram, with which the program is smaller";
            (format!("--time-limit {}", arguments.time_limit), remedy.to_owned())
        }
        BoundError::Solver { .. } => {
            let remedy = "ask for another --vram or other --steps; and report it, with the workload".to_owned();
            return RunError::Kernel { problem, remedy };
        }
    };
    RunError::Argument { argument, problem, remedy }
}

/// The argument to blame where all steps have more than `most` of something, and the remedy.
fn too_many(steps: u32, most: u64, of_a_step: u64) -> (String, String) {
    match most / of_a_step.max(1) {
        0 => ("workload".to_owned(), "one step of it is too large: record a shorter one".to_owned()),
        most => (format!("--steps {steps}"), format!("give at most {most}; further steps cost the same again")),
    }
}

impl Found {
    /// What one step more costs: the bound's own, and LRU's.
    fn further_bytes(&self) -> Option<(u64, Option<u64>)> {
        let further = self.further.as_ref()?;
        let moved = further.bound.moved_bytes.saturating_sub(self.asked.bound.moved_bytes);
        let lru = further.lru.zip(self.asked.lru).map(|(more, asked)| total(more).saturating_sub(total(asked)));
        Some((moved, lru))
    }

    fn text(&self) -> String {
        let Bound { moved_bytes, paged_in_bytes, cold_bytes, effort } = self.asked.bound;
        let steps = format!("{} {}", grouped(self.steps.into()), if self.steps == 1 { "step" } else { "steps" });
        let share = percent(self.vram_bytes, self.peak_bytes);
        let mut rows = vec![
            ("peak of the workload", bytes_exact(self.peak_bytes)),
            ("video memory", format!("{}, {share} of the peak", bytes_exact(self.vram_bytes))),
            ("fewest bytes moved", format!("{}, in and out together", bytes_exact(moved_bytes))),
            ("fewest bytes paged in", bytes_exact(paged_in_bytes)),
            ("  there before", bytes_exact(cold_bytes)),
        ];
        let further = self.further_bytes();
        rows.push((
            "a further step",
            further.map_or("no bound of it is known".to_owned(), |(moved, _)| bytes_exact(moved)),
        ));
        rows.push((
            "LRU moves",
            self.asked.lru.map_or("does not fit in whole pages, or moves more than 2^64 bytes".to_owned(), |lru| {
                let (paged_in, paged_out) = (grouped(lru.paged_in), grouped(lru.paged_out));
                format!("{}, {paged_in} in and {paged_out} out", times_as_much(total(lru), moved_bytes))
            }),
        ));
        if let Some((moved, Some(lru))) = further {
            rows.push(("  a further step", times_as_much(lru, moved)));
        }
        let rate = self.link.bytes_per_s as f64 / 1e9;
        let link = duration(self.asked.least.link_ns);
        let how = match self.link.both_ways {
            true => "each way, both ways at once".to_owned(),
            false => format!("one way at a time ({})", self.profile.name),
        };
        rows.push(("least time on the link", format!("{link}, at {rate} GB/s, {how}")));
        if let Some(ns) = work_ns(&self.workload, self.steps) {
            let (work, least) = (duration(ns), self.asked.least.total_ns);
            let ideal = percent(ns, least);
            rows.push(("least time", format!("{}: the work takes {work}, {ideal} of it", duration(least))));
        }
        rows.push(("how", effort.to_string()));
        let mut text = format!("{}: what no memory manager goes below in {steps}\n", line(self.workload.name()));
        for (name, value) in rows {
            writeln!(text, "  {name:23} {value}").expect("a string takes everything");
        }
        text
    }

    fn json(&self) -> String {
        let of = |figures: &Figures, steps: u32| {
            let bound = figures.bound;
            serde_json::json!({
                "steps": steps,
                "moved_bytes": bound.moved_bytes,
                "paged_in_bytes": bound.paged_in_bytes,
                "cold_bytes": bound.cold_bytes,
                "lru_paged_in_bytes": figures.lru.map(|lru| lru.paged_in),
                "lru_paged_out_bytes": figures.lru.map(|lru| lru.paged_out),
                "link_ns": figures.least.link_ns,
                "work_ns": work_ns(&self.workload, steps),
                "least_ns": figures.least.total_ns,
                "rows": bound.effort.rows,
                "rows_solved": bound.effort.rows_solved,
                "variables": bound.effort.variables,
                "rounds": bound.effort.rounds,
            })
        };
        let further = self.further_bytes();
        let value = serde_json::json!({
            "workload": self.workload.name(),
            "adapter": self.profile.name,
            "link_bytes_per_s": self.link.bytes_per_s,
            "link_both_ways": self.link.both_ways,
            "peak_bytes": self.peak_bytes,
            "vram_bytes": self.vram_bytes,
            "asked": of(&self.asked, self.steps),
            "one_step_more": self.further.as_ref().map(|further| of(further, self.steps + 1)),
            "further_step_bytes": further.map(|(moved, _)| moved),
            "lru_further_step_bytes": further.and_then(|(_, lru)| lru),
        });
        format!("{value:#}\n")
    }
}

fn total(moved: Moved) -> u64 {
    moved.paged_in.saturating_add(moved.paged_out)
}

/// Bytes, and how many times the fewest they are.
fn times_as_much(bytes: u64, fewest: u64) -> String {
    match fewest {
        0 if bytes == 0 => "nothing either".to_owned(),
        0 => format!("{}, where nothing has to move", bytes_exact(bytes)),
        _ => format!("{}, {:.2} times the fewest", bytes_exact(bytes), bytes as f64 / fewest as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_too_large_is_the_workloads_fault() {
        assert_eq!(
            too_many(3, 1_000_000, 400_000),
            ("--steps 3".into(), "give at most 2; further steps cost the same again".into())
        );
        let (argument, remedy) = too_many(1, 1_000_000, 1_000_001);
        assert_eq!((&argument[..], &remedy[..]), ("workload", "one step of it is too large: record a shorter one"));
    }

    #[test]
    fn what_was_not_solved_in_time_is_refused_with_what_is_known() {
        let arguments = BoundArguments {
            workload: None,
            vram: "60%".parse().unwrap(),
            steps: 2,
            adapter: None,
            link: None,
            time_limit: 7,
            json: false,
        };
        let workload = run::open(&Workload::Bundled).unwrap();
        let error = BoundError::OutOfTime { effort: bound::Effort::default(), at_least: 12_345 };
        let RunError::Argument { argument, problem, remedy } = refused(&arguments, &workload, error) else {
            panic!("no argument is to blame")
        };
        assert_eq!(argument, "--time-limit 7");
        assert!(problem.contains("at least 12345 bytes"), "{problem}");
        assert!(remedy.contains("more seconds") && remedy.contains("--vram"), "{remedy}");
    }
}
