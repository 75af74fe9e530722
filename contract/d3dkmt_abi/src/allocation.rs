//! Allocations: creation, destruction, priorities, lists of submissions (memory §2.3, §2.7, §2.8, §6.2, §7.2, §7.3).

use crate::layout::layout;
use crate::number::*;

layout! {
    // spec: memory §2.7
    flags D3DKMT_CREATEALLOCATIONFLAGS { UINT;
        0 1 CreateResource = "flag: the allocations are those of a new resource",
        1 1 CreateShared = "flag: other devices can open the resource; needs CreateResource",
        2 1 NonSecure = "flag: has no effect: the driver is not told",
        3 1 CreateProtected = "flag: refused: not for user mode",
        4 1 RestrictSharedAccess = "flag: STATUS_NOT_SUPPORTED",
        5 1 ExistingSysMem = "flag: the allocation lies over pSystemMem; needs StandardAllocation",
        6 1 NtSecuritySharing = "flag: the resource is shared by NT handle (D3DKMTShareObjects); needs CreateShared",
        7 1 ReadOnly = "flag: other devices may only read the resource; needs CreateShared",
        8 1 CreateWriteCombined = "flag: refused: not for user mode",
        9 1 CreateCached = "flag: refused: not for user mode",
        10 1 SwapChainBackBuffer = "flag: has no effect: the driver is not told",
        11 1 CrossAdapter = "flag: devices of other adapters can open the resource; needs CreateShared",
        12 1 OpenCrossAdapter = "flag: refused: not for user mode",
        13 1 PartialSharedCreation = "flag: STATUS_NOT_SUPPORTED",
        14 1 Zeroed = "flag: out alone: the content is 0",
        15 1 WriteWatch = "flag: STATUS_NOT_SUPPORTED",
        16 1 StandardAllocation = "flag: pStandardAllocation describes the one allocation, which lies over memory that exists",
        17 1 ExistingSection = "flag: the allocation lies in hSection",
        18 1 AllowNotZeroed = "flag: the content need not be 0; it is 0 all the same",
        19 1 PhysicallyContiguous = "flag: STATUS_NOT_SUPPORTED",
        20 1 NoKmdAccess = "flag: STATUS_NOT_SUPPORTED",
        21 1 SharedDisplayable = "flag: STATUS_NOT_SUPPORTED",
        22 1 NoImplicitSynchronization = "flag: work on the allocations does not wait for displays that show them",
    }

    flags D3DDDI_ALLOCATIONINFO_FLAGS { UINT;
        0 1 Primary = "flag: a display may show the allocation",
        1 1 Stereo = "flag: a primary for stereo; needs Primary",
    }

    structure D3DDDI_ALLOCATIONINFO { 40;
        0 hAllocation: D3DKMT_HANDLE = "out: the allocation",
        8 pSystemMem: *const VOID = "in, optional: memory of the program that the allocation is to lie over, whole pages; NULL: the kernel gives memory",
        16 pPrivateDriverData: *mut VOID = "in, out: the driver's description (SOFTGPU_ALLOCATION); the driver answers in the same bytes",
        24 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData, at most 65536",
        28 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display of a primary; else 0",
        32 Flags: D3DDDI_ALLOCATIONINFO_FLAGS = "in: bits of D3DDDI_ALLOCATIONINFO_FLAGS",
    }

    flags D3DDDI_ALLOCATIONINFO2_FLAGS { UINT;
        0 1 Primary = "flag: a display may show the allocation",
        1 1 Stereo = "flag: a primary for stereo; needs Primary",
        2 1 OverridePriority = "flag: Priority counts, in place of the driver's",
    }

    alternative D3DDDI_ALLOCATIONINFO2_EXISTING { 8;
        hSection: HANDLE = "in, optional: with ExistingSection: a section of OpenWddmCreateSection",
        pSystemMem: *const VOID = "in, optional: else memory of the program that the allocation is to lie over, whole pages; NULL: the kernel gives memory",
    }

    alternative D3DDDI_ALLOCATIONINFO2_PRIORITY { 8;
        Priority: UINT = "in: with OverridePriority: the starting priority; else 0",
        Unused: ULONG_PTR = "in: no use of its own: it makes the union 8 bytes",
    }

    structure D3DDDI_ALLOCATIONINFO2 { 96;
        0 hAllocation: D3DKMT_HANDLE = "out: the allocation",
        8 Anonymous1: D3DDDI_ALLOCATIONINFO2_EXISTING,
        16 pPrivateDriverData: *mut VOID = "in, out: the driver's description (SOFTGPU_ALLOCATION); the driver answers in the same bytes",
        24 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData, at most 65536",
        28 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display of a primary; else 0",
        32 Flags: D3DDDI_ALLOCATIONINFO2_FLAGS = "in: bits of D3DDDI_ALLOCATIONINFO2_FLAGS",
        40 GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS = "out: where engines use CPU addresses: the allocation's address; else 0",
        48 Anonymous2: D3DDDI_ALLOCATIONINFO2_PRIORITY,
        56 Reserved: [ULONG_PTR; 5] = "in: 0",
    }

    number D3DKMT_STANDARDALLOCATIONTYPE { INT;
        D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP = 1: "memory that the program has already",
        D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE = 2: "refused: the store behind another allocation",
    }

    flags D3DKMT_CREATESTANDARDALLOCATIONFLAGS { UINT;
        0 32 Reserved = "flag: refused: no flag has a meaning yet",
    }

    structure D3DKMT_CREATESTANDARDALLOCATION { 24;
        0 Type: D3DKMT_STANDARDALLOCATIONTYPE = "in: D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP",
        8 ExistingHeapData: D3DKMT_STANDARDALLOCATION_EXISTINGHEAP = "in: the size of the memory that exists",
        16 Flags: D3DKMT_CREATESTANDARDALLOCATIONFLAGS = "in: 0",
    }

    structure D3DKMT_STANDARDALLOCATION_EXISTINGHEAP { 8;
        0 Size: SIZE_T = "in: bytes, a multiple of 4096",
    }

    alternative D3DKMT_CREATEALLOCATION_DATA { 8;
        pStandardAllocation: *mut D3DKMT_CREATESTANDARDALLOCATION = "in: with StandardAllocation: the description",
        pPrivateDriverData: *const VOID = "in, optional: else the driver's data of the call as a whole",
    }

    alternative D3DKMT_CREATEALLOCATION_INFO { 8;
        pAllocationInfo: *mut D3DDDI_ALLOCATIONINFO = "in, out: of D3DKMTCreateAllocation: an array of NumAllocations entries",
        pAllocationInfo2: *mut D3DDDI_ALLOCATIONINFO2 = "in, out: of D3DKMTCreateAllocation2: an array of NumAllocations entries",
    }

    structure D3DKMT_CREATEALLOCATION { 72;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hResource: D3DKMT_HANDLE = "in, out: a resource that is to get the allocations, or 0; out the new one with CreateResource",
        8 hGlobalShare: D3DKMT_HANDLE = "out: with CreateShared and without NtSecuritySharing: the handle that other processes open; else 0",
        16 pPrivateRuntimeData: *const VOID = "in, optional: bytes that the kernel keeps for programs that open the resource",
        24 PrivateRuntimeDataSize: UINT = "in: bytes at pPrivateRuntimeData",
        32 Anonymous1: D3DKMT_CREATEALLOCATION_DATA,
        40 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData; with StandardAllocation 0, or the size of its description",
        44 NumAllocations: UINT = "in: allocations; 0 makes an empty resource",
        48 Anonymous2: D3DKMT_CREATEALLOCATION_INFO,
        56 Flags: D3DKMT_CREATEALLOCATIONFLAGS = "in, out: bits of D3DKMT_CREATEALLOCATIONFLAGS; out with Zeroed",
        64 hPrivateRuntimeResourceHandle: HANDLE = "unread: the runtime's own name of the resource",
    }

    // spec: memory §6.2
    flags D3DDDICB_DESTROYALLOCATION2FLAGS { UINT;
        0 1 AssumeNotInUse = "flag: the program vouches that none of its commands that wait uses the allocations",
        1 1 SynchronousDestroy = "flag: the call returns when the memory is free again",
        31 1 SystemUseOnly = "flag: refused: not for user mode",
    }

    structure D3DKMT_DESTROYALLOCATION2 { 24;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hResource: D3DKMT_HANDLE = "in, optional: a resource, which goes with all its allocations; 0: the list counts",
        8 phAllocationList: *const D3DKMT_HANDLE = "in, optional: an array: the allocations, if hResource is 0",
        16 AllocationCount: UINT = "in: entries of phAllocationList",
        20 Flags: D3DDDICB_DESTROYALLOCATION2FLAGS = "in: bits of D3DDDICB_DESTROYALLOCATION2FLAGS",
    }

    structure D3DKMT_DESTROYALLOCATION { 24;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hResource: D3DKMT_HANDLE = "in, optional: a resource, which goes with all its allocations; 0: the list counts",
        8 phAllocationList: *const D3DKMT_HANDLE = "in, optional: an array: the allocations, if hResource is 0",
        16 AllocationCount: UINT = "in: entries of phAllocationList",
    }

    // spec: memory §2.3
    structure D3DKMT_SETALLOCATIONPRIORITY { 32;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hResource: D3DKMT_HANDLE = "in, optional: a resource, whose allocations all get the one priority; 0: the list counts",
        8 phAllocationList: *const D3DKMT_HANDLE = "in, optional: an array: the allocations, if hResource is 0",
        16 AllocationCount: UINT = "in: entries of phAllocationList",
        24 pPriorities: *const UINT = "in: an array: one priority an allocation, or one for the resource",
    }

    // spec: memory §9.2
    number D3DKMT_ALLOCATIONRESIDENCYSTATUS { INT;
        D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY = 1: "the content lies in the adapter's own memory",
        D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY = 2: "the content lies in system memory that the adapter reaches",
        D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT = 3: "the adapter does not reach the content",
    }

    structure D3DKMT_QUERYALLOCATIONRESIDENCY { 32;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hResource: D3DKMT_HANDLE = "in, optional: a resource, which has the one answer; 0: the list counts",
        8 phAllocationList: *const D3DKMT_HANDLE = "in, optional: an array: the allocations, if hResource is 0",
        16 AllocationCount: UINT = "in: entries of phAllocationList",
        24 pResidencyStatus: *mut D3DKMT_ALLOCATIONRESIDENCYSTATUS = "out: an array: one D3DKMT_ALLOCATIONRESIDENCYSTATUS an allocation, or one for the resource",
    }

    // spec: memory §7.2
    flags D3DDDI_ALLOCATIONLIST_FLAGS { UINT;
        0 1 WriteOperation = "flag: commands store into the allocation",
        1 1 DoNotRetireInstance = "flag: a renamed instance stays the allocation's own",
        2 3 OfferPriority = "flag: not 0: the allocation is offered behind the commands, with this priority",
    }

    structure D3DDDI_ALLOCATIONLIST { 8;
        0 hAllocation: D3DKMT_HANDLE = "in: an allocation that the commands use; 0: none",
        4 Anonymous: D3DDDI_ALLOCATIONLIST_FLAGS,
    }

    // spec: memory §7.3
    flags D3DDDI_PATCHLOCATIONLIST_SLOT { UINT;
        0 24 SlotId = "flag: the slot, 24 bits: an entry of the same slot replaces the one before",
    }

    structure D3DDDI_PATCHLOCATIONLIST { 24;
        0 AllocationIndex: UINT = "in: index of the allocation in the allocation list",
        4 Anonymous: D3DDDI_PATCHLOCATIONLIST_SLOT,
        8 DriverId: UINT = "in: the driver's own; the software GPU's reads none",
        12 AllocationOffset: UINT = "in: bytes that are added to the allocation's address",
        16 PatchOffset: UINT = "in: bytes from the start of the commands to the place of the address",
        20 SplitOffset: UINT = "in: bytes of commands that can run without the allocation; entries never fall",
    }
}
