/* Allocations over memory that the program has: heap, stack, static data, protected pages. The GPU stores there, and what the program stores
 * the GPU reads; when the allocation has gone the memory is the program's alone, with what it holds. Memory that the program shares stays
 * shared: its other mappings see what the GPU stores, in this process and in another. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

enum { BYTES = 1 << 16, WORDS = BYTES / 8 };

static D3DKMT_HANDLE device, context, fence;
static D3DKMT_CREATEPAGINGQUEUE paging;
static SURFACE commands;
static uint64_t value;

static void run(uint64_t* words, uint64_t* end) {
    D3DKMT_SUBMITCOMMAND submit = {
        .Commands = commands.va, .CommandLength = (UINT)((end - words) * sizeof *words),
        .BroadcastContextCount = 1, .BroadcastContext = {context},
    };
    unlock_surface(device, commands);
    OK(D3DKMTSubmitCommand(&submit));
    value += 1;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {
        .hContext = context, .ObjectCount = 1, .ObjectHandleArray = &fence, .MonitoredFenceValueArray = &value};
    OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
    wait_for(device, fence, value);
}

static NTSTATUS create_over(void* place, uint64_t bytes, uint8_t kind, D3DKMT_HANDLE* made) {
    SOFTGPU_ALLOCATION data = softgpu_allocation(kind, 0, bytes);
    D3DDDI_ALLOCATIONINFO2 info = {.pSystemMem = place, .pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    NTSTATUS status = D3DKMTCreateAllocation2(&create);
    CHECK(!NT_SUCCESS(status) || create.Flags.ExistingSection == 0);
    *made = info.hAllocation;
    return status;
}

static SURFACE shown(D3DKMT_HANDLE handle, uint64_t bytes) {
    D3DDDI_MAPGPUVIRTUALADDRESS map = {
        .hPagingQueue = paging.hPagingQueue, .hAllocation = handle, .SizeInPages = bytes / 4096, .Protection = {.Write = 1}};
    CHECK(NT_SUCCESS(D3DKMTMapGpuVirtualAddress(&map)));
    wait_for(device, paging.hSyncObject, map.PagingFenceValue);
    D3DDDI_MAKERESIDENT resident = {.hPagingQueue = paging.hPagingQueue, .NumAllocations = 1, .AllocationList = &handle};
    CHECK(NT_SUCCESS(D3DKMTMakeResident(&resident)));
    wait_for(device, paging.hSyncObject, resident.PagingFenceValue);
    return (SURFACE){.handle = handle, .va = map.VirtualAddress};
}

static void destroy(D3DKMT_HANDLE handle) {
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .phAllocationList = &handle, .AllocationCount = 1};
    OK(D3DKMTDestroyAllocation2(&destroy));
}

static void check(const char* what, void* place, int protection, uint8_t kind) {
    volatile uint64_t* words = place;
    for (int index = 0; index < WORDS; index++) words[index] = 0x5000 + index;
    CHECK(mprotect(place, 4096, protection) == 0);
    D3DKMT_HANDLE handle;
    OK(create_over(place, BYTES, kind, &handle));
    SURFACE over = shown(handle, BYTES), copy = create_surface(device, &paging, SYSTEM, BYTES);
    uint64_t* list = lock_surface(device, commands);
    run(list, softgpu_copy(list, over.va, copy.va, BYTES));
    const uint64_t* read = lock_surface(device, copy);
    for (int index = 0; index < WORDS; index++) CHECK(read[index] == 0x5000u + index);
    unlock_surface(device, copy);
    words[WORDS - 1] = 77;
    list = lock_surface(device, commands);
    run(list, softgpu_copy(list, over.va + BYTES - 8, copy.va, 8));
    CHECK(lock_surface(device, copy)[0] == 77);
    unlock_surface(device, copy);
    list = lock_surface(device, commands);
    run(list, softgpu_fill(list, over.va, BYTES, 0xabababab));
    CHECK(words[WORDS - 1] == 0xababababababababu && words[512] == 0xababababababababu);
    /* Another allocation over a part of it. */
    D3DKMT_HANDLE part;
    OK(create_over((char*)place + 8192, 8192, SYSTEM, &part));
    destroy(handle);
    SURFACE within = shown(part, 8192);
    list = lock_surface(device, commands);
    run(list, softgpu_fill(list, within.va, 8192, 0xcdcdcdcd));
    CHECK(words[1024] == 0xcdcdcdcdcdcdcdcdu && words[2048] == 0xababababababababu);
    destroy(part);
    destroy(copy.handle);
    CHECK(mprotect(place, 4096, PROT_READ | PROT_WRITE) == 0);
    CHECK(words[0] == 0xababababababababu && words[1024] == 0xcdcdcdcdcdcdcdcdu);
    for (int index = 0; index < WORDS; index++) words[index] = index;
    for (int index = 0; index < WORDS; index++) CHECK(words[index] == (uint64_t)index);
    puts(what);
}

