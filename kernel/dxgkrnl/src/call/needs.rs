//! What each call may need more of, and whether it gives the copy engine work: known before the call is carried out, so that a call over
//! a quota is refused before anything is made, and one that comes while too much memory moves waits.
//!
//! One row a call, and no row for the rest: a new call does not compile before it has one.

use kmt_calls::{
    AdapterCall, AllocationCall, Call, CreateAllocationFlags, DeviceCall, DisplayCall, EventCall, GpuVaCall,
    KeyedMutexCall, LockCall, NotificationCall, PacketCall, PriorityCall, PropertyCall, QueueCall, ResidencyCall,
    SectionCall, ShareCall, StatisticsCall, SyncCall,
};
use wddm_types::RawHandle;

use crate::quota::Kind;

/// What a call may need.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The resources that the call may need more of: the kernel looks up the quota of these.
    pub kinds: &'static [Kind],
    /// Handles that the call needs for what it makes. It is refused for want of them before anything is made, but where the maker takes
    /// back what it made itself.
    pub handles: usize,
    /// Synchronization objects that the call makes or opens.
    pub sync_objects: u64,
    /// Packets that the call queues at most.
    pub packets: u64,
    /// The call gives the adapter's copy engine work to do, so that it may have to wait until there is less.
    pub moves_memory: bool,
}

impl Needs {
    /// Of a call that only looks at what there is, or moves it.
    const NOTHING: Needs = Needs { kinds: &[], handles: 0, sync_objects: 0, packets: 0, moves_memory: false };
    /// Of a call that may make something, how much the kernel knows while it makes it.
    const SOMETHING: Needs =
        Needs { kinds: &[Kind::Handles, Kind::SyncObjects, Kind::CommittedBytes, Kind::MemoryFiles], ..Needs::NOTHING };

    /// Of a lock.
    const LOCK: Needs = Needs {
        kinds: &[Kind::Handles, Kind::SyncObjects, Kind::CommittedBytes, Kind::MemoryFiles, Kind::LockedBytes],
        ..Needs::NOTHING
    };

    const fn handles(handles: usize) -> Needs {
        Needs { handles, ..Needs::SOMETHING }
    }

    const fn packets(packets: u64) -> Needs {
        Needs { kinds: &[Kind::Queued], packets, ..Needs::NOTHING }
    }

    /// The call makes or opens a synchronization object.
    const fn sync_object(self) -> Needs {
        Needs { sync_objects: 1, ..self }
    }

    const fn moving(self) -> Needs {
        Needs { moves_memory: true, ..self }
    }

    /// Of a call.
    pub fn of(call: &Call) -> Needs {
        match call {
            Call::Adapter(call) => of_adapter(call),
            Call::Device(call) => of_device(call),
            Call::Allocation(call) => of_allocation(call),
            Call::Property(call) => of_property(call),
            Call::GpuVa(call) => of_gpu_va(call),
            Call::Residency(call) => of_residency(call),
            Call::Lock(call) => of_lock(call),
            Call::Share(call) => of_share(call),
            Call::Section(call) => of_section(call),
            Call::Notification(call) => of_notification(call),
            Call::Event(call) => of_event(call),
            Call::Queue(call) => of_queue(call),
            Call::Packet(call) => of_packet(call),
            Call::Priority(call) => of_priority(call),
            Call::Display(call) => of_display(call),
            Call::Sync(call) => of_sync(call),
            Call::Statistics(call) => of_statistics(call),
            Call::KeyedMutex(call) => of_keyed_mutex(call),
            Call::Escape(_) => Needs::SOMETHING,
        }
    }
}

fn of_adapter(call: &AdapterCall) -> Needs {
    match call {
        AdapterCall::OpenAdapterFromLuid { .. } => Needs::handles(1),
        AdapterCall::QueryVideoMemoryInfo { .. } => Needs::NOTHING,
        AdapterCall::EnumAdapters
        | AdapterCall::CloseAdapter { .. }
        | AdapterCall::QueryAdapterInfo { .. }
        | AdapterCall::SetStablePowerState { .. }
        | AdapterCall::IsFeatureEnabled { .. } => Needs::SOMETHING,
    }
}

fn of_device(call: &DeviceCall) -> Needs {
    match call {
        DeviceCall::CreateDevice { .. } => Needs::handles(1).moving(),
        // The queue and its fence.
        DeviceCall::CreatePagingQueue { .. } => Needs::handles(2).sync_object().moving(),
        DeviceCall::GetDeviceFault { .. } | DeviceCall::GetDeviceState { .. } | DeviceCall::WaitForIdle { .. } => {
            Needs::NOTHING
        }
        DeviceCall::DestroyDevice { .. }
        | DeviceCall::DestroyPagingQueue { .. }
        | DeviceCall::MarkDeviceAsError { .. } => Needs::SOMETHING,
    }
}

