//! The outside process: the daemon can open no file once it has given files up, so a second process of the same program looks at the few that
//! it still needs: the names of the programs that connect, the configuration when it is to be read again, and a record of each crash. The
//! daemon starts the process before it gives anything up. This file is the daemon's end; `look` is the process's.
//!
//! # The law of this boundary
//! - The daemon asks three questions and no other ([`Ask`]), and none names a path: the outside process was told its file and the folder of
//!   records at its start. So a daemon that an attacker has taken over reads names and that file through it, writes at most [`RECORDS_MAX`]
//!   records of [`RECORD_BYTES_MAX`] bytes, and does nothing else.
//! - The outside process may read beneath `/proc` and beneath the folder of its file, and make files in the folder of records (Landlock); it
//!   ends when its input ends, with the daemon.
//! - The daemon waits at most [`WITHIN`] for each part of an answer. A question without an answer fails, and the next one is asked: each
//!   has a number, by which the daemon knows a late answer and drops it. Only an outside process that has gone, or that says what none says,
//!   is asked nothing more: the daemon serves on, without names.
//! - A file that blocks its reader keeps one thread of the outside process, and no other question waits for it.
//!
//! A question is its kind in one byte, its number in four, and an argument in four: of a record its length, with the record behind it. An answer
//! is one byte (0: it is the text of an error), the number of its question in four bytes, its length in four, and its text.

mod look;

pub use look::{look, name_of};

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the daemon waits for an answer.
const WITHIN: Duration = Duration::from_secs(2);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Most bytes of a record.
pub const RECORD_BYTES_MAX: usize = 256 << 10;
/// Most records of one daemon: what crashes again and again fills no disk.
const RECORDS_MAX: u32 = 16;
/// The bytes of a question.
const ASK_BYTES: usize = 9;
/// The bytes of an answer before its text.
const HEAD_BYTES: usize = 9;
/// A pipe that has room has it for so many bytes (`PIPE_BUF`): a write of these never blocks.
const PIPE_BYTES: usize = 4096;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// The name of the program that this process runs.
    Name(i32),
    /// The text of the file.
    File,
    /// To write a record of so many bytes, which follow.
    Record(u32),
}

impl Ask {
    /// The question of this number.
    fn bytes(self, nth: u32) -> [u8; ASK_BYTES] {
        let (kind, argument) = match self {
            Ask::Name(pid) => (1, pid.to_le_bytes()),
            Ask::File => (2, [0; 4]),
            Ask::Record(bytes) => (3, bytes.to_le_bytes()),
        };
        let mut asked = [kind; ASK_BYTES];
        asked[1..5].copy_from_slice(&nth.to_le_bytes());
        asked[5..].copy_from_slice(&argument);
        asked
    }

