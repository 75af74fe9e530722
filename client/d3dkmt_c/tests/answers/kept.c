/* Objects that an NT handle names stay with their content when their makers have gone: resource, keyed mutex and synchronization
 * object of a set. They end with the last handle, and the memory committed for them is free then. */
#include "steps.h"

enum { BYTES = 1 << 16, WORDS = BYTES / 8 };

static D3DKMT_HANDLE shared_mutex_object(D3DKMT_HANDLE device) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {
        .hDevice = device,
        .Info = {.Type = D3DDDI_SYNCHRONIZATION_MUTEX, .Flags = {.Shared = 1, .NtSecuritySharing = 1}},
    };
    OK(D3DKMTCreateSynchronizationObject2(&create));
    return create.hSyncObject;
}

/* The set, made on a device that ends at once: only the handle is left. */
static HANDLE left_behind(D3DKMT_HANDLE adapter, UINT flavour) {
    static char runtime[] = "of a runtime", of_mutex[] = "of a mutex";
    D3DKMT_HANDLE device = create_device(adapter);
    SOFTGPU_ALLOCATION data = softgpu_allocation(flavour, CPU_VISIBLE, BYTES);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device,
        .pPrivateRuntimeData = runtime,
        .PrivateRuntimeDataSize = sizeof runtime,
        .NumAllocations = 1,
        .pAllocationInfo2 = &info,
        .Flags = {.CreateResource = 1, .CreateShared = 1, .NtSecuritySharing = 1},
    };
    OK(D3DKMTCreateAllocation2(&create));
    SURFACE surface = {.handle = info.hAllocation};
    uint64_t* words = lock_surface(device, surface);
    for (uint64_t index = 0; index < WORDS; index++) {
        words[index] = index * 3;
    }
    unlock_surface(device, surface);
    D3DKMT_CREATEKEYEDMUTEX2 mutex = {
        .InitialValue = 4,
        .pPrivateRuntimeData = of_mutex,
        .PrivateRuntimeDataSize = sizeof of_mutex,
        .Flags = {.NtSecuritySharing = 1},
    };
    OK(D3DKMTCreateKeyedMutex2(&mutex));
    D3DKMT_HANDLE objects[] = {create.hResource, mutex.hKeyedMutex, shared_mutex_object(device)};
    HANDLE shared = NULL;
    OK(D3DKMTShareObjects(3, objects, NULL, STANDARD_RIGHTS_READ, &shared));
    D3DKMT_DESTROYKEYEDMUTEX no_mutex = {.hKeyedMutex = mutex.hKeyedMutex};
    OK(D3DKMTDestroyKeyedMutex(&no_mutex));
    D3DKMT_DESTROYDEVICE gone = {.hDevice = device};
    OK(D3DKMTDestroyDevice(&gone));
    return shared;
}

static void is_whole(D3DKMT_HANDLE adapter, HANDLE shared) {
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query = {.hDevice = device, .hNtHandle = shared};
    OK(D3DKMTQueryResourceInfoFromNtHandle(&query));
    CHECK(query.NumAllocations == 1 && query.PrivateRuntimeDataSize == 13);
    char runtime[13], total[64];
    D3DDDI_OPENALLOCATIONINFO2 info;
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = {
        .hDevice = device,
        .hNtHandle = shared,
        .NumAllocations = 1,
        .pOpenAllocationInfo2 = &info,
        .pPrivateRuntimeData = runtime,
        .PrivateRuntimeDataSize = sizeof runtime,
        .pTotalPrivateDriverDataBuffer = total,
        .TotalPrivateDriverDataBufferSize = sizeof total,
    };
    OK(D3DKMTOpenResourceFromNtHandle(&open));
    CHECK(open.hKeyedMutex != 0 && open.hSyncObject != 0 && memcmp(runtime, "of a runtime", 13) == 0);
    uint64_t* words = lock_surface(device, (SURFACE){.handle = info.hAllocation});
    for (uint64_t index = 0; index < WORDS; index++) {
        CHECK(words[index] == index * 3);
    }
    unlock_surface(device, (SURFACE){.handle = info.hAllocation});
    char of_mutex[11];
    LARGE_INTEGER at_once = {.QuadPart = 0};
    D3DKMT_ACQUIREKEYEDMUTEX2 acquire = {
        .hKeyedMutex = open.hKeyedMutex,
        .Key = 4,
        .pTimeout = &at_once,
        .pPrivateRuntimeData = of_mutex,
        .PrivateRuntimeDataSize = sizeof of_mutex,
    };
    OK(D3DKMTAcquireKeyedMutex2(&acquire));
    CHECK(memcmp(of_mutex, "of a mutex", 11) == 0);
    D3DKMT_RELEASEKEYEDMUTEX release = {.hKeyedMutex = open.hKeyedMutex, .Key = 4};
    OK(D3DKMTReleaseKeyedMutex(&release));
    D3DKMT_DESTROYDEVICE gone = {.hDevice = device};
    OK(D3DKMTDestroyDevice(&gone));
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    HANDLE shared = left_behind(adapter, SYSTEM);
    for (int opener = 0; opener < 3; opener++) {
        is_whole(adapter, shared);
    }
    OPENWDDM_CLOSEHANDLE close = {.hObject = shared};
    OK(OpenWddmCloseHandle(&close));
    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query = {.hDevice = create_device(adapter), .hNtHandle = shared};
    EXPECT(STATUS_INVALID_HANDLE, D3DKMTQueryResourceInfoFromNtHandle(&query));
    puts("kept");
    return 0;
}
