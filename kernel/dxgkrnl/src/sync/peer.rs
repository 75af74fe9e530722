//! The doorbells of an adapter's peers (sync §3.18): its inbox, in which they ring. `cross_adapter` decides which peers hear of which
//! fences.

use wddm_types::{PAGE_BYTES, PageRun};

use super::Synchronization;

/// An adapter's doorbells from GPU to GPU.
#[derive(Debug, Default)]
pub(super) struct Peers {
    inbox: Option<PageRun>,
    /// One linear storage for fences that are created here.
    linear: bool,
}

impl Synchronization {
    /// The adapter gets its inbox; `linear`: fences that are created here have one storage for all adapters.
    pub fn give_inbox(&mut self, page: PageRun, linear: bool) {
        debug_assert!(self.peers.inbox.is_none(), "an adapter has one inbox");
        self.peers = Peers { inbox: Some(page), linear };
    }

    /// The place of its inbox in system memory; `None`: no peer rings it, and it rings none.
    pub fn inbox(&self) -> Option<u64> {
        self.peers.inbox.map(|page| page.first * PAGE_BYTES)
    }

    /// Whether a fence that is created here has one storage for all.
    pub fn has_linear_storage(&self) -> bool {
        self.peers.linear
    }
}
