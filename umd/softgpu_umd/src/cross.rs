//! Content that crosses from one GPU to another: system memory that each of them reaches, and the fence that orders their
//! accesses. Each adapter has its own object over the shared one; a submission to an adapter names that adapter's object. Called by
//! runtimes that run one work on several adapters.
//!
//! | | common | each adapter's |
//! |---|---|---|
//! | [`CrossMemory`] | the pages of a section | a staging allocation over them (memory §2.7) |
//! | [`CrossFence`] | CurrentValue | a native fence, or a monitored one where there are none (sync §3.13) |
//!
//! It orders nothing by itself: a [`Lane`](crate::Lane) waits for the fence before it reads, and signals it behind what it writes.

use d3dkmt::{
    AllocationRequest, CreateAllocationFlags, Fence, FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, Resource,
    ResourceRequest, Section, SyncObjectAccess,
};
use wddm_types::PAGE_BYTES;

use crate::gpu::{Gpu, Surface, UmdError};

/// A standard allocation for other adapters, too, over a section.
// spec: memory §2.7
const STAGING: CreateAllocationFlags = CreateAllocationFlags::CREATE_RESOURCE
    .union(CreateAllocationFlags::CREATE_SHARED)
    .union(CreateAllocationFlags::CROSS_ADAPTER)
    .union(CreateAllocationFlags::STANDARD_ALLOCATION)
    .union(CreateAllocationFlags::EXISTING_SECTION);

/// A fence for other adapters, too.
// spec: sync §3.2, sync §3.13
const CROSS: FenceFlags = FenceFlags::SHARED.union(FenceFlags::NT_SECURITY_SHARING).union(FenceFlags::CROSS_ADAPTER);

/// System memory that several GPUs see, mapped and resident on each for good.
pub struct CrossMemory {
    surfaces: Vec<Surface>,
    // The resources are dropped behind their surfaces; the section's pages go with the last resource.
    _resources: Vec<Resource>,
}

impl CrossMemory {
    /// Makes it for these GPUs of one process.
    ///
    /// # Errors
    /// When a GPU's driver has no resources that cross adapters, or memory or addresses are short.
    ///
    /// # Panics
    /// Without a GPU.
    // spec: memory §2.7
    pub fn create(gpus: &[&Gpu], bytes: u64) -> Result<CrossMemory, UmdError> {
        if gpus.iter().any(|gpu| !gpu.has_addresses()) {
            return Err(UmdError::Lacks("resources that cross adapters: its driver is of the first generation"));
        }
        let size_bytes = bytes.next_multiple_of(PAGE_BYTES);
        let section = Section::create(gpus[0].adapter(), size_bytes)?;
        let (mut surfaces, mut resources) = (Vec::with_capacity(gpus.len()), Vec::with_capacity(gpus.len()));
        for gpu in gpus {
            let existing = Some(section.range(0, size_bytes));
            let request = AllocationRequest { existing, ..AllocationRequest::default() };
            let call = ResourceRequest { flags: STAGING, ..ResourceRequest::default() };
            let resource = Resource::create(gpu.device(), vec![request], call)?;
            let surface = gpu.mapped(resource.allocations()[0].clone(), bytes)?;
            resources.push(resource);
            gpu.pin(&surface)?;
            surfaces.push(surface);
        }
        // The allocations keep its pages.
        drop(section);
        Ok(CrossMemory { surfaces, _resources: resources })
    }

    /// The surface over this memory on the GPU at this place in the list.
    ///
    /// # Panics
    /// When the list was shorter.
    pub fn on(&self, index: usize) -> &Surface {
        &self.surfaces[index]
    }
}

/// A fence that several GPUs wait for and signal.
pub struct CrossFence {
    fences: Vec<Fence>,
}

impl CrossFence {
    /// Makes it for these GPUs of one process, at 0: native on each that has native fences.
    ///
    /// # Errors
    /// When memory is short.
    ///
    /// # Panics
    /// Without a GPU.
    // spec: sync §3.12, sync §3.13
    pub fn create(gpus: &[&Gpu]) -> Result<CrossFence, UmdError> {
        let creator = gpus.iter().position(|gpu| gpu.has_native_fences()).unwrap_or(0);
        let device = gpus[creator].device();
        let created = match gpus[creator].has_native_fences() {
            true => device.create_native_fence(NativeFenceRequest { flags: CROSS, ..NativeFenceRequest::default() })?,
            false => device.create_monitored_fence(CROSS, 0)?,
        };
        let name = created.share(SyncObjectAccess::ALL_ACCESS)?;
        let mut created = Some(created);
        let mut fences = Vec::with_capacity(gpus.len());
        for (index, gpu) in gpus.iter().enumerate() {
            let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
            fences.push(match created.take_if(|_| index == creator) {
                Some(created) => created,
                None if gpu.has_native_fences() => gpu.device().open_native_fence(request)?,
                None => gpu.device().open_sync_object(request)?,
            });
        }
        Ok(CrossFence { fences })
    }

    /// The fence as the GPU of this place in the list has it.
    ///
    /// # Panics
    /// When the list was shorter.
    pub fn on(&self, index: usize) -> &Fence {
        &self.fences[index]
    }
}
