/* Memory that cannot be had: the numbers in a refusal of MakeResident, and an allocation that no segment has room for. */
#include "steps.h"

enum { MIB = 1 << 20, COUNT = 3 };

static D3DKMT_HANDLE create(D3DKMT_HANDLE device, uint8_t kind, uint64_t size, NTSTATUS wanted) {
    SOFTGPU_ALLOCATION data = softgpu_allocation(kind, 0, size);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data, .GpuVirtualAddress = 7};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    EXPECT(wanted, D3DKMTCreateAllocation2(&create));
    CHECK(NT_SUCCESS(wanted) || (info.hAllocation == 0 && info.GpuVirtualAddress == 7 && create.Flags.Value == 0));
    return info.hAllocation;
}

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    create(device, LOCAL, 33 * MIB, STATUS_GRAPHICS_NO_VIDEO_MEMORY);
    create(device, LOCAL, (uint64_t)1 << 30, STATUS_GRAPHICS_NO_VIDEO_MEMORY);

    /* 45 MiB of 32. */
    D3DKMT_HANDLE list[COUNT];
    for (int index = 0; index < COUNT; index++) {
        list[index] = create(device, LOCAL, 15 * MIB, STATUS_SUCCESS);
    }
    D3DDDI_MAKERESIDENT all = {
        .hPagingQueue = paging.hPagingQueue,
        .NumAllocations = COUNT,
        .AllocationList = list,
        .PagingFenceValue = 99,
        .NumBytesToTrim = 98,
    };
    D3DDDI_MAKERESIDENT wrong = all, none = all, two = all, third = all;
    EXPECT(STATUS_NO_MEMORY, D3DKMTMakeResident(&all));
    /* No trim helps, and none is asked for. */
    CHECK(all.NumAllocations == 0 && all.NumBytesToTrim == 0 && all.PagingFenceValue == 99);
    wrong.hPagingQueue = device;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTMakeResident(&wrong));
    CHECK(wrong.NumAllocations == 0 && wrong.NumBytesToTrim == 0 && wrong.PagingFenceValue == 99);
    none.AllocationList = NULL;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTMakeResident(&none));
    CHECK(none.NumAllocations == 0 && none.NumBytesToTrim == 0 && none.PagingFenceValue == 99);
    two.NumAllocations = 2;
    NTSTATUS status = D3DKMTMakeResident(&two);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    CHECK(two.NumAllocations == 2 && two.NumBytesToTrim == 0 && two.PagingFenceValue != 99);
    /* Beside the two it does not fit, and would behind a trim: of the 15 MiB 2 are free. */
    third.NumAllocations = 1;
    third.AllocationList = &list[2];
    EXPECT(STATUS_NO_MEMORY, D3DKMTMakeResident(&third));
    CHECK(third.NumAllocations == 0 && third.NumBytesToTrim >= 13 * MIB && third.NumBytesToTrim <= 15 * MIB);
    D3DKMT_EVICT evict = {.hDevice = device, .NumAllocations = COUNT, .AllocationList = list, .NumBytesToTrim = 98};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTEvict(&evict));
    CHECK(evict.NumBytesToTrim == 98);
    puts("said what is missing");
    return 0;
}
