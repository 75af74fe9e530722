//! The seam to files that processes hand over: memory that a process shares with others already, which a section takes as it is (memory
//! §2.7). The host is behind it, and has looked at each file; the kernel says which of its pages such a file takes the place of, and for
//! how long. Called under the machine's lock.
//!
//! # The law of this boundary
//! - A file is one process's, by a number that the host has given it: the host refuses that number to another process.
//! - **Nothing is cleared.** The content is the process's, before and after.
//! - What has been taken is returned before the pages get another owner.

use wddm_types::{PageRun, ProcessId};

/// The files that processes hand over to sections of one adapter.
pub trait GivenMemory: Send + Sync + std::fmt::Debug {
    /// Puts the file that a process has handed over under a number, with its content, in the place of these system pages,
    /// which are unused.
    ///
    /// # Errors
    /// Why not; the pages are what they were.
    fn takes(&self, process: ProcessId, given: u64, runs: &[PageRun]) -> Result<(), String>;

    /// These system pages are the kernel's own again. The process keeps the file's content.
    fn returns(&self, runs: &[PageRun]);
}
