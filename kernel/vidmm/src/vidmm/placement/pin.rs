//! Pins and eviction priorities of allocations (memory §2.3, §8.2). Called by the kernel.

use crate::allocation::Placement;
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

/// Why an allocation is not pinned; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// It is not resident: it has to be made resident first.
    #[error("it is not resident")]
    NotResident,
    /// It is offered.
    #[error("it is offered")]
    Offered,
}

/// Why priorities are not set; nothing changed for the whole call. The caller is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an allocation priority of 0")]
pub struct PriorityError;

impl<F: Copy + Eq> VidMm<F> {
    /// Keeps a resident allocation where it is until as many [`VidMm::unpin`]: while it is displayed, or an update of it
    /// is queued. Pins count; they outlast Evict.
    ///
    /// # Errors
    /// See [`PinError`].
    // spec: memory §8.2, memory §5.1
    pub fn pin(&mut self, id: AllocationId) -> Result<(), PinError> {
        if self.allocations[id].is_offered() {
            return Err(PinError::Offered);
        }
        if !self.is_resident(id) {
            return Err(PinError::NotResident);
        }
        self.allocations[id].pins += 1;
        self.rerank(id);
        Ok(())
    }

    /// Undoes one pin. Content that no list names any more is a victim from now on.
    pub fn unpin(&mut self, id: AllocationId) {
        let allocation = &mut self.allocations[id];
        allocation.pins = allocation.pins.checked_sub(1).expect("it was pinned");
        let (displayed, pins) = (allocation.displayed.times, allocation.pins);
        debug_assert!(displayed <= pins, "{id:?} is displayed {displayed} times, and has {pins} pins");
        let idle = allocation.pins == 0 && allocation.count == 0 && allocation.doomed.is_none();
        if idle && matches!(allocation.placement, Placement::Memory(..)) {
            // Its last use ended now.
            allocation.lazy_since = None;
            self.become_victim(id);
        } else {
            self.rerank(id);
        }
    }

    /// Whether an allocation is pinned.
    pub fn is_pinned(&self, id: AllocationId) -> bool {
        self.allocations[id].pins > 0
    }

    /// `D3DKMTSetAllocationPriority`: any value but 0; the lower goes first among its like.
    ///
    /// # Errors
    /// See [`PriorityError`].
    // spec: memory §2.3
    pub fn set_allocation_priority(&mut self, list: &[(AllocationId, u32)]) -> Result<(), PriorityError> {
        if list.iter().any(|(_, priority)| *priority == 0) {
            return Err(PriorityError);
        }
        for &(id, priority) in list {
            self.allocations[id].info.priority = priority;
            self.rerank(id);
        }
        Ok(())
    }

    /// An allocation's eviction priority.
    pub fn allocation_priority(&self, id: AllocationId) -> u32 {
        self.allocations[id].info.priority
    }
}
