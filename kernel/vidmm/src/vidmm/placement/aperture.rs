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
    /// Shows system pages of the kernel through an aperture, for paging buffers (memory §1.11).
    ///
    /// # Errors
    /// Scarcity: the aperture has no run of that size left, or the commit limit is reached.
    pub fn aperture_map_system(
        &mut self,
        segment: SegmentId,
        pages: PageRun,
    ) -> Result<(PhysicalAddress, Operation), ApertureFull> {
        let run = self.segments.take_for_kernel(segment, pages.count.0).ok_or(ApertureFull)?;
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
        self.segment_mut(at.segment).give_kernels(PageRun { first, count });
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
