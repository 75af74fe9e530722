//! `cargo xtask breaks`: breaks of single rules that a person has planted once, each with the test that has to see it
//! (`docs/verification/breaks.toml`). A build holds all of them; each test passes without its break and fails with it.
//!
//! `ci` draws five; all of them take hours when the table has one for each acceptance row.

mod book;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Tool;
use super::build::{Build, Program};
use super::listing::Break;
use super::trial;
use crate::report::{Finding, Report};
use crate::tree::House;
use book::Planted;

/// The table of breaks.
pub const TABLE: &str = "docs/verification/breaks.toml";

/// The breaks that a run tries.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    All,
    Rows(BTreeSet<String>),
    /// So many, drawn by the clock.
    Draw(usize),
}

impl Choice {
    fn parse(words: &[String]) -> Result<Choice, String> {
        match words {
            [] => Ok(Choice::All),
            [draw, count] if draw == "--draw" => {
                count.parse().map(Choice::Draw).map_err(|_| format!("--draw takes a number of breaks, not `{count}`"))
            }
            rows => match rows.iter().find(|row| row.starts_with('-')) {
                Some(option) => Err(format!("breaks: unknown option {option}; give rows, or --draw N")),
                None => Ok(Choice::Rows(rows.iter().cloned().collect())),
            },
        }
    }

    fn of(&self, mut all: Vec<Planted>) -> Result<Vec<Planted>, String> {
        match self {
            Choice::All => Ok(all),
            Choice::Rows(rows) => {
                if let Some(row) = rows.iter().find(|row| all.iter().all(|planted| planted.row != **row)) {
                    return Err(format!("{TABLE} has no break of row {row}"));
                }
                all.retain(|planted| rows.contains(&planted.row));
                Ok(all)
            }
            Choice::Draw(count) => {
                let mut number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
                while all.len() > *count {
                    // The multiplier of Knuth's generator of 64 bits.
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // CAST: a position in a list.
                    all.swap_remove(((number >> 33) % all.len() as u64) as usize);
                }
                Ok(all)
            }
        }
    }
}

/// The rows that a table has breaks of.
pub fn rows(table: &str) -> Result<BTreeSet<String>, String> {
    Ok(book::parse(table)?.into_iter().map(|planted| planted.row).collect())
}

/// The breaks of the table that do not apply: their function or text has changed, or there is no such package. Nothing is built.
pub fn check(house: &House) -> Result<Report, String> {
    let all = book::parse(&house.read(TABLE)?)?;
    let manifests = house.files()?.into_iter().filter(|file| file.ends_with("Cargo.toml"));
    let folder = |file: String| house.root().join(file).parent().map(Path::to_path_buf);
    let packages: BTreeSet<String> = manifests.filter_map(folder).filter_map(|folder| package(&folder).ok()).collect();
    let faults = all.iter().filter_map(|planted| {
        let source = house.read(&planted.file);
        let place = source.and_then(|source| planted.place(&source)).map(drop);
        let named = || match packages.contains(&planted.package) {
            true => Ok(()),
            false => Err(format!("there is no package {}", planted.package)),
        };
        let reason = place.and_then(|()| named()).err()?;
        Some(Finding::new(TABLE, planted.line, format!("{}: {reason}", planted.row)))
    });
    let faults: Vec<Finding> = faults.collect();
    let rows: BTreeSet<&str> = all.iter().map(|planted| planted.row.as_str()).collect();
    let summary = format!("breaks: {} of {} rows, {} do not apply", all.len(), rows.len(), faults.len());
    Ok(Report { faults, summary, ..Report::default() })
}

/// Tries breaks; true: the test of each has seen it.
pub fn run(house: &House, words: &[String]) -> Result<bool, String> {
    let choice = Choice::parse(words)?;
    if !check(house)?.print() {
        return Ok(false);
    }
    let chosen = choice.of(book::parse(&house.read(TABLE)?)?)?;
    let tool = Tool::new(house)?;
    let breaks: Vec<Break> =
        chosen.iter().map(|planted| planted.place(&house.read(&planted.file)?)).collect::<Result<_, String>>()?;
    let rooms: BTreeSet<(String, String)> =
        chosen.iter().map(|planted| library(house, &planted.file)).collect::<Result<_, _>>()?;
    let crates: Vec<(&str, String)> = rooms.iter().map(|(package, file)| (package.as_str(), file.clone())).collect();
    let packages: BTreeSet<&str> = chosen.iter().map(|planted| planted.package.as_str()).collect();
    let packages = Vec::from_iter(packages);
    println!("== {} breaks, tests of {}", breaks.len(), packages.join(", "));
    let build = Build::of((&tool.tree, &tool.woven), &crates, &breaks)?;
    let programs = build.programs(&packages)?;
    let (mut seen, mut apart) = (0, Vec::new());
    for (number, planted) in (1..).zip(&chosen) {
        if build.unviable.contains(&number) {
            println!("{planted}: the break does not compile");
        } else if build.apart.contains(&number) {
            apart.push((number, planted));
        } else {
            seen += usize::from(says(planted, verdict(&programs, planted, Some(number))?));
        }
    }
    // The copy is whole again.
    drop(build);
    for (number, planted) in apart {
        seen += usize::from(says(planted, by_itself(&tool, house, planted, &breaks[number as usize - 1])?));
    }
    println!("breaks: the tests of {seen} of {} see them", chosen.len());
    Ok(seen == chosen.len())
}

