//! Allocations and resources come: created by a device, opened by another, named for others.

use ddi::KmdResource;
use vidmm::AllocationId;
use wddm_types::RawHandle;

use super::{Allocation, Allocations, Body, Resource, ResourceBody};
use crate::number::{AllocationNumber, DeviceNumber, ResourceBodyNumber, ResourceNumber};

impl Allocations {
    /// A device has created an allocation: enters it and its body, also in its resource.
    pub fn enter(&mut self, binding: Allocation, body: Body) -> AllocationNumber {
        let (id, resource) = (binding.vidmm, binding.resource);
        let number = self.bind(binding);
        self.numbers.insert(id, number);
        self.bodies.insert(id, body);
        if let Some(resource) = resource {
            let body = self.resources[resource].body;
            self.resource_bodies[body].members.push(id);
        }
        number
    }

    /// A device has opened a member of a resource that another has.
    pub fn open(&mut self, binding: Allocation) -> AllocationNumber {
        let body = self.bodies.get_mut(&binding.vidmm).expect("a member lives");
        (body.bindings, body.living) = (body.bindings + 1, body.living + 1);
        self.bind(binding)
    }

    fn bind(&mut self, binding: Allocation) -> AllocationNumber {
        let (id, resource, device) = (binding.vidmm, binding.resource, binding.device);
        let number = self.bindings.insert(binding);
        self.living.insert((id, number));
        self.change(device, |of| of.allocations.insert(number));
        if let Some(resource) = resource {
            self.resources[resource].allocations.push(number);
        }
        number
    }

    /// A device has created a resource, which has no members yet.
    pub fn enter_resource(&mut self, device: DeviceNumber, body: ResourceBody) -> ResourceNumber {
        let body = self.resource_bodies.insert(body);
        self.hold_resource(device, body)
    }

    /// Another device has opened a resource; it has opened no member yet.
    pub fn open_resource(&mut self, device: DeviceNumber, number: ResourceBodyNumber) -> ResourceNumber {
        let body = &mut self.resource_bodies[number];
        (body.holds, body.living) = (body.holds + 1, body.living + 1);
        self.hold_resource(device, number)
    }

    fn hold_resource(&mut self, device: DeviceNumber, body: ResourceBodyNumber) -> ResourceNumber {
        let number = self.resources.insert(Resource { device, body, allocations: Vec::new() });
        self.change(device, |of| of.resources.insert(number));
        number
    }

    /// The driver has another name for a resource since allocations were added to it.
    pub fn renamed_by_driver(&mut self, resource: ResourceNumber, kmd: KmdResource) {
        let body = self.resources[resource].body;
        self.resource_bodies[body].kmd = kmd;
    }

    /// An NT handle more names a resource, which is there.
    pub fn name_resource(&mut self, number: ResourceBodyNumber) {
        self.resource_bodies[number].names += 1;
    }

    /// An NT handle that named a resource has gone. Of the last one: the members that it may have kept.
    #[must_use]
    pub fn unname_resource(&mut self, number: ResourceBodyNumber) -> Option<Vec<AllocationId>> {
        let body = &mut self.resource_bodies[number];
        body.names -= 1;
        (!body.is_named()).then(|| body.members.clone())
    }

    /// A resource that was just created goes by a global handle.
    pub fn goes_by(&mut self, number: ResourceBodyNumber, global: RawHandle) {
        self.resource_bodies[number].global = global;
    }
}
