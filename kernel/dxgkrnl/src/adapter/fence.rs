//! Fences with a word in memory, and MonitoredValue (sync §1.5, §3.2–§3.9). `lifetime` makes and ends them, `storage` places
//! their words, `signal` has the kernel's signals, `signaled` the engines'; `monitored` is about
//! monitored fences alone, `periodic` about those that displays signal, `cross` about fences of several
//! adapters. Which fences there are, and which waits a value ends, `sync` knows.
//!
//! The kernel never trusts a published MonitoredValue to have come in time: after each update it samples the fence again, and the waits
//! that this releases may change the value once more, until nothing changes (sync §3.9).

mod cross;
mod lifetime;
mod local;
mod monitored;
mod moved;
mod open;
mod page;
mod periodic;
mod signal;
mod signaled;
mod storage;

pub use open::Opened;
