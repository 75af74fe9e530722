//! Everything that must hold before a change is taken, in order, stopping at the first failure.
//!
//! The steps are a table ([`STEPS`]); a new step is a row of it and nothing else. Each step prints its name and
//! its seconds. The last line is `N passed, M failed`, counted in steps; a step whose file is not there is named as left
//! out and counts as neither.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::mutants::planted;
use crate::report::Report;
use crate::tree::House;
use crate::{arrows, instructions, python, spec, template, tidy};

/// One step.
struct Step {
    name: &'static str,
    action: Action,
    /// The step is left out while this file does not exist. Empty: always run.
    needs: &'static str,
    /// `ci --fast` has it, too.
    fast: bool,
}

/// The action of a step.
enum Action {
    /// A check of this program.
    House(fn(&House) -> Result<Report, String>),
    /// `cargo` with these words. `{fresh}` is replaced by a number that differs from run to run and is printed.
    Cargo(&'static [&'static str]),
    /// A program of the workspace, with these words; `{fresh}` likewise. The step before it has built it beside this one.
    Program(&'static str, &'static [&'static str]),
}

const UNIT_TESTS: &str = "unit tests";
/// Steps whose times are printed at the end.
const LONGEST: usize = 5;

/// The steps. Tests, simulator, fuzz, bench and the default run share the profile of the tests, which checks assertions and arithmetic:
/// the workspace is built once, and as a whole: a package that is built by itself has other features, and builds its dependencies again.
const STEPS: &[Step] = &[
    Step { name: "layout", action: Action::Cargo(&["fmt", "--all", "--check"]), needs: "", fast: true },
    Step { name: "arrows", action: Action::House(arrows::run), needs: "", fast: true },
    Step { name: "tidy", action: Action::House(tidy_as_it_is), needs: "", fast: true },
    Step { name: "spec", action: Action::House(spec_quiet), needs: "", fast: true },
    Step { name: "breaks, where they stand", action: Action::House(planted::check), needs: "", fast: true },
    Step {
        name: "clippy",
        action: Action::Cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
        needs: "",
        fast: true,
    },
    Step {
        name: UNIT_TESTS,
        action: Action::Cargo(&["test", "--workspace", "--lib", "--quiet"]),
        needs: "",
        fast: true,
    },
    Step { name: "tests", action: Action::Cargo(&["test", "--workspace", "--quiet"]), needs: "", fast: false },
    Step {
        name: "C interface, the flavour of the Linux subsystem",
        // Of the whole workspace, so that everything else is what the step before has built.
        action: Action::Cargo(&[
            "test",
            "--workspace",
            "--features",
            "openwddm-libopenwddm/wsl",
            "--test",
            "answers",
            "--test",
            "bad_arguments",
            "--test",
            "c_programs",
            "--test",
            "drivers",
            "--test",
            "symbols",
            "--test",
            "header",
            "--quiet",
        ]),
        needs: "",
        fast: false,
    },
    Step {
        name: "programs",
        // With all targets, for without tests the dependencies would have fewer features and be built again.
        action: Action::Cargo(&["build", "--workspace", "--all-targets", "--quiet"]),
        needs: "",
        fast: false,
    },
    Step {
        name: "simulator, fresh seeds",
        // Each kind of world at least twice.
        action: Action::Program("openwddm-sim", &["--seed", "{fresh}", "--count", "26"]),
        needs: "verify/sim/src/main.rs",
        fast: false,
    },
    Step {
        name: "fuzz, smoke",
        action: Action::Program("openwddm-fuzz", &["--seed", "{fresh}", "--calls", "12000"]),
        needs: "verify/fuzz/src/main.rs",
        fast: false,
    },
    Step {
        name: "bench, smoke",
        action: Action::Program("openwddm", &["bench", "--smoke"]),
        needs: "verify/bench/src/suite.rs",
        fast: false,
    },
    Step {
        name: "instructions of the hottest calls",
        action: Action::House(|house| instructions::run(house, false)),
        needs: "docs/verification/instructions.toml",
        fast: false,
    },
    Step {
        name: "default run",
        action: Action::Program("openwddm", &["run", "examples/gpt.cpu.rrs.json.gz", "--verify"]),
        needs: "tools/openwddm/src/run.rs",
        fast: false,
    },
    Step {
        name: "template of a miniport",
        action: Action::House(template::run),
        needs: "examples/own_miniport/Cargo.toml",
        fast: false,
    },
    Step { name: "Python package", action: Action::House(python::run), needs: "python/Cargo.toml", fast: false },
];

/// The first world of the simulator and of the fuzzer that has a bystander.
const FRESH_FROM: u64 = 10_000_000_000;

fn tidy_as_it_is(house: &House) -> Result<Report, String> {
    tidy::run(house, tidy::Options::Check)
}

fn spec_quiet(house: &House) -> Result<Report, String> {
    spec::run(house, spec::Options { strict: false, quiet: true })
}

/// Runs the steps, with `fast` those of the inner loop; whether all passed.
pub fn run(house: &House, fast: bool) -> bool {
    let fresh = FRESH_FROM + SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    // The whole run has the unit tests among its tests.
    let steps: Vec<&Step> =
        STEPS.iter().filter(|step| if fast { step.fast } else { step.name != UNIT_TESTS }).collect();
    let tally = run_all(&steps, |needed| house.has(needed), |action| perform(action, house, fresh));
    print!("{}", tally.longest());
    println!("{}", tally.last_line());
    tally.failed == 0
}

/// How the steps ended.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    failed: usize,
    took: Vec<(&'static str, Duration)>,
}

impl Tally {
    /// The steps that took longest, one to a line.
    fn longest(&self) -> String {
        let mut took = self.took.clone();
        took.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        let line = |(name, took): &(&str, Duration)| format!("{:>8.1} s  {name}\n", took.as_secs_f64());
        took.iter().take(LONGEST).map(line).collect()
    }

    fn last_line(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

fn run_all(steps: &[&Step], exists: impl Fn(&str) -> bool, perform: impl Fn(&Action) -> Result<bool, String>) -> Tally {
    let mut tally = Tally::default();
    for step in steps {
        if !step.needs.is_empty() && !exists(step.needs) {
            println!("== {}: left out, there is no {}", step.name, step.needs);
            continue;
        }
        println!("== {}", step.name);
        let start = Instant::now();
        let passed = perform(&step.action).unwrap_or_else(|reason| {
            println!("{reason}");
            false
        });
        let took = start.elapsed();
        tally.took.push((step.name, took));
        let how = if passed { "passed" } else { "FAILED" };
        println!("== {}: {how} after {:.1} s", step.name, took.as_secs_f64());
        if passed {
            tally.passed += 1;
        } else {
            tally.failed += 1;
            break;
        }
    }
    tally
}

fn perform(action: &Action, house: &House, fresh: u64) -> Result<bool, String> {
    let (program, words) = match action {
        Action::House(check) => return Ok(check(house)?.print()),
        Action::Cargo(words) => (std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), words),
        Action::Program(name, words) => (beside(name)?.into_os_string(), words),
    };
    let words: Vec<String> = words.iter().map(|word| word.replace("{fresh}", &fresh.to_string())).collect();
    let name = std::path::Path::new(&program).file_name().unwrap_or_default().display().to_string();
    println!("   {name} {}", words.join(" "));
    let status = Command::new(&program).args(&words).current_dir(house.root()).status();
    status.map(|status| status.success()).map_err(|error| format!("{name} could not be started: {error}"))
}

/// The program of this name where this one is.
fn beside(name: &str) -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| format!("this program does not find itself: {error}"))?;
    Ok(here.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &'static str, needs: &'static str) -> Step {
        Step { name, action: Action::Cargo(&["version"]), needs, fast: false }
    }

    #[test]
    fn the_first_failure_ends_the_run() {
        let asked = std::cell::Cell::new(0);
        let perform = |_: &Action| {
            asked.set(asked.get() + 1);
            match asked.get() {
                1 => Ok(true),
                2 => Ok(false),
                _ => Err("never reached".to_string()),
            }
        };
        let tally = run_all(&[&step("a", ""), &step("b", ""), &step("c", "")], |_| true, perform);
        assert_eq!(tally.last_line(), "1 passed, 1 failed");
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn an_error_is_a_failure_and_a_missing_file_is_neither() {
        let tally = run_all(&[&step("a", "gone"), &step("b", "")], |_| false, |_| Err("no cargo".to_string()));
        assert_eq!(tally.last_line(), "0 passed, 1 failed");
        let tally = run_all(&[&step("a", "gone"), &step("b", "")], |_| false, |_| Ok(true));
        assert_eq!(tally.last_line(), "1 passed, 0 failed");
    }

    #[test]
    fn the_longest_steps_are_named_first() {
        let took = [("a", 2), ("b", 70), ("c", 1), ("d", 9), ("e", 3), ("f", 4)];
        let took = took.map(|(name, seconds)| (name, Duration::from_secs(seconds))).to_vec();
        let text = Tally { took, ..Tally::default() }.longest();
        let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
        assert_eq!(names, ["b", "d", "f", "e", "a"]);
        assert!(text.starts_with("    70.0 s  b\n"), "{text}");
    }
}
