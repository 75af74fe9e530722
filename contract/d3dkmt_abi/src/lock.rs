//! CPU access: locks, cache maintenance (memory §6.3, §6.5, §6.7).

use crate::layout::layout;
use crate::number::*;

layout! {
    flags D3DDDICB_LOCK2FLAGS { UINT;
        0 32 Reserved = "flag: 0",
    }

    // spec: memory §6.3
    structure D3DKMT_LOCK2 { 24;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hAllocation: D3DKMT_HANDLE = "in: an allocation that was described as CPU-visible",
        8 Flags: D3DDDICB_LOCK2FLAGS = "in: 0",
        16 pData: *mut VOID = "out: the first byte; good until D3DKMTUnlock2",
    }

    structure D3DKMT_UNLOCK2 { 8;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hAllocation: D3DKMT_HANDLE = "in: the allocation; as many unlocks as locks",
    }

    // spec: memory §6.5
    flags D3DDDICB_LOCKFLAGS { UINT;
        0 1 ReadOnly = "flag: the CPU only reads",
        1 1 WriteOnly = "flag: the CPU only stores; excludes ReadOnly",
        2 1 DonotWait = "flag: refused where the GPU uses the allocation; no effect on a WDDM 2 adapter",
        3 1 IgnoreSync = "flag: the lock does not wait for the GPU; no effect on a WDDM 2 adapter",
        4 1 LockEntire = "flag: the whole allocation: NumPages is 0; else pPages names pages",
        5 1 DonotEvict = "flag: refused where the content would have to be evicted",
        6 1 AcquireAperture = "flag: through an unswizzling range; refused on a WDDM 2 adapter",
        7 1 Discard = "flag: the old content is not needed, the allocation may be renamed; refused on a WDDM 2 adapter",
        8 1 NoExistingReference = "flag: with Discard: no buffer that waits names an instance; refused on a WDDM 2 adapter",
        9 1 UseAlternateVA = "flag: with AcquireAperture: at an address of the driver's choice; refused on a WDDM 2 adapter",
        10 1 IgnoreReadSync = "flag: the lock waits for stores of the GPU only; no effect on a WDDM 2 adapter",
    }

    structure D3DKMT_LOCK { 48;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hAllocation: D3DKMT_HANDLE = "in, out: the allocation; out the instance that a rename chose",
        8 PrivateDriverData: UINT = "in: with AcquireAperture: the driver's choice of a range; else 0",
        12 NumPages: UINT = "in: entries of pPages; 0 with LockEntire",
        16 pPages: *const UINT = "in, optional: an array: the pages that are locked",
        24 pData: *mut VOID = "out: the first byte; good until D3DKMTUnlock",
        32 Flags: D3DDDICB_LOCKFLAGS = "in: bits of D3DDDICB_LOCKFLAGS",
        40 GpuVirtualAddress: D3DGPU_VIRTUAL_ADDRESS = "out: 0",
    }

    structure D3DKMT_UNLOCK { 16;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 NumAllocations: UINT = "in: entries of phAllocations",
        8 phAllocations: *const D3DKMT_HANDLE = "in: an array: the allocations as D3DKMTLock answered them",
    }

    // spec: memory §6.7
    structure D3DKMT_INVALIDATECACHE { 24;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hAllocation: D3DKMT_HANDLE = "in: a cached allocation",
        8 Offset: SIZE_T = "in: the first byte of the range",
        16 Length: SIZE_T = "in: bytes of the range",
    }
}
