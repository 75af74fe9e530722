//! Words that bind a file to one machine: absolute paths of a checkout, names of tools that happened to be at hand, the
//! host of a package registry. A reader of the project has another machine.
//!
//! The words are put together from halves here, so that this file passes its own rule.

use crate::report::Finding;

/// Beginnings of absolute paths.
const PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp/ba", "sh_jobs"), concat!("/tmp/te", "am")];
/// Words in any case.
const WORDS: [&str; 4] =
    [concat!("cla", "ude"), concat!("anthr", "opic"), concat!("bash", "_jobs"), concat!("crates", ".io")];
/// Written by cargo, which names the registry in it.
const NOT_OURS: [&str; 1] = ["Cargo.lock"];

/// Judges every line of a text file, whatever its language.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    if NOT_OURS.contains(&path) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let lower = line.to_lowercase();
        let found = PATHS.iter().find(|start| has_path(line, start));
        let found = found.or(WORDS.iter().find(|word| lower.contains(*word)));
        if let Some(word) = found {
            faults.push(Finding::new(path, number, format!("\"{word}\" means something on one machine only")));
        }
    }
    faults
}

/// Whether an absolute path starts so; a longer path that only contains it does not count.
fn has_path(line: &str, start: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '*');
    line.match_indices(start).any(|(at, _)| !line[..at].ends_with(is_part))
}
