/* Two processes and one native fence: each is a process of the kernel that OPENWDDM_SOCKET names. The second opens what the first shares, and
 * signals it; the first waits, and both see the value at addresses of their own. */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "steps.h"

extern char** environ;

/* The second process: all that it needs comes on the command line. */
static int second(const char* name) {
    unsigned long long told = strtoull(name, NULL, 16);
#ifdef OPENWDDM_WSL
    HANDLE shared = (HANDLE)(uintptr_t)told; /* the descriptor that it has inherited */
#else
    /* The number of the other's handle means nothing here; by its token it gets a handle of its own. */
    OPENWDDM_IMPORTHANDLE import = {.Token = told};
    OK(OpenWddmImportHandle(&import));
    HANDLE shared = import.hObject;
#endif
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE open = {.hNtHandle = shared, .hDevice = device};
    OK(D3DKMTOpenNativeFenceFromNtHandle(&open));
    const volatile uint64_t* word = open.NativeFenceMapping.CurrentValueCpuVa;
    CHECK(*word == 3);
    uint64_t value = 7;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &open.hSyncObject,
        .FenceValueArray = &value,
    };
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&signal));
    CHECK(*word == 7);
    return 0;
}

int main(int count, char** arguments) {
    if (count == 2) {
        return second(arguments[1]);
    }
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATENATIVEFENCE create = {
        .hDevice = device,
        .Info = {.InitialFenceValue = 3, .Flags = {.Shared = 1, .NtSecuritySharing = 1}},
    };
    OK(D3DKMTCreateNativeFence(&create));
    const volatile uint64_t* word = create.Info.NativeFenceMapping.CurrentValueCpuVa;
    CHECK(*word == 3);
    HANDLE shared = NULL;
    OK(D3DKMTShareObjects(1, &create.hSyncObject, NULL, D3DDDI_SYNC_OBJECT_ALL_ACCESS, &shared));

#ifdef OPENWDDM_WSL
    /* It is a descriptor, which the second process inherits. */
    CHECK(fcntl((int)(uintptr_t)shared, F_SETFD, 0) == 0);
    unsigned long long told = (uintptr_t)shared;
#else
    OPENWDDM_EXPORTHANDLE export = {.hObject = shared};
    OK(OpenWddmExportHandle(&export));
    unsigned long long told = export.Token;
#endif
    char name[32];
    snprintf(name, sizeof name, "%llx", told);
    char* words[] = {arguments[0], name, NULL};
    pid_t child = 0;
    CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ) == 0);
    /* One that fails signals nothing: its end is looked at first. */
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    wait_for(device, create.hSyncObject, 7);
    CHECK(*word == 7);

    /* The second process's opens go with it; the fence stays as long as the first has it. */
    uint64_t value = 8;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &create.hSyncObject,
        .FenceValueArray = &value,
    };
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&signal));
    CHECK(*word == 8);
    puts("one fence, two processes");
    return 0;
}
