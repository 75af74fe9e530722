/* The little that the examples have of a user-mode driver for the software GPU: the private data of an allocation, and commands as words
 * (the data sheet is contract/softgpu_spec). */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include <string.h>

#include "check.h"

enum { LOCAL = 1, SYSTEM = 2, LOCAL_THEN_SYSTEM = 3 };
enum { CPU_VISIBLE = 1, CACHED = 2 };

typedef struct {
    uint32_t magic;
    uint16_t version;
    uint8_t kind;
    uint8_t reserved;
    uint32_t flags;
    uint32_t alignment;
    uint64_t size;
} SOFTGPU_ALLOCATION;

static inline SOFTGPU_ALLOCATION softgpu_allocation(uint8_t kind, uint32_t flags, uint64_t size) {
    SOFTGPU_ALLOCATION allocation = {.version = 1, .kind = kind, .flags = flags, .size = size};
    memcpy(&allocation.magic, "SGAL", 4);
    return allocation;
}

/* Fills bytes at a GPU address with a 32-bit pattern: three words of a command buffer. */
static inline uint64_t* softgpu_fill(uint64_t* words, uint64_t va, uint64_t bytes, uint32_t pattern) {
    words[0] = 0x11 | (uint64_t)3 << 8 | (uint64_t)pattern << 32;
    words[1] = va;
    words[2] = bytes;
    return words + 3;
}

/* The private data of a hardware queue. The structure of the call has one address of the progress fence, CurrentValue's; a signal needs
 * MonitoredValue's, too, and the kernel-mode driver answers with it here. */
typedef struct {
    uint32_t magic;
    uint16_t version;
    uint16_t reserved;
    uint64_t progress_monitored_va;
} SOFTGPU_QUEUE;

static inline SOFTGPU_QUEUE softgpu_queue(void) {
    SOFTGPU_QUEUE queue = {.version = 1};
    memcpy(&queue.magic, "SGQU", 4);
    return queue;
}

/* Stores a fence's value, and interrupts if it is greater than the monitored one: four words. A value never exceeds itself: with the address
 * of CurrentValue for that of MonitoredValue no interrupt comes, and a waiter on the CPU sleeps for ever. */
static inline uint64_t* softgpu_signal(uint64_t* words, uint64_t current_va, uint64_t monitored_va, uint64_t value) {
    CHECK(current_va != monitored_va);
    words[0] = 0x02 | (uint64_t)4 << 8;
    words[1] = current_va;
    words[2] = monitored_va;
    words[3] = value;
    return words + 4;
}

/* A private question to the kernel-mode driver (D3DKMTEscape): 64 bytes, of which the first eight are the question and the others the
 * answer. The hardware's question needs Flags.HardwareAccess. */
enum { SOFTGPU_QUESTION_WORDS = 8, SOFTGPU_HARDWARE = 1, SOFTGPU_USAGE = 2 };

static inline void softgpu_question(uint64_t* words, uint16_t question) {
    const uint16_t version = 1;
    memset(words, 0, SOFTGPU_QUESTION_WORDS * sizeof *words);
    memcpy(words, "SGES", 4);
    memcpy((char*)words + 4, &version, 2);
    memcpy((char*)words + 6, &question, 2);
}

/* The first adapter, opened. */
static inline D3DKMT_HANDLE first_adapter(void) {
    D3DKMT_ENUMADAPTERS list = {0};
    OK(D3DKMTEnumAdapters(&list));
    CHECK(list.NumAdapters >= 1);
    for (ULONG other = 1; other < list.NumAdapters; other++) {
        D3DKMT_CLOSEADAPTER close = {.hAdapter = list.Adapters[other].hAdapter};
        OK(D3DKMTCloseAdapter(&close));
    }
    return list.Adapters[0].hAdapter;
}

static inline D3DKMT_HANDLE create_device(D3DKMT_HANDLE adapter) {
    D3DKMT_CREATEDEVICE create = {.hAdapter = adapter};
    OK(D3DKMTCreateDevice(&create));
    return create.hDevice;
}

static inline D3DKMT_CREATEPAGINGQUEUE create_paging_queue(D3DKMT_HANDLE device) {
    D3DKMT_CREATEPAGINGQUEUE create = {.hDevice = device, .Priority = D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL};
    OK(D3DKMTCreatePagingQueue(&create));
    return create;
}

/* Blocks until a fence has a value. */
static inline void wait_for(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, uint64_t value) {
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &fence,
        .FenceValueArray = &value,
    };
    OK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
}

/* An allocation that is mapped for the GPU and resident. */
typedef struct {
    D3DKMT_HANDLE handle;
    D3DGPU_VIRTUAL_ADDRESS va;
} SURFACE;

static inline SURFACE create_surface(D3DKMT_HANDLE device, const D3DKMT_CREATEPAGINGQUEUE* paging, uint8_t kind,
                                     uint64_t size) {
    SOFTGPU_ALLOCATION data = softgpu_allocation(kind, CPU_VISIBLE, size);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    OK(D3DKMTCreateAllocation2(&create));
    CHECK(info.hAllocation != 0);
    /* The kernel-mode driver's answer: the pages of its local memory, if the allocation can lie there. */
    CHECK(kind != LOCAL || data.alignment == 4096 || data.alignment == 65536);

    D3DDDI_MAPGPUVIRTUALADDRESS map = {
        .hPagingQueue = paging->hPagingQueue,
        .hAllocation = info.hAllocation,
        .SizeInPages = size / 4096,
        .Protection = {.Write = 1},
    };
    NTSTATUS status = D3DKMTMapGpuVirtualAddress(&map);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    CHECK((status == STATUS_PENDING) == (map.PagingFenceValue != 0));
    wait_for(device, paging->hSyncObject, map.PagingFenceValue);

    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = paging->hPagingQueue,
        .NumAllocations = 1,
        .AllocationList = &info.hAllocation,
    };
    status = D3DKMTMakeResident(&resident);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    if (status == STATUS_PENDING) {
        wait_for(device, paging->hSyncObject, resident.PagingFenceValue);
        /* The same by a look at the fence's word. */
        CHECK(*(const volatile uint64_t*)paging->FenceValueCPUVirtualAddress >= resident.PagingFenceValue);
    }
    return (SURFACE){.handle = info.hAllocation, .va = map.VirtualAddress};
}

static inline uint64_t* lock_surface(D3DKMT_HANDLE device, SURFACE surface) {
    D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = surface.handle};
    OK(D3DKMTLock2(&lock));
    CHECK(lock.pData != NULL);
    return lock.pData;
}

static inline void unlock_surface(D3DKMT_HANDLE device, SURFACE surface) {
    D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = surface.handle};
    OK(D3DKMTUnlock2(&unlock));
}

#endif
