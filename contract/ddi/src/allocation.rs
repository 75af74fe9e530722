//! Allocations as a driver describes them, and the calls that create, open, close and destroy them (memory §2). Flags are
//! in `flags`, orders of preference in `preference`, what the kernel creates by itself in `standard`. Nothing is
//! checked here: VidMm does that.

mod flags;
mod preference;
mod standard;

pub use flags::{
    AllocationFlags, AllocationFlags2, CreateAllocationFlags, DestroyAllocationFlags, OpenAllocationFlags,
    UpdateAllocationPropertyFlags, UpdateAllocationPropertyMask, UsageHintFlags,
};
pub use preference::{PreferredBank, PreferredSegment, SegmentBankPreference, SegmentPreference};
pub use standard::{
    GdiSurfaceKind, RefreshRate, StandardAllocation, StandardAllocationDriverData, Surface, SurfaceFormat,
};

use wddm_types::{PageRun, SegmentSet};

use crate::queue::KmdDevice;

/// The driver's handle of an allocation (`hAllocation`); it belongs to the adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KmdAllocation(pub u64);

/// The driver's handle of a resource (`hResource`); 0: the driver keeps nothing about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KmdResource(pub u64);

/// The driver's handle of an allocation as one device opened it (`hDeviceSpecificAllocation`); never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KmdOpenAllocation(pub u64);

