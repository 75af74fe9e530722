//! What was found, file by file: the ledger that a run goes on from, and the breaks that are excused.
//!
//! A break is named by its file, its function and what takes which place, without line and column: a function that moves
//! keeps its results' names.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::target::Stage;
use crate::rust_text;

/// What the tests of one stage, and of those before it, saw of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// Path below the root.
    pub file: String,
    /// Of its text.
    pub hash: String,
    /// The last stage that looked.
    pub stage: Stage,
    /// Breaks that some test saw.
    pub killed: usize,
    /// Breaks that do not compile.
    pub unviable: usize,
    /// Names of the breaks that no test saw; two in one function may have the same.
    pub survivors: Vec<String>,
}

/// All units, by file.
#[derive(Debug, Default)]
pub struct Ledger {
    units: BTreeMap<String, Unit>,
}

#[derive(Serialize, Deserialize, Default)]
struct Written {
    #[serde(default, rename = "file")]
    units: Vec<Unit>,
}

impl Ledger {
    /// Reads a ledger. Of two units of one file the later counts: ledgers of several machines are put together by joining their texts.
    pub fn parse(text: &str) -> Result<Ledger, String> {
        let written: Written = toml::from_str(text).map_err(|error| format!("the ledger of mutants: {error}"))?;
        let mut ledger = Ledger::default();
        written.units.into_iter().for_each(|unit| ledger.enter(unit));
        Ok(ledger)
    }

    /// Adds a unit in place of what was known of its file.
    pub fn enter(&mut self, unit: Unit) {
        self.units.insert(unit.file.clone(), unit);
    }

    /// What is known of a file.
    pub fn of(&self, file: &str) -> Option<&Unit> {
        self.units.get(file)
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = Written { units: self.units.values().cloned().collect() };
        let text = toml::to_string(&written).map_err(|_| fmt::Error)?;
        write!(f, "# Written by `cargo xtask mutants`; docs/verification/mutants.md says how to read it.\n\n{text}")
    }
}

/// Breaks that change nothing that a test could see, each with its reason.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excuses {
    /// All of them.
    #[serde(default)]
    pub excused: Vec<Excuse>,
}

/// One of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excuse {
    /// The break's name.
    pub mutant: String,
    /// How many of that name.
    #[serde(default = "one")]
    pub count: usize,
    /// Why no test can see it.
    pub reason: String,
}

fn one() -> usize {
    1
}

impl Excuses {
    /// Reads them.
    pub fn parse(text: &str) -> Result<Excuses, String> {
        let excuses: Excuses = toml::from_str(text).map_err(|error| format!("the excused mutants: {error}"))?;
        match excuses.excused.iter().find(|excuse| excuse.reason.trim().is_empty()) {
            Some(excuse) => Err(format!("the excused mutants: {} has no reason", excuse.mutant)),
            None => Ok(excuses),
        }
    }

    /// Splits survivors into those that are excused, with the reason, and the others.
    pub fn split<'a>(&'a self, survivors: &'a [String]) -> (Vec<(&'a str, &'a str)>, Vec<&'a str>) {
        let mut left: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        for excuse in &self.excused {
            left.insert(&excuse.mutant, (excuse.count, &excuse.reason));
        }
        let (mut excused, mut open) = (Vec::new(), Vec::new());
        for survivor in survivors {
            match left.get_mut(survivor.as_str()) {
                Some((count, reason)) if *count > 0 => {
                    *count -= 1;
                    excused.push((survivor.as_str(), *reason));
                }
                _ => open.push(survivor.as_str()),
            }
        }
        (excused, open)
    }
}

/// The name of a break: `a.rs:1:2: replace f` without line and column.
pub fn key(name: &str) -> String {
    let mut parts = name.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(_), Some(_), Some(what)) => format!("{file}:{what}"),
        _ => name.to_string(),
    }
}

/// The regular expression that finds a break by its name, wherever its line is.
pub fn pattern(key: &str) -> String {
    let (file, what) = key.split_once(':').unwrap_or((key, ""));
    format!("^{}:[0-9]+:[0-9]+:{}$", escaped(file), escaped(what))
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, c| {
        if !c.is_alphanumeric() && !" _/-,:;<>=&'\"!@%~`#".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}

/// A source's hash (FNV-1a), the same on every machine and with every compiler: of its code alone, for a break does not change
/// with a comment, a blank line or the words of a message.
pub fn hash(source: &str) -> String {
    let lines = rust_text::split(source);
    let code = lines.iter().map(|line| line.code.trim()).filter(|code| !code.is_empty());
    let bytes = code.flat_map(|line| line.bytes().chain([b'\n']));
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(file: &str, killed: usize, survivors: &[&str]) -> Unit {
        let survivors = survivors.iter().map(ToString::to_string).collect();
        Unit { file: file.into(), hash: hash(file), stage: Stage::Own, killed, unviable: 1, survivors }
    }

    #[test]
    fn a_ledger_is_read_as_it_was_written_and_the_later_of_two_counts() {
        let mut ledger = Ledger::default();
        ledger.enter(unit("b.rs", 1, &[]));
        ledger.enter(unit("a.rs", 2, &["a.rs: replace + with \"-\" in f"]));
        let text = ledger.to_string();
        let read = Ledger::parse(&text).expect("its own text");
        assert_eq!(read.units, ledger.units);
        let mut other = Ledger::default();
        other.enter(unit("b.rs", 7, &[]));
        let joined = Ledger::parse(&format!("{text}\n{other}")).expect("two texts");
        assert_eq!((joined.units.len(), joined.of("b.rs").map(|unit| unit.killed)), (2, Some(7)));
        assert!(Ledger::parse("[[file]]\nfile = 3\n").is_err());
    }

    #[test]
    fn an_excuse_covers_as_many_as_it_says() {
        let text = "[[excused]]\nmutant = \"a.rs: x\"\ncount = 2\nreason = \"both cut the same hint\"\n";
        let excuses = Excuses::parse(text).expect("excuses");
        let survivors: Vec<String> = ["a.rs: x", "a.rs: x", "a.rs: x", "a.rs: y"].map(str::to_string).to_vec();
        let (excused, open) = excuses.split(&survivors);
        assert_eq!((excused.len(), open), (2, vec!["a.rs: x", "a.rs: y"]));
        assert!(Excuses::parse("[[excused]]\nmutant = \"a\"\nreason = \" \"\n").is_err(), "no reason");
    }

    #[test]
    fn a_break_is_found_by_its_name_wherever_its_line_is() {
        assert_eq!(
            key("a/b.rs:12:34: replace F::g -> Vec<u8> with vec![0]"),
            "a/b.rs: replace F::g -> Vec<u8> with vec![0]"
        );
        let expected =
            "^a/b\\.rs:[0-9]+:[0-9]+: replace F::g -> Option<\\(\\)> with vec\\!\\[0\\]$".replace("\\!", "!");
        assert_eq!(pattern("a/b.rs: replace F::g -> Option<()> with vec![0]"), expected);
    }

    #[test]
    fn a_hash_is_of_code_alone() {
        let code = hash("fn f() {\n    g(\"x\");\n}\n");
        assert_eq!(code, hash("// Why.\nfn f() {\n\n  g(\"y\"); // because\n}"));
        assert_ne!(code, hash("fn f() {\n    h(\"x\");\n}\n"));
        assert_eq!(hash(""), "cbf29ce484222325", "FNV-1a of nothing, as its authors give it");
    }
}
