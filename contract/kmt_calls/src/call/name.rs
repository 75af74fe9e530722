//! The name of each call, for traces and refusals.

use crate::call::{Call, PacketCall, QueueCall, SyncCall};

impl Call {
    /// Whether the call gives the adapter's copy engine work to do, so that it may have to wait until there is less.
    pub const fn moves_memory(&self) -> bool {
        matches!(
            self,
            Call::CreateDevice { .. }
                | Call::CreatePagingQueue { .. }
                | Call::CreateAllocation { .. }
                | Call::MapGpuVirtualAddress { .. }
                | Call::FreeGpuVirtualAddress { .. }
                | Call::MakeResident { .. }
                | Call::Evict { .. }
                | Call::UpdateAllocationProperty { .. }
                | Call::OfferAllocations { .. }
                | Call::ReclaimAllocations { .. }
                | Call::ReclaimAllocations2 { .. }
                | Call::Lock2 { .. }
                | Call::Queue(QueueCall::CreateHwQueue { .. })
                | Call::Sync(SyncCall::CreateNativeFence { .. })
                | Call::Sync(SyncCall::CreateSynchronizationObject2 { .. })
                | Call::Sync(SyncCall::OpenNativeFenceFromNtHandle { .. })
                | Call::Sync(SyncCall::OpenSyncObjectFromNtHandle2 { .. })
                | Call::Packet(PacketCall::CreateContext { .. })
                | Call::Packet(PacketCall::Render { .. })
                | Call::Packet(PacketCall::Present { .. })
        )
    }

    /// The name of the `D3DKMT` function, without its prefix.
    pub const fn name(&self) -> &'static str {
        match self {
            Call::EnumAdapters => "EnumAdapters",
            Call::OpenAdapterFromLuid { .. } => "OpenAdapterFromLuid",
            Call::CloseAdapter { .. } => "CloseAdapter",
            Call::QueryAdapterInfo { .. } => "QueryAdapterInfo",
            Call::IsFeatureEnabled { .. } => "IsFeatureEnabled",
            Call::QueryVideoMemoryInfo { .. } => "QueryVideoMemoryInfo",
            Call::CreateDevice { .. } => "CreateDevice",
            Call::DestroyDevice { .. } => "DestroyDevice",
            Call::GetDeviceState { .. } | Call::GetDeviceFault { .. } => "GetDeviceState",
            Call::CreatePagingQueue { .. } => "CreatePagingQueue",
            Call::DestroyPagingQueue { .. } => "DestroyPagingQueue",
            Call::CreateAllocation { .. } => "CreateAllocation",
            Call::DestroyAllocation { .. } => "DestroyAllocation",
            Call::OpenResource { .. } => "OpenResource",
            Call::TakeNtHandle { .. } => "TakeNtHandle",
            Call::QueryResourceInfo { .. } => "QueryResourceInfo",
            Call::ShareObjects { .. } => "ShareObjects",
            Call::OpenNtHandleFromName { sync_object: true, .. } => "OpenSyncObjectNtHandleFromName",
            Call::OpenNtHandleFromName { .. } => "OpenNtHandleFromName",
            Call::CloseNtHandle { .. } => "CloseHandle",
            Call::DescribeAllocations { .. } => "DescribeAllocations",
            Call::SetAllocationPriority { .. } => "SetAllocationPriority",
            Call::GetAllocationPriority { .. } => "GetAllocationPriority",
            Call::QueryAllocationResidency { .. } => "QueryAllocationResidency",
            Call::UpdateAllocationProperty { .. } => "UpdateAllocationProperty",
            Call::InvalidateCache { .. } => "InvalidateCache",
            Call::MapGpuVirtualAddress { .. } => "MapGpuVirtualAddress",
            Call::FreeGpuVirtualAddress { .. } => "FreeGpuVirtualAddress",
            Call::ReserveGpuVirtualAddress { .. } => "ReserveGpuVirtualAddress",
            Call::UpdateGpuVirtualAddress { .. } => "UpdateGpuVirtualAddress",
            Call::MakeResident { .. } => "MakeResident",
            Call::Evict { .. } => "Evict",
            Call::OfferAllocations { .. } => "OfferAllocations",
            Call::ReclaimAllocations { .. } => "ReclaimAllocations",
            Call::ReclaimAllocations2 { .. } => "ReclaimAllocations2",
            Call::ChangeVideoMemoryReservation { .. } => "ChangeVideoMemoryReservation",
            Call::Lock { .. } => "Lock",
            Call::Unlock { .. } => "Unlock",
            Call::Lock2 { .. } => "Lock2",
            Call::Unlock2 { .. } => "Unlock2",
            Call::Event(call) => call.name(),
            Call::Notification(call) => call.name(),
            Call::Section(call) => call.name(),
            Call::Queue(call) => call.name(),
            Call::Packet(call) => call.name(),
            Call::Priority(call) => call.name(),
            Call::Display(call) => call.name(),
            Call::Sync(call) => call.name(),
            Call::Statistics(call) => call.name(),
            Call::KeyedMutex(call) => call.name(),
            Call::Escape(_) => "Escape",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SignalFlags, SyncObjectKind, SyncObjectRequest, WaitFlags};
    use wddm_types::RawHandle;

    #[test]
    fn calls_on_synchronization_objects_bear_the_names_of_the_header() {
        // spec: sync §2.2, sync §2.4
        let (device, context, event) = (RawHandle(1), RawHandle(2), RawHandle::NONE);
        let (points, flags) = (Vec::new(), SignalFlags::empty());
        let kind = SyncObjectKind::MonitoredFence { initial_value: 0, engine_affinity: 0 };
        let request = SyncObjectRequest { kind, flags: Default::default() };
        let calls = [
            SyncCall::CreateSynchronizationObject2 { device, request },
            SyncCall::WaitForSynchronizationObjectFromCpu {
                device,
                points: Vec::new(),
                async_event: event,
                flags: WaitFlags::empty(),
            },
            SyncCall::SignalSynchronizationObjectFromCpu { device, points: Vec::new(), flags },
            SyncCall::WaitForSynchronizationObjectFromGpu { context, points: Vec::new() },
            SyncCall::SignalSynchronizationObjectFromGpu { context, points: Vec::new() },
            SyncCall::SignalSynchronizationObjectFromGpu2 { contexts: Vec::new(), points, event, flags },
            SyncCall::WaitForSynchronizationObject2 { context, objects: Vec::new(), fence_value: 0 },
        ];
        for call in calls {
            // The variant's name is the function's.
            let variant = format!("{call:?}");
            assert_eq!(variant.split_whitespace().next(), Some(call.name()));
        }
    }
}
