//! How long a source file may be.

use crate::report::{Finding, Report};

/// More lines than this are a question.
const LINES_ASKED: usize = 400;
/// More lines than this fail.
const LINES_MAX: usize = 600;

/// Files that are one table, and why a cut would not help the reader: data sheets and C layouts only.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "contract/softgpu_spec/src/command.rs",
    "the command set of the data sheet: one list of words, their encoding beside it",
)];

/// Judges the length of the file.
pub fn check(path: &str, lines: usize, report: &mut Report) {
    if EXCEPTIONS.iter().any(|(excepted, _)| *excepted == path) {
        return;
    }
    if lines > LINES_MAX {
        report.faults.push(Finding::new(path, lines, format!("{lines} lines, at most {LINES_MAX}")));
    } else if lines > LINES_ASKED {
        report.warnings.push(Finding::new(path, lines, format!("{lines} lines; over {LINES_ASKED} is a question")));
    }
}

/// An exception for a file that is not there is a fault of the list.
pub fn excepted_nothing(exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let gone = EXCEPTIONS.iter().filter(|(path, _)| !exists(path));
    gone.map(|(path, reason)| Finding::new(path, 0, format!("excepted from the size rule ({reason}), but not there")))
        .collect()
}
