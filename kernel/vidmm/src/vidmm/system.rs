//! System pages: those of the kernel itself (fence words, rings, paging buffers), and those of dead allocations on their
//! way back to the pool. The kernel's paging ring calls it.

use wddm_types::{PageRun, Pages};

use crate::slab::AllocationId;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// The hardware has completed the work with this serial, and with it every earlier one: the ring keeps order.
    pub fn completed(&mut self, serial: u64) {
        self.system.ring_passed(self.works.complete(serial));
    }

    /// Serial of the last completed work.
    pub fn completed_serial(&self) -> u64 {
        self.works.completed()
    }

    /// Most that one sub-transfer moves ([`Policy::transfer_pages_max`](crate::Policy::transfer_pages_max)).
    pub fn transfer_pages_max(&self) -> Pages {
        self.policy.transfer_pages_max
    }

    /// Consecutive system pages for the kernel itself; `None`: scarcity.
    pub fn allocate_system(&mut self, pages: u64) -> Option<PageRun> {
        if pages == 0 { None } else { self.system.take_run(pages) }
    }

    /// System pages wherever they are, for memory that a process has before any allocation; `None`: scarcity.
    pub fn allocate_scattered(&mut self, pages: u64) -> Option<Vec<PageRun>> {
        if pages == 0 { None } else { self.system.take_scattered(pages) }
    }

    /// Gives pages of [`VidMm::allocate_system`] or [`VidMm::allocate_scattered`] back. The caller knows that nothing uses them any more.
    pub fn free_system(&mut self, run: PageRun) {
        self.system.give(run);
    }

    /// The system pages that have returned to the pool since this was asked last. A page's next owner may come in the same call that gives
    /// the page back, so the kernel asks behind its calls, and before it stores anything in pages that it got here or shows them: it revokes
    /// the mappings that clients have of them.
    #[must_use]
    pub fn take_returned(&mut self) -> Vec<PageRun> {
        self.system.take_untold()
    }

    /// System pages that pending destructions give back: the backing stores of allocations that their owners have destroyed and queued
    /// work may still use, and of dead ones that the ring has not got past. A call that lacks memory may wait for these.
    pub fn returning_pages(&self) -> Pages {
        Pages(self.system.returning_pages())
    }

    /// Whether the backing store of an allocation is among [`VidMm::returning_pages`].
    pub fn returns(&self, id: AllocationId) -> bool {
        self.allocations[id].returns
    }

    /// All system pages that have ever returned to the pool: a call that lacked memory asks again when this has risen.
    pub fn returned_pages(&self) -> Pages {
        Pages(self.system.returned_pages())
    }

    /// The owner has destroyed an allocation: its backing store returns.
    pub(crate) fn count_returning(&mut self, id: AllocationId) {
        let allocation = &mut self.allocations[id];
        if !allocation.foreign {
            allocation.returns = true;
            self.system.announce(&allocation.backing);
        }
    }

    /// Free system pages.
    pub fn free_system_pages(&self) -> Pages {
        Pages(self.system.free_pages())
    }

    /// The system pages that back allocations, or could: what there would be for one more if all others had gone.
    pub fn backing_pages_max(&self) -> Pages {
        let backed = self.allocations.iter().filter(|(_, allocation)| !allocation.foreign);
        Pages(self.system.free_pages() + backed.map(|(_, allocation)| allocation.pages).sum::<u64>())
    }

    /// System physical address of the page that unmapped aperture pages show (memory §3.4, operation 6).
    pub fn dummy_page_address(&self) -> u64 {
        self.system.dummy_address()
    }

    /// Keeps the pages of a dead allocation until the ring is past work `last`.
    pub(crate) fn retire(&mut self, last: u64, runs: Vec<PageRun>) {
        self.system.retire(last, runs, self.works.completed());
    }
}
