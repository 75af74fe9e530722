//! Finds the acceptance rows that each test names: the tags in its body and in the comments directly above it.
//!
//! A tag is a promise that the test fails without the row's behaviour. A test that names many rows can hardly keep it
//! for each; the check lists such tests and leaves the judgement to a reader.

use super::citation;
use crate::rust_text::Line;

/// Most rows that one test names without being listed. Policy.
pub const ROWS_MAX: usize = 4;

/// A test and the rows that it names.
#[derive(Debug, PartialEq, Eq)]
pub struct Promise {
    /// The test's function.
    pub test: String,
    /// The line of that function, from 1.
    pub line: usize,
    /// The rows, each once, as they come.
    pub rows: Vec<String>,
}

/// The promises of one file.
pub fn of(lines: &[Line]) -> Vec<Promise> {
    let mut reading = Reading::default();
    for (number, line) in (1..).zip(lines) {
        reading.take(number, line);
    }
    reading.done
}

/// A reader's place between and inside tests.
#[derive(Default)]
struct Reading {
    done: Vec<Promise>,
    /// Rows of the comments since the last line of other code.
    above: Vec<String>,
    /// An attribute has said that the next function is a test.
    marked: bool,
    /// The test that the reader is inside of, and how far its function is indented.
    inside: Option<(Promise, usize)>,
}

impl Reading {
    fn take(&mut self, number: usize, line: &Line) {
        let comment = citation::unquoted(&line.comment);
        let named = citation::rows(&comment).into_iter().map(str::to_string);
        let code = line.code.trim();
        let indent = line.code.len() - line.code.trim_start().len();
        if let Some((promise, depth)) = &mut self.inside {
            promise.rows.extend(named.filter(|row| !promise.rows.contains(row)).collect::<Vec<_>>());
            if code == "}" && indent == *depth {
                self.done.extend(self.inside.take().map(|(promise, _)| promise));
            }
            return;
        }
        self.above.extend(named);
        if code.starts_with("#[test]") {
            self.marked = true;
        } else if let Some(test) = function(code) {
            let mut rows = std::mem::take(&mut self.above);
            if std::mem::take(&mut self.marked) {
                rows.dedup();
                let promise = Promise { test: test.to_string(), line: number, rows };
                match code.ends_with('}') {
                    true => self.done.push(promise),
                    false => self.inside = Some((promise, indent)),
                }
            }
        } else if !code.is_empty() && !code.starts_with("#[") {
            self.above.clear();
        }
    }
}

/// The name of the function that a line of code begins.
fn function(code: &str) -> Option<&str> {
    let (_, behind) = code.split_once("fn ")?;
    let end = behind.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    behind[end..].starts_with(['(', '<']).then_some(&behind[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust_text;

    fn promises(source: &str) -> Vec<(String, usize, Vec<String>)> {
        of(&rust_text::split(source)).into_iter().map(|found| (found.test, found.line, found.rows)).collect()
    }

    #[test]
    fn a_test_has_the_tags_above_it_and_inside_it() {
        let source = "\
//! A
// seed: N01
fn not_a_test() {
    // seed: N02
}

/// Prose.
// seed: N03, N04
#[test]
#[cfg(unix)]
fn first() {
    if true {
        // seed: N05, N03
    }
}

// seed: N06
const BEHIND: u8 = 1;
mod inner {
    #[test]
    fn second() {
        // seed: N07
    }
    #[test]
    fn short() {}
}
";
        let named =
            |test: &str, line, rows: &[&str]| (test.to_string(), line, rows.iter().map(ToString::to_string).collect());
        assert_eq!(
            promises(source),
            [named("first", 11, &["N03", "N04", "N05"]), named("second", 21, &["N07"]), named("short", 25, &[])]
        );
    }
}
