//! Context allocations (memory §7.5): allocations that a driver makes for a context or device of its own. Their first
//! content is the driver's; afterwards it is kept like any other. The caller makes them resident, for as long as the context is on the
//! hardware.

use ddi::{AllocationFlags, AllocationInfo};
use wddm_types::{PageRun, Pages, SegmentId};

use crate::allocation::{Allocation, AllocationError, Placement};
use crate::operation::Operation;
use crate::paging::Work;
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
        self.allocations[id].context = Some(Box::default());
        Ok(id)
    }

    /// `DxgkCbUpdateContextAllocation`: the driver changes a context allocation. It hears of that in the work's place in the
    /// ring; `None`: not all of it is resident, and it hears of it when it is, before the context is on the hardware.
    // spec: memory §7.5, memory §3.3
    pub fn update_context_allocation(&mut self, id: AllocationId, private_data: Vec<u8>) -> Option<Work<F>> {
        let there = self.is_resident(id);
        let mut batch = self.works.begin();
        let allocation = &mut self.allocations[id];
        let content = allocation.context.as_mut().expect("only what was made for a context is changed by its driver");
        content.updates.push(private_data);
        if !there || !content.initialized {
            return None;
        }
        allocation.last_work = batch.serial;
        batch.content.extend(content_of_driver(allocation));
        self.finish(batch, false)
    }
}

/// The driver's part of the content of what has just got its place, behind what fills or copies it: the first content,
/// once, and the changes that have waited for it.
pub(crate) fn content_of_driver<F>(allocation: &mut Allocation<F>) -> Vec<Operation> {
    let Some(content) = &mut allocation.context else { return Vec::new() };
    let first = !std::mem::replace(&mut content.initialized, true);
    let updates = std::mem::take(&mut content.updates);
    if !first && updates.is_empty() {
        return Vec::new();
    }
    // From now on the content is worth keeping.
    if let Placement::Memory(_, extents) = &mut allocation.placement {
        extents.make_dirty();
    }
    let protected = allocation.info.flags.contains(AllocationFlags::PROTECTED);
    let cpu_visible = protected && allocation.cpu_visible() && matches!(allocation.placement, Placement::System(_));
    let (segment, pages) = place_of(allocation);
    let init = first.then(|| Operation::InitContext {
        allocation: allocation.info.allocation,
        segment,
        pages: pages.clone(),
        cpu_visible,
    });
    let update = |private_data| Operation::UpdateContext { segment, pages: pages.clone(), private_data };
    init.into_iter().chain(updates.into_iter().map(update)).collect()
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
