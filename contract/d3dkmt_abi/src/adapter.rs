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
        KMTQAITYPE_UMDRIVERPRIVATE = 0: "refused: private data of a driver; the drivers here have none for it",
        KMTQAITYPE_UMDRIVERNAME = 1: "refused: the file of the user-mode driver; adapters have none in a file",
        KMTQAITYPE_UMOPENGLINFO = 2: "refused: the OpenGL driver's file",
        KMTQAITYPE_GETSEGMENTSIZE = 3: "answered: D3DKMT_SEGMENTSIZEINFO, how much memory of each kind there is",
        KMTQAITYPE_ADAPTERGUID = 4: "refused: the adapter's GUID",
        KMTQAITYPE_FLIPQUEUEINFO = 5: "refused: how many flips a display queues",
        KMTQAITYPE_ADAPTERADDRESS = 6: "answered: D3DKMT_ADAPTERADDRESS, the place on the bus",
        KMTQAITYPE_SETWORKINGSETINFO = 7: "refused: limits of a working set",
        KMTQAITYPE_ADAPTERREGISTRYINFO = 8: "answered: D3DKMT_ADAPTERREGISTRYINFO, the adapter's name",
        KMTQAITYPE_CURRENTDISPLAYMODE = 9: "answered: D3DKMT_CURRENTDISPLAYMODE, the mode of a display",
        KMTQAITYPE_MODELIST = 10: "refused: the modes of a display",
        KMTQAITYPE_CHECKDRIVERUPDATESTATUS = 11: "answered: a BOOL, FALSE: a driver is there as long as its adapter is",
        KMTQAITYPE_VIRTUALADDRESSINFO = 12: "answered: D3DKMT_VIRTUALADDRESSINFO, whether the adapter has GPU virtual addresses",
        KMTQAITYPE_DRIVERVERSION = 13: "answered: D3DKMT_DRIVERVERSION, the WDDM version of the driver",
        KMTQAITYPE_ADAPTERTYPE = 15: "answered: D3DKMT_ADAPTERTYPE, what the adapter can do",
        KMTQAITYPE_OUTPUTDUPLCONTEXTSCOUNT = 16: "refused: how many programs duplicate an output",
        KMTQAITYPE_WDDM_1_2_CAPS = 17: "answered: D3DKMT_WDDM_1_2_CAPS",
        KMTQAITYPE_UMD_DRIVER_VERSION = 18: "refused: the version of the user-mode driver",
        KMTQAITYPE_DIRECTFLIP_SUPPORT = 19: "refused: flips past a compositor",
        KMTQAITYPE_MULTIPLANEOVERLAY_SUPPORT = 20: "refused: overlays of several planes",
        KMTQAITYPE_DLIST_DRIVER_NAME = 21: "refused: the driver of machines with two GPUs",
        KMTQAITYPE_WDDM_1_3_CAPS = 22: "answered: D3DKMT_WDDM_1_3_CAPS",
        KMTQAITYPE_MULTIPLANEOVERLAY_HUD_SUPPORT = 23: "refused: overlays with a plane for a head-up display",
        KMTQAITYPE_WDDM_2_0_CAPS = 24: "answered: D3DKMT_WDDM_2_0_CAPS",
        KMTQAITYPE_NODEMETADATA = 25: "answered: D3DKMT_NODEMETADATA, the name of a node",
        KMTQAITYPE_CPDRIVERNAME = 26: "refused: the driver of content protection",
        KMTQAITYPE_XBOX = 27: "refused: whether the machine is an Xbox",
        KMTQAITYPE_INDEPENDENTFLIP_SUPPORT = 28: "refused: flips that a compositor leaves to the program",
        KMTQAITYPE_MIRACASTCOMPANIONDRIVERNAME = 29: "refused: the driver of wireless displays",
        KMTQAITYPE_PHYSICALADAPTERCOUNT = 30: "answered: D3DKMT_PHYSICAL_ADAPTER_COUNT, always 1",
        KMTQAITYPE_PHYSICALADAPTERDEVICEIDS = 31: "answered: D3DKMT_QUERY_DEVICE_IDS, what the bus says of the device",
        KMTQAITYPE_DRIVERCAPS_EXT = 32: "refused: further capabilities of the driver",
        KMTQAITYPE_QUERY_MIRACAST_DRIVER_TYPE = 33: "refused: the kind of driver for wireless displays",
        KMTQAITYPE_QUERY_GPUMMU_CAPS = 34: "answered: D3DKMT_QUERY_GPUMMU_CAPS, how the adapter translates GPU virtual addresses",
        KMTQAITYPE_QUERY_MULTIPLANEOVERLAY_DECODE_SUPPORT = 35: "refused: overlays of decoded video",
        KMTQAITYPE_QUERY_HW_PROTECTION_TEARDOWN_COUNT = 36: "refused: lost protections; there is no protected content",
        KMTQAITYPE_QUERY_ISBADDRIVERFORHWPROTECTIONDISABLED = 37: "refused: a driver that may not protect content",
        KMTQAITYPE_MULTIPLANEOVERLAY_SECONDARY_SUPPORT = 38: "refused: overlays on a second display",
        KMTQAITYPE_INDEPENDENTFLIP_SECONDARY_SUPPORT = 39: "refused: independent flips on a second display",
        KMTQAITYPE_PANELFITTER_SUPPORT = 40: "refused: displays that scale",
        KMTQAITYPE_PHYSICALADAPTERPNPKEY = 41: "refused: the registry key of a physical adapter",
        KMTQAITYPE_GETSEGMENTGROUPSIZE = 42: "answered: D3DKMT_SEGMENTGROUPSIZEINFO, the memory of each segment group",
        KMTQAITYPE_MPO3DDI_SUPPORT = 43: "refused: the third interface of overlays",
        KMTQAITYPE_HWDRM_SUPPORT = 44: "refused: content protection by hardware",
        KMTQAITYPE_MPOKERNELCAPS_SUPPORT = 45: "refused: the kernel's part in overlays",
        KMTQAITYPE_MULTIPLANEOVERLAY_STRETCH_SUPPORT = 46: "refused: overlays that stretch",
        KMTQAITYPE_GET_DEVICE_VIDPN_OWNERSHIP_INFO = 47: "refused: whether a device may own displays",
        KMTQAITYPE_QUERYREGISTRY = 48: "refused: an entry of the registry; there is none",
        KMTQAITYPE_KMD_DRIVER_VERSION = 49: "refused: the version of the kernel-mode driver",
        KMTQAITYPE_BLOCKLIST_KERNEL = 50: "refused: the kernel's list of blocked drivers",
        KMTQAITYPE_BLOCKLIST_RUNTIME = 51: "refused: the runtimes' list of blocked drivers",
        KMTQAITYPE_ADAPTERGUID_RENDER = 52: "refused: as KMTQAITYPE_ADAPTERGUID",
        KMTQAITYPE_ADAPTERADDRESS_RENDER = 53: "answered: as KMTQAITYPE_ADAPTERADDRESS",
        KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER = 54: "answered: as KMTQAITYPE_ADAPTERREGISTRYINFO",
        KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER = 55: "answered: as KMTQAITYPE_CHECKDRIVERUPDATESTATUS",
        KMTQAITYPE_DRIVERVERSION_RENDER = 56: "answered: as KMTQAITYPE_DRIVERVERSION",
        KMTQAITYPE_ADAPTERTYPE_RENDER = 57: "answered: as KMTQAITYPE_ADAPTERTYPE",
        KMTQAITYPE_WDDM_1_2_CAPS_RENDER = 58: "answered: as KMTQAITYPE_WDDM_1_2_CAPS",
        KMTQAITYPE_WDDM_1_3_CAPS_RENDER = 59: "answered: as KMTQAITYPE_WDDM_1_3_CAPS",
        KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID = 60: "refused: a GUID that no other adapter has",
        KMTQAITYPE_NODEPERFDATA = 61: "answered: D3DKMT_NODE_PERFDATA, the performance of a node",
        KMTQAITYPE_ADAPTERPERFDATA = 62: "answered: D3DKMT_ADAPTER_PERFDATA, the performance of the adapter",
        KMTQAITYPE_ADAPTERPERFDATA_CAPS = 63: "answered: D3DKMT_ADAPTER_PERFDATACAPS, all 0: no driver reports a maximum",
        KMTQAITYPE_DRIVER_DESCRIPTION = 65: "refused: the driver's description",
        KMTQAITYPE_DRIVER_DESCRIPTION_RENDER = 66: "refused: as KMTQAITYPE_DRIVER_DESCRIPTION",
        KMTQAITYPE_SCANOUT_CAPS = 67: "refused: the formats that a display reads",
        KMTQAITYPE_PARAVIRTUALIZATION_RENDER = 68: "refused: whether guests may share the adapter",
        KMTQAITYPE_SERVICENAME = 69: "refused: the service of the driver",
        KMTQAITYPE_WDDM_2_7_CAPS = 70: "answered: D3DKMT_WDDM_2_7_CAPS, hardware scheduling among them",
        KMTQAITYPE_DISPLAY_UMDRIVERNAME = 71: "refused: the user-mode driver of a display",
        KMTQAITYPE_TRACKEDWORKLOAD_SUPPORT = 72: "refused: tracked workloads",
        KMTQAITYPE_HYBRID_DLIST_DLL_SUPPORT = 73: "refused: the library of machines with two GPUs",
        KMTQAITYPE_DISPLAY_CAPS = 74: "refused: capabilities of a display",
        KMTQAITYPE_WDDM_2_9_CAPS = 75: "answered: D3DKMT_WDDM_2_9_CAPS",
        KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT = 76: "refused: the tier of resources that several adapters use",
        KMTQAITYPE_WDDM_3_0_CAPS = 77: "answered: D3DKMT_WDDM_3_0_CAPS",
        KMTQAITYPE_WSAUMDIMAGENAME = 78: "refused: the user-mode driver's image for Android programs",
        KMTQAITYPE_VGPUINTERFACEID = 79: "refused: the interface of a virtual GPU",
        KMTQAITYPE_WDDM_3_1_CAPS = 80: "answered: D3DKMT_WDDM_3_1_CAPS, native fences among them",
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
    number D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY { INT;
        D3DKMDT_GRAPHICS_PREEMPTION_NONE = 0: "graphics work is not preempted",
        D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY = 100: "graphics work stops between DMA buffers",
        D3DKMDT_GRAPHICS_PREEMPTION_PRIMITIVE_BOUNDARY = 200: "graphics work stops between draws",
        D3DKMDT_GRAPHICS_PREEMPTION_TRIANGLE_BOUNDARY = 300: "graphics work stops between triangles",
        D3DKMDT_GRAPHICS_PREEMPTION_PIXEL_BOUNDARY = 400: "graphics work stops between pixels",
        D3DKMDT_GRAPHICS_PREEMPTION_SHADER_BOUNDARY = 500: "graphics work stops within a shader",
    }

    number D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY { INT;
        D3DKMDT_COMPUTE_PREEMPTION_NONE = 0: "compute work is not preempted",
        D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY = 100: "compute work stops between DMA buffers",
        D3DKMDT_COMPUTE_PREEMPTION_DISPATCH_BOUNDARY = 200: "compute work stops between dispatches",
        D3DKMDT_COMPUTE_PREEMPTION_THREAD_GROUP_BOUNDARY = 300: "compute work stops between thread groups",
        D3DKMDT_COMPUTE_PREEMPTION_THREAD_BOUNDARY = 400: "compute work stops between threads",
        D3DKMDT_COMPUTE_PREEMPTION_SHADER_BOUNDARY = 500: "compute work stops within a shader",
    }

    structure D3DKMDT_PREEMPTION_CAPS { 8;
        0 GraphicsPreemptionGranularity: D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY = "out: how finely graphics work can be preempted",
        4 ComputePreemptionGranularity: D3DKMDT_COMPUTE_PREEMPTION_GRANULARITY = "out: how finely compute work can be preempted",
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

    // spec: sync §2.10
    structure D3DKMT_ADAPTERADDRESS { 12;
        0 BusNumber: UINT = "out: the bus",
        4 DeviceNumber: UINT = "out: the device on it",
        8 FunctionNumber: UINT = "out: the function of it",
    }

    structure D3DKMT_DEVICE_IDS { 24;
        0 VendorID: UINT = "out: the maker",
        4 DeviceID: UINT = "out: the maker's number of the device",
        8 SubVendorID: UINT = "out: the maker of the board",
        12 SubSystemID: UINT = "out: that maker's number of the board",
        16 RevisionID: UINT = "out: the revision of the device",
        20 BusType: UINT = "out: the kind of the bus, 1 for PCI",
    }

    structure D3DKMT_QUERY_DEVICE_IDS { 28;
        0 PhysicalAdapterIndex: UINT = "in: 0: an adapter has one physical adapter",
        4 DeviceIds: D3DKMT_DEVICE_IDS = "out: what the bus says of the device",
    }

    structure D3DKMT_PHYSICAL_ADAPTER_COUNT { 4;
        0 Count: UINT = "out: 1",
    }

    number D3DKMT_DRIVERVERSION { INT;
        KMT_DRIVERVERSION_WDDM_1_0 = 1000: "the driver follows WDDM 1.0",
        KMT_DRIVERVERSION_WDDM_1_1_PRERELEASE = 1102: "the driver follows WDDM 1.1 as it was before its release",
        KMT_DRIVERVERSION_WDDM_1_1 = 1105: "the driver follows WDDM 1.1",
        KMT_DRIVERVERSION_WDDM_1_2 = 1200: "the driver follows WDDM 1.2",
        KMT_DRIVERVERSION_WDDM_1_3 = 1300: "the driver follows WDDM 1.3",
        KMT_DRIVERVERSION_WDDM_2_0 = 2000: "the driver follows WDDM 2.0",
        KMT_DRIVERVERSION_WDDM_2_1 = 2100: "the driver follows WDDM 2.1",
        KMT_DRIVERVERSION_WDDM_2_2 = 2200: "the driver follows WDDM 2.2",
        KMT_DRIVERVERSION_WDDM_2_3 = 2300: "the driver follows WDDM 2.3",
        KMT_DRIVERVERSION_WDDM_2_4 = 2400: "the driver follows WDDM 2.4",
        KMT_DRIVERVERSION_WDDM_2_5 = 2500: "the driver follows WDDM 2.5",
        KMT_DRIVERVERSION_WDDM_2_6 = 2600: "the driver follows WDDM 2.6",
        KMT_DRIVERVERSION_WDDM_2_7 = 2700: "the driver follows WDDM 2.7",
        KMT_DRIVERVERSION_WDDM_2_8 = 2800: "the driver follows WDDM 2.8",
        KMT_DRIVERVERSION_WDDM_2_9 = 2900: "the driver follows WDDM 2.9",
        KMT_DRIVERVERSION_WDDM_3_0 = 3000: "the driver follows WDDM 3.0",
        KMT_DRIVERVERSION_WDDM_3_1 = 3100: "the driver follows WDDM 3.1",
        KMT_DRIVERVERSION_WDDM_3_2 = 3200: "the driver follows WDDM 3.2",
    }

    number D3DKMT_MEMORY_SEGMENT_GROUP { INT;
        D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL = 0: "the adapter's own memory",
        D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL = 1: "system memory that the adapter reaches",
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
        DXGK_FEATURE_HWSCH = 0: "hardware scheduling: queues that the GPU takes from",
        DXGK_FEATURE_HWFLIPQUEUE = 1: "flips that the display queues by itself",
        DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT = 3: "known by name alone: a driver that signals an event of the CPU",
        DXGK_FEATURE_USER_MODE_SUBMISSION = 4: "work that programs submit by doorbells, without a call",
        DXGK_FEATURE_NATIVE_FENCE = 37: "fences that GPUs signal and wait for by themselves",
    }

    structure D3DKMT_ISFEATUREENABLED { 12;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 FeatureId: DXGK_FEATURE_ID = "in: the feature, DXGK_FEATURE_...",
        8 Result: DXGK_ISFEATUREENABLED_RESULT = "out: the feature's state",
    }

    structure D3DKMT_SETHWPROTECTIONTEARDOWNRECOVERY { 8;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 Recovered: BOOL = "unread: no adapter of this kernel protects content",
    }

    structure D3DKMT_SETSTABLEPOWERSTATE { 8;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter; closing this handle ends what it asked for",
        4 Enabled: BOOL = "in: TRUE: engines without work keep their full power; FALSE: no longer on behalf of this handle",
    }
}
