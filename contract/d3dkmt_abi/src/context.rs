//! Packet contexts: creation, submission, priority (memory §7; sync §2.5).

use crate::allocation::{D3DDDI_ALLOCATIONLIST, D3DDDI_PATCHLOCATIONLIST};
use crate::layout::layout;
use crate::number::*;

layout! {
    // spec: sync §2.5
    flags D3DDDI_CREATECONTEXTFLAGS { UINT;
        0 1 NullRendering,
        1 1 InitialData,
        2 1 DisableGpuTimeout,
        3 1 SynchronizationOnly,
        4 1 HwQueueSupported,
        5 1 NoKmdAccess,
        6 1 TestContext,
    }

    number D3DKMT_CLIENTHINT { INT;
        D3DKMT_CLIENTHINT_UNKNOWN = 0,
        D3DKMT_CLIENTHINT_OPENGL = 1,
        D3DKMT_CLIENTHINT_OPENCL = 3,
        D3DKMT_CLIENTHINT_VULKAN = 4,
        D3DKMT_CLIENTHINT_CUDA = 5,
        D3DKMT_CLIENTHINT_DX12 = 12,
        D3DKMT_CLIENTHINT_ONEAPI_LEVEL0 = 19,
    }

    structure D3DKMT_CREATECONTEXT { 96;
        0 hDevice: D3DKMT_HANDLE,
        4 NodeOrdinal: UINT,
        8 EngineAffinity: UINT,
        12 Flags: D3DDDI_CREATECONTEXTFLAGS,
        16 pPrivateDriverData: *mut VOID,
        24 PrivateDriverDataSize: UINT,
        28 ClientHint: D3DKMT_CLIENTHINT,
        32 hContext: D3DKMT_HANDLE,
        40 pCommandBuffer: *mut VOID,
        48 CommandBufferSize: UINT,
        56 pAllocationList: *mut D3DDDI_ALLOCATIONLIST,
        64 AllocationListSize: UINT,
        72 pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
        80 PatchLocationListSize: UINT,
        88 CommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
    }

    structure D3DKMT_CREATECONTEXTVIRTUAL { 40;
        0 hDevice: D3DKMT_HANDLE,
        4 NodeOrdinal: UINT,
        8 EngineAffinity: UINT,
        12 Flags: D3DDDI_CREATECONTEXTFLAGS,
        16 pPrivateDriverData: *mut VOID,
        24 PrivateDriverDataSize: UINT,
        28 ClientHint: D3DKMT_CLIENTHINT,
        32 hContext: D3DKMT_HANDLE,
    }

    structure D3DKMT_DESTROYCONTEXT { 4;
        0 hContext: D3DKMT_HANDLE,
    }

    structure D3DKMT_SETCONTEXTSCHEDULINGPRIORITY { 8;
        0 hContext: D3DKMT_HANDLE,
        4 Priority: INT,
    }

    flags D3DKMT_SUBMITCOMMANDFLAGS { UINT;
        0 1 NullRendering,
        1 1 PresentRedirected,
        2 1 NoKmdAccess,
    }

    structure D3DKMT_SUBMITCOMMAND { 384;
        0 Commands: D3DGPU_VIRTUAL_ADDRESS,
        8 CommandLength: UINT,
        12 Flags: D3DKMT_SUBMITCOMMANDFLAGS,
        16 PresentHistoryToken: ULONGLONG,
        24 BroadcastContextCount: UINT,
        28 BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT],
        288 pPrivateDriverData: *mut VOID,
        296 PrivateDriverDataSize: UINT,
        300 NumPrimaries: UINT,
        304 WrittenPrimaries: [D3DKMT_HANDLE; D3DDDI_MAX_WRITTEN_PRIMARIES],
        368 NumHistoryBuffers: UINT,
        376 HistoryBufferArray: *mut D3DKMT_HANDLE,
    }

    alternative D3DKMT_RENDER_CONTEXT { 4;
        hDevice: D3DKMT_HANDLE,
        hContext: D3DKMT_HANDLE,
    }

    flags D3DKMT_RENDERFLAGS { UINT;
        0 1 ResizeCommandBuffer,
        1 1 ResizeAllocationList,
        2 1 ResizePatchLocationList,
        3 1 NullRendering,
        4 1 PresentRedirected,
        5 1 RenderKm,
        6 1 RenderKmReadback,
    }

    structure D3DKMT_RENDER { 368;
        0 Anonymous: D3DKMT_RENDER_CONTEXT,
        4 CommandOffset: UINT,
        8 CommandLength: UINT,
        12 AllocationCount: UINT,
        16 PatchLocationCount: UINT,
        24 pNewCommandBuffer: *mut VOID,
        32 NewCommandBufferSize: UINT,
        40 pNewAllocationList: *mut D3DDDI_ALLOCATIONLIST,
        48 NewAllocationListSize: UINT,
        56 pNewPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST,
        64 NewPatchLocationListSize: UINT,
        68 Flags: D3DKMT_RENDERFLAGS,
        72 PresentHistoryToken: ULONGLONG,
        80 BroadcastContextCount: ULONG,
        84 BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT],
        340 QueuedBufferCount: ULONG,
        344 NewCommandBuffer: D3DGPU_VIRTUAL_ADDRESS,
        352 pPrivateDriverData: *mut VOID,
        360 PrivateDriverDataSize: UINT,
    }
}
