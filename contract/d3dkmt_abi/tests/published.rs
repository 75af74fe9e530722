//! The layouts and numbers against those that `windows-sys` has published, as far as those are current. Its native fences and
//! doorbells are of a pre-release: there the fact sheet is followed (sync §2.1, §2.9), and the compiler has checked its numbers.

#[macro_use]
mod comparison;

use d3dkmt_abi as ours;
use windows_sys::Wdk::Graphics::Direct3D as published;

macro_rules! same_size {
    ($($name:ident)*) => {
        $(assert_eq!(size_of::<ours::$name>(), size_of::<published::$name>(), stringify!($name));)*
    };
}

#[rustfmt::skip]
#[test]
fn structures_are_laid_out_as_published() {
    same_layout! {
        D3DDDI_ALLOCATIONINFO { hAllocation pSystemMem pPrivateDriverData PrivateDriverDataSize VidPnSourceId Flags },
        D3DDDI_ALLOCATIONINFO2 { hAllocation Anonymous1 pPrivateDriverData PrivateDriverDataSize VidPnSourceId Flags
            GpuVirtualAddress Anonymous2 Reserved },
        D3DDDI_ALLOCATIONLIST { hAllocation Anonymous },
        D3DDDI_DESTROYPAGINGQUEUE { hPagingQueue },
        D3DDDI_MAKERESIDENT { hPagingQueue NumAllocations AllocationList PriorityList Flags PagingFenceValue
            NumBytesToTrim },
        D3DDDI_MAPGPUVIRTUALADDRESS { hPagingQueue BaseAddress MinimumAddress MaximumAddress hAllocation
            OffsetInPages SizeInPages Protection DriverProtection Reserved0 Reserved1 VirtualAddress
            PagingFenceValue },
        D3DDDI_OPENALLOCATIONINFO { hAllocation pPrivateDriverData PrivateDriverDataSize },
        D3DDDI_OPENALLOCATIONINFO2 { hAllocation pPrivateDriverData PrivateDriverDataSize GpuVirtualAddress Reserved },
        D3DDDI_PATCHLOCATIONLIST { AllocationIndex Anonymous DriverId AllocationOffset PatchOffset SplitOffset },
        D3DDDI_RESERVEGPUVIRTUALADDRESS { Anonymous1 BaseAddress MinimumAddress MaximumAddress Size Anonymous2
            Anonymous3 VirtualAddress Anonymous4 },
        D3DDDI_SYNCHRONIZATIONOBJECTINFO { Type Anonymous },
        D3DDDI_SYNCHRONIZATIONOBJECTINFO2 { Type Flags Anonymous SharedHandle },
        D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION { OperationType Anonymous },
        D3DKMT_ACQUIREKEYEDMUTEX { hKeyedMutex Key pTimeout FenceValue },
        D3DKMT_ACQUIREKEYEDMUTEX2 { hKeyedMutex Key pTimeout FenceValue pPrivateRuntimeData PrivateRuntimeDataSize },
        D3DKMT_ADAPTERINFO { hAdapter AdapterLuid NumOfSources bPrecisePresentRegionsPreferred },
        D3DKMT_CHANGEVIDEOMEMORYRESERVATION { hProcess hAdapter MemorySegmentGroup Reservation PhysicalAdapterIndex },
        D3DKMT_CLOSEADAPTER { hAdapter },
        D3DKMT_ESCAPE { hAdapter hDevice Type Flags pPrivateDriverData PrivateDriverDataSize hContext },
        D3DKMT_CREATEALLOCATION { hDevice hResource hGlobalShare pPrivateRuntimeData PrivateRuntimeDataSize
            Anonymous1 PrivateDriverDataSize NumAllocations Anonymous2 Flags hPrivateRuntimeResourceHandle },
        D3DKMT_CREATECONTEXT { hDevice NodeOrdinal EngineAffinity Flags pPrivateDriverData PrivateDriverDataSize
            ClientHint hContext pCommandBuffer CommandBufferSize pAllocationList AllocationListSize
            pPatchLocationList PatchLocationListSize CommandBuffer },
        D3DKMT_CREATECONTEXTVIRTUAL { hDevice NodeOrdinal EngineAffinity Flags pPrivateDriverData
            PrivateDriverDataSize ClientHint hContext },
        D3DKMT_CREATEDEVICE { Anonymous Flags hDevice pCommandBuffer CommandBufferSize pAllocationList
            AllocationListSize pPatchLocationList PatchLocationListSize },
        D3DKMT_CREATEHWCONTEXT { hDevice NodeOrdinal EngineAffinity Flags PrivateDriverDataSize pPrivateDriverData
            hHwContext },
        D3DKMT_CREATEHWQUEUE { hHwContext Flags PrivateDriverDataSize pPrivateDriverData hHwQueue
            hHwQueueProgressFence HwQueueProgressFenceCPUVirtualAddress HwQueueProgressFenceGPUVirtualAddress },
        D3DKMT_CREATEKEYEDMUTEX { InitialValue hSharedHandle hKeyedMutex },
        D3DKMT_CREATEKEYEDMUTEX2 { InitialValue hSharedHandle hKeyedMutex pPrivateRuntimeData PrivateRuntimeDataSize
            Flags },
        D3DKMT_CREATEPAGINGQUEUE { hDevice Priority hPagingQueue hSyncObject FenceValueCPUVirtualAddress
            PhysicalAdapterIndex },
        D3DKMT_CREATESYNCHRONIZATIONOBJECT { hDevice Info hSyncObject },
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { hDevice Info hSyncObject },
        D3DKMT_DESTROYALLOCATION { hDevice hResource phAllocationList AllocationCount },
        D3DKMT_DESTROYALLOCATION2 { hDevice hResource phAllocationList AllocationCount Flags },
        D3DKMT_DESTROYCONTEXT { hContext },
        D3DKMT_DESTROYDEVICE { hDevice },
        D3DKMT_DESTROYHWCONTEXT { hHwContext },
        D3DKMT_DESTROYHWQUEUE { hHwQueue },
        D3DKMT_DESTROYKEYEDMUTEX { hKeyedMutex },
        D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { hSyncObject },
        D3DKMT_DEVICEPAGEFAULT_STATE { FaultedPrimitiveAPISequenceNumber FaultedPipelineStage FaultedBindTableEntry
            PageFaultFlags FaultErrorCode FaultedVirtualAddress },
        D3DKMT_DEVICEPRESENT_QUEUE_STATE { VidPnSourceId bQueuedPresentLimitReached },
        D3DKMT_DEVICEPRESENT_STATE { VidPnSourceId PresentStats },
        D3DKMT_DEVICEPRESENT_STATE_DWM { VidPnSourceId PresentStatsDWM },
        D3DKMT_ENUMADAPTERS { NumAdapters Adapters },
        D3DKMT_ENUMADAPTERS2 { NumAdapters pAdapters },
        D3DKMT_ENUMADAPTERS3 { Filter NumAdapters pAdapters },
        D3DKMT_EVICT { hDevice NumAllocations AllocationList Flags NumBytesToTrim },
        D3DKMT_FREEGPUVIRTUALADDRESS { hAdapter BaseAddress Size },
        D3DKMT_GETDEVICESTATE { hDevice StateType Anonymous },
        D3DKMT_INVALIDATECACHE { hDevice hAllocation Offset Length },
        D3DKMT_LOCK { hDevice hAllocation PrivateDriverData NumPages pPages pData Flags GpuVirtualAddress },
        D3DKMT_LOCK2 { hDevice hAllocation Flags pData },
        D3DKMT_OFFERALLOCATIONS { hDevice pResources HandleList NumAllocations Priority Flags },
        D3DKMT_OPENADAPTERFROMLUID { AdapterLuid hAdapter },
        D3DKMT_OPENKEYEDMUTEX { hSharedHandle hKeyedMutex },
        D3DKMT_OPENKEYEDMUTEX2 { hSharedHandle hKeyedMutex pPrivateRuntimeData PrivateRuntimeDataSize },
        D3DKMT_OPENRESOURCE { hDevice hGlobalShare NumAllocations Anonymous pPrivateRuntimeData
            PrivateRuntimeDataSize pResourcePrivateDriverData ResourcePrivateDriverDataSize
            pTotalPrivateDriverDataBuffer TotalPrivateDriverDataBufferSize hResource },
        D3DKMT_OPENRESOURCEFROMNTHANDLE { hDevice hNtHandle NumAllocations pOpenAllocationInfo2
            PrivateRuntimeDataSize pPrivateRuntimeData ResourcePrivateDriverDataSize pResourcePrivateDriverData
            TotalPrivateDriverDataBufferSize pTotalPrivateDriverDataBuffer hResource hKeyedMutex
            pKeyedMutexPrivateRuntimeData KeyedMutexPrivateRuntimeDataSize hSyncObject },
        D3DKMT_OPENNTHANDLEFROMNAME { dwDesiredAccess pObjAttrib hNtHandle },
        D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME { dwDesiredAccess pObjAttrib hNtHandle },
        D3DKMT_OPENSYNCHRONIZATIONOBJECT { hSharedHandle hSyncObject Reserved },
        D3DKMT_OPENSYNCOBJECTFROMNTHANDLE { hNtHandle hSyncObject },
        D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 { hNtHandle hDevice Flags hSyncObject Anonymous },
        D3DKMT_PHYSICAL_ADAPTER_COUNT { Count },
        D3DKMT_ADAPTERADDRESS { BusNumber DeviceNumber FunctionNumber },
        D3DKMT_DEVICE_IDS { VendorID DeviceID SubVendorID SubSystemID RevisionID BusType },
        D3DKMT_QUERY_DEVICE_IDS { PhysicalAdapterIndex DeviceIds },
        D3DKMT_PRESENT_STATS { PresentCount PresentRefreshCount SyncRefreshCount SyncQPCTime SyncGPUTime },
        D3DKMT_PRESENT_STATS_DWM { PresentCount PresentRefreshCount PresentQPCTime SyncRefreshCount SyncQPCTime
            CustomPresentDuration },
        D3DKMT_QUERYADAPTERINFO { hAdapter Type pPrivateDriverData PrivateDriverDataSize },
        D3DKMT_QUERYALLOCATIONRESIDENCY { hDevice hResource phAllocationList AllocationCount pResidencyStatus },
        D3DKMT_QUERYRESOURCEINFO { hDevice hGlobalShare pPrivateRuntimeData PrivateRuntimeDataSize
            TotalPrivateDriverDataSize ResourcePrivateDriverDataSize NumAllocations },
        D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE { hDevice hNtHandle pPrivateRuntimeData PrivateRuntimeDataSize
            TotalPrivateDriverDataSize ResourcePrivateDriverDataSize NumAllocations },
        D3DKMT_QUERYVIDEOMEMORYINFO { hProcess hAdapter MemorySegmentGroup Budget CurrentUsage CurrentReservation
            AvailableForReservation PhysicalAdapterIndex },
        D3DKMT_RECLAIMALLOCATIONS2 { hPagingQueue NumAllocations pResources HandleList Anonymous PagingFenceValue },
        D3DKMT_REGISTERTRIMNOTIFICATION { AdapterLuid hDevice Callback Context Handle },
        D3DKMT_RELEASEKEYEDMUTEX { hKeyedMutex Key FenceValue },
        D3DKMT_RELEASEKEYEDMUTEX2 { hKeyedMutex Key FenceValue pPrivateRuntimeData PrivateRuntimeDataSize },
        D3DKMT_RENDER { Anonymous CommandOffset CommandLength AllocationCount PatchLocationCount pNewCommandBuffer
            NewCommandBufferSize pNewAllocationList NewAllocationListSize pNewPatchLocationList
            NewPatchLocationListSize Flags PresentHistoryToken BroadcastContextCount BroadcastContext
            QueuedBufferCount NewCommandBuffer pPrivateDriverData PrivateDriverDataSize },
        D3DKMT_SEGMENTSIZEINFO { DedicatedVideoMemorySize DedicatedSystemMemorySize SharedSystemMemorySize },
        D3DKMT_SETALLOCATIONPRIORITY { hDevice hResource phAllocationList AllocationCount pPriorities },
        D3DKMT_SETCONTEXTSCHEDULINGPRIORITY { hContext Priority },
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECT { hContext ObjectCount ObjectHandleArray Flags },
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU { hDevice ObjectCount ObjectHandleArray FenceValueArray Flags },
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU { hContext ObjectCount ObjectHandleArray Anonymous },
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 { ObjectCount ObjectHandleArray Flags BroadcastContextCount
            BroadcastContextArray Anonymous },
        D3DKMT_STANDARDALLOCATION_EXISTINGHEAP { Size },
        D3DKMT_SUBMITCOMMAND { Commands CommandLength Flags PresentHistoryToken BroadcastContextCount
            BroadcastContext pPrivateDriverData PrivateDriverDataSize NumPrimaries WrittenPrimaries
            NumHistoryBuffers HistoryBufferArray },
        D3DKMT_SUBMITCOMMANDTOHWQUEUE { hHwQueue HwQueueProgressFenceId CommandBuffer CommandLength
            PrivateDriverDataSize pPrivateDriverData NumPrimaries WrittenPrimaries },
        D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE { Flags BroadcastHwQueueCount BroadcastHwQueueArray ObjectCount
            ObjectHandleArray FenceValueArray },
        D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE { hHwQueue ObjectCount ObjectHandleArray FenceValueArray },
        D3DKMT_TRIMNOTIFICATION { Context Flags NumBytesToTrim },
        D3DKMT_UNLOCK { hDevice NumAllocations phAllocations },
        D3DKMT_UNLOCK2 { hDevice hAllocation },
        D3DKMT_UNREGISTERTRIMNOTIFICATION { Handle Callback },
        D3DKMT_UPDATEGPUVIRTUALADDRESS { hDevice hContext hFenceObject NumOperations Operations Reserved0 Reserved1
            FenceValue Flags },
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECT { hContext ObjectCount ObjectHandleArray },
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU { hDevice ObjectCount ObjectHandleArray FenceValueArray
            hAsyncEvent Flags },
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU { hContext ObjectCount ObjectHandleArray Anonymous },
    }
}

