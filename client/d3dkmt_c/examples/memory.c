/* The life of an allocation: created, mapped for the GPU, made resident, written by the CPU, evicted, read again, destroyed. */
#include "steps.h"

enum { BYTES = 1 << 20, WORDS = BYTES / 8 };

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE surface = create_surface(device, &paging, LOCAL_THEN_SYSTEM, BYTES);

    D3DKMT_ALLOCATIONRESIDENCYSTATUS residency = 0;
    D3DKMT_QUERYALLOCATIONRESIDENCY query = {
        .hDevice = device,
        .phAllocationList = &surface.handle,
        .AllocationCount = 1,
        .pResidencyStatus = &residency,
    };
    OK(D3DKMTQueryAllocationResidency(&query));
    CHECK(residency == D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY ||
          residency == D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY);

    uint64_t* words = lock_surface(device, surface);
    for (uint64_t index = 0; index < WORDS; index++) {
        words[index] = index * 0x9e3779b97f4a7c15u;
    }
    /* Locks nest, and the address stays the same. */
    CHECK(lock_surface(device, surface) == words);
    unlock_surface(device, surface);

    D3DKMT_EVICT evict = {.hDevice = device, .NumAllocations = 1, .AllocationList = &surface.handle};
    OK(D3DKMTEvict(&evict));
    CHECK(evict.NumBytesToTrim == 0);
    /* The list has it no more, and nothing has changed by asking. */
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEvict(&evict));

    for (uint64_t index = 0; index < WORDS; index++) {
        CHECK(words[index] == index * 0x9e3779b97f4a7c15u);
    }
    unlock_surface(device, surface);
    D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = surface.handle};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTUnlock2(&unlock));

    /* Its addresses are named by the adapter. */
    D3DDDI_RESERVEGPUVIRTUALADDRESS reserve = {.hAdapter = adapter, .Size = 1 << 16};
    OK(D3DKMTReserveGpuVirtualAddress(&reserve));
    CHECK(reserve.VirtualAddress != 0);
    D3DDDI_RESERVEGPUVIRTUALADDRESS again = {.hAdapter = adapter, .BaseAddress = reserve.VirtualAddress, .Size = 1 << 16};
    EXPECT(STATUS_CONFLICTING_ADDRESSES, D3DKMTReserveGpuVirtualAddress(&again));
    D3DKMT_FREEGPUVIRTUALADDRESS release = {
        .hAdapter = adapter,
        .BaseAddress = reserve.VirtualAddress,
        .Size = 1 << 16,
    };
    OK(D3DKMTFreeGpuVirtualAddress(&release));

    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .phAllocationList = &surface.handle, .AllocationCount = 1};
    OK(D3DKMTDestroyAllocation2(&destroy));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroyAllocation2(&destroy));
    D3DDDI_DESTROYPAGINGQUEUE destroy_paging = {.hPagingQueue = paging.hPagingQueue};
    OK(D3DKMTDestroyPagingQueue(&destroy_paging));
    D3DKMT_DESTROYDEVICE destroy_device = {.hDevice = device};
    OK(D3DKMTDestroyDevice(&destroy_device));
    D3DKMT_CLOSEADAPTER close = {.hAdapter = adapter};
    OK(D3DKMTCloseAdapter(&close));
    puts("kept its content");
    return 0;
}
