//! The kernel's own system pages: fence words, paging buffers, logs, and the rings that drivers ask for. Not how they grow out of system
//! memory: that is `adapter::mapping`.

use std::collections::{BTreeMap, BTreeSet};

use shared_words::ClientAccess;
use wddm_types::{CpuPlace, PageRun, Pages};

use crate::platform::{ClientMemory, Viewers};

/// System pages for the kernel's own use: fence words, paging buffers, drivers' rings. First fit; neighbours merge.
pub struct KernelPages {
    free: BTreeMap<u64, u64>,
    /// Pages that clients may map.
    shown: BTreeSet<u64>,
    /// Runs by which the pages have grown: first page and count.
    grown: BTreeMap<u64, u64>,
    /// Such runs of which no page is used any more, until they are taken back.
    unused: Vec<PageRun>,
}

impl KernelPages {
    /// All of `run` is free.
    pub fn new(run: PageRun) -> KernelPages {
        KernelPages {
            free: BTreeMap::from([(run.first, run.count.0)]),
            shown: BTreeSet::new(),
            grown: BTreeMap::new(),
            unused: Vec::new(),
        }
    }

    /// Whether there are so many consecutive pages.
    pub fn has_room(&self, count: Pages) -> bool {
        self.free.values().any(|length| *length >= count.0)
    }

    /// `run` is free, too, until all of it is unused again ([`KernelPages::take_unused`]).
    pub fn grow(&mut self, run: PageRun) {
        let before = self.grown.insert(run.first, run.count.0);
        debug_assert!(before.is_none(), "pages grow by other pages each time: {run:?} after {before:?}");
        self.make_free(run);
    }

    /// The runs that these have grown by.
    pub fn grown(&self) -> impl Iterator<Item = PageRun> {
        self.grown.iter().map(|(first, count)| PageRun { first: *first, count: Pages(*count) })
    }

    /// A run that these have grown by and of which no page is used any more: it returns to the memory manager.
    pub fn take_unused(&mut self) -> Option<PageRun> {
        self.unused.pop()
    }

    /// Consecutive pages, or `None`.
    pub fn take(&mut self, count: Pages) -> Option<PageRun> {
        let (&first, &length) = self.free.iter().find(|(_, length)| **length >= count.0)?;
        self.free.remove(&first);
        if length > count.0 {
            self.free.insert(first + count.0, length - count.0);
        }
        Some(PageRun { first, count })
    }

    /// Clients may map pages that have just been taken, until they are given back.
    pub fn show(&mut self, clients: Option<&dyn ClientMemory>, viewers: Viewers, run: PageRun, access: ClientAccess) {
        if let Some(clients) = clients {
            clients.begins(viewers, CpuPlace::System, &[run], access);
            self.shown.extend(run.first..run.end());
        }
    }

    /// Gives pages back.
    ///
    /// # Panics
    /// When some of them are free already: only their owner may give pages back.
    pub fn give_back(&mut self, clients: Option<&dyn ClientMemory>, run: PageRun) {
        if let Some(clients) = clients
            && (run.first..run.end()).fold(false, |any, page| self.shown.remove(&page) | any)
        {
            clients.ends(CpuPlace::System, run);
        }
        let (first, length) = self.make_free(run);
        let end = first + length;
        let whole = |(at, count): (&u64, &u64)| (*at + *count <= end).then_some((*at, *count));
        let unused: Vec<_> = self.grown.range(first..end).filter_map(whole).collect();
        for (at, count) in unused {
            self.grown.remove(&at);
            self.cut(at, count);
            self.unused.push(PageRun { first: at, count: Pages(count) });
        }
    }

    /// Takes a part of a free range out of it.
    fn cut(&mut self, at: u64, count: u64) {
        let (&first, &length) = self.free.range(..=at).next_back().expect("all of it is free");
        debug_assert!(at + count <= first + length, "{count} pages at {at} are cut out of {length} at {first}");
        self.free.remove(&first);
        for (from, to) in [(first, at), (at + count, first + length)] {
            if from < to {
                self.free.insert(from, to - from);
            }
        }
    }

    /// Joins pages to the free ones. The range in which they are then.
    fn make_free(&mut self, run: PageRun) -> (u64, u64) {
        let (mut first, mut length) = (run.first, run.count.0);
        if let Some((&before, &before_length)) = self.free.range(..first).next_back() {
            assert!(before + before_length <= first, "pages given back twice");
            if before + before_length == first {
                self.free.remove(&before);
                first = before;
                length += before_length;
            }
        }
        if let Some((&after, &after_length)) = self.free.range(run.first..).next() {
            assert!(after >= run.end(), "pages given back twice");
            if after == run.end() {
                self.free.remove(&after);
                length += after_length;
            }
        }
        self.free.insert(first, length);
        (first, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_whole() {
        let all = PageRun { first: 10, count: Pages(100) };
        let mut pages = KernelPages::new(all);
        let runs: Vec<_> = (0..10).map(|_| pages.take(Pages(10)).unwrap()).collect();
        assert_eq!(pages.take(Pages(1)), None);
        for index in [3, 1, 2, 9, 0, 5, 4, 8, 6, 7] {
            pages.give_back(None, runs[index]);
        }
        assert_eq!(pages.take(Pages(100)), Some(all));
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn a_page_comes_back_once() {
        let mut pages = KernelPages::new(PageRun { first: 0, count: Pages(4) });
        let run = pages.take(Pages(2)).unwrap();
        pages.give_back(None, run);
        pages.give_back(None, run);
    }
}
