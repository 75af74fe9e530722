//! The outside process: the daemon can open no file once it has given files up, so a second process of the same program looks at the few that
//! it still needs: the names of the programs that connect, the configuration when it is to be read again, and a record of each crash. The
//! daemon starts the process before it gives anything up.
//!
//! # The law of this boundary
//! - The daemon asks three questions and no other ([`Ask`]), and none names a path: the outside process was told its file and the folder of
//!   records at its start. So a daemon that an attacker has taken over reads names and that file through it, writes at most [`RECORDS_MAX`]
//!   records of [`RECORD_BYTES_MAX`] bytes, and does nothing else.
//! - The outside process may read beneath `/proc` and beneath the folder of its file, and make files in the folder of records (Landlock); it
//!   ends when its input ends, with the daemon.
//! - The daemon waits for an answer at most [`WITHIN`]. If the outside process does not answer, it is asked nothing more, and the daemon
//!   serves on, without names.
//!
//! A question is its kind in one byte and a number in four, of a record its length, with the record behind it; an answer is one byte (0: it is the text of an error), its length in four bytes, and
//! its text.

use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
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
const ASK_BYTES: usize = 5;

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
    fn bytes(self) -> [u8; ASK_BYTES] {
        let (kind, number) = match self {
            Ask::Name(pid) => (1, pid.to_le_bytes()),
            Ask::File => (2, [0; 4]),
            Ask::Record(bytes) => (3, bytes.to_le_bytes()),
        };
        let [a, b, c, d] = number;
        [kind, a, b, c, d]
    }

    fn of([kind, number @ ..]: [u8; ASK_BYTES]) -> Option<Ask> {
        match kind {
            1 => Some(Ask::Name(i32::from_le_bytes(number))),
            2 => Some(Ask::File),
            3 => Some(Ask::Record(u32::from_le_bytes(number))),
            _ => None,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// The outside process looked, and was refused.
    #[error("{0}")]
    Refused(String),
    /// The outside process has gone, or does not answer.
    #[error("the outside process does not answer: {0}")]
    Silent(#[from] io::Error),
    /// It was given up after an earlier silence.
    #[error("the outside process has not answered before; start the daemon again")]
    GivenUp,
}

/// The daemon's end.
#[derive(Debug)]
pub struct Outside {
    /// `None`: it did not answer once.
    pipes: Mutex<Option<(ChildStdin, ChildStdout)>>,
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
        Ok(Outside { pipes: Mutex::new(pipes) })
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
        ask_over(&mut pipes, Ask::Record(bytes.len() as u32), bytes)
    }

    fn ask(&self, ask: Ask, more: &[u8]) -> Result<String, OutsideError> {
        ask_over(&mut self.pipes.lock().unwrap_or_else(PoisonError::into_inner), ask, more)
    }
}

/// Asks, and waits for the answer.
fn ask_over(pipes: &mut Option<(ChildStdin, ChildStdout)>, ask: Ask, more: &[u8]) -> Result<String, OutsideError> {
    let (asks, answers) = pipes.as_mut().ok_or(OutsideError::GivenUp)?;
    let answer = asks.write_all(&[&ask.bytes()[..], more].concat()).and_then(|()| answer(answers));
    match answer {
        Ok((true, text)) => Ok(text),
        Ok((false, text)) => Err(OutsideError::Refused(text)),
        Err(error) => {
            // A late answer must not be taken for that of the next question.
            *pipes = None;
            Err(error.into())
        }
    }
}

/// Reads an answer, and waits for each part of it at most [`WITHIN`].
fn answer(from: &mut ChildStdout) -> io::Result<(bool, String)> {
    let mut head = [0; 5];
    read_within(from, &mut head)?;
    let [good, length @ ..] = head;
    // CAST: 32 bits fit.
    let length = u32::from_le_bytes(length) as usize;
    if length > ANSWER_BYTES_MAX {
        return Err(io::Error::other(format!("an answer of {length} bytes, of at most {ANSWER_BYTES_MAX}")));
    }
    let mut text = vec![0; length];
    read_within(from, &mut text)?;
    Ok((good != 0, String::from_utf8_lossy(&text).into_owned()))
}

fn read_within(from: &mut ChildStdout, mut into: &mut [u8]) -> io::Result<()> {
    // CAST: seconds.
    let within = Timespec { tv_sec: WITHIN.as_secs() as i64, tv_nsec: 0 };
    while !into.is_empty() {
        let ready = poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&within));
        match ready {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
        }
        match from.read(into)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => into = &mut into[read..],
        }
    }
    Ok(())
}

/// The name of the program that a process of the operating system runs; `None`: it has gone, or the operating system does not tell.
pub fn name_of(pid: i32) -> Option<String> {
    let name = std::fs::read(PathBuf::from(format!("/proc/{pid}/comm"))).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// The outside process: answers questions until there are none any more. `file`: the one that the daemon may ask for; `records`: the folder
/// of records of crashes.
///
/// # Errors
/// When an answer cannot be written: the daemon has gone.
pub fn look(
    file: Option<&Path>,
    records: Option<&Path>,
    mut asks: impl Read,
    mut answers: impl Write,
) -> io::Result<()> {
    let (mut ask, mut written) = ([0; ASK_BYTES], 0);
    while asks.read_exact(&mut ask).is_ok() {
        let answer = match Ask::of(ask) {
            Some(Ask::Name(pid)) => name_of(pid).ok_or_else(|| format!("process {pid} has no name")),
            Some(Ask::File) => read(file),
            Some(Ask::Record(bytes)) => {
                // CAST: 32 bits fit.
                let mut record = vec![0; (bytes as usize).min(RECORD_BYTES_MAX)];
                asks.read_exact(&mut record)?;
                write(records, &mut written, &record)
            }
            None => Err(format!("no question has the number {}", ask[0])),
        };
        let (good, text) = answer.map_or_else(|error| (0, error), |text| (1, text));
        let mut bytes = vec![good];
        // CAST: files and names have bounds.
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        answers.write_all(&bytes)?;
        answers.flush()?;
    }
    Ok(())
}

fn read(file: Option<&Path>) -> Result<String, String> {
    let file = file.ok_or("the daemon was started without a configuration file")?;
    let mut text = String::new();
    let open = std::fs::File::open(file).map_err(|error| error.to_string())?;
    // CAST: 1 MiB.
    let read = open.take(ANSWER_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    match text.len() > ANSWER_BYTES_MAX {
        true => Err(format!("it has more than {ANSWER_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// A file of its own for a record, that no other user reads.
fn write(folder: Option<&Path>, written: &mut u32, record: &[u8]) -> Result<String, String> {
    let folder = folder.ok_or("the configuration names no folder for records of crashes")?;
    if *written == RECORDS_MAX {
        return Err(format!("this daemon has written all {RECORDS_MAX} records that it may"));
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    let path = folder.join(format!("openwddm-crash-{since}-{}-{written}.txt", std::process::id()));
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let told = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = file.map_err(told)?;
    file.write_all(record).and_then(|()| file.sync_all()).map_err(told)?;
    *written += 1;
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests;
