//! Which calls ask for something of other processes, and which make objects.

use super::{
    AdapterCall, AllocationCall, Call, DeviceCall, KeyedMutexCall, PacketCall, QueueCall, SectionCall, ShareCall,
    StatisticsCall, SyncCall,
};

impl Call {
    /// Whether the call makes objects that stay, and that quotas count.
    pub const fn makes_objects(&self) -> bool {
        match self {
            Call::Device(call) => {
                matches!(call, DeviceCall::CreateDevice { .. } | DeviceCall::CreatePagingQueue { .. })
            }
            Call::Allocation(call) => matches!(call, AllocationCall::CreateAllocation { .. }),
            Call::Packet(call) => {
                matches!(call, PacketCall::CreateContext { .. } | PacketCall::CreateContextVirtual { .. })
            }
            Call::Section(call) => matches!(call, SectionCall::Create { .. }),
            Call::Sync(call) => {
                matches!(call, SyncCall::CreateNativeFence { .. } | SyncCall::CreateSynchronizationObject2 { .. })
            }
            Call::KeyedMutex(call) => matches!(call, KeyedMutexCall::Create { .. }),
            Call::Queue(call) => matches!(
                call,
                QueueCall::CreateHwContext { .. } | QueueCall::CreateHwQueue { .. } | QueueCall::CreateDoorbell { .. }
            ),
            _ => false,
        }
    }

    /// Whether the call asks for something that other processes may have made and that goes when they end: by a global handle, an NT handle, a
    /// name or the number of a process. A host that learns of the end of a process or of a descriptor by looking looks before such a call.
    pub const fn reaches_others(&self) -> bool {
        match self {
            Call::Share(call) => match call {
                // A name that a process had is free when the process has gone.
                ShareCall::ShareObjects { name, .. } => name.is_some(),
                ShareCall::OpenNtHandleFromName { .. }
                | ShareCall::GetSharedResourceAdapterLuid { .. }
                | ShareCall::CheckSharedResourceAccess { .. }
                | ShareCall::TakeNtHandle { .. } => true,
                ShareCall::CloseNtHandle { .. } => false,
            },
            Call::Allocation(call) => {
                matches!(call, AllocationCall::OpenResource { .. } | AllocationCall::QueryResourceInfo { .. })
            }
            Call::Sync(call) => matches!(
                call,
                SyncCall::OpenNativeFenceFromNtHandle { .. }
                    | SyncCall::OpenSynchronizationObject { .. }
                    | SyncCall::OpenSyncObjectFromNtHandle { .. }
                    | SyncCall::OpenSyncObjectFromNtHandle2 { .. }
            ),
            Call::KeyedMutex(call) => {
                matches!(call, KeyedMutexCall::Open { .. } | KeyedMutexCall::OpenFromNtHandle { .. })
            }
            Call::Statistics(call) => !matches!(call, StatisticsCall::QueryClockCalibration { .. }),
            Call::Adapter(call) => matches!(call, AdapterCall::QueryVideoMemoryInfo { process, .. } if *process != 0),
            Call::Device(_)
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
            | Call::Escape(_) => false,
        }
    }
}
