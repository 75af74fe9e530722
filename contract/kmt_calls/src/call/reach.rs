//! Whose objects a call is about.

use super::{
    AdapterCall, AllocationCall, Call, DeviceCall, EventCall, KeyedMutexCall, NotificationCall, PacketCall, QueueCall,
    SectionCall, ShareCall, StatisticsCall, SyncCall,
};

/// The objects that a call is about, as far as a host that learns by looking must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Objects that the process has.
    Own,
    /// New objects, which need handles or what an NT handle keeps: a quota counts closed descriptors of NT handles until the host has looked.
    New,
    /// Objects that other processes may have made, and that go when these processes end. The call has a global handle, an NT handle, a name or
    /// the number of a process. A host that learns of the end of a process or of a descriptor by looking looks before such a call.
    Others,
}

impl Call {
    /// The objects that the call is about.
    pub const fn reach(&self) -> Reach {
        match self {
            Call::Share(call) => match call {
                // A name that a process had is free when the process has gone.
                ShareCall::ShareObjects { name: Some(_), .. }
                | ShareCall::OpenNtHandleFromName { .. }
                | ShareCall::GetSharedResourceAdapterLuid { .. }
                | ShareCall::CheckSharedResourceAccess { .. }
                | ShareCall::TakeNtHandle { .. } => Reach::Others,
                ShareCall::ShareObjects { name: None, .. } => Reach::New,
                ShareCall::CloseNtHandle { .. } => Reach::Own,
            },
            Call::Allocation(call) => match call {
                AllocationCall::OpenResource { .. } | AllocationCall::QueryResourceInfo { .. } => Reach::Others,
                AllocationCall::CreateAllocation { .. } => Reach::New,
                AllocationCall::DestroyAllocation { .. } | AllocationCall::DescribeAllocations { .. } => Reach::Own,
            },
            Call::Sync(call) => match call {
                SyncCall::OpenNativeFenceFromNtHandle { .. }
                | SyncCall::OpenSynchronizationObject { .. }
                | SyncCall::OpenSyncObjectFromNtHandle { .. }
                | SyncCall::OpenSyncObjectFromNtHandle2 { .. } => Reach::Others,
                SyncCall::CreateNativeFence { .. } | SyncCall::CreateSynchronizationObject2 { .. } => Reach::New,
                _ => Reach::Own,
            },
            Call::KeyedMutex(call) => match call {
                KeyedMutexCall::Open { .. } | KeyedMutexCall::OpenFromNtHandle { .. } => Reach::Others,
                KeyedMutexCall::Create { .. } => Reach::New,
                _ => Reach::Own,
            },
            Call::Statistics(StatisticsCall::QueryClockCalibration { .. }) => Reach::Own,
            Call::Statistics(_) => Reach::Others,
            Call::Adapter(AdapterCall::QueryVideoMemoryInfo { process, .. }) if *process != 0 => Reach::Others,
            Call::Device(DeviceCall::CreateDevice { .. } | DeviceCall::CreatePagingQueue { .. })
            | Call::Adapter(AdapterCall::OpenAdapterFromLuid { .. })
            | Call::Section(SectionCall::Create { .. } | SectionCall::CreateOver { .. })
            | Call::Notification(
                NotificationCall::RegisterTrim { .. } | NotificationCall::RegisterBudgetChange { .. },
            )
            | Call::Event(EventCall::Create { .. } | EventCall::CreateTold)
            | Call::Packet(PacketCall::CreateContext { .. } | PacketCall::CreateContextVirtual { .. })
            | Call::Queue(
                QueueCall::CreateHwContext { .. } | QueueCall::CreateHwQueue { .. } | QueueCall::CreateDoorbell { .. },
            ) => Reach::New,
            Call::Adapter(_)
            | Call::Device(_)
            | Call::Property(_)
            | Call::GpuVa(_)
            | Call::Residency(_)
            | Call::Lock(_)
            | Call::Section(_)
            | Call::Notification(_)
            | Call::Event(_)
            | Call::Queue(_)
            | Call::Packet(_)
            | Call::Priority(_)
            | Call::Display(_)
            | Call::Escape(_) => Reach::Own,
        }
    }
}
