//! What devices and processes have in parts that have no record of their own yet.

use std::collections::BTreeSet;

use shared_words::ClientAccess;

use crate::context_allocation::ContextAllocation;
use crate::fence_log::LogPool;
use crate::number::{AllocationNumber, FenceOpenNumber, ResourceNumber};
use crate::word_page::WordPages;

/// The words and logs of a process on one adapter that no part has yet; its facts are in `owners`, its fences in `sync`.
#[derive(Debug)]
pub struct ProcessOnAdapter {
    /// Words that the process writes (last-queued values).
    pub user_words: WordPages,
    /// Logs of its queues, mapped likewise.
    pub logs: LogPool,
    /// Words that it only reads: doorbell status, fences without GPU access.
    pub status_words: WordPages,
    /// The ring's position at which the last fence words are mapped.
    pub words_mapped_at: u64,
    /// The ring's position at which the last allocation of a present is mapped.
    pub views_mapped_at: u64,
}

impl ProcessOnAdapter {
    /// One that has nothing yet.
    pub fn new() -> ProcessOnAdapter {
        ProcessOnAdapter {
            logs: Default::default(),
            user_words: WordPages::new(ClientAccess::ReadWrite),
            status_words: WordPages::new(ClientAccess::Read),
            words_mapped_at: 0,
            views_mapped_at: 0,
        }
    }
}

/// The objects of a device, and its state in the parts that have no record of their own yet; its facts are in `owners`.
#[derive(Debug)]
pub struct Device {
    /// Works under way that move content of its list within a segment.
    pub relocations: u32,
    /// Works that change its page tables while it is quiesced.
    pub table_changes: u32,
    pub allocations: BTreeSet<AllocationNumber>,
    pub resources: BTreeSet<ResourceNumber>,
    /// The driver's allocations for all its contexts.
    pub context_allocations: Vec<ContextAllocation>,
    /// Its opens of fences.
    pub fences: BTreeSet<FenceOpenNumber>,
}
