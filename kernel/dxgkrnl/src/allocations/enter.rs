//! Allocations and resources come: created by a device, opened by another, named for others.

use ddi::KmdResource;
use vidmm::AllocationId;
use wddm_types::RawHandle;

use super::{Allocation, Allocations, Body, Resource, ResourceBody};
use crate::number::{AllocationNumber, DeviceNumber, ResourceBodyNumber, ResourceNumber};

impl Allocations {
    /// A device has created an allocation: enters it and its body, also in its resource.
    pub fn enter(&mut self, binding: Allocation, mut body: Body) -> AllocationNumber {
        let (id, resource) = (binding.vidmm, binding.resource);
        debug_assert!((body.bindings, body.living) == (1, 1), "a new allocation has its creator's binding: {body:?}");
        let number = self.bind(binding);
        body.told_as = number;
        let before = self.bodies.insert(id, body);
        debug_assert!(before.is_none(), "memory has one body: {id:?} had {before:?}");
        if let Some(resource) = resource {
            let body = self.resources[resource].body;
            self.resource_bodies[body].members.push(id);
        }
        number
    }

    /// A device has opened a member of a resource that another has.
    pub fn open(&mut self, binding: Allocation) -> AllocationNumber {
        let body = self.bodies.get_mut(&binding.vidmm).expect("a member lives");
        debug_assert!(body.living <= body.bindings, "a living binding is a binding: {body:?}");
        (body.bindings, body.living) = (body.bindings + 1, body.living + 1);
        self.bind(binding)
    }

    fn bind(&mut self, binding: Allocation) -> AllocationNumber {
        let (id, resource, device) = (binding.vidmm, binding.resource, binding.device);
        let number = self.bindings.insert(binding);
        let fresh = self.living.insert((id, number));
        debug_assert!(fresh, "a binding comes to life once: {number:?}");
        let listed = self.change(device, |of| of.allocations.insert(number));
        debug_assert!(listed, "a device is listed with a binding once: {number:?}");
        if let Some(resource) = resource {
            let resource = &mut self.resources[resource];
            debug_assert_eq!(resource.device, device, "a resource lists bindings of its own device");
            resource.allocations.push(number);
        }
        number
    }

    /// A device has created a resource, which has no members yet.
    pub fn enter_resource(&mut self, device: DeviceNumber, body: ResourceBody) -> ResourceNumber {
        debug_assert!(
            (body.holds, body.living, body.names) == (1, 1, 0),
            "a new resource is its creator's device's alone: {body:?}"
        );
        let body = self.resource_bodies.insert(body);
        self.hold_resource(device, body)
    }

    /// Another device has opened a resource; it has opened no member yet.
    pub fn open_resource(&mut self, device: DeviceNumber, number: ResourceBodyNumber) -> ResourceNumber {
        let body = &mut self.resource_bodies[number];
        debug_assert!(body.can_be_opened() && body.living <= body.holds, "what is opened is there: {body:?}");
        (body.holds, body.living) = (body.holds + 1, body.living + 1);
        self.hold_resource(device, number)
    }

    fn hold_resource(&mut self, device: DeviceNumber, body: ResourceBodyNumber) -> ResourceNumber {
        let number = self.resources.insert(Resource { device, body, allocations: Vec::new() });
        let listed = self.change(device, |of| of.resources.insert(number));
        debug_assert!(listed, "a device is listed with a resource once: {number:?}");
        number
    }

    /// The driver has another name for a resource since allocations were added to it.
    pub fn renamed_by_driver(&mut self, resource: ResourceNumber, kmd: KmdResource) {
        let body = self.resources[resource].body;
        self.resource_bodies[body].kmd = kmd;
    }

    /// An NT handle more names a resource, which is there.
    pub fn name_resource(&mut self, number: ResourceBodyNumber) {
        let body = &mut self.resource_bodies[number];
        debug_assert!(body.by_nt_handle, "NT handles name what was created for them: {body:?}");
        body.names += 1;
    }

    /// An NT handle that named a resource has gone. Of the last one: the members that it may have kept.
    #[must_use]
    pub fn unname_resource(&mut self, number: ResourceBodyNumber) -> Option<Vec<AllocationId>> {
        let body = &mut self.resource_bodies[number];
        debug_assert!(body.by_nt_handle && body.is_named(), "a resource counts its names: {body:?}");
        body.names -= 1;
        (!body.is_named()).then(|| body.members.clone())
    }

    /// A resource that was just created goes by a global handle.
    pub fn goes_by(&mut self, number: ResourceBodyNumber, global: RawHandle) {
        let body = &mut self.resource_bodies[number];
        debug_assert!(
            body.shared && !body.by_nt_handle && body.global == RawHandle::NONE,
            "a shared resource that goes by no NT handle gets its global handle once: {body:?}"
        );
        body.global = global;
    }
}
