//! Instructions of the hottest calls, counted by callgrind: a gate that time cannot be on a shared machine.
//!
//! The checks' own build plays each path beside a small crowd of objects and beside one sixteen times as large (`openwddm bench --part
//! instructions`); callgrind writes a count for each. [`PATH`] has what a call took when it was written. A path that takes more than
//! [`TOLERANCE`] more fails, and so does one that takes more than [`GROWTH_MAX`] times as many beside the large crowd; one that takes less
//! by more than that is to be written anew, with `cargo xtask instructions --set`. Counts are of one compiler: under another, nothing is judged.
//! It measures no time. Called by `main` and by `ci`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::report::{Finding, Report};
use crate::tree::House;

/// The counts.
const PATH: &str = "docs/verification/instructions.toml";
/// Random seeds of hash tables move a count by about a hundredth.
const TOLERANCE: f64 = 0.04;
/// Beside sixteen times as many objects a call takes at most so many times the instructions.
const GROWTH_MAX: f64 = 2.0;
/// The function that callgrind collects within, by its whole name: a pattern would start no dumps.
const COUNTED: &str = "bench::growth::instructions::counted_calls";
const HEAD: &str = "\
# Instructions of the hottest calls beside 500 objects of their kind, in the build of the checks, and how many times as many they take
# beside 8,000: `cargo xtask instructions` fails above them, `cargo xtask instructions --set` writes them. Of one compiler only.
";

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    compiler: String,
    paths: BTreeMap<String, Count>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Count {
    instructions: u64,
    growth: f64,
}

/// Options of `cargo xtask instructions`.
pub fn options(words: &[String]) -> Result<bool, String> {
    match words {
        [] => Ok(false),
        [word] if word == "--set" => Ok(true),
        other => Err(format!("instructions takes --set or nothing, not {other:?}")),
    }
}

/// Counts and judges, or with `set` writes the counts.
pub fn run(house: &House, set: bool) -> Result<Report, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        let summary = "instructions: not counted, for valgrind is not installed (Debian: apt install valgrind)".into();
        return Ok(Report { summary, ..Report::default() });
    }
    let program = program()?;
    let counts = Counts { compiler: compiler()?, paths: count(&program)? };
    if set {
        let text = toml::to_string(&counts).map_err(|error| error.to_string())?;
        house.write(PATH, &format!("{HEAD}\n{text}"))?;
    }
    let ceilings: Counts = toml::from_str(&house.read(PATH)?).map_err(|error| format!("{PATH}: {error}"))?;
    Ok(judged(&counts, &ceilings))
}

/// The program that the step before has built, beside this one.
fn program() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = own.with_file_name("openwddm");
    let missing = || format!("{} is not there: cargo build --workspace --all-targets", program.display());
    program.is_file().then_some(program.clone()).ok_or_else(missing)
}

fn compiler() -> Result<String, String> {
    let output = Command::new("rustc").arg("--version").output().map_err(|error| format!("rustc: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn count(program: &Path) -> Result<BTreeMap<String, Count>, String> {
    let folder = program.with_file_name("instructions");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .args([format!("--toggle-collect={COUNTED}"), format!("--dump-after={COUNTED}")])
        .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
        .arg(program)
        .args(["bench", "--part", "instructions"])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("the counted program failed: {said}{}", String::from_utf8_lossy(&output.stderr)));
    }
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (nth, line) in said.lines().enumerate() {
        let file = folder.join(format!("out.{}", nth + 1));
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let (path, calls) = described(line).ok_or_else(|| format!("the counted program says {line:?}"))?;
        let all = total(&text).ok_or_else(|| format!("{}: it has no totals", file.display()))?;
        found.entry(path).or_default().push(all / calls);
    }
    let counted = |counts: Vec<u64>| match counts[..] {
        [few, many] if few > 0 => Ok(Count { instructions: few, growth: hundredths(many as f64 / few as f64) }),
        _ => Err(format!("a path was counted {counts:?}, not beside two crowds")),
    };
    found.into_iter().map(|(path, counts)| Ok((path, counted(counts)?))).collect()
}

/// The path's name and its calls, of a line of the part.
fn described(line: &str) -> Option<(String, u64)> {
    let mut words = line.split('\t');
    let (kind, call, calls) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    (calls > 0).then(|| (format!("{kind}: {call}"), calls))
}

