/* A program that stores where it may only look: into the words of fences of each kind. It does not live to say so. */
#include <stdlib.h>

#include "steps.h"

static void* native_fence(D3DKMT_HANDLE device) {
    D3DKMT_CREATENATIVEFENCE create = {.hDevice = device, .Info = {.InitialFenceValue = 7}};
    OK(D3DKMTCreateNativeFence(&create));
    return create.Info.NativeFenceMapping.CurrentValueCpuVa;
}

static void* monitored_fence(D3DKMT_HANDLE device) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
    create.Info.MonitoredFence.InitialFenceValue = 7;
    OK(D3DKMTCreateSynchronizationObject2(&create));
    return (void*)create.Info.MonitoredFence.FenceValueCPUVirtualAddress;
}

static void* paging_fence(D3DKMT_HANDLE device) {
    D3DKMT_CREATEPAGINGQUEUE create = {.hDevice = device};
    OK(D3DKMTCreatePagingQueue(&create));
    return create.FenceValueCPUVirtualAddress;
}

int main(void) {
    const char* kind = getenv("STORES");
    CHECK(kind != NULL);
    D3DKMT_HANDLE device = create_device(first_adapter());
    void* word = strcmp(kind, "native") == 0      ? native_fence(device)
                 : strcmp(kind, "monitored") == 0 ? monitored_fence(device)
                                                  : paging_fence(device);
    CHECK(word != NULL);
    printf("reads %llu\n", (unsigned long long)*(volatile uint64_t*)word);
    fflush(stdout);
    *(volatile uint64_t*)word = 99;
    puts("stored");
    return 0;
}
