/* A lock keeps an allocation out of its segment: MakeResident is pending until the unlock, and OPENWDDM_REFUSALS names the allocation. */
#include "steps.h"

enum { BYTES = 1 << 16 };

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter()), both[2];
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    for (int at = 0; at < 2; at++) {
        SOFTGPU_ALLOCATION data = softgpu_allocation(LOCAL, 0, BYTES);
        D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
        D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
        OK(D3DKMTCreateAllocation2(&create));
        both[at] = info.hAllocation;
    }
    D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = both[1]};
    OK(D3DKMTLock2(&lock));
    D3DDDI_MAKERESIDENT resident = {.hPagingQueue = paging.hPagingQueue, .NumAllocations = 2, .AllocationList = both};
    EXPECT(STATUS_PENDING, D3DKMTMakeResident(&resident));
    volatile const uint64_t* reached = paging.FenceValueCPUVirtualAddress;
    CHECK(*reached < resident.PagingFenceValue);
    D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = both[1]};
    OK(D3DKMTUnlock2(&unlock));
    wait_for(device, paging.hSyncObject, resident.PagingFenceValue);
    puts("it came");
    return 0;
}
