//! Everything that must hold before a change is taken, in order, stopping at the first failure.
//!
//! The steps are a table ([`STEPS`]); whoever adds one edits that table and nothing else. Each step prints its name and
//! its seconds. The last line is `N passed, M failed`, counted in steps; a step whose file is not there is named as left
//! out and counts as neither.

use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::report::Report;
use crate::tree::House;
use crate::{arrows, spec, tidy};

/// One step.
struct Step {
    name: &'static str,
    action: Action,
    /// The step is left out while this file does not exist. Empty: always run.
    needs: &'static str,
}

/// What a step does.
enum Action {
    /// A check of this program.
    House(fn(&House) -> Result<Report, String>),
    /// `cargo` with these words. `{fresh}` is replaced by a number that differs from run to run and is printed.
    Cargo(&'static [&'static str]),
}

const STEPS: &[Step] = &[
    Step { name: "layout", action: Action::Cargo(&["fmt", "--all", "--check"]), needs: "" },
    Step { name: "arrows", action: Action::House(arrows::run), needs: "" },
    Step { name: "tidy", action: Action::House(tidy_as_it_is), needs: "" },
    Step { name: "spec", action: Action::House(spec_quiet), needs: "" },
    Step {
        name: "clippy",
        action: Action::Cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
        needs: "",
    },
    Step { name: "tests", action: Action::Cargo(&["test", "--workspace", "--quiet"]), needs: "" },
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
    },
    Step {
        name: "simulator, fresh seeds",
        action: Action::Cargo(&[
            "run",
            "--release",
            "--quiet",
            "-p",
            "openwddm-sim",
            "--",
            "--seed",
            "{fresh}",
            "--count",
            // Each kind of world at least twice.
            "26",
        ]),
        needs: "verify/sim/src/main.rs",
    },
    Step {
        name: "fuzz, smoke",
        action: Action::Cargo(&[
            "run",
            "--release",
            "--quiet",
            "-p",
            "openwddm-fuzz",
            "--",
            "--seed",
            "{fresh}",
            "--calls",
            "12000",
        ]),
        needs: "verify/fuzz/src/main.rs",
    },
    Step {
        name: "bench, smoke",
        action: Action::Cargo(&["run", "--release", "--quiet", "-p", "openwddm", "--", "bench", "--smoke"]),
        needs: "verify/bench/src/suite.rs",
    },
    Step {
        name: "default run",
        action: Action::Cargo(&[
            "run",
            "--release",
            "--quiet",
            "-p",
            "openwddm",
            "--",
            "run",
            "examples/gpt.cpu.rrs.json.gz",
            "--verify",
        ]),
        needs: "tools/openwddm/src/run.rs",
    },
];

fn tidy_as_it_is(house: &House) -> Result<Report, String> {
    tidy::run(house, tidy::Options::Check)
}

fn spec_quiet(house: &House) -> Result<Report, String> {
    spec::run(house, spec::Options { strict: false, quiet: true })
}

/// Runs the steps; whether all passed.
pub fn run(house: &House) -> bool {
    let fresh = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let tally = run_all(STEPS, |needed| house.has(needed), |action| perform(action, house, fresh));
    println!("{}", tally.last_line());
    tally.failed == 0
}

/// How the steps ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    fn last_line(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

fn run_all(steps: &[Step], exists: impl Fn(&str) -> bool, perform: impl Fn(&Action) -> Result<bool, String>) -> Tally {
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
        println!(
            "== {}: {} after {:.1} s",
            step.name,
            if passed { "passed" } else { "FAILED" },
            start.elapsed().as_secs_f64()
        );
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
    match action {
        Action::House(check) => Ok(check(house)?.print()),
        Action::Cargo(words) => {
            let words: Vec<String> = words.iter().map(|word| word.replace("{fresh}", &fresh.to_string())).collect();
            println!("   cargo {}", words.join(" "));
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let status = Command::new(cargo).args(&words).current_dir(house.root()).status();
            status.map(|status| status.success()).map_err(|error| format!("cargo could not be started: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &'static str, needs: &'static str) -> Step {
        Step { name, action: Action::Cargo(&["version"]), needs }
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
        let tally = run_all(&[step("a", ""), step("b", ""), step("c", "")], |_| true, perform);
        assert_eq!(tally.last_line(), "1 passed, 1 failed");
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn an_error_is_a_failure_and_a_missing_file_is_neither() {
        let tally = run_all(&[step("a", "gone"), step("b", "")], |_| false, |_| Err("no cargo".to_string()));
        assert_eq!(tally.last_line(), "0 passed, 1 failed");
        let tally = run_all(&[step("a", "gone"), step("b", "")], |_| false, |_| Ok(true));
        assert_eq!(tally.last_line(), "1 passed, 0 failed");
    }
}
