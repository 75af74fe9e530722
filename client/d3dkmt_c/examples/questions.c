/* Asks each adapter about itself: names, sizes, versions, capabilities, nodes; and finds adapters by the names of their displays. */
#include <inttypes.h>

#include "steps.h"

static NTSTATUS ask(D3DKMT_HANDLE adapter, KMTQUERYADAPTERINFOTYPE type, void* answer, UINT size) {
    D3DKMT_QUERYADAPTERINFO query = {
        .hAdapter = adapter,
        .Type = type,
        .pPrivateDriverData = answer,
        .PrivateDriverDataSize = size,
    };
    return D3DKMTQueryAdapterInfo(&query);
}

#define ASK(adapter, type, answer) OK(ask(adapter, type, &(answer), sizeof(answer)))

static void print_name(const WCHAR* name) {
    while (*name != 0) {
        putchar((char)*name++);
    }
}

static void write_name(WCHAR* to, const char* from) {
    do {
        *to++ = (WCHAR)*from;
    } while (*from++ != 0);
}

int main(void) {
    D3DKMT_ENUMADAPTERS list = {0};
    OK(D3DKMTEnumAdapters(&list));
    UINT sources = 0;
    for (ULONG index = 0; index < list.NumAdapters; index++) {
        D3DKMT_HANDLE adapter = list.Adapters[index].hAdapter;
        sources += list.Adapters[index].NumOfSources;

        D3DKMT_ADAPTERREGISTRYINFO names;
        ASK(adapter, KMTQAITYPE_ADAPTERREGISTRYINFO, names);
        CHECK(names.AdapterString[0] != 0 && names.BiosString[0] == 0);
        D3DKMT_DRIVERVERSION version = 0;
        ASK(adapter, KMTQAITYPE_DRIVERVERSION, version);
        CHECK(version >= KMT_DRIVERVERSION_WDDM_1_0 && version <= KMT_DRIVERVERSION_WDDM_3_2);

        D3DKMT_SEGMENTSIZEINFO sizes;
        ASK(adapter, KMTQAITYPE_GETSEGMENTSIZE, sizes);
        D3DKMT_SEGMENTGROUPSIZEINFO groups = {0};
        ASK(adapter, KMTQAITYPE_GETSEGMENTGROUPSIZE, groups);
        CHECK(groups.LegacyInfo.DedicatedVideoMemorySize == sizes.DedicatedVideoMemorySize);
        CHECK(groups.LocalMemory + groups.NonLocalMemory ==
              sizes.DedicatedVideoMemorySize + sizes.SharedSystemMemorySize);
        groups.PhysicalAdapterIndex = 1;
        EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, KMTQAITYPE_GETSEGMENTGROUPSIZE, &groups, sizeof groups));

        /* Private questions to the driver of this device: its device's name and clock, and how many of its queues are taken. */
        SOFTGPU_QUESTION hardware = softgpu_question(SOFTGPU_ASK_HARDWARE), usage = softgpu_question(SOFTGPU_ASK_USAGE);
        D3DKMT_ESCAPE escape = {
            .hAdapter = adapter,
            .Type = D3DKMT_ESCAPE_DRIVERPRIVATE,
            .Flags = {.HardwareAccess = 1},
            .pPrivateDriverData = &hardware,
            .PrivateDriverDataSize = sizeof hardware,
        };
        OK(D3DKMTEscape(&escape));
        const SOFTGPU_HARDWARE* device = &hardware.answer.hardware;
        CHECK(device->id == SOFTGPU_ID && device->timestamp != 0 && device->local_bytes >= groups.LocalMemory);
        escape.Flags.Value = 0;
        escape.pPrivateDriverData = &usage;
        OK(D3DKMTEscape(&escape));
        CHECK(usage.answer.usage.queues == SOFTGPU_QUEUES && usage.answer.usage.queues_taken <= SOFTGPU_QUEUES);

        D3DKMT_WDDM_1_2_CAPS early;
        ASK(adapter, KMTQAITYPE_WDDM_1_2_CAPS, early);
        D3DKMT_WDDM_2_0_CAPS addresses;
        ASK(adapter, KMTQAITYPE_WDDM_2_0_CAPS, addresses);
        CHECK(!(addresses.GpuMmuSupported && addresses.IoMmuSupported));
        D3DKMT_WDDM_2_7_CAPS scheduling;
        ASK(adapter, KMTQAITYPE_WDDM_2_7_CAPS, scheduling);
        CHECK(scheduling.HwSchSupported >= scheduling.HwSchEnabled);
        D3DKMT_ISFEATUREENABLED feature = {.hAdapter = adapter, .FeatureId = DXGK_FEATURE_HWSCH};
        OK(D3DKMTIsFeatureEnabled(&feature));
        CHECK(feature.Result.Enabled == scheduling.HwSchEnabled);

        print_name(names.AdapterString);
        printf(": version %d, local memory %" PRIu64 " MiB, preemption %d, hardware scheduling %s, nodes", version,
               groups.LocalMemory >> 20, early.PreemptionCaps.GraphicsPreemptionGranularity,
               scheduling.HwSchEnabled ? "on" : "off");
        D3DKMT_NODEMETADATA node = {0};
        UINT count = 0;
        while (NT_SUCCESS(ask(adapter, KMTQAITYPE_NODEMETADATA, &node, sizeof node))) {
            CHECK(node.NodeOrdinalAndAdapterIndex == count && node.NodeData.GpuMmuSupported == addresses.GpuMmuSupported);
            putchar(' ');
            print_name(node.NodeData.FriendlyName);
            node.NodeOrdinalAndAdapterIndex = ++count;
        }
        putchar('\n');
        CHECK(count > 0);
        node.NodeOrdinalAndAdapterIndex = 1u << 16;
        EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, KMTQAITYPE_NODEMETADATA, &node, sizeof node));

        /* The wrong size, no room for the answer, and a question that the kernel does not answer. */
        EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, KMTQAITYPE_NODEMETADATA, &node, sizeof node + 1));
        EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, KMTQAITYPE_NODEMETADATA, NULL, sizeof node));
        EXPECT(STATUS_NOT_SUPPORTED, ask(adapter, KMTQAITYPE_SCANOUT_CAPS, &node, sizeof node));

        /* What the bus says of the device. */
        D3DKMT_QUERY_DEVICE_IDS ids = {0};
        ASK(adapter, KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, ids);
        D3DKMT_ADAPTERADDRESS place, render;
        ASK(adapter, KMTQAITYPE_ADAPTERADDRESS, place);
        ASK(adapter, KMTQAITYPE_ADAPTERADDRESS_RENDER, render);
        CHECK(memcmp(&place, &render, sizeof place) == 0 && ids.PhysicalAdapterIndex == 0);
        printf("  %04x:%04x of %04x:%04x, revision %x, bus type %u, at %02x:%02x.%x\n", ids.DeviceIds.VendorID,
               ids.DeviceIds.DeviceID, ids.DeviceIds.SubVendorID, ids.DeviceIds.SubSystemID, ids.DeviceIds.RevisionID,
               ids.DeviceIds.BusType, place.BusNumber, place.DeviceNumber, place.FunctionNumber);
        ids.PhysicalAdapterIndex = 1;
        EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, &ids, sizeof ids));

        /* A software GPU has no clocks, fans or sensors of its own: it says 0, and 0 is also the most of it. */
        D3DKMT_NODE_PERFDATA clock = {.NodeOrdinal = count - 1, .Frequency = 7};
        ASK(adapter, KMTQAITYPE_NODEPERFDATA, clock);
        CHECK(clock.NodeOrdinal == count - 1 && clock.Frequency == 0 && clock.MaxFrequency == 0 && clock.Voltage == 0);
        clock.NodeOrdinal = count;
        EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, KMTQAITYPE_NODEPERFDATA, &clock, sizeof clock));
        D3DKMT_ADAPTER_PERFDATA perf = {.Power = 7};
        ASK(adapter, KMTQAITYPE_ADAPTERPERFDATA, perf);
        CHECK(perf.Power == 0 && perf.Temperature == 0 && perf.MemoryFrequency == 0 && perf.PowerStateOverride == 0);
        perf.PhysicalAdapterIndex = 1;
        EXPECT(STATUS_INVALID_PARAMETER, ask(adapter, KMTQAITYPE_ADAPTERPERFDATA, &perf, sizeof perf));
        D3DKMT_ADAPTER_PERFDATACAPS most = {.MaxFanRPM = 7};
        ASK(adapter, KMTQAITYPE_ADAPTERPERFDATA_CAPS, most);
        CHECK(most.MaxFanRPM == 0 && most.TemperatureMax == 0);
    }

    UINT named = 0;
    for (;;) {
        char name[32];
        snprintf(name, sizeof name, "\\\\.\\DISPLAY%u", named + 1);
        D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME open = {0};
        write_name(open.DeviceName, name);
        NTSTATUS status = D3DKMTOpenAdapterFromGdiDisplayName(&open);
        if (status == STATUS_UNSUCCESSFUL) {
            CHECK(open.hAdapter == 0);
            break;
        }
        OK(status);
        named++;
        D3DKMT_ADAPTERTYPE type;
        ASK(open.hAdapter, KMTQAITYPE_ADAPTERTYPE, type);
        CHECK(type.DisplaySupported);
        D3DKMT_CLOSEADAPTER close = {.hAdapter = open.hAdapter};
        OK(D3DKMTCloseAdapter(&close));
    }
    CHECK(named == sources);
    D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME wrong = {0};
    EXPECT(STATUS_UNSUCCESSFUL, D3DKMTOpenAdapterFromGdiDisplayName(&wrong));
    write_name(wrong.DeviceName, "DISPLAY1");
    EXPECT(STATUS_UNSUCCESSFUL, D3DKMTOpenAdapterFromGdiDisplayName(&wrong));
    printf("%u displays\n", named);
    return 0;
}
