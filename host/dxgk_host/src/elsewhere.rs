//! Processes elsewhere: what the kernel does to the memory of a process that is not in this program is told to whoever speaks for it.
//! Called under the machine's lock, so whoever is told notes it and says it later; it answers by [`crate::Host::mapping_holds`].

use std::sync::Arc;

use kmt_calls::{DoorbellAddress, MappingId, Notification};
use shared_words::LentFile;

/// Consecutive bytes of a file that a process may map.
#[derive(Clone, Debug)]
pub struct FilePiece {
    /// The file.
    pub file: Arc<LentFile>,
    /// First byte in it.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

/// Speaks for a process elsewhere. No method waits for anything.
pub trait Elsewhere: Send + Sync {
    /// A locked allocation shows this from now on. If it was there before, the kernel waits to be told that it holds.
    fn shows(&self, mapping: MappingId, size_bytes: u64, pieces: Vec<FilePiece>);

    /// No store of the process into it gets through until it shows something; the kernel waits to be told that it holds.
    fn protected(&self, mapping: MappingId);

    /// It is gone.
    fn gone(&self, mapping: MappingId);

    /// It has a doorbell, whose page is in this file for the doorbell's life: to be rung there with the barrier of a process that is another
    /// one than the device's, and [`crate::Host::doorbell_rung`] when it says that its engine sleeps.
    fn doorbell(&self, address: DoorbellAddress, page: Arc<LentFile>);

    /// It has it no more.
    fn doorbell_gone(&self, address: DoorbellAddress);

    /// The kernel tells the process something.
    fn notify(&self, notification: Notification);

    /// A tool traces native fences from now on, or none does: the process is to say what it submits ([`crate::Host::fences_queued`]), or need
    /// not any more. At first none does.
    fn traces(&self, on: bool);

    /// The process cannot be told what it would have to know, for this reason: it is to be ended.
    fn lost(&self, reason: &str);
}
