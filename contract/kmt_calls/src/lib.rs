//! Every user call as an owned, pointer-free value, and its answer.
//!
//! # The law of this boundary
//! A [`Call`] is an allegation: its handles are [`RawHandle`]s, its sizes and flags are whatever the caller wrote. The kernel parses it
//! once, and reads no content of the call again afterwards. An answer holds no pointer either: memory that the caller may touch is named
//! by address ([`Mapped`], [`WordAddress`]) and becomes a mapping in the link that carries the call, with the access that the
//! specification grants.
//!
//! [`wire`] is the form of both between processes.
//!
//! It is not the C interface: names and layouts of the `D3DKMT_*` structures are another crate's.

mod allocation;
mod call;
mod escape;
mod gpu_va;
mod mapped;
mod notification;
mod packet;
mod process;
mod queued_fence;
mod reply;
mod statistics;
mod sync_object;
mod undo;
pub mod wire;

pub use allocation::{
    AllocationInfoFlags, AllocationRequest, AllocationTarget, CreateAllocationFlags, CreatedAllocation,
    CreatedAllocations, CreatedSection, DestroyFlags, OfferList, OpenedResource, PropertyFlags, PropertyMask,
    PropertyRequest, ResidencyStatus, ResourceInfo, ResourceRequest, SectionRange, ShareName,
};
pub use call::{
    AcquiredKeyedMutex, AdapterCall, AllocationCall, Call, CreatedKeyedMutex, DeviceCall, DisplayCall, EventCall,
    EvictFlags, FenceFlags, GpuVaCall, KeyedMutexCall, KeyedMutexFlags, LockCall, LockFlags, MakeResidentFlags,
    NotificationCall, OfferFlags, PRIORITY_ABSOLUTE, PacketCall, PriorityCall, PropertyCall, QueueCall, QueueFlags,
    Reach, ResidencyCall, SectionCall, ShareCall, SignalFlags, SourceOwnerType, StatisticsCall, SyncCall, WaitFlags,
};
pub use escape::{ESCAPE_BYTES_MAX, ESCAPE_DRIVER_PRIVATE, EscapeCall, EscapeFlags};
pub use gpu_va::{GpuVaProtection, UpdateGpuVaFlags, UpdateGpuVaOperation};
pub use mapped::{Mapped, MappingId};
pub use notification::{Notification, NotificationKind, TrimFlags};
pub use packet::{AllocationListFlags, AllocationListItem, ContextFlags, CreatedContext, PatchLocationItem};
pub use process::ProcessAccess;
pub use queued_fence::QueuedFence;
pub use reply::{
    AdapterInfo, CreatedDoorbell, CreatedFence, CreatedHwQueue, CreatedPagingQueue, DeviceFault, DeviceState,
    DisplayInfo, DisplayMode, DoorbellAddress, FeatureResult, MonitoredFenceSignal, NativeFenceLogDetail, PresentState,
    ReclaimResult, Refusal, Reply, Residency, SegmentInfo, Wddm30Caps, Wddm31Caps,
};
pub use statistics::{
    AdapterCounts, AdapterStatistics, ClockCalibration, NodeStatistics, NodeWork, PagingBytes, ProcessIdentity,
    ProcessMemory, ProcessSegment, ProcessStatistics, SegmentStatistics, SourceStatistics, VideoMemoryInfo,
};
pub use sync_object::{
    CpuCaching, CreatedMonitoredFence, CreatedSyncObject, FencePrivateData, NativeFenceRequest, OpenSyncObjectRequest,
    SyncObjectAccess, SyncObjectKind, SyncObjectRequest,
};
