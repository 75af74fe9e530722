//! Residency: paging queues, lists, trims, offers (memory §4.9, §5).

use crate::layout::layout;
use crate::number::*;

/// The library calls it with the request of a trim; the structure is good during the call only. The program that registers it vouches for
/// it.
pub type PFND3DKMT_TRIMNOTIFICATIONCALLBACK = Option<extern "C" fn(*mut D3DKMT_TRIMNOTIFICATION)>;

/// The library calls it with a new budget; the structure is good during the call only. The program that registers it vouches for it.
pub type PFND3DKMT_BUDGETCHANGENOTIFICATIONCALLBACK = Option<extern "C" fn(*mut D3DKMT_BUDGETCHANGENOTIFICATION)>;

layout! {
    number D3DDDI_PAGINGQUEUE_PRIORITY { INT;
        D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL = -1: "behind the other paging queues",
        D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL = 0: "as most paging queues",
        D3DDDI_PAGINGQUEUE_PRIORITY_ABOVE_NORMAL = 1: "before the other paging queues",
    }

    // spec: memory §4.9
    structure D3DKMT_CREATEPAGINGQUEUE { 32;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 Priority: D3DDDI_PAGINGQUEUE_PRIORITY = "in: D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL or another of its enumeration",
        8 hPagingQueue: D3DKMT_HANDLE = "out: the paging queue",
        12 hSyncObject: D3DKMT_HANDLE = "out: the queue's fence, for waits; paging fence values are its values",
        16 FenceValueCPUVirtualAddress: *mut VOID = "out: the fence's value, 64 bits, for reading only",
        24 PhysicalAdapterIndex: UINT = "in: 0: an adapter has one physical adapter",
    }

    structure D3DDDI_DESTROYPAGINGQUEUE { 4;
        0 hPagingQueue: D3DKMT_HANDLE = "in: the paging queue",
    }

    flags D3DDDI_MAKERESIDENT_FLAGS { UINT;
        0 1 CantTrimFurther = "flag: the allocations come although the process exceeds its budget",
        1 1 MustSucceed = "flag: a failure loses the device; needs CantTrimFurther",
    }

    // spec: memory §5.2
    structure D3DDDI_MAKERESIDENT { 48;
        0 hPagingQueue: D3DKMT_HANDLE = "in: the paging queue",
        4 NumAllocations: UINT = "in, out: entries of AllocationList; out the same, or 0 with a refusal",
        8 AllocationList: *const D3DKMT_HANDLE = "in: an array: the allocations; each counts once more as resident",
        16 PriorityList: *const UINT = "unread: no priority has an effect",
        24 Flags: D3DDDI_MAKERESIDENT_FLAGS = "in: bits of D3DDDI_MAKERESIDENT_FLAGS",
        32 PagingFenceValue: UINT64 = "out: the paging queue's value to wait for with STATUS_PENDING; else 0",
        40 NumBytesToTrim: UINT64 = "out: 0; with a refusal the bytes that the process must evict first",
    }

    flags D3DDDI_EVICT_FLAGS { UINT;
        0 1 EvictOnlyIfNecessary = "flag: the content stays until memory is short",
        1 1 NotWrittenTo = "flag: the GPU has stored nothing since the content came",
    }

    // spec: memory §5.3
    structure D3DKMT_EVICT { 32;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 NumAllocations: UINT = "in: entries of AllocationList",
        8 AllocationList: *const D3DKMT_HANDLE = "in: an array: the allocations; each counts once less as resident",
        16 Flags: D3DDDI_EVICT_FLAGS = "in: bits of D3DDDI_EVICT_FLAGS",
        24 NumBytesToTrim: UINT64 = "out: bytes by which the process still exceeds its budget",
    }

    // spec: memory §5.4
    flags D3DDDI_TRIMRESIDENCYSET_FLAGS { UINT;
        0 1 PeriodicTrim = "flag: the process may evict what it has not used for a while",
        1 1 RestartPeriodicTrim = "flag: the interval of the periodic trim begins anew",
        2 1 TrimToBudget = "flag: the process is to evict NumBytesToTrim bytes",
    }

    structure D3DKMT_TRIMNOTIFICATION { 24;
        0 Context: *mut VOID = "out: Context of the registration",
        8 Flags: D3DDDI_TRIMRESIDENCYSET_FLAGS = "out: bits of D3DDDI_TRIMRESIDENCYSET_FLAGS",
        16 NumBytesToTrim: UINT64 = "out: bytes to evict, with TrimToBudget",
    }

    structure D3DKMT_REGISTERTRIMNOTIFICATION { 40;
        0 AdapterLuid: LUID = "in, optional: an adapter's id; 0: the device's",
        8 hDevice: D3DKMT_HANDLE = "in: the device",
        16 Callback: PFND3DKMT_TRIMNOTIFICATIONCALLBACK = "in: the function, which the library calls on a thread of its own",
        24 Context: *mut VOID = "in, optional: a pointer that the callback gets back",
        32 Handle: *mut VOID = "out: the registration",
    }

    structure D3DKMT_UNREGISTERTRIMNOTIFICATION { 16;
        0 Handle: *mut VOID = "in, optional: a registration; NULL: all of Callback",
        8 Callback: PFND3DKMT_TRIMNOTIFICATIONCALLBACK = "in, optional: the function, if Handle is NULL",
    }

    // spec: memory §5.5
    structure D3DKMT_BUDGETCHANGENOTIFICATION { 16;
        0 Context: *mut VOID = "out: Context of the registration",
        8 Budget: UINT64 = "out: the new budget in bytes",
    }

    structure D3DKMT_REGISTERBUDGETCHANGENOTIFICATION { 32;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        8 Callback: PFND3DKMT_BUDGETCHANGENOTIFICATIONCALLBACK = "in: the function, which the library calls on a thread of its own",
        16 Context: *mut VOID = "in, optional: a pointer that the callback gets back",
        24 Handle: *mut VOID = "out: the registration",
    }

    structure D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION { 8;
        0 Handle: *mut VOID = "in: the registration",
    }

    // spec: memory §5.9
    number D3DKMT_OFFER_PRIORITY { INT;
        D3DKMT_OFFER_PRIORITY_LOW = 1: "the content is the first to be given up",
        D3DKMT_OFFER_PRIORITY_NORMAL = 2: "the content is given up behind that of LOW",
        D3DKMT_OFFER_PRIORITY_HIGH = 3: "the content is the last to be given up",
        D3DKMT_OFFER_PRIORITY_AUTO = 4: "the kernel chooses among the others",
    }

    flags D3DKMT_OFFER_FLAGS { UINT;
        0 1 OfferImmediately = "flag: has no effect: each offer is immediate, and what queued work uses goes only behind that work",
        1 1 AllowDecommit = "flag: the backing store may go, too",
    }

    structure D3DKMT_OFFERALLOCATIONS { 40;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        8 pResources: *mut D3DKMT_HANDLE = "in, optional: an array: resources; NULL: HandleList counts",
        16 HandleList: *const D3DKMT_HANDLE = "in, optional: an array: allocations; NULL: pResources counts",
        24 NumAllocations: UINT = "in: entries of the array that is given",
        28 Priority: D3DKMT_OFFER_PRIORITY = "in: D3DKMT_OFFER_PRIORITY_...: which content goes first",
        32 Flags: D3DKMT_OFFER_FLAGS = "in: bits of D3DKMT_OFFER_FLAGS",
    }

    number D3DDDI_RECLAIM_RESULT { INT;
        D3DDDI_RECLAIM_RESULT_OK = 0: "the content is as it was",
        D3DDDI_RECLAIM_RESULT_DISCARDED = 1: "the content is lost; the allocation is usable",
        D3DDDI_RECLAIM_RESULT_NOT_COMMITTED = 2: "content and memory are lost, and memory could not be had again",
    }

    alternative D3DKMT_RECLAIMALLOCATIONS2_RESULTS { 8;
        pDiscarded: *mut BOOL = "out, optional: an array: TRUE where the content is lost; NULL: no answer is wanted",
        pResults: *mut D3DDDI_RECLAIM_RESULT = "out, optional: an array: D3DDDI_RECLAIM_RESULT_... each; NULL: no answer is wanted",
    }

    structure D3DKMT_RECLAIMALLOCATIONS2 { 40;
        0 hPagingQueue: D3DKMT_HANDLE = "in: the paging queue",
        4 NumAllocations: UINT = "in: entries of the array that is given, and of the results",
        8 pResources: *mut D3DKMT_HANDLE = "in, optional: an array: resources; NULL: HandleList counts",
        16 HandleList: *const D3DKMT_HANDLE = "in, optional: an array: allocations; NULL: pResources counts",
        24 Anonymous: D3DKMT_RECLAIMALLOCATIONS2_RESULTS,
        32 PagingFenceValue: UINT64 = "out: the paging queue's value to wait for with STATUS_PENDING; else 0",
    }

    structure D3DKMT_FLUSHHEAPTRANSITIONS { 4;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter for whose content on its way the calling thread waits",
    }

    structure D3DKMT_RECLAIMALLOCATIONS { 40;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        8 pResources: *mut D3DKMT_HANDLE = "in, optional: an array: resources; NULL: HandleList counts",
        16 HandleList: *const D3DKMT_HANDLE = "in, optional: an array: allocations; NULL: pResources counts",
        24 pDiscarded: *mut BOOL = "out, optional: an array: TRUE where the content is lost; NULL: no answer is wanted",
        32 NumAllocations: UINT = "in: entries of the array that is given, and of pDiscarded",
    }

    structure D3DKMT_QUERYPROCESSOFFERINFO { 32;
        0 cbSize: UINT = "in: 32, the bytes of the structure",
        8 hProcess: HANDLE = "in, optional: a process of OpenWddmOpenProcess; NULL or (HANDLE)-1: the caller",
        16 DecommitUniqueness: UINT64 = "out: 0: the kernel numbers no decommitments",
        24 DecommittableBytes: UINT64 = "out: bytes of content offered with AllowDecommit whose backing store the kernel can give up now",
    }
}
