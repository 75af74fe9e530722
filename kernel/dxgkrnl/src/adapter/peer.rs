//! The adapter's doorbells for its peers, out of a page of the kernel and with the driver (sync §3.18).

use wddm_types::{AdapterIndex, PAGE_BYTES, Pages};

use crate::adapter::Adapter;
use crate::effect::Cx;

impl Adapter {
    /// Gives the adapter an inbox, if its driver has doorbells, its fences are native and its number has a lane. One for which there is
    /// no page goes without.
    // spec: sync §3.18: a capability of both, else sync §3.12
    pub fn make_inbox(&mut self, cx: &Cx<'_>) {
        let number = self.index.0;
        let Some(caps) = self.driver.facets().peer_doorbells.filter(|_| self.driver.has_native_fences()) else {
            return;
        };
        if u64::from(number) >= shared_words::peer::LANES {
            return;
        }
        let Some(page) = self.take_kernel_pages(cx, Pages(1)) else { return };
        cx.memory.fill(page.first * PAGE_BYTES, PAGE_BYTES, 0);
        self.sync.give_inbox(page, caps.linear_storage);
        self.driver.call(cx).peer_doorbells().expect("it has them").set_inbox(number, page.first * PAGE_BYTES);
    }

    /// Tells the driver where another adapter's inbox is.
    pub fn connect_peer(&mut self, cx: &Cx<'_>, peer: AdapterIndex, inbox: u64) {
        if let Some(doorbells) = self.driver.call(cx).peer_doorbells().filter(|_| self.sync.inbox().is_some()) {
            doorbells.connect_peer(peer.0, inbox);
        }
    }
}
