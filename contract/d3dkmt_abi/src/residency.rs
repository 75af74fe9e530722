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
        D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL = -1,
        D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL = 0,
        D3DDDI_PAGINGQUEUE_PRIORITY_ABOVE_NORMAL = 1,
    }

    // spec: memory §4.9
    structure D3DKMT_CREATEPAGINGQUEUE { 32;
        0 hDevice: D3DKMT_HANDLE,
        4 Priority: D3DDDI_PAGINGQUEUE_PRIORITY,
        8 hPagingQueue: D3DKMT_HANDLE,
        12 hSyncObject: D3DKMT_HANDLE,
        16 FenceValueCPUVirtualAddress: *mut VOID,
        24 PhysicalAdapterIndex: UINT,
    }

    structure D3DDDI_DESTROYPAGINGQUEUE { 4;
        0 hPagingQueue: D3DKMT_HANDLE,
    }

    flags D3DDDI_MAKERESIDENT_FLAGS { UINT;
        0 1 CantTrimFurther,
        1 1 MustSucceed,
    }

    // spec: memory §5.2
    structure D3DDDI_MAKERESIDENT { 48;
        0 hPagingQueue: D3DKMT_HANDLE,
        4 NumAllocations: UINT,
        8 AllocationList: *const D3DKMT_HANDLE,
        16 PriorityList: *const UINT,
        24 Flags: D3DDDI_MAKERESIDENT_FLAGS,
        32 PagingFenceValue: UINT64,
        40 NumBytesToTrim: UINT64,
    }

    flags D3DDDI_EVICT_FLAGS { UINT;
        0 1 EvictOnlyIfNecessary,
        1 1 NotWrittenTo,
    }

    // spec: memory §5.3
    structure D3DKMT_EVICT { 32;
        0 hDevice: D3DKMT_HANDLE,
        4 NumAllocations: UINT,
        8 AllocationList: *const D3DKMT_HANDLE,
        16 Flags: D3DDDI_EVICT_FLAGS,
        24 NumBytesToTrim: UINT64,
    }

    // spec: memory §5.4
    flags D3DDDI_TRIMRESIDENCYSET_FLAGS { UINT;
        0 1 PeriodicTrim,
        1 1 RestartPeriodicTrim,
        2 1 TrimToBudget,
    }

    structure D3DKMT_TRIMNOTIFICATION { 24;
        0 Context: *mut VOID,
        8 Flags: D3DDDI_TRIMRESIDENCYSET_FLAGS,
        16 NumBytesToTrim: UINT64,
    }

    structure D3DKMT_REGISTERTRIMNOTIFICATION { 40;
        0 AdapterLuid: LUID,
        8 hDevice: D3DKMT_HANDLE,
        16 Callback: PFND3DKMT_TRIMNOTIFICATIONCALLBACK,
        24 Context: *mut VOID,
        32 Handle: *mut VOID,
    }

    structure D3DKMT_UNREGISTERTRIMNOTIFICATION { 16;
        0 Handle: *mut VOID,
        8 Callback: PFND3DKMT_TRIMNOTIFICATIONCALLBACK,
    }

    // spec: memory §5.5
    structure D3DKMT_BUDGETCHANGENOTIFICATION { 16;
        0 Context: *mut VOID,
        8 Budget: UINT64,
    }

    structure D3DKMT_REGISTERBUDGETCHANGENOTIFICATION { 32;
        0 hDevice: D3DKMT_HANDLE,
        8 Callback: PFND3DKMT_BUDGETCHANGENOTIFICATIONCALLBACK,
        16 Context: *mut VOID,
        24 Handle: *mut VOID,
    }

    structure D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION { 8;
        0 Handle: *mut VOID,
    }

    // spec: memory §5.9
    number D3DKMT_OFFER_PRIORITY { INT;
        D3DKMT_OFFER_PRIORITY_LOW = 1,
        D3DKMT_OFFER_PRIORITY_NORMAL = 2,
        D3DKMT_OFFER_PRIORITY_HIGH = 3,
        D3DKMT_OFFER_PRIORITY_AUTO = 4,
    }

    flags D3DKMT_OFFER_FLAGS { UINT;
        0 1 OfferImmediately,
        1 1 AllowDecommit,
    }

    structure D3DKMT_OFFERALLOCATIONS { 40;
        0 hDevice: D3DKMT_HANDLE,
        8 pResources: *mut D3DKMT_HANDLE,
        16 HandleList: *const D3DKMT_HANDLE,
        24 NumAllocations: UINT,
        28 Priority: D3DKMT_OFFER_PRIORITY,
        32 Flags: D3DKMT_OFFER_FLAGS,
    }

    number D3DDDI_RECLAIM_RESULT { INT;
        D3DDDI_RECLAIM_RESULT_OK = 0,
        D3DDDI_RECLAIM_RESULT_DISCARDED = 1,
        D3DDDI_RECLAIM_RESULT_NOT_COMMITTED = 2,
    }

    alternative D3DKMT_RECLAIMALLOCATIONS2_RESULTS { 8;
        pDiscarded: *mut BOOL,
        pResults: *mut D3DDDI_RECLAIM_RESULT,
    }

    structure D3DKMT_RECLAIMALLOCATIONS2 { 40;
        0 hPagingQueue: D3DKMT_HANDLE,
        4 NumAllocations: UINT,
        8 pResources: *mut D3DKMT_HANDLE,
        16 HandleList: *const D3DKMT_HANDLE,
        24 Anonymous: D3DKMT_RECLAIMALLOCATIONS2_RESULTS,
        32 PagingFenceValue: UINT64,
    }

    structure D3DKMT_FLUSHHEAPTRANSITIONS { 4;
        0 hAdapter: D3DKMT_HANDLE,
    }

    structure D3DKMT_RECLAIMALLOCATIONS { 40;
        0 hDevice: D3DKMT_HANDLE,
        8 pResources: *mut D3DKMT_HANDLE,
        16 HandleList: *const D3DKMT_HANDLE,
        24 pDiscarded: *mut BOOL,
        32 NumAllocations: UINT,
    }
}
