//! The activity of a kernel: its figures, asked over a link as any process may ask them, for people on a page of the terminal ([`top`])
//! and for collectors as text ([`metrics`]).
//!
//! It is a client like any other, with no device and no right of its own. The command line calls it, and turns its errors into words
//! about arguments.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod feed;
#[cfg(test)]
mod fixture;
pub mod metrics;
pub mod top;
