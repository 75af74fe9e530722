//! Allocations and the memory that there is for them: how large one over memory of the program must be, where it may lie, and what a
//! creation is told that finds none.

use ddi::KmdAllocation;
use kmt_calls::{AllocationRequest, Refusal, ResourceRequest};
use wddm_types::{NtStatus, PAGE_BYTES, SegmentId, SegmentSet};

use crate::adapter::Adapter;
use crate::allocations::ResourceNumber;
use crate::effect::Cx;
use crate::refusal::invalid;
use crate::scarcity::{Lack, NotCreated};

impl Adapter {
    /// The sizes of the allocations that a creation asks for: the driver names them, and keeps none. An allocation over existing memory
    /// is as large as its pages.
    // spec: memory §2.7
    pub fn allocation_sizes(
        &mut self,
        cx: &Cx<'_>,
        requests: &[AllocationRequest],
        call: &ResourceRequest,
        resource: Option<ResourceNumber>,
    ) -> Result<Vec<u64>, Refusal> {
        self.check_lengths(requests, call)?;
        let blobs: Vec<Vec<u8>> = requests.iter().map(|request| request.private_data.clone()).collect();
        let (infos, kmd_resource) = self.create_in_driver(cx, &blobs, call, resource)?;
        let made: Vec<KmdAllocation> = infos.iter().map(|info| info.allocation).collect();
        self.destroy_in_driver(cx, &made, kmd_resource, resource.is_none());
        let bytes = |info: &ddi::AllocationInfo| info.size_bytes.checked_next_multiple_of(PAGE_BYTES);
        infos.iter().map(|info| bytes(info).ok_or_else(|| invalid("an allocation larger than memory"))).collect()
    }

    /// Leaves an allocation over existing memory only system memory and apertures, or refuses it: the CPU stores into those pages, and
    /// no lock says when. The driver does not know what memory it is.
    // spec: memory §2.2 (bit 4), memory §2.7
    pub(super) fn keep_in_system(&self, info: &mut ddi::AllocationInfo) -> Result<(), Refusal> {
        let is_system = |id: &SegmentId| {
            let segment = self.vidmm.segments().get(usize::from(id.0).wrapping_sub(1));
            segment.is_none_or(vidmm::Segment::is_aperture)
        };
        let only = |set: SegmentSet| {
            set.iter().filter(is_system).fold(SegmentSet::NONE, |set, id| set.with(SegmentSet::only(id)))
        };
        let supported = only(info.supported_segments);
        if supported != info.supported_segments {
            if supported.is_empty() {
                return Err(invalid(
                    "memory of the program for an allocation that its driver has in video memory only",
                ));
            }
            (info.supported_segments, info.preferred_segment) = (supported, Default::default());
        }
        info.read_segments = only(info.read_segments);
        Ok(())
    }

    /// Scarcity as a user-mode driver can tell it apart: of what may lie in video memory it hears whether there is memory for it once
    /// others have gone, for then it has its queues run empty and asks again.
    // spec: memory §9.2, memory §9.3
    pub(super) fn told_apart<'a>(
        &self,
        why: NotCreated,
        mut infos: impl Iterator<Item = &'a ddi::AllocationInfo>,
    ) -> NotCreated {
        let segments = self.vidmm.segments();
        let is_memory = |id: SegmentId| {
            segments.get(usize::from(id.0).wrapping_sub(1)).is_some_and(|segment| !segment.is_aperture())
        };
        match why {
            NotCreated::Lacks(Lack::Pages(wanted), refusal)
                if wanted <= self.vidmm.backing_pages_max()
                    && infos.any(|info| info.supported_segments.iter().any(is_memory)) =>
            {
                let status = NtStatus::GRAPHICS_NO_VIDEO_MEMORY;
                NotCreated::Lacks(Lack::Pages(wanted), Refusal { status, ..refusal })
            }
            why => why,
        }
    }
}
