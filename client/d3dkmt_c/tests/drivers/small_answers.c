/* A context's priority may rise by one without a privilege, and a resource is destroyed with a list of its allocations beside it. */
#include "steps.h"

static D3DKMT_CREATEALLOCATION resource_of_two(D3DKMT_HANDLE device, D3DKMT_HANDLE* list) {
    SOFTGPU_ALLOCATION data[2] = {softgpu_allocation(SYSTEM, 0, 4096), softgpu_allocation(SYSTEM, 0, 4096)};
    D3DDDI_ALLOCATIONINFO2 infos[2] = {
        {.pPrivateDriverData = &data[0], .PrivateDriverDataSize = sizeof data[0]},
        {.pPrivateDriverData = &data[1], .PrivateDriverDataSize = sizeof data[1]},
    };
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 2, .pAllocationInfo2 = infos, .Flags = {.CreateResource = 1}};
    OK(D3DKMTCreateAllocation2(&create));
    list[0] = infos[0].hAllocation;
    list[1] = infos[1].hAllocation;
    return create;
}

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&context));
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY priority = {.hContext = context.hContext, .Priority = 1};
    OK(D3DKMTSetContextSchedulingPriority(&priority));
    priority.Priority = 2;
    EXPECT(STATUS_PRIVILEGE_NOT_HELD, D3DKMTSetContextSchedulingPriority(&priority));

    D3DKMT_HANDLE first[2], second[2];
    D3DKMT_CREATEALLOCATION one = resource_of_two(device, first), other = resource_of_two(device, second);
    D3DKMT_HANDLE mixed[2] = {first[0], second[0]};
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .hResource = one.hResource, .phAllocationList = mixed, .AllocationCount = 2};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroyAllocation2(&destroy));
    destroy.phAllocationList = first;
    OK(D3DKMTDestroyAllocation2(&destroy));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroyAllocation2(&destroy));
    /* The resource goes with all that it has. */
    destroy.hResource = other.hResource;
    destroy.phAllocationList = second;
    destroy.AllocationCount = 1;
    OK(D3DKMTDestroyAllocation2(&destroy));
    D3DKMT_DESTROYALLOCATION2 rest = {.hDevice = device, .phAllocationList = &second[1], .AllocationCount = 1};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroyAllocation2(&rest));
    puts("raised and freed");
    return 0;
}
