/* Handles: an NT handle has 30 bits, is this process's own, and is handed over by a token; events and sections take no numbers from D3DKMT
 * handles; a resource has its handle before its allocations; of two handles of an adapter the one without devices is closed. */
#include "steps.h"

static D3DKMT_HANDLE fence(D3DKMT_HANDLE device, int shared) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {
        .hDevice = device,
        .Info = {.Type = D3DDDI_SYNCHRONIZATION_MUTEX, .Flags = {.Shared = shared, .NtSecuritySharing = shared}},
    };
    OK(D3DKMTCreateSynchronizationObject2(&create));
    return create.hSyncObject;
}

static void is_small(HANDLE handle) {
    CHECK(handle != NULL && (uintptr_t)handle < 0x40000000);
}

static void close_handle(NTSTATUS wanted, HANDLE handle) {
    OPENWDDM_CLOSEHANDLE close = {.hObject = handle};
    EXPECT(wanted, OpenWddmCloseHandle(&close));
}

static D3DKMT_HANDLE opened(HANDLE handle) {
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE open = {.hNtHandle = handle};
    OK(D3DKMTOpenSyncObjectFromNtHandle(&open));
    return open.hSyncObject;
}

static void nt_handles(D3DKMT_HANDLE device) {
    D3DKMT_HANDLE shared = fence(device, 1);
    HANDLE handles[3] = {NULL, NULL, NULL};
    for (int index = 0; index < 3; index++) {
        OK(D3DKMTShareObjects(1, &shared, NULL, D3DDDI_SYNC_OBJECT_ALL_ACCESS, &handles[index]));
        is_small(handles[index]);
        opened(handles[index]);
    }
    CHECK(handles[0] != handles[1] && handles[1] != handles[2]);
    /* Another of the same object, by the token; it stays when the first is closed. */
    OPENWDDM_EXPORTHANDLE export = {.hObject = handles[0]};
    OK(OpenWddmExportHandle(&export));
    CHECK(export.Token >> 32 != 0);
    OPENWDDM_IMPORTHANDLE import = {.Token = export.Token};
    OK(OpenWddmImportHandle(&import));
    is_small(import.hObject);
    for (int index = 0; index < 3; index++) {
        close_handle(STATUS_SUCCESS, handles[index]);
        close_handle(STATUS_INVALID_HANDLE, handles[index]);
    }
    opened(import.hObject);
    close_handle(STATUS_SUCCESS, import.hObject);
#ifndef OPENWDDM_WSL
    /* Of a descriptor the kernel hears some time after it was closed. */
    EXPECT(STATUS_INVALID_HANDLE, OpenWddmImportHandle(&import));
#endif
    /* A number that was guessed, a token, a handle of another kind: none is an NT handle. */
    D3DKMT_HANDLE none = shared;
    HANDLE guesses[] = {NULL, (HANDLE)(uintptr_t)4, (HANDLE)(uintptr_t)none, (HANDLE)(uintptr_t)export.Token};
    for (int index = 0; index < 4; index++) {
        D3DKMT_OPENSYNCOBJECTFROMNTHANDLE open = {.hNtHandle = guesses[index]};
        EXPECT(STATUS_INVALID_HANDLE, D3DKMTOpenSyncObjectFromNtHandle(&open));
    }
}

static void system_handles(D3DKMT_HANDLE adapter, D3DKMT_HANDLE device) {
    D3DKMT_HANDLE before = fence(device, 0);
    OPENWDDM_CREATEEVENT event = {0};
    OPENWDDM_CREATESECTION section = {.hAdapter = adapter, .Size = 4096};
    OK(OpenWddmCreateEvent(&event));
    OK(OpenWddmCreateSection(&section));
    is_small(event.hEvent);
    is_small(section.hSection);
    CHECK(fence(device, 0) == before + 0x40);
    close_handle(STATUS_SUCCESS, section.hSection);
    OPENWDDM_SETEVENT set = {.hEvent = event.hEvent};
    OK(OpenWddmSetEvent(&set));
    close_handle(STATUS_SUCCESS, event.hEvent);
}

