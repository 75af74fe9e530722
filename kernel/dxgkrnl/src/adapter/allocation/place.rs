//! The memory manager's part of a creation: allocations with backing stores within what their process may commit, all or none, and what a
//! creation is told that finds no memory.

use kmt_calls::{AllocationInfoFlags, AllocationRequest, CreateAllocationFlags, Refusal, ResourceRequest};
use vidmm::{AllocationError, AllocationId, Origin};
use wddm_types::{Blame, NtStatus, PAGE_BYTES, SegmentId};

use crate::adapter::Adapter;
use crate::allocation::{Existing, completed, keep_in_system};
use crate::effect::Cx;
use crate::number::{DeviceNumber, SectionNumber};
use crate::refusal::{invalid, no_memory, not_supported, refuse};
use crate::scarcity::{Lack, NotCreated};

impl Adapter {
    /// VidMm's part: all or none.
    pub(super) fn place(
        &mut self,
        cx: &Cx<'_>,
        device: DeviceNumber,
        requests: &[AllocationRequest],
        call: &ResourceRequest,
        infos: &[ddi::AllocationInfo],
        existing: Vec<Existing>,
    ) -> Result<Vec<(AllocationId, Option<SectionNumber>)>, NotCreated> {
        let (owner, creator) = (self.owners.vidmm_of(device), self.owners.process_of(device));
        let mut wanted = Vec::with_capacity(infos.len());
        let mut sections = Vec::with_capacity(infos.len());
        for ((info, request), existing) in infos.iter().zip(requests).zip(existing) {
            self.check_notices(info)?;
            self.check_shared_backing(info, call)?;
            sections.push(existing.as_ref().map(|(_, section)| *section));
            let origin = Origin {
                primary: request.flags.contains(AllocationInfoFlags::PRIMARY),
                existing: existing.map(|(pages, _)| pages),
            };
            let mut info = completed(*info, request, call);
            if origin.existing.is_some() && !info.flags.contains(ddi::AllocationFlags::EXISTING_SYS_MEM) {
                // A driver that knows of such memory, or is asked for it, says itself where it may lie: copies are brought by locks.
                if !call.is_standard() {
                    keep_in_system(&mut info, self.vidmm.segments())?;
                }
                info.flags |= ddi::AllocationFlags::EXISTING_SYS_MEM;
            }
            wanted.push((info, origin));
        }
        let checked = self.vidmm.check_allocations(&wanted);
        checked.map_err(|error| self.told_apart(from_allocation(&error), wanted.iter().map(|(info, _)| info)))?;
        let fresh = wanted.iter().filter(|(_, origin)| origin.existing.is_none());
        // VidMm rounds the sizes that it has checked to pages.
        let bytes = fresh.map(|(info, _)| info.size_bytes.next_multiple_of(PAGE_BYTES)).sum();
        self.memory.committing.may_commit(bytes)?;
        let mut placed: Vec<(AllocationId, Option<SectionNumber>)> = Vec::with_capacity(infos.len());
        for ((info, origin), section) in wanted.into_iter().zip(sections) {
            match self.vidmm.create_allocation_from(owner, info, origin) {
                Ok(id) => {
                    // Memory that existed has been lent as what it is.
                    if section.is_none() {
                        self.provide_backing(cx, creator, id);
                    }
                    placed.push((id, section));
                }
                Err(error) => {
                    self.unplace(&mut placed);
                    return Err(self.told_apart(from_allocation(&error), infos.iter()));
                }
            }
        }
        debug_assert_eq!(placed.len(), infos.len(), "all are placed, or none");
        Ok(placed)
    }

    /// Takes back what was placed before a refusal.
    pub(super) fn unplace(&mut self, placed: &mut Vec<(AllocationId, Option<SectionNumber>)>) {
        for (id, _) in placed.drain(..) {
            self.memory.cpu_view.forget(id);
            assert!(self.vidmm.destroy_allocation(id, &[]).is_none(), "no work has used it");
        }
    }

    /// Refuses an allocation whose driver wants eviction notices that its paging buffers cannot carry.
    // spec: memory §3.4, operation 22: the driver is shown its pages by an address of the paging process
    fn check_notices(&self, info: &ddi::AllocationInfo) -> Result<(), Refusal> {
        let notified = info.flags2.contains(ddi::AllocationFlags2::NOTIFY_EVICTION);
        if notified && !self.memory.ring.has_addresses() {
            return Err(invalid("NotifyEviction needs paging buffers that run in an address space"));
        }
        Ok(())
    }

    // spec: memory §2.2, bit 0 of DXGK_ALLOCATIONINFOFLAGS2
    fn check_shared_backing(&self, info: &ddi::AllocationInfo, call: &ResourceRequest) -> Result<(), Refusal> {
        if !info.flags2.contains(ddi::AllocationFlags2::SHARE_BACKING_STORE_WITH_KMD) {
            return Ok(());
        }
        if !self.driver.has_feature(ddi::FeatureId::SHARE_BACKING_STORE_WITH_KMD) {
            return Err(invalid("ShareBackingStoreWithKmd needs its feature, which is off"));
        }
        if !call.flags.contains(CreateAllocationFlags::CREATE_SHARED) {
            return Err(invalid("ShareBackingStoreWithKmd is for shared allocations"));
        }
        Ok(())
    }

    /// Scarcity as a user-mode driver can tell it apart: of what may lie in video memory it hears whether there is memory for it once
    /// others have gone, for then it has its queues run empty and asks again. An adapter without video memory has apertures in its place.
    // spec: memory §9.2, memory §9.3
    fn told_apart<'a>(&self, why: NotCreated, mut infos: impl Iterator<Item = &'a ddi::AllocationInfo>) -> NotCreated {
        let segments = self.vidmm.segments();
        let is_memory = |id: SegmentId| {
            segments.get(usize::from(id.0).wrapping_sub(1)).is_some_and(|segment| !segment.is_aperture())
        };
        let bare = segments.iter().all(|segment| segment.is_aperture());
        match why {
            NotCreated::Lacks(Lack::Pages(wanted), refusal)
                if wanted <= self.vidmm.backing_pages_max()
                    && (bare || infos.any(|info| info.supported_segments.iter().any(is_memory))) =>
            {
                let status = NtStatus::GRAPHICS_NO_VIDEO_MEMORY;
                NotCreated::Lacks(Lack::Pages(wanted), Refusal { status, ..refusal })
            }
            why => why,
        }
    }
}

// spec: memory §9.2
fn from_allocation(error: &AllocationError) -> NotCreated {
    NotCreated::Refused(match error {
        AllocationError::NoBackingStore { wanted, .. } => {
            return NotCreated::Lacks(Lack::Pages(*wanted), no_memory(error.to_string()));
        }
        // spec: memory §9.2: the segments are exhausted, and nothing that goes would make room
        AllocationError::TooLarge => refuse(NtStatus::GRAPHICS_NO_VIDEO_MEMORY, Blame::Caller, error.to_string()),
        AllocationError::NotBuilt(_) | AllocationError::PhysicalAdapter => not_supported(error.to_string()),
        _ => invalid(error.to_string()),
    })
}
