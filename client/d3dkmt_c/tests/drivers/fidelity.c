/* A driver whose calls the library serves in each way: it does what they ask, accepts a part without effect, refuses, or fails them. */
#include "steps.h"

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_CREATEDEVICE create = {.hAdapter = adapter, .Flags = {.RequestVSync = 1}};
    OK(D3DKMTCreateDevice(&create));
    OK(D3DKMTCreateDevice(&create));
    D3DKMT_HANDLE device = create.hDevice;
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);

    SOFTGPU_ALLOCATION data = softgpu_allocation(SYSTEM, CPU_VISIBLE, 1 << 16);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION make = {
        .hDevice = device,
        .NumAllocations = 1,
        .pAllocationInfo2 = &info,
        .Flags = {.CreateResource = 1, .NonSecure = 1},
    };
    OK(D3DKMTCreateAllocation2(&make));
    D3DKMT_CREATEALLOCATION watched = make;
    watched.hResource = 0;
    watched.Flags.Value = 0;
    watched.Flags.WriteWatch = 1;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTCreateAllocation2(&watched));

    UINT priority = 1;
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = paging.hPagingQueue,
        .NumAllocations = 1,
        .AllocationList = &info.hAllocation,
        .PriorityList = &priority,
        .Flags = {.CantTrimFurther = 1},
    };
    NTSTATUS status = D3DKMTMakeResident(&resident);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    wait_for(device, paging.hSyncObject, resident.PagingFenceValue);

    SOFTGPU_QUESTION question = softgpu_question(SOFTGPU_ASK_USAGE);
    D3DKMT_ESCAPE escape = {
        .hAdapter = adapter,
        .Type = D3DKMT_ESCAPE_DRIVERPRIVATE,
        .pPrivateDriverData = &question,
        .PrivateDriverDataSize = sizeof question,
    };
    OK(D3DKMTEscape(&escape));
    escape.Type = D3DKMT_ESCAPE_VIDMM;
    CHECK(!NT_SUCCESS(D3DKMTEscape(&escape)));
    escape.hAdapter = 77;
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    CHECK(!NT_SUCCESS(D3DKMTEscape(&escape)));
    UINT overlay[16] = {0, device}; /* D3DKMT_CREATEOVERLAY: VidPnSourceId, hDevice */
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTCreateOverlay((void*)overlay));
    D3DKMTCloseDxCoreDevice();
    puts("served");
    return 0;
}
