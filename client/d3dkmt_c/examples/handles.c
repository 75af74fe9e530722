/* The bits of handles: a program that is handed one sees by them whether it is local or global. A shared object has its global handle
 * as long as it is open. */
#include "steps.h"

static D3DKMT_HANDLE create_mutex(D3DKMT_HANDLE device, D3DKMT_HANDLE* global) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {
        .hDevice = device,
        .Info = {.Type = D3DDDI_SYNCHRONIZATION_MUTEX, .Flags = {.Shared = global != NULL}},
    };
    OK(D3DKMTCreateSynchronizationObject2(&create));
    CHECK((create.Info.SharedHandle != 0) == (global != NULL));
    if (global != NULL) {
        *global = create.Info.SharedHandle;
    }
    return create.hSyncObject;
}

static void destroy(D3DKMT_HANDLE object) {
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {.hSyncObject = object};
    OK(D3DKMTDestroySynchronizationObject(&destroy));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroySynchronizationObject(&destroy));
}

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());

    /* A process's own: the highest bits are not 0, the low six are, and each is 0x40 above the one before, whatever went. */
    D3DKMT_HANDLE before = create_mutex(device, NULL);
    for (int index = 0; index < 8; index++) {
        CHECK((before & 0xc0000000) != 0 && (before & 0x3f) == 0);
        D3DKMT_HANDLE next = create_mutex(device, NULL);
        CHECK(next == before + 0x40);
        destroy(before);
        before = next;
    }

    /* Global ones: the low six bits are 2. One lives as long as a device has the object open. */
    D3DKMT_HANDLE global;
    D3DKMT_HANDLE created = create_mutex(device, &global);
    CHECK((global & 0xc0000000) != 0 && (global & 0x3f) == 2);
    D3DKMT_OPENSYNCHRONIZATIONOBJECT open = {.hSharedHandle = global};
    OK(D3DKMTOpenSynchronizationObject(&open));
    CHECK(open.hSyncObject != created && (open.hSyncObject & 0x3f) == 0);
    destroy(created);
    D3DKMT_OPENSYNCHRONIZATIONOBJECT again = {.hSharedHandle = global};
    OK(D3DKMTOpenSynchronizationObject(&again));
    destroy(again.hSyncObject);
    destroy(open.hSyncObject);
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenSynchronizationObject(&open));
    /* Neither stands for the other. */
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenSynchronizationObject(&(D3DKMT_OPENSYNCHRONIZATIONOBJECT){.hSharedHandle = before}));

    /* A fence shared by NT handle has no global one; a program that is told the NT handle opens it. */
    D3DKMT_CREATENATIVEFENCE native = {
        .hDevice = device,
        .Info = {.InitialFenceValue = 3, .Flags = {.Shared = 1, .NtSecuritySharing = 1}},
    };
    OK(D3DKMTCreateNativeFence(&native));
    HANDLE nt_handle = NULL;
    OK(D3DKMTShareObjects(1, &native.hSyncObject, NULL, D3DDDI_SYNC_OBJECT_ALL_ACCESS | STANDARD_RIGHTS_READ, &nt_handle));
    CHECK(nt_handle != NULL);
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE by_handle = {.hNtHandle = nt_handle, .hDevice = device};
    OK(D3DKMTOpenNativeFenceFromNtHandle(&by_handle));
    CHECK(*(const volatile uint64_t*)by_handle.NativeFenceMapping.CurrentValueCpuVa == 3);
    uint64_t value = 4;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &native.hSyncObject,
        .FenceValueArray = &value,
    };
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&signal));
    CHECK(*(const volatile uint64_t*)by_handle.NativeFenceMapping.CurrentValueCpuVa == 4);
    destroy(native.hSyncObject);
    destroy(by_handle.hSyncObject);
    OPENWDDM_CLOSEHANDLE close = {.hObject = nt_handle};
    OK(OpenWddmCloseHandle(&close));
    EXPECT(STATUS_INVALID_HANDLE, D3DKMTOpenNativeFenceFromNtHandle(&by_handle));
    puts("told apart");
    return 0;
}
