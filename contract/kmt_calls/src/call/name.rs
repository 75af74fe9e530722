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
            Call::DestroySynchronizationObject { .. } => "DestroySynchronizationObject",
            Call::WaitForSynchronizationObjectFromCpu { .. } => "WaitForSynchronizationObjectFromCpu",
            Call::SignalSynchronizationObjectFromCpu { .. } => "SignalSynchronizationObjectFromCpu",
            Call::CreateContext { .. } => "CreateContext",
            Call::CreateContextVirtual { .. } => "CreateContextVirtual",
            Call::DestroyContext { .. } => "DestroyContext",
            Call::Render { .. } => "Render",
            Call::Present { .. } => "Present",
            Call::SubmitCommand { .. } => "SubmitCommand",
            Call::WaitForSynchronizationObjectFromGpu { .. } => "WaitForSynchronizationObjectFromGpu",
            Call::SignalSynchronizationObjectFromGpu { .. } => "SignalSynchronizationObjectFromGpu",
        }
    }
}
