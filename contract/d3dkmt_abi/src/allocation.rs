//! Allocations: creation, destruction, priorities, lists of submissions (memory §2.3, §2.7, §2.8, §6.2, §7.2, §7.3).

use crate::layout::layout;
use crate::number::*;

layout! {
    // spec: memory §2.7
    flags D3DKMT_CREATEALLOCATIONFLAGS { UINT;
        0 1 CreateResource,
        1 1 CreateShared,
        2 1 NonSecure,
        3 1 CreateProtected,
        4 1 RestrictSharedAccess,
        5 1 ExistingSysMem,
        6 1 NtSecuritySharing,
        7 1 ReadOnly,
        8 1 CreateWriteCombined,
        9 1 CreateCached,
        10 1 SwapChainBackBuffer,
        11 1 CrossAdapter,
        12 1 OpenCrossAdapter,
        13 1 PartialSharedCreation,
        14 1 Zeroed,
        15 1 WriteWatch,
        16 1 StandardAllocation,
        17 1 ExistingSection,
        18 1 AllowNotZeroed,
        19 1 PhysicallyContiguous,
        20 1 NoKmdAccess,
        21 1 SharedDisplayable,
        22 1 NoImplicitSynchronization,
    }

    flags D3DDDI_ALLOCATIONINFO_FLAGS { UINT;
        0 1 Primary,
        1 1 Stereo,
    }

    structure D3DDDI_ALLOCATIONINFO { 40;
        0 hAllocation: D3DKMT_HANDLE,
        8 pSystemMem: *const VOID,
        16 pPrivateDriverData: *mut VOID,
        24 PrivateDriverDataSize: UINT,
        28 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
        32 Flags: D3DDDI_ALLOCATIONINFO_FLAGS,
    }

    flags D3DDDI_ALLOCATIONINFO2_FLAGS { UINT;
        0 1 Primary,
        1 1 Stereo,
        2 1 OverridePriority,
    }

    alternative D3DDDI_ALLOCATIONINFO2_EXISTING { 8;
        hSection: HANDLE,
        pSystemMem: *const VOID,
    }

    alternative D3DDDI_ALLOCATIONINFO2_PRIORITY { 8;
        Priority: UINT,
        Unused: ULONG_PTR,
    }

    structure D3DDDI_ALLOCATIONINFO2 { 96;
        0 hAllocation: D3DKMT_HANDLE,
        8 Anonymous1: D3DDDI_ALLOCATIONINFO2_EXISTING,
        16 pPrivateDriverData: *mut VOID,
        24 PrivateDriverDataSize: UINT,
        28 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
        32 Flags: D3DDDI_ALLOCATIONINFO2_FLAGS,
        40 GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
        48 Anonymous2: D3DDDI_ALLOCATIONINFO2_PRIORITY,
        56 Reserved: [ULONG_PTR; 5],
    }

    number D3DKMT_STANDARDALLOCATIONTYPE { INT;
        D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP = 1,
        D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE = 2,
    }

    structure D3DKMT_CREATESTANDARDALLOCATION { 24;
        0 Type: D3DKMT_STANDARDALLOCATIONTYPE,
        8 ExistingHeapData: D3DKMT_STANDARDALLOCATION_EXISTINGHEAP,
        16 Flags: UINT,
    }

    structure D3DKMT_STANDARDALLOCATION_EXISTINGHEAP { 8;
        0 Size: SIZE_T,
    }

    alternative D3DKMT_CREATEALLOCATION_DATA { 8;
        pStandardAllocation: *mut D3DKMT_CREATESTANDARDALLOCATION,
        pPrivateDriverData: *const VOID,
    }

    alternative D3DKMT_CREATEALLOCATION_INFO { 8;
        pAllocationInfo: *mut D3DDDI_ALLOCATIONINFO,
        pAllocationInfo2: *mut D3DDDI_ALLOCATIONINFO2,
    }

    structure D3DKMT_CREATEALLOCATION { 72;
        0 hDevice: D3DKMT_HANDLE,
        4 hResource: D3DKMT_HANDLE,
        8 hGlobalShare: D3DKMT_HANDLE,
        16 pPrivateRuntimeData: *const VOID,
        24 PrivateRuntimeDataSize: UINT,
        32 Anonymous1: D3DKMT_CREATEALLOCATION_DATA,
        40 PrivateDriverDataSize: UINT,
        44 NumAllocations: UINT,
        48 Anonymous2: D3DKMT_CREATEALLOCATION_INFO,
        56 Flags: D3DKMT_CREATEALLOCATIONFLAGS,
        64 hPrivateRuntimeResourceHandle: HANDLE,
    }

    // spec: memory §6.2
    flags D3DDDICB_DESTROYALLOCATION2FLAGS { UINT;
        0 1 AssumeNotInUse,
        1 1 SynchronousDestroy,
        31 1 SystemUseOnly,
    }

    structure D3DKMT_DESTROYALLOCATION2 { 24;
        0 hDevice: D3DKMT_HANDLE,
        4 hResource: D3DKMT_HANDLE,
        8 phAllocationList: *const D3DKMT_HANDLE,
        16 AllocationCount: UINT,
        20 Flags: D3DDDICB_DESTROYALLOCATION2FLAGS,
    }

    structure D3DKMT_DESTROYALLOCATION { 24;
        0 hDevice: D3DKMT_HANDLE,
        4 hResource: D3DKMT_HANDLE,
        8 phAllocationList: *const D3DKMT_HANDLE,
        16 AllocationCount: UINT,
    }

    // spec: memory §2.3
    structure D3DKMT_SETALLOCATIONPRIORITY { 32;
        0 hDevice: D3DKMT_HANDLE,
        4 hResource: D3DKMT_HANDLE,
        8 phAllocationList: *const D3DKMT_HANDLE,
        16 AllocationCount: UINT,
        24 pPriorities: *const UINT,
    }

    // spec: memory §9.2
    number D3DKMT_ALLOCATIONRESIDENCYSTATUS { INT;
        D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY = 1,
        D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY = 2,
        D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT = 3,
    }

    structure D3DKMT_QUERYALLOCATIONRESIDENCY { 32;
        0 hDevice: D3DKMT_HANDLE,
        4 hResource: D3DKMT_HANDLE,
        8 phAllocationList: *const D3DKMT_HANDLE,
        16 AllocationCount: UINT,
        24 pResidencyStatus: *mut D3DKMT_ALLOCATIONRESIDENCYSTATUS,
    }

    // spec: memory §7.2
    flags D3DDDI_ALLOCATIONLIST_FLAGS { UINT;
        0 1 WriteOperation,
        1 1 DoNotRetireInstance,
        2 3 OfferPriority,
    }

    structure D3DDDI_ALLOCATIONLIST { 8;
        0 hAllocation: D3DKMT_HANDLE,
        4 Anonymous: D3DDDI_ALLOCATIONLIST_FLAGS,
    }

    // spec: memory §7.3
    flags D3DDDI_PATCHLOCATIONLIST_SLOT { UINT;
        0 24 SlotId,
    }

    structure D3DDDI_PATCHLOCATIONLIST { 24;
        0 AllocationIndex: UINT,
        4 Anonymous: D3DDDI_PATCHLOCATIONLIST_SLOT,
        8 DriverId: UINT,
        12 AllocationOffset: UINT,
        16 PatchOffset: UINT,
        20 SplitOffset: UINT,
    }
}
