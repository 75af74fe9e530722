/* Where there is no room for an allocation that can lie in video memory, the status says whether it helps to give some back. With ONLY_SYSTEM the
 * adapter has no video memory: what it has in its place counts as that. */
#include <stdlib.h>

#include "steps.h"

enum { MIB = 1 << 20 };

static NTSTATUS create(D3DKMT_HANDLE device, uint8_t kind, uint64_t size, D3DKMT_HANDLE* made) {
    SOFTGPU_ALLOCATION data = softgpu_allocation(kind, 0, size);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    NTSTATUS status = D3DKMTCreateAllocation2(&create);
    *made = info.hAllocation;
    return status;
}

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter()), made[64] = {0}, last;
    int count = 0, bare = getenv("ONLY_SYSTEM") != NULL;
    uint8_t kind = bare ? SYSTEM : LOCAL_THEN_SYSTEM;
    NTSTATUS status;
    while (count < 64 && NT_SUCCESS(status = create(device, kind, 4 * MIB, &made[count]))) count++;
    CHECK(count > 0 && count < 64);
    EXPECT(STATUS_GRAPHICS_NO_VIDEO_MEMORY, status);
    /* More than there is at all: nothing helps. */
    EXPECT(STATUS_NO_MEMORY, create(device, kind, 1024ull * MIB, &last));
    /* Of memory that is never video memory it is not said, where there is other memory. */
    EXPECT(bare ? STATUS_GRAPHICS_NO_VIDEO_MEMORY : STATUS_NO_MEMORY, create(device, SYSTEM, 4 * MIB, &last));
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .phAllocationList = made, .AllocationCount = 1};
    OK(D3DKMTDestroyAllocation2(&destroy));
    OK(create(device, kind, 4 * MIB, &last));
    puts("it helped");
    return 0;
}
