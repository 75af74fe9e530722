//! Resources: allocations that belong together, and that others can open (memory §2.7); sections, which an allocation can
//! take for its memory.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use kmt_calls::{
    AllocationCall, AllocationRequest, AllocationTarget, Call, CreatedAllocation, CreatedAllocations, DestroyFlags,
    Refusal, Reply, ResourceInfo, ResourceRequest, SectionCall, SectionRange, ShareCall, ShareName, SyncObjectAccess,
};
use kmt_link::{Link, MappedBytes};
use wddm_types::RawHandle;

use crate::allocation::Allocation;
use crate::{Adapter, Device, expect_reply};

/// A resource of a device. Dropping it destroys it with the allocations that it still has.
pub struct Resource {
    link: Arc<dyn Link>,
    device: RawHandle,
    handle: RawHandle,
    global_share: RawHandle,
    allocations: Vec<Arc<Allocation>>,
    private_data: Vec<Option<Vec<u8>>>,
    runtime_data: Vec<u8>,
}

impl Resource {
    /// `D3DKMTCreateAllocation2` with CreateResource.
    ///
    /// # Errors
    /// When the driver refuses the private data, memory is short, or a flag does not fit.
    pub fn create(
        device: &Device,
        allocations: Vec<AllocationRequest>,
        resource: ResourceRequest,
    ) -> Result<Resource, Refusal> {
        let runtime_data = resource.runtime_data.clone();
        let call =
            Call::Allocation(AllocationCall::CreateAllocation { device: device.handle(), allocations, resource });
        let created: CreatedAllocations =
            expect_reply!(device.link().call(call)?, Reply::Allocations(created) => created);
        let global_share = created.global_share;
        Ok(Resource::new(device, created.resource, global_share, created.allocations, runtime_data))
    }

    /// `D3DKMTOpenResource2`, by global share handle or NT handle.
    ///
    /// # Errors
    /// When no process has shared it under this name, or it has gone.
    pub fn open(device: &Device, share: ShareName) -> Result<Resource, Refusal> {
        let call = Call::Allocation(AllocationCall::OpenResource {
            device: device.handle(),
            share,
            keyed_mutex_data: Vec::new(),
        });
        let opened = expect_reply!(device.link().call(call)?, Reply::OpenedResource(opened) => opened);
        Ok(Resource::new(device, opened.resource, RawHandle::NONE, opened.allocations, opened.runtime_data))
    }

    fn new(
        device: &Device,
        handle: RawHandle,
        global_share: RawHandle,
        created: Vec<CreatedAllocation>,
        runtime_data: Vec<u8>,
    ) -> Resource {
        let link = Arc::clone(device.link());
        let allocation = |created| Arc::new(Allocation::new(Arc::clone(&link), device.handle(), created));
        let allocations = created.iter().map(allocation).collect();
        let private_data = created.into_iter().map(|created| created.private_data).collect();
        Resource { device: device.handle(), handle, global_share, allocations, private_data, runtime_data, link }
    }

    /// Its allocations.
    pub fn allocations(&self) -> &[Arc<Allocation>] {
        &self.allocations
    }

    /// The private data of an allocation: after an open always, after a creation if the driver changed them.
    pub fn private_data(&self, allocation: usize) -> Option<&[u8]> {
        self.private_data.get(allocation)?.as_deref()
    }

    /// The runtime's blob of the creation.
    pub fn runtime_data(&self) -> &[u8] {
        &self.runtime_data
    }

    /// The global handle by which others open it; NONE if it is not shared that way.
    pub fn global_share(&self) -> ShareName {
        ShareName::Global(self.global_share)
    }

    /// `D3DKMTShareObjects`: an NT handle.
    ///
    /// # Errors
    /// When it was not created with NtSecuritySharing.
    pub fn share(&self) -> Result<ShareName, Refusal> {
        let call = Call::Share(ShareCall::ShareObjects {
            objects: vec![self.handle],
            access: SyncObjectAccess::empty(),
            name: None,
        });
        let reply = self.link.call(call)?;
        Ok(ShareName::NtHandle(expect_reply!(reply, Reply::NtHandle(handle) => handle)))
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.handle
    }

    /// `D3DKMTDestroyAllocation2` of the whole resource.
    ///
    /// # Errors
    /// When a flag is not allowed.
    pub fn destroy(self, flags: DestroyFlags) -> Result<(), Refusal> {
        self.link.call(self.destruction(flags)).map(drop)
    }

    fn destruction(&self, flags: DestroyFlags) -> Call {
        let target = AllocationTarget { resource: self.handle, allocations: Vec::new() };
        Call::Allocation(AllocationCall::DestroyAllocation { device: self.device, target, flags })
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        // Refused only when it is gone already. Its allocations then find their handles dead.
        let _ = self.link.call(self.destruction(DestroyFlags::empty()));
    }
}

impl Device {
    /// `D3DKMTQueryResourceInfo`.
    ///
    /// # Errors
    /// When no process has shared it under this name, or it has gone.
    pub fn query_resource_info(&self, share: ShareName) -> Result<ResourceInfo, Refusal> {
        let reply =
            self.link().call(Call::Allocation(AllocationCall::QueryResourceInfo { device: self.handle(), share }))?;
        Ok(expect_reply!(reply, Reply::ResourceInfo(info) => info))
    }
}

/// Memory of this process. Dropping it closes it; allocations over it keep its pages.
pub struct Section {
    link: Arc<dyn Link>,
    handle: RawHandle,
    bytes: MappedBytes,
}

impl Section {
    /// The operating system's `CreateSection`: zeroes.
    ///
    /// # Errors
    /// When memory is short or the size is no multiple of the page.
    pub fn create(adapter: &Adapter, size_bytes: u64) -> Result<Section, Refusal> {
        let link = Arc::clone(adapter.link());
        let call = Call::Section(SectionCall::Create { adapter: adapter.handle(), size_bytes });
        let created = expect_reply!(link.call(call)?, Reply::Section(created) => created);
        let bytes = MappedBytes::new(link.as_ref(), created.mapped);
        Ok(Section { link, handle: created.section, bytes })
    }

    /// A section over bytes of a file that this process has, and that others may have mapped: the section has the file's content, and
    /// every mapping of the file sees the stores of the GPU and of this process.
    ///
    /// # Errors
    /// As of [`Section::create`]; a file that is none in memory (`memfd_create`) or has no seal `F_SEAL_SHRINK`; bytes that are not whole
    /// pages of it.
    // spec: memory §2.7
    pub fn over_file(
        adapter: &Adapter,
        file: BorrowedFd<'_>,
        offset: u64,
        size_bytes: u64,
    ) -> Result<Section, Refusal> {
        let link = Arc::clone(adapter.link());
        let reply = link.section_over(adapter.handle(), file, offset, size_bytes)?;
        let created = expect_reply!(reply, Reply::Section(created) => created);
        let bytes = MappedBytes::new(link.as_ref(), created.mapped);
        Ok(Section { link, handle: created.section, bytes })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &MappedBytes {
        &self.bytes
    }

    /// A part of it, for an allocation.
    pub fn range(&self, offset_bytes: u64, size_bytes: u64) -> SectionRange {
        SectionRange { section: self.handle, offset_bytes, size_bytes }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        // Refused only when the kernel has gone.
        let _ = self.link.call(Call::Section(SectionCall::Close { section: self.handle }));
    }
}
