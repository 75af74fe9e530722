//! The outside process: the daemon can open no file once it has given files up, so a second process of the same program looks at the few that
//! it still needs: the names of the programs that connect, and the configuration when it is to be read again. The daemon starts the process
//! before it gives anything up.
//!
//! # The law of this boundary
//! - The daemon asks two questions and no other ([`Ask`]), and neither names a path: the outside process was told its one file at its start. So a
//!   daemon that an attacker has taken over reads names and that file through it, and nothing else.
//! - The outside process may read beneath `/proc` and beneath the folder of its file (Landlock); it ends when its input ends, with the daemon.
//! - The daemon waits for an answer at most [`WITHIN`]. If the outside process does not answer, it is asked nothing more, and the daemon
//!   serves on, without names.
//!
//! A question is its kind in one byte and a number in four; an answer is one byte (0: it is the text of an error), its length in four bytes, and
//! its text.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the daemon waits for an answer.
const WITHIN: Duration = Duration::from_secs(2);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The bytes of a question.
const ASK_BYTES: usize = 5;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// The name of the program that this process runs.
    Name(i32),
    /// The text of the file.
    File,
}

impl Ask {
    fn bytes(self) -> [u8; ASK_BYTES] {
        let (kind, number) = match self {
            Ask::Name(pid) => (1, pid),
            Ask::File => (2, 0),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }

    fn of([kind, number @ ..]: [u8; ASK_BYTES]) -> Option<Ask> {
        match kind {
            1 => Some(Ask::Name(i32::from_le_bytes(number))),
            2 => Some(Ask::File),
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
        self.ask(Ask::Name(pid)).ok()
    }

    /// The text of the file, as it is at its path now.
    ///
    /// # Errors
    /// See [`OutsideError`].
    pub fn file(&self) -> Result<String, OutsideError> {
        self.ask(Ask::File)
    }

    fn ask(&self, ask: Ask) -> Result<String, OutsideError> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let (asks, answers) = pipes.as_mut().ok_or(OutsideError::GivenUp)?;
        let answer = asks.write_all(&ask.bytes()).and_then(|()| answer(answers));
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

/// The outside process: answers questions until there are none any more. `file`: the one that the daemon may ask for.
///
/// # Errors
/// When an answer cannot be written: the daemon has gone.
pub fn look(file: Option<&Path>, mut asks: impl Read, mut answers: impl Write) -> io::Result<()> {
    let mut ask = [0; ASK_BYTES];
    while asks.read_exact(&mut ask).is_ok() {
        let answer = match Ask::of(ask) {
            Some(Ask::Name(pid)) => name_of(pid).ok_or_else(|| format!("process {pid} has no name")),
            Some(Ask::File) => read(file),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers to these bytes.
    fn answers(file: Option<&Path>, asks: &[u8]) -> Vec<(bool, String)> {
        let mut out = Vec::new();
        look(file, asks, &mut out).expect("memory takes everything");
        let (mut rest, mut answers) = (&out[..], Vec::new());
        while let Some((head, more)) = rest.split_first_chunk::<5>() {
            let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
            answers.push((head[0] == 1, String::from_utf8(more[..length].to_vec()).expect("text")));
            rest = &more[length..];
        }
        answers
    }

    #[test]
    fn a_process_has_a_name_while_it_is_there() {
        // CAST: the operating system's numbers fit.
        let own = std::process::id() as i32;
        let known = name_of(own).expect("this program has a name");
        assert!(!known.is_empty() && !known.ends_with('\n'));
        let asks = [Ask::Name(own).bytes(), Ask::Name(i32::MAX).bytes(), Ask::Name(own).bytes()].concat();
        let [first, none, again] = <[_; 3]>::try_from(answers(None, &asks)).expect("three answers");
        assert_eq!((first, again), ((true, known.clone()), (true, known)));
        assert_eq!(none, (false, format!("process {} has no name", i32::MAX)));
    }

    #[test]
    fn the_file_is_read_anew_at_its_path_and_no_other_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, "a").expect("a file");
        assert_eq!(answers(Some(&path), &Ask::File.bytes()), [(true, "a".to_owned())]);
        std::fs::write(folder.path().join("new"), "bc").expect("a file");
        std::fs::rename(folder.path().join("new"), &path).expect("it takes its place");
        assert_eq!(answers(Some(&path), &Ask::File.bytes()), [(true, "bc".to_owned())]);
        std::fs::write(&path, vec![b'x'; ANSWER_BYTES_MAX + 1]).expect("a file");
        assert!(!answers(Some(&path), &Ask::File.bytes())[0].0, "it is too long");
        assert!(!answers(None, &Ask::File.bytes())[0].0, "there is none");
        assert_eq!(answers(Some(&path), &[9, 0, 0, 0, 0]), [(false, "no question has the number 9".to_owned())]);
        assert_eq!(answers(Some(&path), &[2, 0, 0]), [], "a part of a question");
    }

    #[test]
    fn a_process_that_does_not_speak_is_asked_once() {
        let outside = Outside::start(Command::new("true")).expect("it starts");
        assert!(matches!(outside.file(), Err(OutsideError::Silent(_))));
        assert!(matches!(outside.file(), Err(OutsideError::GivenUp)));
        assert_eq!(outside.name_of(1), None);
    }
}