/// How a test takes a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Sees,
    Misses,
    /// It fails on the product as it is.
    FailsAnyway,
    IsNotThere,
}

fn says(planted: &Planted, verdict: Verdict) -> bool {
    let text = match verdict {
        Verdict::Sees => "seen".to_string(),
        Verdict::Misses => format!("NOT SEEN: the test passes, and failed on {}", planted.seen),
        Verdict::FailsAnyway => "the test fails without the break, too".to_string(),
        Verdict::IsNotThere => format!("{} has no such test", planted.package),
    };
    println!("{planted}: {text}");
    verdict == Verdict::Sees
}

fn verdict(programs: &[Program], planted: &Planted, number: Option<u32>) -> Result<Verdict, String> {
    for program in programs.iter().filter(|program| package(&program.folder).is_ok_and(|name| name == planted.package))
    {
        if trial::names(program)?.contains(&planted.test) {
            return Ok(match (trial::fails(program, &planted.test, None), number) {
                (true, _) => Verdict::FailsAnyway,
                (false, Some(_)) if !trial::fails(program, &planted.test, number) => Verdict::Misses,
                _ => Verdict::Sees,
            });
        }
    }
    Ok(Verdict::IsNotThere)
}

/// A break that no function chooses has a build of its own.
fn by_itself(tool: &Tool, house: &House, planted: &Planted, one: &Break) -> Result<Verdict, String> {
    let (tree, source) = (House::at(&tool.tree), house.read(&planted.file)?);
    let (package, room) = library(house, &planted.file)?;
    let crates = [(package.as_str(), room)];
    let build = || Build::of((&tool.tree, &tool.woven), &crates, &[])?.programs(&[&planted.package]);
    let whole = verdict(&build()?, planted, None)?;
    if whole != Verdict::Sees {
        return Ok(whole);
    }
    tree.write(&planted.file, &one.applied(&source))?;
    let broken = build().and_then(|programs| verdict(&programs, planted, None));
    tree.write(&planted.file, &source)?;
    Ok(if broken? == Verdict::FailsAnyway { Verdict::Sees } else { Verdict::Misses })
}

/// The package of a source file, and its library.
fn library(house: &House, file: &str) -> Result<(String, String), String> {
    let (room, _) = file.split_once("/src/").ok_or(format!("{file} is no source of a package"))?;
    Ok((package(&house.root().join(room))?, format!("{room}/src/lib.rs")))
}

/// The name of the package in a folder.
fn package(folder: &Path) -> Result<String, String> {
    let path = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    name.map(str::to_string).ok_or(format!("{} names no package", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_or_a_number_of_breaks_are_chosen() {
        let parse = |words: &str| Choice::parse(&words.split_whitespace().map(str::to_string).collect::<Vec<_>>());
        assert_eq!(parse(""), Ok(Choice::All));
        assert_eq!(parse("N01 N02"), Ok(Choice::Rows(["N01", "N02"].map(str::to_string).into())));
        assert_eq!(parse("--draw 5"), Ok(Choice::Draw(5)));
        assert!(parse("--draw five").is_err_and(|why| why.contains("not `five`")));
        assert!(parse("--all").is_err_and(|why| why.contains("unknown option --all")));
        let all = || (0..9).map(|row| Planted::example(&format!("N0{row}"), "text")).collect::<Vec<_>>();
        let drawn = Choice::Draw(5).of(all()).expect("nine");
        let rows: BTreeSet<String> = drawn.into_iter().map(|planted| planted.row).collect();
        assert_eq!(rows.len(), 5, "each once");
        assert!(parse("N99").expect("a row").of(all()).is_err_and(|why| why.contains("no break of row N99")));
    }
}
