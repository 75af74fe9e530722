//! The findings of a check: faults, warnings, lines of summary. Every check returns one, `main` and `ci` print it.

use std::fmt;

/// Something at a place. Lines count from 1; 0 means the file as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Path below the house's root, with forward slashes.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The fault, as a sentence without a full stop.
    pub text: String,
}

impl Finding {
    /// A finding at a line.
    pub fn new(path: &str, line: usize, text: impl Into<String>) -> Finding {
        Finding { path: path.to_string(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.path, self.text)
        } else {
            write!(f, "{}:{}: {}", self.path, self.line, self.text)
        }
    }
}

/// The outcome of one check.
#[derive(Debug, Default)]
#[must_use]
pub struct Report {
    /// Faults, which fail the check.
    pub faults: Vec<Finding>,
    /// Findings that deserve a reader's judgement and do not fail the check.
    pub warnings: Vec<Finding>,
    /// Lines to print above the faults.
    pub listing: Vec<String>,
    /// The last line.
    pub summary: String,
}

impl Report {
    /// Prints everything; whether there was no fault.
    pub fn print(&self) -> bool {
        for line in &self.listing {
            println!("{line}");
        }
        for warning in &self.warnings {
            println!("warning: {warning}");
        }
        for fault in &self.faults {
            println!("{fault}");
        }
        println!("{}", self.summary);
        self.faults.is_empty()
    }
}
