//! The copy of the house with many breaks in it ([`weave`]), and what its compiler says: a break that does not compile is taken out,
//! until the rest compiles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::listing::Break;
use super::weave::{self, Woven};
use crate::tree::House;

/// Rounds of the compiler after which something else is wrong: each takes out what a phase of the compiler refuses.
const ROUNDS_MAX: usize = 40;
/// Errors about the form of the woven text, and not about the break: such a break gets a build of its own.
const OF_FORM: [&str; 5] = ["E0015", "E0225", "E0658", "E0716", "E0746"];

/// Breaks of some crates in one build, by their numbers from 1.
pub struct Build<'a> {
    tree: &'a Path,
    target: &'a Path,
    breaks: &'a [Break],
    /// The texts of the copy without breaks.
    originals: BTreeMap<String, String>,
    files: BTreeMap<&'a str, Woven>,
    /// Breaks that do not compile.
    pub unviable: BTreeSet<u32>,
    /// Breaks that need a build of their own.
    pub apart: BTreeSet<u32>,
}

/// A program with tests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The folder of its package, in which `cargo test` runs it.
    pub folder: PathBuf,
}

impl<'a> Build<'a> {
    /// Writes the breaks into the copy, and takes out what does not compile. `crates`: the package of each crate and its `lib.rs`, below
    /// the root.
    pub fn of(
        (tree, target): (&'a Path, &'a Path),
        crates: &[(&str, String)],
        breaks: &'a [Break],
    ) -> Result<Build<'a>, String> {
        let house = House::at(tree);
        let sources: BTreeSet<&str> = breaks.iter().map(|one| one.file.as_str()).collect();
        let libraries: BTreeSet<&str> = crates.iter().map(|(_, library)| library.as_str()).collect();
        let mut originals = BTreeMap::new();
        for file in sources.union(&libraries).copied() {
            originals.insert(file.to_string(), house.read(file)?);
        }
        let (unviable, apart, files) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        let mut build = Build { tree, target, breaks, originals, files, unviable, apart };
        for _ in 0..ROUNDS_MAX {
            for file in sources.iter().copied() {
                build.write(&house, file, libraries.contains(file).then_some(breaks.len()))?;
            }
            for library in libraries.difference(&sources).copied() {
                house.write(library, &format!("{}{}", build.originals[library], switch(breaks.len())))?;
            }
            let errors = build.errors(crates)?;
            if errors.is_empty() {
                return Ok(build);
            }
            build.take_out(&errors)?;
        }
        Err(format!("{} does not compile after {ROUNDS_MAX} rounds; does it without a break?", crates[0].0))
    }

    /// The breaks in the build.
    pub fn woven(&self) -> impl Iterator<Item = (u32, &'a Break)> + '_ {
        let out = |number: &u32| self.unviable.contains(number) || self.apart.contains(number);
        (1..).zip(self.breaks).filter(move |(number, _)| !out(number))
    }

    /// The first number of the breaks of a break's function: what tells that the function has run.
    pub fn function_of(&self, number: u32) -> u32 {
        let functions = self.files[self.breaks[number as usize - 1].file.as_str()].functions.iter();
        let numbers = functions.map(|(_, numbers)| numbers).find(|numbers| numbers.contains(&number));
        numbers.and_then(|numbers| numbers.iter().min().copied()).unwrap_or(number)
    }

    fn write(&mut self, house: &House, file: &'a str, switch_of: Option<usize>) -> Result<(), String> {
        let numbered: Vec<(u32, &Break)> = self.woven().filter(|(_, one)| one.file == file).collect();
        let woven = weave::weave(&self.originals[file], &numbered);
        self.apart.extend(&woven.apart);
        house.write(file, &format!("{}{}", woven.text, switch_of.map(switch).unwrap_or_default()))?;
        self.files.insert(file, woven);
        Ok(())
    }

    fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(self.tree).env("CARGO_TARGET_DIR", self.target);
        // A lint is no reason for a break not to be tried.
        command.env("RUSTFLAGS", "--cap-lints=warn").env("CARGO_TERM_COLOR", "never");
        command
    }

    fn errors(&self, crates: &[(&str, String)]) -> Result<Vec<Diagnostic>, String> {
        let mut command = self.cargo();
        command.args(["check", "--profile", "mutants", "--message-format=json", "--lib"]);
        crates.iter().for_each(|(package, _)| {
            command.args(["--package", package]);
        });
        let (messages, succeeded) = messages(&mut command)?;
        let errors: Vec<Diagnostic> = messages
            .into_iter()
            .filter_map(|message| message.message)
            .filter(|said| said.level == "error" && !said.spans.is_empty())
            .collect();
        match (succeeded, errors.is_empty()) {
            (false, true) => Err(format!("{}: cargo check fails and names no place", crates[0].0)),
            _ => Ok(errors),
        }
    }

    /// Takes out the breaks that these errors stand in; or, for an error in none, all of the function around it.
    fn take_out(&mut self, errors: &[Diagnostic]) -> Result<(), String> {
        let before = self.unviable.len() + self.apart.len();
        for error in errors {
            let of_form = error.code.as_ref().is_some_and(|code| OF_FORM.contains(&code.code.as_str()));
            let primary = error.spans.iter().filter(|span| span.is_primary);
            let others = error.spans.iter().filter(|span| !span.is_primary);
            let at = |span: &ErrorSpan| {
                let woven = self.files.get(span.file_name.as_str())?;
                let region = woven.regions.iter().find(|(lines, _)| lines.contains(&span.line_start))?;
                Some(region.1)
            };
            if let Some(number) = primary.clone().chain(others).find_map(at) {
                if of_form {
                    self.apart.insert(number)
                } else {
                    self.unviable.insert(number)
                };
                continue;
            }
            let around = |span: &ErrorSpan| {
                let functions = &self.files.get(span.file_name.as_str())?.functions;
                let inner =
                    functions.iter().filter(|(lines, _)| lines.contains(&span.line_start)).min_by_key(|f| f.0.len());
                Some(inner?.1.clone())
            };
            if let Some(numbers) = primary.clone().find_map(around) {
                self.apart.extend(numbers);
            }
        }
        match self.unviable.len() + self.apart.len() > before {
            true => Ok(()),
            false => Err(format!("an error of the compiler stands in no break: {}", errors[0].message)),
        }
    }

    /// Builds the tests of packages.
    pub fn programs(&self, packages: &[&str]) -> Result<Vec<Program>, String> {
        let mut command = self.cargo();
        command.args(["test", "--no-run", "--profile", "mutants", "--message-format=json"]);
        packages.iter().for_each(|package| {
            command.args(["--package", package]);
        });
        let (messages, succeeded) = messages(&mut command)?;
        if !succeeded {
            let error = messages.into_iter().filter_map(|message| message.message).find(|said| said.level == "error");
            let said = error.map_or_else(String::new, |error| error.message);
            return Err(format!("the tests of {} do not compile: {said}", packages.join(", ")));
        }
        let program = |message: Message| {
            let is_test = message.profile.is_some_and(|profile| profile.test);
            let folder = message.manifest_path?.parent()?.to_path_buf();
            message.executable.filter(|_| is_test).map(|path| Program { path, folder })
        };
        Ok(messages.into_iter().filter_map(program).collect::<BTreeSet<_>>().into_iter().collect())
    }
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        let house = House::at(self.tree);
        // A file that stays broken is mended when the copy is made the next time.
        self.originals.iter().for_each(|(file, text)| drop(house.write(file, text)));
    }
}

/// The module by which a function asks for its break: the environment names the one of this run, or a file that takes the functions
/// that run.
fn switch(breaks: usize) -> String {
    format!("\n{}", include_str!("switch.rs.txt").replace("BREAKS", &(breaks + 1).to_string()))
}

/// A line that cargo prints.
#[derive(Deserialize)]
struct Message {
    message: Option<Diagnostic>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Debug, Deserialize)]
struct Diagnostic {
    level: String,
    code: Option<Code>,
    spans: Vec<ErrorSpan>,
    message: String,
}

#[derive(Debug, Deserialize)]
struct Code {
    code: String,
}

#[derive(Debug, Deserialize)]
struct ErrorSpan {
    file_name: String,
    line_start: usize,
    is_primary: bool,
}

fn messages(command: &mut Command) -> Result<(Vec<Message>, bool), String> {
    let output = command.output().map_err(|error| format!("cargo could not be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok((text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(), output.status.success()))
}
