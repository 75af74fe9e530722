//! Input and answers of the calls about allocations and resources (memory §2.7, §2.8, §6.2). The calls themselves stand with all others
//! in `call`.

use serde::{Deserialize, Serialize};
use wddm_types::{CpuVa, RawHandle, SegmentSet};

use crate::mapped::Mapped;

/// One allocation of a [`crate::AllocationCall::CreateAllocation`] (`D3DDDI_ALLOCATIONINFO2`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationRequest {
    /// For the kernel-mode driver; untrusted.
    pub private_data: Vec<u8>,
    /// Flags of the allocation.
    pub flags: AllocationInfoFlags,
    /// `VidPnSourceId`; only of primaries.
    pub video_source: u32,
    /// With `OVERRIDE_PRIORITY`: the starting priority.
    pub priority: u32,
    /// With `EXISTING_SYS_MEM` or `EXISTING_SECTION`: the memory (`pSystemMem`, `hSection`).
    pub existing: Option<SectionRange>,
}

/// Memory of the caller: part of a section that it created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionRange {
    /// The section.
    pub section: RawHandle,
    /// First byte; a multiple of the page.
    pub offset_bytes: u64,
    /// Bytes; a multiple of the page.
    pub size_bytes: u64,
}

/// The part of a [`crate::AllocationCall::CreateAllocation`] that is about the whole call (`D3DKMT_CREATEALLOCATION`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceRequest {
    /// The resource to add to, or none.
    pub resource: RawHandle,
    /// Flags of the call.
    pub flags: CreateAllocationFlags,
    /// For the kernel-mode driver: blob of the call; untrusted.
    pub private_data: Vec<u8>,
    /// For the process that opens the resource: the runtime's own blob. The kernel only keeps it.
    pub runtime_data: Vec<u8>,
}

impl ResourceRequest {
    /// Whether the kernel describes the allocation.
    pub fn is_standard(&self) -> bool {
        self.flags.contains(CreateAllocationFlags::STANDARD_ALLOCATION)
    }
}

bitflags::bitflags! {
    /// `D3DKMT_CREATEALLOCATIONFLAGS` (memory §2.7).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct CreateAllocationFlags: u32 {
        /// A resource is created.
        const CREATE_RESOURCE = 1 << 0;
        /// It is shared; needs CREATE_RESOURCE.
        const CREATE_SHARED = 1 << 1;
        /// Without security.
        const NON_SECURE = 1 << 2;
        /// Not for user mode.
        const CREATE_PROTECTED = 1 << 3;
        /// Access is restricted.
        const RESTRICT_SHARED_ACCESS = 1 << 4;
        /// The memory exists; for user mode only with STANDARD_ALLOCATION.
        const EXISTING_SYS_MEM = 1 << 5;
        /// Shared by NT handle; needs CREATE_SHARED.
        const NT_SECURITY_SHARING = 1 << 6;
        /// Others may only read it.
        const READ_ONLY = 1 << 7;
        /// Not for user mode.
        const CREATE_WRITE_COMBINED = 1 << 8;
        /// Not for user mode.
        const CREATE_CACHED = 1 << 9;
        /// A back buffer of a swap chain.
        const SWAP_CHAIN_BACK_BUFFER = 1 << 10;
        /// Across adapters.
        const CROSS_ADAPTER = 1 << 11;
        /// Not for user mode.
        const OPEN_CROSS_ADAPTER = 1 << 12;
        /// Part of a shared creation.
        const PARTIAL_SHARED_CREATION = 1 << 13;
        /// Reported back: the content is zero.
        const ZEROED = 1 << 14;
        /// Writes are watched.
        const WRITE_WATCH = 1 << 15;
        /// The kernel describes it; needs EXISTING_SYS_MEM or EXISTING_SECTION, CREATE_SHARED and CROSS_ADAPTER.
        const STANDARD_ALLOCATION = 1 << 16;
        /// The memory is a section.
        const EXISTING_SECTION = 1 << 17;
        /// The content need not be zero.
        const ALLOW_NOT_ZEROED = 1 << 18;
        /// Contiguous in system memory.
        const PHYSICALLY_CONTIGUOUS = 1 << 19;
        /// Not for the kernel-mode driver.
        const NO_KMD_ACCESS = 1 << 20;
        /// Shared, and displayable.
        const SHARED_DISPLAYABLE = 1 << 21;
        /// Opts out of the synchronisation of primaries.
        const NO_IMPLICIT_SYNCHRONIZATION = 1 << 22;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// Flags of `D3DDDI_ALLOCATIONINFO2` (memory §2.7).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AllocationInfoFlags: u32 {
        /// A primary.
        const PRIMARY = 1 << 0;
        /// A primary for stereo.
        const STEREO = 1 << 1;
        /// The request's priority counts.
        const OVERRIDE_PRIORITY = 1 << 2;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// `D3DDDICB_DESTROYALLOCATION2FLAGS` (memory §6.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct DestroyFlags: u32 {
        /// Commands of the owner that are pending do not use it.
        const ASSUME_NOT_IN_USE = 1 << 0;
        /// The call answers when the memory is reclaimed.
        const SYNCHRONOUS_DESTROY = 1 << 1;
        /// Not for user mode.
        const SYSTEM_USE_ONLY = 1 << 31;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// Flags of `D3DDDI_UPDATEALLOCPROPERTY` (memory §2.8).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct PropertyFlags: u32 {
        /// Contiguous in memory segments.
        const ACCESSED_PHYSICALLY = 1 << 0;
        /// Stays where it is.
        const UNMOVEABLE = 1 << 1;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }

    /// The properties that change (memory §2.8).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct PropertyMask: u32 {
        /// `SetAccessedPhysically`.
        const ACCESSED_PHYSICALLY = 1 << 0;
        /// `SetSupportedSegmentSet`.
        const SUPPORTED_SEGMENT_SET = 1 << 1;
        /// `SetPreferredSegment`.
        const PREFERRED_SEGMENT = 1 << 2;
        /// `SetUnmoveable`.
        const UNMOVEABLE = 1 << 3;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }
}

