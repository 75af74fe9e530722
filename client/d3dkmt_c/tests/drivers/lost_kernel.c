/* A kernel that ends while its client waits for it and uses its memory. Every thread that waits goes on, by a call or by a descriptor; the
 * next call says what happened; memory and fence words stay what they were. Says "waits" when the kernel may end, and looks at its memory when
 * its input ends. */
#include <pthread.h>
#include <unistd.h>

#ifdef OPENWDDM_WSL
#include <poll.h>
#endif

#include "steps.h"

enum { BYTES = 1 << 16, WORDS = BYTES / 8, LAST = 9 };

static D3DKMT_HANDLE device, fence;
static D3DKMT_CREATEPAGINGQUEUE paging;

static NTSTATUS wait_with(D3DKMT_HANDLE object, uint64_t value, HANDLE event) {
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
        .hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &object, .FenceValueArray = &value, .hAsyncEvent = event};
    return D3DKMTWaitForSynchronizationObjectFromCpu(&wait);
}

static HANDLE create_event(void) {
    OPENWDDM_CREATEEVENT create = {.bManualReset = 1};
    OK(OpenWddmCreateEvent(&create));
    return create.hEvent;
}

/* Calls that sleep in the kernel. */
static void* waits_for_fence(void* unused) {
    EXPECT(STATUS_DEVICE_REMOVED, wait_with(fence, 1000, NULL));
    return unused;
}

static void* waits_for_paging(void* unused) {
    EXPECT(STATUS_DEVICE_REMOVED, wait_with(paging.hSyncObject, 1000000, NULL));
    return unused;
}

static void* waits_for_mutex(void* mutex) {
    D3DKMT_ACQUIREKEYEDMUTEX acquire = {.hKeyedMutex = (D3DKMT_HANDLE)(uintptr_t)mutex, .Key = 5};
    EXPECT(STATUS_DEVICE_REMOVED, D3DKMTAcquireKeyedMutex(&acquire));
    return NULL;
}

/* Waits for events: by descriptors in the flavour of the Linux subsystem, else by calls. */
static void* waits_for_event(void* event) {
#ifdef OPENWDDM_WSL
    struct pollfd polled = {.fd = (int)(uintptr_t)event, .events = POLLIN};
    CHECK(poll(&polled, 1, -1) == 1 && polled.revents == POLLIN);
    OPENWDDM_WAITEVENT wait = {.hEvent = event, .bBlock = 1};
    OK(OpenWddmWaitEvent(&wait));
#else
    OPENWDDM_WAITEVENT wait = {.hEvent = event, .bBlock = 1};
    EXPECT(STATUS_DEVICE_REMOVED, OpenWddmWaitEvent(&wait));
#endif
    return NULL;
}

static void on_trim(D3DKMT_TRIMNOTIFICATION* unused) {
    (void)unused;
    CHECK(!"no memory is short here");
}

static pthread_t threads[16];
static int count;

static void start(void* (*waits)(void*), void* argument) {
    CHECK(pthread_create(&threads[count++], NULL, waits, argument) == 0);
}

static D3DKMT_HANDLE create_context(void) {
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&context));
    return context.hContext;
}

static void events(void) {
    HANDLE asynchronous = create_event(), enqueued = create_event(), notified = create_event();
    OK(wait_with(fence, 1000, asynchronous));
    start(waits_for_event, asynchronous);
    D3DKMT_CREATESYNCFILE file = {.hDevice = device, .hMonitoredFence = fence, .FenceValue = 1000};
    OK(D3DKMTCreateSyncFile(&file));
    start(waits_for_event, (HANDLE)(uintptr_t)file.hSyncFile);
    /* The context waits for a value that never comes, so that it does not come to the event. */
    D3DKMT_HANDLE context = create_context();
    uint64_t never = 1000;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait = {
        .hContext = context, .ObjectCount = 1, .ObjectHandleArray = &fence, .MonitoredFenceValueArray = &never};
    OK(D3DKMTWaitForSynchronizationObjectFromGpu(&wait));
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 enqueue = {
        .Flags = {.EnqueueCpuEvent = 1}, .BroadcastContextCount = 1, .BroadcastContextArray = &context, .CpuEventHandle = enqueued};
    OK(D3DKMTSignalSynchronizationObjectFromGpu2(&enqueue));
    start(waits_for_event, enqueued);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 notification = {
        .hDevice = device, .Info = {.Type = D3DDDI_CPU_NOTIFICATION, .CPUNotification = {.Event = notified}}};
    OK(D3DKMTCreateSynchronizationObject2(&notification));
    start(waits_for_event, notified);
}

