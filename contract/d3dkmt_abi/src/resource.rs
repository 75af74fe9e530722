//! Shared resources: queries and opening (memory §2.7).

use crate::layout::layout;
use crate::number::*;

layout! {
    structure D3DDDI_OPENALLOCATIONINFO { 24;
        0 hAllocation: D3DKMT_HANDLE,
        8 pPrivateDriverData: *const VOID,
        16 PrivateDriverDataSize: UINT,
    }

    structure D3DDDI_OPENALLOCATIONINFO2 { 80;
        0 hAllocation: D3DKMT_HANDLE,
        8 pPrivateDriverData: *const VOID,
        16 PrivateDriverDataSize: UINT,
        24 GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
        32 Reserved: [ULONG_PTR; 6],
    }

    structure D3DKMT_QUERYRESOURCEINFO { 32;
        0 hDevice: D3DKMT_HANDLE,
        4 hGlobalShare: D3DKMT_HANDLE,
        8 pPrivateRuntimeData: *mut VOID,
        16 PrivateRuntimeDataSize: UINT,
        20 TotalPrivateDriverDataSize: UINT,
        24 ResourcePrivateDriverDataSize: UINT,
        28 NumAllocations: UINT,
    }

    structure D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE { 40;
        0 hDevice: D3DKMT_HANDLE,
        8 hNtHandle: HANDLE,
        16 pPrivateRuntimeData: *mut VOID,
        24 PrivateRuntimeDataSize: UINT,
        28 TotalPrivateDriverDataSize: UINT,
        32 ResourcePrivateDriverDataSize: UINT,
        36 NumAllocations: UINT,
    }

    alternative D3DKMT_OPENRESOURCE_INFO { 8;
        pOpenAllocationInfo: *mut D3DDDI_OPENALLOCATIONINFO,
        pOpenAllocationInfo2: *mut D3DDDI_OPENALLOCATIONINFO2,
    }

    structure D3DKMT_OPENRESOURCE { 72;
        0 hDevice: D3DKMT_HANDLE,
        4 hGlobalShare: D3DKMT_HANDLE,
        8 NumAllocations: UINT,
        16 Anonymous: D3DKMT_OPENRESOURCE_INFO,
        24 pPrivateRuntimeData: *mut VOID,
        32 PrivateRuntimeDataSize: UINT,
        40 pResourcePrivateDriverData: *mut VOID,
        48 ResourcePrivateDriverDataSize: UINT,
        56 pTotalPrivateDriverDataBuffer: *mut VOID,
        64 TotalPrivateDriverDataBufferSize: UINT,
        68 hResource: D3DKMT_HANDLE,
    }

    structure D3DKMT_OPENRESOURCEFROMNTHANDLE { 104;
        0 hDevice: D3DKMT_HANDLE,
        8 hNtHandle: HANDLE,
        16 NumAllocations: UINT,
        24 pOpenAllocationInfo2: *mut D3DDDI_OPENALLOCATIONINFO2,
        32 PrivateRuntimeDataSize: UINT,
        40 pPrivateRuntimeData: *mut VOID,
        48 ResourcePrivateDriverDataSize: UINT,
        56 pResourcePrivateDriverData: *mut VOID,
        64 TotalPrivateDriverDataBufferSize: UINT,
        72 pTotalPrivateDriverDataBuffer: *mut VOID,
        80 hResource: D3DKMT_HANDLE,
        84 hKeyedMutex: D3DKMT_HANDLE,
        88 pKeyedMutexPrivateRuntimeData: *mut VOID,
        96 KeyedMutexPrivateRuntimeDataSize: UINT,
        100 hSyncObject: D3DKMT_HANDLE,
    }

    structure D3DKMT_GETSHAREDRESOURCEADAPTERLUID { 24;
        0 hGlobalShare: D3DKMT_HANDLE,
        8 hNtHandle: HANDLE,
        16 AdapterLuid: LUID,
    }

    structure D3DKMT_CHECKSHAREDRESOURCEACCESS { 8;
        0 hResource: D3DKMT_HANDLE,
        4 ClientPid: UINT,
    }
}
