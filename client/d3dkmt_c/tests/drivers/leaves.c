/* A program that ends in the middle of everything and destroys nothing. */
#include "steps.h"

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE surface = create_surface(device, &paging, LOCAL_THEN_SYSTEM, 1 << 20);
    lock_surface(device, surface)[0] = 1;
    D3DKMT_CREATEHWCONTEXT context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateHwContext(&context));
    D3DKMT_CREATEHWQUEUE queue = {.hHwContext = context.hHwContext};
    OK(D3DKMTCreateHwQueue(&queue));
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
    OK(D3DKMTCreateSynchronizationObject2(&create));
    /* The queue waits for a value that no queue will signal. */
    uint64_t value = 1;
    D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE wait = {
        .hHwQueue = queue.hHwQueue, .ObjectCount = 1, .ObjectHandleArray = &create.hSyncObject, .FenceValueArray = &value};
    OK(D3DKMTSubmitWaitForSyncObjectsToHwQueue(&wait));
    puts("left");
    return 0;
}
