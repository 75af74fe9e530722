/* A driver that shares addresses with the CPU: it reserves from 2 MiB to 2^47 at once, by the adapter's handle, and maps there. Bounds may
 * be inclusive or within a unit, and addresses sign-extended. */
#include "steps.h"

enum { BYTES = 1 << 16, WORDS = BYTES / 8 };
static const uint64_t FIRST = 2 << 20, END = 1ull << 47, UNIT = 1 << 16;

static D3DGPU_VIRTUAL_ADDRESS map(D3DKMT_HANDLE device, const D3DKMT_CREATEPAGINGQUEUE* paging, D3DDDI_MAPGPUVIRTUALADDRESS wanted) {
    wanted.hPagingQueue = paging->hPagingQueue;
    wanted.SizeInPages = BYTES / 4096;
    wanted.Protection.Write = 1;
    NTSTATUS status = D3DKMTMapGpuVirtualAddress(&wanted);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    wait_for(device, paging->hSyncObject, wanted.PagingFenceValue);
    return wanted.VirtualAddress;
}

static void fill(D3DKMT_HANDLE device, D3DKMT_HANDLE context, SURFACE commands, uint64_t commands_at, uint64_t va, uint32_t pattern) {
    static uint64_t value;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
    create.Info.MonitoredFence.InitialFenceValue = value;
    OK(D3DKMTCreateSynchronizationObject2(&create));
    uint64_t* words = lock_surface(device, commands);
    uint64_t* end = softgpu_fill(words, va, BYTES, pattern);
    D3DKMT_SUBMITCOMMAND submit = {
        .Commands = commands_at, .CommandLength = (UINT)((end - words) * sizeof *words),
        .BroadcastContextCount = 1, .BroadcastContext = {context},
    };
    unlock_surface(device, commands);
    OK(D3DKMTSubmitCommand(&submit));
    value += 1;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {
        .hContext = context, .ObjectCount = 1, .ObjectHandleArray = &create.hSyncObject, .MonitoredFenceValueArray = &value,
    };
    OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
    wait_for(device, create.hSyncObject, value);
}

static void holds(D3DKMT_HANDLE device, SURFACE target, uint32_t pattern) {
    const uint64_t* words = lock_surface(device, target);
    for (int index = 0; index < WORDS; index++) CHECK(words[index] == ((uint64_t)pattern << 32 | pattern));
    unlock_surface(device, target);
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&context));

    D3DDDI_RESERVEGPUVIRTUALADDRESS most = {.hAdapter = adapter, .BaseAddress = FIRST, .Size = END - FIRST};
    OK(D3DKMTReserveGpuVirtualAddress(&most));
    CHECK(most.VirtualAddress == FIRST);
    D3DKMT_FREEGPUVIRTUALADDRESS all = {.hAdapter = adapter, .BaseAddress = FIRST, .Size = END - FIRST};
    OK(D3DKMTFreeGpuVirtualAddress(&all));
    /* The same by bounds, the upper of which is the last byte. */
    D3DDDI_RESERVEGPUVIRTUALADDRESS between = {
        .hAdapter = adapter, .MinimumAddress = FIRST - 1, .MaximumAddress = END - 1, .Size = END - FIRST};
    OK(D3DKMTReserveGpuVirtualAddress(&between));
    CHECK(between.VirtualAddress == FIRST);
    D3DDDI_RESERVEGPUVIRTUALADDRESS again = {.hAdapter = adapter, .BaseAddress = FIRST + UNIT, .Size = UNIT};
    EXPECT(STATUS_CONFLICTING_ADDRESSES, D3DKMTReserveGpuVirtualAddress(&again));
    D3DDDI_RESERVEGPUVIRTUALADDRESS none = {.hAdapter = adapter, .MaximumAddress = UNIT, .Size = UNIT};
    EXPECT(STATUS_NO_MEMORY, D3DKMTReserveGpuVirtualAddress(&none));

    /* The paging queue that was made first keeps its fence, and another one finds room. */
    D3DKMT_CREATEPAGINGQUEUE second = create_paging_queue(device);
    SURFACE commands = create_surface(device, &second, SYSTEM, 4096);
    SURFACE target = create_surface(device, &paging, LOCAL, BYTES);
    uint64_t low = map(device, &paging, (D3DDDI_MAPGPUVIRTUALADDRESS){.hAllocation = target.handle, .BaseAddress = FIRST});
    CHECK(low == FIRST);
    fill(device, context.hContext, commands, commands.va, low, 0x10101010);
    holds(device, target, 0x10101010);

    /* An address of the upper half, in both forms, from the call to the GPU. */
    uint64_t high = (1ull << 47) + (1ull << 40), extended = high | ~0ull << 47;
    CHECK(map(device, &paging, (D3DDDI_MAPGPUVIRTUALADDRESS){.hAllocation = target.handle, .BaseAddress = extended}) == high);
    fill(device, context.hContext, commands, commands.va, extended, 0x20202020);
    holds(device, target, 0x20202020);
    D3DKMT_FREEGPUVIRTUALADDRESS gone = {.hAdapter = adapter, .BaseAddress = extended, .Size = BYTES};
    OK(D3DKMTFreeGpuVirtualAddress(&gone));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTFreeGpuVirtualAddress(&gone));
    puts("mapped where it was reserved");
    return 0;
}
