/* Bytes over the adapter's link: content that leaves video memory for another allocation and comes back is counted once each way, by
 * D3DKMTQueryStatistics as by the adapter's performance data. */
#include "steps.h"

enum { BYTES = 4 << 20, WORDS = BYTES / 8, SURFACES = 8, PASSES = 3 };

static D3DKMT_QUERYSTATISTICS_RESULT query(LUID luid, D3DKMT_QUERYSTATISTICS_TYPE type) {
    D3DKMT_QUERYSTATISTICS query = {.Type = type, .AdapterLuid = luid};
    OK(D3DKMTQueryStatistics(&query));
    return query.QueryResult;
}

static D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER transfer(LUID luid) {
    return query(luid, D3DKMT_QUERYSTATISTICS_ADAPTER).AdapterInformation.PagingTransfer;
}

static uint64_t over_the_link(D3DKMT_HANDLE adapter) {
    D3DKMT_ADAPTER_PERFDATA data = {0};
    D3DKMT_QUERYADAPTERINFO info = {
        .hAdapter = adapter,
        .Type = KMTQAITYPE_ADAPTERPERFDATA,
        .pPrivateDriverData = &data,
        .PrivateDriverDataSize = sizeof data,
    };
    OK(D3DKMTQueryAdapterInfo(&info));
    return data.PCIEBandwidth;
}

/* Off the device's list: the content stays where it is until another allocation needs the room. */
static void evict(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation) {
    D3DKMT_EVICT evict = {.hDevice = device, .NumAllocations = 1, .AllocationList = &allocation};
    OK(D3DKMTEvict(&evict));
}

static void make_resident(D3DKMT_HANDLE device, const D3DKMT_CREATEPAGINGQUEUE* paging, D3DKMT_HANDLE allocation) {
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = paging->hPagingQueue,
        .NumAllocations = 1,
        .AllocationList = &allocation,
    };
    NTSTATUS status = D3DKMTMakeResident(&resident);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    wait_for(device, paging->hSyncObject, resident.PagingFenceValue);
}

int main(void) {
    D3DKMT_ENUMADAPTERS list = {0};
    OK(D3DKMTEnumAdapters(&list));
    LUID luid = list.Adapters[0].AdapterLuid;
    D3DKMT_HANDLE adapter = list.Adapters[0].hAdapter;
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER before = transfer(luid);
    CHECK(over_the_link(adapter) == before.BytesTransferredFromMdlToMemory + before.BytesTransferredFromMemoryToMdl);

    /* More than the video memory: no two passes find all of it there. */
    SURFACE surfaces[SURFACES];
    for (int at = 0; at < SURFACES; at++) {
        surfaces[at] = create_surface(device, &paging, LOCAL, BYTES);
        uint64_t* words = lock_surface(device, surfaces[at]);
        words[0] = words[WORDS - 1] = at + 1;
        unlock_surface(device, surfaces[at]);
        evict(device, surfaces[at].handle);
    }
    for (int pass = 0; pass < PASSES; pass++) {
        for (int at = 0; at < SURFACES; at++) {
            make_resident(device, &paging, surfaces[at].handle);
            evict(device, surfaces[at].handle);
        }
    }
    D3DKMT_QUERYSTATSTICS_PAGING_TRANSFER after = transfer(luid);
    uint64_t in = after.BytesTransferredFromMdlToMemory - before.BytesTransferredFromMdlToMemory;
    uint64_t out = after.BytesTransferredFromMemoryToMdl - before.BytesTransferredFromMemoryToMdl;
    CHECK(in >= BYTES && in % BYTES == 0 && out >= BYTES && out % BYTES == 0);
    CHECK(over_the_link(adapter) == after.BytesTransferredFromMdlToMemory + after.BytesTransferredFromMemoryToMdl);
    CHECK(query(luid, D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER).PhysAdapterInformation.AdapterPerfData.PCIEBandwidth ==
          over_the_link(adapter));
    for (int at = 0; at < SURFACES; at++) {
        make_resident(device, &paging, surfaces[at].handle);
        uint64_t* words = lock_surface(device, surfaces[at]);
        CHECK(words[0] == (uint64_t)at + 1 && words[WORDS - 1] == (uint64_t)at + 1);
        unlock_surface(device, surfaces[at]);
        evict(device, surfaces[at].handle);
    }
    puts("counted each way");
    return 0;
}
