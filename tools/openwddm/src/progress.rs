//! One line that says how far the work is: a bar on a terminal, a plain line every ten percent elsewhere.
//!
//! It goes to the error stream, so that the output of a command stays clean. It has no thread of its own: the working threads call
//! [`Progress::advance`].

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::console;
use terminal_text::printable;

/// Where the work stands.
pub struct Progress {
    state: Mutex<ProgressLine>,
}

impl Progress {
    /// Progress on the error stream.
    pub fn on_stderr() -> Progress {
        let (sink, terminal) = console::errors();
        Progress::new(sink, terminal)
    }

    /// Progress into `sink`, as a bar when it is a terminal.
    pub fn new(sink: Box<dyn Write + Send>, terminal: bool) -> Progress {
        let state = ProgressLine { sink, terminal, what: String::new(), total: 0, tenth: 0, drawn: None };
        Progress { state: Mutex::new(state) }
    }

    /// Progress that nothing shows.
    pub fn silent() -> Progress {
        Progress::new(Box::new(std::io::sink()), false)
    }

    /// Work of `total` parts begins. Its name may come from elsewhere.
    pub fn begin(&self, what: &str, total: u64) {
        self.with(|state| {
            (state.what, state.total, state.tenth, state.drawn) = (printable::name(what), total, 0, None);
            state.draw(0);
        });
    }

    /// `done` parts of the total are done.
    pub fn advance(&self, done: u64) {
        self.with(|state| state.draw(done));
    }

    /// The work is over, done or not: the bar goes away.
    pub fn finish(&self) {
        self.with(ProgressLine::clear);
    }

    fn with(&self, change: impl FnOnce(&mut ProgressLine)) {
        // A panic elsewhere does not make the line wrong enough to panic again.
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

struct ProgressLine {
    sink: Box<dyn Write + Send>,
    terminal: bool,
    what: String,
    total: u64,
    /// Tenths said so far, when the sink is no terminal.
    tenth: u64,
    drawn: Option<Instant>,
}

/// A terminal is redrawn at most this often.
const REDRAW: Duration = Duration::from_millis(50);
const BAR_CELLS: usize = 30;

impl ProgressLine {
    fn draw(&mut self, done: u64) {
        let total = self.total.max(1);
        let done = done.min(total);
        let percent = (u128::from(done) * 100 / u128::from(total)) as u64; // CAST: at most 100
        // Where progress goes is no reason to fail: a closed stream is ignored.
        if self.terminal {
            let fresh = self.drawn.is_none_or(|at| at.elapsed() >= REDRAW);
            if fresh || done == total {
                let full = BAR_CELLS * percent as usize / 100; // CAST: at most 100
                let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR_CELLS - full));
                let _ = write!(self.sink, "\r\x1b[2K{bar} {percent:3} %  {} {done}/{}", self.what, self.total);
                let _ = self.sink.flush();
                self.drawn = Some(Instant::now());
            }
        } else if percent / 10 > self.tenth {
            self.tenth = percent / 10;
            let _ = writeln!(self.sink, "{}: {} %", self.what, self.tenth * 10);
        }
    }

    fn clear(&mut self) {
        if self.terminal && self.drawn.take().is_some() {
            let _ = write!(self.sink, "\r\x1b[2K");
            let _ = self.sink.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(terminal: bool) -> String {
        let text = Arc::new(Mutex::new(Vec::new()));
        let progress = Progress::new(Box::new(Shared(text.clone())), terminal);
        progress.begin("steps", 1000);
        (0..=1000).for_each(|done| progress.advance(done));
        progress.finish();
        String::from_utf8(text.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn without_a_terminal_one_line_every_ten_percent() {
        let lines: Vec<String> = (1..=10).map(|tenth| format!("steps: {tenth}0 %")).collect();
        assert_eq!(written(false).lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn names_from_elsewhere_keep_to_their_line() {
        let text = Arc::new(Mutex::new(Vec::new()));
        let progress = Progress::new(Box::new(Shared(text.clone())), true);
        progress.begin("model\x1b[2J\r\n", 1);
        let text = String::from_utf8(text.lock().unwrap().clone()).unwrap();
        assert!(text.contains(r"model\u001b[2J\u000d\u000a 0/1"), "{text:?}");
    }

    #[test]
    fn on_a_terminal_one_line_that_is_rewritten_and_goes_away() {
        let text = written(true);
        assert!(!text.contains('\n'));
        assert!(text.contains("100 %  steps 1000/1000"));
        assert!(text.ends_with("\r\x1b[2K"));
    }
}