static int file_of(unsigned flags, uint64_t bytes) {
    int file = memfd_create("shared", MFD_CLOEXEC | flags);
    CHECK(file >= 0 && ftruncate(file, (off_t)bytes) == 0);
    return file;
}

static void* shared_at(int file, uint64_t offset) {
    void* place = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
    CHECK(place != MAP_FAILED);
    return place;
}

static void check_shared(void) {
    D3DKMT_HANDLE handle, again;
    int file = file_of(MFD_ALLOW_SEALING, 3 * BYTES);
    char* place = shared_at(file, BYTES);
    volatile uint64_t* view = shared_at(file, BYTES);
    check("shared", place, PROT_READ, SYSTEM);
    CHECK(view[7] == 7);
    OK(create_over(place, BYTES, SYSTEM, &handle));
    SURFACE over = shown(handle, BYTES);
    uint64_t* list = lock_surface(device, commands);
    run(list, softgpu_fill(list, over.va + 4096, 4096, 0x12121212));
    CHECK(view[511] == 511 && view[512] == 0x1212121212121212u && view[1024] == 1024);
    pid_t child = fork();
    if (child == 0) {
        view[513] = 5;
        _exit(view[512] == 0x1212121212121212u ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0 && view[513] == 5);
    /* Another mapping of the same file, which overlaps what is given. */
    char* more = shared_at(file, 2 * BYTES - 8192);
    OK(create_over(more, BYTES, SYSTEM, &again));
    SURFACE beyond = shown(again, BYTES);
    list = lock_surface(device, commands);
    run(list, softgpu_copy(list, over.va + 4096, beyond.va, 4096));
    CHECK(view[WORDS - 1024] == 0x1212121212121212u && view[WORDS - 1023] == 5);
    /* The program lets go of all that it has; the content stays where it is. */
    CHECK(munmap(place, BYTES) == 0 && munmap(more, BYTES) == 0);
    destroy(handle);
    destroy(again);
    CHECK(view[512] == 0x1212121212121212u && view[513] == 5 && ftruncate(file, BYTES) != 0);
    place = shared_at(file, BYTES);
    OK(create_over(place, BYTES, SYSTEM, &handle));
    destroy(handle);
    CHECK(view[512] == 0x1212121212121212u);

    EXPECT(STATUS_INVALID_PARAMETER, create_over(shared_at(file, 3 * BYTES - 4096), BYTES, SYSTEM, &handle));
    EXPECT(STATUS_NOT_SUPPORTED, create_over(shared_at(file_of(0, BYTES), 0), BYTES, SYSTEM, &handle));
    int closed = file_of(MFD_ALLOW_SEALING, BYTES);
    place = shared_at(closed, 0);
    CHECK(close(closed) == 0);
    EXPECT(STATUS_NOT_SUPPORTED, create_over(place, BYTES, SYSTEM, &handle));
    FILE* ordinary = tmpfile();
    CHECK(ordinary != NULL && ftruncate(fileno(ordinary), BYTES) == 0);
    EXPECT(STATUS_NOT_SUPPORTED, create_over(shared_at(fileno(ordinary), 0), BYTES, SYSTEM, &handle));
}

int main(void) {
    device = create_device(first_adapter());
    paging = create_paging_queue(device);
    commands = create_surface(device, &paging, SYSTEM, 4096);
    D3DKMT_CREATECONTEXTVIRTUAL virtual = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&virtual));
    context = virtual.hContext;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
    OK(D3DKMTCreateSynchronizationObject2(&create));
    fence = create.hSyncObject;

    void* heap = NULL;
    CHECK(posix_memalign(&heap, 4096, BYTES) == 0);
    check("heap", heap, PROT_READ | PROT_WRITE, SYSTEM);
    free(heap);
    static _Alignas(4096) char data[BYTES];
    check("static", data, PROT_READ | PROT_WRITE, SYSTEM);
    _Alignas(4096) char stack[BYTES];
    check("stack", stack, PROT_READ | PROT_WRITE, SYSTEM);
    void* pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check("protected", pages, PROT_NONE, SYSTEM);
    check("read only", pages, PROT_READ, LOCAL_THEN_SYSTEM);

    D3DKMT_HANDLE none;
    EXPECT(STATUS_INVALID_PARAMETER, create_over((char*)pages + 8, BYTES, SYSTEM, &none));
    EXPECT(STATUS_INVALID_PARAMETER, create_over(pages, BYTES, LOCAL, &none));
    void* shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(STATUS_NOT_SUPPORTED, create_over(shared, BYTES, SYSTEM, &none));
    CHECK(munmap(pages, BYTES) == 0);
    EXPECT(STATUS_INVALID_PARAMETER, create_over((void*)0x10000, BYTES, SYSTEM, &none));

    /* Memory that goes while an allocation lies over it, and other memory that comes in its place. */
    pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    D3DKMT_HANDLE handle;
    OK(create_over(pages, BYTES, SYSTEM, &handle));
    uint64_t* other = mmap(pages, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    other[0] = 4;
    destroy(handle);
    CHECK(other[0] == 4);
    puts("others");
    check_shared();
    return 0;
}