static volatile uint64_t* filled(volatile uint64_t* words) {
    for (uint64_t at = 0; at < WORDS; at++) words[at] = at * 3 + 1;
    return words;
}

static void check(const char* what, volatile uint64_t* words) {
    for (uint64_t at = 0; at < WORDS; at++) {
        if (words[at] != at * 3 + 1) printf("%s: word %d is %#lx\n", what, (int)at, (unsigned long)words[at]), exit(1);
    }
    words[7] = 5;
    CHECK(words[7] == 5);
    puts(what);
}

static volatile uint64_t* given(void* place) {
    filled(place);
    SOFTGPU_ALLOCATION data = softgpu_allocation(SYSTEM, 0, BYTES);
    D3DDDI_ALLOCATIONINFO2 info = {.pSystemMem = place, .pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    OK(D3DKMTCreateAllocation2(&create));
    return place;
}

static volatile uint64_t* shared(void) {
    SOFTGPU_ALLOCATION data = softgpu_allocation(SYSTEM, CPU_VISIBLE, BYTES);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info,
                                      .Flags = {.CreateResource = 1, .CreateShared = 1}};
    OK(D3DKMTCreateAllocation2(&create));
    return lock_surface(device, (SURFACE){.handle = info.hAllocation});
}

int main(void) {
    alarm(300);
    D3DKMT_HANDLE adapter = first_adapter();
    device = create_device(adapter);
    paging = create_paging_queue(device);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
    OK(D3DKMTCreateSynchronizationObject2(&create));
    fence = create.hSyncObject;
    const volatile uint64_t* word = create.Info.MonitoredFence.FenceValueCPUVirtualAddress;
    uint64_t last = LAST;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {
        .hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &fence, .FenceValueArray = &last};
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&signal));
    D3DKMT_REGISTERTRIMNOTIFICATION trim = {.hDevice = device, .Callback = on_trim, .Context = &device};
    OK(D3DKMTRegisterTrimNotification(&trim));

    volatile uint64_t* system = filled(lock_surface(device, create_surface(device, &paging, SYSTEM, BYTES)));
    volatile uint64_t* local = filled(lock_surface(device, create_surface(device, &paging, LOCAL, BYTES)));
    volatile uint64_t* common = filled(shared());
    _Alignas(4096) char stack[BYTES];
    void* heap = NULL;
    CHECK(posix_memalign(&heap, 4096, BYTES) == 0);
    volatile uint64_t *on_stack = given(stack), *on_heap = given(heap);
    const volatile uint64_t* paged = paging.FenceValueCPUVirtualAddress;
    uint64_t paged_before = *paged;

    events();
    start(waits_for_fence, NULL);
    start(waits_for_paging, NULL);
    D3DKMT_CREATEKEYEDMUTEX mutex = {.InitialValue = 0};
    OK(D3DKMTCreateKeyedMutex(&mutex));
    start(waits_for_mutex, (void*)(uintptr_t)mutex.hKeyedMutex);
    puts("waits");
    fflush(stdout);

    for (int thread = 0; thread < count; thread++) CHECK(pthread_join(threads[thread], NULL) == 0);
    puts("every waiter went on");
    EXPECT(STATUS_DEVICE_REMOVED, D3DKMTCreateDevice(&(D3DKMT_CREATEDEVICE){.hAdapter = adapter}));
    D3DKMT_UNREGISTERTRIMNOTIFICATION unregister = {.Handle = trim.Handle};
    EXPECT(STATUS_DEVICE_REMOVED, D3DKMTUnregisterTrimNotification(&unregister));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTUnregisterTrimNotification(&unregister));
    /* Until the kernel's program has ended, whatever it gives up on the way. */
    while (getchar() != EOF) {}
    CHECK(*word == LAST && *paged >= paged_before);
    puts("the words");
    check("locked system memory", system);
    check("locked video memory", local);
    check("locked shared memory", common);
    check("the stack", on_stack);
    check("the heap", on_heap);
    return 0;
}
