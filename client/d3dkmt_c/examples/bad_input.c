/* Calls that no program should make: each is refused with the documented status, and nothing has happened then. */
#include <stdint.h>

#include "steps.h"

/* The next address that no structure can have. */
static void* misaligned(void* pointer) {
    return (char*)pointer + 1;
}

int main(void) {
    /* NULL and misaligned structures. */
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEnumAdapters2(NULL));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCloseAdapter(NULL));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateNativeFence(NULL));
    static char bytes[1024];
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateDevice((D3DKMT_CREATEDEVICE*)misaligned(bytes)));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroyDevice((D3DKMT_DESTROYDEVICE*)misaligned(bytes)));

    /* A list that is too short, and one that is misaligned. */
    D3DKMT_ADAPTERINFO infos[2];
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 0, .pAdapters = infos};
    EXPECT(STATUS_BUFFER_TOO_SMALL, D3DKMTEnumAdapters2(&list));
    list = (D3DKMT_ENUMADAPTERS2){.NumAdapters = 1, .pAdapters = misaligned(infos)};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEnumAdapters2(&list));
    D3DKMT_ENUMADAPTERS3 filtered = {.Filter = {.Value = 1u << 7}, .NumAdapters = 2, .pAdapters = infos};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEnumAdapters3(&filtered));

    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE surface = create_surface(device, &paging, SYSTEM, 4096);

    /* Handles that name nothing, or something else. */
    D3DKMT_CREATEDEVICE on_device = {.hAdapter = device};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateDevice(&on_device));
    CHECK(on_device.hDevice == 0);
    D3DKMT_GETDEVICESTATE state = {.hDevice = device, .StateType = 99};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetDeviceState(&state));
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE by_nt_handle = {.hNtHandle = (HANDLE)(uintptr_t)0x1234567};
    EXPECT(STATUS_INVALID_HANDLE, D3DKMTOpenSyncObjectFromNtHandle(&by_nt_handle));

    /* An answer of the wrong size, and a question that the interface does not define. */
    D3DKMT_SEGMENTSIZEINFO sizes;
    D3DKMT_QUERYADAPTERINFO query = {
        .hAdapter = adapter,
        .Type = KMTQAITYPE_GETSEGMENTSIZE,
        .pPrivateDriverData = &sizes,
        .PrivateDriverDataSize = sizeof sizes - 8,
    };
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryAdapterInfo(&query));
    query.PrivateDriverDataSize = sizeof sizes;
    query.pPrivateDriverData = NULL;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryAdapterInfo(&query));
    query.Type = 9999;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryAdapterInfo(&query));

    /* Lists that are not there, and counts beyond every list. */
    D3DDDI_MAKERESIDENT resident = {.hPagingQueue = paging.hPagingQueue, .NumAllocations = 1};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTMakeResident(&resident));
    resident.NumAllocations = 0xffffffff;
    resident.AllocationList = &surface.handle;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTMakeResident(&resident));
    resident.NumAllocations = 1;
    resident.Flags.Value = 0x80;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTMakeResident(&resident));

    /* Allocations: none of the reserved members is anything but 0, and private data are bytes that the driver knows. */
    SOFTGPU_ALLOCATION data = softgpu_allocation(LOCAL, 0, 4096);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation2(&create));
    create.pAllocationInfo2 = &info;
    info.Reserved[2] = 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation2(&create));
    info.Reserved[2] = 0;
    info.PrivateDriverDataSize = sizeof data - 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation2(&create));
    info.pPrivateDriverData = NULL;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation2(&create));
    CHECK(info.hAllocation == 0);

    /* Locks have no flags. */
    D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = surface.handle, .Flags = {.Value = 1}};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTLock2(&lock));
    CHECK(lock.pData == NULL);

    /* Reserved members of addresses and fences. */
    D3DDDI_MAPGPUVIRTUALADDRESS map = {
        .hPagingQueue = paging.hPagingQueue,
        .hAllocation = surface.handle,
        .SizeInPages = 1,
        .Reserved1 = 1,
    };
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTMapGpuVirtualAddress(&map));
    D3DKMT_CREATENATIVEFENCE native = {.hDevice = device};
    native.Info.Reserved[27] = 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateNativeFence(&native));
    native.Info.Reserved[27] = 0;
    native.Info.Flags.Value = 1u << 20;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateNativeFence(&native));

    /* Synchronization objects: an NT handle is for what is shared, an event for a notification, and no CPU waits for a mutex. */
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 object = {
        .hDevice = device,
        .Info = {.Type = D3DDDI_SYNCHRONIZATION_MUTEX, .Flags = {.NtSecuritySharing = 1}},
    };
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateSynchronizationObject2(&object));
    object.Info.Type = D3DDDI_CPU_NOTIFICATION;
    object.Info.Flags.Value = 0;
    EXPECT(STATUS_INVALID_HANDLE, D3DKMTCreateSynchronizationObject2(&object));
    object.Info.Type = 77;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateSynchronizationObject2(&object));
    object.Info.Type = D3DDDI_SYNCHRONIZATION_MUTEX;
    OK(D3DKMTCreateSynchronizationObject2(&object));
    uint64_t value = 1;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &object.hSyncObject,
        .FenceValueArray = &value,
    };
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &object.hSyncObject,
        .FenceValueArray = &value,
    };
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSignalSynchronizationObjectFromCpu(&signal));

    /* Private calls that no driver gets, and one that this driver does not know: the caller's data stays as it was. */
    SOFTGPU_QUESTION question = softgpu_question(SOFTGPU_ASK_USAGE);
    D3DKMT_ESCAPE escape = {.hAdapter = adapter, .pPrivateDriverData = &question, .PrivateDriverDataSize = sizeof question};
    OK(D3DKMTEscape(&escape));
    CHECK(question.answer.usage.queues != 0);
    SOFTGPU_QUESTION answered = question;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEscape(&escape));
    escape.Type = D3DKMT_ESCAPE_VIDMM;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTEscape(&escape));
    escape.Type = -1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEscape(&escape));
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    escape.Flags.DeviceStatusQuery = 1;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTEscape(&escape));
    escape.Flags.Value = 1u << 31;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEscape(&escape));
    escape.Flags.Value = 0;
    escape.hDevice = adapter;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEscape(&escape));
    escape.hDevice = 0;
    escape.PrivateDriverDataSize = (1 << 16) + 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEscape(&escape));
    escape.PrivateDriverDataSize = sizeof question;
    escape.pPrivateDriverData = NULL;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEscape(&escape));
    CHECK(memcmp(&answered, &question, sizeof question) == 0);


    /* After all that the device works. */
    uint64_t* words = lock_surface(device, surface);
    words[0] = 1;
    unlock_surface(device, surface);
    puts("refused");
    return 0;
}