/// The instructions of a file of callgrind.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")))?;
    line.split_whitespace().next()?.parse().ok()
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn judged(counts: &Counts, ceilings: &Counts) -> Report {
    let mut report = Report::default();
    for (path, count) in &counts.paths {
        let mut line = format!("{path:<70} {:>8} instructions, x {:.2} beside 8,000", count.instructions, count.growth);
        if let Some(before) = ceilings.paths.get(path) {
            let _ = write!(line, " ({:+.1} %)", (change(*count, *before) - 1.0) * 100.0);
        }
        report.listing.push(line);
    }
    if counts.compiler != ceilings.compiler {
        report.summary =
            format!("instructions: not judged, {} wrote them and this is {}", ceilings.compiler, counts.compiler);
        return report;
    }
    for (path, count) in &counts.paths {
        match ceilings.paths.get(path) {
            None => report.faults.push(fault(format!("`{path}` has no count: `cargo xtask instructions --set`"))),
            Some(before) if change(*count, *before) > 1.0 + TOLERANCE => report.faults.push(fault(format!(
                "`{path}` takes {} instructions, and took {}: find out why; `cargo xtask instructions --set` writes it when that is meant",
                count.instructions, before.instructions
            ))),
            Some(before) if change(*count, *before) < 1.0 - TOLERANCE => report.warnings.push(fault(format!(
                "`{path}` takes {} instructions, and took {}: `cargo xtask instructions --set` keeps it",
                count.instructions, before.instructions
            ))),
            Some(_) => {}
        }
        if count.growth > GROWTH_MAX {
            let text =
                format!("`{path}` takes {} times as many beside 8,000 objects; at most {GROWTH_MAX}", count.growth);
            report.faults.push(fault(text));
        }
    }
    for path in ceilings.paths.keys().filter(|path| !counts.paths.contains_key(*path)) {
        report.faults.push(fault(format!("`{path}` was not counted: `cargo xtask instructions --set`")));
    }
    report.summary = format!("instructions: {} paths, {} faults", counts.paths.len(), report.faults.len());
    report
}

fn change(count: Count, before: Count) -> f64 {
    count.instructions as f64 / before.instructions.max(1) as f64
}

fn fault(text: String) -> Finding {
    Finding::new(PATH, 0, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u64, f64)]) -> Counts {
        let count =
            |&(path, instructions, growth): &(&str, u64, f64)| (path.to_owned(), Count { instructions, growth });
        Counts { compiler: "rustc 1".into(), paths: of.iter().map(count).collect() }
    }

    #[test]
    fn a_path_that_takes_more_fails_and_one_that_takes_less_is_named() {
        let before = counts(&[("a", 1000, 1.0), ("b", 1000, 1.0), ("c", 1000, 1.0)]);
        let report = judged(&counts(&[("a", 1030, 1.0), ("b", 1050, 1.0), ("c", 900, 1.0)]), &before);
        assert_eq!((report.faults.len(), report.warnings.len()), (1, 1));
        assert!(report.faults[0].text.starts_with("`b` takes 1050"), "{}", report.faults[0].text);
        assert!(report.warnings[0].text.starts_with("`c` takes 900"), "{}", report.warnings[0].text);
    }

    #[test]
    fn growth_new_paths_and_paths_that_are_gone_fail() {
        let report =
            judged(&counts(&[("a", 1000, 2.1), ("new", 5, 1.0)]), &counts(&[("a", 1000, 1.0), ("gone", 5, 1.0)]));
        let texts: Vec<&str> = report.faults.iter().map(|fault| fault.text.as_str()).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(
            texts[0].contains("2.1 times") && texts[1].contains("`new` has no count") && texts[2].contains("`gone`")
        );
    }

    #[test]
    fn counts_of_another_compiler_are_not_judged() {
        let before = Counts { compiler: "rustc 2".into(), ..counts(&[("a", 1, 1.0)]) };
        let report = judged(&counts(&[("a", 1000, 9.0)]), &before);
        assert!(report.faults.is_empty() && report.summary.contains("not judged"), "{}", report.summary);
    }

    #[test]
    fn lines_and_totals_are_read() {
        assert_eq!(
            described("mappings\tMapGpuVirtualAddress\t256\t1000"),
            Some(("mappings: MapGpuVirtualAddress".into(), 256))
        );
        assert_eq!(described("failed: no"), None);
        assert_eq!(total("events: Ir\nsummary: 12\n\ntotals: 12345\n"), Some(12));
        assert_eq!(total("events: Ir\n"), None);
    }
}
