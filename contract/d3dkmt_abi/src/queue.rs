//! Hardware contexts, hardware queues and doorbells (sync §2.4, §2.5, §2.9).

use crate::layout::layout;
use crate::number::*;
use crate::sync_object::D3DDDICB_SIGNALFLAGS;

layout! {
    flags D3DDDI_CREATEHWCONTEXTFLAGS { UINT;
        0 32 Reserved = "flag: 0",
    }

    // spec: sync §2.5
    structure D3DKMT_CREATEHWCONTEXT { 40;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 NodeOrdinal: UINT = "in: the node, from 0 (SOFTGPU_NODE_...)",
        8 EngineAffinity: UINT = "in: 1 or 0: a node has one engine",
        12 Flags: D3DDDI_CREATEHWCONTEXTFLAGS = "in: 0",
        16 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData; 0: none",
        24 pPrivateDriverData: *mut VOID = "in, optional: bytes for the driver; the software GPU's has no use for them",
        32 hHwContext: D3DKMT_HANDLE = "out: the hardware context",
    }

    structure D3DKMT_DESTROYHWCONTEXT { 4;
        0 hHwContext: D3DKMT_HANDLE = "in: the hardware context",
    }

    flags D3DDDI_CREATEHWQUEUEFLAGS { UINT;
        0 1 DisableGpuTimeout = "flag: the queue is never found hung",
        1 1 NoBroadcastSignal = "flag: a signal of several queues does not wait for this one",
        2 1 NoBroadcastWait = "flag: has no effect: a wait names one queue",
        3 1 NoKmdAccess = "flag: refused: not for user mode",
        4 1 UserModeSubmission = "flag: the program feeds the queue by a ring and a doorbell",
        5 1 NativeProgressFence = "flag: out alone: the progress fence is native",
        6 1 TestQueue = "flag: refused: not for user mode",
    }

    structure D3DKMT_CREATEHWQUEUE { 48;
        0 hHwContext: D3DKMT_HANDLE = "in: the hardware context",
        4 Flags: D3DDDI_CREATEHWQUEUEFLAGS = "in, out: bits of D3DDDI_CREATEHWQUEUEFLAGS; out with NativeProgressFence",
        8 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData; 0: none",
        16 pPrivateDriverData: *mut VOID = "in, out, optional: the driver's question and its answer (SOFTGPU_QUEUE)",
        24 hHwQueue: D3DKMT_HANDLE = "out: the hardware queue",
        28 hHwQueueProgressFence: D3DKMT_HANDLE = "out: the queue's own fence, for waits",
        32 HwQueueProgressFenceCPUVirtualAddress: *mut VOID = "out: the progress fence's value, 64 bits, for reading only",
        40 HwQueueProgressFenceGPUVirtualAddress: D3DGPU_VIRTUAL_ADDRESS = "out: GPU address of the progress fence's value",
    }

    structure D3DKMT_DESTROYHWQUEUE { 4;
        0 hHwQueue: D3DKMT_HANDLE = "in: the hardware queue",
    }

    structure D3DKMT_SUBMITCOMMANDTOHWQUEUE { 56;
        0 hHwQueue: D3DKMT_HANDLE = "in: a queue without UserModeSubmission",
        8 HwQueueProgressFenceId: UINT64 = "in: the value of the progress fence when the commands are done, greater than that of the submission before",
        16 CommandBuffer: D3DGPU_VIRTUAL_ADDRESS = "in: GPU address of the commands",
        24 CommandLength: UINT = "in: bytes of commands",
        28 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData",
        32 pPrivateDriverData: *mut VOID = "in, optional: bytes for the driver; they mean nothing to the software GPU's",
        40 NumPrimaries: UINT = "in: entries of WrittenPrimaries",
        48 WrittenPrimaries: *const D3DKMT_HANDLE = "in, optional: an array: the primaries into which the commands draw",
    }

    // spec: sync §2.4
    structure D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE { 24;
        0 hHwQueue: D3DKMT_HANDLE = "in: the queue that waits",
        4 ObjectCount: UINT = "in: entries of both arrays",
        8 ObjectHandleArray: *const D3DKMT_HANDLE = "in: an array: the fences",
        16 FenceValueArray: *const UINT64 = "in: an array: the value to wait for of each",
    }

    structure D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE { 40;
        0 Flags: D3DDDICB_SIGNALFLAGS = "in: 0, or bits of SignalAtSubmission and AllowFenceRewind",
        4 BroadcastHwQueueCount: UINT = "in: entries of BroadcastHwQueueArray",
        8 BroadcastHwQueueArray: *const D3DKMT_HANDLE = "in: an array: the queues, all of which must come to the signal",
        16 ObjectCount: UINT = "in: entries of ObjectHandleArray and FenceValueArray",
        24 ObjectHandleArray: *const D3DKMT_HANDLE = "in: an array: the fences",
        32 FenceValueArray: *const UINT64 = "in: an array: the new value of each",
    }

    // spec: sync §2.9
    number D3DDDI_DOORBELLSTATUS { INT;
        D3DDDI_DOORBELLSTATUS_CONNECTED = 0: "a ring reaches the GPU",
        D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD = 1: "a ring reaches the GPU; the driver also wants D3DKMTNotifyWorkSubmission",
        D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY = 2: "a ring reaches nothing; connect the doorbell and ring again",
        D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT = 3: "a ring reaches nothing, and the queue is lost",
    }

    flags D3DKMT_CREATE_DOORBELL_FLAGS { UINT;
        0 1 RequireSecondaryCpuVA = "flag: STATUS_NOT_SUPPORTED",
        1 1 ResizeRingBufferOperation = "flag: STATUS_NOT_SUPPORTED",
    }

    structure D3DKMT_CREATE_DOORBELL { 72;
        0 hHwQueue: D3DKMT_HANDLE = "in: a queue with UserModeSubmission, which has no doorbell yet",
        4 hRingBuffer: D3DKMT_HANDLE = "in: the allocation of the ring, mapped for the GPU: a power of two from 4096 bytes",
        8 hRingBufferControl: D3DKMT_HANDLE = "in: 0: the ring's write pointer is the doorbell",
        12 Flags: D3DKMT_CREATE_DOORBELL_FLAGS = "in: 0",
        16 PrivateDriverDataSize: UINT = "in: bytes at PrivateDriverData; 0: none",
        24 PrivateDriverData: *mut VOID = "out, optional: the driver answers with the queue's number on the device, 64 bits",
        32 DoorbellCPUVirtualAddress: *mut VOID = "out: the doorbell: the program stores the ring's write pointer there, in bytes",
        40 DoorbellSecondaryCPUVirtualAddress: *mut VOID = "out: NULL",
        48 DoorbellStatusCPUVirtualAddress: *mut VOID = "out: a D3DDDI_DOORBELLSTATUS, 64 bits, for reading only",
        56 HwQueueProgressFenceLastQueuedValueCPUVirtualAddress: *mut VOID = "out: the place where the program stores the progress fence's last value before it rings",
        64 hDoorbell: D3DKMT_HANDLE = "out: the doorbell",
    }

    flags D3DKMT_CONNECT_DOORBELL_FLAGS { UINT;
        0 32 Reserved = "flag: 0",
    }

    flags D3DKMT_GETNATIVEFENCELOGDETAIL_FLAGS { UINT;
        0 32 Reserved = "flag: 0",
    }

    structure D3DKMT_GETNATIVEFENCELOGDETAIL { 96;
        0 hHwQueue: D3DKMT_HANDLE = "in: a queue that its process feeds",
        4 Flags: D3DKMT_GETNATIVEFENCELOGDETAIL_FLAGS = "in: 0",
        8 WaitLogNumberOfEntries: UINT = "out: entries of the log of waits",
        12 SignalLogNumberOfEntries: UINT = "out: entries of the log of signals",
        16 WaitLogGpuBaseAddress: D3DGPU_VIRTUAL_ADDRESS = "out: where the engine writes waits",
        24 SignalLogGpuBaseAddress: D3DGPU_VIRTUAL_ADDRESS = "out: where the engine writes signals",
        32 Reserved: [BYTE; 64] = "in: 0",
    }

    structure D3DKMT_CONNECT_DOORBELL { 8;
        0 hDoorbell: D3DKMT_HANDLE = "in: the doorbell, whose status is DISCONNECTED_RETRY",
        4 Flags: D3DKMT_CONNECT_DOORBELL_FLAGS = "in: 0",
    }

    structure D3DKMT_DESTROY_DOORBELL { 4;
        0 hDoorbell: D3DKMT_HANDLE = "in: the doorbell",
    }

    flags D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS { UINT;
        0 32 Reserved = "flag: 0",
    }

    structure D3DKMT_NOTIFY_WORK_SUBMISSION { 8;
        0 hDoorbell: D3DKMT_HANDLE = "in: the doorbell of a queue whose engine sleeps",
        4 Flags: D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS = "in: 0",
    }
}
