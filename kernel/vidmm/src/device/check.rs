//! What always holds of devices and their line. Called by `invariant`; nothing here changes anything.

use std::fmt::Debug;

use super::{Devices, Postponed};
use crate::slab::{AllocationId, DeviceId};

impl<F: Copy + Eq + Debug> Devices<F> {
    /// Finds a fault in the line, and in what each device says of itself.
    // spec: memory §8.6
    pub(crate) fn check(&self) -> Result<(), String> {
        for (&tick, &device) in &self.line {
            let suspended = self.get(device).and_then(|known| known.suspended);
            if suspended.is_none_or(|suspension| suspension.tick != tick) {
                return Err(format!("{device:?} is in line at {tick} and suspended as {suspended:?}"));
            }
        }
        for (device, known) in self.iter() {
            let in_line = known.suspended.is_some_and(|suspension| self.line.contains_key(&suspension.tick));
            if known.suspended.is_some() != in_line {
                return Err(format!("{device:?} waits outside the line"));
            }
            if !in_line && known.withheld.is_none() && !known.postponed.is_empty() {
                return Err(format!("{device:?} runs with postponed work"));
            }
            if known.withheld.is_some() != self.withholds(device) {
                return Err(format!("{device:?} withholds {:?}, and is not found so", known.withheld));
            }
            if let Some(id) = self.withheld_by(device).find(|id| self.times_withheld(device, *id) == 0) {
                return Err(format!("{device:?} withholds {id:?} 0 times"));
            }
            if let Some((id, _)) = known.counts.iter().find(|(_, count)| **count == 0) {
                return Err(format!("{device:?} lists {id:?} 0 times"));
            }
        }
        Ok(())
    }

    /// What a device owns.
    pub(crate) fn owned(&self, device: DeviceId) -> impl Iterator<Item = AllocationId> + '_ {
        self[device].owned.iter().copied()
    }

    /// Whether a device, which may have gone, owns an allocation.
    pub(crate) fn owns(&self, device: DeviceId, id: AllocationId) -> bool {
        self.get(device).is_some_and(|known| known.owned.contains(&id))
    }

    /// The allocations of all steps that wait.
    pub(crate) fn postponed_for(&self, device: DeviceId) -> impl Iterator<Item = AllocationId> + '_ {
        self[device].postponed.iter().map(Postponed::allocation)
    }

    /// How many offers of an allocation wait.
    pub(crate) fn offers_waiting(&self, id: AllocationId) -> usize {
        let of = |step: &&Postponed<F>| matches!(step, Postponed::Offer { .. }) && step.allocation() == id;
        self.iter().map(|(_, known)| known.postponed.iter().filter(of).count()).sum()
    }

    /// The state of each device that a refused call must leave as it was; the line, and the process that has its turn.
    pub(crate) fn state(&self) -> (impl Iterator<Item = (DeviceId, impl Debug + '_)>, impl Debug + '_) {
        let devices = self.iter().map(|(id, device)| {
            let lists = (device.space, &device.counts, &device.owned, device.suspended, device.turn_pages);
            (id, (lists, &device.last_uses, &device.postponed, &device.withheld))
        });
        (devices, (&self.line, &self.holder))
    }
}

#[cfg(test)]
impl<F: Copy + Eq> Devices<F> {
    /// Lets a device own nothing of what it owns, for those who test the check.
    pub(crate) fn forget_owned(&mut self, device: DeviceId) {
        self.devices[device].owned.clear();
    }

    /// Puts a running device into the line, for those who test the check.
    pub(crate) fn misplace(&mut self, device: DeviceId) {
        self.line.insert(7, device);
    }
}
