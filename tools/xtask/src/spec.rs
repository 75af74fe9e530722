//! Counts the citations of the fact sheets' sections and the tests of the acceptance rows.
//!
//! A rule that is obeyed names its section (`spec: memory §5.2` in a comment), a test that proves a row of the seeds
//! names its id (`seed: N30`). This check reads the sheets' headings and tables and the comments of all sources. A
//! citation of a section or row that is not there fails, and so does a row that no test names. The check lists sections that
//! no source cites, which fail only with `--strict`, and tests that name more rows than one test can answer for.
//! It cannot know whether the code beside a citation does what the section says: tests and readers do.

mod citation;
mod promise;
mod seeds;
mod sheet;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::report::{Finding, Report};
use crate::rust_text;
use crate::tree::House;
use citation::Place;
use seeds::Seeds;
use sheet::Sheet;

pub use citation::rows_of_two;
pub use sheet::row_id;

/// How to run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Uncited sections fail.
    pub strict: bool,
    /// Counts only.
    pub quiet: bool,
}

impl Options {
    /// From the command line.
    pub fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        for argument in arguments {
            match argument.as_str() {
                "--strict" => options.strict = true,
                "--quiet" => options.quiet = true,
                other => return Err(format!("spec: unknown option {other}")),
            }
        }
        Ok(options)
    }
}

/// Checks all citations of the house.
pub fn run(house: &House, options: Options) -> Result<Report, String> {
    let mut books = Books {
        sheets: [
            Sheet::parse("memory", &house.read("docs/spec/memory.md")?),
            Sheet::parse("sync", &house.read("docs/spec/sync.md")?),
        ],
        seeds: Seeds::parse(&house.read("docs/spec/seeds.md")?),
        counted: 0,
        crowded: Vec::new(),
    };
    let mut report = Report::default();
    for (path, text) in house.texts()? {
        books.read(&path, &text, &mut report.faults);
    }
    books.conclude(options, &mut report);
    Ok(report)
}

/// The sheets and what has been cited of them so far.
struct Books {
    sheets: [Sheet; 2],
    seeds: Seeds,
    counted: usize,
    /// Tests that name more than [`promise::ROWS_MAX`] rows.
    crowded: Vec<Finding>,
}

impl Books {
    /// Collects the citations of one file. Prose pages may mention sections, only sources cite them.
    fn read(&mut self, path: &str, text: &str, faults: &mut Vec<Finding>) {
        if path.ends_with(".rs") {
            let lines = rust_text::split(text);
            let proves = path.starts_with("verify/") || lines.iter().any(|line| is_test(&line.code));
            for (number, line) in (1..).zip(&lines) {
                let comment = citation::unquoted(&line.comment);
                self.line(path, number, &comment, faults);
                self.rows(path, number, &comment, proves, faults);
            }
            for test in promise::of(&lines).iter().filter(|test| test.rows.len() > promise::ROWS_MAX) {
                let text = format!("{} names {} rows: {}", test.test, test.rows.len(), test.rows.join(" "));
                self.crowded.push(Finding::new(path, test.line, text));
            }
        } else if path.ends_with(".md") && !path.starts_with("docs/spec/") {
            for (number, line) in (1..).zip(text.lines()) {
                self.mentions(path, number, line, faults);
            }
        }
    }

    fn line(&mut self, path: &str, number: usize, comment: &str, faults: &mut Vec<Finding>) {
        let (prose, cited) = citation::split(comment);
        self.mentions(path, number, prose, faults);
        match cited.map(citation::places) {
            Some(Ok(places)) => {
                self.counted += places.len();
                for place in places {
                    if let Err(reason) = self.resolve(&place, true) {
                        faults.push(Finding::new(path, number, reason));
                    }
                }
            }
            Some(Err(reason)) => faults.push(Finding::new(path, number, reason)),
            None => {}
        }
    }

    /// A row is proved by a test, so the file that names it must hold one; in verify everything is one.
    fn rows(&mut self, path: &str, number: usize, comment: &str, proves: bool, faults: &mut Vec<Finding>) {
        for row in citation::rows(comment) {
            self.counted += 1;
            if !proves {
                faults.push(Finding::new(path, number, format!("{row} is proved by a test, and this file has none")));
            } else if !self.seeds.test(row) {
                faults.push(Finding::new(path, number, format!("seeds.md has no row {row}")));
            }
        }
    }

    /// Sections named in running text must be there, but naming is not citing.
    fn mentions(&mut self, path: &str, number: usize, prose: &str, faults: &mut Vec<Finding>) {
        for place in citation::mentions(prose) {
            if let Err(reason) = self.resolve(&place, false) {
                faults.push(Finding::new(path, number, reason));
            }
        }
    }

    fn resolve(&mut self, place: &Place, cites: bool) -> Result<(), String> {
        let sheet = self.sheets.iter_mut().find(|sheet| sheet.name == place.sheet);
        let sheet = sheet.ok_or(format!("there is no sheet {}", place.sheet))?;
        sheet.find(&place.section, cites).ok_or(format!("{} has no §{}", place.sheet, place.section))
    }

    fn conclude(&self, options: Options, report: &mut Report) {
        let mut uncited = 0;
        let mut sections = 0;
        for sheet in &self.sheets {
            let open: Vec<_> = sheet.uncited().collect();
            sections += sheet.len();
            uncited += open.len();
            if !options.quiet && !open.is_empty() {
                report.listing.push(format!(
                    "{}: no source cites {} of {} sections",
                    sheet.name,
                    open.len(),
                    sheet.len()
                ));
                report.listing.extend(open.iter().map(|section| format!("  §{} {}", section.number, section.title)));
            }
        }
        let groups = self.seeds.groups();
        for group in &groups {
            report.listing.push(format!("rows {}: {} of {} have a test", group.letter, group.tested, group.rows));
            if !options.quiet && !group.open.is_empty() {
                report.listing.push(format!("  without: {}", group.open.join(" ")));
            }
        }
        let rows: usize = groups.iter().map(|group| group.rows).sum();
        let tested: usize = groups.iter().map(|group| group.tested).sum();
        let broken = report.faults.len();
        if !options.quiet && !self.crowded.is_empty() {
            report.listing.push(format!(
                "tests that name more than {} rows: {}",
                promise::ROWS_MAX,
                self.crowded.len()
            ));
            report.listing.extend(self.crowded.iter().map(|finding| format!("  {finding}")));
        }
        for row in groups.iter().flat_map(|group| &group.open) {
            report.faults.push(Finding::new("docs/spec/seeds.md", 0, format!("no test names row {row}")));
        }
        if options.strict && uncited > 0 {
            report.faults.push(Finding::new("docs/spec", 0, format!("strict: {uncited} sections uncited")));
        }
        report.summary = format!(
            "spec: {} citations, {broken} broken; {} of {sections} sections cited; {tested} of {rows} rows tested",
            self.counted,
            sections - uncited
        );
    }
}

fn is_test(code: &str) -> bool {
    ["#[test]", "#[cfg(test)]", "proptest!"].iter().any(|mark| code.contains(mark))
}

/// Sections or rows that something named.
type Named = BTreeSet<String>;
