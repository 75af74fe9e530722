//! `cargo xtask mutants`: breaks the product in every small way that cargo-mutants knows, and counts the breaks that no test sees.
//!
//! Called by people and by a nightly job; `ci` does not call it, because a whole run takes days of one machine. So a run can
//! end anywhere and go on later: the unit of work is one source file against one [`Stage`] of tests, and the ledger
//! (`docs/verification/mutants.toml`) has a line for each unit that is done, with the hash of the file that it is true for. A
//! file that changes is broken anew.
//!
//! A break meets the tests of its own crate first, which take seconds, and those of the crates above it if these saw nothing.
//! The breaks are made in a copy of the house below `target`: a run that is killed leaves no broken file behind.
//!
//! - [`target`]: which crates, their goals, and the packages whose tests can see a break there
//! - [`ledger`]: the survivors, file by file, and the excused ones
//! - [`copy`]: the house that is broken
//! - [`page`]: the page `docs/verification/mutants.md`

mod copy;
mod ledger;
mod page;
mod target;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tree::House;
use ledger::{Excuses, Ledger, Unit};
use target::{Stage, TARGETS, Target};

/// Where the ledger, the excuses and the page are.
const LEDGER: &str = "docs/verification/mutants.toml";
const EXCUSES: &str = "docs/verification/excused.toml";
const PAGE: &str = "docs/verification/mutants.md";
/// The least that the tests of a crate itself may take for one break, in seconds; five times what they take, if that is more.
const OWN_TIMEOUT_MIN: &str = "10";
/// The longest that the tests of the crates above may take for one break, in seconds. Policy: three times what they take.
const FAR_TIMEOUT: &str = "600";

/// The command's options.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// The crates; all, when none is named.
    crates: Vec<String>,
    /// This machine's part of the files: `K` of `N`, from 1.
    shard: Option<(usize, usize)>,
    /// No file begins after so long.
    within: Option<Duration>,
    /// Survivors meet the tests of their own crate again, which may have become more.
    again: bool,
    /// Nothing is broken; the page alone is written.
    page: bool,
}

impl Options {
    fn parse(words: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--page" => options.page = true,
                "--again" => options.again = true,
                "--shard" => options.shard = Some(shard(words.next().map_or("", String::as_str))?),
                "--minutes" => {
                    let minutes = words.next().and_then(|minutes| minutes.parse::<u64>().ok());
                    let minutes = minutes.ok_or("mutants: --minutes takes a number of minutes")?;
                    options.within = Some(Duration::from_secs(minutes * 60));
                }
                name if TARGETS.iter().any(|target| target.name == name) => options.crates.push(name.to_string()),
                name => {
                    let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
                    return Err(format!("mutants: {name} is neither an option nor one of {}", known.join(", ")));
                }
            }
        }
        Ok(options)
    }

    fn targets(&self) -> impl Iterator<Item = &'static Target> {
        TARGETS.iter().filter(|target| self.crates.is_empty() || self.crates.iter().any(|name| name == target.name))
    }

    /// Whether the file with this number is this machine's.
    fn is_ours(&self, number: usize) -> bool {
        self.shard.is_none_or(|(part, of)| number % of == part - 1)
    }
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parsed = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    let valid = parsed.filter(|&(part, of): &(usize, usize)| part >= 1 && part <= of);
    valid.ok_or_else(|| format!("mutants: --shard takes K/N with 1 <= K <= N, not `{text}`"))
}

/// Runs what is not done yet of the chosen crates, and writes ledger and page; whether no crate that is done misses its goal.
pub fn run(house: &House, words: &[String]) -> Result<bool, String> {
    let options = Options::parse(words)?;
    let until = options.within.map(|within| Instant::now() + within);
    let mut ledger = Ledger::parse(&house.read(LEDGER).unwrap_or_default())?;
    let excuses = Excuses::parse(&house.read(EXCUSES).unwrap_or_default())?;
    let tool = Tool::new(house)?;
    let mut found = BTreeMap::new();
    for target in TARGETS {
        found.insert(target.name, tool.list(target)?);
    }
    if !options.page {
        for stage in [Stage::Own, Stage::Above] {
            for target in options.targets() {
                let files = found[target.name].keys().enumerate().filter(|(number, _)| options.is_ours(*number));
                for (_, file) in files {
                    if until.is_some_and(|until| Instant::now() >= until) {
                        break;
                    }
                    let known = ledger.of(file);
                    // An excused break is tried by the tests of its own crate and no others.
                    let is_excused = |unit: &Unit| excuses.split(&unit.survivors).1.is_empty();
                    if stage == Stage::Above && known.is_some_and(is_excused) {
                        continue;
                    }
                    if let Some(unit) = tool.work(&ledger, target, stage, file, options.again)? {
                        ledger.enter(unit);
                        house.write(LEDGER, &ledger.to_string())?;
                    }
                }
            }
        }
    }
    let page = page::Page::new(house, &found, &ledger, &excuses)?;
    house.write(PAGE, &page.to_string())?;
    print!("{}", page.table());
    Ok(page.meets_goals())
}

/// cargo-mutants in the copy of the house.
struct Tool {
    tree: PathBuf,
    build: PathBuf,
    output: PathBuf,
}

impl Tool {
    fn new(house: &House) -> Result<Tool, String> {
        let room = house.root().join("target/mutants");
        let tool = Tool { tree: room.join("tree"), build: room.join("build"), output: room.join("output") };
        std::fs::create_dir_all(&tool.output).map_err(|error| format!("{}: {error}", tool.output.display()))?;
        copy::mirror(house, &tool.tree)?;
        Ok(tool)
    }

