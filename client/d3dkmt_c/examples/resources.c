/* A resource of two allocations, shared by a global handle: another device first asks about it, and then opens it in both forms, with
 * the data that its creator, the runtime and the driver have given it. */
#include "steps.h"

enum { BYTES = 1 << 16, ALLOCATIONS = 2 };

static const char runtime_data[] = "what a runtime says of it";

static D3DKMT_QUERYRESOURCEINFO query(D3DKMT_HANDLE device, D3DKMT_HANDLE share) {
    D3DKMT_QUERYRESOURCEINFO query = {.hDevice = device, .hGlobalShare = share};
    OK(D3DKMTQueryResourceInfo(&query));
    return query;
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter), other = create_device(adapter);

    SOFTGPU_ALLOCATION data[ALLOCATIONS];
    D3DDDI_ALLOCATIONINFO2 infos[ALLOCATIONS];
    memset(infos, 0, sizeof infos);
    for (int index = 0; index < ALLOCATIONS; index++) {
        data[index] = softgpu_allocation(SYSTEM, CPU_VISIBLE, BYTES);
        infos[index].pPrivateDriverData = &data[index];
        infos[index].PrivateDriverDataSize = sizeof data[index];
    }
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device,
        .pPrivateRuntimeData = runtime_data,
        .PrivateRuntimeDataSize = sizeof runtime_data,
        .NumAllocations = ALLOCATIONS,
        .pAllocationInfo2 = infos,
        .Flags = {.CreateResource = 1, .CreateShared = 1},
    };
    OK(D3DKMTCreateAllocation2(&create));
    CHECK(create.hResource != 0 && create.hGlobalShare != 0);
    SURFACE first = {.handle = infos[0].hAllocation};
    uint64_t* words = lock_surface(device, first);
    words[0] = 0x1234;
    unlock_surface(device, first);

    D3DKMT_QUERYRESOURCEINFO told = query(other, create.hGlobalShare);
    CHECK(told.NumAllocations == ALLOCATIONS && told.PrivateRuntimeDataSize == sizeof runtime_data);
    CHECK(told.TotalPrivateDriverDataSize == sizeof data && told.ResourcePrivateDriverDataSize == 0);
    /* It tells sizes, and writes nothing to the place of the runtime's data, whatever room that has. */
    char asked[sizeof runtime_data + 8];
    for (UINT room = 0; room <= sizeof asked; room++) {
        memset(asked, 0x55, sizeof asked);
        D3DKMT_QUERYRESOURCEINFO sizes = {
            .hDevice = other,
            .hGlobalShare = create.hGlobalShare,
            .pPrivateRuntimeData = asked,
            .PrivateRuntimeDataSize = room,
        };
        OK(D3DKMTQueryResourceInfo(&sizes));
        CHECK(sizes.PrivateRuntimeDataSize == sizeof runtime_data && sizes.NumAllocations == ALLOCATIONS);
        CHECK(asked[0] == 0x55 && asked[sizeof asked - 1] == 0x55);
    }

    D3DKMT_QUERYRESOURCEINFO wrong = {.hDevice = other, .hGlobalShare = create.hResource};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryResourceInfo(&wrong));
    CHECK(wrong.NumAllocations == 0);

    /* Room that is too small, or for another number of allocations: nothing is opened. */
    char runtime[sizeof runtime_data], total[sizeof data + 16];
    D3DDDI_OPENALLOCATIONINFO2 opened2[ALLOCATIONS];
    D3DKMT_OPENRESOURCE open = {
        .hDevice = other,
        .hGlobalShare = create.hGlobalShare,
        .NumAllocations = ALLOCATIONS - 1,
        .pOpenAllocationInfo2 = opened2,
        .pPrivateRuntimeData = runtime,
        .PrivateRuntimeDataSize = sizeof runtime,
        .pTotalPrivateDriverDataBuffer = total,
        .TotalPrivateDriverDataBufferSize = sizeof total,
    };
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenResource2(&open));
    open.NumAllocations = ALLOCATIONS;
    open.TotalPrivateDriverDataBufferSize = sizeof data - 1;
    EXPECT(STATUS_NO_MEMORY, D3DKMTOpenResource2(&open));
    open.TotalPrivateDriverDataBufferSize = sizeof total;
    open.pResourcePrivateDriverData = asked;
    open.ResourcePrivateDriverDataSize = 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenResource2(&open));
    open.ResourcePrivateDriverDataSize = 0;
    open.PrivateRuntimeDataSize = sizeof runtime - 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenResource2(&open));
    open.pPrivateRuntimeData = asked;
    open.PrivateRuntimeDataSize = sizeof runtime + 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenResource2(&open));
    open.pPrivateRuntimeData = runtime;
    CHECK(open.hResource == 0);

    open.PrivateRuntimeDataSize = sizeof runtime;
    OK(D3DKMTOpenResource2(&open));
    CHECK(open.hResource != 0 && memcmp(runtime, runtime_data, sizeof runtime) == 0);
    /* How much of the room was needed. */
    CHECK(open.TotalPrivateDriverDataBufferSize == sizeof data);
    for (int index = 0; index < ALLOCATIONS; index++) {
        CHECK(opened2[index].hAllocation != 0 && opened2[index].PrivateDriverDataSize == sizeof data[index]);
        CHECK(memcmp(opened2[index].pPrivateDriverData, &data[index], sizeof data[index]) == 0);
    }
    SURFACE same = {.handle = opened2[0].hAllocation};
    CHECK(lock_surface(other, same)[0] == 0x1234);
    unlock_surface(other, same);

    /* The first form, by a third device. */
    D3DKMT_HANDLE third = create_device(adapter);
    D3DDDI_OPENALLOCATIONINFO opened[ALLOCATIONS];
    D3DKMT_OPENRESOURCE again = open;
    again.hDevice = third;
    again.hResource = 0;
    again.pOpenAllocationInfo = opened;
    OK(D3DKMTOpenResource(&again));
    CHECK(again.hResource != 0 && opened[1].hAllocation != 0);
    CHECK(memcmp(opened[1].pPrivateDriverData, &data[1], sizeof data[1]) == 0);

    /* It lives as long as a device has it. */
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .hResource = create.hResource};
    OK(D3DKMTDestroyAllocation2(&destroy));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroyAllocation2(&destroy));
    CHECK(query(other, create.hGlobalShare).NumAllocations == ALLOCATIONS);
    destroy = (D3DKMT_DESTROYALLOCATION2){.hDevice = other, .hResource = open.hResource};
    OK(D3DKMTDestroyAllocation2(&destroy));
    destroy = (D3DKMT_DESTROYALLOCATION2){.hDevice = third, .hResource = again.hResource};
    OK(D3DKMTDestroyAllocation2(&destroy));
    wrong.hGlobalShare = create.hGlobalShare;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryResourceInfo(&wrong));
    puts("opened twice");
    return 0;
}
