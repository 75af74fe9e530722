//! What may be done with a shared resource (memory §2.7). A resource lives, with its allocations and their content, as long as a device has it
//! or an NT handle names it; a global handle does not keep it.

use kmt_calls::{Refusal, ResourceInfo};
use wddm_types::ProcessId;

use super::Allocations;
use crate::number::{AllocationNumber, DeviceNumber, ResourceBodyNumber, ResourceNumber};
use crate::refusal::{access_denied, invalid};

impl Allocations {
    /// The body of a resource that was created, if it goes by a global handle.
    pub fn shared_by_global(&self, resource: ResourceNumber) -> Option<ResourceBodyNumber> {
        let body = self.body_of_resource(resource);
        (body.shared && !body.by_nt_handle).then_some(self.resources[resource].body)
    }

    /// `D3DKMTShareObjects` of a resource: finds the body that an NT handle may name, and adds no name yet.
    // spec: memory §2.7
    pub fn may_share(&self, resource: ResourceNumber) -> Result<ResourceBodyNumber, Refusal> {
        if !self.body_of_resource(resource).by_nt_handle {
            return Err(invalid("the resource was not created with NtSecuritySharing"));
        }
        Ok(self.resources[resource].body)
    }

    /// Whether NT handles name a resource; else it has a global handle.
    ///
    /// # Errors
    /// `INVALID_PARAMETER`: the resource is not shared, or is gone.
    // spec: memory §2.7
    pub fn is_shared_by_nt_handle(&self, number: ResourceBodyNumber) -> Result<bool, Refusal> {
        match self.openable(number)? {
            (body, _) if body.shared => Ok(body.by_nt_handle),
            _ => Err(invalid("the resource is not shared: create it with CreateShared")),
        }
    }

    /// The devices that have a resource and have not destroyed it.
    pub fn devices_with(&self, body: ResourceBodyNumber) -> impl Iterator<Item = DeviceNumber> + '_ {
        self.resources.iter().filter(move |(_, resource)| resource.body == body).map(|(_, resource)| resource.device)
    }

    /// `D3DKMTQueryResourceInfo`.
    // spec: memory §2.7
    pub fn resource_info(&self, number: ResourceBodyNumber) -> Result<ResourceInfo, Refusal> {
        let (body, members) = self.openable(number)?;
        let total: usize = members.iter().map(|id| self.body_of(*id).shown_data().len()).sum();
        // CAST: each is bounded where the resource was created, the sum by PRIVATE_DATA_ALL_MAX: nothing is added to a shared resource.
        Ok(ResourceInfo {
            allocations: members.len() as u32,
            runtime_data: body.runtime_data.clone(),
            private_data_bytes: body.private_data.len() as u32,
            total_private_data_bytes: total as u32,
        })
    }

    /// Only the creating process may lock a shared allocation.
    // spec: memory §6.3
    pub fn may_lock(&self, number: AllocationNumber, process: ProcessId) -> Result<(), Refusal> {
        if self.body_of(self.bindings[number].vidmm).creator == process {
            Ok(())
        } else {
            Err(invalid("only the process that created a shared allocation may lock it"))
        }
    }

    /// A process may not write a resource that another process shares for reading only.
    // spec: memory §2.7
    pub fn may_write(&self, number: AllocationNumber, process: ProcessId) -> Result<(), Refusal> {
        match self.resource_of(number) {
            Some(resource) if resource.read_only && resource.creator != process => {
                Err(access_denied("the resource was shared for reading"))
            }
            _ => Ok(()),
        }
    }
}
