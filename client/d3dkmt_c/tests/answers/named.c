/* A process finds itself: its number in the kernel leads to its number and its name in the operating system. A kernel that may not read names
 * has an empty one. */
#include <string.h>
#include <unistd.h>

#include "steps.h"

int main(void) {
    D3DKMT_ENUMADAPTERS list = {0};
    OK(D3DKMTEnumAdapters(&list));
    D3DKMT_HANDLE device = create_device(list.Adapters[0].hAdapter);
    ULONG ids[8];
    D3DKMT_ENUMPROCESSES processes = {.AdapterLuid = list.Adapters[0].AdapterLuid, .pBuffer = ids, .BufferCount = 8};
    OK(D3DKMTEnumProcesses(&processes));
    char own[64] = {0};
    FILE* file = fopen("/proc/self/comm", "r");
    CHECK(file != NULL && fgets(own, sizeof own, file) != NULL);
    fclose(file);
    own[strcspn(own, "\n")] = 0;

    const char* found = "not found";
    for (size_t at = 0; at < processes.BufferCount; at++) {
        OPENWDDM_OPENPROCESS open = {.ProcessId = ids[at], .DesiredAccess = PROCESS_QUERY_INFORMATION};
        OK(OpenWddmOpenProcess(&open));
        OPENWDDM_QUERYPROCESS query = {.hProcess = open.hProcess};
        memset(query.Name, 'x', sizeof query.Name);
        OK(OpenWddmQueryProcess(&query));
        if (query.SystemProcessId == (UINT)getpid()) {
            CHECK(query.Name[0] == 0 || strcmp((const char*)query.Name, own) == 0);
            found = query.Name[0] == 0 ? "a number" : "a number and a name";
        }
        OPENWDDM_CLOSEHANDLE close = {.hObject = open.hProcess};
        OK(OpenWddmCloseHandle(&close));
    }
    puts(found);
    D3DKMT_DESTROYDEVICE destroy = {.hDevice = device};
    OK(D3DKMTDestroyDevice(&destroy));
    return 0;
}
