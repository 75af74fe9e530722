//! Content moves within its segment, as planned: for a contiguous request when pages enough are free and no hole is (memory
//! §8.1). `plan` has decided the moves; `commit` calls this to carry them out.
//!
//! The order is that of an eviction and a commit: drivers told, entries invalid, TLB; then the copies, drivers told, entries
//! valid. The devices that list the content quiesce meanwhile; for content on no list, the work waits for its last use. All of it is
//! settled before anything comes into the places that became free.

use wddm_types::PAGE_BYTES;

use crate::allocation::Placement;
use crate::extent::Extent;
use crate::operation::Operation;
use crate::paging::{Batch, UsedContent, merge_points};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::Relocated;

impl<F: Copy + Eq> VidMm<F> {
    /// Whether content may leave its place and come back within one work: no other content uses that place.
    pub(crate) fn may_be_placed_anew(&self, id: AllocationId) -> bool {
        let allocation = &self.allocations[id];
        let needed = allocation.standing.is_some_and(|standing| standing.rank.is_none());
        needed && allocation.pins == 0 && allocation.locks.count == 0 && !allocation.stores_fences()
    }

    /// Quiesces these devices while a work moves content of their lists.
    pub(crate) fn quiesce_meanwhile(&mut self, devices: Vec<DeviceId>, batch: &mut Batch<F>) {
        for &device in &devices {
            // As for a suspension: the work waits for these uses before the devices quiesce, never for quiesced ones.
            merge_points(&mut batch.after, &self.devices.take_uses(device));
        }
        batch.quiesced.extend(devices);
    }

    /// Carries moves out. The caller has quiesced the devices that list the content.
    // spec: memory §8.1, memory §1.14
    pub(crate) fn relocate(&mut self, moves: &[Relocated], batch: &mut Batch<F>) {
        if moves.is_empty() {
            return;
        }
        let mut notified: Vec<AllocationId> = Vec::new();
        for step in moves {
            if !notified.contains(&step.allocation) {
                notified.push(step.allocation);
                self.leave_window(step.allocation, batch);
                let allocation = &mut self.allocations[step.allocation];
                batch.leaving.extend(allocation.goes());
                let until = std::mem::take(&mut allocation.last_use);
                batch.takes_used(UsedContent::moved(step.allocation, until));
            }
            // The moves of one hole leave no place that another of them comes to, but those of a second hole in the same plan
            // may come to what the first has left: so the order is the plan's, here and in the copies.
            let segment = &mut self.segments[step.segment];
            segment.take_exact(step.to);
            segment.give(step.from);
        }
        // All entries go before any comes: a large page may be taken apart by one move and put together by another.
        for step in moves {
            let (id, (page, count)) = (step.allocation, self.pages_at(step));
            self.spaces.hide(&self.allocations[id], page, count, batch);
        }
        for step in moves {
            self.relocate_one(step, batch);
        }
        for id in notified {
            let allocation = &self.allocations[id];
            if let Placement::Memory(segment, extents) = &allocation.placement {
                let first = extents.iter().next().map(|extent| extent.frame);
                batch.arrived.extend(first.and_then(|first| allocation.came(*segment, first)));
            }
        }
        self.settle(batch);
    }

    /// Which pages of its allocation a move is about, and how many.
    fn pages_at(&self, step: &Relocated) -> (u64, u64) {
        let Placement::Memory(_, extents) = &self.allocations[step.allocation].placement else {
            unreachable!("what moves within a segment is in one")
        };
        let first = step.from.first;
        let here = |extent: &Extent| extent.frame <= first && first < extent.frame + extent.count;
        let extent = extents.iter().find(here).expect("it is where the plan saw it");
        (extent.page + (first - extent.frame), step.from.count.0)
    }

    fn relocate_one(&mut self, step: &Relocated, batch: &mut Batch<F>) {
        let &Relocated { allocation: id, segment, from, to, for_allocation } = step;
        self.note_paging(id, batch.serial);
        let base = self.segment(segment).descriptor.base_address;
        let address = |frame: u64| base + frame * PAGE_BYTES;
        let allocation = &mut self.allocations[id];
        let Placement::Memory(present, extents) = &mut allocation.placement else {
            unreachable!("what moves within a segment is in one")
        };
        assert_eq!(*present, segment, "it is where the plan saw it");
        let moved = extents.relocate(from.first, from.count.0, to.first);
        allocation.last_work = batch.serial;
        let owner = allocation.info.allocation;
        assert_eq!(moved.iter().map(|extent| extent.count).sum::<u64>(), from.count.0, "all of it lies there");
        // One copy of the whole run, whatever of it is dirty.
        let (page, count) = (moved[0].page, from.count.0);
        batch.content.push(Operation::Relocate {
            allocation: owner,
            allocation_offset: page * PAGE_BYTES,
            size_bytes: from.count.bytes(),
            segment,
            from: address(from.first),
            to: address(to.first),
        });
        batch.relocated(id, owner, segment, for_allocation, [from, to]);
        let taken = Extent { page, frame: to.first, count, dirty: false };
        self.segment_mut(segment).note_taken(&taken);
        self.spaces.show(&self.allocations[id], id, None, page, count, batch);
    }
}
