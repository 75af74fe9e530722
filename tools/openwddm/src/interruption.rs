//! The signals that ask this program to end: which of them came first, whether a later one asks again, and the exit code that says so. SIGQUIT
//! ends it as it does any program, with the terminal as it was.
//! `entry` installs the handler for commands that end with what they have reached; the daemon has a handler of its own.
//!
//! ```text
//! SIGINT, SIGTERM or SIGHUP ──► the command ends with what it has: exit code 130, 143 or 129
//!        │ more within 250 ms   the same request: GNU `timeout` signals its command, and then the command's whole group
//!        └ one later ─────────► the program ends at once
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::console::complain;
use crate::output;

/// Exit code of a command that Ctrl-C ended, and what commands return however they were interrupted ([`exit_code`]).
pub const INTERRUPTED: u8 = 130;

/// Signals so soon behind the first belong to it.
const ONE_REQUEST: Duration = Duration::from_millis(250);

/// The code of the first signal; 0: none came. A program has one, as its signals are those of all its threads.
static CODE: AtomicU8 = AtomicU8::new(0);

/// The meaning of a signal for the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// The command ends with what it has.
    End,
    /// It has been said already.
    Repeated,
    /// The program ends now.
    AtOnce,
}

/// The signals so far.
#[derive(Default)]
struct Requests {
    first: Option<Duration>,
}

impl Requests {
    /// A signal comes at this time.
    fn hear(&mut self, now: Duration) -> Request {
        match self.first {
            None => {
                self.first = Some(now);
                Request::End
            }
            Some(first) if now.saturating_sub(first) < ONE_REQUEST => Request::Repeated,
            Some(_) => Request::AtOnce,
        }
    }
}

/// The flag that the first signal raises.
pub fn flag() -> Arc<AtomicBool> {
    let cancel = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&cancel);
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    // `nohup`, or a shell that starts a command in the background, has a signal ignored; it stays ignored.
    let heard = [SIGINT, SIGTERM, SIGHUP, SIGQUIT].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let listening = Signals::new(heard)
        .and_then(|signals| thread::Builder::new().name("signals".to_owned()).spawn(move || listen(signals, &raised)));
    if let Err(error) = listening {
        complain(&format!("note: Ctrl-C will end the run without a result: {error}\n"));
    }
    cancel
}

/// The signals that a process ignores, a bit each from signal 1 on, as procfs tells them (`SigIgn`); none if it does not.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn listen(mut signals: Signals, raised: &AtomicBool) {
    let (began, mut requests) = (Instant::now(), Requests::default());
    for signal in signals.forever() {
        if signal == SIGQUIT {
            activity::top::screen::give_back_if_taken();
            // It does not come back: the default action ends the program.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
        match requests.hear(began.elapsed()) {
            Request::End => {
                CODE.store(code_of(signal), Ordering::SeqCst);
                raised.store(true, Ordering::SeqCst);
            }
            Request::Repeated => {}
            Request::AtOnce => {
                // This exit drops no values: the handler does the cleaning up that their destructors would do.
                output::abandon();
                activity::top::screen::give_back_if_taken();
                std::process::exit(i32::from(code_of(signal)));
            }
        }
    }
}

/// 128 and the signal's number, as shells count.
fn code_of(signal: i32) -> u8 {
    // CAST: 129, 130 or 143.
    (128 + signal) as u8
}

/// The exit code of a command that returned `code`: an interrupted one ends with that of the signal that interrupted it.
pub fn exit_code(code: u8) -> u8 {
    match (code, CODE.load(Ordering::SeqCst)) {
        (INTERRUPTED, signal @ 1..) => signal,
        _ => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_come_together_are_one_request_and_a_later_one_is_another() {
        let mut requests = Requests::default();
        let heard = [1_000, 1_000, 1_001, 1_249, 1_250].map(|ms| requests.hear(Duration::from_millis(ms)));
        use Request::*;
        assert_eq!(heard, [End, Repeated, Repeated, Repeated, AtOnce]);
    }

    #[test]
    fn ignored_signals_are_those_of_the_mask() {
        let status =
            "Name:\topenwddm\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t00000001800004e8\n";
        let of = ignored(status);
        assert_eq!([SIGHUP, SIGINT, SIGTERM].map(|signal| of >> (signal - 1) & 1), [1, 0, 0]);
        assert_eq!((ignored(""), ignored("SigIgn:\tmany\n")), (0, 0));
    }

    #[test]
    fn codes_are_those_of_shells_and_only_an_interruption_has_them() {
        assert_eq!([SIGINT, SIGTERM, SIGHUP].map(code_of), [INTERRUPTED, 143, 129]);
        assert_eq!([0, 1, 2, INTERRUPTED].map(exit_code), [0, 1, 2, INTERRUPTED], "no signal has come");
    }
}
