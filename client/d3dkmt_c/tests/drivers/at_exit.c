/* Calls work until the process ends: from handlers of its exit and destructors of its library, after main has returned and the main
 * thread's own variables are gone, also from another thread there. */
#include <pthread.h>

#include "steps.h"

static D3DKMT_HANDLE adapter, device;

static void work(const char* where) {
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE surface = create_surface(device, &paging, SYSTEM, 1 << 16);
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .phAllocationList = &surface.handle, .AllocationCount = 1};
    OK(D3DKMTDestroyAllocation2(&destroy));
    puts(where);
    fflush(stdout);
}

static void* thread(void* unused) {
    work("another thread at exit");
    return unused;
}

static void at_exit(void) {
    work("at exit");
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, NULL) == 0);
}

__attribute__((destructor)) static void destructor(void) {
    work("destructor");
    D3DKMT_DESTROYDEVICE destroy = {.hDevice = device};
    OK(D3DKMTDestroyDevice(&destroy));
    D3DKMT_CLOSEADAPTER close = {.hAdapter = adapter};
    OK(D3DKMTCloseAdapter(&close));
    puts("closed");
    fflush(stdout);
}

int main(void) {
    CHECK(atexit(at_exit) == 0);
    adapter = first_adapter();
    device = create_device(adapter);
    work("main");
    return 0;
}
