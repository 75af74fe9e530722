//! The targets of calls about allocations: a resource, or a list of allocations, all of one device.

use std::collections::BTreeSet;

use kmt_calls::{AllocationTarget, Refusal};
use wddm_types::{AdapterIndex, NtStatus, RawHandle};

use crate::call::Turn;
use crate::memory::LIST_MAX;
use crate::number::{AllocationNumber, DeviceNumber, ResourceNumber};
use crate::refusal::invalid;

/// The allocations that a target names, and the resource if the caller named them through it.
pub(super) struct Targets {
    /// Numbers in the order of the list.
    pub numbers: Vec<AllocationNumber>,
    /// The resource.
    pub resource: Option<ResourceNumber>,
}

impl Turn<'_> {
    /// A resource that is destroyed with a list beside it: it goes with all its allocations if the list has none of others.
    // spec: memory §6.2
    pub(super) fn resource_with_list(
        &self,
        index: AdapterIndex,
        device: DeviceNumber,
        target: &AllocationTarget,
    ) -> Result<Targets, Refusal> {
        let whole = AllocationTarget { resource: target.resource, allocations: Vec::new() };
        let listed = AllocationTarget { resource: RawHandle::NONE, allocations: target.allocations.clone() };
        let (whole, listed) = (self.targets(index, device, &whole)?, self.targets(index, device, &listed)?);
        let members: BTreeSet<_> = whole.numbers.iter().copied().collect();
        if let Some(at) = listed.numbers.iter().position(|number| !members.contains(number)) {
            let named = target.allocations[at];
            return Err(invalid(format!("{named} of the list is no allocation of the resource {}", target.resource)));
        }
        Ok(whole)
    }

    /// The allocations of a target: either a resource or a list, all of this device.
    // spec: memory §2.3, memory §6.2
    pub(super) fn targets(
        &self,
        index: AdapterIndex,
        device: DeviceNumber,
        target: &AllocationTarget,
    ) -> Result<Targets, Refusal> {
        if target.resource != RawHandle::NONE {
            if !target.allocations.is_empty() {
                return Err(invalid("either a resource or a list of allocations"));
            }
            let resource = self.resource_of(index, device, target.resource)?;
            let numbers = self.adapters[index].members_of(resource).to_vec();
            return Ok(Targets { numbers, resource: Some(resource) });
        }
        if target.allocations.is_empty() || target.allocations.len() > LIST_MAX {
            return Err(invalid(format!("a list has 1 to {LIST_MAX} allocations, not {}", target.allocations.len())));
        }
        let of_device = |handle: &RawHandle| self.allocation_of(index, device, *handle);
        let numbers = target.allocations.iter().map(of_device).collect::<Result<_, _>>()?;
        Ok(Targets { numbers, resource: None })
    }

    pub(super) fn resource_of(
        &self,
        index: AdapterIndex,
        device: DeviceNumber,
        handle: RawHandle,
    ) -> Result<ResourceNumber, Refusal> {
        let (on, number) = self.any_resource(handle)?;
        // spec: memory §9.3
        if on == index && self.adapters[index].device_of_resource(number) == device {
            Ok(number)
        } else {
            Err(invalid("a resource of another device"))
        }
    }

    /// The resource that a creation names. It is none of this call's: the function has a status of its own for that.
    // spec: memory §9.3: INVALID_HANDLE
    pub(super) fn resource_to_add_to(
        &self,
        index: AdapterIndex,
        device: DeviceNumber,
        handle: RawHandle,
    ) -> Result<ResourceNumber, Refusal> {
        let unknown = |refusal: Refusal| Refusal { status: NtStatus::INVALID_HANDLE, ..refusal };
        self.any_resource(handle).map_err(unknown)?;
        self.resource_of(index, device, handle)
    }
}
