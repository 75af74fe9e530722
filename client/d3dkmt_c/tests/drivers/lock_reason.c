/* A lock whose bytes have no address is refused with the reason why they have none, and nothing stays locked: the allocation is locked
 * legally as often as one likes on an adapter where they have one. Prints "locked", or "refused". */
#include "steps.h"

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    SOFTGPU_ALLOCATION data = softgpu_allocation(LOCAL_THEN_SYSTEM, CPU_VISIBLE, 4096);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    OK(D3DKMTCreateAllocation2(&create));
    NTSTATUS first = STATUS_SUCCESS;
    for (int nth = 0; nth < 3; nth++) {
        D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = info.hAllocation};
        NTSTATUS status = D3DKMTLock2(&lock);
        CHECK(nth == 0 || status == first);
        first = status;
        D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = info.hAllocation};
        if (status == STATUS_SUCCESS) {
            *(volatile char*)lock.pData = 1;
            OK(D3DKMTUnlock2(&unlock));
        } else {
            CHECK(status == STATUS_NOT_SUPPORTED && lock.pData == NULL);
            CHECK(D3DKMTUnlock2(&unlock) != STATUS_SUCCESS);
        }
    }
    puts(first == STATUS_SUCCESS ? "locked" : "refused");
    return 0;
}
