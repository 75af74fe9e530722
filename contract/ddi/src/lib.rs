//! The kernel-mode driver contract: the traits of a miniport, and the kernel's functions for it.
//!
//! # The law of this boundary
//! - **The kernel drives.** The kernel calls a miniport, which never calls back on its own: the kernel lends it [`Host`] or [`Notify`]
//!   for one call, and the miniport does not store them.
//! - **The kernel validates user input**; a miniport validates only what it alone understands (its private data, its
//!   command words).
//! - **Pointers live as long as the call.** A kernel address of a fence word comes as a borrowed word, so the rule that
//!   a driver must not keep it (sync §1.5) is the borrow checker's.
//! - **Synchronisation**: the kernel enters a miniport from one thread at a time. The interrupt routine never runs beside
//!   `update_monitored_values` (sync §4.5).
//! - **Facets**: capabilities that only some adapters have stand in traits of their own, reached by accessors; `None` is a null entry of
//!   the driver's table, and capability bits are derived from the facets, so they cannot lie.
//! - **Failure**: a method that may fail says with which statuses and what the kernel does then. A status that the
//!   method may not return fails the adapter.
//!
//! Offsets and sizes of the C structures are another crate's; the members here keep their meaning and names.

// Every facet is reached by `&mut self`, so the compiler is the witness that no two threads are in a driver: whatever level a
// method has, it is entered as the strictest of them asks.
// spec: sync §4.5
// Where prose and headers have two names for one thing, the headers' name stands here.
// spec: sync §0.1

mod adapter;
mod allocation;
mod context_allocation;
mod cpu_access;
mod display;
mod doorbell;
mod escape;
mod feature;
mod fence;
mod fence_log;
mod flip_queue;
mod gpu_va;
mod hardware_queues;
mod host;
mod interrupt;
mod miniport;
mod packet;
mod paging;
mod peer;
mod preemption;
mod queue;
mod scheduling;
mod scheduling_log;
mod segment;
mod transfer;

pub use adapter::{AdapterCaps, DdiVersion, DriverModel, DriverStatus, NodeMetadata, PowerState, VidMmCaps};
pub use allocation::{
    AllocationFlags, AllocationFlags2, AllocationInfo, AllocationUsageHint, CreateAllocation, CreateAllocationFlags,
    DestroyAllocation, DestroyAllocationFlags, GdiSurfaceKind, KmdAllocation, KmdOpenAllocation, KmdResource,
    NewAllocation, OpenAllocation, OpenAllocationFlags, OpenAllocationInfo, OpenPrivateData, PRIORITY_HIGH,
    PRIORITY_LOW, PRIORITY_MAXIMUM, PRIORITY_MINIMUM, PRIORITY_NORMAL, PreferredBank, PreferredSegment, RefreshRate,
    SegmentBankPreference, SegmentPreference, SetAllocationBackingStore, StandardAllocation,
    StandardAllocationDriverData, Surface, SurfaceFormat, UpdateAllocationProperty, UpdateAllocationPropertyFlags,
    UpdateAllocationPropertyMask, UsageHintFlags,
};
pub use context_allocation::{
    ContextAllocationFlags, CreateContextAllocation, MapContextAllocation, MapProtection, OsContextAllocation,
};
pub use cpu_access::{
    AcquireSwizzlingRange, HostAperture, MapCpuHostAperture, ReleaseSwizzlingRange, Swizzling, SwizzlingError,
    UnmapCpuHostAperture,
};
pub use display::{
    Display, FlipCaps, KmdNotification, NotificationId, SetVidPnSourceAddress, SetVidPnSourceAddressFlags, VidPnPath,
};
pub use doorbell::{
    ConnectedDoorbell, CreateDoorbell, DOORBELL_PRIVATE_DATA_MAX, Disconnected, DoorbellHost, Doorbells,
};
pub use escape::{Escape, EscapeFlags};
pub use feature::{
    FeatureId, FeatureInterface, FeatureState, FeatureSupport, NativeFenceInterface1, NativeFenceOsCaps,
    QueryFeatureInterface,
};
pub use fence::{
    CreateNativeFence, CurrentUpdate, FenceStorageSurface, FenceType, FenceValueType, KmdGlobalFence, KmdLocalFence,
    MonitoredUpdate, NativeFenceCaps, OpenNativeFence, OsGlobalFence, OsLocalFence, PRIVATE_DATA_BYTES,
    UpdateCurrentFlags,
};
pub use fence_log::{GpuClock, LOG_HEADER_WORDS, NativeFenceLogs, SetNativeFenceLogBuffer};
pub use flip_queue::{
    DrainNeeded, EVERY_VSYNC, FLIP_CANCELLED, FLIP_LOG_ENTRY_BYTES, FlipQueue, FlipQueueCaps, FlipRefusal,
    NO_PRESENT_ID, QueueFlip, SetFlipQueueLogBuffer,
};
pub use gpu_va::{
    GpuMmuCaps, GpuMmuFlags, LegacyBehaviors, PageTableLevelDesc, PageTableUpdateMode, Pte, PteFlags,
    ReserveGpuVaRange, ReserveGpuVaRangeFlags, RootPageTableSize,
};
pub use hardware_queues::HardwareQueues;
pub use host::{Host, Notify};
pub use interrupt::{DmaFault, EngineState, FState, Interrupt, InterruptFlags, PageFault, PlaneVsync};
pub use miniport::{GpuVirtualAddressing, Miniport, NativeFences};
pub use packet::{
    AllocationListEntry, ContextCaps, ContextInfo, CreateContext, CreateContextFlags, DmaBuffer,
    PRESENT_DESTINATION_INDEX, PRESENT_SOURCE_INDEX, PacketCaps, PacketScheduling, Patch, PatchLocation,
    PatchLocationsOut, Present, Render, RenderStatus, SubmitCommand, SubmitCommandVirtual, SubmitFlags,
    WRITTEN_PRIMARIES_MAX,
};
pub use paging::{BuildPagingBuffer, PagingOp, PagingStatus};
pub use peer::{PeerDoorbellCaps, PeerDoorbells};
pub use preemption::{ComputePreemption, GraphicsPreemption, PreemptCommand, PreemptionGranularity, ResetEngine};
pub use queue::{
    CreateDevice, CreateHwContext, CreateHwQueue, CreateProcess, DeviceInfo, HwQueueFlags, KmdContext, KmdDevice,
    KmdDoorbell, KmdProcess, KmdQueue, OsContext, OsDoorbell, OsProcess, OsQueue, ProgressFence,
    SubmitCommandToHwQueue, SuspendStatus,
};
pub use scheduling::{PriorityBand, SCHEDULING_UNIT_NS, SetContextSchedulingProperties, SetupPriorityBands};
pub use scheduling_log::{SCHEDULING_LOG_HEADER_WORDS, SchedulingLogBuffer, SetSchedulingLogBuffer};
pub use segment::{
    CpuAccess, CpuHostAperture, DESCRIPTOR4_BYTES, DescriptorArray, MemoryRange, PagingBufferInfo, QueryMemoryRanges,
    QuerySegment, QuerySegment3, QuerySegment4, QuerySegmentIn, SegmentDescriptor, SegmentDescriptor3,
    SegmentDescriptor4, SegmentFlags, StrideError,
};
pub use transfer::{
    Adl, AllocNotice, CopyEntries, FenceResidency, Mdl, TransferEnd, TransferFlags, VirtualDirection,
    VirtualTransferFlags,
};
