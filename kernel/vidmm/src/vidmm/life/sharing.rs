//! Allocations that several devices have open (memory §2.7): one of them goes, the others stay. Counts are per device,
//! addresses per process, the backing store is one. Called by the kernel, which counts the openings.

use wddm_types::{PageRun, Pages};

use crate::paging::Work;
use crate::slab::{AllocationId, DeviceId, SpaceId};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// A device that had the allocation open has closed it, its last use is over. Its counts go; with the last device of
    /// a process (`unmap`) the addresses there too (memory §6.2). `heir`: one that still has it open, and owns it from
    /// now on; none, when only a name keeps it, until [`VidMm::adopt_allocation`].
    // spec: memory §2.7, memory §10.1
    pub fn leave_allocation(
        &mut self,
        id: AllocationId,
        device: DeviceId,
        heir: Option<DeviceId>,
        unmap: bool,
    ) -> Option<Work<F>> {
        let mut batch = self.works.begin();
        self.devices.forget_withheld(device, id);
        if let Some(count) = self.devices.unlist(device, id) {
            self.remove_holder(id, device);
            self.foresee_leave(device, id);
            self.release(id, count, &[]);
        }
        if self.devices.drop_postponed(device, id) {
            // Nothing that the device queued keeps the offer waiting.
            self.begin_due_offer(id, &[]);
        }
        if unmap {
            let space = self.devices[device].space();
            let there: Vec<(SpaceId, u64)> =
                self.allocations[id].mappings.iter().copied().filter(|(mapped, _)| *mapped == space).collect();
            for (space, first) in there {
                let count =
                    Pages(self.spaces[space].mapping_at(first).expect("an allocation knows its mappings").pages);
                let run = PageRun { first, count };
                self.conceal(space, run, &mut batch);
                self.revert(space, run, &mut batch);
            }
        }
        if self.allocations[id].owner == Some(device) {
            self.devices.disown(device, id);
            self.own(id, heir);
        }
        self.finish(batch, false)
    }

    /// A device opens an allocation: it owns it, if no device does.
    // spec: memory §2.7
    pub fn adopt_allocation(&mut self, id: AllocationId, device: DeviceId) {
        if self.allocations[id].owner.is_none() {
            self.own(id, Some(device));
        }
    }

    fn own(&mut self, id: AllocationId, owner: Option<DeviceId>) {
        if let Some(device) = owner {
            self.devices.own(device, id);
        }
        self.allocations[id].owner = owner;
        self.reband(id);
        self.rerank(id);
    }

    /// Its only device says that nothing uses it (AssumeNotInUse): its eviction and destruction wait for no earlier use.
    // spec: memory §6.2
    pub fn assume_not_in_use(&mut self, id: AllocationId) {
        self.allocations[id].last_use.clear();
    }
}
