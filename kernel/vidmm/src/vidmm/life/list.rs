//! Allocations that lists of command buffers name (memory §5.6): whether a device may name one, and where it is. Lists move nothing and
//! keep nothing in its place; the kernel's packets ask here, and ask again when a device comes back.
//!
//! Also the aperture's part in DMA buffers (memory §7.1): pageable pages of the kernel, shown one by one.

use ddi::AllocationFlags;
use wddm_types::{PAGE_BYTES, PageRun, Pages, SegmentId};

use crate::allocation::{Placement, pages_in};
use crate::operation::Operation;
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::aperture::ApertureFull;

/// An allocation that a buffer may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Segment and GPU address (base + offset) of its first byte; `None`: it is nowhere, or not in one piece.
    pub place: Option<(SegmentId, u64)>,
    /// The address holds from the completion of this work on ([`VidMm::completed`]).
    pub serial: u64,
}

/// Why a buffer may not name it: the submission is rejected (memory §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// The device's list does not hold it.
    #[error("an allocation that is not on the device's residency list")]
    NotListed,
    /// It was created without AccessedPhysically, so it has no address.
    #[error("an allocation without AccessedPhysically")]
    NotPhysical,
    /// It is offered: to be reclaimed before GPU use.
    #[error("an allocation that is offered")]
    Offered,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Whether a buffer of `device` may name an allocation by its physical address, and which that is.
    ///
    /// # Errors
    /// See [`ReferenceError`].
    // spec: memory §5.6, memory §9.3
    pub fn reference(&self, device: DeviceId, id: AllocationId) -> Result<Reference, ReferenceError> {
        let reference = self.reference_by_address(device, id)?;
        if !self.allocations[id].info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY) {
            return Err(ReferenceError::NotPhysical);
        }
        let placed = reference.place.is_some() || !self.is_resident(id);
        debug_assert!(placed, "{id:?} is resident for physical addresses, and has none: {reference:?}");
        Ok(reference)
    }

    /// The same of a buffer that names it by GPU virtual address.
    ///
    /// # Errors
    /// `NotListed`, `Offered`.
    // spec: memory §5.6, memory §5.7
    pub fn reference_by_address(&self, device: DeviceId, id: AllocationId) -> Result<Reference, ReferenceError> {
        if self.count(device, id) == 0 {
            return Err(ReferenceError::NotListed);
        }
        // spec: memory §5.9
        if self.allocations[id].is_offered() {
            return Err(ReferenceError::Offered);
        }
        Ok(self.whereabouts(id))
    }

    /// Bytes that a buffer may name of an allocation: what it has wherever it may lie when the buffer runs.
    // spec: memory §2.6, memory §7.3
    pub fn reach_bytes(&self, id: AllocationId) -> u64 {
        let allocation = &self.allocations[id];
        Pages(self.reach_pages(&allocation.info, allocation.pages)).bytes()
    }

    /// The same of an allocation as it might be described.
    pub(crate) fn reach_pages(&self, info: &ddi::AllocationInfo, pages: u64) -> u64 {
        let of = |segment: SegmentId| pages_in(info, pages, self.segment(segment));
        info.supported_segments.iter().map(of).min().unwrap_or(pages)
    }

    /// Where an allocation is, without a check of any device's right to it: for buffers that named it when it was listed.
    pub fn whereabouts(&self, id: AllocationId) -> Reference {
        let allocation = &self.allocations[id];
        let address = |segment: SegmentId, frame: u64| {
            let base = self.segment(segment).descriptor.base_address;
            Some((segment, base + frame * PAGE_BYTES))
        };
        let place = match &allocation.placement {
            Placement::Memory(segment, extents) if extents.are_whole() => {
                extents.iter().next().and_then(|extent| address(*segment, extent.frame))
            }
            Placement::System(Some((aperture, run))) => address(*aperture, run.first),
            Placement::System(None) => allocation.displayed.at.and_then(|(aperture, run)| address(aperture, run.first)),
            Placement::None | Placement::Memory(..) => None,
        };
        Reference { place, serial: allocation.last_work }
    }

    /// Shows scattered system pages of the kernel in consecutive pages of an aperture. Answers with the first one's number
    /// there and its GPU address.
    ///
    /// # Errors
    /// Scarcity: the aperture has no run of that size left.
    // spec: memory §7.1
    pub fn map_dma_buffer(
        &mut self,
        segment: SegmentId,
        pages: &[PageRun],
    ) -> Result<(u64, u64, Operation), ApertureFull> {
        let count = pages.iter().map(|run| run.count.0).sum();
        debug_assert!(count > 0, "a DMA buffer of no page is shown in {segment:?}");
        let run = self.segments.take_for_kernel(segment, count).ok_or(ApertureFull)?;
        let operation = Operation::MapAperture {
            device: None,
            allocation: None,
            segment,
            offset_in_pages: run.first,
            backing: pages.to_vec(),
            cache_coherent: false,
            cpu_visible: false,
        };
        Ok((run.first, self.segment(segment).descriptor.base_address + run.first * PAGE_BYTES, operation))
    }

    /// Takes a DMA buffer out of the aperture again.
    pub fn unmap_dma_buffer(&mut self, segment: SegmentId, first: u64, count: Pages) -> Operation {
        let dummy_page = self.dummy_page_address();
        debug_assert!(self.segment(segment).is_aperture(), "a DMA buffer leaves {segment:?}, which is no aperture");
        self.segment_mut(segment).give_kernels(PageRun { first, count });
        Operation::UnmapAperture {
            device: None,
            allocation: None,
            segment,
            offset_in_pages: first,
            number_of_pages: count.0,
            dummy_page,
        }
    }
}
