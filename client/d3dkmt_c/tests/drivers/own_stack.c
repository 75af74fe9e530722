/* Allocations over pages in which more lies than the program's data: the frames of the thread that calls, its thread-local variables, the
 * stack of another thread, blocks of the heap beside each other. Creation and destruction answer, whatever is stored there meanwhile and
 * whatever signals come, and every byte stays. */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "steps.h"

static D3DKMT_HANDLE device;

static void* page_of(const volatile void* place) {
    return (void*)((uintptr_t)place & ~(uintptr_t)4095);
}

static D3DKMT_HANDLE create_over(void* page) {
    static _Thread_local SOFTGPU_ALLOCATION data;
    data = softgpu_allocation(SYSTEM, 0, 4096);
    D3DDDI_ALLOCATIONINFO2 info = {.pSystemMem = page, .pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    OK(D3DKMTCreateAllocation2(&create));
    return info.hAllocation;
}

static void destroy(D3DKMT_HANDLE handle) {
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .phAllocationList = &handle, .AllocationCount = 1};
    OK(D3DKMTDestroyAllocation2(&destroy));
}

/* The page of this frame, so many bytes of which lie above it. */
__attribute__((noinline)) static void page_of_this_frame(long bytes_above) {
    volatile char here[64];
    here[0] = 1;
    volatile char* pad = alloca((((uintptr_t)here - (uintptr_t)bytes_above) & 4095) + 16);
    for (int at = 0; at < 16; at++) pad[at] = (char)(bytes_above + at);
    D3DKMT_HANDLE handle = create_over(page_of(pad));
    for (int at = 0; at < 16; at++) CHECK(pad[at] == (char)(bytes_above + at));
    pad[1] = 77;
    destroy(handle);
    CHECK(pad[0] == (char)bytes_above && pad[1] == 77 && here[0] == 1);
}

static _Thread_local volatile uint64_t local = 5;

static void* thread(void* unused) {
    for (long bytes = 64; bytes < 4096; bytes += 512) page_of_this_frame(bytes);
    for (int round = 0; round < 20; round++) {
        D3DKMT_HANDLE handle = create_over(page_of(&local));
        local++;
        destroy(handle);
    }
    CHECK(local == 25);
    return unused;
}

/* Another thread stores on its stack meanwhile. */
static _Atomic(volatile uint64_t*) theirs;
static atomic_int stop;

__attribute__((noinline)) static void count_up(void) {
    volatile uint64_t count = 0;
    atomic_store(&theirs, &count);
    uint64_t rounds = 0;
    for (; !atomic_load(&stop); rounds++) count++;
    CHECK(count == rounds);
}

/* Far below the words that the operating system itself stores for the thread. */
static void* stores(void* unused) {
    volatile char* below = alloca(1 << 16);
    below[0] = 1;
    count_up();
    CHECK(below[0] == 1);
    return unused;
}

static void stack_of_another_thread(void) {
    pthread_t other;
    CHECK(pthread_create(&other, NULL, stores, NULL) == 0);
    while (atomic_load(&theirs) == NULL) sched_yield();
    for (int round = 0; round < 50; round++) destroy(create_over(page_of(atomic_load(&theirs))));
    atomic_store(&stop, 1);
    CHECK(pthread_join(other, NULL) == 0);
}

static void heap(void) {
    enum { BLOCKS = 200 };
    uint64_t* blocks[BLOCKS];
    for (uint64_t at = 0; at < BLOCKS; at++) *(blocks[at] = malloc(48)) = at;
    D3DKMT_HANDLE handle = create_over(page_of(blocks[BLOCKS / 2]));
    for (int at = 0; at < BLOCKS; at += 2) free(blocks[at]);
    for (uint64_t at = 0; at < BLOCKS; at += 2) *(blocks[at] = malloc(48)) = at;
    destroy(handle);
    for (uint64_t at = 0; at < BLOCKS; at++) {
        CHECK(*blocks[at] == at);
        free(blocks[at]);
    }
}

static volatile sig_atomic_t handled;
static atomic_int rains;
static pthread_t caller;

static void handler(int signal) {
    volatile char frame[256];
    frame[signal] = 1;
    handled = frame[signal];
}

static void* rain(void* unused) {
    while (atomic_load(&rains)) CHECK(pthread_kill(caller, SIGUSR1) == 0);
    return unused;
}

/* A handler's frames lie on the stack of the thread that it interrupts. */
static void signals(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    caller = pthread_self();
    atomic_store(&rains, 1);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, rain, NULL) == 0);
    while (!handled) sched_yield();
    for (long bytes = 64; bytes < 4096; bytes += 256) page_of_this_frame(bytes);
    atomic_store(&rains, 0);
    CHECK(pthread_join(other, NULL) == 0);
}

int main(void) {
    /* A thread that waits for itself would wait for ever. */
    alarm(300);
    device = create_device(first_adapter());
    for (long bytes = 64; bytes < 4096; bytes += 128) page_of_this_frame(bytes);
    puts("the caller's frames");
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, NULL) == 0);
    puts("those of a thread");
    stack_of_another_thread();
    puts("another thread's");
    heap();
    puts("the heap's own words");
    signals();
    puts("under signals");
    return 0;
}
