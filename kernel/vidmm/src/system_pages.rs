//! The system pages of one adapter, and where each of them is on its way: free, lent, or returning. Called by everything that backs
//! content or serves the kernel itself.
//!
//! ```text
//!  free ──take──▶ lent ──give──────────────────────────▶ free
//!                  └────retire (its owner is dead)──▶ retiring ──the ring is past its last work──▶ free
//! ```
//! It owns the pool, the dummy page, the pages of the dead and two counts for calls that wait for memory. It does not know what lies in a
//! page: allocations, spaces and the kernel say which pages they have, and it asks none of them.
//!
//! What holds between its fields, at every call (`check`, and assertions):
//! - `retiring` is in the order of its works, and all of them are ahead of the ring: what the ring is past is free;
//! - `returning` counts the pages of `retiring`, and those that owners of destroyed allocations have announced;
//! - a page is free, the dummy page, retiring, or lent: once.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use ddi::AllocationFlags;
use wddm_types::{PAGE_BYTES, PageRun, Pages};

use crate::pool::FramePool;
use crate::slab::DeviceId;

/// Pages of the stretch in which a device's backing stores are gathered: 4 MiB, so that 64 GiB are 16,384 stretches at the most, a quarter of
/// the mappings that Linux gives a process, and a device that has one page keeps 1,023 others from no other device that needs them.
const STRETCH: u64 = 1024;

/// The system pages of one adapter.
#[derive(Debug)]
pub(crate) struct SystemPages {
    pool: FramePool,
    /// Unmapped aperture pages show it, and addresses whose entries only their owner writes.
    dummy_page: PageRun,
    /// Pages that have returned, and the kernel has not asked since.
    untold: Vec<PageRun>,
    /// Where the next small backing store of a device is to lie, if they are gathered.
    next_of: Option<BTreeMap<DeviceId, u64>>,
    /// Pages of the dead, each with the serial of the last work that writes them.
    retiring: VecDeque<(u64, Vec<PageRun>)>,
    returning: u64,
    /// Pages that have returned to the pool, from the start on.
    returned: u64,
}

impl SystemPages {
    /// All of these pages, one of them the dummy page; `None`: there is none.
    /// `gathers`: backing stores of one device lie beside each other, where there is room.
    pub fn open(pages: PageRun, gathers: bool) -> Option<Self> {
        let mut pool = FramePool::new(pages);
        let dummy_page = pool.take_contiguous(1, 1, false)?;
        let (next_of, untold, retiring) = (gathers.then(BTreeMap::new), Vec::new(), VecDeque::new());
        Some(SystemPages { pool, dummy_page, untold, next_of, retiring, returning: 0, returned: 0 })
    }

    /// The pages that have returned to the pool since this was asked last.
    pub fn take_untold(&mut self) -> Vec<PageRun> {
        std::mem::take(&mut self.untold)
    }

    /// Consecutive pages; `None`: scarcity.
    pub fn take_run(&mut self, pages: u64) -> Option<PageRun> {
        self.pool.take_contiguous(pages, 1, false)
    }

    /// Pages wherever they are; `None`: scarcity.
    pub fn take_scattered(&mut self, pages: u64) -> Option<Vec<PageRun>> {
        self.pool.take_scattered(pages)
    }

    /// Pages for a backing store, of this device if one owns it; `None`: scarcity.
    pub fn take_backing(
        &mut self,
        device: Option<DeviceId>,
        flags: AllocationFlags,
        pages: u64,
    ) -> Option<Vec<PageRun>> {
        // A backing store that the CPU sees at one address is one contiguous run (memory §3.4, operation 17).
        if flags.contains(AllocationFlags::MAP_APERTURE_CPU_VISIBLE) {
            return self.take_run(pages).map(|run| vec![run]);
        }
        match device.and_then(|device| self.take_beside(device, pages)) {
            Some(run) => Some(vec![run]),
            None => self.take_scattered(pages),
        }
    }

    /// The pages behind the device's last small backing store, or the first of another stretch that is free; a large backing store begins
    /// with a stretch. `None`: none is free, or they are not gathered.
    fn take_beside(&mut self, device: DeviceId, pages: u64) -> Option<PageRun> {
        let next_of = self.next_of.as_mut()?;
        if pages >= STRETCH {
            return self.pool.take_contiguous(pages, STRETCH, false);
        }
        let behind = |first| PageRun { first, count: Pages(pages) };
        let run =
            next_of.get(&device).and_then(|next| self.pool.take_contiguous_within(behind(*next), pages, 1, false));
        let run = match run {
            Some(run) => run,
            None => {
                let stretch = self.pool.take_contiguous(STRETCH, STRETCH, false)?;
                let rest = PageRun { first: stretch.first + pages, count: Pages(STRETCH - pages) };
                self.pool.give(rest);
                behind(stretch.first)
            }
        };
        // The next stretch is another device's, perhaps.
        match run.end().is_multiple_of(STRETCH) {
            true => next_of.remove(&device),
            false => next_of.insert(device, run.end()),
        };
        Some(run)
    }

