//! Shared resources: a device opens another's, and the last name of one goes (memory §2.7). `allocations` has who has which and what keeps it;
//! the adapter joins the driver, the memory manager and the addresses that a process has of allocations.

use ddi::{KmdAllocation, KmdOpenAllocation, OpenAllocationFlags, OpenAllocationInfo, OpenPrivateData};
use events::Event;
use kmt_calls::{CreatedAllocation, Refusal, ResourceInfo};
use vidmm::AllocationId;
use wddm_types::{ProcessId, RawHandle};

use crate::adapter::Adapter;
use crate::allocations::Allocation;
use crate::effect::Cx;
use crate::number::{AllocationNumber, DeviceNumber, ResourceBodyNumber, ResourceNumber};
use crate::store::ObjectNumber;

/// The result of an open.
pub struct Opened {
    /// The device's resource.
    pub resource: ResourceNumber,
    /// Its bindings with their private data.
    pub allocations: Vec<(AllocationNumber, Option<Vec<u8>>)>,
    /// The driver's blob of the creation.
    pub private_data: Vec<u8>,
    /// The runtime's blob of the creation.
    pub runtime_data: Vec<u8>,
    /// Addresses that the caller has from now on are shown when the ring has got so far.
    pub shown_later: bool,
}

impl Adapter {
    /// The body of a resource that was created, if it goes by a global handle.
    pub fn shared_by_global(&self, resource: ResourceNumber) -> Option<ResourceBodyNumber> {
        self.memory.allocations.shared_by_global(resource)
    }

    /// `D3DKMTShareObjects` of a resource: the body that an NT handle may name.
    pub fn may_share_resource(&self, resource: ResourceNumber) -> Result<ResourceBodyNumber, Refusal> {
        self.memory.allocations.may_share(resource)
    }

    /// The body of a device's resource.
    pub fn body_of_resource(&self, resource: ResourceNumber) -> ResourceBodyNumber {
        self.memory.allocations.resource(resource).body
    }

    /// Whether NT handles name a resource; else it has a global handle.
    ///
    /// # Errors
    /// `INVALID_PARAMETER`: the resource is not shared, or is gone.
    pub fn is_shared_by_nt_handle(&self, body: ResourceBodyNumber) -> Result<bool, Refusal> {
        self.memory.allocations.is_shared_by_nt_handle(body)
    }

    /// Whether a device of a process has a resource, as its creator or because it has opened it.
    pub fn has_opened(&self, process: ProcessId, body: ResourceBodyNumber) -> bool {
        self.memory.allocations.devices_with(body).any(|device| self.owners.process_of(device) == process)
    }

    /// `D3DKMTQueryResourceInfo`.
    pub fn query_resource(&self, number: ResourceBodyNumber) -> Result<ResourceInfo, Refusal> {
        self.memory.allocations.resource_info(number)
    }

    /// An NT handle that named a resource has gone. With the last one what no device has goes, too.
    // spec: memory §2.7, sync §2.2
    pub fn unname_resource(&mut self, cx: &mut Cx<'_>, number: ResourceBodyNumber) {
        if let Some(members) = self.memory.allocations.unname_resource(number) {
            self.bury_unnamed(cx, number, &members);
        }
    }

    /// `D3DKMTOpenResource2`: the driver opens it for this device too, with private data that it can only read.
    // spec: memory §2.7
    pub fn open_resource(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        number: ResourceBodyNumber,
    ) -> Result<Opened, Refusal> {
        let (body, members) = self.memory.allocations.openable(number)?;
        let (private_data, runtime_data) = (body.private_data.clone(), body.runtime_data.clone());
        let process = self.owners.process_of(device);
        let write = !body.read_only || body.creator == process;
        let mut flags = OpenAllocationFlags::empty();
        flags.set(OpenAllocationFlags::READ_ONLY, body.read_only);
        let given = self.give_addresses(cx, process, &members, write)?;
        let opens = match self.open_members_in_driver(cx, device, &members, &private_data, flags) {
            Ok(opens) => opens,
            Err(refusal) => {
                self.take_addresses(cx, process, &given.fresh);
                return Err(refusal);
            }
        };
        let owner = self.owners.vidmm_of(device);
        let resource = self.memory.allocations.open_resource(device, number);
        let mut allocations = Vec::with_capacity(members.len());
        for (id, (kmd, open)) in members.into_iter().zip(opens) {
            let binding = self.memory.allocations.open(Allocation {
                device,
                vidmm: id,
                renaming: vidmm::Seldom::default(),
                kmd,
                open,
                resource: Some(resource),
            });
            self.vidmm.adopt_allocation(id, owner);
            let size_bytes = self.vidmm.allocation_bytes(id);
            cx.emit(
                self.index,
                Event::AllocationCreated { device: device.raw(), allocation: binding.raw(), size_bytes },
            );
            if given.fresh.contains(&id) {
                self.announce_address(cx, process, id, binding);
            }
            allocations.push((binding, Some(self.memory.allocations.body_of(id).shown_data().to_vec())));
        }
        Ok(Opened { resource, allocations, private_data, runtime_data, shown_later: given.shown_later })
    }

    /// Asks the driver to open the members of a resource for a device: all, or none.
    fn open_members_in_driver(
        &mut self,
        cx: &Cx<'_>,
        device: DeviceNumber,
        members: &[AllocationId],
        private_data: &[u8],
        flags: OpenAllocationFlags,
    ) -> Result<Vec<(KmdAllocation, KmdOpenAllocation)>, Refusal> {
        if members.is_empty() {
            return Ok(Vec::new());
        }
        let blobs: Vec<Vec<u8>> =
            members.iter().map(|id| self.memory.allocations.body_of(*id).rare.private_data.clone()).collect();
        let mut list: Vec<OpenAllocationInfo<'_>> = members
            .iter()
            .zip(&blobs)
            .map(|(id, blob)| OpenAllocationInfo {
                allocation: self.vidmm.kmd_handle(*id),
                private_data: OpenPrivateData::ReadOnly(blob),
                open: KmdOpenAllocation::default(),
            })
            .collect();
        let kmd = self.owners.kmd_of(device);
        self.open_all(cx, kmd, &mut list, private_data, flags)?;
        Ok(list.into_iter().map(|opened| (opened.allocation, opened.open)).collect())
    }

    /// Names what was created, or opened, for the caller.
    pub fn named(
        &self,
        made: Vec<(AllocationNumber, Option<Vec<u8>>)>,
        handles: Vec<RawHandle>,
    ) -> Vec<CreatedAllocation> {
        let named = made.into_iter().zip(handles);
        let reply = |((number, private_data), handle)| {
            let allocation = &self.memory.allocations[number];
            let address = self.address_of(self.owners.process_of(allocation.device), allocation.vidmm);
            CreatedAllocation { handle, private_data, address }
        };
        named.map(reply).collect()
    }
}
