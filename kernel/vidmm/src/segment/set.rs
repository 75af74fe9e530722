//! All segments of one adapter, and the limit over its apertures. Called by whatever places content, and wherever a number of a segment
//! becomes the segment.
//!
//! It owns the segments, each of which owns its frames and the order of its victims (`rank`). It knows no allocation: it is told whose
//! pages come and go, and which entry of the order has changed. What holds at every call (`Segment::check`, and assertions):
//! - segment number n is at place n - 1, the driver's first, system memory behind them where no aperture stands for it;
//! - all apertures together show no more pages than the commit limit;
//! - the order of victims of a segment holds exactly the entries whose segment it is, with the sums that follow from them;
//! - no more frames count as cleared ahead than are free.

use std::ops::{Index, IndexMut};

use ddi::{AllocationInfo, PageTableLevelDesc, SegmentFlags};
use wddm_types::{PAGE_BYTES, PageRun, SegmentId, SegmentSet};

use super::{MemoryLayout, MemoryTotals, Segment, SegmentDescription, id_of, open_one};
use crate::page_table::reserve_of;
use crate::policy::Policy;
use crate::rank::VictimEntry;
use crate::slab::AllocationId;

/// The segments of one adapter.
#[derive(Debug)]
pub(crate) struct Segments {
    all: Vec<Segment>,
    /// So many are the driver's.
    drivers: usize,
    totals: MemoryTotals,
}

impl Segments {
    /// Opens the pools of checked segments, the page-table reserves cut off the ends of theirs. Behind the driver's
    /// segments stands system memory itself where no aperture stands for it.
    pub fn open(policy: &Policy, layout: &MemoryLayout, levels: &[PageTableLevelDesc]) -> Segments {
        let totals = MemoryTotals::of(layout, policy.system_pages.count.bytes());
        let mut all: Vec<Segment> = Vec::new();
        for (index, descriptor) in layout.segments.iter().enumerate() {
            let id = id_of(index);
            let bytes = if descriptor.is_aperture() {
                // spec: memory §1.12, both limits count, the smaller wins
                descriptor.commit_limit_bytes.min(totals.shared_bytes) / PAGE_BYTES * PAGE_BYTES
            } else {
                let (of_processes, of_paging) = reserve_of(policy, levels, id);
                descriptor.size_bytes - (of_processes + of_paging).bytes()
            };
            all.push(open_one(id, descriptor, bytes));
        }
        if !all.iter().any(Segment::is_aperture) {
            let system = SegmentDescription { flags: SegmentFlags::APERTURE, ..SegmentDescription::default() };
            all.push(open_one(id_of(all.len()), &system, 0));
        }
        debug_assert!(
            all.iter().enumerate().all(|(at, segment)| segment.id == id_of(at)),
            "segment n is at place n - 1"
        );
        debug_assert!(all.iter().any(Segment::is_aperture), "{} segments, and none shows system memory", all.len());
        Segments { all, drivers: layout.segments.len(), totals }
    }

    /// All of them, number 1 first.
    pub fn all(&self) -> &[Segment] {
        &self.all
    }

    /// Those that the driver described.
    // spec: memory §1.1
    pub fn drivers(&self) -> &[Segment] {
        &self.all[..self.drivers]
    }

    /// Their numbers.
    pub fn ids(&self) -> impl Iterator<Item = SegmentId> + use<> {
        (0..self.all.len()).map(id_of)
    }

    /// The aperture that stands for system memory.
    pub fn aperture(&self) -> &Segment {
        self.all.iter().find(|segment| segment.is_aperture()).expect("an aperture, or system memory for want of one")
    }

    /// The memory of the adapter as a whole.
    pub fn totals(&self) -> MemoryTotals {
        self.totals
    }

    /// Those whose pages are larger than 4 KB.
    pub fn of_large_pages(&self) -> SegmentSet {
        let large = self.all.iter().filter(|segment| segment.page_bytes() > PAGE_BYTES);
        large.fold(SegmentSet::NONE, |set, segment| set.with(SegmentSet::only(segment.id)))
    }

    /// The number behind the last segment means system memory in sets and preferences; the documented way to say that
    /// is the aperture's number (memory §10.2).
    pub fn with_system_alias(&self, mut info: AllocationInfo) -> AllocationInfo {
        let (alias, aperture) = (id_of(self.drivers), self.aperture().id);
        if info.supported_segments.contains(alias) {
            info.supported_segments.0 &= !(1 << (alias.0 - 1));
            info.supported_segments = info.supported_segments.with(SegmentSet::only(aperture));
        }
        info.preferred_segment = info.preferred_segment.map(|id| if id == alias { aperture } else { id });
        info
    }

