//! Devices and their state (memory §5.8).

use crate::allocation::{D3DDDI_ALLOCATIONLIST, D3DDDI_PATCHLOCATIONLIST};
use crate::layout::layout;
use crate::number::*;

layout! {
    flags D3DKMT_CREATEDEVICEFLAGS { UINT;
        0 1 LegacyMode = "flag: has no effect: it is about presents of an older runtime",
        1 1 RequestVSync = "flag: has no effect: it is about presents of an older runtime",
        2 1 DisableGpuTimeout = "flag: contexts and queues of the device are never found hung",
    }

    alternative D3DKMT_CREATEDEVICE_ADAPTER { 8;
        hAdapter: D3DKMT_HANDLE = "in: the adapter",
        pAdapter: *mut VOID = "in: no use of its own: the union is read as hAdapter",
    }

    structure D3DKMT_CREATEDEVICE { 64;
        0 Anonymous: D3DKMT_CREATEDEVICE_ADAPTER,
        8 Flags: D3DKMT_CREATEDEVICEFLAGS = "in: bits of D3DKMT_CREATEDEVICEFLAGS",
        12 hDevice: D3DKMT_HANDLE = "out: the device",
        16 pCommandBuffer: *mut VOID = "out: NULL: buffers are a context's",
        24 CommandBufferSize: UINT = "out: 0",
        32 pAllocationList: *mut D3DDDI_ALLOCATIONLIST = "out: NULL: lists are a context's",
        40 AllocationListSize: UINT = "out: 0",
        48 pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST = "out: NULL: lists are a context's",
        56 PatchLocationListSize: UINT = "out: 0",
    }

    structure D3DKMT_DESTROYDEVICE { 4;
        0 hDevice: D3DKMT_HANDLE = "in: the device; everything that it has goes with it",
    }

    number D3DKMT_DEVICESTATE_TYPE { INT;
        D3DKMT_DEVICESTATE_EXECUTION = 1: "answered: ExecutionState, whether the device runs or why it is lost",
        D3DKMT_DEVICESTATE_PRESENT = 2: "answered: PresentState, how many presents a source has shown",
        D3DKMT_DEVICESTATE_RESET = 3: "answered: ResetState, always 0: no desktop is switched",
        D3DKMT_DEVICESTATE_PRESENT_DWM = 4: "answered: PresentStateDWM, how many presents a source has shown",
        D3DKMT_DEVICESTATE_PAGE_FAULT = 5: "answered: PageFaultState, the address at which the device was lost",
        D3DKMT_DEVICESTATE_PRESENT_QUEUE = 6: "answered: PresentQueueState, whether the limit of queued presents is reached",
    }

    // spec: memory §5.8
    number D3DKMT_DEVICEEXECUTION_STATE { INT;
        D3DKMT_DEVICEEXECUTION_ACTIVE = 1: "the device runs",
        D3DKMT_DEVICEEXECUTION_RESET = 2: "lost by a reset of the adapter",
        D3DKMT_DEVICEEXECUTION_HUNG = 3: "lost: its work did not end in time",
        D3DKMT_DEVICEEXECUTION_STOPPED = 4: "lost: the adapter has stopped",
        D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY = 5: "lost: memory that its work needs could not be had",
        D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT = 6: "lost: the GPU refused its commands",
        D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT = 7: "lost: the GPU met an address that leads nowhere",
    }

    flags D3DKMT_DEVICERESET_STATE { UINT;
        0 1 DesktopSwitched = "flag, out: never set: the kernel has no desktops",
    }

    structure D3DKMT_DEVICEPAGEFAULT_STATE { 32;
        0 FaultedPrimitiveAPISequenceNumber: UINT64 = "out: 0: the device does not say",
        8 FaultedPipelineStage: INT = "out: 0: the device does not say",
        12 FaultedBindTableEntry: UINT = "out: 0: the device does not say",
        16 PageFaultFlags: INT = "out: 1 (DXGK_PAGE_FAULT_WRITE) if the access was a store, else 0",
        20 FaultErrorCode: UINT = "out: 2 if the engine found no command there, else 0",
        24 FaultedVirtualAddress: D3DGPU_VIRTUAL_ADDRESS = "out: GPU address of the access; 0: the device was not lost for a fault",
    }

    structure D3DKMT_PRESENT_STATS { 32;
        0 PresentCount: UINT = "out: flips of the device that the source has shown; the count goes round",
        4 PresentRefreshCount: UINT = "out: 0: the kernel has no such figure",
        8 SyncRefreshCount: UINT = "out: 0: the kernel has no such figure",
        16 SyncQPCTime: LARGE_INTEGER = "out: 0: the kernel has no such figure",
        24 SyncGPUTime: LARGE_INTEGER = "out: 0: the kernel has no such figure",
    }

    structure D3DKMT_DEVICEPRESENT_STATE { 40;
        0 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display",
        8 PresentStats: D3DKMT_PRESENT_STATS = "out: the figures",
    }

    structure D3DKMT_PRESENT_STATS_DWM { 40;
        0 PresentCount: UINT = "out: flips of the device that the source has shown; the count goes round",
        4 PresentRefreshCount: UINT = "out: 0: the kernel has no such figure",
        8 PresentQPCTime: LARGE_INTEGER = "out: 0: the kernel has no such figure",
        16 SyncRefreshCount: UINT = "out: 0: the kernel has no such figure",
        24 SyncQPCTime: LARGE_INTEGER = "out: 0: the kernel has no such figure",
        32 CustomPresentDuration: UINT = "out: 0: the kernel has no such figure",
    }

    structure D3DKMT_DEVICEPRESENT_STATE_DWM { 48;
        0 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display",
        8 PresentStatsDWM: D3DKMT_PRESENT_STATS_DWM = "out: the figures",
    }

    structure D3DKMT_DEVICEPRESENT_QUEUE_STATE { 8;
        0 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display",
        4 bQueuedPresentLimitReached: BOOLEAN = "out: TRUE if as many flips are queued as D3DKMTSetQueuedLimit allows",
    }

    alternative D3DKMT_GETDEVICESTATE_STATE { 48;
        ExecutionState: D3DKMT_DEVICEEXECUTION_STATE = "out: of D3DKMT_DEVICESTATE_EXECUTION: whether the device lives, or why it was lost",
        PresentState: D3DKMT_DEVICEPRESENT_STATE = "in, out: of D3DKMT_DEVICESTATE_PRESENT",
        ResetState: D3DKMT_DEVICERESET_STATE = "out: of D3DKMT_DEVICESTATE_RESET",
        PresentStateDWM: D3DKMT_DEVICEPRESENT_STATE_DWM = "in, out: of D3DKMT_DEVICESTATE_PRESENT_DWM",
        PageFaultState: D3DKMT_DEVICEPAGEFAULT_STATE = "out: of D3DKMT_DEVICESTATE_PAGE_FAULT: the fault for which the device was lost",
        PresentQueueState: D3DKMT_DEVICEPRESENT_QUEUE_STATE = "in, out: of D3DKMT_DEVICESTATE_PRESENT_QUEUE",
    }

    structure D3DKMT_GETDEVICESTATE { 56;
        0 hDevice: D3DKMT_HANDLE = "in: the device, a lost one too",
        4 StateType: D3DKMT_DEVICESTATE_TYPE = "in: the question, which is also the union's arm",
        8 Anonymous: D3DKMT_GETDEVICESTATE_STATE,
    }

    number D3DKMT_DEVICE_ERROR_REASON { INT;
        D3DKMT_DEVICE_ERROR_REASON_GENERIC = -2147483648: "an error of the program or its runtime",
        D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR = -2147483642: "an error of the user-mode driver",
    }

    structure D3DKMT_MARKDEVICEASERROR { 8;
        0 hDevice: D3DKMT_HANDLE = "in: the device, which is lost from then on",
        4 Reason: D3DKMT_DEVICE_ERROR_REASON = "in: D3DKMT_DEVICE_ERROR_REASON_GENERIC or _DRIVER_ERROR",
    }

    structure D3DKMT_WAITFORIDLE { 4;
        0 hDevice: D3DKMT_HANDLE = "in: the device for whose commands the calling thread waits",
    }
}
