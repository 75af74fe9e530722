//! What each device has: its bindings and resources, and what the driver has asked for in the name of all its contexts.

use std::collections::BTreeSet;

use super::Allocations;
use crate::context_allocation::ContextAllocation;
use crate::number::{AllocationNumber, DeviceNumber, ResourceNumber};

/// What a device has.
#[derive(Debug, Default)]
pub(super) struct OfDevice {
    pub(super) allocations: BTreeSet<AllocationNumber>,
    pub(super) resources: BTreeSet<ResourceNumber>,
    for_contexts: Vec<ContextAllocation>,
}

impl OfDevice {
    fn is_empty(&self) -> bool {
        self.allocations.is_empty() && self.resources.is_empty() && self.for_contexts.is_empty()
    }
}

impl Allocations {
    /// The bindings of a device that are not destroyed.
    pub fn of_device(&self, device: DeviceNumber) -> impl Iterator<Item = AllocationNumber> + '_ {
        self.of_devices.get(&device).into_iter().flat_map(|of| of.allocations.iter().copied())
    }

    /// The resources of a device.
    pub fn resources_of(&self, device: DeviceNumber) -> impl Iterator<Item = ResourceNumber> + '_ {
        self.of_devices.get(&device).into_iter().flat_map(|of| of.resources.iter().copied())
    }

    /// A device keeps these for all its contexts.
    // spec: memory §7.5
    pub fn keep_for_contexts(&mut self, device: DeviceNumber, made: Vec<ContextAllocation>) {
        if !made.is_empty() {
            self.of_devices.entry(device).or_default().for_contexts.extend(made);
        }
    }

    /// A device goes, whose contexts have gone. These it has kept for them.
    #[must_use = "they are the caller's to end"]
    pub fn take_for_contexts(&mut self, device: DeviceNumber) -> Vec<ContextAllocation> {
        self.change(device, |of| std::mem::take(&mut of.for_contexts))
    }

    /// The allocations that devices keep for all their contexts.
    pub fn for_contexts(&self) -> impl Iterator<Item = &ContextAllocation> {
        self.of_devices.values().flat_map(|of| &of.for_contexts)
    }

    /// Changes what a device has. Nothing is kept for a device that has nothing.
    pub(super) fn change<T>(&mut self, device: DeviceNumber, change: impl FnOnce(&mut OfDevice) -> T) -> T {
        let of = self.of_devices.entry(device).or_default();
        let answer = change(of);
        if of.is_empty() {
            self.of_devices.remove(&device);
        }
        answer
    }
}