/// `D3DDDI_ALLOCATIONPRIORITY_MINIMUM` (memory §2.3).
pub const PRIORITY_MINIMUM: u32 = 0x2800_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_LOW` (memory §2.3).
pub const PRIORITY_LOW: u32 = 0x5000_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_NORMAL` (memory §2.3).
pub const PRIORITY_NORMAL: u32 = 0x7800_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_HIGH` (memory §2.3).
pub const PRIORITY_HIGH: u32 = 0xA000_0000;
/// `D3DDDI_ALLOCATIONPRIORITY_MAXIMUM` (memory §2.3).
pub const PRIORITY_MAXIMUM: u32 = 0xC800_0000;

/// `DXGK_ALLOCATIONINFO` (memory §2.1): the outputs of a driver's CreateAllocation for one allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationInfo {
    /// Required alignment in bytes; a multiple of 64 KB where a supported segment has 64-KB pages. 0: a page.
    pub alignment_bytes: u64,
    /// Bytes, not 0; VidMm rounds up to pages.
    pub size_bytes: u64,
    /// Bytes that it takes in a segment with PitchAlignment (memory §2.6). 0: not supported there; else at least
    /// `size_bytes`.
    pub pitch_aligned_size_bytes: u64,
    /// Bank order within the first preferred segment.
    pub hinted_bank: SegmentBankPreference,
    /// Placement order.
    pub preferred_segment: SegmentPreference,
    /// Segments for reads (`SupportedReadSegmentSet`); ignored from WDDM 2.0 on.
    pub read_segments: SegmentSet,
    /// Where it may be (`SupportedWriteSegmentSet`): from WDDM 2.0 on the set that counts, before it the one for writes.
    pub supported_segments: SegmentSet,
    /// Aperture segments that it may be evicted through; empty: straight to system memory.
    pub eviction_segments: SegmentSet,
    /// WDDM 1: most instances of a renamed allocation (`MaximumRenamingListLength`); 0 = unlimited.
    pub renaming_list_length_max: u32,
    /// WDDM 2: which physical adapter of a link (`PhysicalAdapterIndex`).
    pub physical_adapter: u32,
    /// The driver's handle.
    pub allocation: KmdAllocation,
    /// Flags of the allocation.
    pub flags: AllocationFlags,
    /// Flags from WDDM 3.0 on.
    pub flags2: AllocationFlags2,
    /// The use of the surface, if the driver tells it (`pAllocationUsageHint`). VidMm only carries it.
    pub usage_hint: Option<AllocationUsageHint>,
    /// Starting priority; 0 is invalid.
    pub priority: u32,
}

/// `DXGK_ALLOCATIONUSAGEHINT`, version 1 (memory §2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationUsageHint {
    /// The kind of surface.
    pub flags: UsageHintFlags,
    /// Format, or the driver's own with `PRIVATE_FORMAT`.
    pub format: u32,
    /// Swizzled format.
    pub swizzled_format: u32,
    /// First byte of the surface.
    pub byte_offset: u32,
    /// Texels per row.
    pub width: u32,
    /// Rows of a slice.
    pub height: u32,
    /// Bytes of a row.
    pub pitch_bytes: u32,
    /// Slices of a volume.
    pub depth: u32,
    /// Bytes of a slice.
    pub slice_pitch_bytes: u32,
}

/// One allocation of a [`CreateAllocation`]: private data go in, [`AllocationInfo`] comes out.
#[derive(Debug)]
pub struct NewAllocation<'a> {
    /// Per-allocation blob from the user-mode driver; untrusted.
    pub private_data: &'a [u8],
    /// Filled by the driver.
    pub info: AllocationInfo,
}

impl<'a> NewAllocation<'a> {
    /// Not described yet.
    pub fn new(private_data: &'a [u8]) -> NewAllocation<'a> {
        NewAllocation { private_data, info: AllocationInfo::default() }
    }
}

/// `DXGKARG_CREATEALLOCATION` (memory §2.7).
#[derive(Debug)]
pub struct CreateAllocation<'a, 'b> {
    /// Blob of the whole call; untrusted. Empty when there is none.
    pub private_data: &'a [u8],
    /// The allocations to create; none for an empty resource.
    pub allocations: &'a mut [NewAllocation<'b>],
    /// With `RESOURCE`: 0 at the first create of a resource, later what the driver said before; the driver may change it.
    pub resource: KmdResource,
    /// Flags of the call.
    pub flags: CreateAllocationFlags,
}

/// The private data that an open shows.
#[derive(Debug)]
pub enum OpenPrivateData<'a> {
    /// The open that follows a creation: the driver may change them, and user mode sees the change.
    Create(&'a mut [u8]),
    /// Any later open.
    ReadOnly(&'a [u8]),
}

impl OpenPrivateData<'_> {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            OpenPrivateData::Create(bytes) => bytes,
            OpenPrivateData::ReadOnly(bytes) => bytes,
        }
    }
}

/// `DXGK_OPENALLOCATIONINFO` (memory §2.7).
#[derive(Debug)]
pub struct OpenAllocationInfo<'a> {
    /// The adapter's allocation, as `DxgkCbGetHandleData` of the handle would tell.
    pub allocation: KmdAllocation,
    /// Its blob.
    pub private_data: OpenPrivateData<'a>,
    /// Filled by the driver; 0 is not allowed.
    pub open: KmdOpenAllocation,
}

/// `DXGKARG_OPENALLOCATION` (memory §2.7).
#[derive(Debug)]
pub struct OpenAllocation<'a, 'b> {
    /// For which device.
    pub device: KmdDevice,
    /// The allocations to open.
    pub allocations: &'a mut [OpenAllocationInfo<'b>],
    /// Blob of the resource; read-only.
    pub private_data: &'a [u8],
    /// Flags of the call.
    pub flags: OpenAllocationFlags,
    /// `SubresourceIndex`: the part of the resource that the next two members are about. This kernel opens the first.
    pub subresource_index: u32,
    /// Out: where it begins, in bytes. The kernel has no use for it.
    pub subresource_offset: u64,
    /// Out: bytes from one of its rows to the next; 0: it has no rows. The kernel has no use for it.
    pub pitch: u32,
}

/// `DXGKARG_DESTROYALLOCATION` (memory §2.7). The last binding has gone, nothing of the hardware's work names them.
#[derive(Debug)]
pub struct DestroyAllocation<'a> {
    /// The allocations to destroy.
    pub allocations: &'a [KmdAllocation],
    /// The resource they belong to, or 0. Without `DESTROY_RESOURCE` the driver may change it.
    pub resource: KmdResource,
    /// Flags of the call.
    pub flags: DestroyAllocationFlags,
}

/// `DXGKARG_VALIDATEUPDATEALLOCATIONPROPERTY` (memory §2.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateAllocationProperty {
    /// The allocation to change.
    pub allocation: KmdAllocation,
    /// The new supported set, if the mask says so.
    pub supported_segments: SegmentSet,
    /// The new order of preference, if the mask says so.
    pub preferred_segment: SegmentPreference,
    /// The new flags, each if the mask says so.
    pub flags: UpdateAllocationPropertyFlags,
    /// The properties that change.
    pub mask: UpdateAllocationPropertyMask,
}

/// `DXGKARG_SETALLOCATIONBACKINGSTORE` (memory §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAllocationBackingStore<'a> {
    /// The allocation whose backing store it is.
    pub allocation: KmdAllocation,
    /// `pBackingStore`: its pages of system memory, in order. There is no other address of the kernel's here.
    pub backing: &'a [PageRun],
}
