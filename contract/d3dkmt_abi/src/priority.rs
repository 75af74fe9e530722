//! Priorities of contexts and processes (sync §4.2), priorities and properties of allocations (memory §2.3, §2.8).

use crate::layout::layout;
use crate::number::*;

layout! {
    structure D3DKMT_GETCONTEXTSCHEDULINGPRIORITY { 8;
        0 hContext: D3DKMT_HANDLE = "in: a packet context or a hardware context",
        4 Priority: INT = "out: the priority, -7 to 7",
    }

    structure D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY { 8;
        0 hContext: D3DKMT_HANDLE = "in: a packet context or a hardware context",
        4 Priority: INT = "in: -7 to 7, among the contexts of the process",
    }

    structure D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY { 8;
        0 hContext: D3DKMT_HANDLE = "in: a packet context or a hardware context",
        4 Priority: INT = "out: the priority, -7 to 7",
    }

    // spec: sync §4.2
    number D3DKMT_SCHEDULINGPRIORITYCLASS { INT;
        D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE = 0: "the lowest class of processes",
        D3DKMT_SCHEDULINGPRIORITYCLASS_BELOW_NORMAL = 1: "below most processes",
        D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL = 2: "the class that a process begins with",
        D3DKMT_SCHEDULINGPRIORITYCLASS_ABOVE_NORMAL = 3: "above most processes",
        D3DKMT_SCHEDULINGPRIORITYCLASS_HIGH = 4: "for privileged processes alone",
        D3DKMT_SCHEDULINGPRIORITYCLASS_REALTIME = 5: "the highest class, for privileged processes alone",
    }

    structure D3DKMT_GETALLOCATIONPRIORITY { 32;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hResource: D3DKMT_HANDLE = "in, optional: a resource, whose priority is the one answer; 0: the list counts",
        8 phAllocationList: *const D3DKMT_HANDLE = "in, optional: an array: the allocations, if hResource is 0",
        16 AllocationCount: UINT = "in: entries of phAllocationList",
        24 pPriorities: *mut UINT = "out: an array: one priority an allocation, or one for the resource",
    }

    // spec: memory §2.8
    flags D3DDDI_SEGMENTPREFERENCE { UINT;
        0 5 SegmentId0 = "flag: the segment that is liked best, from 1; 0: none",
        5 1 Direction0 = "flag: 0: the kernel chooses the end of the segment, 1: from the top down",
        6 5 SegmentId1 = "flag: the next segment; 0: no further one",
        11 1 Direction1 = "flag: as Direction0, of SegmentId1",
        12 5 SegmentId2 = "flag: the next segment; 0: no further one",
        17 1 Direction2 = "flag: as Direction0, of SegmentId2",
        18 5 SegmentId3 = "flag: the next segment; 0: no further one",
        23 1 Direction3 = "flag: as Direction0, of SegmentId3",
        24 5 SegmentId4 = "flag: the next segment; 0: no further one",
        29 1 Direction4 = "flag: as Direction0, of SegmentId4",
    }

    flags D3DDDI_UPDATEALLOCPROPERTY_FLAGS { UINT;
        0 1 AccessedPhysically = "flag: commands name the allocation by bus address",
        1 1 Unmoveable = "flag: the allocation stays at its place",
    }

    flags D3DDDI_UPDATEALLOCPROPERTY_SETS { UINT;
        0 1 SetAccessedPhysically = "flag: AccessedPhysically counts",
        1 1 SetSupportedSegmentSet = "flag: SupportedSegmentSet counts",
        2 1 SetPreferredSegment = "flag: PreferredSegment counts",
        3 1 SetUnmoveable = "flag: Unmoveable counts",
    }

    alternative D3DDDI_UPDATEALLOCPROPERTY_MASK { 4;
        Anonymous: D3DDDI_UPDATEALLOCPROPERTY_SETS,
        PropertyMaskValue: UINT = "in: the same bits as one number",
    }

    structure D3DDDI_UPDATEALLOCPROPERTY { 40;
        0 hPagingQueue: D3DKMT_HANDLE = "in: the paging queue",
        4 hAllocation: D3DKMT_HANDLE = "in: the allocation",
        8 SupportedSegmentSet: UINT = "in: one bit a segment that may hold the allocation, bit 0 for segment 1",
        12 PreferredSegment: D3DDDI_SEGMENTPREFERENCE = "in: the segments in the order of preference",
        16 Flags: D3DDDI_UPDATEALLOCPROPERTY_FLAGS = "in: bits of D3DDDI_UPDATEALLOCPROPERTY_FLAGS",
        24 PagingFenceValue: UINT64 = "out: the paging queue's value to wait for with STATUS_PENDING; else 0",
        32 Anonymous: D3DDDI_UPDATEALLOCPROPERTY_MASK,
    }
}
