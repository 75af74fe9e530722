//! Adapters: enumeration, opening, queries (memory §5.5; sync §2.1, §2.10).

use crate::layout::layout;
use crate::number::*;

layout! {
    structure D3DKMT_ADAPTERINFO { 20;
        0 hAdapter: D3DKMT_HANDLE,
        4 AdapterLuid: LUID,
        12 NumOfSources: ULONG,
        16 bPrecisePresentRegionsPreferred: BOOL,
    }

    structure D3DKMT_ENUMADAPTERS { 324;
        0 NumAdapters: ULONG,
        4 Adapters: [D3DKMT_ADAPTERINFO; MAX_ENUM_ADAPTERS],
    }

    structure D3DKMT_ENUMADAPTERS2 { 16;
        0 NumAdapters: ULONG,
        8 pAdapters: *mut D3DKMT_ADAPTERINFO,
    }

    flags D3DKMT_ENUMADAPTERS_FILTER { ULONGLONG;
        0 1 IncludeComputeOnly,
        1 1 IncludeDisplayOnly,
    }

    structure D3DKMT_ENUMADAPTERS3 { 24;
        0 Filter: D3DKMT_ENUMADAPTERS_FILTER,
        8 NumAdapters: ULONG,
        16 pAdapters: *mut D3DKMT_ADAPTERINFO,
    }

    structure D3DKMT_OPENADAPTERFROMLUID { 12;
        0 AdapterLuid: LUID,
        8 hAdapter: D3DKMT_HANDLE,
    }

    structure D3DKMT_CLOSEADAPTER { 4;
        0 hAdapter: D3DKMT_HANDLE,
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
        0 hAdapter: D3DKMT_HANDLE,
        4 Type: KMTQUERYADAPTERINFOTYPE,
        8 pPrivateDriverData: *mut VOID,
        16 PrivateDriverDataSize: UINT,
    }

    structure D3DKMT_SEGMENTSIZEINFO { 24;
        0 DedicatedVideoMemorySize: ULONGLONG,
        8 DedicatedSystemMemorySize: ULONGLONG,
        16 SharedSystemMemorySize: ULONGLONG,
    }

    structure D3DKMT_SEGMENTGROUPSIZEINFO { 56;
        0 PhysicalAdapterIndex: UINT,
        8 LegacyInfo: D3DKMT_SEGMENTSIZEINFO,
        32 LocalMemory: UINT64,
        40 NonLocalMemory: UINT64,
        48 NonBudgetMemory: UINT64,
    }

    flags D3DKMT_ADAPTERTYPE { UINT;
        0 1 RenderSupported,
        1 1 DisplaySupported,
        2 1 SoftwareDevice,
        3 1 PostDevice,
        4 1 HybridDiscrete,
        5 1 HybridIntegrated,
        6 1 IndirectDisplayDevice,
        7 1 Paravirtualized,
        8 1 ACGSupported,
        9 1 SupportSetTimingsFromVidPn,
        10 1 Detachable,
        11 1 ComputeOnly,
        12 1 Prototype,
        13 1 RuntimePowerManagement,
    }

    // spec: sync §4.3
    structure D3DKMDT_PREEMPTION_CAPS { 8;
        0 GraphicsPreemptionGranularity: INT,
        4 ComputePreemptionGranularity: INT,
    }

    flags D3DKMT_WDDM_1_2_CAPS_FLAGS { UINT;
        0 1 SupportNonVGA,
        1 1 SupportSmoothRotation,
        2 1 SupportPerEngineTDR,
        3 1 SupportKernelModeCommandBuffer,
        4 1 SupportCCD,
        5 1 SupportSoftwareDeviceBitmaps,
        6 1 SupportGammaRamp,
        7 1 SupportHWCursor,
        8 1 SupportHWVSync,
        9 1 SupportSurpriseRemovalInHibernation,
    }

    structure D3DKMT_WDDM_1_2_CAPS { 12;
        0 PreemptionCaps: D3DKMDT_PREEMPTION_CAPS,
        8 Anonymous: D3DKMT_WDDM_1_2_CAPS_FLAGS,
    }

    flags D3DKMT_WDDM_2_0_CAPS { UINT;
        0 1 Support64BitAtomics,
        1 1 GpuMmuSupported,
        2 1 IoMmuSupported,
        3 1 FlipOverwriteSupported,
        4 1 SupportContextlessPresent,
        5 1 SupportSurpriseRemoval,
    }

    flags D3DKMT_WDDM_1_3_CAPS { UINT;
        0 1 SupportMiracast,
        1 1 IsHybridIntegratedGPU,
        2 1 IsHybridDiscreteGPU,
        3 1 SupportPowerManagementPStates,
        4 1 SupportVirtualModes,
        5 1 SupportCrossAdapterResource,
    }

    flags D3DKMT_VIRTUALADDRESSINFO { UINT;
        0 1 VirtualAddressSupported,
    }

    flags D3DKMT_GPUMMU_CAPS_FLAGS { UINT;
        0 1 ReadOnlyMemorySupported,
        1 1 NoExecuteMemorySupported,
        2 1 ZeroInPteSupported,
        3 1 CacheCoherentMemorySupported,
    }

    structure D3DKMT_GPUMMU_CAPS { 8;
        0 Flags: D3DKMT_GPUMMU_CAPS_FLAGS,
        4 VirtualAddressBitCount: UINT,
    }

    structure D3DKMT_QUERY_GPUMMU_CAPS { 12;
        0 PhysicalAdapterIndex: UINT,
        4 Caps: D3DKMT_GPUMMU_CAPS,
    }

    flags D3DKMT_WDDM_2_9_CAPS { UINT;
        0 2 HwSchSupportState,
        2 1 HwSchEnabled,
        3 1 SelfRefreshMemorySupported,
    }

    flags D3DKMT_WDDM_2_7_CAPS { UINT;
        0 1 HwSchSupported,
        1 1 HwSchEnabled,
        2 1 HwSchEnabledByDefault,
        3 1 IndependentVidPnVSyncControl,
    }

    flags D3DKMT_WDDM_3_0_CAPS { UINT;
        0 2 HwFlipQueueSupportState,
        2 1 HwFlipQueueEnabled,
        3 1 DisplayableSupported,
    }

    flags D3DKMT_WDDM_3_1_CAPS { UINT;
        0 1 NativeGpuFenceSupported,
    }

    structure D3DKMT_PHYSICAL_ADAPTER_COUNT { 4;
        0 Count: UINT,
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
        0 hProcess: HANDLE,
        8 hAdapter: D3DKMT_HANDLE,
        12 MemorySegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP,
        16 Budget: UINT64,
        24 CurrentUsage: UINT64,
        32 CurrentReservation: UINT64,
        40 AvailableForReservation: UINT64,
        48 PhysicalAdapterIndex: UINT,
    }

    structure D3DKMT_CHANGEVIDEOMEMORYRESERVATION { 32;
        0 hProcess: HANDLE,
        8 hAdapter: D3DKMT_HANDLE,
        12 MemorySegmentGroup: D3DKMT_MEMORY_SEGMENT_GROUP,
        16 Reservation: UINT64,
        24 PhysicalAdapterIndex: UINT,
    }

    // spec: sync §2.10
    flags DXGK_ISFEATUREENABLED_BITS { UINT16;
        0 1 Enabled,
        1 1 KnownFeature,
        2 1 SupportedByDriver,
        3 1 SupportedOnCurrentConfig,
    }

    structure DXGK_ISFEATUREENABLED_RESULT { 4;
        0 Version: UINT16,
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
        0 hAdapter: D3DKMT_HANDLE,
        4 FeatureId: DXGK_FEATURE_ID,
        8 Result: DXGK_ISFEATUREENABLED_RESULT,
    }
}
