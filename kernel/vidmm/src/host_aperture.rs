//! Pages of a CPU host aperture: which window page shows which page of the segment (memory §6.6). Window pages of one
//! allocation may be scattered, and so may its memory pages; the code that maps them for the CPU joins the two. This module calls no
//! driver: it says what to map and unmap. Called by `lock` and `victim`.
//!
//! A window is taken at the first lock and kept after the last unlock, because the next lock is likely to want it again.
//! Kept ones are given up when others need pages, the one unlocked longest ago first, and when their content moves.

use std::collections::{BTreeMap, BTreeSet};

use ddi::SegmentFlags;
use wddm_types::{CpuPlace, CpuRun, PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::extent::Extent;
use crate::operation::{WindowMap, WindowPages};
use crate::segment::Segment;
use crate::slab::AllocationId;

/// The windows of the memory segments that have one. An allocation has pages of one window at most, because it lies in one segment.
#[derive(Debug)]
pub(crate) struct HostApertures(BTreeMap<SegmentId, HostAperture>);

impl HostApertures {
    /// Those that the driver described.
    pub fn open(segments: &[Segment]) -> Self {
        let window = |segment: &Segment| {
            let range = segment.descriptor.cpu.host_aperture()?;
            // An aperture may have been described with a window, which means nothing there.
            let has = !segment.aligns_pitches()
                && segment.descriptor.flags.contains(SegmentFlags::SUPPORTS_CPU_HOST_APERTURE);
            debug_assert!(!has || range.size_in_pages > 0, "the window of {:?} has no page", segment.id);
            let open =
                || HostAperture::new(segment.id, range.physical_address, range.size_in_pages, segment.page_bytes());
            has.then(|| (segment.id, open()))
        };
        HostApertures(segments.iter().filter_map(window).collect())
    }

    /// Whether a segment has one.
    pub fn is_windowed(&self, segment: SegmentId) -> bool {
        self.0.contains_key(&segment)
    }

    /// Whether an allocation that lies there would get its pages.
    pub fn has_room(&self, segment: SegmentId, id: AllocationId, extents: impl Iterator<Item = Extent>) -> bool {
        self.0.get(&segment).is_some_and(|window| window.has_room(id, extents))
    }

    /// Gives an allocation its pages; `None`: there are none. `Some(None)`: it has them still.
    pub fn take(
        &mut self,
        segment: SegmentId,
        id: AllocationId,
        extents: impl Iterator<Item = Extent>,
        kept_max: usize,
    ) -> Option<Option<WindowMap>> {
        let window = self.0.get_mut(&segment).expect("the segment has a window");
        window.take(id, extents, kept_max)
    }

    /// Whether any window shows an allocation.
    pub fn show(&self, id: AllocationId) -> bool {
        self.0.values().any(|window| window.has(id))
    }

    /// The window of a segment, if it shows an allocation.
    pub fn showing(&self, segment: SegmentId, id: AllocationId) -> Option<&HostAperture> {
        self.0.get(&segment).filter(|window| window.has(id))
    }

    /// An allocation is unlocked: its pages are kept, for the next lock.
    pub fn keep(&mut self, id: AllocationId) {
        self.0.values_mut().for_each(|window| window.keep(id));
    }

    /// An allocation moves: its pages are to be unmapped, and [`HostApertures::unmapped`] has them back.
    pub fn end(&mut self, id: AllocationId) -> Option<WindowPages> {
        self.0.values_mut().find_map(|window| window.end(id))
    }

    /// The driver has unmapped pages.
    pub fn unmapped(&mut self, pages: &WindowPages) {
        self.0.get_mut(&pages.segment).expect("pages of a window").unmapped(&pages.pages);
    }

    /// Finds a fault; `locks`: how often an allocation is locked, if it lives.
    pub fn check(&self, locks: impl Fn(AllocationId) -> Option<u32>) -> Result<(), String> {
        self.0.values().try_for_each(|window| window.check(&locks))
    }
}

/// The window of one segment.
#[derive(Debug)]
pub(crate) struct HostAperture {
    segment: SegmentId,
    /// 4-KB pages of a page of the segment.
    unit: u64,
    /// First bus page, in 4-KB pages.
    base: u64,
    free: BTreeSet<u32>,
    windows: BTreeMap<AllocationId, Window>,
    /// Windows without a lock, by the time of the last unlock.
    kept: BTreeMap<u64, AllocationId>,
    tick: u64,
}

/// The window of one allocation.
#[derive(Debug)]
struct Window {
    /// Window page by memory page.
    pages: BTreeMap<u64, u32>,
    kept_since: Option<u64>,
}

impl HostAperture {
    /// The window as the driver described it: origin on the bus, pages of `page_bytes`.
    pub fn new(segment: SegmentId, physical_address: u64, count: u32, page_bytes: u64) -> Self {
        HostAperture {
            segment,
            unit: page_bytes / PAGE_BYTES,
            base: physical_address / PAGE_BYTES,
            free: (0..count).collect(),
            windows: BTreeMap::new(),
            kept: BTreeMap::new(),
            tick: 0,
        }
    }

    /// Whether an allocation has a window.
    pub fn has(&self, id: AllocationId) -> bool {
        self.windows.contains_key(&id)
    }

    /// Shows extents of an allocation. `Some(None)`: its window was kept and shows them already. `None`: there are not
    /// enough pages, even if every kept window went; nothing has changed.
    // spec: memory §10.1 row 24, kept windows go before anybody is refused
    pub fn take(
        &mut self,
        id: AllocationId,
        extents: impl Iterator<Item = Extent>,
        kept_max: usize,
    ) -> Option<Option<WindowMap>> {
        if let Some(window) = self.windows.get_mut(&id) {
            if let Some(since) = window.kept_since.take() {
                let kept = self.kept.remove(&since);
                debug_assert_eq!(kept, Some(id), "the window of {id:?} is kept as another's");
            }
            return Some(None);
        }
        let wanted = self.wanted(extents);
        if self.available() < wanted.len() {
            return None;
        }
        let mut unmap = Vec::new();
        while self.free.len() < wanted.len() || self.kept.len() > kept_max {
            let (_, other) = self.kept.pop_first().expect("kept pages were counted");
            let gone = self.windows.remove(&other).expect("what is kept is a window");
            debug_assert!(gone.kept_since.is_some(), "the window of {other:?} goes, and is locked");
            self.free.extend(gone.pages.values());
            unmap.extend(gone.pages.values());
        }
        let window_pages: Vec<u32> = self.free.iter().copied().take(wanted.len()).collect();
        self.free.retain(|page| !window_pages.contains(page));
        let memory_pages: Vec<u64> = wanted.into_iter().collect();
        debug_assert_eq!(window_pages.len(), memory_pages.len(), "{id:?} is shown page by page");
        let pages = memory_pages.iter().copied().zip(window_pages.iter().copied()).collect();
        self.windows.insert(id, Window { pages, kept_since: None });
        Some(Some(WindowMap { segment: self.segment, unmap, window_pages, memory_pages }))
    }

    /// Whether [`HostAperture::take`] would succeed.
    pub fn has_room(&self, id: AllocationId, extents: impl Iterator<Item = Extent>) -> bool {
        self.has(id) || self.wanted(extents).len() <= self.available()
    }

    /// The segment's pages that show these extents.
    fn wanted(&self, extents: impl Iterator<Item = Extent>) -> BTreeSet<u64> {
        // spec: memory §6.6, a segment page holds more than a 4-KB range: round down and up
        extents.flat_map(|run| run.frame / self.unit..=(run.frame + run.count - 1) / self.unit).collect()
    }

    /// Window pages that are free, or would be if every kept window went.
    fn available(&self) -> usize {
        self.free.len() + self.kept.values().map(|other| self.windows[other].pages.len()).sum::<usize>()
    }

    /// The last lock is gone: the window stays until another allocation needs its pages.
    pub fn keep(&mut self, id: AllocationId) {
        if let Some(window) = self.windows.get_mut(&id) {
            self.tick += 1;
            debug_assert!(window.kept_since.is_none(), "the window of {id:?} is kept twice: {window:?}");
            window.kept_since = Some(self.tick);
            self.kept.insert(self.tick, id);
        }
    }

    /// Ends an allocation's window. Its pages stay out of use until [`HostAperture::unmapped`].
    pub fn end(&mut self, id: AllocationId) -> Option<WindowPages> {
        let gone = self.windows.remove(&id)?;
        if let Some(since) = gone.kept_since {
            let kept = self.kept.remove(&since);
            debug_assert_eq!(kept, Some(id), "the window of {id:?} is kept as another's");
        }
        Some(WindowPages { segment: self.segment, pages: gone.pages.into_values().collect() })
    }

    /// The driver has unmapped these pages.
    // spec: memory §6.6, never handed out before the unmap
    pub fn unmapped(&mut self, pages: &[u32]) {
        for &page in pages {
            assert!(self.free.insert(page), "a window page is unmapped once");
        }
    }

    /// Finds a fault in the windows, given how often each allocation is locked (`locks`; `None`: there is no such allocation).
    pub fn check(&self, locks: impl Fn(AllocationId) -> Option<u32>) -> Result<(), String> {
        let mut seen = self.free.clone();
        for (&id, window) in &self.windows {
            if let Some(page) = window.pages.values().find(|page| !seen.insert(**page)) {
                return Err(format!("window page {page} is free or shown twice"));
            }
            let kept = window.kept_since.map(|since| self.kept.get(&since));
            let rightly = match (locks(id), kept) {
                (Some(0), Some(of)) => of == Some(&id),
                (Some(_), None) => true,
                _ => false,
            };
            if !rightly {
                return Err(format!("the window of {id:?} is kept {kept:?} with {:?} locks", locks(id)));
            }
        }
        let kept = self.windows.values().filter(|window| window.kept_since.is_some()).count();
        if kept == self.kept.len() {
            Ok(())
        } else {
            Err(format!("{kept} windows are kept, {} known", self.kept.len()))
        }
    }

    /// Where the CPU sees an extent of an allocation with a window.
    pub fn runs(&self, id: AllocationId, extent: Extent) -> Vec<CpuRun> {
        let window = &self.windows[&id];
        let (mut frame, end) = (extent.frame, extent.frame + extent.count);
        let mut runs = Vec::new();
        while frame < end {
            let page = u64::from(window.pages[&(frame / self.unit)]);
            let into = frame % self.unit;
            let count = (self.unit - into).min(end - frame);
            // spec: memory §6.6, the CPU address of a window page
            let first = self.base + page * self.unit + into;
            runs.push(CpuRun { place: CpuPlace::HostAperture, run: PageRun { first, count: Pages(count) } });
            frame += count;
        }
        runs
    }
}

#[cfg(test)]
mod tests;
