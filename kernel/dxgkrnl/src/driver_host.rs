//! The host that a driver is lent ([`ddi::Host`]), and the kernel's own system pages, out of which it is served.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ddi::{
    CreateContextAllocation, DriverStatus, FeatureId, FeatureState, Host, MapContextAllocation, OsContextAllocation,
    QueryFeatureInterface, ReserveGpuVaRange,
};
use shared_words::ClientAccess;
use wddm_types::{CpuPlace, GpuVa, PageRun, Pages};

use crate::client_memory::ClientMemory;
use crate::context_allocation::ContextHost;
use crate::features::{self, Features};
use crate::process::ProcessHost;

/// System pages for the kernel's own use: fence words, paging buffers, drivers' rings. First fit; neighbours merge.
pub struct KernelPages {
    free: BTreeMap<u64, u64>,
    clients: Option<Arc<dyn ClientMemory>>,
    /// Pages that clients may map.
    shown: BTreeSet<u64>,
    /// Runs by which the pages have grown: first page and count.
    grown: BTreeMap<u64, u64>,
    /// Such runs of which no page is used any more, until they are taken back.
    unused: Vec<PageRun>,
}

impl KernelPages {
    /// All of `run` is free.
    pub fn new(run: PageRun, clients: Option<Arc<dyn ClientMemory>>) -> KernelPages {
        KernelPages {
            free: BTreeMap::from([(run.first, run.count.0)]),
            clients,
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
        self.grown.insert(run.first, run.count.0);
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
    pub fn show(&mut self, run: PageRun, access: ClientAccess) {
        if let Some(clients) = &self.clients {
            clients.begins(CpuPlace::System, &[run], access);
            self.shown.extend(run.first..run.end());
        }
    }

    /// Gives pages back.
    ///
    /// # Panics
    /// When some of them are free already: only their owner may give pages back.
    pub fn give_back(&mut self, run: PageRun) {
        if let Some(clients) = &self.clients
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

/// The kernel as a driver sees it during one call.
pub struct DriverHost<'a, 'b> {
    pub features: &'a Features,
    pub pages: &'a mut KernelPages,
    pub creating: Creating<'a, 'b>,
}

/// The object that a driver is creating during the call: some of what it is lent belongs to that alone.
pub enum Creating<'a, 'b> {
    /// Nothing that it may ask more for.
    Nothing,
    /// A device of a process, or a context of one.
    Context(&'a mut ContextHost<'b>),
    /// A process.
    Process(&'a mut ProcessHost<'b>),
}

impl<'a, 'b> DriverHost<'a, 'b> {
    /// For a call that creates neither a process nor anything of one.
    pub fn new(features: &'a Features, pages: &'a mut KernelPages) -> DriverHost<'a, 'b> {
        DriverHost { features, pages, creating: Creating::Nothing }
    }

    fn context(&mut self) -> Result<&mut ContextHost<'b>, DriverStatus> {
        match &mut self.creating {
            Creating::Context(context) => Ok(context),
            _ => Err(DriverStatus::NotSupported("no device and no context of a process is being created")),
        }
    }
}

impl Host for DriverHost<'_, '_> {
    // spec: sync §3.1 step 5 (an adapter is asked about features of adapters)
    fn is_feature_enabled(&mut self, feature: FeatureId) -> Result<FeatureState, DriverStatus> {
        match features::global(feature) {
            None => Ok(self.features.state(feature)),
            Some(_) => Err(DriverStatus::InvalidParameter(
                "a feature of the whole machine, which is asked about without an adapter",
            )),
        }
    }

    fn query_feature_interface(&mut self, query: &mut QueryFeatureInterface) -> Result<(), DriverStatus> {
        self.features.query_interface(query)
    }

    fn allocate_contiguous(&mut self, pages: u64) -> Option<PageRun> {
        self.pages.take(Pages(pages))
    }

    fn free_contiguous(&mut self, run: PageRun) {
        self.pages.give_back(run);
    }

    fn create_context_allocation(
        &mut self,
        create: CreateContextAllocation,
    ) -> Result<OsContextAllocation, DriverStatus> {
        self.context()?.create(create)
    }

    fn map_context_allocation(&mut self, map: MapContextAllocation) -> Result<GpuVa, DriverStatus> {
        self.context()?.map(map)
    }

    fn update_context_allocation(
        &mut self,
        allocation: OsContextAllocation,
        private_data: &[u8],
    ) -> Result<(), DriverStatus> {
        self.context()?.update(allocation, private_data)
    }

    // spec: memory §4.6, only inside DxgkDdiCreateProcess
    fn reserve_gpu_va_range(&mut self, reserve: ReserveGpuVaRange) -> Result<GpuVa, DriverStatus> {
        match &mut self.creating {
            Creating::Process(process) => process.reserve(reserve),
            _ => Err(DriverStatus::NotSupported("no process is being created")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_whole() {
        let all = PageRun { first: 10, count: Pages(100) };
        let mut pages = KernelPages::new(all, None);
        let runs: Vec<_> = (0..10).map(|_| pages.take(Pages(10)).unwrap()).collect();
        assert_eq!(pages.take(Pages(1)), None);
        for index in [3, 1, 2, 9, 0, 5, 4, 8, 6, 7] {
            pages.give_back(runs[index]);
        }
        assert_eq!(pages.take(Pages(100)), Some(all));
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn a_page_comes_back_once() {
        let mut pages = KernelPages::new(PageRun { first: 0, count: Pages(4) }, None);
        let run = pages.take(Pages(2)).unwrap();
        pages.give_back(run);
        pages.give_back(run);
    }
}
