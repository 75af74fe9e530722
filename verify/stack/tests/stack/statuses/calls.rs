//! Calls with one handle in them that is to be refused.

use kmt_calls::{
    AdapterCall, AllocationCall, AllocationTarget, Call, ContextFlags, DestroyFlags, DeviceCall, DisplayCall,
    EvictFlags, GpuVaCall, GpuVaProtection, LockCall, LockFlags, MakeResidentFlags, NotificationCall, OfferFlags,
    OpenSyncObjectRequest, PacketCall, PriorityCall, PropertyCall, PropertyRequest, QueueCall, QueueFlags,
    ResidencyCall, ResourceRequest, SectionCall, ShareCall, ShareName, SyncCall, SyncObjectAccess, WaitFlags,
};
use wddm_types::{GpuVa, NodeId, ProcessId, RawHandle};

/// Whether a call's handle is a fence.
pub fn is_about_fences(call: &Call) -> bool {
    matches!(call, Call::Sync(SyncCall::DestroySynchronizationObject { .. }))
}

/// Every call whose first handle this is.
pub fn with(handle: RawHandle) -> Vec<Call> {
    let mut calls = vec![
        Call::Adapter(AdapterCall::CloseAdapter { adapter: handle }),
        Call::Adapter(AdapterCall::QueryAdapterInfo { adapter: handle }),
        Call::Adapter(AdapterCall::IsFeatureEnabled { adapter: handle, feature: 37 }),
        Call::Adapter(AdapterCall::QueryVideoMemoryInfo { process: 0, adapter: handle, local: true }),
        Call::Residency(ResidencyCall::ChangeVideoMemoryReservation {
            process: 0,
            adapter: handle,
            local: true,
            reservation_bytes: 0,
        }),
        Call::Residency(ResidencyCall::FlushHeapTransitions { adapter: handle }),
        Call::Adapter(AdapterCall::SetStablePowerState { adapter: handle, enabled: true }),
        Call::Display(DisplayCall::GetSharedPrimaryHandle { adapter: handle, source: Default::default() }),
        Call::Priority(PriorityCall::SetProcessSchedulingPriorityClass { adapter: handle, class: 2 }),
        Call::Priority(PriorityCall::GetProcessSchedulingPriorityClass { adapter: handle }),
        Call::Priority(PriorityCall::SetContextSchedulingPriority { context: handle, priority: 0 }),
        Call::Priority(PriorityCall::GetContextSchedulingPriority { context: handle }),
        Call::Priority(PriorityCall::SetContextInProcessSchedulingPriority { context: handle, priority: 0 }),
        Call::Priority(PriorityCall::GetContextInProcessSchedulingPriority { context: handle }),
        Call::Device(DeviceCall::CreateDevice { adapter: handle }),
        Call::Section(SectionCall::Create { adapter: handle, size_bytes: 4096 }),
        Call::Section(SectionCall::Close { section: handle }),
        Call::Section(SectionCall::IsInUse { section: handle }),
        Call::Device(DeviceCall::DestroyDevice { device: handle }),
        Call::Device(DeviceCall::GetDeviceState { device: handle }),
        Call::Device(DeviceCall::MarkDeviceAsError { device: handle, by_driver: true }),
        Call::Device(DeviceCall::WaitForIdle { device: handle }),
        Call::Share(ShareCall::GetSharedResourceAdapterLuid { share: ShareName::Global(handle) }),
        Call::Share(ShareCall::CheckSharedResourceAccess { resource: handle, process: ProcessId(1) }),
        Call::Device(DeviceCall::DestroyPagingQueue { queue: handle }),
        Call::Notification(NotificationCall::Unregister { registration: handle }),
        Call::Queue(QueueCall::DestroyHwContext { context: handle }),
        Call::Packet(PacketCall::DestroyContext { context: handle }),
        Call::Queue(QueueCall::CreateHwQueue { context: handle, flags: QueueFlags::empty(), private_data: Vec::new() }),
        Call::Queue(QueueCall::DestroyHwQueue { queue: handle }),
        Call::Queue(QueueCall::GetNativeFenceLogDetail { queue: handle }),
        Call::Queue(QueueCall::SubmitWaitForSyncObjectsToHwQueue { queue: handle, points: Vec::new() }),
        Call::Queue(QueueCall::SubmitSignalSyncObjectsToHwQueue {
            queues: vec![handle],
            points: Vec::new(),
            flags: Default::default(),
        }),
        Call::Queue(QueueCall::CreateDoorbell {
            queue: handle,
            ring: handle,
            ring_va: GpuVa::NULL,
            private_data: Vec::new(),
        }),
        Call::Queue(QueueCall::ConnectDoorbell { doorbell: handle }),
        Call::Queue(QueueCall::DestroyDoorbell { doorbell: handle }),
        Call::Queue(QueueCall::NotifyWorkSubmission { doorbell: handle }),
        Call::Sync(SyncCall::DestroySynchronizationObject { fence: handle }),
        Call::Share(ShareCall::ShareObjects {
            objects: vec![handle],
            access: SyncObjectAccess::ALL_ACCESS,
            name: None,
        }),
        Call::Sync(SyncCall::OpenNativeFenceFromNtHandle { device: handle, request: OpenSyncObjectRequest::default() }),
        Call::Sync(SyncCall::OpenSyncObjectFromNtHandle2 { device: handle, request: OpenSyncObjectRequest::default() }),
        Call::Packet(PacketCall::Present { context: handle, source: handle, destination: handle, rectangles: vec![] }),
        Call::Display(DisplayCall::Flip { context: handle, primary: handle, interval: 1 }),
        Call::Display(DisplayCall::FlipOnHwQueue { queue: handle, primary: handle, interval: 1 }),
        Call::Sync(SyncCall::WaitForSynchronizationObjectFromGpu { context: handle, points: Vec::new() }),
        Call::Sync(SyncCall::SignalSynchronizationObjectFromGpu { context: handle, points: Vec::new() }),
    ];
    calls.extend(with_allocation(handle, handle, handle));
    calls.extend(on_device(handle));
    calls
}

