/* An adapter of the first generation: commands name memory by lists, the kernel writes addresses into them, and the lock of that time shows what
 * came of it. */
#include "steps.h"

enum { BYTES = 1 << 16, WORDS = BYTES / 8 };

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SOFTGPU_ALLOCATION data = softgpu_allocation(SYSTEM, CPU_VISIBLE | ACCESSED_PHYSICALLY, BYTES);
    D3DDDI_ALLOCATIONINFO info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo = &info};
    OK(D3DKMTCreateAllocation(&create));
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = paging.hPagingQueue,
        .NumAllocations = 1,
        .AllocationList = &info.hAllocation,
    };
    CHECK(NT_SUCCESS(D3DKMTMakeResident(&resident)));

    D3DKMT_CREATECONTEXT context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContext(&context));
    CHECK(context.pCommandBuffer != NULL && context.AllocationListSize > 0 && context.PatchLocationListSize > 0);

    /* One command: its second word is an address that only the kernel knows. */
    uint64_t* words = context.pCommandBuffer;
    softgpu_fill_physical(words, 0, BYTES, 0xabcd0123);
    context.pAllocationList[0] = (D3DDDI_ALLOCATIONLIST){.hAllocation = info.hAllocation, .WriteOperation = 1};
    context.pPatchLocationList[0] = (D3DDDI_PATCHLOCATIONLIST){.SlotId = 1, .PatchOffset = 8};
    D3DKMT_RENDER render = {
        .hContext = context.hContext,
        .CommandLength = SOFTGPU_FILL_PHYSICAL_WORDS * 8,
        .AllocationCount = 1,
        .PatchLocationCount = 1,
    };
    D3DKMT_RENDER wrong = render;
    wrong.CommandLength = 20;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTRender(&wrong));
    wrong.CommandLength = context.CommandBufferSize + 8;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTRender(&wrong));
    wrong = render;
    wrong.AllocationCount = context.AllocationListSize + 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTRender(&wrong));
    wrong = render;
    wrong.hContext = device;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTRender(&wrong));
    OK(D3DKMTRender(&render));
    CHECK(render.QueuedBufferCount <= 1 && render.pNewCommandBuffer != NULL);

    /* The lock waits for what was rendered. */
    D3DKMT_LOCK lock = {.hDevice = device, .hAllocation = info.hAllocation, .Flags = {.LockEntire = 1}};
    D3DKMT_LOCK odd = lock;
    odd.Flags.Value = 1u << 20;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTLock(&odd));
    CHECK(odd.pData == NULL);
    OK(D3DKMTLock(&lock));
    const uint64_t* seen = lock.pData;
    for (int index = 0; index < WORDS; index++) {
        CHECK(seen[index] == 0xabcd0123abcd0123u);
    }
    D3DKMT_UNLOCK unlock = {.hDevice = device, .NumAllocations = 1, .phAllocations = &lock.hAllocation};
    OK(D3DKMTUnlock(&unlock));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTUnlock(&unlock));
    D3DKMT_DESTROYCONTEXT destroy = {.hContext = context.hContext};
    OK(D3DKMTDestroyContext(&destroy));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTRender(&render));
    puts("rendered and locked");
    return 0;
}
