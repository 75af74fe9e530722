//! The checks of mapping requests (memory §4.8).

use super::{MapError, MapRequest, Target};
use crate::slab::{AllocationId, SpaceId};
use crate::space::{Reserved, Shown};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Checks the target of a request and returns it.
    pub(super) fn check_target(&self, space: SpaceId, request: &MapRequest) -> Result<Option<Shown>, MapError> {
        if request.size_pages.is_zero() {
            return Err(MapError::Misaligned);
        }
        match request.target {
            Target::Allocation { allocation, offset_pages } => {
                if self.spaces[space].is_paging() {
                    return Err(MapError::AllocationInPagingSpace);
                }
                self.check_part(allocation, offset_pages.0, request.size_pages.0, request.protection.driver)?;
                Ok(Some(Shown::Allocation(allocation, offset_pages.0)))
            }
            Target::FenceStorage(allocation) => {
                assert!(self.allocations[allocation].stores_fences(), "storage of fences");
                self.check_part(allocation, 0, request.size_pages.0, request.protection.driver)?;
                Ok(Some(Shown::Allocation(allocation, 0)))
            }
            Target::Whole(allocation) => {
                self.check_part(allocation, 0, request.size_pages.0, request.protection.driver)?;
                Ok(Some(Shown::Allocation(allocation, 0)))
            }
            Target::SystemPages(run) | Target::FencePages(run) if run.count != request.size_pages => {
                Err(MapError::BeyondAllocation)
            }
            Target::SystemPages(run) => Ok(Some(Shown::System(run.first))),
            Target::FencePages(run) => Ok(Some(Shown::Words(run.first))),
            Target::Reserved(Reserved::Zero) => Ok(Some(Shown::Zero)),
            Target::Reserved(Reserved::NoAccess) => Ok(None),
        }
    }

    /// Whether pages of an allocation may be mapped with a driver protection.
    pub(crate) fn check_part(
        &self,
        id: AllocationId,
        first: u64,
        count: u64,
        driver_protection: u64,
    ) -> Result<(), MapError> {
        let allocation = &self.allocations[id];
        // spec: memory §10.4 item 28, nothing outside can be put in an entry
        let end = first.checked_add(count).filter(|&end| end <= allocation.pages).ok_or(MapError::BeyondAllocation)?;
        if self.may_align_pitches(&allocation.info) {
            return Err(MapError::PitchAligned);
        }
        // spec: memory §4.11
        let others = || {
            allocation.mappings.iter().any(|&(space, start)| {
                let mapping = self.spaces[space].mapping_at(start).expect("an allocation knows its mappings");
                let Shown::Allocation(_, from) = mapping.shown else { return false };
                from < end && first < from + mapping.pages && mapping.protection.driver != driver_protection
            })
        };
        let unique = driver_protection & crate::unique::UNIQUE != 0;
        if !allocation.unique.allow(first, end, driver_protection) || unique && others() {
            return Err(MapError::UniqueProtection);
        }
        Ok(())
    }

    /// Whether an allocation may lie somewhere in a layout that only its driver knows.
    // spec: memory §2.6
    pub(crate) fn may_align_pitches(&self, info: &ddi::AllocationInfo) -> bool {
        info.supported_segments.iter().any(|id| self.segment(id).aligns_pitches())
    }
}
