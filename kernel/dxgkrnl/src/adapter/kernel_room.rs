//! The kernel's own pages grow: words, logs and buffers that calls make are limited by memory and by quotas, not by what was set aside at
//! the start. They grow by runs of `vidmm`'s system pages, and give each back of which no page is used any more. The driver's part hands
//! them out.

use wddm_types::{PageRun, Pages};

use crate::adapter::Adapter;
use crate::effect::Cx;

/// The pages by which they grow, where there are so many in one piece: 1 MiB.
const GROWTH: Pages = Pages(256);

impl Adapter {
    /// Consecutive pages of the kernel's own; `None`: system memory is used up.
    pub(super) fn take_kernel_pages(&mut self, cx: &Cx<'_>, count: Pages) -> Option<PageRun> {
        self.make_kernel_room(cx, count);
        self.driver.pages().take(count)
    }

    /// Grows the kernel's pages where they have not so many in one piece.
    pub(super) fn make_kernel_room(&mut self, cx: &Cx<'_>, count: Pages) {
        if self.driver.pages().has_room(count) {
            return;
        }
        let sizes = [GROWTH.0.max(count.0), count.0];
        if let Some(run) = sizes.into_iter().find_map(|pages| self.vidmm.allocate_system(pages)) {
            self.revoke_returned(cx);
            self.driver.pages().grow(run);
        }
    }

    /// Gives back what the kernel's pages have grown by and nothing uses any more.
    pub(super) fn shrink_kernel_pages(&mut self) {
        while let Some(run) = self.driver.pages().take_unused() {
            self.vidmm.free_system(run);
        }
    }
}
