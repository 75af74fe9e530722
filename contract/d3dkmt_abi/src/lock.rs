//! CPU access: locks, cache maintenance (memory §6.3, §6.5, §6.7).

use crate::layout::layout;
use crate::number::*;

layout! {
    flags D3DDDICB_LOCK2FLAGS { UINT;
        0 32 Reserved,
    }

    // spec: memory §6.3
    structure D3DKMT_LOCK2 { 24;
        0 hDevice: D3DKMT_HANDLE,
        4 hAllocation: D3DKMT_HANDLE,
        8 Flags: D3DDDICB_LOCK2FLAGS,
        16 pData: *mut VOID,
    }

    structure D3DKMT_UNLOCK2 { 8;
        0 hDevice: D3DKMT_HANDLE,
        4 hAllocation: D3DKMT_HANDLE,
    }

    // spec: memory §6.5
    flags D3DDDICB_LOCKFLAGS { UINT;
        0 1 ReadOnly,
        1 1 WriteOnly,
        2 1 DonotWait,
        3 1 IgnoreSync,
        4 1 LockEntire,
        5 1 DonotEvict,
        6 1 AcquireAperture,
        7 1 Discard,
        8 1 NoExistingReference,
        9 1 UseAlternateVA,
        10 1 IgnoreReadSync,
    }

    structure D3DKMT_LOCK { 48;
        0 hDevice: D3DKMT_HANDLE,
        4 hAllocation: D3DKMT_HANDLE,
        8 PrivateDriverData: UINT,
        12 NumPages: UINT,
        16 pPages: *const UINT,
        24 pData: *mut VOID,
        32 Flags: D3DDDICB_LOCKFLAGS,
        40 GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
    }

    structure D3DKMT_UNLOCK { 16;
        0 hDevice: D3DKMT_HANDLE,
        4 NumAllocations: UINT,
        8 phAllocations: *const D3DKMT_HANDLE,
    }

    // spec: memory §6.7
    structure D3DKMT_INVALIDATECACHE { 24;
        0 hDevice: D3DKMT_HANDLE,
        4 hAllocation: D3DKMT_HANDLE,
        8 Offset: SIZE_T,
        16 Length: SIZE_T,
    }
}
