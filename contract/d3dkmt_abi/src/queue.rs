//! Hardware contexts, hardware queues and doorbells (sync §2.4, §2.5, §2.9).

use crate::layout::layout;
use crate::number::*;
use crate::sync_object::D3DDDICB_SIGNALFLAGS;

layout! {
    flags D3DDDI_CREATEHWCONTEXTFLAGS { UINT;
        0 32 Reserved,
    }

    // spec: sync §2.5
    structure D3DKMT_CREATEHWCONTEXT { 40;
        0 hDevice: D3DKMT_HANDLE,
        4 NodeOrdinal: UINT,
        8 EngineAffinity: UINT,
        12 Flags: D3DDDI_CREATEHWCONTEXTFLAGS,
        16 PrivateDriverDataSize: UINT,
        24 pPrivateDriverData: *mut VOID,
        32 hHwContext: D3DKMT_HANDLE,
    }

    structure D3DKMT_DESTROYHWCONTEXT { 4;
        0 hHwContext: D3DKMT_HANDLE,
    }

    flags D3DDDI_CREATEHWQUEUEFLAGS { UINT;
        0 1 DisableGpuTimeout,
        1 1 NoBroadcastSignal,
        2 1 NoBroadcastWait,
        3 1 NoKmdAccess,
        4 1 UserModeSubmission,
        5 1 NativeProgressFence,
        6 1 TestQueue,
    }

    structure D3DKMT_CREATEHWQUEUE { 48;
        0 hHwContext: D3DKMT_HANDLE,
        4 Flags: D3DDDI_CREATEHWQUEUEFLAGS,
        8 PrivateDriverDataSize: UINT,
        16 pPrivateDriverData: *mut VOID,
        24 hHwQueue: D3DKMT_HANDLE,
        28 hHwQueueProgressFence: D3DKMT_HANDLE,
        32 HwQueueProgressFenceCPUVirtualAddress: *mut VOID,
        40 HwQueueProgressFenceGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    }

    structure D3DKMT_DESTROYHWQUEUE { 4;
        0 hHwQueue: D3DKMT_HANDLE,
    }

    structure D3DKMT_SUBMITCOMMANDTOHWQUEUE { 56;
        0 hHwQueue: D3DKMT_HANDLE,
        8 HwQueueProgressFenceId: UINT64,
        16 CommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
        24 CommandLength: UINT,
        28 PrivateDriverDataSize: UINT,
        32 pPrivateDriverData: *mut VOID,
        40 NumPrimaries: UINT,
        48 WrittenPrimaries: *const D3DKMT_HANDLE,
    }

    // spec: sync §2.4
    structure D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE { 24;
        0 hHwQueue: D3DKMT_HANDLE,
        4 ObjectCount: UINT,
        8 ObjectHandleArray: *const D3DKMT_HANDLE,
        16 FenceValueArray: *const UINT64,
    }

    structure D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE { 40;
        0 Flags: D3DDDICB_SIGNALFLAGS,
        4 BroadcastHwQueueCount: UINT,
        8 BroadcastHwQueueArray: *const D3DKMT_HANDLE,
        16 ObjectCount: UINT,
        24 ObjectHandleArray: *const D3DKMT_HANDLE,
        32 FenceValueArray: *const UINT64,
    }

    // spec: sync §2.9
    number D3DDDI_DOORBELLSTATUS { INT;
        D3DDDI_DOORBELLSTATUS_CONNECTED = 0,
        D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD = 1,
        D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY = 2,
        D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT = 3,
    }

    flags D3DKMT_CREATE_DOORBELL_FLAGS { UINT;
        0 1 RequireSecondaryCpuVA,
        1 1 ResizeRingBufferOperation,
    }

    structure D3DKMT_CREATE_DOORBELL { 72;
        0 hHwQueue: D3DKMT_HANDLE,
        4 hRingBuffer: D3DKMT_HANDLE,
        8 hRingBufferControl: D3DKMT_HANDLE,
        12 Flags: D3DKMT_CREATE_DOORBELL_FLAGS,
        16 PrivateDriverDataSize: UINT,
        24 PrivateDriverData: *mut VOID,
        32 DoorbellCPUVirtualAddress: *mut VOID,
        40 DoorbellSecondaryCPUVirtualAddress: *mut VOID,
        48 DoorbellStatusCPUVirtualAddress: *mut VOID,
        56 HwQueueProgressFenceLastQueuedValueCPUVirtualAddress: *mut VOID,
        64 hDoorbell: D3DKMT_HANDLE,
    }

    flags D3DKMT_CONNECT_DOORBELL_FLAGS { UINT;
        0 32 Reserved,
    }

    structure D3DKMT_CONNECT_DOORBELL { 8;
        0 hDoorbell: D3DKMT_HANDLE,
        4 Flags: D3DKMT_CONNECT_DOORBELL_FLAGS,
    }

    structure D3DKMT_DESTROY_DOORBELL { 4;
        0 hDoorbell: D3DKMT_HANDLE,
    }

    flags D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS { UINT;
        0 32 Reserved,
    }

    structure D3DKMT_NOTIFY_WORK_SUBMISSION { 8;
        0 hDoorbell: D3DKMT_HANDLE,
        4 Flags: D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS,
    }
}
