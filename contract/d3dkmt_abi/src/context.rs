//! Packet contexts: creation, submission, priority (memory §7; sync §2.5).

use crate::allocation::{D3DDDI_ALLOCATIONLIST, D3DDDI_PATCHLOCATIONLIST};
use crate::layout::layout;
use crate::number::*;

layout! {
    // spec: sync §2.5
    flags D3DDDI_CREATECONTEXTFLAGS { UINT;
        0 1 NullRendering = "flag: what is submitted completes, and none of its commands is processed",
        1 1 InitialData = "flag: refused: not for user mode",
        2 1 DisableGpuTimeout = "flag: the context is never found hung",
        3 1 SynchronizationOnly = "flag: refused: not for user mode",
        4 1 HwQueueSupported = "flag: STATUS_NOT_SUPPORTED: D3DKMTCreateHwContext makes contexts with hardware queues",
        5 1 NoKmdAccess = "flag: refused: not for user mode",
        6 1 TestContext = "flag: refused: not for user mode",
    }

    number D3DKMT_CLIENTHINT { INT;
        D3DKMT_CLIENTHINT_UNKNOWN = 0: "the interface of the program is not known",
        D3DKMT_CLIENTHINT_OPENGL = 1: "the context serves OpenGL",
        D3DKMT_CLIENTHINT_CDD = 2: "the context serves the desktop of GDI",
        D3DKMT_CLIENTHINT_OPENCL = 3: "the context serves OpenCL",
        D3DKMT_CLIENTHINT_VULKAN = 4: "the context serves Vulkan",
        D3DKMT_CLIENTHINT_CUDA = 5: "the context serves CUDA",
        D3DKMT_CLIENTHINT_RESERVED = 6: "no interface has this number",
        D3DKMT_CLIENTHINT_DX7 = 7: "the context serves Direct3D 7",
        D3DKMT_CLIENTHINT_DX8 = 8: "the context serves Direct3D 8",
        D3DKMT_CLIENTHINT_DX9 = 9: "the context serves Direct3D 9",
        D3DKMT_CLIENTHINT_DX10 = 10: "the context serves Direct3D 10",
        D3DKMT_CLIENTHINT_DX11 = 11: "the context serves Direct3D 11",
        D3DKMT_CLIENTHINT_DX12 = 12: "the context serves Direct3D 12",
        D3DKMT_CLIENTHINT_9ON12 = 13: "the context serves Direct3D 9 over Direct3D 12",
        D3DKMT_CLIENTHINT_11ON12 = 14: "the context serves Direct3D 11 over Direct3D 12",
        D3DKMT_CLIENTHINT_MFT_ENCODE = 15: "the context serves an encoder of video",
        D3DKMT_CLIENTHINT_GLON12 = 16: "the context serves OpenGL over Direct3D 12",
        D3DKMT_CLIENTHINT_CLON12 = 17: "the context serves OpenCL over Direct3D 12",
        D3DKMT_CLIENTHINT_DML_TENSORFLOW = 18: "the context serves TensorFlow over DirectML",
        D3DKMT_CLIENTHINT_ONEAPI_LEVEL0 = 19: "the context serves oneAPI Level Zero",
        D3DKMT_CLIENTHINT_DML_PYTORCH = 20: "the context serves PyTorch over DirectML",
        D3DKMT_CLIENTHINT_MAX = 21: "the count of the numbers above",
    }

    structure D3DKMT_CREATECONTEXT { 96;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 NodeOrdinal: UINT = "in: the node, from 0 (SOFTGPU_NODE_...)",
        8 EngineAffinity: UINT = "in: 1 or 0: a node has one engine",
        12 Flags: D3DDDI_CREATECONTEXTFLAGS = "in: bits of D3DDDI_CREATECONTEXTFLAGS",
        16 pPrivateDriverData: *mut VOID = "in, optional: the driver's data (SOFTGPU_CONTEXT)",
        24 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData; 0: none",
        28 ClientHint: D3DKMT_CLIENTHINT = "unread: names the graphics interface above, for tools",
        32 hContext: D3DKMT_HANDLE = "out: the context",
        40 pCommandBuffer: *mut VOID = "out: the place for commands that D3DKMTRender takes",
        48 CommandBufferSize: UINT = "out: bytes at pCommandBuffer",
        56 pAllocationList: *mut D3DDDI_ALLOCATIONLIST = "out: the place for the list of allocations",
        64 AllocationListSize: UINT = "out: entries at pAllocationList",
        72 pPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST = "out: the place for the list of patch locations",
        80 PatchLocationListSize: UINT = "out: entries at pPatchLocationList",
        88 CommandBuffer: D3DGPU_VIRTUAL_ADDRESS = "out: 0",
    }

    structure D3DKMT_CREATECONTEXTVIRTUAL { 40;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 NodeOrdinal: UINT = "in: the node, from 0 (SOFTGPU_NODE_...)",
        8 EngineAffinity: UINT = "in: 1 or 0: a node has one engine",
        12 Flags: D3DDDI_CREATECONTEXTFLAGS = "in: bits of D3DDDI_CREATECONTEXTFLAGS",
        16 pPrivateDriverData: *mut VOID = "in, optional: the driver's data (SOFTGPU_CONTEXT)",
        24 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData; 0: none",
        28 ClientHint: D3DKMT_CLIENTHINT = "unread: names the graphics interface above, for tools",
        32 hContext: D3DKMT_HANDLE = "out: the context",
    }

    structure D3DKMT_DESTROYCONTEXT { 4;
        0 hContext: D3DKMT_HANDLE = "in: the context; its packets that wait are dropped",
    }

    structure D3DKMT_SETCONTEXTSCHEDULINGPRIORITY { 8;
        0 hContext: D3DKMT_HANDLE = "in: a packet context or a hardware context",
        4 Priority: INT = "in: -7 to 7; 2 and more raise the context above other processes' and need a privilege",
    }

    flags D3DKMT_SUBMITCOMMANDFLAGS { UINT;
        0 1 NullRendering = "flag: the submission completes, and none of its commands is processed",
        1 1 PresentRedirected = "flag: STATUS_NOT_SUPPORTED",
        2 1 NoKmdAccess = "flag: STATUS_NOT_SUPPORTED",
    }

    structure D3DKMT_SUBMITCOMMAND { 384;
        0 Commands: D3DGPU_VIRTUAL_ADDRESS = "in: GPU address of the commands",
        8 CommandLength: UINT = "in: bytes of commands",
        12 Flags: D3DKMT_SUBMITCOMMANDFLAGS = "in: bits of D3DKMT_SUBMITCOMMANDFLAGS",
        16 PresentHistoryToken: ULONGLONG = "in: 0",
        24 BroadcastContextCount: UINT = "in: 1",
        28 BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT] = "in: the context, in the first entry",
        288 pPrivateDriverData: *mut VOID = "in, optional: bytes for the driver; they mean nothing to the software GPU's",
        296 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData",
        300 NumPrimaries: UINT = "in: entries of WrittenPrimaries that count",
        304 WrittenPrimaries: [D3DKMT_HANDLE; D3DDDI_MAX_WRITTEN_PRIMARIES] = "in: the primaries into which the commands draw",
        368 NumHistoryBuffers: UINT = "in: 0",
        376 HistoryBufferArray: *mut D3DKMT_HANDLE = "unread: NumHistoryBuffers is 0",
    }

    alternative D3DKMT_RENDER_CONTEXT { 4;
        hDevice: D3DKMT_HANDLE = "in: no use of its own: the union is read as hContext",
        hContext: D3DKMT_HANDLE = "in: a context of D3DKMTCreateContext",
    }

    flags D3DKMT_RENDERFLAGS { UINT;
        0 1 ResizeCommandBuffer = "flag: STATUS_NOT_SUPPORTED",
        1 1 ResizeAllocationList = "flag: STATUS_NOT_SUPPORTED",
        2 1 ResizePatchLocationList = "flag: STATUS_NOT_SUPPORTED",
        3 1 NullRendering = "flag: the submission completes, and none of its commands is processed",
        4 1 PresentRedirected = "flag: STATUS_NOT_SUPPORTED",
        5 1 RenderKm = "flag: STATUS_NOT_SUPPORTED",
        6 1 RenderKmReadback = "flag: STATUS_NOT_SUPPORTED",
    }

    structure D3DKMT_RENDER { 368;
        0 Anonymous: D3DKMT_RENDER_CONTEXT,
        4 CommandOffset: UINT = "in: first byte of the commands in pCommandBuffer, a multiple of 8",
        8 CommandLength: UINT = "in: bytes of commands, a multiple of 8",
        12 AllocationCount: UINT = "in: entries of the allocation list",
        16 PatchLocationCount: UINT = "in: entries of the list of patch locations",
        24 pNewCommandBuffer: *mut VOID = "out: the place for the next commands, which is the same",
        32 NewCommandBufferSize: UINT = "out: bytes at pNewCommandBuffer",
        40 pNewAllocationList: *mut D3DDDI_ALLOCATIONLIST = "out: the place for the next list of allocations, which is the same",
        48 NewAllocationListSize: UINT = "out: entries at pNewAllocationList",
        56 pNewPatchLocationList: *mut D3DDDI_PATCHLOCATIONLIST = "out: the place for the next list of patch locations, which is the same",
        64 NewPatchLocationListSize: UINT = "out: entries at pNewPatchLocationList",
        68 Flags: D3DKMT_RENDERFLAGS = "in: bits of D3DKMT_RENDERFLAGS",
        72 PresentHistoryToken: ULONGLONG = "in: 0",
        80 BroadcastContextCount: ULONG = "in: 0",
        84 BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT] = "unread: BroadcastContextCount is 0",
        340 QueuedBufferCount: ULONG = "out: buffers of the context that have not completed",
        344 NewCommandBuffer: D3DGPU_VIRTUAL_ADDRESS = "out: 0",
        352 pPrivateDriverData: *mut VOID = "in, optional: bytes for the driver; they mean nothing to the software GPU's",
        360 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData",
    }
}