    /// Pages that all apertures together may show at once (`ApertureSegmentCommitLimit` and what graphics may take of
    /// system memory).
    // spec: memory §1.12
    pub fn commit_limit_pages(&self) -> u64 {
        self.totals.shared_bytes / PAGE_BYTES
    }

    /// Pages that they may still show.
    pub fn commit_left_pages(&self) -> u64 {
        self.commit_limit_pages().saturating_sub(self.shown_pages())
    }

    fn shown_pages(&self) -> u64 {
        self.all.iter().filter(|segment| segment.is_aperture()).map(Segment::used_pages).sum()
    }

    /// Takes a run of an aperture, if both limits allow it.
    pub fn take_aperture(&mut self, segment: SegmentId, pages: u64, alignment: u64) -> Option<PageRun> {
        self.take_of_aperture(segment, pages, |segment| segment.take_run(pages, alignment))
    }

    fn take_of_aperture(
        &mut self,
        segment: SegmentId,
        pages: u64,
        take: impl FnOnce(&mut Segment) -> Option<PageRun>,
    ) -> Option<PageRun> {
        assert!(self[segment].is_aperture(), "only apertures show system pages");
        if pages == 0 || pages > self.commit_left_pages() {
            return None;
        }
        let taken = take(&mut self[segment]);
        let (shown, most) = (self.shown_pages(), self.commit_limit_pages());
        debug_assert!(taken.is_none() || shown <= most, "apertures show {shown} pages, and may show {most}");
        taken
    }

    /// Takes a run of an aperture for pages of the kernel itself, if both limits allow it. These stay where they are, also when all content
    /// leaves in favour of one device; so they lie at the end, where they split no room that the device needs in one piece.
    pub fn take_for_kernel(&mut self, segment: SegmentId, pages: u64) -> Option<PageRun> {
        let run = self.take_of_aperture(segment, pages, |segment| segment.take_last_run(pages))?;
        self[segment].note_kernels(run);
        Some(run)
    }

    /// Pages that all apertures together may show of allocations.
    pub fn commit_limit_without_kernels(&self) -> u64 {
        let kernels: u64 = self.all.iter().filter(|segment| segment.is_aperture()).map(Segment::kernels_pages).sum();
        self.commit_limit_pages().saturating_sub(kernels)
    }

    /// The entry of an allocation in the order of victims is another one now.
    pub fn restand(&mut self, id: AllocationId, old: Option<VictimEntry>, new: Option<VictimEntry>) {
        if let Some(old) = old {
            self[old.segment].victims.remove(id, old);
        }
        if let Some(new) = new {
            self[new.segment].victims.add(id, new);
        }
        // Most changes are of a rank or of a few pages: they need not pay for this.
        let (held, holds) = (old.and_then(VictimEntry::holds), new.and_then(VictimEntry::holds));
        if held != holds {
            for (at, here) in [(held, false), (holds, true)] {
                if let Some((segment, band)) = at {
                    self[segment].victims.hold(id, band, here);
                }
            }
        }
        for (segment, band) in held.into_iter().chain(holds) {
            self[segment].victims.assert_held(band);
        }
    }

    /// The bytes of memory segments are lost where `lost` says so: what is free there does not count as cleared any more.
    pub fn forget_cleared(&mut self, lost: impl Fn(&Segment) -> bool) {
        for segment in self.all.iter_mut().filter(|segment| lost(segment)) {
            segment.forget_cleared();
        }
    }

    /// Finds a fault in the limit over all apertures.
    pub fn check(&self) -> Result<(), String> {
        let (shown, most) = (self.shown_pages(), self.commit_limit_pages());
        if shown <= most { Ok(()) } else { Err(format!("apertures show {shown} pages, and may show {most}")) }
    }
}

impl Index<SegmentId> for Segments {
    type Output = Segment;
    fn index(&self, id: SegmentId) -> &Segment {
        debug_assert!(!id.is_system(), "system memory is no segment");
        let segment = &self.all[usize::from(id.0) - 1];
        debug_assert_eq!(segment.id, id, "segment n is at place n - 1");
        segment
    }
}

impl IndexMut<SegmentId> for Segments {
    fn index_mut(&mut self, id: SegmentId) -> &mut Segment {
        debug_assert!(!id.is_system(), "system memory is no segment");
        &mut self.all[usize::from(id.0) - 1]
    }
}