static void resources(D3DKMT_HANDLE device) {
    SOFTGPU_ALLOCATION data[2];
    D3DDDI_ALLOCATIONINFO2 infos[2] = {{0}};
    for (int index = 0; index < 2; index++) {
        data[index] = softgpu_allocation(SYSTEM, CPU_VISIBLE, 4096);
        infos[index].pPrivateDriverData = &data[index];
        infos[index].PrivateDriverDataSize = sizeof data[index];
    }
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 2, .pAllocationInfo2 = infos, .Flags = {.CreateResource = 1, .CreateShared = 1}};
    /* One that names a resource which there is not. */
    D3DKMT_CREATEALLOCATION unknown = create;
    unknown.hResource = device;
    EXPECT(STATUS_INVALID_HANDLE, D3DKMTCreateAllocation2(&unknown));
    unknown.Flags.Value = 0;
    EXPECT(STATUS_INVALID_HANDLE, D3DKMTCreateAllocation2(&unknown));
    CHECK(infos[0].hAllocation == 0);
    OK(D3DKMTCreateAllocation2(&create));
    CHECK(infos[0].hAllocation == create.hResource + 0x40 && infos[1].hAllocation == create.hResource + 0x80);
    char total[sizeof data];
    D3DDDI_OPENALLOCATIONINFO2 opened[2];
    D3DKMT_OPENRESOURCE open = {
        .hDevice = device,
        .hGlobalShare = create.hGlobalShare,
        .NumAllocations = 2,
        .pOpenAllocationInfo2 = opened,
        .pTotalPrivateDriverDataBuffer = total,
        .TotalPrivateDriverDataBufferSize = sizeof total,
    };
    OK(D3DKMTOpenResource2(&open));
    CHECK(opened[0].hAllocation == open.hResource + 0x40 && opened[1].hAllocation == open.hResource + 0x80);
    D3DKMT_DESTROYALLOCATION2 nothing = {.hDevice = device};
    OK(D3DKMTDestroyAllocation2(&nothing));
    nothing.hDevice = create.hResource;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroyAllocation2(&nothing));
}

/* A call that names a device and an NT handle judges the device first; QueryProcessOfferInfo judges the process first. */
static void wrong_in_both(D3DKMT_HANDLE device) {
    D3DKMT_HANDLE devices[] = {0, device + 2, device};
    for (int index = 0; index < 3; index++) {
        NTSTATUS wanted = devices[index] == device ? STATUS_INVALID_HANDLE : STATUS_INVALID_PARAMETER;
        D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 object = {.hDevice = devices[index]};
        EXPECT(wanted, D3DKMTOpenSyncObjectFromNtHandle2(&object));
        D3DKMT_OPENNATIVEFENCEFROMNTHANDLE fence = {.hDevice = devices[index]};
        EXPECT(wanted, D3DKMTOpenNativeFenceFromNtHandle(&fence));
        D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE info = {.hDevice = devices[index]};
        EXPECT(wanted, D3DKMTQueryResourceInfoFromNtHandle(&info));
        D3DKMT_OPENRESOURCEFROMNTHANDLE resource = {.hDevice = devices[index]};
        EXPECT(wanted, D3DKMTOpenResourceFromNtHandle(&resource));
    }
    D3DKMT_QUERYPROCESSOFFERINFO offers = {.hProcess = (HANDLE)(uintptr_t)0x7fff0004};
    EXPECT(STATUS_INVALID_HANDLE, D3DKMTQueryProcessOfferInfo(&offers));
    offers.hProcess = NULL;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryProcessOfferInfo(&offers));
}

static void adapters(D3DKMT_HANDLE first) {
    D3DKMT_HANDLE second = first_adapter();
    D3DKMT_HANDLE device = create_device(second);
    D3DKMT_CLOSEADAPTER close = {.hAdapter = second};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCloseAdapter(&close));
    D3DKMT_DESTROYDEVICE destroy = {.hDevice = device};
    OK(D3DKMTDestroyDevice(&destroy));
    OK(D3DKMTCloseAdapter(&close));
    close.hAdapter = first;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCloseAdapter(&close));
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    nt_handles(device);
    system_handles(adapter, device);
    resources(device);
    wrong_in_both(device);
    adapters(adapter);
    puts("small and its own");
    return 0;
}