#[test]
fn flag_words_are_as_wide_as_published() {
    same_size! {
        D3DKMT_ENUMADAPTERS_FILTER D3DKMT_ADAPTERTYPE D3DKMT_WDDM_2_7_CAPS D3DKMT_WDDM_3_0_CAPS D3DKMT_WDDM_3_1_CAPS
        D3DKMT_CREATEALLOCATIONFLAGS D3DDDICB_DESTROYALLOCATION2FLAGS D3DDDI_CREATECONTEXTFLAGS
        D3DKMT_SUBMITCOMMANDFLAGS D3DKMT_RENDERFLAGS D3DKMT_CREATEDEVICEFLAGS D3DKMT_DEVICERESET_STATE
        D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE D3DKMT_CREATEKEYEDMUTEX2_FLAGS D3DDDICB_LOCK2FLAGS D3DDDICB_LOCKFLAGS
        D3DDDI_CREATEHWCONTEXTFLAGS D3DDDI_CREATEHWQUEUEFLAGS D3DKMT_CREATE_DOORBELL_FLAGS
        D3DKMT_CONNECT_DOORBELL_FLAGS D3DKMT_NOTIFY_WORK_SUBMISSION_FLAGS D3DDDI_MAKERESIDENT_FLAGS
        D3DDDI_EVICT_FLAGS D3DDDI_TRIMRESIDENCYSET_FLAGS D3DKMT_OFFER_FLAGS D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS
        D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS D3DDDICB_SIGNALFLAGS
    }
}