    /// A device has gone.
    pub fn device_gone(&mut self, device: DeviceId) {
        if let Some(next_of) = &mut self.next_of {
            next_of.remove(&device);
        }
    }

    /// The last of the pages, for page tables, for as long as the adapter runs.
    pub fn take_table_reserve(&mut self, pages: u64) -> Option<PageRun> {
        self.pool.take_contiguous(pages, 1, true)
    }

    /// Pages back that nothing uses any more.
    pub fn give(&mut self, run: PageRun) {
        let dummy = self.dummy_page.first;
        debug_assert!(dummy < run.first || run.end() <= dummy, "{run:?} returns, and page {dummy} is never lent");
        self.untold.push(run);
        self.returned += run.count.0;
        self.pool.give(run);
    }

    /// Pages of the dead: they return when the ring, which is past `completed`, is past work `last`.
    pub fn retire(&mut self, last: u64, runs: Vec<PageRun>, completed: u64) {
        if last <= completed {
            runs.into_iter().for_each(|run| self.give(run));
            return;
        }
        let first = self.retiring.front().map(|(serial, _)| *serial);
        debug_assert!(
            first.is_none_or(|first| first > completed),
            "{first:?} keeps pages, and the ring is past {completed}"
        );
        self.returning += pages_of(&runs);
        let at = self.retiring.partition_point(|(serial, _)| *serial <= last);
        self.retiring.insert(at, (last, runs));
    }

    /// The ring is past this work, and past every earlier one.
    pub fn ring_passed(&mut self, completed: u64) {
        while self.retiring.front().is_some_and(|(last, _)| *last <= completed) {
            let (_, runs) = self.retiring.pop_front().expect("it was just looked at");
            self.announced_gone(&runs);
            runs.into_iter().for_each(|run| self.give(run));
        }
    }

    /// The owner of these has destroyed what they back: they return, when its last use is over.
    pub fn announce(&mut self, runs: &[PageRun]) {
        self.returning += pages_of(runs);
    }

    /// Pages that were announced are not on their way any more: they are given or retired now.
    pub fn announced_gone(&mut self, runs: &[PageRun]) {
        let pages = pages_of(runs);
        assert!(pages <= self.returning, "{pages} pages arrive, and {} were on their way", self.returning);
        self.returning -= pages;
    }

    /// Free pages.
    pub fn free_pages(&self) -> u64 {
        self.pool.free_pages()
    }

    /// Pages on their way back.
    pub fn returning_pages(&self) -> u64 {
        self.returning
    }

    /// All pages that have ever returned.
    pub fn returned_pages(&self) -> u64 {
        self.returned
    }

    /// The page that unmapped aperture pages show.
    pub fn dummy_page(&self) -> PageRun {
        self.dummy_page
    }

    /// System physical address of the dummy page.
    pub fn dummy_address(&self) -> u64 {
        self.dummy_page.first * PAGE_BYTES
    }

    /// Finds pages that wait for a work which was not returned.
    pub fn check_retiring(&self, returned: u64) -> Result<(), String> {
        match self.retiring.back() {
            Some((last, runs)) if *last > returned => {
                Err(format!("{runs:?} wait for work {last}, and {returned} were returned"))
            }
            _ => Ok(()),
        }
    }

    /// Finds a fault, given all pages that are lent, the pages that owners have announced, and how far the ring is.
    pub fn check(&self, lent: &[PageRun], announced: u64, completed: u64) -> Result<(), String> {
        let retiring: u64 = self.retiring.iter().map(|(_, runs)| pages_of(runs)).sum();
        if self.returning != announced + retiring {
            return Err(format!("{} pages return: of doomed {announced}, of dead {retiring}", self.returning));
        }
        let serials = self.retiring.iter().map(|(last, _)| *last);
        if !serials.clone().is_sorted() || serials.clone().any(|last| last <= completed) {
            let serials: Vec<u64> = serials.collect();
            return Err(format!("pages of the dead wait for works {serials:?}, and the ring is past {completed}"));
        }
        let mut owned = vec![self.dummy_page];
        owned.extend(lent);
        owned.extend(self.retiring.iter().flat_map(|(_, runs)| runs));
        self.pool.check(&owned, 0)
    }

    /// The state that a refused call must leave as it was.
    pub fn state(&self) -> impl Debug + '_ {
        (self.pool.free_runs(), &self.retiring)
    }
}

/// Pages of all these runs.
pub(crate) fn pages_of(runs: &[PageRun]) -> u64 {
    runs.iter().map(|run| run.count.0).sum()
}

#[cfg(test)]
mod tests;
