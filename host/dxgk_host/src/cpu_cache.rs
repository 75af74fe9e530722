//! The caches of a CPU that a GPU does not snoop, for hosts that play such a platform (memory §6.7). The CPU's mappings of
//! cacheable memory show `lines`; the device reads and writes memory itself. A line differs from memory until the kernel flushes or
//! invalidates it: the CPU's writes stay in the cache, and the CPU does not see the device's writes.
//!
//! A host may play a coherent platform with them, too: then devices see the caches' content where a page-table entry or an aperture mapping
//! says that they snoop, and memory elsewhere.
//!
//! These caches always do the worst that such hardware may do: they prefetch a mapped page whole, and a line leaves them only when the kernel
//! says so. So a test finds a missing call the first time, not once in a while.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use device_port::CpuCaches;
use dxgkrnl::CpuCache;
use shared_words::{Memory, MemoryError};
use wddm_types::{PAGE_BYTES, PageRun};

/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;

/// Caches in front of one system memory.
#[derive(Debug)]
pub struct StaleCache {
    memory: Arc<Memory>,
    /// The content that the CPU sees, for pages that are present.
    lines: Arc<Memory>,
    /// The content of each line when it was last equal to memory: a line that differs from it is dirty.
    clean: Arc<Memory>,
    present: Mutex<BTreeSet<u64>>,
}

impl StaleCache {
    /// Empty caches.
    ///
    /// # Errors
    /// When there is no address space for them.
    pub fn new(memory: &Arc<Memory>) -> Result<Arc<StaleCache>, MemoryError> {
        let (lines, clean) = (Memory::reserve(memory.bytes())?, Memory::reserve(memory.bytes())?);
        Ok(Arc::new(StaleCache { memory: Arc::clone(memory), lines, clean, present: Mutex::default() }))
    }

    /// Memory as the CPU sees it through the caches; only of pages that were prefetched.
    pub fn view(&self) -> &Arc<Memory> {
        &self.lines
    }

    /// The CPU maps these pages: the cache fetches the lines that it does not have.
    pub fn prefetch(&self, runs: &[PageRun]) {
        let mut present = self.present();
        for page in runs.iter().flat_map(|run| run.first..run.end()) {
            if present.insert(page) {
                self.fetch(page * PAGE_BYTES, PAGE_BYTES);
            }
        }
    }

    fn fetch(&self, address: u64, length: u64) {
        self.lines.copy_from(address, &self.memory, address, length);
        self.clean.copy_from(address, &self.memory, address, length);
    }

    fn write_back(&self, address: u64) {
        let (mut line, mut clean) = ([0; LINE_BYTES as usize], [0; LINE_BYTES as usize]);
        self.lines.read(address, &mut line);
        self.clean.read(address, &mut clean);
        if line != clean {
            self.memory.write(address, &line);
        }
    }

    fn present(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        // The set is whole between any two of its operations.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CpuCaches for StaleCache {
    fn holds(&self, system_page: u64) -> bool {
        self.present().contains(&system_page)
    }

    fn lines(&self) -> &Arc<Memory> {
        &self.lines
    }
}

impl CpuCache for StaleCache {
    fn invalidate(&self, runs: &[PageRun], offset_bytes: u64, length_bytes: u64) {
        let present = self.present();
        let end = offset_bytes.saturating_add(length_bytes).next_multiple_of(LINE_BYTES);
        let first = offset_bytes / LINE_BYTES * LINE_BYTES;
        let mut run_start = 0;
        for run in runs {
            let run_end = run_start + run.count.bytes();
            let mut at = first.max(run_start);
            while at < end.min(run_end) {
                let address = run.first * PAGE_BYTES + (at - run_start);
                if present.contains(&(address / PAGE_BYTES)) {
                    self.write_back(address);
                    // Forgotten, and prefetched again at once, as speculation may do.
                    self.fetch(address, LINE_BYTES);
                }
                at += LINE_BYTES;
            }
            run_start = run_end;
        }
    }

    fn discard(&self, runs: &[PageRun]) {
        let mut present = self.present();
        for page in runs.iter().flat_map(|run| run.first..run.end()) {
            present.remove(&page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wddm_types::Pages;

    fn word(memory: &Memory, address: u64) -> u64 {
        let mut bytes = [0; 8];
        memory.read(address, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    #[test]
    fn a_line_differs_from_memory_until_it_is_maintained() {
        // spec: memory §6.7
        let memory = Memory::reserve(8 * PAGE_BYTES).unwrap();
        let cache = StaleCache::new(&memory).unwrap();
        let runs = [PageRun { first: 5, count: Pages(1) }, PageRun { first: 2, count: Pages(1) }];
        cache.prefetch(&runs);
        let (first, second) = (5 * PAGE_BYTES, 2 * PAGE_BYTES);
        cache.view().write(first + 8, &1u64.to_le_bytes());
        memory.write(second, &2u64.to_le_bytes());
        assert_eq!((word(&memory, first + 8), word(cache.view(), second)), (0, 0), "both sides are stale");
        // The second page only: the first stays as it is.
        cache.invalidate(&runs, PAGE_BYTES, 1);
        assert_eq!((word(&memory, first + 8), word(cache.view(), second)), (0, 2));
        cache.invalidate(&runs, 0, 9);
        assert_eq!(word(&memory, first + 8), 1);
        // A flush does not write a clean line over the device's writes beside it.
        memory.write(first + 128, &3u64.to_le_bytes());
        cache.invalidate(&runs, 0, 64);
        assert_eq!((word(&memory, first + 128), word(cache.view(), first + 128)), (3, 0), "another line");
    }

    #[test]
    fn a_discarded_page_is_fetched_anew() {
        let memory = Memory::reserve(2 * PAGE_BYTES).unwrap();
        let cache = StaleCache::new(&memory).unwrap();
        let run = [PageRun { first: 1, count: Pages(1) }];
        cache.prefetch(&run);
        cache.view().write(PAGE_BYTES, &7u64.to_le_bytes());
        cache.discard(&run);
        cache.invalidate(&run, 0, PAGE_BYTES);
        assert_eq!(word(&memory, PAGE_BYTES), 0, "a dead line is not written back");
        memory.write(PAGE_BYTES, &8u64.to_le_bytes());
        cache.prefetch(&run);
        assert_eq!(word(cache.view(), PAGE_BYTES), 8);
    }
}