/// The change of an allocation's properties (`D3DDDI_UPDATEALLOCPROPERTY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PropertyRequest {
    /// The new supported set.
    pub supported_segments: SegmentSet,
    /// The new order of preference, as the C structure's bits.
    pub preferred_segment: u32,
    /// The new flags.
    pub flags: PropertyFlags,
    /// The members that count.
    pub mask: PropertyMask,
}

/// A resource, or a list of allocations (`hResource`, `phAllocationList`): one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationTarget {
    /// The resource with all its allocations; then the list is empty.
    pub resource: RawHandle,
    /// The allocations.
    pub allocations: Vec<RawHandle>,
}

/// The list of an offer: whole resources, or allocations (`pResources` xor `HandleList`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OfferList {
    /// Each with all its allocations.
    Resources(Vec<RawHandle>),
    /// One by one.
    Allocations(Vec<RawHandle>),
}

impl From<Vec<RawHandle>> for OfferList {
    fn from(allocations: Vec<RawHandle>) -> OfferList {
        OfferList::Allocations(allocations)
    }
}

/// The name by which a process asks for a shared resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShareName {
    /// `hGlobalShare`: a name that every process of this kernel may use.
    Global(RawHandle),
    /// An NT handle of ShareObjects.
    NtHandle(u64),
}

/// Of CreateAllocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedAllocations {
    /// The resource, new or given; none without one.
    pub resource: RawHandle,
    /// The global share handle of a resource that is shared and not by NT handle.
    pub global_share: RawHandle,
    /// Flags as the kernel completed them.
    pub flags: CreateAllocationFlags,
    /// One each, in request order.
    pub allocations: Vec<CreatedAllocation>,
}

/// One allocation of the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedAllocation {
    /// The handle.
    pub handle: RawHandle,
    /// Its private data as they are now, if they differ from what the caller has or it has none.
    pub private_data: Option<Vec<u8>>,
    /// `GpuVirtualAddress`: on an adapter of the IoMmu model the allocation's CPU address in this process, which the GPU uses
    /// too while it is resident (memory §4.1); NULL on others, where it is mapped by a call of its own.
    pub address: CpuVa,
}

/// Of OpenResource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedResource {
    /// The resource.
    pub resource: RawHandle,
    /// Its allocations with their private data.
    pub allocations: Vec<CreatedAllocation>,
    /// The driver's blob of the creation.
    pub private_data: Vec<u8>,
    /// The runtime's blob of the creation.
    pub runtime_data: Vec<u8>,
    /// The keyed mutex that was shared with it; NONE: it was shared alone.
    pub keyed_mutex: RawHandle,
    /// The synchronization object that was shared with both.
    pub sync_object: RawHandle,
}

/// Of QueryResourceInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceInfo {
    /// How many allocations.
    pub allocations: u32,
    /// The runtime's blob.
    pub runtime_data: Vec<u8>,
    /// Bytes of the driver's blob of the creation.
    pub private_data_bytes: u32,
    /// Bytes of all allocations' private data.
    pub total_private_data_bytes: u32,
}

/// `D3DKMT_ALLOCATIONRESIDENCYSTATUS` (memory §9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ResidencyStatus {
    /// 1: in GPU memory.
    ResidentInGpuMemory = 1,
    /// 2: in shared memory.
    ResidentInSharedMemory = 2,
    /// 3: not resident.
    NotResident = 3,
}

/// Of CreateSection: memory of the caller, zero at first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedSection {
    /// The section.
    pub section: RawHandle,
    /// Its bytes.
    pub mapped: Mapped,
}
