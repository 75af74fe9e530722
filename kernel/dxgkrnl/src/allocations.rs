//! The allocations of an adapter as its devices have them, and the resources that they belong to.
//!
//! It knows who has what, which memory stands behind it, and which destroyed allocations wait for their last use. It is neither the memory
//! nor its residency (`vidmm`), and it asks no driver: the adapter does, and tells it how that ended. It asks
//! nothing itself.
//!
//! # What is held
//! A *binding* is an allocation as one device has it; all bindings of one [`AllocationId`] share a *body*. A device's resource is the same
//! to a resource body. `check` holds, after each turn where the checker runs:
//!
//! - a body counts its bindings, those that are destroyed among them, and is there as long as it has one or a name keeps it;
//! - `living` names exactly the bindings that are not destroyed, by the memory behind them;
//! - a device is listed with exactly its bindings and resources, and with what the driver asked for in the name of all its contexts;
//! - a resource lists exactly its device's bindings; its body counts its devices and is there as long as one has it or a name keeps it.

mod binding;
mod body;
mod check;
mod device;
mod dying;
mod end;
mod enter;
mod instance;
mod share;

use std::collections::{BTreeMap, BTreeSet};

use vidmm::AllocationId;

use crate::refusal::invalid;
use crate::store::{ObjectNumber, Store};
use device::OfDevice;
use dying::DyingGroups;

use crate::number::{AllocationNumber, DeviceNumber, ResourceBodyNumber, ResourceNumber};
pub use binding::{Allocation, Instance, InstanceName, Renaming, Resource};
pub use body::{Body, BodyRare, ResourceBody};
pub use dying::{DestructionNumber, Dying};
pub use end::Gone;

/// All allocations and resources of an adapter.
#[derive(Default)]
pub struct Allocations {
    /// The bindings that are not destroyed.
    bindings: Store<AllocationNumber, Allocation>,
    /// The same by the memory behind them.
    living: BTreeSet<(AllocationId, AllocationNumber)>,
    /// The number under which the moves of an instance without a body are told: one that is not the current one, or that has ended.
    numbers: BTreeMap<AllocationId, AllocationNumber>,
    bodies: BTreeMap<AllocationId, Body>,
    of_devices: BTreeMap<DeviceNumber, OfDevice>,
    resources: Store<ResourceNumber, Resource>,
    resource_bodies: Store<ResourceBodyNumber, ResourceBody>,
    /// The bindings that are destroyed and that queued work may still use.
    dying: DyingGroups,
}

impl std::ops::Index<AllocationNumber> for Allocations {
    type Output = Allocation;
    /// # Panics
    /// For a binding that is destroyed: inside the kernel numbers are held only as long as their objects.
    fn index(&self, number: AllocationNumber) -> &Allocation {
        &self.bindings[number]
    }
}

impl Allocations {
    /// A binding that may be destroyed.
    pub fn get(&self, number: AllocationNumber) -> Option<&Allocation> {
        self.bindings.get(number)
    }

    /// The bindings that are not destroyed.
    pub fn iter(&self) -> impl Iterator<Item = (AllocationNumber, &Allocation)> {
        self.bindings.iter()
    }

    /// Every binding, alive or waiting for its last use.
    pub fn with_dying(&self) -> impl Iterator<Item = &Allocation> {
        self.bindings.iter().map(|(_, binding)| binding).chain(self.dying.bindings())
    }

    /// The bindings of a body that are not destroyed.
    pub fn living_of(&self, id: AllocationId) -> impl Iterator<Item = &Allocation> {
        self.living
            .range((id, AllocationNumber::from_raw(0))..=(id, AllocationNumber::from_raw(u64::MAX)))
            .map(|(_, number)| &self.bindings[*number])
    }

    /// The body of memory that is a current instance of an allocation.
    pub fn body(&self, id: AllocationId) -> Option<&Body> {
        self.bodies.get(&id)
    }

    /// The body of a binding's memory.
    ///
    /// # Panics
    /// For memory that no binding has and no name keeps.
    pub fn body_of(&self, id: AllocationId) -> &Body {
        self.body(id).expect("a binding has its body")
    }

    /// All bodies.
    pub fn bodies(&self) -> impl Iterator<Item = (AllocationId, &Body)> {
        self.bodies.iter().map(|(id, body)| (*id, body))
    }

    /// The number under which an instance is told of, as it stands in events; 0 for memory that is no allocation's.
    pub fn told_as(&self, id: AllocationId) -> u64 {
        let told = self.bodies.get(&id).map(|body| body.told_as);
        told.or_else(|| self.numbers.get(&id).copied()).map_or(0, |number| number.raw())
    }

    /// A device's resource.
    ///
    /// # Panics
    /// For a resource that is destroyed.
    pub fn resource(&self, number: ResourceNumber) -> &Resource {
        &self.resources[number]
    }

    /// The resources that devices have, and their numbers.
    pub fn resources(&self) -> impl Iterator<Item = (ResourceNumber, &Resource)> {
        self.resources.iter()
    }

    /// The device's resource of a number that a handle may name, if it is not destroyed.
    pub fn get_resource(&self, number: ResourceNumber) -> Option<&Resource> {
        self.resources.get(number)
    }

    /// The state that all devices share of a resource, if it is there still.
    pub fn resource_body(&self, number: ResourceBodyNumber) -> Option<&ResourceBody> {
        self.resource_bodies.get(number)
    }

    /// The same of a device's resource.
    pub fn body_of_resource(&self, number: ResourceNumber) -> &ResourceBody {
        &self.resource_bodies[self.resources[number].body]
    }

    /// The same of the resource that a binding is of.
    pub fn resource_of(&self, number: AllocationNumber) -> Option<&ResourceBody> {
        self.bindings[number].resource.map(|resource| self.body_of_resource(resource))
    }

    /// Whether other devices can have an allocation.
    pub fn is_shared(&self, number: AllocationNumber) -> bool {
        self.resource_of(number).is_some_and(|resource| resource.shared)
    }

    /// All resource bodies.
    pub fn resource_bodies(&self) -> impl Iterator<Item = (ResourceBodyNumber, &ResourceBody)> {
        self.resource_bodies.iter()
    }

    /// A resource that a device still has, or an NT handle keeps, and the members that an open of it finds: those that its devices have not
    /// destroyed. A destroyed member that queued work still uses is found only where a name keeps it.
    ///
    /// # Errors
    /// The resource, or each member that it had, has gone or is about to.
    // spec: memory §2.7
    pub fn openable(
        &self,
        number: ResourceBodyNumber,
    ) -> Result<(&ResourceBody, Vec<AllocationId>), kmt_calls::Refusal> {
        let body = self.resource_bodies.get(number).filter(|body| body.can_be_opened());
        let body = body.ok_or_else(|| invalid("the resource has been destroyed"))?;
        let there = |id: &AllocationId| match body.is_named() {
            false => self.bodies.get(id).is_some_and(Body::is_alive),
            true => self.bodies.contains_key(id),
        };
        let members: Vec<AllocationId> = body.members().iter().copied().filter(there).collect();
        if members.is_empty() && !body.members().is_empty() {
            return Err(invalid("all allocations of the resource have been destroyed"));
        }
        Ok((body, members))
    }

    /// Whether an NT handle names the resource of an allocation that is there.
    // spec: sync §2.2
    pub fn is_kept(&self, id: AllocationId) -> bool {
        let resource = self.bodies.get(&id).and_then(|body| self.resource_bodies.get(body.resource?));
        resource.is_some_and(ResourceBody::is_named)
    }
}
