//! Everything that can go wrong on the command line, in sentences: what was wrong, where, what to do.
//!
//! Who is to blame decides the exit code: whoever typed (2), or the run itself (1). Commands return it, `entry` prints it.

use std::path::PathBuf;

use thiserror::Error;

/// Why a command ended without its result.
#[derive(Debug, Error)]
pub enum RunError {
    /// An argument, alone or together with another, asks for what cannot be.
    #[error("{argument}: {problem}\n  what to do: {remedy}")]
    Argument {
        /// The argument as typed, with its value.
        argument: String,
        /// What is wrong with it.
        problem: String,
        /// What to type instead.
        remedy: String,
    },
    /// A file that is read or written.
    #[error("{role} {}: {problem}\n  what to do: {remedy}", path.display())]
    File {
        /// What the file is for: `workload`, `--trace`, …
        role: String,
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// The kernel, a driver or the device failed while the workload ran.
    #[error("the run failed: {problem}\n  what to do: {remedy}")]
    Kernel {
        /// What failed, where.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// Not built.
    #[error("{what} is not supported: {reason}")]
    NotSupported {
        /// What was asked.
        what: String,
        /// Why it is not there.
        reason: String,
    },
}

impl RunError {
    /// The process exit code: 2 when the input is to blame, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Argument { .. } | RunError::File { .. } => 2,
            RunError::Kernel { .. } | RunError::NotSupported { .. } => 1,
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
}