#[test]
fn numbers_are_the_published_ones() {
    same_number! {
        KMTQAITYPE_UMDRIVERPRIVATE KMTQAITYPE_UMDRIVERNAME KMTQAITYPE_GETSEGMENTSIZE KMTQAITYPE_ADAPTERGUID
        KMTQAITYPE_ADAPTERADDRESS KMTQAITYPE_ADAPTERREGISTRYINFO KMTQAITYPE_DRIVERVERSION KMTQAITYPE_ADAPTERTYPE
        KMTQAITYPE_NODEMETADATA KMTQAITYPE_PHYSICALADAPTERCOUNT KMTQAITYPE_PHYSICALADAPTERDEVICEIDS
        KMTQAITYPE_ADAPTERTYPE_RENDER KMTQAITYPE_NODEPERFDATA KMTQAITYPE_ADAPTERPERFDATA KMTQAITYPE_WDDM_2_7_CAPS
        KMTQAITYPE_WDDM_3_0_CAPS KMTQAITYPE_WDDM_3_1_CAPS KMT_DRIVERVERSION_WDDM_1_0 KMT_DRIVERVERSION_WDDM_2_0
        KMT_DRIVERVERSION_WDDM_3_1 D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL
        D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP D3DKMT_STANDARDALLOCATIONTYPE_INTERNALBACKINGSTORE
        D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY
        D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT D3DKMT_CLIENTHINT_UNKNOWN D3DKMT_CLIENTHINT_OPENGL
        D3DKMT_CLIENTHINT_OPENCL D3DKMT_CLIENTHINT_VULKAN D3DKMT_CLIENTHINT_CUDA D3DKMT_CLIENTHINT_DX12
        D3DKMT_CLIENTHINT_ONEAPI_LEVEL0 D3DKMT_DEVICESTATE_EXECUTION D3DKMT_DEVICESTATE_PRESENT
        D3DKMT_DEVICESTATE_RESET D3DKMT_DEVICESTATE_PRESENT_DWM D3DKMT_DEVICESTATE_PAGE_FAULT
        D3DKMT_DEVICESTATE_PRESENT_QUEUE D3DKMT_DEVICEEXECUTION_ACTIVE D3DKMT_DEVICEEXECUTION_RESET
        D3DKMT_DEVICEEXECUTION_HUNG D3DKMT_DEVICEEXECUTION_STOPPED D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY
        D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT
        D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO
        D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_COMMIT D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP
        D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY
        D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT D3DDDI_DOORBELLSTATUS_CONNECTED
        D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY
        D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL
        D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL D3DDDI_PAGINGQUEUE_PRIORITY_ABOVE_NORMAL D3DKMT_OFFER_PRIORITY_LOW
        D3DKMT_OFFER_PRIORITY_NORMAL D3DKMT_OFFER_PRIORITY_HIGH D3DKMT_OFFER_PRIORITY_AUTO D3DDDI_RECLAIM_RESULT_OK
        D3DDDI_RECLAIM_RESULT_DISCARDED D3DDDI_RECLAIM_RESULT_NOT_COMMITTED D3DDDI_SYNCHRONIZATION_MUTEX
        D3DDDI_SEMAPHORE D3DDDI_FENCE D3DDDI_CPU_NOTIFICATION D3DDDI_MONITORED_FENCE D3DDDI_PERIODIC_MONITORED_FENCE
    }
}

