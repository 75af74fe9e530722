/* Trim notifications: when memory gets short, the kernel asks each device that keeps something resident to give back what it has not used
 * for a while. To be run with 32 MiB of video memory (OPENWDDM_VRAM=33554432). */
#include <pthread.h>
#include <time.h>

#include "steps.h"

enum { BYTES = 20 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static unsigned calls;
static D3DKMT_TRIMNOTIFICATION last;

static void on_trim(D3DKMT_TRIMNOTIFICATION* notification) {
    pthread_mutex_lock(&lock);
    calls++;
    last = *notification;
    pthread_cond_signal(&called);
    pthread_mutex_unlock(&lock);
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);

    int context;
    D3DKMT_REGISTERTRIMNOTIFICATION without = {.hDevice = device, .Context = &context};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTRegisterTrimNotification(&without));
    D3DKMT_REGISTERTRIMNOTIFICATION registration = {.hDevice = device, .Callback = on_trim, .Context = &context};
    OK(D3DKMTRegisterTrimNotification(&registration));
    CHECK(registration.Handle != NULL);

    /* One is left where it is; the other needs its place. */
    SURFACE left = create_surface(device, &paging, LOCAL, BYTES);
    D3DKMT_EVICT evict = {
        .hDevice = device,
        .NumAllocations = 1,
        .AllocationList = &left.handle,
        .Flags = {.EvictOnlyIfNecessary = 1},
    };
    OK(D3DKMTEvict(&evict));
    SURFACE kept = create_surface(device, &paging, LOCAL, BYTES);
    CHECK(kept.va != left.va);

    /* A third does not fit beside it: the answer says how much there is too much of. */
    SOFTGPU_ALLOCATION data = softgpu_allocation(LOCAL, 0, BYTES);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    OK(D3DKMTCreateAllocation2(&create));
    D3DDDI_MAKERESIDENT third = {
        .hPagingQueue = paging.hPagingQueue,
        .NumAllocations = 1,
        .AllocationList = &info.hAllocation,
    };
    EXPECT(STATUS_NO_MEMORY, D3DKMTMakeResident(&third));
    CHECK(third.NumBytesToTrim == (8 << 20));

    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 120;
    pthread_mutex_lock(&lock);
    while (calls == 0) {
        CHECK(pthread_cond_timedwait(&called, &lock, &deadline) == 0);
    }
    CHECK(last.Context == &context);
    CHECK((last.Flags.PeriodicTrim || last.Flags.RestartPeriodicTrim) && last.NumBytesToTrim == 0);
    pthread_mutex_unlock(&lock);

    D3DKMT_UNREGISTERTRIMNOTIFICATION unregistration = {.Handle = registration.Handle};
    OK(D3DKMTUnregisterTrimNotification(&unregistration));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTUnregisterTrimNotification(&unregistration));
    puts("asked to trim");
    return 0;
}
