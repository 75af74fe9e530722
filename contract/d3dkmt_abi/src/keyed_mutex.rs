//! Keyed mutexes.

use crate::layout::layout;
use crate::number::*;

layout! {
    structure D3DKMT_CREATEKEYEDMUTEX { 16;
        0 InitialValue: UINT64,
        8 hSharedHandle: D3DKMT_HANDLE,
        12 hKeyedMutex: D3DKMT_HANDLE,
    }

    flags D3DKMT_CREATEKEYEDMUTEX2_FLAGS { UINT;
        0 1 NtSecuritySharing,
    }

    structure D3DKMT_CREATEKEYEDMUTEX2 { 32;
        0 InitialValue: UINT64,
        8 hSharedHandle: D3DKMT_HANDLE,
        12 hKeyedMutex: D3DKMT_HANDLE,
        16 pPrivateRuntimeData: *mut VOID,
        24 PrivateRuntimeDataSize: UINT,
        28 Flags: D3DKMT_CREATEKEYEDMUTEX2_FLAGS,
    }

    structure D3DKMT_OPENKEYEDMUTEX { 8;
        0 hSharedHandle: D3DKMT_HANDLE,
        4 hKeyedMutex: D3DKMT_HANDLE,
    }

    structure D3DKMT_OPENKEYEDMUTEX2 { 24;
        0 hSharedHandle: D3DKMT_HANDLE,
        4 hKeyedMutex: D3DKMT_HANDLE,
        8 pPrivateRuntimeData: *mut VOID,
        16 PrivateRuntimeDataSize: UINT,
    }

    structure D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE { 32;
        0 hNtHandle: HANDLE,
        8 hKeyedMutex: D3DKMT_HANDLE,
        16 pPrivateRuntimeData: *mut VOID,
        24 PrivateRuntimeDataSize: UINT,
    }

    structure D3DKMT_DESTROYKEYEDMUTEX { 4;
        0 hKeyedMutex: D3DKMT_HANDLE,
    }

    structure D3DKMT_ACQUIREKEYEDMUTEX { 32;
        0 hKeyedMutex: D3DKMT_HANDLE,
        8 Key: UINT64,
        16 pTimeout: *mut LARGE_INTEGER,
        24 FenceValue: UINT64,
    }

    structure D3DKMT_ACQUIREKEYEDMUTEX2 { 48;
        0 hKeyedMutex: D3DKMT_HANDLE,
        8 Key: UINT64,
        16 pTimeout: *mut LARGE_INTEGER,
        24 FenceValue: UINT64,
        32 pPrivateRuntimeData: *mut VOID,
        40 PrivateRuntimeDataSize: UINT,
    }

    structure D3DKMT_RELEASEKEYEDMUTEX { 24;
        0 hKeyedMutex: D3DKMT_HANDLE,
        8 Key: UINT64,
        16 FenceValue: UINT64,
    }

    structure D3DKMT_RELEASEKEYEDMUTEX2 { 40;
        0 hKeyedMutex: D3DKMT_HANDLE,
        8 Key: UINT64,
        16 FenceValue: UINT64,
        24 pPrivateRuntimeData: *mut VOID,
        32 PrivateRuntimeDataSize: UINT,
    }
}
