//! The calls to the driver about allocations: their description, opens and destroys, and the private data of those that the kernel describes
//! (memory §2.7).

use ddi::{
    CreateAllocation, DestroyAllocation, DestroyAllocationFlags, KmdAllocation, KmdDevice, KmdResource, NewAllocation,
    OpenAllocation, OpenAllocationFlags, OpenAllocationInfo, OpenPrivateData, SetAllocationBackingStore,
    StandardAllocation, StandardAllocationDriverData,
};
use kmt_calls::{AllocationRequest, CreateAllocationFlags, Refusal, ResourceRequest};
use vidmm::AllocationId;
use wddm_types::{Blame, NtStatus, PAGE_BYTES};

use crate::adapter::Adapter;
use crate::allocation::{PRIVATE_DATA_MAX, check_lengths};
use crate::effect::Cx;
use crate::number::{DeviceNumber, ResourceNumber};
use crate::refusal::{from_driver, invalid, not_supported, refuse};

/// A driver's answer about an allocation that the kernel describes.
pub(super) struct StandardData {
    pub allocation: Vec<u8>,
    pub resource: Vec<u8>,
    pub pitch_bytes: u32,
}

impl Adapter {
    /// The sizes of the allocations that a creation asks for: the driver names them, and keeps none. An allocation over existing memory
    /// is as large as its pages.
    // spec: memory §2.7
    pub fn allocation_sizes(
        &mut self,
        cx: &Cx<'_>,
        requests: &[AllocationRequest],
        call: &ResourceRequest,
        resource: Option<ResourceNumber>,
    ) -> Result<Vec<u64>, Refusal> {
        check_lengths(requests, call)?;
        let blobs: Vec<Vec<u8>> = requests.iter().map(|request| request.private_data.clone()).collect();
        let (infos, kmd_resource) = self.create_in_driver(cx, &blobs, call, resource)?;
        let made: Vec<KmdAllocation> = infos.iter().map(|info| info.allocation).collect();
        self.destroy_in_driver(cx, &made, kmd_resource, resource.is_none());
        let bytes = |info: &ddi::AllocationInfo| info.size_bytes.checked_next_multiple_of(PAGE_BYTES);
        infos.iter().map(|info| bytes(info).ok_or_else(|| invalid("an allocation larger than memory"))).collect()
    }

    /// The driver's data of a standard allocation that user mode asks for; none of other creations.
    // spec: memory §2.7
    pub(super) fn staging_data(
        &mut self,
        cx: &Cx<'_>,
        requests: &[AllocationRequest],
        call: &ResourceRequest,
    ) -> Result<Option<StandardData>, Refusal> {
        let (true, [request]) = (call.is_standard(), requests) else { return Ok(None) };
        let range = request.existing.ok_or_else(|| invalid("a standard allocation without its memory"))?;
        self.driver_data(cx, StandardAllocation::Staging { size_bytes: range.size_bytes }).map(Some)
    }

    /// `DxgkDdiGetStandardAllocationDriverData`: first the sizes, then the bytes.
    // spec: memory §2.7
    pub(super) fn driver_data(&mut self, cx: &Cx<'_>, wanted: StandardAllocation) -> Result<StandardData, Refusal> {
        let mut query = StandardAllocationDriverData {
            wanted,
            allocation_bytes: 0,
            resource_bytes: 0,
            pitch_bytes: 0,
            buffers: None,
        };
        self.driver.call(cx).standard_allocation_driver_data(&mut query).map_err(from_driver)?;
        let sizes = [query.allocation_bytes as usize, query.resource_bytes as usize];
        if sizes.iter().any(|bytes| *bytes > PRIVATE_DATA_MAX) {
            return Err(not_supported("the driver wants more private data than the kernel keeps"));
        }
        let (mut allocation, mut resource) = (vec![0; sizes[0]], vec![0; sizes[1]]);
        (query.wanted, query.pitch_bytes) = (wanted, 0);
        query.buffers = Some((&mut allocation, &mut resource));
        self.driver.call(cx).standard_allocation_driver_data(&mut query).map_err(from_driver)?;
        let pitch_bytes = query.pitch_bytes;
        Ok(StandardData { allocation, resource, pitch_bytes })
    }

