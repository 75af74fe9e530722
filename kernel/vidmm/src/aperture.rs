//! Apertures: the pages of each, the commit limit over all of them, the kernel's own pages. Called by `commit`, `lock`,
//! `victim` and `list`, and by the kernel for its paging buffers.
//!
//! Two limits count: each aperture's own is the size of its pool; that of the adapter is one counter for all apertures, so
//! that together they never show more system memory than graphics may take.

use wddm_types::{PAGE_BYTES, PageRun, Pages, PhysicalAddress, SegmentId};

use crate::operation::Operation;
use crate::vidmm::VidMm;

/// No aperture page is left (scarcity).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room left in the aperture, or within the commit limit of all apertures")]
pub struct ApertureFull;

impl<F: Copy + Eq> VidMm<F> {
    /// Pages that all apertures together may show at once (`ApertureSegmentCommitLimit` and what graphics may take of
    /// system memory).
    // spec: memory §1.12
    pub(crate) fn commit_limit_pages(&self) -> u64 {
        self.totals().shared_bytes / PAGE_BYTES
    }

    /// Pages that they may still show.
    pub(crate) fn commit_left_pages(&self) -> u64 {
        let apertures = self.segments.iter().filter(|segment| segment.is_aperture());
        let shown: u64 = apertures.map(|segment| segment.pool.capacity_pages() - segment.pool.free_pages()).sum();
        self.commit_limit_pages().saturating_sub(shown)
    }

    /// Takes a run of an aperture, if both limits allow it.
    pub(crate) fn take_aperture(&mut self, segment: SegmentId, pages: u64, alignment: u64) -> Option<PageRun> {
        assert!(self.segment(segment).is_aperture(), "only apertures show system pages");
        if pages == 0 || pages > self.commit_left_pages() {
            return None;
        }
        self.segment_mut(segment).pool.take_contiguous(pages, alignment, false)
    }

    /// Shows system pages of the kernel through an aperture, for paging buffers (memory §1.11).
    ///
    /// # Errors
    /// Scarcity: the aperture has no run of that size left, or the commit limit is reached.
    pub fn aperture_map_system(
        &mut self,
        segment: SegmentId,
        pages: PageRun,
    ) -> Result<(PhysicalAddress, Operation), ApertureFull> {
        let run = self.take_aperture(segment, pages.count.0, 1).ok_or(ApertureFull)?;
        // The kernel writes them write-combined (memory §1.11), and such pages are never mapped coherently.
        let operation = Operation::MapAperture {
            device: None,
            allocation: None,
            segment,
            offset_in_pages: run.first,
            backing: vec![pages],
            cache_coherent: false,
            cpu_visible: false,
        };
        Ok((PhysicalAddress { segment, offset: run.first * PAGE_BYTES }, operation))
    }

    /// Takes pages out of the aperture that [`VidMm::aperture_map_system`] put there.
    pub fn aperture_unmap_system(&mut self, at: PhysicalAddress, count: Pages) -> Operation {
        let dummy_page = self.dummy_page_address();
        let first = at.offset / PAGE_BYTES;
        self.segment_mut(at.segment).pool.give(PageRun { first, count });
        Operation::UnmapAperture {
            device: None,
            allocation: None,
            segment: at.segment,
            offset_in_pages: first,
            number_of_pages: count.0,
            dummy_page,
        }
    }
}
