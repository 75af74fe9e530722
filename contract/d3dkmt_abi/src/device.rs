//! Devices and their state (memory §5.8).

use crate::allocation::{D3DDDI_ALLOCATIONLIST, D3DDDI_PATCHLOCATIONLIST};
use crate::layout::layout;
use crate::number::*;

layout! {
    flags D3DKMT_CREATEDEVICEFLAGS { UINT;
        0 1 LegacyMode,
        1 1 RequestVSync,
        2 1 DisableGpuTimeout,
    }

    alternative D3DKMT_CREATEDEVICE_ADAPTER { 8;
        hAdapter: D3DKMT_HANDLE,
        pAdapter: *mut VOID,
    }

    structure D3DKMT_CREATEDEVICE { 64;
        0 Anonymous: D3DKMT_CREATEDEVICE_ADAPTER,
        8 Flags: D3DKMT_CREATEDEVICEFLAGS,
        12 hDevice: D3DKMT_HANDLE,
        16 pCommandBuffer: *mut VOID,
        24 CommandBufferSize: UINT,
        32 pAllocationList: *mut D3DDDI_ALLOCATIONLIST,
        40 AllocationListSize: UINT,
        48 pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
        56 PatchLocationListSize: UINT,
    }

    structure D3DKMT_DESTROYDEVICE { 4;
        0 hDevice: D3DKMT_HANDLE,
    }

    number D3DKMT_DEVICESTATE_TYPE { INT;
        D3DKMT_DEVICESTATE_EXECUTION = 1,
        D3DKMT_DEVICESTATE_PRESENT = 2,
        D3DKMT_DEVICESTATE_RESET = 3,
        D3DKMT_DEVICESTATE_PRESENT_DWM = 4,
        D3DKMT_DEVICESTATE_PAGE_FAULT = 5,
        D3DKMT_DEVICESTATE_PRESENT_QUEUE = 6,
    }

    // spec: memory §5.8
    number D3DKMT_DEVICEEXECUTION_STATE { INT;
        D3DKMT_DEVICEEXECUTION_ACTIVE = 1,
        D3DKMT_DEVICEEXECUTION_RESET = 2,
        D3DKMT_DEVICEEXECUTION_HUNG = 3,
        D3DKMT_DEVICEEXECUTION_STOPPED = 4,
        D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY = 5,
        D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT = 6,
        D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT = 7,
    }

    flags D3DKMT_DEVICERESET_STATE { UINT;
        0 1 DesktopSwitched,
    }

    structure D3DKMT_DEVICEPAGEFAULT_STATE { 32;
        0 FaultedPrimitiveAPISequenceNumber: UINT64,
        8 FaultedPipelineStage: INT,
        12 FaultedBindTableEntry: UINT,
        16 PageFaultFlags: INT,
        20 FaultErrorCode: UINT,
        24 FaultedVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    }

    structure D3DKMT_PRESENT_STATS { 32;
        0 PresentCount: UINT,
        4 PresentRefreshCount: UINT,
        8 SyncRefreshCount: UINT,
        16 SyncQPCTime: LARGE_INTEGER,
        24 SyncGPUTime: LARGE_INTEGER,
    }

    structure D3DKMT_DEVICEPRESENT_STATE { 40;
        0 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
        8 PresentStats: D3DKMT_PRESENT_STATS,
    }

    structure D3DKMT_PRESENT_STATS_DWM { 40;
        0 PresentCount: UINT,
        4 PresentRefreshCount: UINT,
        8 PresentQPCTime: LARGE_INTEGER,
        16 SyncRefreshCount: UINT,
        24 SyncQPCTime: LARGE_INTEGER,
        32 CustomPresentDuration: UINT,
    }

    structure D3DKMT_DEVICEPRESENT_STATE_DWM { 48;
        0 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
        8 PresentStatsDWM: D3DKMT_PRESENT_STATS_DWM,
    }

    structure D3DKMT_DEVICEPRESENT_QUEUE_STATE { 8;
        0 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
        4 bQueuedPresentLimitReached: BOOLEAN,
    }

    alternative D3DKMT_GETDEVICESTATE_STATE { 48;
        ExecutionState: D3DKMT_DEVICEEXECUTION_STATE,
        PresentState: D3DKMT_DEVICEPRESENT_STATE,
        ResetState: D3DKMT_DEVICERESET_STATE,
        PresentStateDWM: D3DKMT_DEVICEPRESENT_STATE_DWM,
        PageFaultState: D3DKMT_DEVICEPAGEFAULT_STATE,
        PresentQueueState: D3DKMT_DEVICEPRESENT_QUEUE_STATE,
    }

    structure D3DKMT_GETDEVICESTATE { 56;
        0 hDevice: D3DKMT_HANDLE,
        4 StateType: D3DKMT_DEVICESTATE_TYPE,
        8 Anonymous: D3DKMT_GETDEVICESTATE_STATE,
    }

    number D3DKMT_DEVICE_ERROR_REASON { INT;
        D3DKMT_DEVICE_ERROR_REASON_GENERIC = -2147483648,
        D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR = -2147483642,
    }

    structure D3DKMT_MARKDEVICEASERROR { 8;
        0 hDevice: D3DKMT_HANDLE,
        4 Reason: D3DKMT_DEVICE_ERROR_REASON,
    }

    structure D3DKMT_WAITFORIDLE { 4;
        0 hDevice: D3DKMT_HANDLE,
    }
}
