/* A program offers memory that it can spare and takes it back, with its content unless the kernel needed the room. It makes an
 * allocation over memory that it has already. And it writes back what the CPU's caches may hold. */
#include "steps.h"

enum { BYTES = 1 << 20 };

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE surface = create_surface(device, &paging, SYSTEM, BYTES);
    uint64_t* words = lock_surface(device, surface);
    words[7] = 0x777;
    unlock_surface(device, surface);

    D3DKMT_OFFERALLOCATIONS offer = {
        .hDevice = device,
        .HandleList = &surface.handle,
        .NumAllocations = 1,
        .Priority = D3DKMT_OFFER_PRIORITY_NORMAL,
    };
    D3DKMT_OFFERALLOCATIONS wrong = offer;
    wrong.Priority = 5;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOfferAllocations(&wrong));
    wrong = offer;
    wrong.Flags.Value = 1u << 9;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOfferAllocations(&wrong));
    wrong = offer;
    wrong.pResources = &surface.handle;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOfferAllocations(&wrong));
    OK(D3DKMTOfferAllocations(&offer));
    /* An offered allocation cannot be offered again, nor locked. */
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOfferAllocations(&offer));
    D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = surface.handle};
    CHECK(!NT_SUCCESS(D3DKMTLock2(&lock)) && lock.pData == NULL);

    /* How much of it the kernel can give up: nothing, unless the offer allows that, and the content lies in no segment. */
    D3DKMT_QUERYPROCESSOFFERINFO offered = {.cbSize = sizeof offered, .DecommitUniqueness = 7, .DecommittableBytes = 7};
    OK(D3DKMTQueryProcessOfferInfo(&offered));
    CHECK(offered.DecommitUniqueness == 0 && offered.DecommittableBytes == 0);
    offered.cbSize = 4;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryProcessOfferInfo(&offered));
    SOFTGPU_ALLOCATION spare_data = softgpu_allocation(SYSTEM, CPU_VISIBLE, BYTES);
    D3DDDI_ALLOCATIONINFO2 spare = {.pPrivateDriverData = &spare_data, .PrivateDriverDataSize = sizeof spare_data};
    D3DKMT_CREATEALLOCATION of_spare = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &spare};
    OK(D3DKMTCreateAllocation2(&of_spare));
    D3DKMT_OFFERALLOCATIONS give = offer;
    give.HandleList = &spare.hAllocation;
    give.Flags.AllowDecommit = 1;
    OK(D3DKMTOfferAllocations(&give));
    offered = (D3DKMT_QUERYPROCESSOFFERINFO){.cbSize = sizeof offered};
    OK(D3DKMTQueryProcessOfferInfo(&offered));
    CHECK(offered.DecommittableBytes == BYTES);

    D3DDDI_RECLAIM_RESULT result = 77;
    D3DKMT_RECLAIMALLOCATIONS2 reclaim = {
        .hPagingQueue = paging.hPagingQueue,
        .NumAllocations = 1,
        .HandleList = &surface.handle,
        .pResults = &result,
    };
    NTSTATUS status = D3DKMTReclaimAllocations2(&reclaim);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    CHECK(result == D3DDDI_RECLAIM_RESULT_OK);
    wait_for(device, paging.hSyncObject, reclaim.PagingFenceValue);
    CHECK(lock_surface(device, surface)[7] == 0x777);
    unlock_surface(device, surface);
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTReclaimAllocations2(&reclaim));

    /* Ranges of the CPU's caches: of what is cacheable, and within it. */
    SOFTGPU_ALLOCATION data = softgpu_allocation(SYSTEM, CPU_VISIBLE | CACHED, BYTES);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    OK(D3DKMTCreateAllocation2(&create));
    D3DKMT_INVALIDATECACHE range = {.hDevice = device, .hAllocation = info.hAllocation, .Length = BYTES};
    OK(D3DKMTInvalidateCache(&range));
    range.Offset = 4096;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTInvalidateCache(&range));
    range.Length = BYTES - 4096;
    OK(D3DKMTInvalidateCache(&range));
    range.hAllocation = device;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTInvalidateCache(&range));

    /* Memory of the program's own, and an allocation over it. */
    OPENWDDM_CREATESECTION section = {.hAdapter = adapter, .Size = BYTES + 1};
    EXPECT(STATUS_INVALID_PARAMETER, OpenWddmCreateSection(&section));
    CHECK(section.hSection == NULL && section.pData == NULL);
    section.Size = BYTES;
    OK(OpenWddmCreateSection(&section));
    uint64_t* mine = section.pData;
    mine[3] = 0x333;
    D3DKMT_CREATESTANDARDALLOCATION heap = {
        .Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP,
        .ExistingHeapData = {.Size = BYTES},
    };
    D3DDDI_ALLOCATIONINFO2 over = {.hSection = section.hSection};
    D3DKMT_CREATEALLOCATION existing = {
        .hDevice = device,
        .pStandardAllocation = &heap,
        .PrivateDriverDataSize = sizeof heap,
        .NumAllocations = 1,
        .pAllocationInfo2 = &over,
        .Flags = {.CreateResource = 1, .CreateShared = 1, .NtSecuritySharing = 1, .CrossAdapter = 1, .StandardAllocation = 1,
                  .ExistingSection = 1},
    };
    status = D3DKMTCreateAllocation2(&existing);
    CHECK(NT_SUCCESS(status) && over.hAllocation != 0);
    SURFACE shown = {.handle = over.hAllocation};
    words = lock_surface(device, shown);
    CHECK(words[3] == 0x333);
    words[4] = 0x444;
    unlock_surface(device, shown);
    CHECK(mine[4] == 0x444);
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .hResource = existing.hResource};
    OK(D3DKMTDestroyAllocation2(&destroy));
    OPENWDDM_CLOSEHANDLE close = {.hObject = section.hSection};
    OK(OpenWddmCloseHandle(&close));
    EXPECT(STATUS_INVALID_HANDLE, OpenWddmCloseHandle(&close));
    puts("taken back");
    return 0;
}