#[rustfmt::skip]
#[test]
fn figures_are_laid_out_as_published() {
    same_layout! {
        DXGK_GPUCLOCKDATA { GpuFrequency GpuClockCounter CpuClockCounter Flags },
        D3DKMT_QUERYCLOCKCALIBRATION { hAdapter NodeOrdinal PhysicalAdapterIndex ClockData },
        D3DKMT_QUERYSTATISTICS_COUNTER { Count Bytes },
        D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION { PacketSubmited PacketCompleted PacketPreempted
            PacketFaulted },
        D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION { PacketSubmited PacketCompleted },
        D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION { QueuePacket DmaPacket },
        D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION { PreemptionCounter },
        D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION { RunningTime ContextSwitch PreemptionStatistics
            PacketStatistics Reserved },
        D3DKMT_NODE_PERFDATA { NodeOrdinal PhysicalAdapterIndex Frequency MaxFrequency MaxFrequencyOC Voltage
            VoltageMax VoltageMaxOC MaxTransitionLatency },
        D3DKMT_QUERYSTATISTICS_NODE_INFORMATION { GlobalInformation SystemInformation NodePerfData Reserved },
        D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE_INFORMATION { Frame CancelledFrame QueuedPresent Padding
            IsVSyncEnabled VSyncOnTotalTimeMs VSyncOffKeepPhaseTotalTimeMs VSyncOffNoPhaseTotalTimeMs Reserved },
        D3DKMT_QUERYSTATISTICS_VIDPNSOURCE_INFORMATION { GlobalInformation SystemInformation Reserved },
        D3DKMT_QUERYSTATISTICS_SYSTEM_MEMORY { BytesAllocated BytesReserved SmallAllocationBlocks
            LargeAllocationBlocks WriteCombinedBytesAllocated WriteCombinedBytesReserved CachedBytesAllocated
            CachedBytesReserved SectionBytesAllocated SectionBytesReserved BytesZeroed },
        D3DKMT_QUERYSTATISTICS_PROCESS_INFORMATION { NodeCount VidPnSourceCount SystemMemory Reserved },
        D3DKMT_QUERYSTATISTICS_DMA_BUFFER { Size AllocationListBytes PatchLocationListBytes },
        D3DKMT_QUERYSTATISTICS_COMMITMENT_DATA { TotalBytesEvictedFromProcess BytesBySegmentPreference },
        D3DKMT_QUERYSTATISTICS_POLICY { PreferApertureForRead PreferAperture MemResetOnPaging
            RemovePagesFromWorkingSetOnPaging MigrationEnabled },
        D3DKMT_QUERYSTATISTICS_PROCESS_INTERFERENCE_COUNTERS { InterferenceCount },
        D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER_INFORMATION { NbSegments NodeCount VidPnSourceCount
            VirtualMemoryUsage DmaBuffer CommitmentData _Policy ProcessInterferenceCounters ClientHint },
        D3DKMT_QUERYSTATISTICS_MEMORY { TotalBytesEvicted AllocsCommitted AllocsResident },
        D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION { CommitLimit BytesCommitted BytesResident Memory Aperture
            TotalBytesEvictedByPriority SystemMemoryEndAddress PowerFlags SegmentProperties Reserved },
        D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY { AllocsCommitted AllocsResidentInP AllocsResidentInNonPreferred
            TotalBytesEvictedDueToPreparation },
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_POLICY { UseMRU },
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION { BytesCommitted MaximumWorkingSet MinimumWorkingSet
            NbReferencedAllocationEvictedInPeriod Padding VideoMemory _Policy Reserved },
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION { Budget Requested Usage Demoted },
        D3DKMT_QUERYSTATISTICS_MEMORY_USAGE { AllocatedBytes FreeBytes ZeroBytes ModifiedBytes StandbyBytes },
        D3DKMT_QUERYSTATISTICS_RESULT { },
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT { SegmentId },
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT2 { PhysicalAdapterIndex SegmentId },
        D3DKMT_QUERYSTATISTICS_QUERY_NODE { NodeId },
        D3DKMT_QUERYSTATISTICS_QUERY_NODE2 { PhysicalAdapterIndex NodeOrdinal },
        D3DKMT_QUERYSTATISTICS_QUERY_VIDPNSOURCE { VidPnSourceId },
        D3DKMT_QUERYSTATISTICS_QUERY_PHYSICAL_ADAPTER { PhysicalAdapterIndex },
        D3DKMT_QUERYSTATISTICS_QUERY_ADAPTER2 { PhysicalAdapterIndex },
        D3DKMT_QUERYSTATISTICS_QUERY_PROCESS_SEGMENT_GROUP2 { PhysicalAdapterIndex SegmentGroup },
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_USAGE { PhysicalAdapterIndex SegmentId },
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT_GROUP_USAGE { PhysicalAdapterIndex SegmentGroup },
        D3DKMT_QUERYSTATISTICS { Type AdapterLuid hProcess QueryResult Anonymous },
        D3DKMT_QUERYSTATSTICS_REFERENCE_DMA_BUFFER { NbCall NbAllocationsReferenced MaxNbAllocationsReferenced
            NbNULLReference NbWriteReference NbRenamedAllocationsReferenced NbIterationSearchingRenamedAllocation
            NbLockedAllocationReferenced NbAllocationWithValidPrepatchingInfoReferenced
            NbAllocationWithInvalidPrepatchingInfoReferenced NbDMABufferSuccessfullyPrePatched
            NbPrimariesReferencesOverflow NbAllocationWithNonPreferredResources
            NbAllocationInsertedInMigrationTable },
        D3DKMT_QUERYSTATSTICS_RENAMING { NbAllocationsRenamed NbAllocationsShrinked NbRenamedBuffer
            MaxRenamingListLength NbFailuresDueToRenamingLimit NbFailuresDueToCreateAllocation
            NbFailuresDueToOpenAllocation NbFailuresDueToLowResource NbFailuresDueToNonRetiredLimit },
        D3DKMT_QUERYSTATSTICS_PREPRATION { BroadcastStall NbDMAPrepared NbDMAPreparedLongPath
            ImmediateHighestPreparationPass AllocationsTrimmed },
        D3DKMT_QUERYSTATSTICS_PAGING_FAULT { Faults FaultsFirstTimeAccess FaultsReclaimed FaultsMigration
            FaultsIncorrectResource FaultsLostContent FaultsEvicted AllocationsMEM_RESET AllocationsUnresetSuccess
            AllocationsUnresetFail AllocationsUnresetSuccessRead AllocationsUnresetFailRead Evictions
            EvictionsDueToPreparation EvictionsDueToLock EvictionsDueToClose EvictionsDueToPurge
            EvictionsDueToSuspendCPUAccess },
        D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER { BytesFilled BytesDiscarded BytesMappedIntoAperture
            BytesUnmappedFromAperture BytesTransferredFromMdlToMemory BytesTransferredFromMemoryToMdl
            BytesTransferredFromApertureToMemory BytesTransferredFromMemoryToAperture },
        D3DKMT_QUERYSTATSTICS_SWIZZLING_RANGE { NbRangesAcquired NbRangesReleased },
        D3DKMT_QUERYSTATSTICS_LOCKS { NbLocks NbLocksWaitFlag NbLocksDiscardFlag NbLocksNoOverwrite
            NbLocksNoReadSync NbLocksLinearization NbComplexLocks },
        D3DKMT_QUERYSTATSTICS_ALLOCATIONS { Created Destroyed Opened Closed MigratedSuccess MigratedFail
            MigratedAbandoned },
        D3DKMT_QUERYSTATSTICS_TERMINATIONS { TerminatedShared TerminatedNonShared DestroyedShared
            DestroyedNonShared },
        D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION { NbSegments NodeCount VidPnSourceCount VSyncEnabled
            TdrDetectedCount ZeroLengthDmaBuffers RestartedPeriod ReferenceDmaBuffer Renaming Preparation
            PagingFault PagingTransfer SwizzlingRange Locks Allocations Terminations Flags Reserved },
        D3DKMT_ADAPTER_PERFDATA { PhysicalAdapterIndex MemoryFrequency MaxMemoryFrequency MaxMemoryFrequencyOC
            MemoryBandwidth PCIEBandwidth FanRPM Power Temperature PowerStateOverride },
        D3DKMT_ADAPTER_PERFDATACAPS { PhysicalAdapterIndex MaxMemoryBandwidth MaxPCIEBandwidth MaxFanRPM
            TemperatureMax TemperatureWarning },
        D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER_INFORMATION { AdapterPerfData AdapterPerfDataCaps GpuVersion },
    }
    same_size! {
        D3DKMT_QUERYSTATISTICS_RESULT D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION_FLAGS DXGK_GPUCLOCKDATA_FLAGS
    }
    same_number! {
        D3DKMT_ESCAPE_DRIVERPRIVATE D3DKMT_ESCAPE_VIDMM D3DKMT_ESCAPE_TDRDBGCTRL D3DKMT_ESCAPE_VIDSCH
        D3DKMT_ESCAPE_DEVICE D3DKMT_ESCAPE_DMM D3DKMT_ESCAPE_DEBUG_SNAPSHOT D3DKMT_ESCAPE_DRT_TEST
        D3DKMT_ESCAPE_DIAGNOSTICS D3DKMT_ESCAPE_OUTPUTDUPL_SNAPSHOT D3DKMT_ESCAPE_OUTPUTDUPL_DIAGNOSTICS
        D3DKMT_ESCAPE_BDD_PNP D3DKMT_ESCAPE_BDD_FALLBACK D3DKMT_ESCAPE_ACTIVATE_SPECIFIC_DIAG
        D3DKMT_ESCAPE_MODES_PRUNED_OUT D3DKMT_ESCAPE_WHQL_INFO D3DKMT_ESCAPE_BRIGHTNESS D3DKMT_ESCAPE_EDID_CACHE
        D3DKMT_ESCAPE_MIRACAST_DISPLAY_REQUEST D3DKMT_ESCAPE_HISTORY_BUFFER_STATUS
        D3DKMT_ESCAPE_MIRACAST_ADAPTER_DIAG_INFO D3DKMT_ESCAPE_FORCE_BDDFALLBACK_HEADLESS
        D3DKMT_ESCAPE_REQUEST_MACHINE_CRASH D3DKMT_ESCAPE_SOFTGPU_ENABLE_DISABLE_HMD
        D3DKMT_ESCAPE_PROCESS_VERIFIER_OPTION D3DKMT_ESCAPE_ADAPTER_VERIFIER_OPTION D3DKMT_ESCAPE_IDD_REQUEST
        D3DKMT_ESCAPE_DOD_SET_DIRTYRECT_MODE D3DKMT_ESCAPE_LOG_CODEPOINT_PACKET D3DKMT_ESCAPE_LOG_USERMODE_DAIG_PACKET
        D3DKMT_ESCAPE_GET_EXTERNAL_DIAGNOSTICS D3DKMT_ESCAPE_GET_DISPLAY_CONFIGURATIONS
        D3DKMT_ESCAPE_QUERY_IOMMU_STATUS D3DKMT_ESCAPE_CCD_DATABASE D3DKMT_ESCAPE_QUERY_DMA_REMAPPING_STATUS
        D3DKMT_ESCAPE_WIN32K_HIP_DEVICE_INFO D3DKMT_ESCAPE_WIN32K_QUERY_CD_ROTATION_BLOCK
        D3DKMT_ESCAPE_WIN32K_DPI_INFO D3DKMT_ESCAPE_WIN32K_PRESENTER_VIEW_INFO D3DKMT_ESCAPE_WIN32K_SYSTEM_DPI
        D3DKMT_ESCAPE_WIN32K_BDD_FALLBACK D3DKMT_ESCAPE_WIN32K_DDA_TEST_CTL
        D3DKMT_ESCAPE_WIN32K_USER_DETECTED_BLACK_SCREEN D3DKMT_ESCAPE_WIN32K_DISPBROKER_TEST
        D3DKMT_ESCAPE_WIN32K_COLOR_PROFILE_INFO D3DKMT_ESCAPE_WIN32K_SET_DIMMED_STATE
        D3DKMT_ESCAPE_WIN32K_SPECIALIZED_DISPLAY_TEST
        D3DKMT_QUERYSTATISTICS_ADAPTER D3DKMT_QUERYSTATISTICS_PROCESS D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER
        D3DKMT_QUERYSTATISTICS_SEGMENT D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT D3DKMT_QUERYSTATISTICS_NODE
        D3DKMT_QUERYSTATISTICS_PROCESS_NODE D3DKMT_QUERYSTATISTICS_VIDPNSOURCE
        D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP
        D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER D3DKMT_QUERYSTATISTICS_ADAPTER2 D3DKMT_QUERYSTATISTICS_SEGMENT2
        D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER2 D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT2
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP2 D3DKMT_QUERYSTATISTICS_SEGMENT_USAGE
        D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE D3DKMT_QUERYSTATISTICS_NODE2
        D3DKMT_QUERYSTATISTICS_PROCESS_NODE2 D3DKMT_RenderCommandBuffer D3DKMT_DeferredCommandBuffer
        D3DKMT_SystemCommandBuffer D3DKMT_MmIoFlipCommandBuffer D3DKMT_WaitCommandBuffer
        D3DKMT_SignalCommandBuffer D3DKMT_DeviceCommandBuffer D3DKMT_SoftwareCommandBuffer
        D3DKMT_QueuePacketTypeMax D3DKMT_ClientRenderBuffer D3DKMT_ClientPagingBuffer D3DKMT_SystemPagingBuffer
        D3DKMT_SystemPreemptionBuffer D3DKMT_DmaPacketTypeMax D3DKMT_AllocationPriorityClassMinimum
        D3DKMT_AllocationPriorityClassLow D3DKMT_AllocationPriorityClassNormal D3DKMT_AllocationPriorityClassHigh
        D3DKMT_AllocationPriorityClassMaximum D3DKMT_MaxAllocationPriorityClass
    }
}

