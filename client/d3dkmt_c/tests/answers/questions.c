/* Small answers: of capabilities without gaps, of adapters by the names of displays, of figures of a process, of this process by -1, of a
 * semaphore of zero, of keyed mutexes. */
#include "steps.h"

static NTSTATUS ask(D3DKMT_HANDLE adapter, INT question, void* answer, UINT size) {
    D3DKMT_QUERYADAPTERINFO query = {.hAdapter = adapter, .Type = question, .pPrivateDriverData = answer, .PrivateDriverDataSize = size};
    return D3DKMTQueryAdapterInfo(&query);
}

static void capabilities(D3DKMT_HANDLE adapter) {
    D3DKMT_WDDM_1_2_CAPS caps12;
    UINT word = 0;
    OK(ask(adapter, KMTQAITYPE_WDDM_1_2_CAPS, &caps12, sizeof caps12));
    const INT of_a_word[] = {KMTQAITYPE_WDDM_1_3_CAPS, KMTQAITYPE_WDDM_2_0_CAPS, KMTQAITYPE_WDDM_2_7_CAPS, KMTQAITYPE_WDDM_2_9_CAPS,
                             KMTQAITYPE_WDDM_3_0_CAPS, KMTQAITYPE_WDDM_3_1_CAPS, KMTQAITYPE_VIRTUALADDRESSINFO, KMTQAITYPE_CHECKDRIVERUPDATESTATUS};
    for (size_t nth = 0; nth < sizeof of_a_word / sizeof *of_a_word; nth++) {
        OK(ask(adapter, of_a_word[nth], &word, sizeof word));
        EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, of_a_word[nth], &word, sizeof word - 1));
        EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, of_a_word[nth], NULL, sizeof word));
    }
    CHECK(word == 0);
    D3DKMT_WDDM_2_0_CAPS caps20;
    D3DKMT_VIRTUALADDRESSINFO addresses;
    OK(ask(adapter, KMTQAITYPE_WDDM_2_0_CAPS, &caps20, sizeof caps20));
    OK(ask(adapter, KMTQAITYPE_VIRTUALADDRESSINFO, &addresses, sizeof addresses));
    CHECK(addresses.VirtualAddressSupported == caps20.GpuMmuSupported);
    D3DKMT_QUERY_GPUMMU_CAPS mmu = {0};
    EXPECT(caps20.GpuMmuSupported ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER, ask(adapter, KMTQAITYPE_QUERY_GPUMMU_CAPS, &mmu, sizeof mmu));
    CHECK(!caps20.GpuMmuSupported || (mmu.Caps.VirtualAddressBitCount >= 32 && mmu.Caps.VirtualAddressBitCount <= 64));
    mmu.PhysicalAdapterIndex = 1;
    EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, KMTQAITYPE_QUERY_GPUMMU_CAPS, &mmu, sizeof mmu));
    /* A question that the interface does not define is a mistake; one that it defines and the kernel does not answer is not. */
    const INT none[] = {14, -1, 81, 1000};
    for (size_t nth = 0; nth < sizeof none / sizeof *none; nth++) {
        EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, none[nth], &word, sizeof word));
    }
    EXPECT(STATUS_NOT_SUPPORTED, ask(adapter, KMTQAITYPE_UMDRIVERPRIVATE, &word, sizeof word));
}

static void names(void) {
    D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME display;
    EXPECT(STATUS_UNSUCCESSFUL, D3DKMTOpenAdapterFromGdiDisplayName(NULL));
    memset(&display, 0, sizeof display);
    EXPECT(STATUS_UNSUCCESSFUL, D3DKMTOpenAdapterFromGdiDisplayName(&display));
    const char* none = "\\\\.\\DISPLAY99";
    for (size_t at = 0; none[at] != 0; at++) {
        display.DeviceName[at] = none[at];
    }
    EXPECT(STATUS_UNSUCCESSFUL, D3DKMTOpenAdapterFromGdiDisplayName(&display));
    CHECK(display.hAdapter == 0);
    D3DKMT_OPENADAPTERFROMDEVICENAME device = {.pDeviceName = display.DeviceName};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenAdapterFromDeviceName(&device));
    D3DKMT_OPENADAPTERFROMHDC context = {.hDc = &device};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenAdapterFromHdc(&context));
    D3DKMT_CHECKOCCLUSION window = {.hWindow = &device};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCheckOcclusion(&window));
    D3DKMT_ENUMADAPTERS2 list = {0};
    OK(D3DKMTEnumAdapters2(&list));
    CHECK(list.NumAdapters == 34);
}

