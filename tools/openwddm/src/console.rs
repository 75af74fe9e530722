//! What commands give: all output, files, errors and logs of all commands go through this module, and through nothing else.
//!
//! # The law of this boundary
//! - Nothing that a terminal would obey gets through ([`printable::text`]); the two exceptions have their own control sequences, the
//!   bar of `progress` and the page of `top`, and clean what they put between.
//! - A reader that has gone has seen enough: standard output swallows what follows, and the command ends as if all had been read.
//! - An output that cannot be written, such as a file on a full disk or standard output itself, stops nothing: all others are still written and
//!   printed. The command ends with 1 then, and the error stream names each output that is lost ([`Out::end`]).
//! - A failure of the error stream has no effect: there is no stream left on which to report it.
//!
//! `output` judges places for files and writes one. Called by `entry` and by the commands, which it hands an [`Out`].

use std::io::{self, ErrorKind, IsTerminal, Write};

use rustix::io::Errno;

use crate::error::RunError;
use crate::output::Output;
use terminal_text::printable;

/// Standard output as a pipe to another process of this program, which reads bytes there and no person anything.
pub fn pipe() -> impl Write + Send {
    io::stdout()
}

/// Where the results of a command go: text that it prints, in writes of whole text, and files.
pub struct Out {
    sink: Box<dyn Write>,
    terminal: bool,
    /// The reader has gone, or text got lost: nothing more is printed.
    unread: bool,
    lost: Vec<RunError>,
}

impl Out {
    /// Standard output.
    pub fn standard() -> Out {
        Out::new(Box::new(io::stdout()), io::stdout().is_terminal())
    }

    /// Output into `sink`.
    pub fn new(sink: Box<dyn Write>, terminal: bool) -> Out {
        Out { sink, terminal, unread: false, lost: Vec::new() }
    }

    /// Prints text; when this returns it has been written, or is lost.
    pub fn print(&mut self, text: &str) {
        self.put(printable::text(text).as_bytes());
    }

    /// Writes a file. Returns whether it is written; one that is not is lost.
    pub fn file(&mut self, output: &Output, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> bool {
        output.write(content).map_err(|error| self.lose(error)).is_ok()
    }

    /// An output got lost elsewhere.
    pub fn lose(&mut self, error: RunError) {
        self.lost.push(error);
    }

    /// What got lost: the command has ended.
    pub fn end(self) -> Vec<RunError> {
        self.lost
    }

    /// Prints the help of the command line's parser, with colours where the terminal shows them.
    pub fn print_help(&mut self, help: &clap::builder::StyledStr) {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let text = if self.terminal && !plain { help.ansi().to_string() } else { help.to_string() };
        // It is this program's own text.
        self.put(text.as_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.unread {
            return;
        }
        let Err(error) = self.sink.write_all(bytes).and_then(|()| self.sink.flush()) else { return };
        self.unread = true;
        // A terminal that was hung up answers with an error of the device.
        let hung_up = self.terminal && error.raw_os_error() == Some(Errno::IO.raw_os_error());
        if error.kind() != ErrorKind::BrokenPipe && !hung_up {
            self.lose(RunError::Output { problem: error.to_string() });
        }
    }
}

/// As [`Out::print`]: it never fails.
impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.print(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
    fn a_reader_that_has_gone_loses_nothing_and_a_full_disk_does() {
        for (kind, ends) in [(ErrorKind::BrokenPipe, false), (ErrorKind::StorageFull, true)] {
            let mut out = Out::new(Box::new(Sink(Rc::default(), Some(kind))), false);
            out.print("a");
            out.print("b");
            assert_eq!(out.end().len(), usize::from(ends), "{kind:?}: it is told once");
        }
    }

    #[test]
    fn what_cannot_be_written_is_named_and_all_else_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let (seen, whole) = (Rc::new(RefCell::new(Vec::new())), folder.path().join("whole"));
        let mut out = Out::new(Box::new(Sink(Rc::clone(&seen), None)), false);
        let mut file = |role, path: &std::path::Path| {
            let output = Output::check(role, path).expect("a good place");
            out.file(&output, |sink| sink.write_all(b"all of it"))
        };
        assert!(!file("--json", "/dev/full".as_ref()) && file("--report", &whole));
        assert!(!file("--trace", "/dev/full".as_ref()));
        out.print("the table");
        assert_eq!(std::fs::read(whole).expect("a file"), b"all of it");
        assert_eq!(*seen.borrow(), b"the table");
        let lost: Vec<String> = out.end().iter().map(ToString::to_string).collect();
        assert!(lost.len() == 2 && lost[0].contains("--json") && lost[1].contains("--trace"), "{lost:?}");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let mut out = Out::new(Box::new(Sink(Rc::clone(&seen), None)), false);
        out.print("model \x1b[2J\n");
        writeln!(out, "\u{9b}0m").expect("it is written");
        assert_eq!(String::from_utf8_lossy(&seen.borrow()), "model \\u001b[2J\n\\u009b0m\n");
    }
}
