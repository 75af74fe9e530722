/* A child is another process: it is refused, its parent goes on, and a program that has made no call yet may leave that to its child. */
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

static void succeeds(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    pid_t early = fork();
    if (early == 0) {
        create_device(first_adapter());
        return 0;
    }
    succeeds(early);
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    pid_t late = fork();
    if (late == 0) {
        D3DKMT_CREATEDEVICE create = {.hAdapter = adapter};
        EXPECT(STATUS_NOT_SUPPORTED, D3DKMTCreateDevice(&create));
        D3DKMT_ENUMADAPTERS list = {0};
        EXPECT(STATUS_NOT_SUPPORTED, D3DKMTEnumAdapters(&list));
        D3DKMT_DESTROYDEVICE destroy = {.hDevice = device};
        EXPECT(STATUS_NOT_SUPPORTED, D3DKMTDestroyDevice(&destroy));
        exit(0);
    }
    succeeds(late);
    SURFACE surface = create_surface(device, &paging, SYSTEM, 1 << 16);
    CHECK(lock_surface(device, surface)[0] == 0);
    puts("the child was refused");
    return 0;
}
