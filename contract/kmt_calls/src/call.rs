//! The calls. Those about queues, packet contexts, priorities, synchronization objects and events are enums of their own; flags are in
//! `flags`, and what calls about allocations, addresses and packets say is in files beside this one.

use serde::{Deserialize, Serialize};

mod display;
mod event;
mod flags;
mod keyed_mutex;
mod name;
mod notification;
mod packet;
mod priority;
mod queue;
mod section;
mod statistics;
mod sync;

pub use display::DisplayCall;
pub use event::EventCall;
pub use flags::{EvictFlags, FenceFlags, LockFlags, MakeResidentFlags, OfferFlags, QueueFlags, SignalFlags, WaitFlags};
pub use keyed_mutex::{AcquiredKeyedMutex, CreatedKeyedMutex, KeyedMutexCall, KeyedMutexFlags};
pub use notification::NotificationCall;
pub use packet::PacketCall;
pub use priority::{PRIORITY_ABSOLUTE, PriorityCall};
pub use queue::QueueCall;
pub use section::SectionCall;
pub use statistics::StatisticsCall;
pub use sync::SyncCall;

use wddm_types::{GpuVa, Luid, RawHandle};

use crate::allocation::{
    AllocationRequest, AllocationTarget, DestroyFlags, OfferList, PropertyRequest, ResourceRequest, ShareName,
};
use crate::gpu_va::{GpuVaProtection, UpdateGpuVaFlags, UpdateGpuVaOperation};
use crate::sync_object::SyncObjectAccess;

