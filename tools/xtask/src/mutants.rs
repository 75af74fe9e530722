//! `cargo xtask mutants`: breaks the product in every small way that cargo-mutants knows, and counts the breaks that no test sees.
//!
//! Called by people and by a nightly job; `ci` does not call it, because a whole run takes hours. So a run can end
//! anywhere and go on later: the unit of work is one source file against one [`Stage`] of tests, and the ledger
//! (`docs/verification/mutants.toml`) has a line for each unit that is done, with the hash of the file's code that it is true
//! for. A file whose code changes is broken anew.
//!
//! A break meets the tests of its own crate first, and those of the crates above it if these saw nothing. Up to 1,500 breaks share
//! a build: each function chooses among its own body and broken copies when the tests run. cargo-mutants finds the breaks, and
//! builds the few anew that no function can choose. The breaks are made in a copy of the house below `target`: a run that is
//! killed leaves no broken file behind.
//!
//! - [`target`]: which crates, their goals, and the packages whose tests can see a break there
//! - [`ledger`]: the survivors, file by file, and the excused ones
//! - [`copy`]: the house that is broken
//! - [`listing`]: the breaks that cargo-mutants finds; [`task`]: those that a stage tries, in builds
//! - [`weave`]: many breaks in one text; [`build`]: the ones of them that compile; [`trial`]: the ones that a test sees
//! - [`page`]: the page `docs/verification/mutants.md`
//! - [`planted`]: `cargo xtask breaks`, which tries breaks of single rules with the tests that have to see them

mod build;
mod copy;
mod ledger;
mod listing;
mod page;
mod patience;
pub mod planted;
mod target;
mod task;
mod trial;
mod weave;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tree::House;
use build::Build;
use ledger::{Excuses, Ledger, Unit};
use listing::{Break, Listing};
use target::{Stage, TARGETS, Target};
use task::{Looks, Task, batches};
use trial::Trial;

/// Where the ledger, the excuses and the page are.
const LEDGER: &str = "docs/verification/mutants.toml";
const EXCUSES: &str = "docs/verification/excused.toml";
const PAGE: &str = "docs/verification/mutants.md";
/// What tests of the crate itself may take for one break in a build with others, and those of the crates above. Policy: the fastest
/// tests that run the broken function look, as many as fit.
const OWN_MAX: Duration = Duration::from_secs(60);
const ABOVE_MAX: Duration = Duration::from_secs(15);
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
    /// Which of the tests look.
    looks: Looks,
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
                "--again" => options.looks = Looks::Again,
                "--above" => options.looks = Looks::AboveAlone,
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

    /// Whether tests of this stage look at all.
    fn has(&self, stage: Stage) -> bool {
        !self.page && (stage == Stage::Above || self.looks != Looks::AboveAlone)
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
    for stage in [Stage::Own, Stage::Above].into_iter().filter(|stage| options.has(*stage)) {
        let mut tasks = Vec::new();
        for target in options.targets() {
            let files = found[target.name].iter().enumerate().filter(|(number, _)| options.is_ours(*number));
            for (_, (file, breaks)) in files {
                let hash = ledger::hash(&House::at(&tool.tree).read(file)?);
                let known = ledger.of(file).filter(|unit| unit.hash == hash).cloned();
                tasks.extend(Task::of((target, stage), file, breaks, (hash, known), (&excuses, options.looks)));
            }
        }
        for batch in batches(stage, tasks) {
            tool.work(stage, &batch, until, &mut |unit| {
                ledger.enter(unit);
                house.write(LEDGER, &ledger.to_string())
            })?;
        }
    }
    let page = page::Page::new(house, &found, &ledger, &excuses)?;
    house.write(PAGE, &page.to_string())?;
    print!("{}", page.table());
    Ok(page.meets_goals())
}

/// The copy of the house, the builds of it, and cargo-mutants.
struct Tool {
    tree: PathBuf,
    /// Of cargo-mutants, which builds each break anew.
    build: PathBuf,
    /// Of builds with many breaks.
    woven: PathBuf,
    output: PathBuf,
}

impl Tool {
    fn new(house: &House) -> Result<Tool, String> {
        let room = house.root().join("target/mutants");
        let path = |name: &str| room.join(name);
        let tool = Tool { tree: path("tree"), build: path("build"), woven: path("woven"), output: path("output") };
        std::fs::create_dir_all(&tool.output).map_err(|error| format!("{}: {error}", tool.output.display()))?;
        copy::mirror(house, &tool.tree)?;
        Ok(tool)
    }

