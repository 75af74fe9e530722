//! Synchronization objects: creation, opening, waits and signals (sync §2.2, §2.3, §2.4).

use crate::layout::layout;
use crate::number::*;

// spec: sync §2.2
pub const D3DDDI_SYNC_OBJECT_WAIT: DWORD = 0x1;
pub const D3DDDI_SYNC_OBJECT_SIGNAL: DWORD = 0x2;
pub const D3DDDI_SYNC_OBJECT_ALL_ACCESS: DWORD = 0x1f_0003;

layout! {
    // spec: sync §1.1
    number D3DDDI_SYNCHRONIZATIONOBJECT_TYPE { INT;
        D3DDDI_SYNCHRONIZATION_MUTEX = 1,
        D3DDDI_SEMAPHORE = 2,
        D3DDDI_FENCE = 3,
        D3DDDI_CPU_NOTIFICATION = 4,
        D3DDDI_MONITORED_FENCE = 5,
        D3DDDI_PERIODIC_MONITORED_FENCE = 6,
        D3DDDI_NATIVE_FENCE = 7,
    }

    // spec: sync §2.3
    flags D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS { UINT;
        0 1 Shared,
        1 1 NtSecuritySharing,
        2 1 CrossAdapter,
        3 1 TopOfPipeline,
        4 1 NoSignal,
        5 1 NoWait,
        6 1 NoSignalMaxValueOnTdr,
        7 1 NoGPUAccess,
        8 1 SignalByKmd,
        10 1 UnwaitCpuWaitersOnlyOnDestroy,
    }

    structure D3DDDI_SYNCHRONIZATION_MUTEX_ARM { 4;
        0 InitialState: BOOL,
    }

    structure D3DDDI_SEMAPHORE_ARM { 8;
        0 MaxCount: UINT,
        4 InitialCount: UINT,
    }

    structure D3DDDI_FENCE_ARM { 8;
        0 FenceValue: UINT64,
    }

    structure D3DDDI_CPU_NOTIFICATION_ARM { 8;
        0 Event: HANDLE,
    }

    structure D3DDDI_MONITORED_FENCE_ARM { 32;
        0 InitialFenceValue: UINT64,
        8 FenceValueCPUVirtualAddress: *mut VOID,
        16 FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
        24 EngineAffinity: UINT,
        28 Padding: UINT,
    }

    structure D3DDDI_PERIODIC_MONITORED_FENCE_ARM { 40;
        0 hAdapter: D3DKMT_HANDLE,
        4 VidPnTargetId: D3DDDI_VIDEO_PRESENT_TARGET_ID,
        8 Time: UINT64,
        16 FenceValueCPUVirtualAddress: *mut VOID,
        24 FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
        32 EngineAffinity: UINT,
        36 Padding: UINT,
    }

    structure D3DDDI_SYNCHRONIZATIONOBJECT_RESERVED { 64;
        0 Reserved: [UINT64; 8],
    }

    alternative D3DDDI_SYNCHRONIZATIONOBJECTINFO2_ARM { 64;
        SynchronizationMutex: D3DDDI_SYNCHRONIZATION_MUTEX_ARM,
        Semaphore: D3DDDI_SEMAPHORE_ARM,
        Fence: D3DDDI_FENCE_ARM,
        CPUNotification: D3DDDI_CPU_NOTIFICATION_ARM,
        MonitoredFence: D3DDDI_MONITORED_FENCE_ARM,
        PeriodicMonitoredFence: D3DDDI_PERIODIC_MONITORED_FENCE_ARM,
        Reserved: D3DDDI_SYNCHRONIZATIONOBJECT_RESERVED,
    }

    // spec: sync §2.2
    structure D3DDDI_SYNCHRONIZATIONOBJECTINFO2 { 80;
        0 Type: D3DDDI_SYNCHRONIZATIONOBJECT_TYPE,
        4 Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
        8 Anonymous: D3DDDI_SYNCHRONIZATIONOBJECTINFO2_ARM,
        72 SharedHandle: D3DKMT_HANDLE,
    }

    structure D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { 96;
        0 hDevice: D3DKMT_HANDLE,
        8 Info: D3DDDI_SYNCHRONIZATIONOBJECTINFO2,
        88 hSyncObject: D3DKMT_HANDLE,
    }

    structure D3DDDI_SYNCHRONIZATIONOBJECTINFO_RESERVED { 64;
        0 Reserved: [UINT; 16],
    }

    alternative D3DDDI_SYNCHRONIZATIONOBJECTINFO_ARM { 64;
        SynchronizationMutex: D3DDDI_SYNCHRONIZATION_MUTEX_ARM,
        Semaphore: D3DDDI_SEMAPHORE_ARM,
        Reserved: D3DDDI_SYNCHRONIZATIONOBJECTINFO_RESERVED,
    }

    structure D3DDDI_SYNCHRONIZATIONOBJECTINFO { 68;
        0 Type: D3DDDI_SYNCHRONIZATIONOBJECT_TYPE,
        4 Anonymous: D3DDDI_SYNCHRONIZATIONOBJECTINFO_ARM,
    }

    structure D3DKMT_CREATESYNCHRONIZATIONOBJECT { 76;
        0 hDevice: D3DKMT_HANDLE,
        4 Info: D3DDDI_SYNCHRONIZATIONOBJECTINFO,
        72 hSyncObject: D3DKMT_HANDLE,
    }

    structure D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { 4;
        0 hSyncObject: D3DKMT_HANDLE,
    }

    structure D3DKMT_OPENSYNCHRONIZATIONOBJECT { 72;
        0 hSharedHandle: D3DKMT_HANDLE,
        4 hSyncObject: D3DKMT_HANDLE,
        8 Reserved: [UINT64; 8],
    }

    structure D3DKMT_OPENSYNCOBJECTFROMNTHANDLE { 16;
        0 hNtHandle: HANDLE,
        8 hSyncObject: D3DKMT_HANDLE,
    }

    structure D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_MONITOREDFENCE { 24;
        0 FenceValueCPUVirtualAddress: *mut VOID,
        8 FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
        16 EngineAffinity: UINT,
    }

    alternative D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_ARM { 64;
        MonitoredFence: D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_MONITOREDFENCE,
        Reserved: [UINT64; 8],
    }

    structure D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 { 88;
        0 hNtHandle: HANDLE,
        8 hDevice: D3DKMT_HANDLE,
        12 Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
        16 hSyncObject: D3DKMT_HANDLE,
        24 Anonymous: D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_ARM,
    }

    // spec: sync §2.4
    flags D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS { UINT;
        0 1 WaitAny,
    }

    flags D3DDDICB_SIGNALFLAGS { UINT;
        0 1 SignalAtSubmission,
        1 1 EnqueueCpuEvent,
        2 1 AllowFenceRewind,
        31 1 DXGK_SIGNAL_FLAG_INTERNAL0,
    }

    structure D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU { 40;
        0 hDevice: D3DKMT_HANDLE,
        4 ObjectCount: UINT,
        8 ObjectHandleArray: *const D3DKMT_HANDLE,
        16 FenceValueArray: *const UINT64,
        24 hAsyncEvent: HANDLE,
        32 Flags: D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS,
    }

    alternative D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU_VALUE { 64;
        MonitoredFenceValueArray: *const UINT64,
        FenceValue: UINT64,
        Reserved: [UINT64; 8],
    }

    structure D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU { 80;
        0 hContext: D3DKMT_HANDLE,
        4 ObjectCount: UINT,
        8 ObjectHandleArray: *const D3DKMT_HANDLE,
        16 Anonymous: D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU_VALUE,
    }

    structure D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU { 32;
        0 hDevice: D3DKMT_HANDLE,
        4 ObjectCount: UINT,
        8 ObjectHandleArray: *const D3DKMT_HANDLE,
        16 FenceValueArray: *const UINT64,
        24 Flags: D3DDDICB_SIGNALFLAGS,
    }

    alternative D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU_VALUE { 64;
        MonitoredFenceValueArray: *const UINT64,
        Reserved: [UINT64; 8],
    }

    structure D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU { 80;
        0 hContext: D3DKMT_HANDLE,
        4 ObjectCount: UINT,
        8 ObjectHandleArray: *const D3DKMT_HANDLE,
        16 Anonymous: D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU_VALUE,
    }

    alternative D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2_VALUE { 64;
        FenceValue: UINT64,
        CpuEventHandle: HANDLE,
        MonitoredFenceValueArray: *const UINT64,
        Reserved: [UINT64; 8],
    }

    structure D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 { 96;
        0 ObjectCount: UINT,
        8 ObjectHandleArray: *const D3DKMT_HANDLE,
        16 Flags: D3DDDICB_SIGNALFLAGS,
        20 BroadcastContextCount: ULONG,
        24 BroadcastContextArray: *const D3DKMT_HANDLE,
        32 Anonymous: D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2_VALUE,
    }

    structure D3DKMT_WAITFORSYNCHRONIZATIONOBJECT { 136;
        0 hContext: D3DKMT_HANDLE,
        4 ObjectCount: UINT,
        8 ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_WAITED_ON],
    }

    structure D3DKMT_SIGNALSYNCHRONIZATIONOBJECT { 140;
        0 hContext: D3DKMT_HANDLE,
        4 ObjectCount: UINT,
        8 ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_SIGNALED],
        136 Flags: D3DDDICB_SIGNALFLAGS,
    }

    alternative D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_VALUE { 64;
        Fence: D3DDDI_FENCE_ARM,
        Reserved: [UINT64; 8],
    }

    structure D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 { 200;
        0 hContext: D3DKMT_HANDLE,
        4 ObjectCount: UINT,
        8 ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_WAITED_ON],
        136 Anonymous: D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_VALUE,
    }

    alternative D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_VALUE { 64;
        Fence: D3DDDI_FENCE_ARM,
        CpuEventHandle: HANDLE,
        Reserved: [UINT64; 8],
    }

    structure D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 { 464;
        0 hContext: D3DKMT_HANDLE,
        4 ObjectCount: UINT,
        8 ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_SIGNALED],
        136 Flags: D3DDDICB_SIGNALFLAGS,
        140 BroadcastContextCount: ULONG,
        144 BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT],
        400 Anonymous: D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_VALUE,
    }

    /// An event is set when the fence has the value: a descriptor in the flavour of the Linux subsystem.
    structure D3DKMT_CREATESYNCFILE { 24;
        0 hDevice: D3DKMT_HANDLE,
        4 hMonitoredFence: D3DKMT_HANDLE,
        8 FenceValue: UINT64,
        16 hSyncFile: UINT64,
    }
}
