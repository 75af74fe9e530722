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
        D3DDDI_SYNCHRONIZATION_MUTEX = 1: "a mutex between contexts",
        D3DDDI_SEMAPHORE = 2: "a semaphore between contexts",
        D3DDDI_FENCE = 3: "a fence of the old model, whose value no program reads",
        D3DDDI_CPU_NOTIFICATION = 4: "an event that the GPU's work sets",
        D3DDDI_MONITORED_FENCE = 5: "a fence whose value CPU and GPU read",
        D3DDDI_PERIODIC_MONITORED_FENCE = 6: "a fence that a display's vertical blanks count up",
        D3DDDI_NATIVE_FENCE = 7: "a fence that GPUs signal and wait for by themselves",
    }

    // spec: sync §2.3
    flags D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS { UINT;
        0 1 Shared = "flag: others can open the object; a fence with a word in memory also needs NtSecuritySharing",
        1 1 NtSecuritySharing = "flag: shared by NT handle (D3DKMTShareObjects); needs Shared",
        2 1 CrossAdapter = "flag: devices of other adapters can open the fence",
        3 1 TopOfPipeline = "flag: a signal takes effect when its commands are fetched, not when they are done",
        4 1 NoSignal = "flag: this device does not signal the fence; excludes NoWait",
        5 1 NoWait = "flag: this device does not wait for the fence; excludes NoSignal",
        6 1 NoSignalMaxValueOnTdr = "flag: a reset does not bring the fence to its greatest value",
        7 1 NoGPUAccess = "flag: the fence has no GPU address; of a monitored fence",
        8 1 SignalByKmd = "flag: the kernel-mode driver signals the object; of a CPU notification",
        10 1 UnwaitCpuWaitersOnlyOnDestroy = "flag: threads that wait go on only when the last process destroys the fence",
    }

    structure D3DDDI_SYNCHRONIZATION_MUTEX_ARM { 4;
        0 InitialState: BOOL = "in: TRUE: the mutex is owned from the start",
    }

    structure D3DDDI_SEMAPHORE_ARM { 8;
        0 MaxCount: UINT = "in: the greatest count",
        4 InitialCount: UINT = "in: the count at the start",
    }

    structure D3DDDI_FENCE_ARM { 8;
        0 FenceValue: UINT64 = "in: the value: at the start, to wait for, or to signal",
    }

    structure D3DDDI_CPU_NOTIFICATION_ARM { 8;
        0 Event: HANDLE = "in: an event, which a signal of the object sets",
    }

    structure D3DDDI_MONITORED_FENCE_ARM { 32;
        0 InitialFenceValue: UINT64 = "in: the value at the start",
        8 FenceValueCPUVirtualAddress: *mut VOID = "out: the value, 64 bits, for reading only",
        16 FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS = "out: GPU address of the value",
        24 EngineAffinity: UINT = "in: bit 0: the fence has a GPU address; 0: likewise",
        28 Padding: UINT = "in: 0",
    }

    structure D3DDDI_PERIODIC_MONITORED_FENCE_ARM { 40;
        0 hAdapter: D3DKMT_HANDLE = "unread: the adapter is the device's",
        4 VidPnTargetId: D3DDDI_VIDEO_PRESENT_TARGET_ID = "in: the display at whose vertical blanks the value rises",
        8 Time: UINT64 = "in: how long before a blank, in units of 100 ns",
        16 FenceValueCPUVirtualAddress: *mut VOID = "out: the value, 64 bits, for reading only",
        24 FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS = "out: GPU address of the value",
        32 EngineAffinity: UINT = "in: bit 0: the fence has a GPU address; 0: likewise",
        36 Padding: UINT = "in: 0",
    }

    structure D3DDDI_SYNCHRONIZATIONOBJECT_RESERVED { 64;
        0 Reserved: [UINT64; 8] = "in: no use of its own: it makes the union 64 bytes",
    }

    alternative D3DDDI_SYNCHRONIZATIONOBJECTINFO2_ARM { 64;
        SynchronizationMutex: D3DDDI_SYNCHRONIZATION_MUTEX_ARM = "in: of D3DDDI_SYNCHRONIZATION_MUTEX",
        Semaphore: D3DDDI_SEMAPHORE_ARM = "in: of D3DDDI_SEMAPHORE",
        Fence: D3DDDI_FENCE_ARM = "in: of D3DDDI_FENCE",
        CPUNotification: D3DDDI_CPU_NOTIFICATION_ARM = "in: of D3DDDI_CPU_NOTIFICATION",
        MonitoredFence: D3DDDI_MONITORED_FENCE_ARM = "in, out: of D3DDDI_MONITORED_FENCE",
        PeriodicMonitoredFence: D3DDDI_PERIODIC_MONITORED_FENCE_ARM = "in, out: of D3DDDI_PERIODIC_MONITORED_FENCE",
        Reserved: D3DDDI_SYNCHRONIZATIONOBJECT_RESERVED = "in: no use of its own: it makes the union 64 bytes",
    }

    // spec: sync §2.2
    structure D3DDDI_SYNCHRONIZATIONOBJECTINFO2 { 80;
        0 Type: D3DDDI_SYNCHRONIZATIONOBJECT_TYPE = "in: the kind of object, which is also the union's arm",
        4 Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS = "in: bits of D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS",
        8 Anonymous: D3DDDI_SYNCHRONIZATIONOBJECTINFO2_ARM,
        72 SharedHandle: D3DKMT_HANDLE = "out: with Shared and without NtSecuritySharing: the handle that others open; else 0",
    }

    structure D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { 96;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        8 Info: D3DDDI_SYNCHRONIZATIONOBJECTINFO2 = "in, out: the object",
        88 hSyncObject: D3DKMT_HANDLE = "out: the object in this device",
    }

    structure D3DDDI_SYNCHRONIZATIONOBJECTINFO_RESERVED { 64;
        0 Reserved: [UINT; 16] = "in: no use of its own: it makes the union 64 bytes",
    }

    alternative D3DDDI_SYNCHRONIZATIONOBJECTINFO_ARM { 64;
        SynchronizationMutex: D3DDDI_SYNCHRONIZATION_MUTEX_ARM = "in: of D3DDDI_SYNCHRONIZATION_MUTEX",
        Semaphore: D3DDDI_SEMAPHORE_ARM = "in: of D3DDDI_SEMAPHORE",
        Reserved: D3DDDI_SYNCHRONIZATIONOBJECTINFO_RESERVED = "in: no use of its own: it makes the union 64 bytes",
    }

    structure D3DDDI_SYNCHRONIZATIONOBJECTINFO { 68;
        0 Type: D3DDDI_SYNCHRONIZATIONOBJECT_TYPE = "in: D3DDDI_SYNCHRONIZATION_MUTEX or D3DDDI_SEMAPHORE",
        4 Anonymous: D3DDDI_SYNCHRONIZATIONOBJECTINFO_ARM,
    }

    structure D3DKMT_CREATESYNCHRONIZATIONOBJECT { 76;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 Info: D3DDDI_SYNCHRONIZATIONOBJECTINFO = "in: the object",
        72 hSyncObject: D3DKMT_HANDLE = "out: the object in this device",
    }

    structure D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { 4;
        0 hSyncObject: D3DKMT_HANDLE = "in: the object; threads that wait for it go on",
    }

    structure D3DKMT_OPENSYNCHRONIZATIONOBJECT { 72;
        0 hSharedHandle: D3DKMT_HANDLE = "in: the handle that SharedHandle of the creation gave",
        4 hSyncObject: D3DKMT_HANDLE = "out: the object in this process",
        8 Reserved: [UINT64; 8] = "in: 0",
    }

    structure D3DKMT_OPENSYNCOBJECTFROMNTHANDLE { 16;
        0 hNtHandle: HANDLE = "in: an NT handle of the object",
        8 hSyncObject: D3DKMT_HANDLE = "out: the object in this process",
    }

    structure D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_MONITOREDFENCE { 24;
        0 FenceValueCPUVirtualAddress: *mut VOID = "out: the value, 64 bits, for reading only",
        8 FenceValueGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS = "out: GPU address of the value",
        16 EngineAffinity: UINT = "in: bit 0: the fence has a GPU address; 0: likewise",
    }

    alternative D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_ARM { 64;
        MonitoredFence: D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_MONITOREDFENCE = "in, out: of fences with a word in memory",
        Reserved: [UINT64; 8] = "in: no use of its own: it makes the union 64 bytes",
    }

    structure D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 { 88;
        0 hNtHandle: HANDLE = "in: an NT handle of the object",
        8 hDevice: D3DKMT_HANDLE = "in: the device that opens the object",
        12 Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS = "in: bits of D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS about this device",
        16 hSyncObject: D3DKMT_HANDLE = "out: the object in this device",
        24 Anonymous: D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_ARM,
    }

    // spec: sync §2.4
    flags D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS { UINT;
        0 1 WaitAny = "flag: the wait ends with the first fence that has its value; else with the last",
    }

    flags D3DDDICB_SIGNALFLAGS { UINT;
        0 1 SignalAtSubmission = "flag: the signal takes effect when the work before it is submitted, not when it is done",
        1 1 EnqueueCpuEvent = "flag: no objects: CpuEventHandle is set",
        2 1 AllowFenceRewind = "flag: the value may be lower than the present one",
        31 1 DXGK_SIGNAL_FLAG_INTERNAL0 = "flag: refused: not for user mode",
    }

    structure D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU { 40;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 ObjectCount: UINT = "in: entries of both arrays",
        8 ObjectHandleArray: *const D3DKMT_HANDLE = "in: an array: the fences",
        16 FenceValueArray: *const UINT64 = "in: an array: the value to wait for of each",
        24 hAsyncEvent: HANDLE = "in, optional: an event that is set when the wait ends; NULL: the calling thread waits, without a limit",
        32 Flags: D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS = "in: bits of D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS",
    }

    alternative D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU_VALUE { 64;
        MonitoredFenceValueArray: *const UINT64 = "in: of fences with a word in memory: an array of one value each",
        FenceValue: UINT64 = "in: of other objects: the one value of all",
        Reserved: [UINT64; 8] = "in: no use of its own: it makes the union 64 bytes",
    }

    structure D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU { 80;
        0 hContext: D3DKMT_HANDLE = "in: the packet context that waits",
        4 ObjectCount: UINT = "in: entries of ObjectHandleArray",
        8 ObjectHandleArray: *const D3DKMT_HANDLE = "in: an array: the objects",
        16 Anonymous: D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU_VALUE,
    }

    structure D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU { 32;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 ObjectCount: UINT = "in: entries of both arrays",
        8 ObjectHandleArray: *const D3DKMT_HANDLE = "in: an array: the fences",
        16 FenceValueArray: *const UINT64 = "in: an array: the new value of each",
        24 Flags: D3DDDICB_SIGNALFLAGS = "in: 0 or AllowFenceRewind",
    }

    alternative D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU_VALUE { 64;
        MonitoredFenceValueArray: *const UINT64 = "in: of fences with a word in memory: an array of one value each",
        Reserved: [UINT64; 8] = "in: of other objects: the one value of all, in the first entry",
    }

    structure D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU { 80;
        0 hContext: D3DKMT_HANDLE = "in: the packet context behind whose work the objects are signalled",
        4 ObjectCount: UINT = "in: entries of ObjectHandleArray",
        8 ObjectHandleArray: *const D3DKMT_HANDLE = "in: an array: the objects",
        16 Anonymous: D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU_VALUE,
    }

    alternative D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2_VALUE { 64;
        FenceValue: UINT64 = "in: of other objects: the one value of all",
        CpuEventHandle: HANDLE = "in: with EnqueueCpuEvent: the event",
        MonitoredFenceValueArray: *const UINT64 = "in: of fences with a word in memory: an array of one value each",
        Reserved: [UINT64; 8] = "in: no use of its own: it makes the union 64 bytes",
    }

    structure D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 { 96;
        0 ObjectCount: UINT = "in: entries of ObjectHandleArray; 0 with EnqueueCpuEvent",
        8 ObjectHandleArray: *const D3DKMT_HANDLE = "in: an array: the objects",
        16 Flags: D3DDDICB_SIGNALFLAGS = "in: bits of D3DDDICB_SIGNALFLAGS",
        20 BroadcastContextCount: ULONG = "in: entries of BroadcastContextArray",
        24 BroadcastContextArray: *const D3DKMT_HANDLE = "in: an array: the packet contexts, all of which must come to the signal",
        32 Anonymous: D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2_VALUE,
    }

    structure D3DKMT_WAITFORSYNCHRONIZATIONOBJECT { 136;
        0 hContext: D3DKMT_HANDLE = "in: the packet context that waits",
        4 ObjectCount: UINT = "in: entries of ObjectHandleArray that count",
        8 ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_WAITED_ON] = "in: mutexes and semaphores",
    }

    structure D3DKMT_SIGNALSYNCHRONIZATIONOBJECT { 140;
        0 hContext: D3DKMT_HANDLE = "in: the packet context behind whose work the objects are signalled",
        4 ObjectCount: UINT = "in: entries of ObjectHandleArray that count",
        8 ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_SIGNALED] = "in: mutexes and semaphores",
        136 Flags: D3DDDICB_SIGNALFLAGS = "in: bits of D3DDDICB_SIGNALFLAGS",
    }

    alternative D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_VALUE { 64;
        Fence: D3DDDI_FENCE_ARM = "in: the value of packet fences",
        Reserved: [UINT64; 8] = "in: no use of its own: it makes the union 64 bytes",
    }

    structure D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 { 200;
        0 hContext: D3DKMT_HANDLE = "in: the packet context that waits",
        4 ObjectCount: UINT = "in: entries of ObjectHandleArray that count",
        8 ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_WAITED_ON] = "in: objects without a word in memory",
        136 Anonymous: D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2_VALUE,
    }

    alternative D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_VALUE { 64;
        Fence: D3DDDI_FENCE_ARM = "in: the value of packet fences",
        CpuEventHandle: HANDLE = "in: with EnqueueCpuEvent: the event",
        Reserved: [UINT64; 8] = "in: no use of its own: it makes the union 64 bytes",
    }

    structure D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 { 464;
        0 hContext: D3DKMT_HANDLE = "in: the packet context behind whose work the objects are signalled",
        4 ObjectCount: UINT = "in: entries of ObjectHandleArray that count; 0 with EnqueueCpuEvent",
        8 ObjectHandleArray: [D3DKMT_HANDLE; D3DDDI_MAX_OBJECT_SIGNALED] = "in: objects without a word in memory",
        136 Flags: D3DDDICB_SIGNALFLAGS = "in: bits of D3DDDICB_SIGNALFLAGS",
        140 BroadcastContextCount: ULONG = "in: entries of BroadcastContext that count",
        144 BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT] = "in: further packet contexts, all of which must come to the signal",
        400 Anonymous: D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2_VALUE,
    }

    /// An event is set when the fence has the value: a descriptor in the flavour of the Linux subsystem.
    structure D3DKMT_CREATESYNCFILE { 24;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hMonitoredFence: D3DKMT_HANDLE = "in: the fence",
        8 FenceValue: UINT64 = "in: the value at which the event is set",
        16 hSyncFile: UINT64 = "out: a new event, or a descriptor in the flavour of the Linux subsystem",
    }
}
