//! Figures of adapters: D3DKMTQueryStatistics, D3DKMTEnumProcesses, D3DKMTQueryClockCalibration.

mod adapter;

pub use adapter::*;

use crate::adapter::D3DKMT_MEMORY_SEGMENT_GROUP;
use crate::context::D3DKMT_CLIENTHINT;
use crate::layout::layout;
use crate::number::*;

/// Those of a whole adapter.
pub(crate) const ADAPTER_ITEMS: &[crate::Item] = adapter::ITEMS;

layout! {
    structure D3DKMT_ENUMPROCESSES { 24;
        0 AdapterLuid: LUID = "in: the adapter's id",
        8 pBuffer: *mut ULONG = "out, optional: an array: the processes that have a device there; NULL asks for their number",
        16 BufferCount: SIZE_T = "in, out: entries of pBuffer; out the number of processes, also with STATUS_BUFFER_TOO_SMALL",
    }

    flags DXGK_GPUCLOCKDATA_FLAGS { UINT;
        0 1 ContextManagementProcessor = "flag, out: never set",
    }

    packed DXGK_GPUCLOCKDATA { 28;
        0 GpuFrequency: UINT64 = "out: ticks of the node's clock a second",
        8 GpuClockCounter: UINT64 = "out: the node's clock, in ticks",
        16 CpuClockCounter: UINT64 = "out: the kernel's clock at the same moment, in nanoseconds",
        24 Flags: DXGK_GPUCLOCKDATA_FLAGS = "out: 0",
    }

    packed D3DKMT_QUERYCLOCKCALIBRATION { 40;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 NodeOrdinal: UINT = "in: the node, from 0",
        8 PhysicalAdapterIndex: UINT = "in: 0: an adapter has one physical adapter",
        12 ClockData: DXGK_GPUCLOCKDATA = "out: both clocks",
    }

    number D3DKMT_QUERYSTATISTICS_TYPE { INT;
        D3DKMT_QUERYSTATISTICS_ADAPTER = 0: "answered: AdapterInformation",
        D3DKMT_QUERYSTATISTICS_PROCESS = 1: "answered: ProcessInformation",
        D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER = 2: "answered: ProcessAdapterInformation",
        D3DKMT_QUERYSTATISTICS_SEGMENT = 3: "answered: SegmentInformation",
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT = 4: "answered: ProcessSegmentInformation",
        D3DKMT_QUERYSTATISTICS_NODE = 5: "answered: NodeInformation",
        D3DKMT_QUERYSTATISTICS_PROCESS_NODE = 6: "answered: ProcessNodeInformation",
        D3DKMT_QUERYSTATISTICS_VIDPNSOURCE = 7: "answered: VidPnSourceInformation",
        D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE = 8: "refused: flips are counted by source, not by process",
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP = 9: "answered: ProcessSegmentGroupInformation",
        D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER = 10: "answered: PhysAdapterInformation",
        D3DKMT_QUERYSTATISTICS_ADAPTER2 = 11: "answered: as D3DKMT_QUERYSTATISTICS_ADAPTER, of a physical adapter",
        D3DKMT_QUERYSTATISTICS_SEGMENT2 = 12: "answered: as D3DKMT_QUERYSTATISTICS_SEGMENT, of a physical adapter",
        D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2 = 13: "answered: as D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER, of a physical adapter",
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2 = 14: "answered: as D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, of a physical adapter",
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2 = 15: "answered: as D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, of a physical adapter",
        D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE = 16: "answered: SegmentUsageInformation",
        D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE = 17: "answered: SegmentGroupUsageInformation",
        D3DKMT_QUERYSTATISTICS_NODE2 = 18: "answered: as D3DKMT_QUERYSTATISTICS_NODE, of a physical adapter",
        D3DKMT_QUERYSTATISTICS_PROCESS_NODE2 = 19: "answered: as D3DKMT_QUERYSTATISTICS_PROCESS_NODE, of a physical adapter",
    }

    number D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE { INT;
        D3DKMT_RenderCommandBuffer = 0: "commands of programs; counted here",
        D3DKMT_DeferredCommandBuffer = 1: "deferred commands; 0 here",
        D3DKMT_SystemCommandBuffer = 2: "paging work of the kernel; counted here",
        D3DKMT_MmIoFlipCommandBuffer = 3: "flips by registers; 0 here",
        D3DKMT_WaitCommandBuffer = 4: "waits; 0 here",
        D3DKMT_SignalCommandBuffer = 5: "signals; 0 here",
        D3DKMT_DeviceCommandBuffer = 6: "commands to a device; 0 here",
        D3DKMT_SoftwareCommandBuffer = 7: "commands that no GPU carries out; 0 here",
        D3DKMT_QueuePacketTypeMax = 8: "the count of the kinds above",
    }

    number D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE { INT;
        D3DKMT_ClientRenderBuffer = 0: "commands of programs; counted here",
        D3DKMT_ClientPagingBuffer = 1: "paging work of programs; 0 here",
        D3DKMT_SystemPagingBuffer = 2: "paging work of the kernel; counted here",
        D3DKMT_SystemPreemptionBuffer = 3: "preemptions; 0 here",
        D3DKMT_DmaPacketTypeMax = 4: "the count of the kinds above",
    }

    number D3DKMT_QUERYSTATISTICS_ALLOCATION_PRIORITY_CLASS { INT;
        D3DKMT_AllocationPriorityClassMinimum = 0: "allocations of the lowest priority",
        D3DKMT_AllocationPriorityClassLow = 1: "allocations of low priority",
        D3DKMT_AllocationPriorityClassNormal = 2: "allocations of normal priority; all demoted bytes are counted here",
        D3DKMT_AllocationPriorityClassHigh = 3: "allocations of high priority",
        D3DKMT_AllocationPriorityClassMaximum = 4: "allocations of the highest priority",
        D3DKMT_MaxAllocationPriorityClass = 5: "the count of the classes above",
    }

    flags D3DKMT_QUERYSTATISTICS_SEGMENT_POWER_FLAGS { UINT64;
        0 1 PreservedDuringStandby = "flag, out: never set",
        1 1 PreservedDuringHibernate = "flag, out: never set",
        2 1 PartiallyPreservedDuringHibernate = "flag, out: never set",
    }

    flags D3DKMT_QUERYSTATISTICS_SEGMENT_PROPERTIES { UINT64;
        0 1 SystemMemory = "flag, out: the segment is an aperture, behind which system memory lies",
    }

    structure D3DKMT_QUERYSTATISTICS_COUNTER { 16;
        0 Count: UINT = "out: 0, because the kernel has no such figure",
        8 Bytes: UINT64 = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION { 16;
        0 PacketSubmited: UINT = "out: packets submitted; the count goes round",
        4 PacketCompleted: UINT = "out: packets completed; the count goes round",
        8 PacketPreempted: UINT = "out: packets preempted; the count goes round",
        12 PacketFaulted: UINT = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION { 8;
        0 PacketSubmited: UINT = "out: packets submitted; the count goes round",
        4 PacketCompleted: UINT = "out: packets completed; the count goes round",
    }

    structure D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION { 128;
        0 QueuePacket: [D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION; 8] = "out: by D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE: render and system packets have figures",
        64 DmaPacket: [D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION; 4] = "out: by D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE: client render and system paging packets have figures",
    }

    structure D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION { 64;
        0 PreemptionCounter: [UINT; 16] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION { 272;
        0 RunningTime: LARGE_INTEGER = "out: time that the node's engine ran, in units of 100 ns",
        8 ContextSwitch: UINT = "out: switches of the node from one context to another; 0 of a single process",
        12 PreemptionStatistics: D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION = "out: 0, because the kernel has no such figure",
        76 PacketStatistics: D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION = "out: packets by kind",
        208 Reserved: [UINT64; 8] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_NODE_PERFDATA { 56;
        0 NodeOrdinal: UINT = "in: the node, for KMTQAITYPE_NODEPERFDATA; out: the same",
        4 PhysicalAdapterIndex: UINT = "in: 0, the only one; out: 0",
        8 Frequency: UINT64 = "out: 0, because the kernel has no such figure",
        16 MaxFrequency: UINT64 = "out: 0, because the kernel has no such figure",
        24 MaxFrequencyOC: UINT64 = "out: 0, because the kernel has no such figure",
        32 Voltage: UINT = "out: 0, because the kernel has no such figure",
        36 VoltageMax: UINT = "out: 0, because the kernel has no such figure",
        40 VoltageMaxOC: UINT = "out: 0, because the kernel has no such figure",
        48 MaxTransitionLatency: UINT64 = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_NODE_INFORMATION { 616;
        0 GlobalInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION = "out: of all processes",
        272 SystemInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION = "out: of the kernel's own work, paging",
        544 NodePerfData: D3DKMT_NODE_PERFDATA = "out: 0, because the kernel has no such figure",
        600 Reserved: [UINT; 3] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION { 80;
        0 Frame: UINT = "out: flips that the display has shown; the count goes round",
        4 CancelledFrame: UINT = "out: flips that the display has passed over; the count goes round",
        8 QueuedPresent: UINT = "out: 0, because the kernel has no such figure",
        12 Padding: UINT = "out: 0, because the kernel has no such figure",
        16 IsVSyncEnabled: UINT64 = "out: 0, because the kernel has no such figure",
        24 VSyncOnTotalTimeMs: UINT64 = "out: 0, because the kernel has no such figure",
        32 VSyncOffKeepPhaseTotalTimeMs: UINT64 = "out: 0, because the kernel has no such figure",
        40 VSyncOffNoPhaseTotalTimeMs: UINT64 = "out: 0, because the kernel has no such figure",
        48 Reserved: [UINT64; 4] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION { 224;
        0 GlobalInformation: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION = "out: of all processes",
        80 SystemInformation: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION = "out: 0, because the kernel has no such figure",
        160 Reserved: [UINT64; 8] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY { 80;
        0 BytesAllocated: UINT64 = "out: bytes of the process's allocations",
        8 BytesReserved: UINT64 = "out: 0, because the kernel has no such figure",
        16 SmallAllocationBlocks: UINT = "out: 0, because the kernel has no such figure",
        20 LargeAllocationBlocks: UINT = "out: 0, because the kernel has no such figure",
        24 WriteCombinedBytesAllocated: UINT64 = "out: 0, because the kernel has no such figure",
        32 WriteCombinedBytesReserved: UINT64 = "out: 0, because the kernel has no such figure",
        40 CachedBytesAllocated: UINT64 = "out: 0, because the kernel has no such figure",
        48 CachedBytesReserved: UINT64 = "out: 0, because the kernel has no such figure",
        56 SectionBytesAllocated: UINT64 = "out: 0, because the kernel has no such figure",
        64 SectionBytesReserved: UINT64 = "out: 0, because the kernel has no such figure",
        72 BytesZeroed: UINT64 = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION { 144;
        0 NodeCount: UINT = "out: nodes of the adapter",
        4 VidPnSourceCount: UINT = "out: displays of the adapter",
        8 SystemMemory: D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY = "out: memory of the process",
        88 Reserved: [UINT64; 7] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_DMA_BUFFER { 24;
        0 Size: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        16 AllocationListBytes: UINT = "out: 0, because the kernel has no such figure",
        20 PatchLocationListBytes: UINT = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA { 48;
        0 TotalBytesEvictedFromProcess: UINT64 = "out: bytes that were evicted from the process's allocations",
        8 BytesBySegmentPreference: [UINT64; 5] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_POLICY { 104;
        0 PreferApertureForRead: [UINT64; 5] = "out: 0, because the kernel has no such figure",
        40 PreferAperture: [UINT64; 5] = "out: 0, because the kernel has no such figure",
        80 MemResetOnPaging: UINT64 = "out: 0, because the kernel has no such figure",
        88 RemovePagesFromWorkingSetOnPaging: UINT64 = "out: 0, because the kernel has no such figure",
        96 MigrationEnabled: UINT64 = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS { 72;
        0 InterferenceCount: [UINT64; 9] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION { 272;
        0 NbSegments: UINT = "out: segments of the adapter",
        4 NodeCount: UINT = "out: nodes of the adapter",
        8 VidPnSourceCount: UINT = "out: displays of the adapter",
        12 VirtualMemoryUsage: UINT = "out: 0, because the kernel has no such figure",
        16 DmaBuffer: D3DKMT_QUERYSTATISTICS_DMA_BUFFER = "out: 0, because the kernel has no such figure",
        40 CommitmentData: D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA = "out: evictions",
        88 _Policy: D3DKMT_QUERYSTATISTICS_POLICY = "out: 0, because the kernel has no such figure",
        192 ProcessInterferenceCounters: D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS = "out: 0, because the kernel has no such figure",
        264 ClientHint: D3DKMT_CLIENTHINT = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_MEMORY { 16;
        0 TotalBytesEvicted: UINT64 = "out: 0, because the kernel has no such figure",
        8 AllocsCommitted: UINT = "out: 0, because the kernel has no such figure",
        12 AllocsResident: UINT = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION { 152;
        0 CommitLimit: UINT64 = "out: bytes of the segment",
        8 BytesCommitted: UINT64 = "out: bytes that allocations have been promised",
        16 BytesResident: UINT64 = "out: bytes that lie in the segment",
        24 Memory: D3DKMT_QUERYSTATISTICS_MEMORY = "out: 0, because the kernel has no such figure",
        40 Aperture: UINT = "out: 1: the segment is an aperture; 0: memory",
        48 TotalBytesEvictedByPriority: [UINT64; 5] = "out: 0, because the kernel has no such figure",
        88 SystemMemoryEndAddress: UINT64 = "out: 0, because the kernel has no such figure",
        96 PowerFlags: D3DKMT_QUERYSTATISTICS_SEGMENT_POWER_FLAGS = "out: 0, because the kernel has no such figure",
        104 SegmentProperties: D3DKMT_QUERYSTATISTICS_SEGMENT_PROPERTIES = "out: bits of D3DKMT_QUERYSTATISTICS_SEGMENT_PROPERTIES on adapters from WDDM 3.1 on, else 0",
        112 Reserved: [UINT64; 5] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION_V1 { 152;
        0 CommitLimit: ULONG = "unread: the answer of Windows 7, which the library never gives; so are the members below",
        4 BytesCommitted: ULONG = "unread: as CommitLimit",
        8 BytesResident: ULONG = "unread: as CommitLimit",
        16 Memory: D3DKMT_QUERYSTATISTICS_MEMORY = "unread: as CommitLimit",
        32 Aperture: ULONG = "unread: as CommitLimit",
        40 TotalBytesEvictedByPriority: [UINT64; 5] = "unread: as CommitLimit",
        80 SystemMemoryEndAddress: UINT64 = "unread: as CommitLimit",
        88 PowerFlags: D3DKMT_QUERYSTATISTICS_SEGMENT_POWER_FLAGS = "unread: as CommitLimit",
        96 Reserved: [UINT64; 7] = "unread: as CommitLimit",
    }

    structure D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY { 112;
        0 AllocsCommitted: UINT = "out: 0, because the kernel has no such figure",
        8 AllocsResidentInP: [D3DKMT_QUERYSTATISTICS_COUNTER; 5] = "out: 0, because the kernel has no such figure",
        88 AllocsResidentInNonPreferred: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        104 TotalBytesEvictedDueToPreparation: UINT64 = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY { 8;
        0 UseMRU: UINT64 = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION { 216;
        0 BytesCommitted: UINT64 = "out: bytes that the process's allocations have been promised",
        8 MaximumWorkingSet: UINT64 = "out: 0, because the kernel has no such figure",
        16 MinimumWorkingSet: UINT64 = "out: 0, because the kernel has no such figure",
        24 NbReferencedAllocationEvictedInPeriod: UINT = "out: 0, because the kernel has no such figure",
        28 Padding: UINT = "out: 0, because the kernel has no such figure",
        32 VideoMemory: D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY = "out: 0, because the kernel has no such figure",
        144 _Policy: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY = "out: 0, because the kernel has no such figure",
        152 Reserved: [UINT64; 8] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION { 64;
        0 Budget: UINT64 = "out: bytes that the process may use without being asked to trim",
        8 Requested: UINT64 = "out: bytes that the process uses, and those that were demoted from the local group",
        16 Usage: UINT64 = "out: bytes that the process uses",
        24 Demoted: [UINT64; 5] = "out: bytes demoted to the other group, at D3DKMT_AllocationPriorityClassNormal",
    }

    structure D3DKMT_QUERYSTATISTICS_MEMORY_USAGE { 40;
        0 AllocatedBytes: UINT64 = "out: bytes that lie in the segments",
        8 FreeBytes: UINT64 = "out: bytes that no allocation was promised",
        16 ZeroBytes: UINT64 = "out: 0, because the kernel has no such figure",
        24 ModifiedBytes: UINT64 = "out: 0, because the kernel has no such figure",
        32 StandbyBytes: UINT64 = "out: bytes promised, and not lying there",
    }

    alternative D3DKMT_QUERYSTATISTICS_RESULT { 776;
        AdapterInformation: D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION = "out: of ADAPTER and ADAPTER2",
        PhysAdapterInformation: D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION = "out: of PHYSICAL_ADAPTER",
        SegmentInformation: D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION = "out: of SEGMENT and SEGMENT2",
        NodeInformation: D3DKMT_QUERYSTATISTICS_NODE_INFORMATION = "out: of NODE and NODE2",
        VidPnSourceInformation: D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION = "out: of VIDPNSOURCE",
        ProcessInformation: D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION = "out: of PROCESS",
        ProcessAdapterInformation: D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION = "out: of PROCESS_ADAPTER and PROCESS_ADAPTER2",
        ProcessSegmentInformation: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION = "out: of PROCESS_SEGMENT and PROCESS_SEGMENT2",
        ProcessNodeInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION = "out: of PROCESS_NODE and PROCESS_NODE2",
        ProcessVidPnSourceInformation: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION = "out: of PROCESS_VIDPNSOURCE, which is STATUS_NOT_SUPPORTED",
        ProcessSegmentGroupInformation: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION = "out: of PROCESS_SEGMENT_GROUP and PROCESS_SEGMENT_GROUP2",
        SegmentUsageInformation: D3DKMT_QUERYSTATISTICS_MEMORY_USAGE = "out: of SEGMENT_USAGE",
        SegmentGroupUsageInformation: D3DKMT_QUERYSTATISTICS_MEMORY_USAGE = "out: of SEGMENT_GROUP_USAGE",
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT { 4;
        0 SegmentId: UINT = "in: the segment, counted from 0",
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2 { 4;
        0 PhysicalAdapterIndex: UINT16 = "in: 0: an adapter has one physical adapter",
        2 SegmentId: UINT16 = "in: the segment, counted from 0",
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_NODE { 4;
        0 NodeId: UINT = "in: the node, counted from 0",
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_NODE2 { 4;
        0 PhysicalAdapterIndex: UINT16 = "in: 0: an adapter has one physical adapter",
        2 NodeOrdinal: UINT16 = "in: the node, counted from 0",
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE { 4;
        0 VidPnSourceId: UINT = "in: the display",
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER { 4;
        0 PhysicalAdapterIndex: UINT = "in: 0: an adapter has one physical adapter",
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 { 2;
        0 PhysicalAdapterIndex: UINT16 = "in: 0: an adapter has one physical adapter",
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2 { 4;
        0 PhysicalAdapterIndex: UINT16 = "in: 0: an adapter has one physical adapter",
        2 SegmentGroup: UINT16 = "in: D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL or _NON_LOCAL",
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE { 4;
        0 PhysicalAdapterIndex: UINT16 = "in: 0: an adapter has one physical adapter",
        2 SegmentId: UINT16 = "in: the segment, counted from 0",
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE { 4;
        0 PhysicalAdapterIndex: UINT16 = "in: 0: an adapter has one physical adapter",
        2 SegmentGroup: UINT16 = "in: D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL or _NON_LOCAL",
    }

    alternative D3DKMT_QUERYSTATISTICS_QUERY { 4;
        QuerySegment: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT = "in: of SEGMENT",
        QueryProcessSegment: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT = "in: of PROCESS_SEGMENT",
        QueryProcessSegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP = "in: of PROCESS_SEGMENT_GROUP",
        QueryNode: D3DKMT_QUERYSTATISTICS_QUERY_NODE = "in: of NODE",
        QueryProcessNode: D3DKMT_QUERYSTATISTICS_QUERY_NODE = "in: of PROCESS_NODE",
        QueryVidPnSource: D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE = "in: of VIDPNSOURCE",
        QueryProcessVidPnSource: D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE = "in: of PROCESS_VIDPNSOURCE, which is STATUS_NOT_SUPPORTED",
        QueryPhysAdapter: D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER = "in: of PHYSICAL_ADAPTER",
        QueryAdapter2: D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 = "in: of ADAPTER2",
        QuerySegment2: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2 = "in: of SEGMENT2",
        QueryProcessAdapter2: D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 = "in: of PROCESS_ADAPTER2",
        QueryProcessSegment2: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2 = "in: of PROCESS_SEGMENT2",
        QueryProcessSegmentGroup2: D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2 = "in: of PROCESS_SEGMENT_GROUP2",
        QuerySegmentUsage: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE = "in: of SEGMENT_USAGE",
        QuerySegmentGroupUsage: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE = "in: of SEGMENT_GROUP_USAGE",
        QueryNode2: D3DKMT_QUERYSTATISTICS_QUERY_NODE2 = "in: of NODE2",
        QueryProcessNode2: D3DKMT_QUERYSTATISTICS_QUERY_NODE2 = "in: of PROCESS_NODE2",
    }

    structure D3DKMT_QUERYSTATISTICS { 808;
        0 Type: D3DKMT_QUERYSTATISTICS_TYPE = "in: the question, which is also the arm of both unions",
        4 AdapterLuid: LUID = "in: the adapter's id",
        16 hProcess: HANDLE = "in, optional: of questions about a process: a process of OpenWddmOpenProcess; NULL or (HANDLE)-1: the caller",
        24 QueryResult: D3DKMT_QUERYSTATISTICS_RESULT = "out: the answer",
        800 Anonymous: D3DKMT_QUERYSTATISTICS_QUERY,
    }
}