/// One call of user mode. The variant's name is the `D3DKMT` function's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// `D3DKMTEnumAdapters2` → [`crate::Reply::Adapters`].
    EnumAdapters,
    /// `D3DKMTOpenAdapterFromLuid` → `Handle`.
    OpenAdapterFromLuid {
        /// The adapter's LUID.
        luid: Luid,
    },
    /// `D3DKMTCloseAdapter`.
    CloseAdapter {
        /// The adapter; its devices must be gone.
        adapter: RawHandle,
    },
    /// `D3DKMTQueryAdapterInfo`: segments, nodes and capabilities in one answer → `AdapterInfo`.
    QueryAdapterInfo {
        /// The adapter.
        adapter: RawHandle,
    },
    /// `D3DKMTIsFeatureEnabled` → `Feature` (sync §2.10).
    IsFeatureEnabled {
        /// The adapter; NONE for a feature of the whole machine.
        adapter: RawHandle,
        /// `DXGK_FEATURE_ID`.
        feature: u32,
    },
    /// `D3DKMTQueryVideoMemoryInfo` → `VideoMemoryInfo`.
    QueryVideoMemoryInfo {
        /// A handle of a process that may be queried; 0: the calling one.
        process: u64,
        /// The adapter.
        adapter: RawHandle,
        /// Local group, else non-local.
        local: bool,
    },
    /// `D3DKMTCreateDevice` → `Handle`.
    CreateDevice {
        /// The adapter.
        adapter: RawHandle,
    },
    /// `D3DKMTDestroyDevice`: everything on it goes too.
    DestroyDevice {
        /// The device.
        device: RawHandle,
    },
    /// `D3DKMTGetDeviceState` of the kind PAGE_FAULT → `DeviceFault`. Works on a device in error.
    GetDeviceFault {
        /// The device.
        device: RawHandle,
    },
    /// `D3DKMTGetDeviceState` → `DeviceState`. Works on a device in error.
    GetDeviceState {
        /// The device.
        device: RawHandle,
    },
    /// `D3DKMTCreatePagingQueue` → `PagingQueue`.
    CreatePagingQueue {
        /// The device.
        device: RawHandle,
        /// `D3DDDI_PAGINGQUEUE_PRIORITY`: -1, 0 or 1. Of a device's queues that come with the same turn, the higher is first.
        priority: i32,
        /// `PhysicalAdapterIndex`: 0.
        physical_adapter: u32,
    },
    /// `D3DKMTDestroyPagingQueue`: drains, then destroys the fence.
    DestroyPagingQueue {
        /// The queue.
        queue: RawHandle,
    },
    /// `D3DKMTCreateAllocation2` → `Allocations`: all or none.
    CreateAllocation {
        /// The device.
        device: RawHandle,
        /// The allocations; none makes an empty resource.
        allocations: Vec<AllocationRequest>,
        /// The description of the whole call.
        resource: ResourceRequest,
    },
    /// `D3DKMTDestroyAllocation2` → `Done`; deferred behind the commands queued before, as its flags say (memory §6.2).
    DestroyAllocation {
        /// The device.
        device: RawHandle,
        /// The allocations to destroy; the handles are dead at return.
        target: AllocationTarget,
        /// Flags of the call.
        flags: DestroyFlags,
    },
    /// `D3DKMTOpenResource2`, `D3DKMTOpenResourceFromNtHandle` → `OpenedResource`.
    OpenResource {
        /// For which device.
        device: RawHandle,
        /// The shared resource.
        share: ShareName,
        /// `pKeyedMutexPrivateRuntimeData`: data for the keyed mutex that goes with it, if that has no data of a runtime yet.
        keyed_mutex_data: Vec<u8>,
    },
    /// An NT handle of its own, for a process that was told the token of another's → `NtHandle`. It names the same object, with the same
    /// access, and keeps it like every other.
    TakeNtHandle {
        /// The token.
        handle: u64,
    },
    /// `D3DKMTQueryResourceInfo`, `D3DKMTQueryResourceInfoFromNtHandle` → `ResourceInfo`.
    QueryResourceInfo {
        /// A device of the adapter.
        device: RawHandle,
        /// The shared resource.
        share: ShareName,
    },
    /// `D3DKMTShareObjects` → `NtHandle`. A fence lives as long as it has a handle; a resource as long as a device has it.
    ShareObjects {
        /// A resource or a synchronization object, created with NT_SECURITY_SHARING; or a resource, its keyed mutex, and a synchronization
        /// object without a word in memory, in this order.
        objects: Vec<RawHandle>,
        /// The access that the name gives to a process that opens a synchronization object by it.
        access: SyncObjectAccess,
        /// A name by which others get NT handles of their own (`ObjectName`); case makes no difference. It goes with the last of them.
        name: Option<String>,
    },
    /// `D3DKMTOpenSyncObjectNtHandleFromName`, `D3DKMTOpenNtHandleFromName` → `NtHandle`, which the caller closes.
    OpenNtHandleFromName {
        /// The name.
        name: String,
        /// `dwDesiredAccess`: of a synchronization object not more than it was shared with.
        access: u32,
        /// A synchronization object is wanted, else a resource.
        sync_object: bool,
    },
    /// The operating system's `CloseHandle` of an NT handle that this process got from ShareObjects, or of a process.
    CloseNtHandle {
        /// The NT handle.
        handle: u64,
    },
    /// Asks how large what a CreateAllocation asks for would be → `AllocationSizes`: the driver describes it, and nothing is made. A caller
    /// that gives memory of the program for it must know.
    DescribeAllocations {
        /// The device.
        device: RawHandle,
        /// As of CreateAllocation.
        allocations: Vec<AllocationRequest>,
        /// As of CreateAllocation.
        resource: ResourceRequest,
    },
    /// `D3DKMTSetAllocationPriority`.
    SetAllocationPriority {
        /// The device.
        device: RawHandle,
        /// Of what.
        target: AllocationTarget,
        /// One for each allocation of the list; one for a resource.
        priorities: Vec<u32>,
    },
    /// `D3DKMTGetAllocationPriority` → `Priorities`.
    GetAllocationPriority {
        /// The device.
        device: RawHandle,
        /// Of what.
        target: AllocationTarget,
    },
    /// `D3DKMTQueryAllocationResidency` → `ResidencyStatuses`; one for a resource.
    QueryAllocationResidency {
        /// The device.
        device: RawHandle,
        /// Of what.
        target: AllocationTarget,
    },
    /// `D3DKMTUpdateAllocationProperty` → `Residency`: effective now, or at the paging fence's value.
    UpdateAllocationProperty {
        /// The paging queue.
        paging_queue: RawHandle,
        /// Of what.
        allocation: RawHandle,
        /// The properties that change.
        request: PropertyRequest,
    },
    /// `D3DKMTInvalidateCache`: writes back and invalidates a range of a cacheable allocation (memory §6.7).
    InvalidateCache {
        /// The device.
        device: RawHandle,
        /// The allocation.
        allocation: RawHandle,
        /// First byte.
        offset_bytes: u64,
        /// How many bytes.
        length_bytes: u64,
    },
    /// `D3DKMTMapGpuVirtualAddress` → `MappedVa`.
    MapGpuVirtualAddress {
        /// The paging queue whose fence tells when the entries are there.
        paging_queue: RawHandle,
        /// The allocation to map; NULL with ZERO or NO_ACCESS.
        allocation: RawHandle,
        /// Exact address, or NULL.
        base: GpuVa,
        /// Window for a free choice; NULL = from the start.
        minimum: GpuVa,
        /// End of the window; NULL = no bound.
        maximum: GpuVa,
        /// First page of the allocation.
        offset_in_pages: u64,
        /// How many pages.
        size_in_pages: u64,
        /// Protection; with ZERO or NO_ACCESS the allocation is NULL.
        protection: GpuVaProtection,
        /// DriverProtection: for the driver.
        driver_protection: u64,
    },
    /// `D3DKMTReserveGpuVirtualAddress` → `MappedVa`, value 0.
    ReserveGpuVirtualAddress {
        /// The device whose process owns the space; the adapter, or a paging queue of the device, stands for it, too.
        device: RawHandle,
        /// Exact address, or NULL.
        base: GpuVa,
        /// Window for a free choice; NULL = from the start.
        minimum: GpuVa,
        /// End of the window; NULL = no bound.
        maximum: GpuVa,
        /// Bytes; like all the others a multiple of 64 KB.
        size_bytes: u64,
        /// `D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE`: 0 NO_ACCESS, 1 ZERO.
        reservation_type: u32,
        /// DriverProtection of tiles mapped into it.
        driver_protection: u64,
    },
    /// `D3DKMTUpdateGpuVirtualAddress`: answers late when more than 128 are queued on the context.
    UpdateGpuVirtualAddress {
        /// The device.
        device: RawHandle,
        /// The context whose updates stay in order.
        context: RawHandle,
        /// Waited for, then signalled with the value behind.
        fence: RawHandle,
        /// The value waited for; `fence_value + 1` is signalled.
        fence_value: u64,
        /// The changes, in this order.
        operations: Vec<UpdateGpuVaOperation>,
        /// Flags of the call.
        flags: UpdateGpuVaFlags,
    },
    /// `D3DKMTFreeGpuVirtualAddress`.
    FreeGpuVirtualAddress {
        /// As of ReserveGpuVirtualAddress.
        device: RawHandle,
        /// First address.
        base: GpuVa,
        /// Bytes, a multiple of 4096.
        size_bytes: u64,
    },
    /// `D3DKMTMakeResident` → `Residency`.
    MakeResident {
        /// The paging queue.
        paging_queue: RawHandle,
        /// The allocations; each occurrence counts once.
        allocations: Vec<RawHandle>,
        /// Flags of the call.
        flags: MakeResidentFlags,
    },
    /// `D3DKMTEvict` → `BytesToTrim`.
    Evict {
        /// The device.
        device: RawHandle,
        /// The allocations.
        allocations: Vec<RawHandle>,
        /// Flags of the call.
        flags: EvictFlags,
    },
    /// `D3DKMTOfferAllocations` → `Done`: their content may be thrown away once what was submitted before is over.
    OfferAllocations {
        /// The device.
        device: RawHandle,
        /// The resources or allocations to offer.
        list: OfferList,
        /// `D3DKMT_OFFER_PRIORITY`: 1 LOW, 2 NORMAL, 3 HIGH, 4 AUTO.
        priority: u32,
        /// Flags of the call.
        flags: OfferFlags,
    },
    /// `D3DKMTReclaimAllocations`, the first form → `Discarded`. It has no fence: at its answer the GPU may use them.
    ReclaimAllocations {
        /// The device.
        device: RawHandle,
        /// The resources or allocations to take back.
        list: OfferList,
        /// The caller asks what is lost (`pDiscarded`). If not, all of it may be.
        asks: bool,
    },
    /// `D3DKMTReclaimAllocations2` → `Reclaimed`. The third form of the drivers' callback is this call: of the second it differs
    /// by results that say NOT_COMMITTED, which these do.
    ReclaimAllocations2 {
        /// The paging queue whose fence tells when the GPU may use them again.
        paging_queue: RawHandle,
        /// The resources or allocations to take back.
        list: OfferList,
    },
    /// `D3DKMTChangeVideoMemoryReservation`.
    ChangeVideoMemoryReservation {
        /// A handle of a process that may be changed; 0: the calling one.
        process: u64,
        /// The adapter.
        adapter: RawHandle,
        /// Local group, else non-local.
        local: bool,
        /// At most what is available for reservation.
        reservation_bytes: u64,
    },
    /// `D3DKMTLock`, the legacy lock → `Locked` (memory §6.5).
    Lock {
        /// The device.
        device: RawHandle,
        /// The allocation.
        allocation: RawHandle,
        /// For the driver's swizzling range.
        private_driver_data: u32,
        /// Pages wanted; empty with LOCK_ENTIRE.
        pages: Vec<u32>,
        /// Flags of the lock.
        flags: LockFlags,
    },
    /// `D3DKMTUnlock`: one lock of each.
    Unlock {
        /// The device.
        device: RawHandle,
        /// The allocations.
        allocations: Vec<RawHandle>,
    },
    /// `D3DKMTLock2` → `Mapped`.
    Lock2 {
        /// The device.
        device: RawHandle,
        /// The allocation.
        allocation: RawHandle,
        /// Must be 0.
        flags: u32,
    },
    /// `D3DKMTUnlock2`.
    Unlock2 {
        /// The device.
        device: RawHandle,
        /// The allocation.
        allocation: RawHandle,
    },
    /// A call on a section.
    Section(SectionCall),
    /// A call on a registration for notifications.
    Notification(NotificationCall),
    /// The operating system's calls on events.
    Event(EventCall),
    /// Calls on hardware contexts, their queues and doorbells.
    Queue(QueueCall),
    /// Calls on packet contexts.
    Packet(PacketCall),
    /// Calls on priorities.
    Priority(PriorityCall),
    /// Calls on displays.
    Display(DisplayCall),
    /// Calls on synchronization objects.
    Sync(SyncCall),
    /// Calls for figures.
    Statistics(StatisticsCall),
    /// Calls on keyed mutexes.
    KeyedMutex(KeyedMutexCall),
    /// `D3DKMTEscape` → `Escaped`.
    Escape(crate::EscapeCall),
}
