/* A program in which the operating system holds no stores: a filter of system calls forbids `userfaultfd`, as that of a container does.
 * With one thread its memory is given all the same; with another the call is refused, with the reason, and the memory is what it was. */
#include <alloca.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steps.h"

enum { BYTES = 1 << 16 };

static D3DKMT_HANDLE device;

static void forbid_userfaultfd(void) {
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof lines / sizeof *lines, .filter = lines};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

static NTSTATUS create_over(void* place, uint64_t bytes, D3DKMT_HANDLE* made) {
    SOFTGPU_ALLOCATION data = softgpu_allocation(SYSTEM, 0, bytes);
    D3DDDI_ALLOCATIONINFO2 info = {.pSystemMem = place, .pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    NTSTATUS status = D3DKMTCreateAllocation2(&create);
    *made = info.hAllocation;
    return status;
}

static void destroy(D3DKMT_HANDLE handle) {
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .phAllocationList = &handle, .AllocationCount = 1};
    OK(D3DKMTDestroyAllocation2(&destroy));
}

static SURFACE shown(D3DKMT_CREATEPAGINGQUEUE* paging, D3DKMT_HANDLE handle, uint64_t bytes) {
    D3DDDI_MAPGPUVIRTUALADDRESS map = {
        .hPagingQueue = paging->hPagingQueue, .hAllocation = handle, .SizeInPages = bytes / 4096, .Protection = {.Write = 1}};
    CHECK(NT_SUCCESS(D3DKMTMapGpuVirtualAddress(&map)));
    wait_for(device, paging->hSyncObject, map.PagingFenceValue);
    D3DDDI_MAKERESIDENT resident = {.hPagingQueue = paging->hPagingQueue, .NumAllocations = 1, .AllocationList = &handle};
    CHECK(NT_SUCCESS(D3DKMTMakeResident(&resident)));
    wait_for(device, paging->hSyncObject, resident.PagingFenceValue);
    return (SURFACE){.handle = handle, .va = map.VirtualAddress};
}

/* The GPU reads commands from memory of the program, and stores into other memory of it. */
static void works(void) {
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&context));
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
    OK(D3DKMTCreateSynchronizationObject2(&fence));
    static _Alignas(4096) uint64_t list[512];
    void* heap = NULL;
    CHECK(posix_memalign(&heap, 4096, BYTES) == 0);
    memset(heap, 0x5a, BYTES);
    D3DKMT_HANDLE over_list, over_heap;
    OK(create_over(list, sizeof list, &over_list));
    OK(create_over(heap, BYTES, &over_heap));
    SURFACE commands = shown(&paging, over_list, sizeof list), target = shown(&paging, over_heap, BYTES);
    uint64_t* end = softgpu_fill(list, target.va + 4096, 4096, 0xabababab);
    D3DKMT_SUBMITCOMMAND submit = {
        .Commands = commands.va, .CommandLength = (UINT)((end - list) * sizeof *list),
        .BroadcastContextCount = 1, .BroadcastContext = {context.hContext}};
    OK(D3DKMTSubmitCommand(&submit));
    uint64_t value = 1;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {
        .hContext = context.hContext, .ObjectCount = 1, .ObjectHandleArray = &fence.hSyncObject, .MonitoredFenceValueArray = &value};
    OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
    wait_for(device, fence.hSyncObject, value);
    volatile uint64_t* words = heap;
    CHECK(words[511] == 0x5a5a5a5a5a5a5a5au && words[512] == 0xababababababababu && words[1024] == 0x5a5a5a5a5a5a5a5au);
    destroy(over_heap);
    destroy(over_list);
    CHECK(words[511] == 0x5a5a5a5a5a5a5a5au && words[512] == 0xababababababababu);
    words[512] = 7;
    CHECK(words[512] == 7);
    free(heap);
}

__attribute__((noinline)) static void page_of_this_frame(long bytes_above) {
    volatile char here[64];
    here[0] = 1;
    volatile char* pad = alloca((((uintptr_t)here - (uintptr_t)bytes_above) & 4095) + 16);
    pad[0] = 3;
    D3DKMT_HANDLE handle;
    OK(create_over((void*)((uintptr_t)pad & ~(uintptr_t)4095), 4096, &handle));
    destroy(handle);
    CHECK(pad[0] == 3 && here[0] == 1);
}

static void* sleeps(void* lock) {
    CHECK(pthread_mutex_lock(lock) == 0 && pthread_mutex_unlock(lock) == 0);
    return NULL;
}

static void with_another_thread(void) {
    static _Alignas(4096) volatile char page[4096];
    page[9] = 9;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    CHECK(pthread_mutex_lock(&lock) == 0);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, sleeps, &lock) == 0);
    D3DKMT_HANDLE handle;
    EXPECT(STATUS_NOT_SUPPORTED, create_over((void*)page, 4096, &handle));
    CHECK(page[9] == 9 && handle == 0);
    CHECK(pthread_mutex_unlock(&lock) == 0 && pthread_join(other, NULL) == 0);
    /* The operating system lists a thread for a moment after its end. */
    NTSTATUS status;
    while ((status = create_over((void*)page, 4096, &handle)) == STATUS_NOT_SUPPORTED) sched_yield();
    OK(status);
    destroy(handle);
    CHECK(page[9] == 9);
}

int main(void) {
    alarm(300);
    if (getenv("FORBID") != NULL) forbid_userfaultfd();
    device = create_device(first_adapter());
    works();
    puts("the GPU reaches it");
    for (long bytes = 64; bytes < 4096; bytes += 128) page_of_this_frame(bytes);
    puts("the caller's frames");
    with_another_thread();
    puts("refused beside another thread");
    return 0;
}