fn of_allocation(call: &AllocationCall) -> Needs {
    match call {
        AllocationCall::CreateAllocation { allocations, resource, .. } => {
            let makes_resource = resource.flags.contains(CreateAllocationFlags::CREATE_RESOURCE);
            let makes_resource = makes_resource && resource.resource == RawHandle::NONE;
            Needs::handles(allocations.len() + usize::from(makes_resource)).moving()
        }
        AllocationCall::DestroyAllocation { .. }
        | AllocationCall::DescribeAllocations { .. }
        | AllocationCall::OpenResource { .. }
        | AllocationCall::QueryResourceInfo { .. } => Needs::SOMETHING,
    }
}

fn of_property(call: &PropertyCall) -> Needs {
    match call {
        // What is locked may come to lie in video memory.
        PropertyCall::UpdateAllocationProperty { .. } => Needs::LOCK.moving(),
        PropertyCall::SetAllocationPriority { .. }
        | PropertyCall::GetAllocationPriority { .. }
        | PropertyCall::QueryAllocationResidency { .. }
        | PropertyCall::InvalidateCache { .. } => Needs::SOMETHING,
    }
}

fn of_gpu_va(call: &GpuVaCall) -> Needs {
    match call {
        GpuVaCall::MapGpuVirtualAddress { .. } => Needs::NOTHING.moving(),
        GpuVaCall::ReserveGpuVirtualAddress { .. } => Needs::SOMETHING,
        GpuVaCall::UpdateGpuVirtualAddress { .. } => Needs::NOTHING,
        GpuVaCall::FreeGpuVirtualAddress { .. } => Needs::SOMETHING.moving(),
    }
}

fn of_residency(call: &ResidencyCall) -> Needs {
    match call {
        ResidencyCall::MakeResident { .. } | ResidencyCall::Evict { .. } => Needs::NOTHING.moving(),
        ResidencyCall::OfferAllocations { .. }
        | ResidencyCall::ReclaimAllocations { .. }
        | ResidencyCall::ReclaimAllocations2 { .. } => Needs::SOMETHING.moving(),
        ResidencyCall::FlushHeapTransitions { .. } => Needs::NOTHING,
        ResidencyCall::ChangeVideoMemoryReservation { .. } => Needs::SOMETHING,
    }
}

fn of_lock(call: &LockCall) -> Needs {
    match call {
        LockCall::Lock2 { .. } => Needs::LOCK.moving(),
        LockCall::Lock { .. } => Needs::LOCK,
        LockCall::Unlock { .. } | LockCall::Unlock2 { .. } => Needs::SOMETHING,
    }
}

fn of_share(call: &ShareCall) -> Needs {
    match call {
        ShareCall::ShareObjects { .. } | ShareCall::OpenNtHandleFromName { .. } | ShareCall::TakeNtHandle { .. } => {
            Needs::handles(1)
        }
        ShareCall::GetSharedResourceAdapterLuid { .. } | ShareCall::CheckSharedResourceAccess { .. } => Needs::NOTHING,
        ShareCall::CloseNtHandle { .. } => Needs::SOMETHING,
    }
}

fn of_section(call: &SectionCall) -> Needs {
    match call {
        SectionCall::Create { .. } | SectionCall::CreateOver { .. } => Needs::handles(1),
        SectionCall::Close { .. } | SectionCall::IsInUse { .. } => Needs::SOMETHING,
    }
}

fn of_notification(call: &NotificationCall) -> Needs {
    match call {
        NotificationCall::RegisterTrim { .. } | NotificationCall::RegisterBudgetChange { .. } => Needs::handles(1),
        NotificationCall::Unregister { .. } => Needs::SOMETHING,
    }
}

fn of_event(call: &EventCall) -> Needs {
    match call {
        EventCall::Create { .. } | EventCall::CreateTold => Needs::handles(1),
        EventCall::Wait { .. } | EventCall::Set { .. } | EventCall::Reset { .. } | EventCall::Close { .. } => {
            Needs::NOTHING
        }
    }
}

fn of_queue(call: &QueueCall) -> Needs {
    match call {
        QueueCall::CreateHwContext { .. } | QueueCall::CreateDoorbell { .. } => Needs::handles(1),
        // The queue and its progress fence.
        QueueCall::CreateHwQueue { .. } => Needs::handles(2).sync_object().moving(),
        QueueCall::SubmitCommandToHwQueue { written_primaries, .. } => of_command(written_primaries),
        QueueCall::SubmitWaitForSyncObjectsToHwQueue { .. } => Needs::packets(1),
        QueueCall::SubmitSignalSyncObjectsToHwQueue { queues, .. } => Needs::packets(3 * queues.len() as u64),
        QueueCall::DestroyHwContext { .. }
        | QueueCall::DestroyHwQueue { .. }
        | QueueCall::GetNativeFenceLogDetail { .. }
        | QueueCall::ConnectDoorbell { .. }
        | QueueCall::DestroyDoorbell { .. }
        | QueueCall::NotifyWorkSubmission { .. } => Needs::SOMETHING,
    }
}

