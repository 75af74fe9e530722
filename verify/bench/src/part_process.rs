//! Clients of a daemon as what they are to be: processes. This program is started once more, with a part to play.
//!
//! ```text
//! the measure                          the part
//!   start ── bench --part WORDS ──►      makes ready
//!   ◄──────────── "ready" ─────────
//!   tell ──────── a line ─────────►      does it
//!   hear ◄─────── a line ──────────      "failed: " and why, when it could not
//! ```
//! Its lines are its standard input and output. A part whose measure has gone reads the end of its input, and ends.

use std::io::{BufRead, BufReader, Stdin, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::report::BenchError;
use crate::{arenas, daemon, growth, neighbour};

/// The prefix of a part's answer when it failed.
const FAILED: &str = "failed: ";

/// The program that plays parts.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a>(pub &'a PathBuf);

impl Program<'_> {
    /// Starts a part, and waits until it is ready.
    pub fn start(self, words: &[&str]) -> Result<PartProcess, BenchError> {
        let mut child = Command::new(self.0)
            .args(["bench", "--part"])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| BenchError::Device(format!("{} does not start: {error}", self.0.display())))?;
        let (hears, says) = (child.stdin.take(), child.stdout.take());
        let mut part = PartProcess {
            child,
            hears: hears.expect("it was asked for"),
            says: BufReader::new(says.expect("it was asked for")),
        };
        match part.hear()?.as_str() {
            "ready" => Ok(part),
            other => Err(BenchError::Device(format!("a part that is to be ready says {other:?}"))),
        }
    }
}

/// A part in a process of its own, which ends with this.
pub(crate) struct PartProcess {
    child: Child,
    hears: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl PartProcess {
    /// Has it do something.
    pub fn tell(&mut self, line: &str) -> Result<(), BenchError> {
        Ok(writeln!(self.hears, "{line}")?)
    }

    /// Its next line.
    pub fn hear(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        match line.trim_end() {
            "" => Err(BenchError::Device("a part has ended without a word".into())),
            said => match said.strip_prefix(FAILED) {
                Some(reason) => Err(BenchError::Device(reason.to_owned())),
                None => Ok(said.to_owned()),
            },
        }
    }
}

impl Drop for PartProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The measure, as a part sees it.
pub(crate) struct Measure(Stdin);

impl Measure {
    /// Says something to it.
    pub fn say(&self, line: &str) -> Result<(), BenchError> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }

    /// The next order; `None`: the measure has gone.
    pub fn next(&self) -> Result<Option<String>, BenchError> {
        let mut line = String::new();
        let bytes = self.0.read_line(&mut line)?;
        Ok((bytes > 0).then(|| line.trim_end().to_owned()))
    }
}

/// Plays a part of a measure that runs in another process. Not for people.
///
/// # Errors
/// The part's own failure, which it has reported to the measure.
pub fn play(words: &[String]) -> Result<(), BenchError> {
    let measure = Measure(std::io::stdin());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let played = match words[..] {
        ["replay", socket, seed, steps] => daemon::play(&measure, socket.as_ref(), seed, steps),
        ["daemon"] => arenas::churn::play(&measure),
        ["holder", way, most] => arenas::held::play(&measure, way, most),
        ["instructions"] => growth::instructions::play(&measure),
        ["worker", socket] => neighbour::play_worker(&measure, socket.as_ref()),
        ["neighbour", socket] => neighbour::play(&measure, socket.as_ref()),
        _ => Err(BenchError::Device(format!("no part is called {words:?}"))),
    };
    if let Err(error) = &played {
        measure.say(&format!("{FAILED}{error}"))?;
    }
    played
}
