//! Notices to a driver that content of an allocation goes or has come, each as an operation of a paging buffer (memory §3.4).

use ddi::AllocationFlags;
use wddm_types::{PAGE_BYTES, PhysicalAddress, SegmentId};

use super::Allocation;
use crate::operation::Operation;
use crate::slab::AllocationId;

impl<F> Allocation<F> {
    /// The notice that it goes, if its driver wants one.
    // spec: memory §3.4, operation 15
    pub fn goes(&self) -> Option<Operation> {
        let wanted = self.info.flags.contains(AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION);
        let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 };
        let allocation = self.named().filter(|_| wanted)?;
        Some(Operation::NotifyResidency { allocation, address, resident: false })
    }

    /// The notice that it came to these frames, if its driver wants one. It is accessed physically: there is no part.
    pub fn came(&self, segment: SegmentId, first: u64) -> Option<Operation> {
        let wanted = self.info.flags.contains(AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION);
        debug_assert!(!wanted || self.accessed_physically(), "a notice of one place of what may lie in parts");
        let address = PhysicalAddress { segment, offset: first * PAGE_BYTES };
        let allocation = self.named().filter(|_| wanted)?;
        Some(Operation::NotifyResidency { allocation, address, resident: true })
    }

    /// The notice that the words in it are here now. Where they are first is no move.
    // spec: memory §3.4, operation 18
    pub fn words_moved(&self, id: AllocationId, address: PhysicalAddress) -> Option<Operation> {
        let moved = self.stores_fences() && !self.valid.is_empty();
        moved.then_some(Operation::NotifyFenceResidency { storage: id, address })
    }
}