/// A command; one that writes primaries waits for them in front of it and gives them back behind it.
fn of_command(written_primaries: &[RawHandle]) -> Needs {
    Needs::packets(if written_primaries.is_empty() { 1 } else { 3 })
}

fn of_packet(call: &PacketCall) -> Needs {
    match call {
        PacketCall::CreateContext { .. } => Needs::handles(1).moving(),
        PacketCall::CreateContextVirtual { .. } => Needs::handles(1),
        PacketCall::Render { .. } | PacketCall::Present { .. } => Needs::packets(1).moving(),
        PacketCall::SubmitNull { .. } => Needs::packets(1),
        PacketCall::SubmitCommand { written_primaries, .. } => of_command(written_primaries),
        PacketCall::DestroyContext { .. } => Needs::SOMETHING,
    }
}

fn of_priority(call: &PriorityCall) -> Needs {
    match call {
        PriorityCall::SetContextSchedulingPriority { .. }
        | PriorityCall::GetContextSchedulingPriority { .. }
        | PriorityCall::SetContextInProcessSchedulingPriority { .. }
        | PriorityCall::GetContextInProcessSchedulingPriority { .. }
        | PriorityCall::SetProcessSchedulingPriorityClass { .. }
        | PriorityCall::GetProcessSchedulingPriorityClass { .. } => Needs::SOMETHING,
    }
}

fn of_display(call: &DisplayCall) -> Needs {
    match call {
        DisplayCall::Flip { .. } | DisplayCall::FlipOnHwQueue { .. } => Needs::packets(1),
        DisplayCall::SetVidPnSourceOwner { .. }
        | DisplayCall::ReleaseProcessVidPnSourceOwners
        | DisplayCall::CheckVidPnExclusiveOwnership { .. }
        | DisplayCall::GetSharedPrimaryHandle { .. }
        | DisplayCall::GetPresentState { .. }
        | DisplayCall::SetDisplayMode { .. }
        | DisplayCall::SetQueuedLimit { .. }
        | DisplayCall::GetQueuedLimit { .. }
        | DisplayCall::WaitForVerticalBlankEvent { .. } => Needs::SOMETHING,
    }
}

fn of_sync(call: &SyncCall) -> Needs {
    match call {
        SyncCall::CreateNativeFence { .. }
        | SyncCall::CreateSynchronizationObject2 { .. }
        | SyncCall::OpenNativeFenceFromNtHandle { .. }
        | SyncCall::OpenSyncObjectFromNtHandle2 { .. } => Needs::handles(1).sync_object().moving(),
        SyncCall::OpenSynchronizationObject { .. } | SyncCall::OpenSyncObjectFromNtHandle { .. } => {
            Needs::handles(1).sync_object()
        }
        SyncCall::DestroySynchronizationObject { .. } => Needs::SOMETHING,
        SyncCall::WaitForSynchronizationObjectFromCpu { .. } | SyncCall::SignalSynchronizationObjectFromCpu { .. } => {
            Needs::NOTHING
        }
        SyncCall::WaitForSynchronizationObject2 { .. } => Needs::packets(1),
        SyncCall::WaitForSynchronizationObjectFromGpu { .. } | SyncCall::SignalSynchronizationObjectFromGpu { .. } => {
            Needs::packets(2)
        }
        SyncCall::SignalSynchronizationObjectFromGpu2 { contexts, .. } => Needs::packets(2 * contexts.len() as u64),
        SyncCall::SignalSynchronizationObject2 { broadcast, .. } => Needs::packets(2 * (1 + broadcast.len() as u64)),
    }
}

fn of_statistics(call: &StatisticsCall) -> Needs {
    match call {
        StatisticsCall::OpenProcess { .. } => Needs::handles(1),
        StatisticsCall::EnumProcesses { .. }
        | StatisticsCall::QueryStatistics { .. }
        | StatisticsCall::GetProcessId { .. }
        | StatisticsCall::QueryProcessIdentity { .. }
        | StatisticsCall::QueryProcessOfferInfo { .. }
        | StatisticsCall::QueryClockCalibration { .. } => Needs::SOMETHING,
    }
}

fn of_keyed_mutex(call: &KeyedMutexCall) -> Needs {
    match call {
        KeyedMutexCall::Create { .. } | KeyedMutexCall::Open { .. } => Needs::handles(1).sync_object(),
        KeyedMutexCall::Acquire { .. } | KeyedMutexCall::Release { .. } => Needs::NOTHING,
        KeyedMutexCall::OpenFromNtHandle { .. } | KeyedMutexCall::Destroy { .. } => Needs::SOMETHING,
    }
}
