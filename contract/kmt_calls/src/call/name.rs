//! What each call is called, for traces and refusals.

use crate::call::Call;

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
                | Call::OfferAllocations { .. }
                | Call::ReclaimAllocations2 { .. }
                | Call::Lock2 { .. }
                | Call::CreateHwQueue { .. }
                | Call::CreateNativeFence { .. }
                | Call::CreateSynchronizationObject2 { .. }
                | Call::OpenNativeFenceFromNtHandle { .. }
                | Call::OpenSyncObjectFromNtHandle2 { .. }
                | Call::CreateContext { .. }
                | Call::Render { .. }
                | Call::Present { .. }
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
            Call::GetDeviceState { .. } => "GetDeviceState",
            Call::CreatePagingQueue { .. } => "CreatePagingQueue",
            Call::DestroyPagingQueue { .. } => "DestroyPagingQueue",
            Call::CreateAllocation { .. } => "CreateAllocation",
            Call::DestroyAllocation { .. } => "DestroyAllocation",
            Call::OpenResource { .. } => "OpenResource",
            Call::QueryResourceInfo { .. } => "QueryResourceInfo",
            Call::ShareObjects { .. } => "ShareObjects",
            Call::CloseNtHandle { .. } => "CloseHandle",
            Call::CreateSection { .. } => "CreateSection",
            Call::CloseSection { .. } => "CloseHandle",
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
            Call::ReclaimAllocations2 { .. } => "ReclaimAllocations2",
            Call::RegisterTrimNotification { .. } => "RegisterTrimNotification",
            Call::RegisterBudgetChangeNotification { .. } => "RegisterBudgetChangeNotification",
            Call::UnregisterNotification { .. } => "UnregisterNotification",
            Call::ChangeVideoMemoryReservation { .. } => "ChangeVideoMemoryReservation",
            Call::SetProcessSchedulingPriorityClass { .. } => "SetProcessSchedulingPriorityClass",
            Call::Lock { .. } => "Lock",
            Call::Unlock { .. } => "Unlock",
            Call::Lock2 { .. } => "Lock2",
            Call::Unlock2 { .. } => "Unlock2",
            Call::CreateHwContext { .. } => "CreateHwContext",
            Call::DestroyHwContext { .. } => "DestroyHwContext",
            Call::CreateHwQueue { .. } => "CreateHwQueue",
            Call::DestroyHwQueue { .. } => "DestroyHwQueue",
            Call::SubmitCommandToHwQueue { .. } => "SubmitCommandToHwQueue",
            Call::SubmitWaitForSyncObjectsToHwQueue { .. } => "SubmitWaitForSyncObjectsToHwQueue",
            Call::SubmitSignalSyncObjectsToHwQueue { .. } => "SubmitSignalSyncObjectsToHwQueue",
            Call::CreateDoorbell { .. } => "CreateDoorbell",
            Call::ConnectDoorbell { .. } => "ConnectDoorbell",
            Call::DestroyDoorbell { .. } => "DestroyDoorbell",
            Call::NotifyWorkSubmission { .. } => "NotifyWorkSubmission",
            Call::CreateNativeFence { .. } => "CreateNativeFence",
            Call::CreateSynchronizationObject2 { .. } => "CreateSynchronizationObject2",
            Call::OpenNativeFenceFromNtHandle { .. } => "OpenNativeFenceFromNtHandle",
            Call::OpenSyncObjectFromNtHandle2 { .. } => "OpenSyncObjectFromNtHandle2",
            Call::DestroySynchronizationObject { .. } => "DestroySynchronizationObject",
            Call::WaitForSynchronizationObjectFromCpu { .. } => "WaitForSynchronizationObjectFromCpu",
            Call::SignalSynchronizationObjectFromCpu { .. } => "SignalSynchronizationObjectFromCpu",
            Call::Event(call) => call.name(),
            Call::CreateContext { .. } => "CreateContext",
            Call::CreateContextVirtual { .. } => "CreateContextVirtual",
            Call::DestroyContext { .. } => "DestroyContext",
            Call::SetContextInProcessSchedulingPriority { .. } => "SetContextInProcessSchedulingPriority",
            Call::GetContextInProcessSchedulingPriority { .. } => "GetContextInProcessSchedulingPriority",
            Call::Render { .. } => "Render",
            Call::Present { .. } => "Present",
            Call::SubmitCommand { .. } => "SubmitCommand",
            Call::WaitForSynchronizationObjectFromGpu { .. } => "WaitForSynchronizationObjectFromGpu",
            Call::SignalSynchronizationObjectFromGpu { .. } => "SignalSynchronizationObjectFromGpu",
            Call::SignalSynchronizationObjectFromGpu2 { .. } => "SignalSynchronizationObjectFromGpu2",
            Call::WaitForSynchronizationObject2 { .. } => "WaitForSynchronizationObject2",
            Call::SignalSynchronizationObject2 { .. } => "SignalSynchronizationObject2",
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
        // seed: C22
        let (device, context, event) = (RawHandle(1), RawHandle(2), RawHandle::NONE);
        let (points, flags) = (Vec::new(), SignalFlags::empty());
        let kind = SyncObjectKind::MonitoredFence { initial_value: 0, engine_affinity: 0 };
        let request = SyncObjectRequest { kind, flags: Default::default() };
        let calls = [
            Call::CreateSynchronizationObject2 { device, request },
            Call::WaitForSynchronizationObjectFromCpu {
                device,
                points: Vec::new(),
                async_event: event,
                flags: WaitFlags::empty(),
            },
            Call::SignalSynchronizationObjectFromCpu { device, points: Vec::new(), flags },
            Call::WaitForSynchronizationObjectFromGpu { context, points: Vec::new() },
            Call::SignalSynchronizationObjectFromGpu { context, points: Vec::new() },
            Call::SignalSynchronizationObjectFromGpu2 { contexts: Vec::new(), points, event, flags },
            Call::WaitForSynchronizationObject2 { context, objects: Vec::new(), fence_value: 0 },
        ];
        for call in calls {
            // The variant's name is the function's.
            let variant = format!("{call:?}");
            assert_eq!(variant.split_whitespace().next(), Some(call.name()));
        }
    }
}
