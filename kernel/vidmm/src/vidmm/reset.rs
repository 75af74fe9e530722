//! A reset of the whole adapter (memory §3.5, §8.4) loses the content of memory segments and empties the apertures and the lists; the
//! kernel tells the driver of each, without touching its hardware. Pinned content and storage of fences keep their places, which no other
//! content may have, and lose only their bytes. Page tables are lost as well; the restart of the adapter writes them anew, as after a sleep
//! ([`VidMm::power_up`]). Called by the kernel crate when the hardware is gone.

use ddi::KmdAllocation;
use wddm_types::{PAGE_BYTES, SegmentId};

use crate::allocation::Placement;
use crate::operation::Form;
use crate::operation::{Direction, Operation};
use crate::paging::{Batch, Cause, Unqueued, Work};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// The adapter was reset: purges every allocation without moving a byte. The work is not for the ring: its operations
    /// are notices, given to the driver at once, one transfer of size 0 for each allocation that was in a memory segment
    /// and an unmap for each that was in an aperture. Windows and rotations are for afterwards: the CPU may look through
    /// the windows until then.
    // spec: memory §3.5, memory §8.4
    pub fn lost_memory(&mut self) -> Work<F> {
        let mut batch = Batch::new(0);
        let ids: Vec<AllocationId> = self.allocations.iter().map(|(id, _)| id).collect();
        let mut operations = Vec::new();
        for id in ids {
            let allocation = &self.allocations[id];
            let stays = allocation.pins > 0 || allocation.stores_fences();
            if let (Placement::Memory(segment, extents), Some(named)) = (&allocation.placement, allocation.named()) {
                let first = extents.iter().next().expect("it has pages there").frame;
                let base = self.segment(*segment).descriptor.base_address;
                operations.push(lost(named, *segment, base + first * PAGE_BYTES));
            }
            if !stays {
                self.leave_lists(id);
                self.withdraw(id, Cause::Reset, &mut batch);
            }
        }
        self.segments.forget_cleared(|_| true);
        let rotations = self.rotations(&mut batch);
        // Of what an eviction would do only the notices are left: there is nothing to copy and no table to write.
        // The platform's own translations stay.
        let kept =
            |what: &Operation| matches!(what, Operation::UnmapAperture { .. } | Operation::PlatformEntries { .. });
        let unmaps = batch.invalidations.into_iter().filter(kept);
        let notices = batch.leaving.into_iter().filter(|what| matches!(what, Operation::NotifyResidency { .. }));
        let operations: Vec<Operation> = notices.chain(operations).chain(unmaps).collect();
        Work {
            serial: 0,
            immediate: true,
            suspends: Vec::new(),
            quiesced: Vec::new(),
            idle_spaces: Vec::new(),
            after: Vec::new(),
            used: Vec::new(),
            clear: Vec::new(),
            departures: Vec::new(),
            operations,
            moves: batch.moves,
            tables: Vec::new(),
            conversions: Vec::new(),
            unmap: batch.unmap,
            // spec: memory §3.5
            ranges: batch.ranges.into_iter().chain(rotations.iter().flat_map(|turn| turn.ranges.clone())).collect(),
            rotations,
            unqueued: Unqueued::decided(),
        }
    }
}

/// The notice that content is lost: a transfer of nothing.
fn lost(allocation: KmdAllocation, segment: SegmentId, address: u64) -> Operation {
    Operation::Transfer {
        allocation: Some(allocation),
        allocation_offset: 0,
        size_bytes: 0,
        segment,
        address,
        contiguous: true,
        backing: Vec::new(),
        through: None,
        direction: Direction::Out,
        form: Form::Kept,
    }
}
