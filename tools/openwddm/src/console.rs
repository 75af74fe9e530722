//! The streams of this program: all output, errors and logs of all commands go through this module, and through nothing else.
//!
//! # The law of this boundary
//! - Nothing that a terminal would obey gets through ([`printable::text`]); the two exceptions have their own control sequences, the
//!   bar of `progress` and the page of `top`, and clean what they put between.
//! - A reader that has gone has seen enough: standard output swallows what follows, and the command ends as if all had been read.
//! - Any other failure of standard output, such as a full disk, is an error of the command.
//! - A failure of the error stream has no effect: there is no stream left on which to report it.
//!
//! It is no file: those are `output`'s. Called by `entry` and by the commands, which it hands an [`Out`].

use std::io::{self, ErrorKind, IsTerminal, Write};

use rustix::io::Errno;

use crate::error::RunError;
use terminal_text::printable;

/// Standard output as a pipe to another process of this program, which reads bytes there and no person anything.
pub fn pipe() -> impl Write + Send {
    io::stdout()
}

/// Where a command prints. Each write is whole text.
pub struct Out {
    sink: Box<dyn Write>,
    terminal: bool,
    /// The reader has gone.
    unread: bool,
    failed: bool,
}

impl Out {
    /// Standard output.
    pub fn standard() -> Out {
        Out::new(Box::new(io::stdout()), io::stdout().is_terminal())
    }

    /// Output into `sink`.
    pub fn new(sink: Box<dyn Write>, terminal: bool) -> Out {
        Out { sink, terminal, unread: false, failed: false }
    }

    /// Prints text; when this returns it has been written.
    ///
    /// # Errors
    /// [`RunError::Output`].
    pub fn print(&mut self, text: &str) -> Result<(), RunError> {
        self.write_all(text.as_bytes()).and_then(|()| self.flush()).map_err(|error| unwritten(&error))
    }

    /// Prints the help of the command line's parser, with colours where the terminal shows them.
    ///
    /// # Errors
    /// [`RunError::Output`].
    pub fn print_help(&mut self, help: &clap::builder::StyledStr) -> Result<(), RunError> {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let text = if self.terminal && !plain { help.ansi().to_string() } else { help.to_string() };
        // It is this program's own text.
        let written = self.sink.write_all(text.as_bytes()).and_then(|()| self.sink.flush());
        self.judge(written, ()).map_err(|error| unwritten(&error))
    }

    /// Whether something that was printed got lost.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    fn judge<T>(&mut self, done: io::Result<T>, otherwise: T) -> io::Result<T> {
        done.or_else(|error| {
            // A terminal that was hung up answers with an error of the device.
            let hung_up = self.terminal && error.raw_os_error() == Some(Errno::IO.raw_os_error());
            if error.kind() == ErrorKind::BrokenPipe || hung_up {
                self.unread = true;
                return Ok(otherwise);
            }
            self.failed |= error.kind() != ErrorKind::Interrupted;
            Err(error)
        })
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.unread {
            let text = String::from_utf8_lossy(bytes);
            let written = self.sink.write_all(printable::text(&text).as_bytes());
            self.judge(written, ())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.unread {
            return Ok(());
        }
        let flushed = self.sink.flush();
        self.judge(flushed, ())
    }
}

/// Standard output did not take what was printed.
pub fn unwritten(error: &io::Error) -> RunError {
    RunError::Output { problem: error.to_string() }
}

/// Prints text on the error stream.
pub fn complain(text: &str) {
    // See the law above.
    let _ = io::stderr().write_all(printable::text(text).as_bytes());
}

/// The error stream for `progress`, and whether it is a terminal.
pub(crate) fn errors() -> (Box<dyn Write + Send>, bool) {
    (Box::new(io::stderr()), io::stderr().is_terminal())
}

/// The error stream as a log: a line for each write, whatever clients have put into it. It never fails: the logger would report the
/// failure on the same stream, and fail again.
pub struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        complain(&format!("{}\n", printable::escaped(text.trim_end_matches('\n'))));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// Takes some, and then fails.
    struct Sink(Rc<RefCell<Vec<u8>>>, Option<ErrorKind>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.1 {
                Some(kind) => Err(kind.into()),
                None => self.0.borrow_mut().write(bytes),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_gone_ends_nothing_and_a_full_disk_does() {
        for (kind, ends) in [(ErrorKind::BrokenPipe, false), (ErrorKind::StorageFull, true)] {
            let mut out = Out::new(Box::new(Sink(Rc::default(), Some(kind))), false);
            assert_eq!((out.print("a").is_err(), out.has_failed()), (ends, ends), "{kind:?}");
            assert_eq!(out.print("b").is_err(), ends, "{kind:?}");
        }
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let mut out = Out::new(Box::new(Sink(Rc::clone(&seen), None)), false);
        out.print("model \x1b[2J\n").expect("it is written");
        writeln!(out, "\u{9b}0m").expect("it is written");
        assert_eq!(String::from_utf8_lossy(&seen.borrow()), "model \\u001b[2J\n\\u009b0m\n");
    }
}
