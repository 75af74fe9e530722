//! Figures of a whole adapter (`D3DKMT_QUERYSTATISTICS_ADAPTER`, `_PHYSICAL_ADAPTER`).

use super::D3DKMT_QUERYSTATISTICS_COUNTER;
use crate::layout::layout;
use crate::number::*;

layout! {
    flags D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS { UINT64;
        0 2 NumberOfMemoryGroups = "flag, out: 2: the local and the non-local group",
        2 1 SupportsDemotion = "flag, out: set: the kernel can demote allocations",
    }

    structure D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER { 56;
        0 NbCall: UINT = "out: 0, because the kernel has no such figure",
        4 NbAllocationsReferenced: UINT = "out: 0, because the kernel has no such figure",
        8 MaxNbAllocationsReferenced: UINT = "out: 0, because the kernel has no such figure",
        12 NbNULLReference: UINT = "out: 0, because the kernel has no such figure",
        16 NbWriteReference: UINT = "out: 0, because the kernel has no such figure",
        20 NbRenamedAllocationsReferenced: UINT = "out: 0, because the kernel has no such figure",
        24 NbIterationSearchingRenamedAllocation: UINT = "out: 0, because the kernel has no such figure",
        28 NbLockedAllocationReferenced: UINT = "out: 0, because the kernel has no such figure",
        32 NbAllocationWithValidPrepatchingInfoReferenced: UINT = "out: 0, because the kernel has no such figure",
        36 NbAllocationWithInvalidPrepatchingInfoReferenced: UINT = "out: 0, because the kernel has no such figure",
        40 NbDMABufferSuccessfullyPrePatched: UINT = "out: 0, because the kernel has no such figure",
        44 NbPrimariesReferencesOverflow: UINT = "out: 0, because the kernel has no such figure",
        48 NbAllocationWithNonPreferredResources: UINT = "out: 0, because the kernel has no such figure",
        52 NbAllocationInsertedInMigrationTable: UINT = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATSTICS_RENAMING { 36;
        0 NbAllocationsRenamed: UINT = "out: 0, because the kernel has no such figure",
        4 NbAllocationsShrinked: UINT = "out: 0, because the kernel has no such figure",
        8 NbRenamedBuffer: UINT = "out: 0, because the kernel has no such figure",
        12 MaxRenamingListLength: UINT = "out: 0, because the kernel has no such figure",
        16 NbFailuresDueToRenamingLimit: UINT = "out: 0, because the kernel has no such figure",
        20 NbFailuresDueToCreateAllocation: UINT = "out: 0, because the kernel has no such figure",
        24 NbFailuresDueToOpenAllocation: UINT = "out: 0, because the kernel has no such figure",
        28 NbFailuresDueToLowResource: UINT = "out: 0, because the kernel has no such figure",
        32 NbFailuresDueToNonRetiredLimit: UINT = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATSTICS_PREPRATION { 32;
        0 BroadcastStall: UINT = "out: 0, because the kernel has no such figure",
        4 NbDMAPrepared: UINT = "out: 0, because the kernel has no such figure",
        8 NbDMAPreparedLongPath: UINT = "out: 0, because the kernel has no such figure",
        12 ImmediateHighestPreparationPass: UINT = "out: 0, because the kernel has no such figure",
        16 AllocationsTrimmed: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATSTICS_PAGING_FAULT { 264;
        0 Faults: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        16 FaultsFirstTimeAccess: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        32 FaultsReclaimed: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        48 FaultsMigration: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        64 FaultsIncorrectResource: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        80 FaultsLostContent: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        96 FaultsEvicted: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        112 AllocationsMEM_RESET: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        128 AllocationsUnresetSuccess: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        144 AllocationsUnresetFail: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        160 AllocationsUnresetSuccessRead: UINT = "out: 0, because the kernel has no such figure",
        164 AllocationsUnresetFailRead: UINT = "out: 0, because the kernel has no such figure",
        168 Evictions: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        184 EvictionsDueToPreparation: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        200 EvictionsDueToLock: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        216 EvictionsDueToClose: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        232 EvictionsDueToPurge: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        248 EvictionsDueToSuspendCPUAccess: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER { 64;
        0 BytesFilled: UINT64 = "out: bytes filled with 0",
        8 BytesDiscarded: UINT64 = "out: bytes whose content was thrown away",
        16 BytesMappedIntoAperture: UINT64 = "out: 0, because the kernel has no such figure",
        24 BytesUnmappedFromAperture: UINT64 = "out: 0, because the kernel has no such figure",
        32 BytesTransferredFromMdlToMemory: UINT64 = "out: bytes from system memory to video memory",
        40 BytesTransferredFromMemoryToMdl: UINT64 = "out: bytes from video memory to system memory",
        48 BytesTransferredFromApertureToMemory: UINT64 = "out: 0, because the kernel has no such figure",
        56 BytesTransferredFromMemoryToAperture: UINT64 = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE { 8;
        0 NbRangesAcquired: UINT = "out: 0, because the kernel has no such figure",
        4 NbRangesReleased: UINT = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATSTICS_LOCKS { 28;
        0 NbLocks: UINT = "out: 0, because the kernel has no such figure",
        4 NbLocksWaitFlag: UINT = "out: 0, because the kernel has no such figure",
        8 NbLocksDiscardFlag: UINT = "out: 0, because the kernel has no such figure",
        12 NbLocksNoOverwrite: UINT = "out: 0, because the kernel has no such figure",
        16 NbLocksNoReadSync: UINT = "out: 0, because the kernel has no such figure",
        20 NbLocksLinearization: UINT = "out: 0, because the kernel has no such figure",
        24 NbComplexLocks: UINT = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATSTICS_ALLOCATIONS { 112;
        0 Created: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        16 Destroyed: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        32 Opened: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        48 Closed: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        64 MigratedSuccess: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        80 MigratedFail: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        96 MigratedAbandoned: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATSTICS_TERMINATIONS { 64;
        0 TerminatedShared: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        16 TerminatedNonShared: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        32 DestroyedShared: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
        48 DestroyedNonShared: D3DKMT_QUERYSTATISTICS_COUNTER = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION { 776;
        0 NbSegments: UINT = "out: segments of the adapter",
        4 NodeCount: UINT = "out: nodes of the adapter",
        8 VidPnSourceCount: UINT = "out: displays of the adapter",
        12 VSyncEnabled: UINT = "out: 0, because the kernel has no such figure",
        16 TdrDetectedCount: UINT = "out: resets of engines and of the adapter; the count goes round",
        24 ZeroLengthDmaBuffers: LONGLONG = "out: 0, because the kernel has no such figure",
        32 RestartedPeriod: UINT64 = "out: 0, because the kernel has no such figure",
        40 ReferenceDmaBuffer: D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER = "out: 0, because the kernel has no such figure",
        96 Renaming: D3DKMT_QUERYSTATSTICS_RENAMING = "out: 0, because the kernel has no such figure",
        136 Preparation: D3DKMT_QUERYSTATSTICS_PREPRATION = "out: 0, because the kernel has no such figure",
        168 PagingFault: D3DKMT_QUERYSTATSTICS_PAGING_FAULT = "out: 0, because the kernel has no such figure",
        432 PagingTransfer: D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER = "out: bytes that paging moved",
        496 SwizzlingRange: D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE = "out: 0, because the kernel has no such figure",
        504 Locks: D3DKMT_QUERYSTATSTICS_LOCKS = "out: 0, because the kernel has no such figure",
        536 Allocations: D3DKMT_QUERYSTATSTICS_ALLOCATIONS = "out: 0, because the kernel has no such figure",
        648 Terminations: D3DKMT_QUERYSTATSTICS_TERMINATIONS = "out: 0, because the kernel has no such figure",
        712 Flags: D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS = "out: bits of D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS",
        720 Reserved: [UINT64; 7] = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_ADAPTER_PERFDATA { 64;
        0 PhysicalAdapterIndex: UINT = "in: 0, the only one; out: 0",
        8 MemoryFrequency: UINT64 = "out: 0, because the kernel has no such figure",
        16 MaxMemoryFrequency: UINT64 = "out: 0, because the kernel has no such figure",
        24 MaxMemoryFrequencyOC: UINT64 = "out: 0, because the kernel has no such figure",
        32 MemoryBandwidth: UINT64 = "out: 0, because the kernel has no such figure",
        40 PCIEBandwidth: UINT64 = "out: bytes that paging has moved over the link, in and out, since the adapter started",
        48 FanRPM: UINT = "out: 0, because the kernel has no such figure",
        52 Power: UINT = "out: 0, because the kernel has no such figure",
        56 Temperature: UINT = "out: 0, because the kernel has no such figure",
        60 PowerStateOverride: BYTE = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_ADAPTER_PERFDATACAPS { 40;
        0 PhysicalAdapterIndex: UINT = "in: 0, the only one; out: 0",
        8 MaxMemoryBandwidth: UINT64 = "out: 0, because the kernel has no such figure",
        16 MaxPCIEBandwidth: UINT64 = "out: 0, because the kernel has no such figure",
        24 MaxFanRPM: UINT = "out: 0, because the kernel has no such figure",
        28 TemperatureMax: UINT = "out: 0, because the kernel has no such figure",
        32 TemperatureWarning: UINT = "out: 0, because the kernel has no such figure",
    }

    structure D3DKMT_GPUVERSION { 132;
        0 PhysicalAdapterIndex: UINT = "out: 0, because the kernel has no such figure",
        4 BiosVersion: [UINT16; 32] = "out: 0, because the kernel has no such figure",
        68 GpuArchitecture: [UINT16; 32] = "out: the name of the adapter, up to a zero",
    }

    structure D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION { 240;
        0 AdapterPerfData: D3DKMT_ADAPTER_PERFDATA = "out: as of KMTQAITYPE_ADAPTERPERFDATA",
        64 AdapterPerfDataCaps: D3DKMT_ADAPTER_PERFDATACAPS = "out: 0, because the kernel has no such figure",
        104 GpuVersion: D3DKMT_GPUVERSION = "out: what the adapter is",
    }
}
