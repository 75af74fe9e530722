/* The first steps that the examples share: an adapter, a device, a paging queue, an allocation that the GPU reaches. The software GPU's
 * formats are those of openwddm/softgpu.h. */
#ifndef STEPS_H
#define STEPS_H

#include <string.h>

#include <openwddm/softgpu.h>

#include "check.h"

enum { LOCAL = SOFTGPU_LOCAL, SYSTEM = SOFTGPU_SYSTEM, LOCAL_THEN_SYSTEM = SOFTGPU_LOCAL_THEN_SYSTEM };
enum { CPU_VISIBLE = SOFTGPU_CPU_VISIBLE, CACHED = SOFTGPU_CACHED, ACCESSED_PHYSICALLY = SOFTGPU_ACCESSED_PHYSICALLY };

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