    pub(super) fn create_in_driver(
        &mut self,
        cx: &Cx<'_>,
        blobs: &[Vec<u8>],
        call: &ResourceRequest,
        resource: Option<ResourceNumber>,
    ) -> Result<(Vec<ddi::AllocationInfo>, KmdResource), Refusal> {
        let mut new: Vec<NewAllocation<'_>> = blobs.iter().map(|blob| NewAllocation::new(blob)).collect();
        let in_resource = resource.is_some() || call.flags.contains(CreateAllocationFlags::CREATE_RESOURCE);
        let known = resource.map(|resource| self.memory.allocations.body_of_resource(resource).kmd());
        let mut create = CreateAllocation {
            private_data: &call.private_data,
            allocations: &mut new,
            resource: known.unwrap_or_default(),
            flags: if in_resource { ddi::CreateAllocationFlags::RESOURCE } else { ddi::CreateAllocationFlags::empty() },
        };
        self.driver.call(cx).create_allocation(&mut create).map_err(from_driver)?;
        let kmd = create.resource;
        Ok((new.into_iter().map(|new| new.info).collect(), kmd))
    }

    /// Shows the driver the backing stores that it asked to see.
    // spec: memory §2.2, memory §9.2
    pub(super) fn share_backing(&mut self, cx: &Cx<'_>, ids: &[AllocationId]) -> Result<(), Refusal> {
        for &id in ids {
            if self.vidmm.shares_backing(id) {
                let (allocation, backing) = (self.vidmm.kmd_handle(id), self.vidmm.backing(id));
                let set = SetAllocationBackingStore { allocation, backing };
                self.driver.call(cx).set_allocation_backing_store(set).map_err(from_driver)?;
            }
        }
        Ok(())
    }

    // spec: memory §2.7: Open with Create = 1 follows the creation
    pub(super) fn open_in_driver(
        &mut self,
        cx: &Cx<'_>,
        device: DeviceNumber,
        infos: &[ddi::AllocationInfo],
        blobs: &mut [Vec<u8>],
        call: &ResourceRequest,
    ) -> Result<Vec<ddi::KmdOpenAllocation>, Refusal> {
        let mut list: Vec<OpenAllocationInfo<'_>> = infos
            .iter()
            .zip(blobs)
            .map(|(info, blob)| OpenAllocationInfo {
                allocation: info.allocation,
                private_data: OpenPrivateData::Create(blob),
                open: ddi::KmdOpenAllocation::default(),
            })
            .collect();
        if list.is_empty() {
            return Ok(Vec::new());
        }
        let kmd = self.owners.kmd_of(device);
        self.open_all(cx, kmd, &mut list, &call.private_data, OpenAllocationFlags::CREATE)?;
        Ok(list.into_iter().map(|opened| opened.open).collect())
    }

    /// Asks the driver to open allocations for a device: all, or none.
    // spec: memory §2.7: hDeviceSpecificAllocation is not NULL
    pub(in crate::adapter) fn open_all(
        &mut self,
        cx: &Cx<'_>,
        device: KmdDevice,
        allocations: &mut [OpenAllocationInfo<'_>],
        private_data: &[u8],
        flags: OpenAllocationFlags,
    ) -> Result<(), Refusal> {
        let mut open = OpenAllocation {
            device,
            allocations,
            private_data,
            flags,
            subresource_index: 0,
            subresource_offset: 0,
            pitch: 0,
        };
        self.driver.call(cx).open_allocation(&mut open).map_err(from_driver)?;
        let named: Vec<_> = open.allocations.iter().map(|opened| opened.open).filter(|open| open.0 != 0).collect();
        if named.len() == open.allocations.len() {
            return Ok(());
        }
        // The driver reports all as open. The kernel closes those with a handle; it has no handle for the rest.
        if !named.is_empty() {
            self.driver.call(cx).close_allocation(device, &named);
        }
        let reason = "the driver opened an allocation and gave no handle of it";
        Err(refuse(NtStatus::INVALID_PARAMETER, Blame::Driver, reason))
    }

    /// The driver's own destroy, when nothing names the allocations any more.
    pub(in crate::adapter) fn destroy_in_driver(
        &mut self,
        cx: &Cx<'_>,
        allocations: &[KmdAllocation],
        resource: KmdResource,
        with_resource: bool,
    ) {
        if allocations.is_empty() && !(with_resource && resource.0 != 0) {
            return;
        }
        let flags = if with_resource && resource.0 != 0 {
            DestroyAllocationFlags::DESTROY_RESOURCE
        } else {
            DestroyAllocationFlags::empty()
        };
        self.driver.call(cx).destroy_allocation(&mut DestroyAllocation { allocations, resource, flags });
    }
}
