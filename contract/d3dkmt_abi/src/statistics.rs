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
        0 AdapterLuid: LUID,
        8 pBuffer: *mut ULONG,
        16 BufferCount: SIZE_T,
    }

    flags DXGK_GPUCLOCKDATA_FLAGS { UINT;
        0 1 ContextManagementProcessor,
    }

    packed DXGK_GPUCLOCKDATA { 28;
        0 GpuFrequency: UINT64,
        8 GpuClockCounter: UINT64,
        16 CpuClockCounter: UINT64,
        24 Flags: DXGK_GPUCLOCKDATA_FLAGS,
    }

    packed D3DKMT_QUERYCLOCKCALIBRATION { 40;
        0 hAdapter: D3DKMT_HANDLE,
        4 NodeOrdinal: UINT,
        8 PhysicalAdapterIndex: UINT,
        12 ClockData: DXGK_GPUCLOCKDATA,
    }

    number D3DKMT_QUERYSTATISTICS_TYPE { INT;
        D3DKMT_QUERYSTATISTICS_ADAPTER = 0,
        D3DKMT_QUERYSTATISTICS_PROCESS = 1,
        D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER = 2,
        D3DKMT_QUERYSTATISTICS_SEGMENT = 3,
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT = 4,
        D3DKMT_QUERYSTATISTICS_NODE = 5,
        D3DKMT_QUERYSTATISTICS_PROCESS_NODE = 6,
        D3DKMT_QUERYSTATISTICS_VIDPNSOURCE = 7,
        D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE = 8,
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP = 9,
        D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER = 10,
        D3DKMT_QUERYSTATISTICS_ADAPTER2 = 11,
        D3DKMT_QUERYSTATISTICS_SEGMENT2 = 12,
        D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2 = 13,
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2 = 14,
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2 = 15,
        D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE = 16,
        D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE = 17,
        D3DKMT_QUERYSTATISTICS_NODE2 = 18,
        D3DKMT_QUERYSTATISTICS_PROCESS_NODE2 = 19,
    }

    number D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE { INT;
        D3DKMT_RenderCommandBuffer = 0,
        D3DKMT_DeferredCommandBuffer = 1,
        D3DKMT_SystemCommandBuffer = 2,
        D3DKMT_MmIoFlipCommandBuffer = 3,
        D3DKMT_WaitCommandBuffer = 4,
        D3DKMT_SignalCommandBuffer = 5,
        D3DKMT_DeviceCommandBuffer = 6,
        D3DKMT_SoftwareCommandBuffer = 7,
        D3DKMT_QueuePacketTypeMax = 8,
    }

    number D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE { INT;
        D3DKMT_ClientRenderBuffer = 0,
        D3DKMT_ClientPagingBuffer = 1,
        D3DKMT_SystemPagingBuffer = 2,
        D3DKMT_SystemPreemptionBuffer = 3,
        D3DKMT_DmaPacketTypeMax = 4,
    }

    number D3DKMT_QUERYSTATISTICS_ALLOCATION_PRIORITY_CLASS { INT;
        D3DKMT_AllocationPriorityClassMinimum = 0,
        D3DKMT_AllocationPriorityClassLow = 1,
        D3DKMT_AllocationPriorityClassNormal = 2,
        D3DKMT_AllocationPriorityClassHigh = 3,
        D3DKMT_AllocationPriorityClassMaximum = 4,
        D3DKMT_MaxAllocationPriorityClass = 5,
    }

    flags D3DKMT_QUERYSTATISTICS_SEGMENT_POWER_FLAGS { UINT64;
        0 1 PreservedDuringStandby,
        1 1 PreservedDuringHibernate,
        2 1 PartiallyPreservedDuringHibernate,
    }

    flags D3DKMT_QUERYSTATISTICS_SEGMENT_PROPERTIES { UINT64;
        0 1 SystemMemory,
    }

    structure D3DKMT_QUERYSTATISTICS_COUNTER { 16;
        0 Count: UINT,
        8 Bytes: UINT64,
    }

    structure D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION { 16;
        0 PacketSubmited: UINT,
        4 PacketCompleted: UINT,
        8 PacketPreempted: UINT,
        12 PacketFaulted: UINT,
    }

    structure D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION { 8;
        0 PacketSubmited: UINT,
        4 PacketCompleted: UINT,
    }

    structure D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION { 128;
        0 QueuePacket: [D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION; 8],
        64 DmaPacket: [D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION; 4],
    }

    structure D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION { 64;
        0 PreemptionCounter: [UINT; 16],
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION { 272;
        0 RunningTime: LARGE_INTEGER,
        8 ContextSwitch: UINT,
        12 PreemptionStatistics: D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION,
        76 PacketStatistics: D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION,
        208 Reserved: [UINT64; 8],
    }

    structure D3DKMT_NODE_PERFDATA { 56;
        0 NodeOrdinal: UINT,
        4 PhysicalAdapterIndex: UINT,
        8 Frequency: UINT64,
        16 MaxFrequency: UINT64,
        24 MaxFrequencyOC: UINT64,
        32 Voltage: UINT,
        36 VoltageMax: UINT,
        40 VoltageMaxOC: UINT,
        48 MaxTransitionLatency: UINT64,
    }

    structure D3DKMT_QUERYSTATISTICS_NODE_INFORMATION { 616;
        0 GlobalInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION,
        272 SystemInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION,
        544 NodePerfData: D3DKMT_NODE_PERFDATA,
        600 Reserved: [UINT; 3],
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION { 80;
        0 Frame: UINT,
        4 CancelledFrame: UINT,
        8 QueuedPresent: UINT,
        12 Padding: UINT,
        16 IsVSyncEnabled: UINT64,
        24 VSyncOnTotalTimeMs: UINT64,
        32 VSyncOffKeepPhaseTotalTimeMs: UINT64,
        40 VSyncOffNoPhaseTotalTimeMs: UINT64,
        48 Reserved: [UINT64; 4],
    }

    structure D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION { 224;
        0 GlobalInformation: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION,
        80 SystemInformation: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION,
        160 Reserved: [UINT64; 8],
    }

    structure D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY { 80;
        0 BytesAllocated: UINT64,
        8 BytesReserved: UINT64,
        16 SmallAllocationBlocks: UINT,
        20 LargeAllocationBlocks: UINT,
        24 WriteCombinedBytesAllocated: UINT64,
        32 WriteCombinedBytesReserved: UINT64,
        40 CachedBytesAllocated: UINT64,
        48 CachedBytesReserved: UINT64,
        56 SectionBytesAllocated: UINT64,
        64 SectionBytesReserved: UINT64,
        72 BytesZeroed: UINT64,
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION { 144;
        0 NodeCount: UINT,
        4 VidPnSourceCount: UINT,
        8 SystemMemory: D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY,
        88 Reserved: [UINT64; 7],
    }

    structure D3DKMT_QUERYSTATISTICS_DMA_BUFFER { 24;
        0 Size: D3DKMT_QUERYSTATISTICS_COUNTER,
        16 AllocationListBytes: UINT,
        20 PatchLocationListBytes: UINT,
    }

    structure D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA { 48;
        0 TotalBytesEvictedFromProcess: UINT64,
        8 BytesBySegmentPreference: [UINT64; 5],
    }

    structure D3DKMT_QUERYSTATISTICS_POLICY { 104;
        0 PreferApertureForRead: [UINT64; 5],
        40 PreferAperture: [UINT64; 5],
        80 MemResetOnPaging: UINT64,
        88 RemovePagesFromWorkingSetOnPaging: UINT64,
        96 MigrationEnabled: UINT64,
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS { 72;
        0 InterferenceCount: [UINT64; 9],
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION { 272;
        0 NbSegments: UINT,
        4 NodeCount: UINT,
        8 VidPnSourceCount: UINT,
        12 VirtualMemoryUsage: UINT,
        16 DmaBuffer: D3DKMT_QUERYSTATISTICS_DMA_BUFFER,
        40 CommitmentData: D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA,
        88 _Policy: D3DKMT_QUERYSTATISTICS_POLICY,
        192 ProcessInterferenceCounters: D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS,
        264 ClientHint: D3DKMT_CLIENTHINT,
    }

    structure D3DKMT_QUERYSTATISTICS_MEMORY { 16;
        0 TotalBytesEvicted: UINT64,
        8 AllocsCommitted: UINT,
        12 AllocsResident: UINT,
    }

    structure D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION { 152;
        0 CommitLimit: UINT64,
        8 BytesCommitted: UINT64,
        16 BytesResident: UINT64,
        24 Memory: D3DKMT_QUERYSTATISTICS_MEMORY,
        40 Aperture: UINT,
        48 TotalBytesEvictedByPriority: [UINT64; 5],
        88 SystemMemoryEndAddress: UINT64,
        96 PowerFlags: D3DKMT_QUERYSTATISTICS_SEGMENT_POWER_FLAGS,
        104 SegmentProperties: D3DKMT_QUERYSTATISTICS_SEGMENT_PROPERTIES,
        112 Reserved: [UINT64; 5],
    }

    structure D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY { 112;
        0 AllocsCommitted: UINT,
        8 AllocsResidentInP: [D3DKMT_QUERYSTATISTICS_COUNTER; 5],
        88 AllocsResidentInNonPreferred: D3DKMT_QUERYSTATISTICS_COUNTER,
        104 TotalBytesEvictedDueToPreparation: UINT64,
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY { 8;
        0 UseMRU: UINT64,
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION { 216;
        0 BytesCommitted: UINT64,
        8 MaximumWorkingSet: UINT64,
        16 MinimumWorkingSet: UINT64,
        24 NbReferencedAllocationEvictedInPeriod: UINT,
        28 Padding: UINT,
        32 VideoMemory: D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY,
        144 _Policy: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY,
        152 Reserved: [UINT64; 8],
    }

    structure D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION { 64;
        0 Budget: UINT64,
        8 Requested: UINT64,
        16 Usage: UINT64,
        24 Demoted: [UINT64; 5],
    }

    structure D3DKMT_QUERYSTATISTICS_MEMORY_USAGE { 40;
        0 AllocatedBytes: UINT64,
        8 FreeBytes: UINT64,
        16 ZeroBytes: UINT64,
        24 ModifiedBytes: UINT64,
        32 StandbyBytes: UINT64,
    }

    alternative D3DKMT_QUERYSTATISTICS_RESULT { 776;
        AdapterInformation: D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION,
        PhysAdapterInformation: D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION,
        SegmentInformation: D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION,
        NodeInformation: D3DKMT_QUERYSTATISTICS_NODE_INFORMATION,
        VidPnSourceInformation: D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION,
        ProcessInformation: D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION,
        ProcessAdapterInformation: D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION,
        ProcessSegmentInformation: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION,
        ProcessNodeInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION,
        ProcessVidPnSourceInformation: D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION,
        ProcessSegmentGroupInformation: D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION,
        SegmentUsageInformation: D3DKMT_QUERYSTATISTICS_MEMORY_USAGE,
        SegmentGroupUsageInformation: D3DKMT_QUERYSTATISTICS_MEMORY_USAGE,
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT { 4;
        0 SegmentId: UINT,
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2 { 4;
        0 PhysicalAdapterIndex: UINT16,
        2 SegmentId: UINT16,
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_NODE { 4;
        0 NodeId: UINT,
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_NODE2 { 4;
        0 PhysicalAdapterIndex: UINT16,
        2 NodeOrdinal: UINT16,
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE { 4;
        0 VidPnSourceId: UINT,
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER { 4;
        0 PhysicalAdapterIndex: UINT,
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 { 2;
        0 PhysicalAdapterIndex: UINT16,
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2 { 4;
        0 PhysicalAdapterIndex: UINT16,
        2 SegmentGroup: UINT16,
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE { 4;
        0 PhysicalAdapterIndex: UINT16,
        2 SegmentId: UINT16,
    }

    structure D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE { 4;
        0 PhysicalAdapterIndex: UINT16,
        2 SegmentGroup: UINT16,
    }

    alternative D3DKMT_QUERYSTATISTICS_QUERY { 4;
        QuerySegment: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT,
        QueryProcessSegment: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT,
        QueryProcessSegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP,
        QueryNode: D3DKMT_QUERYSTATISTICS_QUERY_NODE,
        QueryProcessNode: D3DKMT_QUERYSTATISTICS_QUERY_NODE,
        QueryVidPnSource: D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE,
        QueryProcessVidPnSource: D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE,
        QueryPhysAdapter: D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER,
        QueryAdapter2: D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2,
        QuerySegment2: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2,
        QueryProcessAdapter2: D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2,
        QueryProcessSegment2: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2,
        QueryProcessSegmentGroup2: D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2,
        QuerySegmentUsage: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE,
        QuerySegmentGroupUsage: D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE,
        QueryNode2: D3DKMT_QUERYSTATISTICS_QUERY_NODE2,
        QueryProcessNode2: D3DKMT_QUERYSTATISTICS_QUERY_NODE2,
    }

    structure D3DKMT_QUERYSTATISTICS { 808;
        0 Type: D3DKMT_QUERYSTATISTICS_TYPE,
        4 AdapterLuid: LUID,
        16 hProcess: HANDLE,
        24 QueryResult: D3DKMT_QUERYSTATISTICS_RESULT,
        800 Anonymous: D3DKMT_QUERYSTATISTICS_QUERY,
    }
}
