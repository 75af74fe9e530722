//! System pages: those of the kernel itself (fence words, rings, paging buffers), and those of dead allocations on their
//! way back to the pool. The kernel's paging ring calls it.

use wddm_types::{PAGE_BYTES, PageRun, Pages};

use crate::slab::AllocationId;
use crate::vidmm::VidMm;

/// Is told of system pages that return to the pool.
pub struct Returned(pub Box<dyn Fn(PageRun) + Send>);

impl std::fmt::Debug for Returned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Returned")
    }
}

impl<F: Copy + Eq> VidMm<F> {
    /// The hardware has completed the work with this serial, and with it every earlier one: the ring keeps order.
    pub fn completed(&mut self, serial: u64) {
        assert!(serial <= self.serial, "only returned work completes");
        self.completed = self.completed.max(serial);
        while self.retiring.front().is_some_and(|(last, _)| *last <= self.completed) {
            let (_, runs) = self.retiring.pop_front().expect("it was just looked at");
            self.returning -= pages_of(&runs);
            for run in runs {
                self.give_system(run);
            }
        }
    }

    /// Serial of the last completed work.
    pub fn completed_serial(&self) -> u64 {
        self.completed
    }

    /// Most that one sub-transfer moves ([`Policy::transfer_pages_max`](crate::Policy::transfer_pages_max)).
    pub fn transfer_pages_max(&self) -> Pages {
        self.policy.transfer_pages_max
    }

    /// Consecutive system pages for the kernel itself; `None`: scarcity.
    pub fn allocate_system(&mut self, pages: u64) -> Option<PageRun> {
        if pages == 0 { None } else { self.system.take_contiguous(pages, 1, false) }
    }

    /// System pages wherever they are, for memory that a process has before any allocation; `None`: scarcity.
    pub fn allocate_scattered(&mut self, pages: u64) -> Option<Vec<PageRun>> {
        if pages == 0 { None } else { self.system.take_scattered(pages) }
    }

    /// Gives pages of [`VidMm::allocate_system`] or [`VidMm::allocate_scattered`] back. The caller knows that nothing uses them any more.
    pub fn free_system(&mut self, run: PageRun) {
        self.give_system(run);
    }

    /// Sets the callback for every system page that returns to the pool, called at that moment, because the next owner may come in the same
    /// call. The kernel revokes client mappings of the page there.
    pub fn tell_of_returned(&mut self, returned: Returned) {
        self.returned = Some(returned);
    }

    /// Gives pages back to the pool.
    pub(crate) fn give_system(&mut self, run: PageRun) {
        if let Some(returned) = &self.returned {
            (returned.0)(run);
        }
        self.returned_pages += run.count.0;
        self.system.give(run);
    }

    /// System pages that pending destructions give back: the backing stores of allocations that their owners have destroyed and queued
    /// work may still use, and of dead ones that the ring has not got past. A call that lacks memory may wait for these.
    pub fn returning_pages(&self) -> Pages {
        Pages(self.returning)
    }

    /// All system pages that have ever returned to the pool: a call that lacked memory asks again when this has risen.
    pub fn returned_pages(&self) -> Pages {
        Pages(self.returned_pages)
    }

    /// The owner has destroyed an allocation: its backing store returns.
    pub(crate) fn count_returning(&mut self, id: AllocationId) {
        let allocation = &mut self.allocations[id];
        if !allocation.foreign {
            allocation.returns = true;
            self.returning += pages_of(&allocation.backing);
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
        self.dummy_page.first * PAGE_BYTES
    }

    /// Keeps the pages of a dead allocation until the ring is past work `last`.
    pub(crate) fn retire(&mut self, last: u64, runs: Vec<PageRun>) {
        if last <= self.completed {
            runs.into_iter().for_each(|run| self.give_system(run));
            return;
        }
        self.returning += pages_of(&runs);
        let at = self.retiring.partition_point(|(serial, _)| *serial <= last);
        self.retiring.insert(at, (last, runs));
    }
}

/// Pages of all these runs.
pub(crate) fn pages_of(runs: &[PageRun]) -> u64 {
    runs.iter().map(|run| run.count.0).sum()
}
