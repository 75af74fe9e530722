//! House rules of a file: its size, its head, its name, waived lints, comments on unsafe blocks.
//!
//! The rules are those of the project's style; each is a function from a file to findings, in one of the modules below.
//! Layout is not judged here, `cargo fmt` does that, nor anything that the compiler or clippy already denies.

mod barrier;
mod manifest;
mod names;
mod plan;
mod prose;
mod receiver;
mod rust_file;
mod size;
mod streams;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::report::{Finding, Report};
use crate::tree::House;
use crate::{ratchet, rust_text};

/// The longest that a room's README may be.
const ROOM_README_LINES_MAX: usize = 10;
/// The page that a stranger sees first, how many lines it may have, and how many characters each of them.
const FRONT_PAGE: &str = "README.md";
const FRONT_PAGE_LINES_MAX: usize = 90;
const FRONT_PAGE_LINE_MAX: usize = 200;

/// What is asked.
pub enum Options {
    /// Whether everything is in order.
    Check,
    /// The same, after the ceilings of ratchets have come down to what is measured.
    Lower,
    /// The places that a ratchet counts.
    Places(String),
}

impl Options {
    /// Reads the words behind `tidy`.
    pub fn parse(words: &[String]) -> Result<Options, String> {
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => Ok(Options::Check),
            ["--lower"] => Ok(Options::Lower),
            ["--places", ratchet] => Ok(Options::Places(ratchet.to_string())),
            _ => Err(format!("tidy takes --lower, --places RATCHET or nothing, not {:?}", words.join(" "))),
        }
    }
}

/// Checks every file of the house.
pub fn run(house: &House, options: Options) -> Result<Report, String> {
    let texts = house.texts()?;
    let mut report = Report::default();
    let lower = match options {
        Options::Check => false,
        Options::Lower => true,
        Options::Places(name) => {
            let places = ratchet::places(&texts, &name)?;
            report.summary = format!("{name}: {} places", places.len());
            report.listing = places.iter().map(ToString::to_string).collect();
            return Ok(report);
        }
    };
    ratchet::check(house, &texts, lower, &mut report)?;
    for (path, text) in &texts {
        check(path, text, &mut report);
        if path.ends_with(".md") {
            report.faults.extend(plan::check_links(path, text, |target| house.has(target.trim_start_matches('/'))));
        }
    }
    report.faults.extend(size::excepted_nothing(|path| house.has(path)));
    let root = house.read("Cargo.toml")?;
    let members = plan::members(&root);
    let page = house.read(plan::PAGE).unwrap_or_default();
    report.faults.extend(plan::check(&page, &members));
    report.faults.extend(plan::check_unsafe(&page, &unsafe_modules(&texts)));
    for room in rooms(&members) {
        let readme = format!("{room}/README.md");
        report.faults.extend(room_readme(&readme, house.read(&readme).ok().as_deref()));
    }
    report.summary =
        format!("tidy: {} files, {} warnings, {} faults", texts.len(), report.warnings.len(), report.faults.len());
    Ok(report)
}

/// Checks one file by its path and text.
fn check(path: &str, text: &str, report: &mut Report) {
    report.faults.extend(words::check(path, text));
    report.faults.extend(prose::check(path, text));
    report.faults.extend(names::check_path(path));
    if path == FRONT_PAGE {
        report.faults.extend(front_page(text));
    }
    if path == "Cargo.toml" {
        report.faults.extend(manifest::check(path, text));
    }
    if path.ends_with(".rs") {
        let lines = rust_text::split(text);
        size::check(path, lines.len(), report);
        report.faults.extend(names::check_modules(path, &lines));
        report.faults.extend(rust_file::check(path, text, &lines));
        report.faults.extend(receiver::check(path, &lines));
        report.faults.extend(streams::check(path, &lines));
        report.faults.extend(barrier::check(path, &lines));
    }
}

/// The modules of the product that allow unsafe code, as crate and path below `src`.
fn unsafe_modules(texts: &[(String, String)]) -> BTreeSet<(&str, &str)> {
    let mut modules = BTreeSet::new();
    for (path, text) in texts {
        let Some((_, rest)) = path.split_once('/').filter(|(room, _)| !["verify", "tools"].contains(room)) else {
            continue;
        };
        let Some((name, file)) = rest.split_once("/src/") else { continue };
        let module = file.strip_suffix(".rs").filter(|module| !module.ends_with("tests"));
        if let Some(module) = module
            && rust_text::split(text).iter().any(|line| rust_file::allows_unsafe(&line.code))
        {
            modules.insert((name, module));
        }
    }
    modules
}

/// The rooms: the first folders of the members.
fn rooms<'a>(members: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
    members.iter().filter_map(|member| member.split_once('/')).map(|(room, _)| room).collect()
}

/// The front page stays one page: states in full go to `docs/status.md`, options to `docs/run.md`.
fn front_page(text: &str) -> Vec<Finding> {
    let lines = text.lines().count();
    let mut faults = Vec::new();
    if lines > FRONT_PAGE_LINES_MAX {
        faults.push(Finding::new(FRONT_PAGE, lines, format!("the page has at most {FRONT_PAGE_LINES_MAX} lines")));
    }
    for (number, line) in (1..).zip(text.lines()) {
        let length = line.chars().count();
        if length > FRONT_PAGE_LINE_MAX {
            let text = format!("the line has {length} characters, at most {FRONT_PAGE_LINE_MAX} are read at a glance");
            faults.push(Finding::new(FRONT_PAGE, number, text));
        }
    }
    faults
}

fn room_readme(path: &str, text: Option<&str>) -> Option<Finding> {
    match text.map(|text| text.lines().count()) {
        None => Some(Finding::new(path, 0, "the room has no README.md")),
        Some(0) => Some(Finding::new(path, 0, "the room's README is empty")),
        Some(lines) if lines > ROOM_README_LINES_MAX => {
            Some(Finding::new(path, lines, format!("a room's README has at most {ROOM_README_LINES_MAX} lines")))
        }
        Some(_) => None,
    }
}
