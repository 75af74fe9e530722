//! Figures of a whole adapter (`D3DKMT_QUERYSTATISTICS_ADAPTER`, `_PHYSICAL_ADAPTER`).

use super::D3DKMT_QUERYSTATISTICS_COUNTER;
use crate::layout::layout;
use crate::number::*;

layout! {
    flags D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS { UINT64;
        0 2 NumberOfMemoryGroups,
        2 1 SupportsDemotion,
    }

    structure D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER { 56;
        0 NbCall: UINT,
        4 NbAllocationsReferenced: UINT,
        8 MaxNbAllocationsReferenced: UINT,
        12 NbNULLReference: UINT,
        16 NbWriteReference: UINT,
        20 NbRenamedAllocationsReferenced: UINT,
        24 NbIterationSearchingRenamedAllocation: UINT,
        28 NbLockedAllocationReferenced: UINT,
        32 NbAllocationWithValidPrepatchingInfoReferenced: UINT,
        36 NbAllocationWithInvalidPrepatchingInfoReferenced: UINT,
        40 NbDMABufferSuccessfullyPrePatched: UINT,
        44 NbPrimariesReferencesOverflow: UINT,
        48 NbAllocationWithNonPreferredResources: UINT,
        52 NbAllocationInsertedInMigrationTable: UINT,
    }

    structure D3DKMT_QUERYSTATSTICS_RENAMING { 36;
        0 NbAllocationsRenamed: UINT,
        4 NbAllocationsShrinked: UINT,
        8 NbRenamedBuffer: UINT,
        12 MaxRenamingListLength: UINT,
        16 NbFailuresDueToRenamingLimit: UINT,
        20 NbFailuresDueToCreateAllocation: UINT,
        24 NbFailuresDueToOpenAllocation: UINT,
        28 NbFailuresDueToLowResource: UINT,
        32 NbFailuresDueToNonRetiredLimit: UINT,
    }

    structure D3DKMT_QUERYSTATSTICS_PREPRATION { 32;
        0 BroadcastStall: UINT,
        4 NbDMAPrepared: UINT,
        8 NbDMAPreparedLongPath: UINT,
        12 ImmediateHighestPreparationPass: UINT,
        16 AllocationsTrimmed: D3DKMT_QUERYSTATISTICS_COUNTER,
    }

    structure D3DKMT_QUERYSTATSTICS_PAGING_FAULT { 264;
        0 Faults: D3DKMT_QUERYSTATISTICS_COUNTER,
        16 FaultsFirstTimeAccess: D3DKMT_QUERYSTATISTICS_COUNTER,
        32 FaultsReclaimed: D3DKMT_QUERYSTATISTICS_COUNTER,
        48 FaultsMigration: D3DKMT_QUERYSTATISTICS_COUNTER,
        64 FaultsIncorrectResource: D3DKMT_QUERYSTATISTICS_COUNTER,
        80 FaultsLostContent: D3DKMT_QUERYSTATISTICS_COUNTER,
        96 FaultsEvicted: D3DKMT_QUERYSTATISTICS_COUNTER,
        112 AllocationsMEM_RESET: D3DKMT_QUERYSTATISTICS_COUNTER,
        128 AllocationsUnresetSuccess: D3DKMT_QUERYSTATISTICS_COUNTER,
        144 AllocationsUnresetFail: D3DKMT_QUERYSTATISTICS_COUNTER,
        160 AllocationsUnresetSuccessRead: UINT,
        164 AllocationsUnresetFailRead: UINT,
        168 Evictions: D3DKMT_QUERYSTATISTICS_COUNTER,
        184 EvictionsDueToPreparation: D3DKMT_QUERYSTATISTICS_COUNTER,
        200 EvictionsDueToLock: D3DKMT_QUERYSTATISTICS_COUNTER,
        216 EvictionsDueToClose: D3DKMT_QUERYSTATISTICS_COUNTER,
        232 EvictionsDueToPurge: D3DKMT_QUERYSTATISTICS_COUNTER,
        248 EvictionsDueToSuspendCPUAccess: D3DKMT_QUERYSTATISTICS_COUNTER,
    }

    structure D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER { 64;
        0 BytesFilled: UINT64,
        8 BytesDiscarded: UINT64,
        16 BytesMappedIntoAperture: UINT64,
        24 BytesUnmappedFromAperture: UINT64,
        32 BytesTransferredFromMdlToMemory: UINT64,
        40 BytesTransferredFromMemoryToMdl: UINT64,
        48 BytesTransferredFromApertureToMemory: UINT64,
        56 BytesTransferredFromMemoryToAperture: UINT64,
    }

    structure D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE { 8;
        0 NbRangesAcquired: UINT,
        4 NbRangesReleased: UINT,
    }

    structure D3DKMT_QUERYSTATSTICS_LOCKS { 28;
        0 NbLocks: UINT,
        4 NbLocksWaitFlag: UINT,
        8 NbLocksDiscardFlag: UINT,
        12 NbLocksNoOverwrite: UINT,
        16 NbLocksNoReadSync: UINT,
        20 NbLocksLinearization: UINT,
        24 NbComplexLocks: UINT,
    }

    structure D3DKMT_QUERYSTATSTICS_ALLOCATIONS { 112;
        0 Created: D3DKMT_QUERYSTATISTICS_COUNTER,
        16 Destroyed: D3DKMT_QUERYSTATISTICS_COUNTER,
        32 Opened: D3DKMT_QUERYSTATISTICS_COUNTER,
        48 Closed: D3DKMT_QUERYSTATISTICS_COUNTER,
        64 MigratedSuccess: D3DKMT_QUERYSTATISTICS_COUNTER,
        80 MigratedFail: D3DKMT_QUERYSTATISTICS_COUNTER,
        96 MigratedAbandoned: D3DKMT_QUERYSTATISTICS_COUNTER,
    }

    structure D3DKMT_QUERYSTATSTICS_TERMINATIONS { 64;
        0 TerminatedShared: D3DKMT_QUERYSTATISTICS_COUNTER,
        16 TerminatedNonShared: D3DKMT_QUERYSTATISTICS_COUNTER,
        32 DestroyedShared: D3DKMT_QUERYSTATISTICS_COUNTER,
        48 DestroyedNonShared: D3DKMT_QUERYSTATISTICS_COUNTER,
    }

    structure D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION { 776;
        0 NbSegments: UINT,
        4 NodeCount: UINT,
        8 VidPnSourceCount: UINT,
        12 VSyncEnabled: UINT,
        16 TdrDetectedCount: UINT,
        24 ZeroLengthDmaBuffers: LARGE_INTEGER,
        32 RestartedPeriod: UINT64,
        40 ReferenceDmaBuffer: D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER,
        96 Renaming: D3DKMT_QUERYSTATSTICS_RENAMING,
        136 Preparation: D3DKMT_QUERYSTATSTICS_PREPRATION,
        168 PagingFault: D3DKMT_QUERYSTATSTICS_PAGING_FAULT,
        432 PagingTransfer: D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER,
        496 SwizzlingRange: D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE,
        504 Locks: D3DKMT_QUERYSTATSTICS_LOCKS,
        536 Allocations: D3DKMT_QUERYSTATSTICS_ALLOCATIONS,
        648 Terminations: D3DKMT_QUERYSTATSTICS_TERMINATIONS,
        712 Flags: D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS,
        720 Reserved: [UINT64; 7],
    }

    structure D3DKMT_ADAPTER_PERFDATA { 64;
        0 PhysicalAdapterIndex: UINT,
        8 MemoryFrequency: UINT64,
        16 MaxMemoryFrequency: UINT64,
        24 MaxMemoryFrequencyOC: UINT64,
        32 MemoryBandwidth: UINT64,
        40 PCIEBandwidth: UINT64,
        48 FanRPM: UINT,
        52 Power: UINT,
        56 Temperature: UINT,
        60 PowerStateOverride: BYTE,
    }

    structure D3DKMT_ADAPTER_PERFDATACAPS { 40;
        0 PhysicalAdapterIndex: UINT,
        8 MaxMemoryBandwidth: UINT64,
        16 MaxPCIEBandwidth: UINT64,
        24 MaxFanRPM: UINT,
        28 TemperatureMax: UINT,
        32 TemperatureWarning: UINT,
    }

    structure D3DKMT_GPUVERSION { 132;
        0 PhysicalAdapterIndex: UINT,
        4 BiosVersion: [UINT16; 32],
        68 GpuArchitecture: [UINT16; 32],
    }

    structure D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION { 240;
        0 AdapterPerfData: D3DKMT_ADAPTER_PERFDATA,
        64 AdapterPerfDataCaps: D3DKMT_ADAPTER_PERFDATACAPS,
        104 GpuVersion: D3DKMT_GPUVERSION,
    }
}