    /// The breaks of a crate by file, each by its name.
    fn list(&self, target: &Target) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut command = self.command(target);
        command.arg("--list");
        target.files.iter().for_each(|file| {
            command.args(["--file", file]);
        });
        let output = command.output().map_err(|error| format!("cargo mutants could not be started: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cargo mutants --list failed; `cargo install cargo-mutants` installs it: {said}"));
        }
        let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in String::from_utf8_lossy(&output.stdout).lines() {
            let file = name.split(':').next().unwrap_or(name);
            files.entry(file.to_string()).or_default().push(ledger::key(name));
        }
        Ok(files)
    }

    /// Breaks one file in all ways that this stage has to look at. `None`: it has looked at this very file already.
    fn work(
        &self,
        ledger: &Ledger,
        target: &Target,
        stage: Stage,
        file: &str,
        again: bool,
    ) -> Result<Option<Unit>, String> {
        // Of the copy: the house may change while its copy is broken.
        let hash = ledger::hash(&House::at(&self.tree).read(file)?);
        let known = ledger.of(file).filter(|unit| unit.hash == hash);
        let mut command = self.command(target);
        match (stage, known) {
            (Stage::Own, None) => {
                command.args(["--file", file, "--test-package", &target.own.join(",")]);
                command.args(["--minimum-test-timeout", OWN_TIMEOUT_MIN]);
            }
            (Stage::Own, Some(unit)) if again && !unit.survivors.is_empty() => {
                command.args(["--file", file, "--test-package", &target.own.join(",")]);
                command.args(["--minimum-test-timeout", OWN_TIMEOUT_MIN]);
            }
            (Stage::Above, Some(unit)) if unit.stage == Stage::Own && !unit.survivors.is_empty() => {
                command.args(["--file", file, "--test-package", &target.above.join(",")]);
                command.args(["--baseline", "skip", "--timeout", FAR_TIMEOUT]);
            }
            _ => return Ok(None),
        }
        known.iter().flat_map(|unit| &unit.survivors).for_each(|survivor| {
            command.args(["--re", &ledger::pattern(survivor)]);
        });
        println!("== {file}: tests of {}", stage.packages(target).join(", "));
        command.args(["--in-place", "--colors", "never", "--no-times", "--annotations", "none", "--output"]);
        let status = command.arg(&self.output).status();
        let status = status.map_err(|error| format!("cargo mutants could not be started: {error}"))?;
        // 0: all killed; 2: some survived; 3: some took too long.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            return Err(format!("{file}: cargo mutants ended with {status}; do the tests pass without a break?"));
        }
        let found = Outcome::read(&self.output.join("mutants.out"))?;
        let before = known.map_or((0, 0), |unit| (unit.killed, unit.unviable));
        Ok(Some(Unit {
            file: file.to_string(),
            hash,
            stage: known.map_or(stage, |unit| unit.stage.max(stage)),
            killed: before.0 + found.killed,
            unviable: before.1 + found.unviable,
            survivors: found.survivors,
        }))
    }

    fn command(&self, target: &Target) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["mutants", "--profile", "mutants", "--package", target.package]);
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.build);
        command
    }
}

/// The result of one run of cargo-mutants.
struct Outcome {
    killed: usize,
    unviable: usize,
    survivors: Vec<String>,
}

impl Outcome {
    fn read(folder: &Path) -> Result<Outcome, String> {
        let lines = |name: &str| {
            let path = folder.join(name);
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, String>(text.lines().map(ledger::key).collect::<Vec<_>>())
        };
        // A test that never ends is a test that does not pass.
        let killed = lines("caught.txt")?.len() + lines("timeout.txt")?.len();
        Ok(Outcome { killed, unviable: lines("unviable.txt")?.len(), survivors: lines("missed.txt")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(&text.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options_say_which_files_and_how_long() {
        let options = parse("vidsch gpu_fence --shard 2/3 --minutes 5 --again").expect("options");
        let names: Vec<&str> = options.targets().map(|target| target.name).collect();
        assert_eq!(names, ["gpu_fence", "vidsch"]);
        assert_eq!((0..7).filter(|number| options.is_ours(*number)).collect::<Vec<_>>(), [1, 4]);
        assert_eq!((options.within, options.again), (Some(Duration::from_secs(300)), true));
        assert_eq!(parse("").expect("none").targets().count(), TARGETS.len());
    }

    #[test]
    fn wrong_options_are_named() {
        for (words, named) in [
            ("nothing", "nothing is neither"),
            ("--shard 0/3", "not `0/3`"),
            ("--shard 4/3", "not `4/3`"),
            ("--shard", "not ``"),
            ("--minutes soon", "--minutes takes"),
        ] {
            let refused = parse(words).expect_err(words);
            assert!(refused.contains(named), "{words}: {refused}");
        }
    }

    #[test]
    fn a_break_that_hangs_its_tests_is_killed() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            ("caught.txt", "a.rs:1:2: replace f\na.rs:3:4: replace g\n"),
            ("timeout.txt", "a.rs:5:6: replace h\n"),
            ("unviable.txt", ""),
            ("missed.txt", "a.rs:7:8: replace + with - in i\n"),
        ] {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let outcome = Outcome::read(folder.path()).expect("an outcome");
        assert_eq!((outcome.killed, outcome.unviable), (3, 0));
        assert_eq!(outcome.survivors, ["a.rs: replace + with - in i"]);
    }
}
