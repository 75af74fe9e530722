/* A program that handles SIGSEGV itself: the library needs no handler, takes none away, and the program's own faults come to its own. */
#include <setjmp.h>
#include <signal.h>

#include "steps.h"

static sigjmp_buf back;
static volatile sig_atomic_t faults;

static void handler(int signal) {
    (void)signal;
    faults++;
    siglongjmp(back, 1);
}

int main(void) {
    struct sigaction own = {.sa_handler = handler}, now;
    CHECK(sigaction(SIGSEGV, &own, NULL) == 0 && sigaction(SIGBUS, &own, NULL) == 0);
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    /* Content that moves under a lock while the program stores there. */
    SURFACE surface = create_surface(device, &paging, LOCAL_THEN_SYSTEM, 1 << 20);
    volatile uint64_t* words = lock_surface(device, surface);
    for (int round = 0; round < 20; round++) {
        D3DKMT_EVICT evict = {.hDevice = device, .NumAllocations = 1, .AllocationList = &surface.handle};
        OK(D3DKMTEvict(&evict));
        for (int index = 0; index < 1000; index++) words[index]++;
        D3DDDI_MAKERESIDENT resident = {.hPagingQueue = paging.hPagingQueue, .NumAllocations = 1, .AllocationList = &surface.handle};
        CHECK(NT_SUCCESS(D3DKMTMakeResident(&resident)));
        for (int index = 0; index < 1000; index++) words[index]++;
        wait_for(device, paging.hSyncObject, resident.PagingFenceValue);
    }
    CHECK(words[999] == 40 && faults == 0);
    CHECK(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == handler);
    if (sigsetjmp(back, 1) == 0) *(volatile int*)16 = 1;
    CHECK(faults == 1);
    puts("its own handler");
    return 0;
}