    /// The number of a question, and the question if it is one.
    fn of([kind, a, b, c, d, argument @ ..]: [u8; ASK_BYTES]) -> (u32, Option<Ask>) {
        let ask = match kind {
            1 => Some(Ask::Name(i32::from_le_bytes(argument))),
            2 => Some(Ask::File),
            3 => Some(Ask::Record(u32::from_le_bytes(argument))),
            _ => None,
        };
        (u32::from_le_bytes([a, b, c, d]), ask)
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// The outside process looked, and was refused.
    #[error("{0}")]
    Refused(String),
    /// The outside process has not answered this question in time; it is asked the next one.
    #[error("the outside process has not answered within {0:?}; what it reads may block")]
    Late(Duration),
    /// The outside process has gone, or says what none says.
    #[error("the outside process has gone: {0}; start the daemon again")]
    Gone(#[from] io::Error),
    /// It had gone before.
    #[error("the outside process has gone before; start the daemon again")]
    GivenUp,
}

/// The daemon's end.
#[derive(Debug)]
pub struct Outside {
    /// `None`: the outside process has gone.
    pipes: Mutex<Option<Pipes>>,
    within: Duration,
}

/// The pipes to the outside process, and what has come of answers.
#[derive(Debug)]
struct Pipes {
    asks: ChildStdin,
    answers: ChildStdout,
    /// Bytes that have come and of which no answer was taken yet.
    unread: Vec<u8>,
    /// The number of the last question.
    asked: u32,
}

impl Outside {
    /// Starts the process, whose program calls [`look`] with its standard input and output.
    ///
    /// # Errors
    /// When the operating system starts none.
    pub fn start(mut program: Command) -> io::Result<Outside> {
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        // It is not waited for: it ends behind the daemon, and the daemon must not ask the operating system for children by then.
        let pipes = child.stdin.take().zip(child.stdout.take());
        let pipes = pipes.map(|(asks, answers)| Pipes { asks, answers, unread: Vec::new(), asked: 0 });
        Ok(Outside { pipes: Mutex::new(pipes), within: WITHIN })
    }

    /// The name of the program that a process runs; `None`: it has gone, or the operating system does not tell.
    pub fn name_of(&self, pid: i32) -> Option<String> {
        self.ask(Ask::Name(pid), &[]).ok()
    }

    /// The text of the file, as it is at its path now.
    ///
    /// # Errors
    /// See [`OutsideError`].
    pub fn file(&self) -> Result<String, OutsideError> {
        self.ask(Ask::File, &[])
    }

    /// Writes a record of a crash, cut to [`RECORD_BYTES_MAX`] bytes; returns the path of its file. It does not wait for another thread that
    /// asks: the caller may be in any state.
    ///
    /// # Errors
    /// See [`OutsideError`].
    pub fn record(&self, text: &str) -> Result<String, OutsideError> {
        let bytes = &text.as_bytes()[..text.len().min(RECORD_BYTES_MAX)];
        let Ok(mut pipes) = self.pipes.try_lock() else {
            return Err(OutsideError::Refused("another thread asks the outside process".to_owned()));
        };
        // CAST: the length has a bound.
        ask_over(&mut pipes, self.within, Ask::Record(bytes.len() as u32), bytes)
    }

    fn ask(&self, ask: Ask, more: &[u8]) -> Result<String, OutsideError> {
        ask_over(&mut self.pipes.lock().unwrap_or_else(PoisonError::into_inner), self.within, ask, more)
    }
}

/// Asks, and waits for the answer.
fn ask_over(pipes: &mut Option<Pipes>, within: Duration, ask: Ask, more: &[u8]) -> Result<String, OutsideError> {
    let known = pipes.as_mut().ok_or(OutsideError::GivenUp)?;
    match known.ask(within, ask, more) {
        Ok(Some((true, text))) => Ok(text),
        Ok(Some((false, text))) => Err(OutsideError::Refused(text)),
        Ok(None) => Err(OutsideError::Late(within)),
        Err(error) => {
            *pipes = None;
            Err(error.into())
        }
    }
}

impl Pipes {
    /// The answer to a question: whether it is a good one, and its text; `None`: it does not come in time.
    ///
    /// # Errors
    /// The outside process has gone, has not taken a question that was begun, or says what none says.
    fn ask(&mut self, within: Duration, ask: Ask, more: &[u8]) -> io::Result<Option<(bool, String)>> {
        self.asked = self.asked.wrapping_add(1);
        let question = [&ask.bytes(self.asked)[..], more].concat();
        for (nth, part) in question.chunks(PIPE_BYTES).enumerate() {
            if !is_ready(&self.asks, PollFlags::OUT, within)? {
                // Earlier questions fill the pipe. One that was begun must be ended, or the next is taken for its rest.
                return if nth == 0 { Ok(None) } else { Err(io::ErrorKind::TimedOut.into()) };
            }
            self.asks.write_all(part)?;
        }
        loop {
            while let Some((of, answer)) = next_answer(&mut self.unread)? {
                // Any other is late.
                if of == self.asked {
                    return Ok(Some(answer));
                }
            }
            if !is_ready(&self.answers, PollFlags::IN, within)? {
                return Ok(None);
            }
            let mut part = [0; PIPE_BYTES];
            match self.answers.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.unread.extend_from_slice(&part[..read]),
            }
        }
    }
}

/// Takes the first answer that has come whole, with the number of its question.
fn next_answer(unread: &mut Vec<u8>) -> io::Result<Option<(u32, (bool, String))>> {
    let Some(([good, a, b, c, d, length @ ..], text)) = unread.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(None);
    };
    // CAST: 32 bits fit.
    let length = u32::from_le_bytes(*length) as usize;
    if length > ANSWER_BYTES_MAX {
        return Err(io::Error::other(format!("an answer of {length} bytes, of at most {ANSWER_BYTES_MAX}")));
    }
    let Some(text) = text.get(..length) else { return Ok(None) };
    let answer = (*good != 0, String::from_utf8_lossy(text).into_owned());
    let of = u32::from_le_bytes([*a, *b, *c, *d]);
    unread.drain(..HEAD_BYTES + length);
    Ok(Some((of, answer)))
}

/// Whether a pipe is ready within this time.
fn is_ready(pipe: &impl AsFd, what: PollFlags, within: Duration) -> io::Result<bool> {
    // PANIC: a few seconds can be said.
    let within = Timespec::try_from(within).expect("a time");
    loop {
        match poll(&mut [PollFd::new(pipe, what)], Some(&within)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

#[cfg(test)]
mod tests;
