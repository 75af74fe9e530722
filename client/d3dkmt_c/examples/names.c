/* Shared objects with names: another process finds them by these, where OPENWDDM_SOCKET names a kernel; else the program itself does. */
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

#include "steps.h"

extern char** environ;

#define GENERIC_ALL 0x10000000

/* A name as the functions take it. It lives as long as the program. */
static OBJECT_ATTRIBUTES* named(const char* text) {
    size_t length = strlen(text);
    WCHAR* wide = calloc(length + 1, sizeof *wide);
    UNICODE_STRING* name = calloc(1, sizeof *name);
    OBJECT_ATTRIBUTES* attributes = calloc(1, sizeof *attributes);
    CHECK(wide != NULL && name != NULL && attributes != NULL);
    for (size_t index = 0; index < length; index++) {
        wide[index] = (WCHAR)(unsigned char)text[index];
    }
    name->Length = name->MaximumLength = (WORD)(length * sizeof *wide);
    name->Buffer = wide;
    attributes->Length = sizeof *attributes;
    attributes->ObjectName = name;
    return attributes;
}

static HANDLE find_fence(const char* name) {
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME open = {.dwDesiredAccess = GENERIC_ALL, .pObjAttrib = named(name)};
    OK(D3DKMTOpenSyncObjectNtHandleFromName(&open));
    return open.hNtHandle;
}

static NTSTATUS look_for(const char* name, DWORD access) {
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME open = {.dwDesiredAccess = access, .pObjAttrib = named(name)};
    return D3DKMTOpenSyncObjectNtHandleFromName(&open);
}

static void close_handle(HANDLE handle) {
    OPENWDDM_CLOSEHANDLE close = {.hObject = handle};
    OK(OpenWddmCloseHandle(&close));
}

/* Checks that the name is gone after the close of the last NT handle. The kernel hears of a descriptor's close a moment later. */
static void name_is_gone(const char* name) {
#ifdef OPENWDDM_WSL
    for (int tries = 0; tries < 12000 && look_for(name, 0) != STATUS_OBJECT_NAME_NOT_FOUND; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
#endif
    EXPECT(STATUS_OBJECT_NAME_NOT_FOUND, look_for(name, 0));
}

static void signal_to(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, uint64_t value) {
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &fence,
        .FenceValueArray = &value,
    };
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&signal));
}

/* A process that knows the names opens both objects. */
static void finds_both(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE fence = {.hNtHandle = find_fence("\\basenamedobjects\\THE FENCE"), .hDevice = device};
    OK(D3DKMTOpenNativeFenceFromNtHandle(&fence));
    CHECK(*(const volatile uint64_t*)fence.NativeFenceMapping.CurrentValueCpuVa == 3);
    signal_to(device, fence.hSyncObject, 7);
    close_handle(fence.hNtHandle);
    D3DKMT_OPENNTHANDLEFROMNAME memory = {.dwDesiredAccess = GENERIC_ALL, .pObjAttrib = named("\\BaseNamedObjects\\the memory")};
    OK(D3DKMTOpenNtHandleFromName(&memory));
    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE info = {.hDevice = device, .hNtHandle = memory.hNtHandle};
    OK(D3DKMTQueryResourceInfoFromNtHandle(&info));
    CHECK(info.PrivateRuntimeDataSize == 5);
    char bytes[5] = {0};
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = {.hDevice = device, .hNtHandle = memory.hNtHandle, .pPrivateRuntimeData = bytes};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenResourceFromNtHandle(&open));
    open.PrivateRuntimeDataSize = sizeof bytes;
    OK(D3DKMTOpenResourceFromNtHandle(&open));
    CHECK(open.hResource != 0 && bytes[0] != 0);
    close_handle(memory.hNtHandle);
}

int main(int count, char** arguments) {
    if (count == 2) {
        finds_both();
        return 0;
    }
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATENATIVEFENCE create = {
        .hDevice = device,
        .Info = {.InitialFenceValue = 3, .Flags = {.Shared = 1, .NtSecuritySharing = 1}},
    };
    OK(D3DKMTCreateNativeFence(&create));
    D3DKMT_CREATEALLOCATION resource = {
        .hDevice = device,
        .pPrivateRuntimeData = "five",
        .PrivateRuntimeDataSize = 5,
        .Flags = {.CreateResource = 1, .CreateShared = 1, .NtSecuritySharing = 1},
    };
    OK(D3DKMTCreateAllocation2(&resource));
    HANDLE fence = NULL, memory = NULL, other = NULL;
    DWORD all = D3DDDI_SYNC_OBJECT_ALL_ACCESS;
    OK(D3DKMTShareObjects(1, &create.hSyncObject, named("\\BaseNamedObjects\\The fence"), all, &fence));
    OK(D3DKMTShareObjects(1, &resource.hResource, named("\\BaseNamedObjects\\The memory"), GENERIC_ALL, &memory));

    /* A name is of one object, of one kind. */
    EXPECT(STATUS_OBJECT_NAME_COLLISION, D3DKMTShareObjects(1, &create.hSyncObject, named("\\BaseNamedObjects\\the MEMORY"), all, &other));
    CHECK(other == NULL);
    EXPECT(STATUS_OBJECT_TYPE_MISMATCH, look_for("\\BaseNamedObjects\\The memory", GENERIC_ALL));
    EXPECT(STATUS_OBJECT_NAME_NOT_FOUND, look_for("\\BaseNamedObjects\\Another", GENERIC_ALL));
    EXPECT(STATUS_ACCESS_DENIED, look_for("\\BaseNamedObjects\\The fence", 0));
    EXPECT(STATUS_INVALID_PARAMETER, look_for("", GENERIC_ALL));
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME wrong = {.dwDesiredAccess = GENERIC_ALL};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenSyncObjectNtHandleFromName(&wrong));
    OBJECT_ATTRIBUTES below = *named("The fence");
    below.RootDirectory = fence;
    wrong.pObjAttrib = &below;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTOpenSyncObjectNtHandleFromName(&wrong));
    UNICODE_STRING cut = *named("x")->ObjectName;
    cut.Length = 1;
    below = (OBJECT_ATTRIBUTES){.Length = sizeof below, .ObjectName = &cut};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenSyncObjectNtHandleFromName(&wrong));
    WCHAR lone_surrogate[] = {0xd800, 'x'};
    cut = (UNICODE_STRING){.Length = sizeof lone_surrogate, .MaximumLength = sizeof lone_surrogate, .Buffer = lone_surrogate};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenSyncObjectNtHandleFromName(&wrong));

    if (getenv("OPENWDDM_SOCKET") != NULL) {
        char* words[] = {arguments[0], "finds", NULL};
        pid_t child = 0;
        CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ) == 0);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    } else {
        finds_both();
    }
    CHECK(*(const volatile uint64_t*)create.Info.NativeFenceMapping.CurrentValueCpuVa == 7);
    /* The name goes with the last NT handle, though the fence is open. */
    HANDLE found = find_fence("\\BaseNamedObjects\\The fence");
    close_handle(fence);
    close_handle(find_fence("\\BaseNamedObjects\\The fence"));
    close_handle(found);
    name_is_gone("\\BaseNamedObjects\\The fence");
    close_handle(memory);
    name_is_gone("\\BaseNamedObjects\\The memory");
    puts("found by name");
    return 0;
}
