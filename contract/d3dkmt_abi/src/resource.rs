//! Shared resources: queries and opening (memory §2.7).

use crate::layout::layout;
use crate::number::*;

layout! {
    structure D3DDDI_OPENALLOCATIONINFO { 24;
        0 hAllocation: D3DKMT_HANDLE = "out: the allocation in this device",
        8 pPrivateDriverData: *const VOID = "out: the driver's data of the allocation, in pTotalPrivateDriverDataBuffer",
        16 PrivateDriverDataSize: UINT = "out: bytes at pPrivateDriverData",
    }

    structure D3DDDI_OPENALLOCATIONINFO2 { 80;
        0 hAllocation: D3DKMT_HANDLE = "out: the allocation in this device",
        8 pPrivateDriverData: *const VOID = "out: the driver's data of the allocation, in pTotalPrivateDriverDataBuffer",
        16 PrivateDriverDataSize: UINT = "out: bytes at pPrivateDriverData",
        24 GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS = "out: where engines use CPU addresses: the allocation's address; else 0",
        32 Reserved: [ULONG_PTR; 6] = "out: 0",
    }

    structure D3DKMT_QUERYRESOURCEINFO { 32;
        0 hDevice: D3DKMT_HANDLE = "in: the device that is to open the resource",
        4 hGlobalShare: D3DKMT_HANDLE = "in: the handle that hGlobalShare of the creation gave",
        8 pPrivateRuntimeData: *mut VOID = "unread: no byte is written there",
        16 PrivateRuntimeDataSize: UINT = "out: bytes of the creator's pPrivateRuntimeData",
        20 TotalPrivateDriverDataSize: UINT = "out: bytes of the driver's data of all allocations together",
        24 ResourcePrivateDriverDataSize: UINT = "out: bytes of the driver's data of the resource",
        28 NumAllocations: UINT = "out: allocations of the resource",
    }

    structure D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE { 40;
        0 hDevice: D3DKMT_HANDLE = "in: the device that is to open the resource",
        8 hNtHandle: HANDLE = "in: an NT handle of the resource",
        16 pPrivateRuntimeData: *mut VOID = "unread: no byte is written there",
        24 PrivateRuntimeDataSize: UINT = "out: bytes of the creator's pPrivateRuntimeData",
        28 TotalPrivateDriverDataSize: UINT = "out: bytes of the driver's data of all allocations together",
        32 ResourcePrivateDriverDataSize: UINT = "out: bytes of the driver's data of the resource",
        36 NumAllocations: UINT = "out: allocations of the resource",
    }

    alternative D3DKMT_OPENRESOURCE_INFO { 8;
        pOpenAllocationInfo: *mut D3DDDI_OPENALLOCATIONINFO = "out: of D3DKMTOpenResource: an array of NumAllocations entries",
        pOpenAllocationInfo2: *mut D3DDDI_OPENALLOCATIONINFO2 = "out: of D3DKMTOpenResource2: an array of NumAllocations entries",
    }

    structure D3DKMT_OPENRESOURCE { 72;
        0 hDevice: D3DKMT_HANDLE = "in: the device that opens the resource",
        4 hGlobalShare: D3DKMT_HANDLE = "in: the handle that hGlobalShare of the creation gave",
        8 NumAllocations: UINT = "in: allocations of the resource, as the query told",
        16 Anonymous: D3DKMT_OPENRESOURCE_INFO,
        24 pPrivateRuntimeData: *mut VOID = "out: the creator's bytes",
        32 PrivateRuntimeDataSize: UINT = "in: bytes at pPrivateRuntimeData, exactly as the query told",
        40 pResourcePrivateDriverData: *mut VOID = "out: the driver's data of the resource",
        48 ResourcePrivateDriverDataSize: UINT = "in: bytes at pResourcePrivateDriverData, exactly as the query told",
        56 pTotalPrivateDriverDataBuffer: *mut VOID = "out: the driver's data of the allocations, one behind the other",
        64 TotalPrivateDriverDataBufferSize: UINT = "in, out: bytes at pTotalPrivateDriverDataBuffer, at least as the query told; out the bytes written",
        68 hResource: D3DKMT_HANDLE = "out: the resource in this device",
    }

    structure D3DKMT_OPENRESOURCEFROMNTHANDLE { 104;
        0 hDevice: D3DKMT_HANDLE = "in: the device that opens the resource",
        8 hNtHandle: HANDLE = "in: an NT handle of the resource",
        16 NumAllocations: UINT = "in: allocations of the resource, as the query told",
        24 pOpenAllocationInfo2: *mut D3DDDI_OPENALLOCATIONINFO2 = "out: an array of NumAllocations entries",
        32 PrivateRuntimeDataSize: UINT = "in: bytes at pPrivateRuntimeData, exactly as the query told",
        40 pPrivateRuntimeData: *mut VOID = "out: the creator's bytes",
        48 ResourcePrivateDriverDataSize: UINT = "in: bytes at pResourcePrivateDriverData, exactly as the query told",
        56 pResourcePrivateDriverData: *mut VOID = "out: the driver's data of the resource",
        64 TotalPrivateDriverDataBufferSize: UINT = "in, out: bytes at pTotalPrivateDriverDataBuffer, at least as the query told; out the bytes written",
        72 pTotalPrivateDriverDataBuffer: *mut VOID = "out: the driver's data of the allocations, one behind the other",
        80 hResource: D3DKMT_HANDLE = "out: the resource in this device",
        84 hKeyedMutex: D3DKMT_HANDLE = "out: the keyed mutex that was shared with the resource; 0: none was",
        88 pKeyedMutexPrivateRuntimeData: *mut VOID = "in, optional: bytes for the keyed mutex, if it has none yet",
        96 KeyedMutexPrivateRuntimeDataSize: UINT = "in: bytes at pKeyedMutexPrivateRuntimeData",
        100 hSyncObject: D3DKMT_HANDLE = "out: the synchronization object that was shared with the resource; 0: none was",
    }

    structure D3DKMT_GETSHAREDRESOURCEADAPTERLUID { 24;
        0 hGlobalShare: D3DKMT_HANDLE = "in, optional: a global handle of a resource; 0: hNtHandle counts",
        8 hNtHandle: HANDLE = "in, optional: an NT handle of a resource; NULL: hGlobalShare counts",
        16 AdapterLuid: LUID = "out: the id of the adapter on which the resource was created",
    }

    structure D3DKMT_CHECKSHAREDRESOURCEACCESS { 8;
        0 hResource: D3DKMT_HANDLE = "in: a shared resource of the caller, or a global handle of a resource",
        4 ClientPid: UINT = "in: the number of the process in question, as D3DKMTEnumProcesses tells",
    }
}
