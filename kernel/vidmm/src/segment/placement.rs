//! Where in a segment an allocation would like to be: hinted banks first, then the end that the driver named (memory
//! §8.1 step 2). They are wishes: what finds no room there goes wherever there is some, and may cross the borders of
//! banks. Called by `plan` and `residency`, which have decided for the segment.

use ddi::{AllocationFlags, AllocationInfo};
use wddm_types::{PAGE_BYTES, PageRun, Pages};

use super::Segment;
use crate::pool::FramePool;

/// One allocation's wishes in one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Pages of the hinted banks, with whether to search from their top; the strongest first.
    banks: Vec<(PageRun, bool)>,
    /// From the top of the segment.
    top_down: bool,
    /// Alignment of contiguous content, in pages.
    alignment: u64,
}

impl Wish {
    /// The wish of an allocation in a segment.
    // spec: memory §2.4, memory §2.5, memory §8.1
    pub fn of(info: &AllocationInfo, segment: &Segment) -> Wish {
        let strongest = info.preferred_segment.first().is_some_and(|first| first.segment == segment.id);
        let banks = segment.banks.as_ref().filter(|_| strongest);
        let window = |bank: ddi::PreferredBank| Some((banks?.window(bank.bank)?, bank.top_down));
        let named = info.preferred_segment.iter().find(|entry| entry.segment == segment.id);
        let alignment = (info.alignment_bytes / PAGE_BYTES).max(segment.page_bytes() / PAGE_BYTES);
        let mut banks: Vec<_> = info.hinted_bank.iter().filter_map(window).collect();
        let overlay = info.flags.intersects(AllocationFlags::OVERLAY | AllocationFlags::CAPTURE);
        if overlay && banks.is_empty() && !named.is_some_and(|entry| entry.top_down) {
            banks.push((overlay_zone(segment), true));
        }
        debug_assert!(alignment.is_power_of_two(), "an alignment of {alignment} pages");
        Wish {
            banks,
            // Direction 0 leaves the end to VidMm, and then the flag says which.
            top_down: named.is_some_and(|entry| entry.top_down)
                || info.flags.contains(AllocationFlags::FROM_END_OF_SEGMENT),
            alignment,
        }
    }

    /// Alignment of contiguous content, in pages.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// One run: within a hinted bank; beginning in one, or ending there; anywhere.
    pub fn take_contiguous(&self, pool: &mut FramePool, pages: u64) -> Option<PageRun> {
        for &(bank, top_down) in &self.banks {
            if let Some(run) = pool.take_contiguous_within(bank, pages, self.alignment, top_down) {
                return Some(run);
            }
        }
        // spec: memory §1.8, an allocation may cross the borders of banks
        for &(bank, top_down) in &self.banks {
            let first = if top_down { bank.end().saturating_sub(pages + bank.count.0) } else { bank.first };
            let end = if top_down { bank.end() } else { bank.end().saturating_add(pages) };
            let reach = PageRun { first, count: Pages(end - first) };
            if let Some(run) = pool.take_contiguous_within(reach, pages, self.alignment, top_down) {
                return Some(run);
            }
        }
        pool.take_contiguous(pages, self.alignment, self.top_down)
    }

    /// Pages wherever they are, those of the hinted banks first; `None` when fewer are free.
    pub fn take_scattered(&self, pool: &mut FramePool, pages: u64) -> Option<Vec<PageRun>> {
        if pages > pool.free_pages() {
            return None;
        }
        let (mut runs, mut left) = (Vec::new(), pages);
        for &(bank, top_down) in &self.banks {
            let taken = pool.take_scattered_within(bank, left, top_down);
            left -= taken.iter().map(|run| run.count.0).sum::<u64>();
            runs.extend(taken);
        }
        if left > 0 && self.top_down {
            let everywhere = PageRun { first: 0, count: Pages(u64::MAX) };
            runs.extend(pool.take_scattered_within(everywhere, left, true));
        } else if left > 0 {
            runs.extend(pool.take_scattered_cleared(left)?);
        }
        let taken: u64 = runs.iter().map(|run| run.count.0).sum();
        debug_assert_eq!(taken, pages, "as many pages are taken as are wished for");
        Some(runs)
    }
}

/// The last fifth of a segment, where overlays and captures live unless hints say otherwise: pinned as they are, they leave
/// the rest in one piece. Counted is what content can have: page tables lie behind it.
// spec: memory §2.2 bits 8 and 9, memory §8.1
fn overlay_zone(segment: &Segment) -> PageRun {
    let whole = segment.pool.whole();
    let pages = whole.count.0 / 5;
    PageRun { first: whole.end() - pages, count: Pages(pages) }
}
