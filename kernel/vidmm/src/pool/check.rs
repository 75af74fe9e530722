//! The invariants of a pool: free runs are disjoint, never neighbours, and add up to what is said to be free. Called
//! by `invariant`; nothing here changes anything.

use wddm_types::PageRun;

use super::{FramePool, run};

impl FramePool {
    /// The free runs by address.
    pub(crate) fn free_runs(&self) -> Vec<PageRun> {
        let mut runs: Vec<PageRun> = self.bins.iter().map(|(_, free)| run(free.first, free.count)).collect();
        runs.sort_unstable_by_key(|run| run.first);
        runs
    }

    /// Finds a fault in this pool, given that its owners have exactly `owned`, and `elsewhere` more pages that the
    /// caller does not list.
    pub(crate) fn check(&self, owned: &[PageRun], elsewhere: u64) -> Result<(), String> {
        let free = self.free_runs();
        let pages: u64 = free.iter().map(|run| run.count.0).sum();
        if pages != self.free || free.len() != self.bins.len() {
            return Err(format!(
                "{pages} pages in {} free runs, {} counted in {}",
                free.len(),
                self.free,
                self.bins.len()
            ));
        }
        for (number, free) in self.bins.iter() {
            if self.boundaries.get(free.first) != number || self.boundaries.get(free.end()) != number {
                return Err(format!("the free run from page {} is not found at its boundaries", free.first));
            }
        }
        if let Some(pair) = free.windows(2).find(|pair| pair[0].end() >= pair[1].first) {
            return Err(format!("free runs overlap or touch: {pair:?}"));
        }
        let mut all: Vec<PageRun> = free.iter().chain(&self.excluded).chain(owned).copied().collect();
        all.sort_unstable_by_key(|run| run.first);
        if let Some(pair) = all.windows(2).find(|pair| pair[0].end() > pair[1].first) {
            return Err(format!("pages have two owners, or an owner and are free: {pair:?}"));
        }
        if let Some(run) = all.iter().find(|run| run.first < self.whole.first || run.end() > self.whole.end()) {
            return Err(format!("pages outside the pool: {run:?}"));
        }
        let held: u64 = owned.iter().map(|run| run.count.0).sum();
        if held + elsewhere + self.free != self.capacity {
            let (free, capacity) = (self.free, self.capacity);
            return Err(format!("{held} owned, {elsewhere} elsewhere, {free} free, but {capacity} in all"));
        }
        Ok(())
    }
}
