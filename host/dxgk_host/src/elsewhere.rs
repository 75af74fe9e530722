//! Processes elsewhere: what the kernel does to the memory of a process that is not in this program is told to whoever speaks for it.
//! Called under the machine's lock, so whoever is told notes it and says it later; it answers by [`crate::Host::mapping_holds`].

use std::sync::Arc;

use kmt_calls::{MappingId, Notification};
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

    /// The kernel tells the process something.
    fn notify(&self, notification: Notification);

    /// The process cannot be told what it would have to know, for this reason: it is to be ended.
    fn lost(&self, reason: &str);
}