#[rustfmt::skip]
#[test]
fn what_adapters_are_asked_is_laid_out_as_published() {
    same_layout! {
        D3DKMT_SEGMENTGROUPSIZEINFO { PhysicalAdapterIndex LegacyInfo LocalMemory NonLocalMemory NonBudgetMemory },
        D3DKMDT_PREEMPTION_CAPS { GraphicsPreemptionGranularity ComputePreemptionGranularity },
        D3DKMT_WDDM_1_2_CAPS { PreemptionCaps Anonymous },
    }
    same_size! { D3DKMT_WDDM_2_0_CAPS }
    #[cfg(not(feature = "wsl"))]
    same_layout! {
        D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME { DeviceName hAdapter AdapterLuid VidPnSourceId },
        D3DKMT_ADAPTERREGISTRYINFO { AdapterString BiosString DacType ChipType },
        DXGK_NODEMETADATA { EngineType FriendlyName Flags GpuMmuSupported IoMmuSupported },
        D3DKMT_NODEMETADATA { NodeOrdinalAndAdapterIndex NodeData },
    }
    same_number! {
        KMTQAITYPE_WDDM_1_2_CAPS KMTQAITYPE_WDDM_2_0_CAPS KMTQAITYPE_QUERY_HW_PROTECTION_TEARDOWN_COUNT
        KMTQAITYPE_GETSEGMENTGROUPSIZE KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER KMTQAITYPE_DRIVERVERSION_RENDER
        KMTQAITYPE_WDDM_1_2_CAPS_RENDER KMT_DRIVERVERSION_WDDM_1_1 KMT_DRIVERVERSION_WDDM_1_2
        KMT_DRIVERVERSION_WDDM_1_3 KMT_DRIVERVERSION_WDDM_2_1 KMT_DRIVERVERSION_WDDM_2_2 KMT_DRIVERVERSION_WDDM_2_6
        KMT_DRIVERVERSION_WDDM_2_9 KMT_DRIVERVERSION_WDDM_3_0 DXGK_ENGINE_TYPE_OTHER DXGK_ENGINE_TYPE_3D
        DXGK_ENGINE_TYPE_COPY DXGK_ENGINE_TYPE_CRYPTO
    }
}
