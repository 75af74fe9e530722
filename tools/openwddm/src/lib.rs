//! The command line: reads arguments, runs a workload, writes the outcome.
//!
//! A run leaves an [`outcome::Outcome`]: numbers and a recording. Everything else here turns one into something that people
//! look at: a table on the terminal, a JSON file, a Perfetto trace, a report that needs nothing but a browser. Trace and
//! report draw the same [`timeline::Timeline`], so they cannot disagree about what happened.
//!
//! ```text
//! main → entry → arguments            words become options, or a refusal
//!          │
//!          ├→ adapters             what a profile has, asked of the started kernel
//!          ├→ bench_command        measures against peers and limits (`bench`, `fences`)
//!          ├→ bound_command        the fewest bytes for a workload (`bound`)
//!          ├→ faults               the forms of failures on demand
//!          ├→ pages                the manual and completions of shells
//!          ├→ present              pictures on a display
//!          ├→ replay_calls         a C program's recorded calls, made again
//!          ├→ serve                a kernel for other processes; → metrics, its figures (`activity`)
//!          ├→ sweep_command        the same work at many memory sizes; → sweep, its runs, rows and picture
//!          ├→ top                  what such a kernel does (`activity`)
//!          ├→ connected            workloads at such a kernel
//!          └→ run_command → output    places for files, judged before the run
//!                 │       → run       the seam to the kernel; → progress while it works
//!                 │       → table     the terminal
//!                 └→ timeline → perfetto, report
//! ```
//! All of them print through `console`; text from elsewhere goes through `terminal_text::printable` first.
//!
//! It is a library so that examples and tests reach it; its interface is for the binary only and may change, but for [`mod@sweep`], which
//! other programs may call, too.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod adapters;
pub mod arguments;
pub mod bench_command;
pub mod bound_command;
pub mod connected;
pub mod console;
pub mod entry;
pub mod error;
pub mod faults;
pub mod hangs;
pub mod imported;
pub mod interruption;
pub mod link;
pub mod metrics;
pub mod outcome;
pub mod output;
pub mod owners;
pub mod pages;
pub mod perfetto;
pub mod placed;
pub mod present;
pub mod progress;
pub mod replay_calls;
pub mod report;
pub mod run;
pub mod run_command;
pub mod serve;
pub mod size;
pub mod sweep;
pub mod sweep_command;
pub mod table;
pub mod timeline;
pub mod top;

// The generator of test outcomes calls this library by its name, from here as from outside.
#[cfg(test)]
extern crate self as openwddm;
#[cfg(test)]
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;
