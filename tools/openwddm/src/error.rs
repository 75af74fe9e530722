//! The errors of the command line. Each says what was wrong, where, and what to do.
//!
//! The blame decides the exit code: 2 for the user's input, 1 for the run itself. Commands return the error, `entry` prints it.

use std::path::PathBuf;

use thiserror::Error;

use terminal_text::printable::{line, paragraph, path as shown};

/// Why a command ended without its result.
#[derive(Clone, Debug, Error)]
pub enum RunError {
    /// An argument, alone or together with another, asks for what cannot be.
    #[error("{}: {}\n  what to do: {}", line(argument), paragraph(problem), paragraph(remedy))]
    Argument {
        /// The argument as typed, with its value.
        argument: String,
        /// The fault in it.
        problem: String,
        /// A better argument.
        remedy: String,
    },
    /// A file that is read or written.
    #[error("{role} {}: {}\n  what to do: {}", shown(path), paragraph(problem), paragraph(remedy))]
    File {
        /// The purpose of the file: `workload`, `--trace`, …
        role: String,
        /// Its path.
        path: PathBuf,
        /// The fault in it.
        problem: String,
        /// The user's remedy.
        remedy: String,
    },
    /// A file that was found good, and could not be written when its time came.
    #[error(
        "{role} {}: could not be written: {}\n  what to do: free space there or choose another place, and run again",
        shown(path),
        paragraph(problem)
    )]
    Unwritten {
        /// The purpose of the file.
        role: String,
        /// Its path.
        path: PathBuf,
        /// The failure of the write.
        problem: String,
    },
    /// The kernel, a driver or the device failed while the workload ran.
    #[error("the run failed: {}\n  what to do: {}", paragraph(problem), paragraph(remedy))]
    Kernel {
        /// The failure, and where it happened.
        problem: String,
        /// The user's remedy.
        remedy: String,
    },
    /// Not built.
    #[error("{} is not supported: {}", line(what), paragraph(reason))]
    NotSupported {
        /// The missing feature.
        what: String,
        /// Why it is not there.
        reason: String,
    },
    /// Standard output did not take what was printed. A reader that has gone is no such fault.
    #[error("standard output: {problem}\n  what to do: free space where it goes, and run it again")]
    Output {
        /// The operating system's words.
        problem: String,
    },
}

impl RunError {
    /// The process exit code: 2 when the input is to blame, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Argument { .. } | RunError::File { .. } => 2,
            RunError::Kernel { .. }
            | RunError::NotSupported { .. }
            | RunError::Output { .. }
            | RunError::Unwritten { .. } => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_error_names_role_file_cause_and_remedy() {
        let error = RunError::File {
            role: "--trace".to_string(),
            path: PathBuf::from("nowhere/t"),
            problem: "no such folder".to_string(),
            remedy: "create it".to_string(),
        };
        assert_eq!(error.to_string(), "--trace nowhere/t: no such folder\n  what to do: create it");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn nothing_in_an_error_is_obeyed_or_passes_for_another_line() {
        let error = RunError::File {
            role: "workload".to_string(),
            path: PathBuf::from("a\nerror: b\x1b[2J"),
            problem: "operation \"\u{202e}x\nerror: all is well\" is wrong".to_string(),
            remedy: "look".to_string(),
        };
        let text = error.to_string();
        assert!(text.starts_with(r"workload a\u000aerror: b\u001b[2J: operation"), "{text}");
        assert!(text.contains(r"\u202ex") && !text.contains("\nerror"), "{text}");
    }
}
