//! Adapters: enumeration, opening, queries (memory §5.5; sync §2.1, §2.10).

use crate::layout::layout;
use crate::number::*;

layout! {
    structure D3DKMT_ADAPTERINFO { 20;
        0 hAdapter: D3DKMT_HANDLE = "out: the adapter, opened: the program closes it with D3DKMTCloseAdapter",
        4 AdapterLuid: LUID = "out: the adapter's id, the same for every process of the kernel",
        12 NumOfSources: ULONG = "out: displays of the adapter",
        16 bPrecisePresentRegionsPreferred: BOOL = "out: FALSE: no present has regions",
    }

    structure D3DKMT_ENUMADAPTERS { 324;
        0 NumAdapters: ULONG = "out: entries of Adapters that are filled in",
        4 Adapters: [D3DKMT_ADAPTERINFO; MAX_ENUM_ADAPTERS] = "out: one entry an adapter; more than 16 adapters are STATUS_BUFFER_TOO_SMALL",
    }

    structure D3DKMT_ENUMADAPTERS2 { 16;
        0 NumAdapters: ULONG = "in, out: entries of pAdapters; out the entries filled in, or 34, the most there can be, if pAdapters is NULL",
        8 pAdapters: *mut D3DKMT_ADAPTERINFO = "out, optional: an array of NumAdapters entries; NULL asks for their number",
    }

    flags D3DKMT_ENUMADAPTERS_FILTER { ULONGLONG;
        0 1 IncludeComputeOnly = "flag: has no effect: the list names every adapter",
        1 1 IncludeDisplayOnly = "flag: has no effect: the list names every adapter",
    }

    structure D3DKMT_ENUMADAPTERS3 { 24;
        0 Filter: D3DKMT_ENUMADAPTERS_FILTER = "in: bits of D3DKMT_ENUMADAPTERS_FILTER",
        8 NumAdapters: ULONG = "in, out: as in D3DKMT_ENUMADAPTERS2",
        16 pAdapters: *mut D3DKMT_ADAPTERINFO = "out, optional: as in D3DKMT_ENUMADAPTERS2",
    }

    structure D3DKMT_OPENADAPTERFROMLUID { 12;
        0 AdapterLuid: LUID = "in: the adapter's id",
        8 hAdapter: D3DKMT_HANDLE = "out: the adapter, opened",
    }

    structure D3DKMT_CLOSEADAPTER { 4;
        0 hAdapter: D3DKMT_HANDLE = "in: a handle that an enumeration or an opening gave",
    }

    number KMTQUERYADAPTERINFOTYPE { INT;
        KMTQAITYPE_UMDRIVERPRIVATE = 0,
        KMTQAITYPE_UMDRIVERNAME = 1,
        KMTQAITYPE_UMOPENGLINFO = 2,
        KMTQAITYPE_GETSEGMENTSIZE = 3,
        KMTQAITYPE_ADAPTERGUID = 4,
        KMTQAITYPE_FLIPQUEUEINFO = 5,
        KMTQAITYPE_ADAPTERADDRESS = 6,
        KMTQAITYPE_SETWORKINGSETINFO = 7,
        KMTQAITYPE_ADAPTERREGISTRYINFO = 8,
        KMTQAITYPE_CURRENTDISPLAYMODE = 9,
        KMTQAITYPE_MODELIST = 10,
        KMTQAITYPE_CHECKDRIVERUPDATESTATUS = 11,
        KMTQAITYPE_VIRTUALADDRESSINFO = 12,
        KMTQAITYPE_DRIVERVERSION = 13,
        KMTQAITYPE_ADAPTERTYPE = 15,
        KMTQAITYPE_OUTPUTDUPLCONTEXTSCOUNT = 16,
        KMTQAITYPE_WDDM_1_2_CAPS = 17,
        KMTQAITYPE_UMD_DRIVER_VERSION = 18,
        KMTQAITYPE_DIRECTFLIP_SUPPORT = 19,
        KMTQAITYPE_MULTIPLANEOVERLAY_SUPPORT = 20,
        KMTQAITYPE_DLIST_DRIVER_NAME = 21,
        KMTQAITYPE_WDDM_1_3_CAPS = 22,
        KMTQAITYPE_MULTIPLANEOVERLAY_HUD_SUPPORT = 23,
        KMTQAITYPE_WDDM_2_0_CAPS = 24,
        KMTQAITYPE_NODEMETADATA = 25,
        KMTQAITYPE_CPDRIVERNAME = 26,
        KMTQAITYPE_XBOX = 27,
        KMTQAITYPE_INDEPENDENTFLIP_SUPPORT = 28,
        KMTQAITYPE_MIRACASTCOMPANIONDRIVERNAME = 29,
        KMTQAITYPE_PHYSICALADAPTERCOUNT = 30,
        KMTQAITYPE_PHYSICALADAPTERDEVICEIDS = 31,
        KMTQAITYPE_DRIVERCAPS_EXT = 32,
        KMTQAITYPE_QUERY_MIRACAST_DRIVER_TYPE = 33,
        KMTQAITYPE_QUERY_GPUMMU_CAPS = 34,
        KMTQAITYPE_QUERY_MULTIPLANEOVERLAY_DECODE_SUPPORT = 35,
        KMTQAITYPE_QUERY_HW_PROTECTION_TEARDOWN_COUNT = 36,
        KMTQAITYPE_QUERY_ISBADDRIVERFORHWPROTECTIONDISABLED = 37,
        KMTQAITYPE_MULTIPLANEOVERLAY_SECONDARY_SUPPORT = 38,
        KMTQAITYPE_INDEPENDENTFLIP_SECONDARY_SUPPORT = 39,
        KMTQAITYPE_PANELFITTER_SUPPORT = 40,
        KMTQAITYPE_PHYSICALADAPTERPNPKEY = 41,
        KMTQAITYPE_GETSEGMENTGROUPSIZE = 42,
        KMTQAITYPE_MPO3DDI_SUPPORT = 43,
        KMTQAITYPE_HWDRM_SUPPORT = 44,
        KMTQAITYPE_MPOKERNELCAPS_SUPPORT = 45,
        KMTQAITYPE_MULTIPLANEOVERLAY_STRETCH_SUPPORT = 46,
        KMTQAITYPE_GET_DEVICE_VIDPN_OWNERSHIP_INFO = 47,
        KMTQAITYPE_QUERYREGISTRY = 48,
        KMTQAITYPE_KMD_DRIVER_VERSION = 49,
        KMTQAITYPE_BLOCKLIST_KERNEL = 50,
        KMTQAITYPE_BLOCKLIST_RUNTIME = 51,
        KMTQAITYPE_ADAPTERGUID_RENDER = 52,
        KMTQAITYPE_ADAPTERADDRESS_RENDER = 53,
        KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER = 54,
        KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER = 55,
        KMTQAITYPE_DRIVERVERSION_RENDER = 56,
        KMTQAITYPE_ADAPTERTYPE_RENDER = 57,
        KMTQAITYPE_WDDM_1_2_CAPS_RENDER = 58,
        KMTQAITYPE_WDDM_1_3_CAPS_RENDER = 59,
        KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID = 60,
        KMTQAITYPE_NODEPERFDATA = 61,
        KMTQAITYPE_ADAPTERPERFDATA = 62,
        KMTQAITYPE_ADAPTERPERFDATA_CAPS = 63,
        KMTQAITYPE_DRIVER_DESCRIPTION = 65,
        KMTQAITYPE_DRIVER_DESCRIPTION_RENDER = 66,
        KMTQAITYPE_SCANOUT_CAPS = 67,
        KMTQAITYPE_PARAVIRTUALIZATION_RENDER = 68,
        KMTQAITYPE_SERVICENAME = 69,
        KMTQAITYPE_WDDM_2_7_CAPS = 70,
        KMTQAITYPE_DISPLAY_UMDRIVERNAME = 71,
        KMTQAITYPE_TRACKEDWORKLOAD_SUPPORT = 72,
        KMTQAITYPE_HYBRID_DLIST_DLL_SUPPORT = 73,
        KMTQAITYPE_DISPLAY_CAPS = 74,
        KMTQAITYPE_WDDM_2_9_CAPS = 75,
        KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT = 76,
        KMTQAITYPE_WDDM_3_0_CAPS = 77,
        KMTQAITYPE_WSAUMDIMAGENAME = 78,
        KMTQAITYPE_VGPUINTERFACEID = 79,
        KMTQAITYPE_WDDM_3_1_CAPS = 80,
    }

    structure D3DKMT_QUERYADAPTERINFO { 24;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 Type: KMTQUERYADAPTERINFOTYPE = "in: the question, KMTQAITYPE_...",
        8 pPrivateDriverData: *mut VOID = "in, out: the structure of the question, with its index where it has one; the answer is written there",
        16 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData, exactly the structure's size",
    }

    structure D3DKMT_SEGMENTSIZEINFO { 24;
        0 DedicatedVideoMemorySize: ULONGLONG = "out: bytes of the memory segments",
        8 DedicatedSystemMemorySize: ULONGLONG = "out: 0: no system memory is the adapter's alone",
        16 SharedSystemMemorySize: ULONGLONG = "out: bytes of the aperture segments, behind which system memory lies",
    }

    structure D3DKMT_SEGMENTGROUPSIZEINFO { 56;
        0 PhysicalAdapterIndex: UINT = "in: 0: an adapter has one physical adapter",
        8 LegacyInfo: D3DKMT_SEGMENTSIZEINFO = "out: the same by kind of segment",
        32 LocalMemory: UINT64 = "out: bytes of the segments of the local budget group",
        40 NonLocalMemory: UINT64 = "out: bytes of the segments of the non-local budget group",
        48 NonBudgetMemory: UINT64 = "out: 0: each segment belongs to a budget group",
    }

    flags D3DKMT_ADAPTERTYPE { UINT;
        0 1 RenderSupported = "flag, out: set: each adapter renders",
        1 1 DisplaySupported = "flag, out: the adapter has displays",
        2 1 SoftwareDevice = "flag, out: never set",
        3 1 PostDevice = "flag, out: never set",
        4 1 HybridDiscrete = "flag, out: never set",
        5 1 HybridIntegrated = "flag, out: never set",
        6 1 IndirectDisplayDevice = "flag, out: never set",
        7 1 Paravirtualized = "flag, out: never set",
        8 1 ACGSupported = "flag, out: never set",
        9 1 SupportSetTimingsFromVidPn = "flag, out: never set",
        10 1 Detachable = "flag, out: never set",
        11 1 ComputeOnly = "flag, out: never set",
        12 1 Prototype = "flag, out: never set",
        13 1 RuntimePowerManagement = "flag, out: never set",
    }

    // spec: sync §4.3
    structure D3DKMDT_PREEMPTION_CAPS { 8;
        0 GraphicsPreemptionGranularity: INT = "out: how finely graphics work can be preempted, a D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY",
        4 ComputePreemptionGranularity: INT = "out: how finely compute work can be preempted, a D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY",
    }

    flags D3DKMT_WDDM_1_2_CAPS_FLAGS { UINT;
        0 1 SupportNonVGA = "flag, out: never set",
        1 1 SupportSmoothRotation = "flag, out: never set",
        2 1 SupportPerEngineTDR = "flag, out: never set",
        3 1 SupportKernelModeCommandBuffer = "flag, out: never set",
        4 1 SupportCCD = "flag, out: never set",
        5 1 SupportSoftwareDeviceBitmaps = "flag, out: never set",
        6 1 SupportGammaRamp = "flag, out: never set",
        7 1 SupportHWCursor = "flag, out: never set",
        8 1 SupportHWVSync = "flag, out: never set",
        9 1 SupportSurpriseRemovalInHibernation = "flag, out: never set",
    }

    structure D3DKMT_WDDM_1_2_CAPS { 12;
        0 PreemptionCaps: D3DKMDT_PREEMPTION_CAPS = "out: where work can be preempted",
        8 Anonymous: D3DKMT_WDDM_1_2_CAPS_FLAGS,
    }

    flags D3DKMT_WDDM_2_0_CAPS { UINT;
        0 1 Support64BitAtomics = "flag, out: engines store 64 bits in one piece",
        1 1 GpuMmuSupported = "flag, out: engines translate GPU virtual addresses by page tables of their own",
        2 1 IoMmuSupported = "flag, out: engines use the CPU addresses of processes",
        3 1 FlipOverwriteSupported = "flag, out: never set",
        4 1 SupportContextlessPresent = "flag, out: never set",
        5 1 SupportSurpriseRemoval = "flag, out: never set",
    }

    flags D3DKMT_WDDM_1_3_CAPS { UINT;
        0 1 SupportMiracast = "flag, out: never set",
        1 1 IsHybridIntegratedGPU = "flag, out: never set",
        2 1 IsHybridDiscreteGPU = "flag, out: never set",
        3 1 SupportPowerManagementPStates = "flag, out: never set",
        4 1 SupportVirtualModes = "flag, out: never set",
        5 1 SupportCrossAdapterResource = "flag, out: allocations may lie in memory of several adapters",
    }

    flags D3DKMT_VIRTUALADDRESSINFO { UINT;
        0 1 VirtualAddressSupported = "flag, out: engines translate GPU virtual addresses by page tables of their own",
    }

    flags D3DKMT_GPUMMU_CAPS_FLAGS { UINT;
        0 1 ReadOnlyMemorySupported = "flag, out: a mapping without Write is read-only",
        1 1 NoExecuteMemorySupported = "flag, out: a mapping without Execute cannot be executed",
        2 1 ZeroInPteSupported = "flag, out: a mapping with Zero reads 0 and drops stores",
        3 1 CacheCoherentMemorySupported = "flag, out: engines can snoop the CPU's caches",
    }

    structure D3DKMT_GPUMMU_CAPS { 8;
        0 Flags: D3DKMT_GPUMMU_CAPS_FLAGS = "out: bits of D3DKMT_GPUMMU_CAPS_FLAGS",
        4 VirtualAddressBitCount: UINT = "out: bits of a GPU virtual address",
    }

    structure D3DKMT_QUERY_GPUMMU_CAPS { 12;
        0 PhysicalAdapterIndex: UINT = "in: 0: an adapter has one physical adapter",
        4 Caps: D3DKMT_GPUMMU_CAPS = "out: the answer; an adapter without page tables refuses the question",
    }

    flags D3DKMT_WDDM_2_9_CAPS { UINT;
        0 2 HwSchSupportState = "flag, out: hardware scheduling: 0 the driver has none, 2 stable",
        2 1 HwSchEnabled = "flag, out: hardware scheduling is on",
        3 1 SelfRefreshMemorySupported = "flag, out: never set",
    }

    flags D3DKMT_WDDM_2_7_CAPS { UINT;
        0 1 HwSchSupported = "flag, out: the driver has hardware scheduling",
        1 1 HwSchEnabled = "flag, out: hardware scheduling is on",
        2 1 HwSchEnabledByDefault = "flag, out: never set",
        3 1 IndependentVidPnVSyncControl = "flag, out: never set",
    }

    flags D3DKMT_WDDM_3_0_CAPS { UINT;
        0 2 HwFlipQueueSupportState = "flag, out: flip queues in hardware: 0 the driver has none, 2 stable",
        2 1 HwFlipQueueEnabled = "flag, out: flip queues in hardware are on",
        3 1 DisplayableSupported = "flag, out: never set",
    }

    flags D3DKMT_WDDM_3_1_CAPS { UINT;
        0 1 NativeGpuFenceSupported = "flag, out: D3DKMTCreateNativeFence makes fences",
    }

    structure D3DKMT_PHYSICAL_ADAPTER_COUNT { 4;
        0 Count: UINT = "out: 1",
    }

    number D3DKMT_DRIVERVERSION { INT;
        KMT_DRIVERVERSION_WDDM_1_0 = 1000,
        KMT_DRIVERVERSION_WDDM_1_1 = 1105,
        KMT_DRIVERVERSION_WDDM_1_2 = 1200,
        KMT_DRIVERVERSION_WDDM_1_3 = 1300,
        KMT_DRIVERVERSION_WDDM_2_0 = 2000,
        KMT_DRIVERVERSION_WDDM_2_1 = 2100,
        KMT_DRIVERVERSION_WDDM_2_2 = 2200,
        KMT_DRIVERVERSION_WDDM_2_6 = 2600,
        KMT_DRIVERVERSION_WDDM_2_9 = 2900,
        KMT_DRIVERVERSION_WDDM_3_0 = 3000,
        KMT_DRIVERVERSION_WDDM_3_1 = 3100,
        KMT_DRIVERVERSION_WDDM_3_2 = 3200,
    }

    number D3DKMT_MEMORY_SEGMENT_GROUP { INT;
        D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL = 0,
        D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL = 1,
    }

    // spec: memory §5.5
    structure D3DKMT_QUERYVIDEOMEMORYINFO { 56;
        0 hProcess: HANDLE = "in, optional: a process of OpenWddmOpenProcess; NULL or (HANDLE)-1: the caller",
        8 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        12 MemorySegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP = "in: D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL or _NON_LOCAL",
        16 Budget: UINT64 = "out: bytes that the process may use without being asked to trim",
        24 CurrentUsage: UINT64 = "out: bytes that the process uses",
        32 CurrentReservation: UINT64 = "out: bytes that the process has reserved",
        40 AvailableForReservation: UINT64 = "out: bytes that the process may reserve",
        48 PhysicalAdapterIndex: UINT = "in: 0: an adapter has one physical adapter",
    }

    structure D3DKMT_CHANGEVIDEOMEMORYRESERVATION { 32;
        0 hProcess: HANDLE = "in, optional: a process of OpenWddmOpenProcess; NULL or (HANDLE)-1: the caller",
        8 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        12 MemorySegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP = "in: D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL or _NON_LOCAL",
        16 Reservation: UINT64 = "in: bytes that the process wants reserved, in place of those before",
        24 PhysicalAdapterIndex: UINT = "in: 0: an adapter has one physical adapter",
    }

    // spec: sync §2.10
    flags DXGK_ISFEATUREENABLED_BITS { UINT16;
        0 1 Enabled = "flag, out: the feature is on",
        1 1 KnownFeature = "flag, out: the kernel knows the feature",
        2 1 SupportedByDriver = "flag, out: the driver has the feature",
        3 1 SupportedOnCurrentConfig = "flag, out: the driver has it on this device",
    }

    structure DXGK_ISFEATUREENABLED_RESULT { 4;
        0 Version: UINT16 = "out: the feature's version; 0: the feature is off",
        2 Anonymous: DXGK_ISFEATUREENABLED_BITS,
    }

    number DXGK_FEATURE_ID { UINT;
        DXGK_FEATURE_HWSCH = 0,
        DXGK_FEATURE_HWFLIPQUEUE = 1,
        DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT = 3,
        DXGK_FEATURE_USER_MODE_SUBMISSION = 4,
        DXGK_FEATURE_NATIVE_FENCE = 37,
    }

    structure D3DKMT_ISFEATUREENABLED { 12;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 FeatureId: DXGK_FEATURE_ID = "in: the feature, DXGK_FEATURE_...",
        8 Result: DXGK_ISFEATUREENABLED_RESULT = "out: the feature's state",
    }

    structure D3DKMT_SETSTABLEPOWERSTATE { 8;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter; closing this handle ends what it asked for",
        4 Enabled: BOOL = "in: TRUE: engines without work keep their full power; FALSE: no longer on behalf of this handle",
    }
}
