//! The doorbells of an adapter's peers (sync §3.18): its inbox, and the inboxes that it knows. `cross_adapter` decides which peers hear
//! of which fences.

use wddm_types::{AdapterIndex, PAGE_BYTES, PageRun, Pages};

use crate::adapter::Adapter;

/// An adapter's doorbells from GPU to GPU.
#[derive(Debug, Default)]
pub struct Peers {
    inbox: Option<PageRun>,
    /// One linear storage for fences that are created here.
    linear: bool,
}

impl Peers {
    /// The place of its inbox in system memory; `None`: no peer rings it, and it rings none.
    pub fn inbox(&self) -> Option<u64> {
        self.inbox.map(|page| page.first * PAGE_BYTES)
    }

    /// Whether a fence that is created here has one storage for all.
    pub fn is_linear(&self) -> bool {
        self.linear
    }
}

impl Adapter {
    /// Gives the adapter an inbox, if its driver has doorbells, its fences are native and its number has a lane. One for which there is
    /// no page goes without.
    // spec: sync §3.18: a capability of both, else sync §3.12
    pub fn make_inbox(&mut self) {
        let number = self.index.0;
        let Some(caps) = self.driver.facets().peer_doorbells.filter(|_| self.driver.has_native_fences()) else {
            return;
        };
        if u64::from(number) >= shared_words::peer::LANES {
            return;
        }
        let Some(page) = self.take_kernel_pages(Pages(1)) else { return };
        self.memory.fill(page.first * PAGE_BYTES, PAGE_BYTES, 0);
        self.peers = Peers { inbox: Some(page), linear: caps.linear_storage };
        self.driver.peer_doorbells().expect("it has them").set_inbox(number, page.first * PAGE_BYTES);
    }

    /// Tells the driver where another adapter's inbox is.
    pub fn connect_peer(&mut self, peer: AdapterIndex, inbox: u64) {
        if let Some(doorbells) = self.driver.peer_doorbells().filter(|_| self.peers.inbox.is_some()) {
            doorbells.connect_peer(peer.0, inbox);
        }
    }
}
