//! Processes elsewhere: the host tells the speaker of a process that is not in this program what the kernel does to that process's memory.
//! The host calls under the machine's lock, so the speaker notes the change and sends it later; it answers by
//! [`crate::Host::mapping_holds`].

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
pub trait RemoteProcess: Send + Sync {
    /// A locked allocation shows this from now on. If the mapping showed something before, the kernel waits for the speaker's answer.
    fn shows(&self, mapping: MappingId, size_bytes: u64, pieces: Vec<FilePiece>);

    /// The process must let no store into it through until it shows something; the kernel waits for the speaker's answer.
    fn protected(&self, mapping: MappingId);

    /// The mapping is gone.
    fn gone(&self, mapping: MappingId);

    /// The process has a doorbell, whose page is in this file for the doorbell's life. The process rings with the barrier of a process
    /// other than the device's, and has [`crate::Host::doorbell_rung`] called when the page says that the engine sleeps.
    fn doorbell(&self, address: DoorbellAddress, page: Arc<LentFile>);

    /// The process has lost that doorbell.
    fn doorbell_gone(&self, address: DoorbellAddress);

    /// The kernel tells the process something.
    fn notify(&self, notification: Notification);

    /// A tool traces native fences from now on, or none does: the process is to say what it submits ([`crate::Host::fences_queued`]), or need
    /// not any more. At first none does.
    fn traces(&self, on: bool);

    /// The host cannot serve the process any more, for this reason: the speaker ends it.
    fn lost(&self, reason: &str);
}
