//! Content that a device has made resident, and withholds: content that the device's earlier queued work uses needs the room first
//! (`way`). The device has a turn without it, in which that work ends; then its list names it again, and the next turn brings it.
//!
//! The process counts it as resident all along: its paging fences say later that it is there.

use crate::device::WithheldPlace;
use crate::paging::Work;
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::{Claim, Limit, Takes};
use crate::vidmm::placement::residency::MakeResidentError;

impl<F: Copy + Eq> VidMm<F> {
    /// Whether a device withholds content: the values of its paging queues come with the turn that brings it.
    pub fn withholds(&self, device: DeviceId) -> bool {
        self.devices.withholds(device)
    }

    /// The first and the last place of what a device withholds.
    pub fn withheld_places(&self, device: DeviceId) -> Option<[WithheldPlace; 2]> {
        self.devices.withheld_places(device)
    }

    /// The first place at which a device withholds an allocation: queued work of that place or a later one has not the content before the
    /// turn that brings it. `None`: the device does not withhold it.
    pub fn withheld_place(&self, device: DeviceId, id: AllocationId) -> Option<WithheldPlace> {
        self.devices.withheld_place(device, id)
    }

    /// Whether any device withholds content.
    pub fn any_withholds(&self) -> bool {
        self.devices.any_withholds()
    }

    /// The devices that withhold content.
    pub fn withholding(&self) -> Vec<DeviceId> {
        self.devices.withholding().collect()
    }

    /// Content comes with this work. Content that needs none is there at once.
    pub(crate) fn come_with(&mut self, work: Option<&Work<F>>, coming: Vec<AllocationId>) {
        let Some(work) = work else { return };
        for id in coming {
            self.allocations[id].comes(work.serial, self.works.completed());
        }
    }

    /// Content comes with a turn of its device: behind the works that are decided, and behind the one that suspends the device.
    pub(crate) fn comes_with_turn(&mut self, device: DeviceId, list: &[AllocationId]) {
        let last = self.works.returned() + u64::from(!self.is_suspended(device));
        let new = list.iter().copied().filter(|id| !self.devices[device].lists(*id) && !self.is_resident(*id));
        for id in new.collect::<Vec<_>>() {
            self.allocations[id].comes(last, self.works.completed());
        }
    }

    /// A device's list, if it names an allocation, does so no more until there is room beside what its work uses.
    pub(crate) fn withhold(&mut self, device: DeviceId, id: AllocationId) {
        if !self.devices[device].lists(id) {
            return;
        }
        let count = self.devices.withhold(device, id, self.allocations[id].last_coming());
        self.remove_holder(id, device);
        self.foresee_leave(device, id);
        self.release(id, count, &[]);
        self.free_aperture_later(id, device);
    }

    /// A device that withholds content makes more resident.
    ///
    /// # Errors
    /// It does not fit beside what the device's list names when its uses are over. Nothing changed.
    pub(crate) fn withhold_more(&mut self, claim: Claim, list: &[AllocationId]) -> Result<(), MakeResidentError> {
        self.plan_behind(claim, list).inspect_err(|_| self.pressure.feel())?;
        self.devices.withhold_more(claim.device, list);
        Ok(())
    }

    /// Lists again what a device withholds, as far as its list with the content that its work uses has room for that: it comes with the device's
    /// next turn. The work suspends a device that runs.
    pub fn list_withheld(&mut self, device: DeviceId) -> Option<Work<F>> {
        let claim = Claim { device, takes: Takes::Lower, limit: Limit::None, for_holders: false, moves: true };
        let mut batch = None;
        while self.devices.withholds(device) && self.plan_alone(claim, &self.devices.first_withheld(device)).is_ok() {
            let batch = batch.get_or_insert_with(|| self.works.begin());
            if !self.is_suspended(device) {
                self.suspend_now(device, batch);
            }
            for (id, count) in self.devices.take_first_withheld(device) {
                self.list_again(device, id, count);
            }
            self.forget_turn();
        }
        self.finish(batch?, false)
    }

    /// A device's list names an allocation as often as the device's process has made it resident.
    fn list_again(&mut self, device: DeviceId, id: AllocationId, count: u64) {
        for _ in 0..count {
            if self.devices.stays_if_listed(device, id) {
                self.foresee_use(device, &[id]);
            }
            self.count_up(device, id);
        }
    }
}
