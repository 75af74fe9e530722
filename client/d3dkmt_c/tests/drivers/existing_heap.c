/* A standard allocation over an existing heap: alone, in a resource, shared, with data; wrong descriptions. */
#include <sys/mman.h>
#include <unistd.h>

#include "steps.h"

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    void* heap = NULL;
    CHECK(posix_memalign(&heap, 0x10000, 0x10000) == 0);
    memset(heap, 0x5a, 0x10000);
    D3DKMT_CREATESTANDARDALLOCATION standard = {
        .Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP, .ExistingHeapData = {.Size = 0x10000}};
    /* As long as private data may be, which is no driver's to say. */
    static char data[65536] = "abcdef";
    memset(data + 7, 0x77, sizeof data - 7);
    char runtime[] = "run";
    D3DDDI_ALLOCATIONINFO info = {.pSystemMem = heap};
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device, .pStandardAllocation = &standard, .NumAllocations = 1, .pAllocationInfo = &info,
        .Flags = {.ExistingSysMem = 1, .StandardAllocation = 1},
    };
    D3DKMT_DESTROYALLOCATION destroy = {.hDevice = device, .phAllocationList = &info.hAllocation, .AllocationCount = 1};
    OK(D3DKMTCreateAllocation(&create));
    CHECK(info.hAllocation != 0 && create.hResource == 0 && create.hGlobalShare == 0);
    OK(D3DKMTDestroyAllocation(&destroy));

    /* Over memory that other mappings see, too. */
    int file = memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(file >= 0 && ftruncate(file, 0x10000) == 0);
    char* shared = mmap(NULL, 0x10000, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(shared != MAP_FAILED);
    memset(shared, 0x33, 0x10000);
    info.pSystemMem = shared;
    OK(D3DKMTCreateAllocation(&create));
    OK(D3DKMTDestroyAllocation(&destroy));
    CHECK(shared[0xffff] == 0x33);
    info.pSystemMem = heap;

    info.pPrivateDriverData = data;
    info.PrivateDriverDataSize = sizeof data;
    create.pPrivateRuntimeData = runtime;
    create.PrivateRuntimeDataSize = sizeof runtime;
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    OK(D3DKMTCreateAllocation(&create));
    CHECK(create.hResource != 0 && create.hGlobalShare != 0 && !strcmp(data, "abcdef"));
    /* A process that opens it is shown what its creator brought. */
    D3DKMT_QUERYRESOURCEINFO query = {.hDevice = device, .hGlobalShare = create.hGlobalShare};
    OK(D3DKMTQueryResourceInfo(&query));
    CHECK(query.NumAllocations == 1 && query.TotalPrivateDriverDataSize == sizeof data && query.PrivateRuntimeDataSize == sizeof runtime);
    static char shown[sizeof data];
    char seen[64], call[64];
    D3DDDI_OPENALLOCATIONINFO opened = {0};
    D3DKMT_OPENRESOURCE open = {
        .hDevice = device, .hGlobalShare = create.hGlobalShare, .NumAllocations = 1, .pOpenAllocationInfo = &opened,
        .pPrivateRuntimeData = seen, .PrivateRuntimeDataSize = query.PrivateRuntimeDataSize,
        .pResourcePrivateDriverData = call, .ResourcePrivateDriverDataSize = query.ResourcePrivateDriverDataSize,
        .pTotalPrivateDriverDataBuffer = shown, .TotalPrivateDriverDataBufferSize = query.TotalPrivateDriverDataSize,
    };
    OK(D3DKMTOpenResource(&open));
    CHECK(!memcmp(shown, data, sizeof data) && !strcmp(seen, "run"));
    D3DKMT_DESTROYALLOCATION opener = {.hDevice = device, .hResource = open.hResource};
    OK(D3DKMTDestroyAllocation(&opener));
    D3DKMT_DESTROYALLOCATION whole = {.hDevice = device, .hResource = create.hResource};
    OK(D3DKMTDestroyAllocation(&whole));

    create.hResource = 0;
    create.Flags.CreateResource = create.Flags.CreateShared = 0;
    standard.ExistingHeapData.Size = 0x1100;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation(&create));
    standard.ExistingHeapData.Size = 0;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation(&create));
    standard.ExistingHeapData.Size = 0x10000;
    standard.Type = 0;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation(&create));
    standard.Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
    info.pSystemMem = NULL;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation(&create));
    info.pSystemMem = heap;
    create.NumAllocations = 0;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation(&create));
    create.NumAllocations = 1;
    info.PrivateDriverDataSize = sizeof data + 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation(&create));
    info.PrivateDriverDataSize = sizeof data;
    create.PrivateDriverDataSize = 64;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateAllocation(&create));
    for (int index = 0; index < 0x10000; index++) CHECK(((char*)heap)[index] == 0x5a);
    puts("over a heap");
    return 0;
}
