//! In which form the content of marked allocations lies (memory §6.5), first generation only. VidMm knows no formats: it knows that a range
//! shows an allocation, and for those that the driver marks `Swizzled` whether their backing store is linear. Called by `lock::legacy`,
//! `victim`, `commit`.

use ddi::{AllocationFlags, DriverModel};

use crate::allocation::{Allocation, Placement};
use crate::operation::{Form, HeldRange};
use crate::paging::Batch;
use crate::slab::AllocationId;
use crate::swizzle::SwizzlingRanges;
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// How many swizzling ranges the driver has (`NumberOfSwizzlingRanges`). WDDM 2 has none.
    // spec: memory §6.5
    pub fn set_swizzling_ranges(&mut self, count: u32) {
        let count = if self.model == DriverModel::Wddm1 { count } else { 0 };
        self.ranges = SwizzlingRanges::new(count);
    }

    /// Gives up a range of unlocked content, because the driver says that none is available; the caller releases it.
    // spec: memory §6.5
    pub fn release_kept_range(&mut self) -> Option<HeldRange> {
        self.ranges.release_kept()
    }

    /// The driver has released ranges that a [`Rotation`](crate::Rotation) named.
    pub fn ranges_released(&mut self, ranges: &[HeldRange]) {
        ranges.iter().for_each(|held| self.ranges.forget(held.range));
    }

    /// Ends the ranges of content that leaves its memory segment: at once when the content is unlocked, with the rotation otherwise.
    // spec: memory §6.5, released on eviction, destruction, demand
    pub(crate) fn leave_ranges(&mut self, id: AllocationId, batch: &mut Batch<F>) {
        let seen = self.allocations[id].locks.count > 0;
        let ended = self.ranges.end(id, seen);
        if seen && !ended.is_empty() {
            batch.locked_leaves(id);
            batch.ranges_locked.insert(id, ended);
        } else {
            batch.ranges.extend(ended);
        }
    }

    /// Marked content is about to be copied out: in which form. Whatever is copied is copied whole, so that the backing
    /// store has one form.
    // spec: memory §6.5
    pub(crate) fn form_out(&mut self, id: AllocationId, for_cpu: bool) -> Form {
        let model = self.model;
        // spec: memory §3.4, operation 7
        let seen = self.ranges.of(id).filter(|_| self.is_alternate(id) && self.allocations[id].locks.count > 0);
        let allocation = &mut self.allocations[id];
        if let (Some(range), Placement::Memory(_, extents)) = (seen, &mut allocation.placement) {
            extents.make_dirty();
            allocation.special = Some(Box::new(range));
            return Form::Special(range);
        }
        if !is_marked(model, allocation) {
            return Form::Kept;
        }
        let listed = allocation.count > 0;
        let Placement::Memory(_, extents) = &mut allocation.placement else { return Form::Kept };
        let copied = listed || extents.iter().any(|extent| extent.dirty);
        let linear = for_cpu || allocation.locks.count > 0;
        if !copied && (allocation.backing_linear || !linear) {
            return Form::Kept;
        }
        extents.make_dirty();
        allocation.backing_linear = linear;
        if linear { Form::Unswizzle } else { Form::Kept }
    }

    /// Marked content is about to be copied in.
    // spec: memory §6.5
    pub(crate) fn form_in(&mut self, id: AllocationId) -> Form {
        if let Some(range) = self.allocations[id].special.take() {
            return Form::Special(*range);
        }
        let allocation = &self.allocations[id];
        if is_marked(self.model, allocation) && allocation.backing_linear { Form::Swizzle } else { Form::Kept }
    }

    /// Whether the CPU sees an allocation at an address of the driver's choice.
    fn is_alternate(&self, id: AllocationId) -> bool {
        let flags = self.allocations[id].info.flags;
        self.model == DriverModel::Wddm1 && flags.contains(AllocationFlags::USE_ALTERNATE_VA)
    }

    /// Whether the driver has marked an allocation, so that VidMm keeps track of its form.
    pub fn is_marked(&self, id: AllocationId) -> bool {
        is_marked(self.model, &self.allocations[id])
    }
}

fn is_marked<F>(model: DriverModel, allocation: &Allocation<F>) -> bool {
    model == DriverModel::Wddm1 && allocation.info.flags.contains(AllocationFlags::SWIZZLED)
}