/* Ownership of a source; without displays there is none. */
static void sources(D3DKMT_HANDLE adapter, D3DKMT_HANDLE device) {
    D3DKMT_ADAPTERTYPE type;
    OK(ask(adapter, KMTQAITYPE_ADAPTERTYPE, &type, sizeof type));
    D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP check = {.hAdapter = adapter};
    D3DKMT_VIDPNSOURCEOWNER_TYPE exclusive = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE, wrong = 9;
    D3DDDI_VIDEO_PRESENT_SOURCE_ID source = 0;
    D3DKMT_SETVIDPNSOURCEOWNER own = {.hDevice = device, .pType = &exclusive, .pVidPnSourceId = &source, .VidPnSourceCount = 1};
    if (type.DisplaySupported) {
        OK(D3DKMTCheckVidPnExclusiveOwnership(&check));
        OK(D3DKMTSetVidPnSourceOwner(&own));
        EXPECT(STATUS_GRAPHICS_PRESENT_OCCLUDED, D3DKMTCheckVidPnExclusiveOwnership(&check));
        own.VidPnSourceCount = 0;
        OK(D3DKMTSetVidPnSourceOwner(&own));
        OK(D3DKMTCheckVidPnExclusiveOwnership(&check));
    } else {
        EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCheckVidPnExclusiveOwnership(&check));
        EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSetVidPnSourceOwner(&own));
    }
    own.VidPnSourceCount = 1;
    own.pType = &wrong;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSetVidPnSourceOwner(&own));
    check.VidPnSourceId = 77;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCheckVidPnExclusiveOwnership(&check));
}

static HANDLE this_process(void) {
    return (HANDLE)(intptr_t)-1;
}

static NTSTATUS figures(LUID luid, D3DKMT_QUERYSTATISTICS_TYPE type) {
    D3DKMT_QUERYSTATISTICS query = {.Type = type, .AdapterLuid = luid, .hProcess = this_process()};
    return D3DKMTQueryStatistics(&query);
}

/* Before the first device, with one, after the last. */
static D3DKMT_HANDLE of_a_process(D3DKMT_HANDLE adapter, LUID luid) {
    D3DKMT_CREATEDEVICE create = {.hAdapter = adapter};
    for (int phase = 0; phase < 3; phase++) {
        OK(figures(luid, D3DKMT_QUERYSTATISTICS_PROCESS));
        EXPECT(phase == 0 ? STATUS_INVALID_PARAMETER : STATUS_SUCCESS, figures(luid, D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER));
        EXPECT(phase == 1 ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER, figures(luid, D3DKMT_QUERYSTATISTICS_PROCESS_NODE));
        for (int group = 0; group < 2; group++) {
            D3DKMT_QUERYVIDEOMEMORYINFO memory = {.hProcess = this_process(), .hAdapter = adapter, .MemorySegmentGroup = group};
            OK(D3DKMTQueryVideoMemoryInfo(&memory));
        }
        D3DKMT_CHANGEVIDEOMEMORYRESERVATION change = {.hProcess = this_process(), .hAdapter = adapter};
        OK(D3DKMTChangeVideoMemoryReservation(&change));
        change.Reservation = 4096;
        if (phase != 1) {
            EXPECT(STATUS_INVALID_PARAMETER, D3DKMTChangeVideoMemoryReservation(&change));
        }
        if (phase == 0) {
            OK(D3DKMTCreateDevice(&create));
        } else if (phase == 1) {
            D3DKMT_DESTROYDEVICE destroy = {.hDevice = create.hDevice};
            OK(D3DKMTDestroyDevice(&destroy));
        }
    }
    return create_device(adapter);
}

