//! Keyed mutexes.

use crate::layout::layout;
use crate::number::*;

layout! {
    structure D3DKMT_CREATEKEYEDMUTEX { 16;
        0 InitialValue: UINT64 = "in: the key that acquires the mutex first",
        8 hSharedHandle: D3DKMT_HANDLE = "out: the handle that other processes open",
        12 hKeyedMutex: D3DKMT_HANDLE = "out: the keyed mutex",
    }

    flags D3DKMT_CREATEKEYEDMUTEX2_FLAGS { UINT;
        0 1 NtSecuritySharing = "flag: shared by NT handle, together with a resource",
    }

    structure D3DKMT_CREATEKEYEDMUTEX2 { 32;
        0 InitialValue: UINT64 = "in: the key that acquires the mutex first",
        8 hSharedHandle: D3DKMT_HANDLE = "out: without NtSecuritySharing: the handle that other processes open; else 0",
        12 hKeyedMutex: D3DKMT_HANDLE = "out: the keyed mutex",
        16 pPrivateRuntimeData: *mut VOID = "in, optional: bytes that go along with the mutex",
        24 PrivateRuntimeDataSize: UINT = "in: bytes at pPrivateRuntimeData",
        28 Flags: D3DKMT_CREATEKEYEDMUTEX2_FLAGS = "in: bits of D3DKMT_CREATEKEYEDMUTEX2_FLAGS",
    }

    structure D3DKMT_OPENKEYEDMUTEX { 8;
        0 hSharedHandle: D3DKMT_HANDLE = "in: the handle that the creation gave",
        4 hKeyedMutex: D3DKMT_HANDLE = "out: the keyed mutex in this process",
    }

    structure D3DKMT_OPENKEYEDMUTEX2 { 24;
        0 hSharedHandle: D3DKMT_HANDLE = "in: the handle that the creation gave",
        4 hKeyedMutex: D3DKMT_HANDLE = "out: the keyed mutex in this process",
        8 pPrivateRuntimeData: *mut VOID = "in, optional: bytes that the mutex gets if it has none yet",
        16 PrivateRuntimeDataSize: UINT = "in: bytes at pPrivateRuntimeData",
    }

    structure D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE { 32;
        0 hNtHandle: HANDLE = "in: each is refused: D3DKMTOpenResourceFromNtHandle opens a mutex with its resource",
        8 hKeyedMutex: D3DKMT_HANDLE = "out: the keyed mutex; as each handle is refused, it stays as it was",
        16 pPrivateRuntimeData: *mut VOID = "unread: each handle is refused",
        24 PrivateRuntimeDataSize: UINT = "unread: each handle is refused",
    }

    structure D3DKMT_DESTROYKEYEDMUTEX { 4;
        0 hKeyedMutex: D3DKMT_HANDLE = "in: the keyed mutex",
    }

    structure D3DKMT_ACQUIREKEYEDMUTEX { 32;
        0 hKeyedMutex: D3DKMT_HANDLE = "in: the keyed mutex",
        8 Key: UINT64 = "in: the key with which the mutex was released last",
        16 pTimeout: *mut LARGE_INTEGER = "in, optional: units of 100 ns: 0 and less from now on, more since 1601; NULL: no limit",
        24 FenceValue: UINT64 = "out: FenceValue of the release; 0 with STATUS_TIMEOUT and STATUS_ABANDONED",
    }

    structure D3DKMT_ACQUIREKEYEDMUTEX2 { 48;
        0 hKeyedMutex: D3DKMT_HANDLE = "in: the keyed mutex",
        8 Key: UINT64 = "in: the key with which the mutex was released last",
        16 pTimeout: *mut LARGE_INTEGER = "in, optional: units of 100 ns: 0 and less from now on, more since 1601; NULL: no limit",
        24 FenceValue: UINT64 = "out: FenceValue of the release; 0 with STATUS_TIMEOUT and STATUS_ABANDONED",
        32 pPrivateRuntimeData: *mut VOID = "out, optional: the bytes that go along with the mutex",
        40 PrivateRuntimeDataSize: UINT = "in: bytes at pPrivateRuntimeData",
    }

    structure D3DKMT_RELEASEKEYEDMUTEX { 24;
        0 hKeyedMutex: D3DKMT_HANDLE = "in: the keyed mutex",
        8 Key: UINT64 = "in: the key that acquires the mutex next",
        16 FenceValue: UINT64 = "in: a value that the next owner gets",
    }

    structure D3DKMT_RELEASEKEYEDMUTEX2 { 40;
        0 hKeyedMutex: D3DKMT_HANDLE = "in: the keyed mutex",
        8 Key: UINT64 = "in: the key that acquires the mutex next",
        16 FenceValue: UINT64 = "in: a value that the next owner gets",
        24 pPrivateRuntimeData: *mut VOID = "in, optional: the bytes that go along with the mutex from then on",
        32 PrivateRuntimeDataSize: UINT = "in: bytes at pPrivateRuntimeData; 0: the bytes stay",
    }
}
