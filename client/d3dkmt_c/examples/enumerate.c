/* Lists the adapters: their names, their memory, and this process's budget of it. */
#include <inttypes.h>

#include "check.h"

int main(void) {
    D3DKMT_ENUMADAPTERS2 list = {0};
    OK(D3DKMTEnumAdapters2(&list));
    D3DKMT_ADAPTERINFO* adapters = calloc(list.NumAdapters, sizeof *adapters);
    CHECK(adapters != NULL);
    list.pAdapters = adapters;
    OK(D3DKMTEnumAdapters2(&list));
    CHECK(list.NumAdapters >= 1);

    for (ULONG index = 0; index < list.NumAdapters; index++) {
        const D3DKMT_ADAPTERINFO* adapter = &adapters[index];
        D3DKMT_SEGMENTSIZEINFO sizes;
        D3DKMT_QUERYADAPTERINFO query = {
            .hAdapter = adapter->hAdapter,
            .Type = KMTQAITYPE_GETSEGMENTSIZE,
            .pPrivateDriverData = &sizes,
            .PrivateDriverDataSize = sizeof sizes,
        };
        OK(D3DKMTQueryAdapterInfo(&query));

        D3DKMT_ADAPTERTYPE type;
        query.Type = KMTQAITYPE_ADAPTERTYPE;
        query.pPrivateDriverData = &type;
        query.PrivateDriverDataSize = sizeof type;
        OK(D3DKMTQueryAdapterInfo(&query));

        D3DKMT_QUERYVIDEOMEMORYINFO memory = {
            .hAdapter = adapter->hAdapter,
            .MemorySegmentGroup = D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL,
        };
        OK(D3DKMTQueryVideoMemoryInfo(&memory));

        D3DKMT_ISFEATUREENABLED feature = {.hAdapter = adapter->hAdapter, .FeatureId = DXGK_FEATURE_NATIVE_FENCE};
        OK(D3DKMTIsFeatureEnabled(&feature));

        printf("adapter %08" PRIx32 ":%08" PRIx32 ": %" PRIu64 " MiB of its own, %" PRIu64 " MiB shared, budget %" PRIu64
               " MiB, %u displays, native fences %s\n",
               (uint32_t)adapter->AdapterLuid.HighPart, adapter->AdapterLuid.LowPart,
               sizes.DedicatedVideoMemorySize >> 20, sizes.SharedSystemMemorySize >> 20, memory.Budget >> 20,
               adapter->NumOfSources, feature.Result.Enabled ? "on" : "off");
        CHECK(type.RenderSupported);
        CHECK(type.DisplaySupported == (adapter->NumOfSources > 0));

        /* The same adapter by its name. */
        D3DKMT_OPENADAPTERFROMLUID open = {.AdapterLuid = adapter->AdapterLuid};
        OK(D3DKMTOpenAdapterFromLuid(&open));
        CHECK(open.hAdapter != 0 && open.hAdapter != adapter->hAdapter);
        D3DKMT_CLOSEADAPTER close = {.hAdapter = open.hAdapter};
        OK(D3DKMTCloseAdapter(&close));
        EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCloseAdapter(&close));
        close.hAdapter = adapter->hAdapter;
        OK(D3DKMTCloseAdapter(&close));
    }
    free(adapters);
    return 0;
}
