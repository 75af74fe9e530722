//! Context allocations (memory §7.5): allocations that a driver makes for a context or device of its own. Their first
//! content is the driver's; afterwards it is kept like any other. Who makes them resident, and when, is the caller's: as
//! long as the context is on the hardware.

use ddi::{AllocationFlags, AllocationInfo};
use wddm_types::{PageRun, Pages, SegmentId};

use crate::allocation::{Allocation, AllocationError, ContextContent, Placement};
use crate::operation::Operation;
use crate::paging::{Batch, Work};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// `DxgkCbCreateContextAllocation`: an allocation whose first content its driver makes when it first has a place.
    ///
    /// # Errors
    /// See [`AllocationError`]; `TooLarge` also when the scratch area cannot show all of it to its driver.
    // spec: memory §7.5
    pub fn create_context_allocation(
        &mut self,
        owner: DeviceId,
        info: AllocationInfo,
    ) -> Result<AllocationId, AllocationError> {
        if Pages::holding(info.size_bytes) > Pages(2 * self.policy.scratch_window.0) {
            return Err(AllocationError::TooLarge);
        }
        let id = self.create_allocation(owner, info)?;
        self.allocations[id].context = Some(ContextContent::Missing);
        Ok(id)
    }

    /// `DxgkCbUpdateContextAllocation`: the driver changes a context allocation that is resident. `None`: it is not one,
    /// or not resident. The driver hears of it in the work's place in the ring.
    // spec: memory §7.5, memory §3.3
    pub fn update_context_allocation(&mut self, id: AllocationId, private_data: Vec<u8>) -> Option<Work<F>> {
        if self.allocations[id].context != Some(ContextContent::There) || !self.is_resident(id) {
            return None;
        }
        let mut batch = Batch::new(self.serial + 1);
        let allocation = &mut self.allocations[id];
        if let Placement::Memory(_, extents) = &mut allocation.placement {
            extents.make_dirty();
        }
        allocation.last_work = batch.serial;
        let (segment, pages) = place_of(allocation);
        batch.content.push(Operation::UpdateContext { segment, pages, private_data });
        self.finish(batch, false)
    }
}

/// The driver's part of the first content, once; behind the fill that clears the pages.
pub(crate) fn first_content<F>(allocation: &mut Allocation<F>) -> Option<Operation> {
    if allocation.context != Some(ContextContent::Missing) {
        return None;
    }
    allocation.context = Some(ContextContent::There);
    // From now on the content is worth keeping.
    if let Placement::Memory(_, extents) = &mut allocation.placement {
        extents.make_dirty();
    }
    let cpu = AllocationFlags::CPU_VISIBLE | AllocationFlags::PROTECTED;
    let cpu_visible = allocation.info.flags.contains(cpu) && matches!(allocation.placement, Placement::System(_));
    let (segment, pages) = place_of(allocation);
    Some(Operation::InitContext { allocation: allocation.info.allocation, segment, pages, cpu_visible })
}

fn place_of<F>(allocation: &Allocation<F>) -> (SegmentId, Vec<PageRun>) {
    match &allocation.placement {
        Placement::None => unreachable!("it has just got its place"),
        Placement::Memory(segment, extents) => {
            (*segment, extents.iter().map(|e| PageRun { first: e.frame, count: Pages(e.count) }).collect())
        }
        Placement::System(_) => (SegmentId::SYSTEM, allocation.backing.clone()),
    }
}
