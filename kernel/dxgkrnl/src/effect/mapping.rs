//! The changes of mappings that the kernel tells the outside, and the outside's answers.

use wddm_types::{CpuRun, ProcessId};

/// A change of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingChange {
    /// It is there.
    Made {
        /// The process that has it.
        process: ProcessId,
        /// Its size.
        size_bytes: u64,
        /// The places that it shows.
        runs: Vec<CpuRun>,
    },
    /// No write gets through any more: a thread that writes waits; one that reads, reads on. The outside answers by
    /// [`Machine::mapping_changed`](crate::Machine::mapping_changed) with this change's number when that holds.
    Protected,
    /// It shows other places, and writes get through. The outside answers in the same way: [`Heard::Done`] when no access reaches the
    /// places that it showed before, [`Heard::Seen`] when its process sees the new ones, or both at once by the second.
    Shown(Vec<CpuRun>),
    /// Its content is at these places and moves on at once, so its process need not be told: the places that it showed before keep their
    /// content, and no write gets through. The next change is a [`MappingChange::Shown`], or it goes. The outside answers it as it
    /// answers that.
    Passed(Vec<CpuRun>),
    /// It is gone; a thread that waits in it goes on. Its pages are lent no more, and their content is lost.
    Gone,
    /// Its process has it no more; a thread that waits in it goes on. The outside goes on lending its pages and hears of changes of what
    /// it shows, without a process that answers: the outside answers this change by itself, and later ones when it has carried them out.
    Unmapped,
    /// Unmapped before, it is gone, and its pages are the adapter's own again, with their content. The outside answers when that is so.
    Left,
}

/// The outside's answer to a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The outside has done its part: no access reaches the places that a mapping has left. Its process may still see what they held, and
    /// none of its stores gets through before it sees the new places.
    Done,
    /// Its process sees it.
    Seen,
}