    /// The breaks of a crate by file.
    fn list(&self, target: &Target) -> Result<Listing, String> {
        let mut command = self.command(target);
        command.args(["--list", "--json"]);
        target.files.iter().for_each(|file| {
            command.args(["--file", file]);
        });
        let output = command.output().map_err(|error| format!("cargo mutants could not be started: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cargo mutants --list failed; `cargo install cargo-mutants` installs it: {said}"));
        }
        listing::parse(&String::from_utf8_lossy(&output.stdout))
    }

    /// Tries the breaks of some files, in one build as far as that goes, and enters each file when it is done. No file begins after
    /// `until`.
    fn work(
        &self,
        stage: Stage,
        batch: &[Task],
        until: Option<Instant>,
        enter: &mut dyn FnMut(Unit) -> Result<(), String>,
    ) -> Result<(), String> {
        let is_over = || until.is_some_and(|until| Instant::now() >= until);
        if is_over() {
            return Ok(());
        }
        let breaks: Vec<Break> = batch.iter().flat_map(|task| task.tried.clone()).collect();
        let rooms: BTreeSet<(&str, String)> = batch
            .iter()
            .filter_map(|task| Some((task.target, task.room()?)))
            .map(|(target, room)| (target.package, format!("{room}/src/lib.rs")))
            .collect();
        let packages: BTreeSet<&str> = batch.iter().flat_map(|task| stage.packages(task.target)).copied().collect();
        let (crates, packages) = (Vec::from_iter(rooms), Vec::from_iter(packages));
        let of = crates.iter().map(|(package, _)| *package).collect::<Vec<_>>().join(", ");
        println!("== {of}: {} breaks in {} files, tests of {}", breaks.len(), batch.len(), packages.join(", "));
        let build = Build::of((&self.tree, &self.woven), &crates, &breaks)?;
        println!("   {} do not compile, {} stand apart", build.unviable.len(), build.apart.len());
        let programs = build.programs(&packages)?;
        let trial = Trial::new(programs, &self.output, if stage == Stage::Own { OWN_MAX } else { ABOVE_MAX })?;
        let mut outcomes = Vec::new();
        for task in batch.iter().take_while(|_| !is_over()) {
            let of_file = || build.woven().filter(|(_, one)| one.file == task.file);
            let numbers: Vec<(u32, u32)> = of_file().map(|(number, _)| (number, build.function_of(number))).collect();
            let survivors = trial.survivors(&numbers);
            let names = of_file().filter(|(number, _)| survivors.contains(number)).map(|(_, one)| one.key());
            let name = |number: &u32| breaks[*number as usize - 1].key();
            let is_of_file = |number: &&u32| breaks[**number as usize - 1].file == task.file;
            let unviable = build.unviable.iter().filter(is_of_file).count();
            let apart: Vec<String> = build.apart.iter().filter(is_of_file).map(name).collect();
            println!("   {}: {} tried, {} survived, {} apart", task.file, numbers.len(), survivors.len(), apart.len());
            if apart.is_empty() {
                enter(task.unit(stage, names.collect(), unviable))?;
            } else {
                outcomes.push((task, names.collect::<Vec<_>>(), unviable, apart));
            }
        }
        // cargo-mutants breaks the copy itself, and needs it whole.
        drop(build);
        for (task, mut survivors, unviable, apart) in outcomes.into_iter().take_while(|_| !is_over()) {
            let outcome = self.apart(task.target, stage, &task.file, &apart)?;
            survivors.extend(outcome.survivors);
            enter(task.unit(stage, survivors, unviable + outcome.unviable))?;
        }
        Ok(())
    }

    /// Tries breaks of one file with a build for each.
    fn apart(&self, target: &Target, stage: Stage, file: &str, names: &[String]) -> Result<Outcome, String> {
        let mut command = self.command(target);
        command.args(["--file", file, "--test-package", &stage.packages(target).join(",")]);
        match stage {
            Stage::Own => command.args(["--minimum-test-timeout", OWN_TIMEOUT_MIN]),
            Stage::Above => command.args(["--baseline", "skip", "--timeout", FAR_TIMEOUT]),
        };
        names.iter().for_each(|name| {
            command.args(["--re", &ledger::pattern(name)]);
        });
        command.args(["--in-place", "--colors", "never", "--no-times", "--annotations", "none", "--output"]);
        let status = command.arg(&self.output).status();
        let status = status.map_err(|error| format!("cargo mutants could not be started: {error}"))?;
        // 0: all killed; 2: some survived; 3: some took too long.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            return Err(format!("{file}: cargo mutants ended with {status}; do the tests pass without a break?"));
        }
        Outcome::read(&self.output.join("mutants.out"))
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
        // All others are seen: a test that never ends is a test that does not pass.
        Ok(Outcome { unviable: lines("unviable.txt")?.len(), survivors: lines("missed.txt")? })
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
        assert_eq!((options.within, options.looks), (Some(Duration::from_secs(300)), Looks::Again));
        assert!(options.has(Stage::Own) && !parse("--above").expect("options").has(Stage::Own));
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
        for (name, text) in
            [("unviable.txt", "a.rs:5:6: replace h\n"), ("missed.txt", "a.rs:7:8: replace + with - in i\n")]
        {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let outcome = Outcome::read(folder.path()).expect("an outcome");
        assert_eq!(outcome.unviable, 1);
        assert_eq!(outcome.survivors, ["a.rs: replace + with - in i"]);
    }
}
