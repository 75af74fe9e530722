//! Priorities of contexts and processes (sync §4.2), priorities and properties of allocations (memory §2.3, §2.8).

use crate::layout::layout;
use crate::number::*;

layout! {
    structure D3DKMT_GETCONTEXTSCHEDULINGPRIORITY { 8;
        0 hContext: D3DKMT_HANDLE,
        4 Priority: INT,
    }

    structure D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY { 8;
        0 hContext: D3DKMT_HANDLE,
        4 Priority: INT,
    }

    structure D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY { 8;
        0 hContext: D3DKMT_HANDLE,
        4 Priority: INT,
    }

    // spec: sync §4.2
    number D3DKMT_SCHEDULINGPRIORITYCLASS { INT;
        D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE = 0,
        D3DKMT_SCHEDULINGPRIORITYCLASS_BELOW_NORMAL = 1,
        D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL = 2,
        D3DKMT_SCHEDULINGPRIORITYCLASS_ABOVE_NORMAL = 3,
        D3DKMT_SCHEDULINGPRIORITYCLASS_HIGH = 4,
        D3DKMT_SCHEDULINGPRIORITYCLASS_REALTIME = 5,
    }

    structure D3DKMT_GETALLOCATIONPRIORITY { 32;
        0 hDevice: D3DKMT_HANDLE,
        4 hResource: D3DKMT_HANDLE,
        8 phAllocationList: *const D3DKMT_HANDLE,
        16 AllocationCount: UINT,
        24 pPriorities: *mut UINT,
    }

    // spec: memory §2.8
    flags D3DDDI_SEGMENTPREFERENCE { UINT;
        0 5 SegmentId0,
        5 1 Direction0,
        6 5 SegmentId1,
        11 1 Direction1,
        12 5 SegmentId2,
        17 1 Direction2,
        18 5 SegmentId3,
        23 1 Direction3,
        24 5 SegmentId4,
        29 1 Direction4,
    }

    flags D3DDDI_UPDATEALLOCPROPERTY_FLAGS { UINT;
        0 1 AccessedPhysically,
        1 1 Unmoveable,
    }

    flags D3DDDI_UPDATEALLOCPROPERTY_SETS { UINT;
        0 1 SetAccessedPhysically,
        1 1 SetSupportedSegmentSet,
        2 1 SetPreferredSegment,
        3 1 SetUnmoveable,
    }

    alternative D3DDDI_UPDATEALLOCPROPERTY_MASK { 4;
        Anonymous: D3DDDI_UPDATEALLOCPROPERTY_SETS,
        PropertyMaskValue: UINT,
    }

    structure D3DDDI_UPDATEALLOCPROPERTY { 40;
        0 hPagingQueue: D3DKMT_HANDLE,
        4 hAllocation: D3DKMT_HANDLE,
        8 SupportedSegmentSet: UINT,
        12 PreferredSegment: D3DDDI_SEGMENTPREFERENCE,
        16 Flags: D3DDDI_UPDATEALLOCPROPERTY_FLAGS,
        24 PagingFenceValue: UINT64,
        32 Anonymous: D3DDDI_UPDATEALLOCPROPERTY_MASK,
    }
}
