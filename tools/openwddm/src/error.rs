//! The errors of the command line. Each says what was wrong, where, and what to do.
//!
//! The blame decides the exit code: 2 for the user's input, 1 for the run itself. Commands return the error, `entry` prints it.

use std::ffi::OsString;
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
    /// The error with a size in its argument as the user wrote it: a command knows the value of a size and not its text. An argument that the command
    /// line does not have, or has several times, stays as it is.
    pub fn as_typed(self, words: impl Iterator<Item = OsString>) -> RunError {
        let RunError::Argument { argument, problem, remedy } = self else { return self };
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let argument = typed(&argument, &words).unwrap_or(argument);
        RunError::Argument { argument, problem, remedy }
    }

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

/// Options that have a size.
const SIZED: [&str; 4] = ["--vram", "--system", "--adapter", "--constants"];

/// The text of an argument among the words of a command line: of `--vram 524288` the words `--vram` and `0.5MiB`, say.
fn typed(argument: &str, words: &[String]) -> Option<String> {
    if let Some(rest) = argument.strip_prefix("budget=") {
        let terms = words.iter().filter_map(|word| word.split_once(",budget=")?.1.split(',').next());
        let (_, of) = rest.split_once(' ')?;
        return the_one(terms).map(|budget| format!("budget={budget} {of}"));
    }
    let (option, value) = argument.split_once(' ').unwrap_or((argument, ""));
    if !SIZED.contains(&option) || value.contains(" --") {
        return None;
    }
    let values = || {
        let behind = words.windows(2).filter(|pair| pair[0] == option).map(|pair| pair[1].as_str());
        behind.chain(words.iter().filter_map(|word| word.strip_prefix(option)?.strip_prefix('=')))
    };
    // Of several adapters the one of this profile.
    let named = value.split_once(',').map_or(value, |(name, _)| name);
    let like = values().filter(|typed| !named.is_empty() && typed.split(',').next() == Some(named));
    the_one(values()).or_else(|| the_one(like)).map(|typed| format!("{option} {typed}"))
}

/// The only one that there is.
fn the_one<'a>(mut of: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    of.next().filter(|_| of.next().is_none())
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

    #[test]
    fn an_argument_is_said_as_it_was_written() {
        let said = |argument: &str, line: &str| {
            let words = line.split(' ').map(OsString::from);
            let (argument, problem, remedy) = (argument.to_owned(), String::new(), String::new());
            let RunError::Argument { argument, .. } =
                (RunError::Argument { argument, problem, remedy }).as_typed(words)
            else {
                unreachable!("it was one")
            };
            argument
        };
        for (computed, line, wanted) in [
            ("--vram 524288", "openwddm run --vram 0.5MiB", "--vram 0.5MiB"),
            ("--vram 524288", "openwddm run --vram=0.5MiB --steps 2", "--vram 0.5MiB"),
            ("--vram", "openwddm run --vram 1GiB", "--vram 1GiB"),
            ("--vram 60%", "openwddm run", "--vram 60%"),
            ("--adapter a,vram=4096", "openwddm run --adapter a,vram=4KiB --adapter b", "--adapter a,vram=4KiB"),
            ("--adapter a,vram=4096", "openwddm run --adapter a,vram=4KiB --adapter a", "--adapter a,vram=4096"),
            ("--adapter", "openwddm run --adapter a --adapter b", "--adapter"),
            (
                "--policy planner --set eviction=lru",
                "openwddm run --policy planner",
                "--policy planner --set eviction=lru",
            ),
            ("budget=1024 of gpt", "openwddm run a.json,budget=1KiB,priority=high b.json", "budget=1KiB of gpt"),
            ("budget=1024 of gpt", "openwddm run a.json,budget=1KiB b.json,budget=1KiB", "budget=1024 of gpt"),
            ("--stage user", "openwddm run --stage packet,user", "--stage user"),
            ("serve", "openwddm serve", "serve"),
        ] {
            assert_eq!(said(computed, line), wanted, "{line}");
        }
    }
}