/// Calls that name an allocation on a device, or through its paging queue.
pub fn with_allocation(device: RawHandle, paging_queue: RawHandle, allocation: RawHandle) -> Vec<Call> {
    let allocations = vec![allocation];
    let target = AllocationTarget { allocations: allocations.clone(), ..AllocationTarget::default() };
    vec![
        Call::Allocation(AllocationCall::DestroyAllocation {
            device,
            target: target.clone(),
            flags: DestroyFlags::empty(),
        }),
        Call::Property(PropertyCall::SetAllocationPriority { device, target: target.clone(), priorities: vec![1] }),
        Call::Property(PropertyCall::GetAllocationPriority { device, target: target.clone() }),
        Call::Property(PropertyCall::QueryAllocationResidency { device, target }),
        Call::Property(PropertyCall::UpdateAllocationProperty {
            paging_queue,
            allocation,
            request: PropertyRequest::default(),
        }),
        Call::GpuVa(GpuVaCall::MapGpuVirtualAddress {
            paging_queue,
            allocation,
            base: GpuVa::NULL,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            offset_in_pages: 0,
            size_in_pages: 1,
            protection: GpuVaProtection::WRITE,
            driver_protection: 0,
        }),
        Call::Property(PropertyCall::InvalidateCache { device, allocation, offset_bytes: 0, length_bytes: 1 }),
        Call::Residency(ResidencyCall::MakeResident {
            paging_queue,
            allocations: allocations.clone(),
            flags: MakeResidentFlags::empty(),
        }),
        Call::Residency(ResidencyCall::Evict { device, allocations: allocations.clone(), flags: EvictFlags::empty() }),
        Call::Residency(ResidencyCall::OfferAllocations {
            device,
            list: allocations.clone().into(),
            priority: 1,
            flags: OfferFlags::empty(),
        }),
        Call::Residency(ResidencyCall::ReclaimAllocations { device, list: allocations.clone().into(), asks: true }),
        Call::Residency(ResidencyCall::ReclaimAllocations2 { paging_queue, list: allocations.clone().into() }),
        Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 }),
        Call::Lock(LockCall::Unlock2 { device, allocation }),
        Call::Lock(LockCall::Lock {
            device,
            allocation,
            private_driver_data: 0,
            pages: Vec::new(),
            flags: LockFlags::LOCK_ENTIRE,
        }),
        Call::Lock(LockCall::Unlock { device, allocations }),
    ]
}

/// Calls on a device alone that would succeed on one that is well, or fail for another reason.
pub fn on_device(device: RawHandle) -> Vec<Call> {
    vec![
        Call::Device(DeviceCall::CreatePagingQueue { device, priority: 0, physical_adapter: 0 }),
        Call::Allocation(AllocationCall::CreateAllocation {
            device,
            allocations: vec![Default::default()],
            resource: ResourceRequest::default(),
        }),
        Call::Allocation(AllocationCall::OpenResource {
            device,
            share: ShareName::Global(RawHandle(1 << 31)),
            keyed_mutex_data: Vec::new(),
        }),
        Call::Notification(NotificationCall::RegisterTrim { adapter: None, device }),
        Call::Notification(NotificationCall::RegisterBudgetChange { device }),
        Call::Queue(QueueCall::CreateHwContext { device, node: NodeId(0), private_data: Vec::new() }),
        Call::Packet(PacketCall::CreateContextVirtual {
            device,
            node: NodeId(0),
            engine_affinity: 1,
            flags: ContextFlags::empty(),
            private_data: Vec::new(),
        }),
        Call::Sync(SyncCall::CreateNativeFence { device, request: Default::default() }),
        Call::Display(DisplayCall::SetVidPnSourceOwner { device, sources: Vec::new() }),
        Call::Display(DisplayCall::SetDisplayMode { device, primary: RawHandle::NONE }),
        Call::Display(DisplayCall::SetQueuedLimit { device, limit: 3 }),
        Call::Display(DisplayCall::WaitForVerticalBlankEvent { device, source: Default::default() }),
        Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
            device,
            points: Vec::new(),
            async_event: RawHandle::NONE,
            flags: WaitFlags::empty(),
        }),
        Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu {
            device,
            points: Vec::new(),
            flags: kmt_calls::SignalFlags::empty(),
        }),
        Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress {
            device,
            base: GpuVa::NULL,
            minimum: GpuVa::NULL,
            maximum: GpuVa::NULL,
            size_bytes: 65536,
            reservation_type: 0,
            driver_protection: 0,
        }),
    ]
}