static void semaphores(D3DKMT_HANDLE device) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT first = {.hDevice = device, .Info = {.Type = D3DDDI_SEMAPHORE}};
    OK(D3DKMTCreateSynchronizationObject(&first));
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 second = {.hDevice = device, .Info = {.Type = D3DDDI_SEMAPHORE}};
    OK(D3DKMTCreateSynchronizationObject2(&second));
    CHECK(first.hSyncObject != 0 && second.hSyncObject != 0);
    second.Info.Semaphore.InitialCount = 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateSynchronizationObject2(&second));
}

static void keyed_mutexes(D3DKMT_HANDLE device) {
    LARGE_INTEGER at_once = {.QuadPart = 0};
    D3DKMT_ACQUIREKEYEDMUTEX acquire = {.hKeyedMutex = device, .pTimeout = &at_once, .FenceValue = 99};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTAcquireKeyedMutex(&acquire));
    CHECK(acquire.FenceValue == 99);
    D3DKMT_CREATEKEYEDMUTEX2 bare = {.InitialValue = 1};
    OK(D3DKMTCreateKeyedMutex2(&bare));
    acquire.hKeyedMutex = bare.hKeyedMutex;
    EXPECT(STATUS_TIMEOUT, D3DKMTAcquireKeyedMutex(&acquire));
    CHECK(acquire.FenceValue == 0);
    /* The first opener brings its data, the second does not change them. */
    char brought[] = "first", other[] = "other", told[6];
    D3DKMT_OPENKEYEDMUTEX2 open = {.hSharedHandle = bare.hSharedHandle, .pPrivateRuntimeData = brought, .PrivateRuntimeDataSize = sizeof brought};
    OK(D3DKMTOpenKeyedMutex2(&open));
    open.pPrivateRuntimeData = other;
    OK(D3DKMTOpenKeyedMutex2(&open));
    CHECK(memcmp(brought, "first", 6) == 0 && memcmp(other, "other", 6) == 0);
    D3DKMT_ACQUIREKEYEDMUTEX2 with_data = {.hKeyedMutex = bare.hKeyedMutex, .Key = 1, .pTimeout = &at_once, .pPrivateRuntimeData = told, .PrivateRuntimeDataSize = sizeof told};
    OK(D3DKMTAcquireKeyedMutex2(&with_data));
    CHECK(memcmp(told, "first", 6) == 0);
    /* By NT handle no keyed mutex goes alone. */
    D3DKMT_CREATEALLOCATION resource = {.hDevice = device, .Flags = {.CreateResource = 1, .CreateShared = 1, .NtSecuritySharing = 1}};
    OK(D3DKMTCreateAllocation2(&resource));
    D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE by_handle = {.hNtHandle = NULL};
    EXPECT(STATUS_INVALID_HANDLE, D3DKMTOpenKeyedMutexFromNtHandle(&by_handle));
    OK(D3DKMTShareObjects(1, &resource.hResource, NULL, STANDARD_RIGHTS_READ, &by_handle.hNtHandle));
    EXPECT(STATUS_OBJECT_TYPE_MISMATCH, D3DKMTOpenKeyedMutexFromNtHandle(&by_handle));
}

/* Before WDDM 2.2 no display signals a fence. */
static void periodic(D3DKMT_HANDLE adapter, D3DKMT_HANDLE device) {
    D3DKMT_DRIVERVERSION version = 0;
    OK(ask(adapter, KMTQAITYPE_DRIVERVERSION, &version, sizeof version));
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device, .Info = {.Type = D3DDDI_PERIODIC_MONITORED_FENCE, .PeriodicMonitoredFence = {.hAdapter = adapter}}};
    NTSTATUS status = D3DKMTCreateSynchronizationObject2(&create);
    CHECK(version >= KMT_DRIVERVERSION_WDDM_2_2 || status == STATUS_INVALID_PARAMETER);
    printf("version %d\n", version);
}

int main(void) {
    D3DKMT_ENUMADAPTERS list = {0};
    OK(D3DKMTEnumAdapters(&list));
    D3DKMT_HANDLE adapter = list.Adapters[0].hAdapter;
    D3DKMT_HANDLE device = of_a_process(adapter, list.Adapters[0].AdapterLuid);
    capabilities(adapter);
    names();
    sources(adapter, device);
    semaphores(device);
    keyed_mutexes(device);
    periodic(adapter, device);
    return 0;
}
