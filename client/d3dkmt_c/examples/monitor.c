/* Reads a kernel as a monitor of graphics processors does, such as nvtop: adapters with their segments, memory by group, engines with the
 * share of the time that they ran, and the processes that use them. It looks twice, 200 ms apart, prints a table, and checks that the sums of the
 * processes are those of the segments and of the groups. Figures move while it asks one question after the other: it asks all of them anew
 * until two sets of answers agree.
 *
 * On Windows D3DKMTEnumProcesses gives the numbers of the operating system. Here each connection to a kernel is a process, and
 * OpenWddmQueryProcess tells which program it is. */
#include <inttypes.h>
#include <time.h>

#include "check.h"

enum { SEGMENTS = 16, NODES = 16, PROCESSES = 64, TRIES = 2000 };

typedef struct {
    ULONG id;
    OPENWDDM_QUERYPROCESS program;
    uint64_t committed[SEGMENTS];
    uint64_t usage[2];
    int64_t running[NODES];
} PROCESS;

/* The adapter at one moment, as far as its answers agree. */
typedef struct {
    UINT segments, nodes;
    size_t processes;
    D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION segment[SEGMENTS];
    D3DKMT_QUERYSTATISTICS_MEMORY_USAGE group[2];
    int64_t running[NODES];
    PROCESS process[PROCESSES];
    uint64_t cpu_ns;
} LOOK;

static NTSTATUS ask(LUID luid, HANDLE process, D3DKMT_QUERYSTATISTICS_TYPE type, UINT number,
                    D3DKMT_QUERYSTATISTICS_RESULT* result) {
    D3DKMT_QUERYSTATISTICS query = {.Type = type, .AdapterLuid = luid, .hProcess = process};
    /* All questions that have a number have it in the same place. */
    query.QueryNode.NodeId = number;
    NTSTATUS status = D3DKMTQueryStatistics(&query);
    *result = query.QueryResult;
    return status;
}

static D3DKMT_QUERYSTATISTICS_RESULT figures(LUID luid, D3DKMT_QUERYSTATISTICS_TYPE type, UINT number) {
    D3DKMT_QUERYSTATISTICS_RESULT result;
    OK(ask(luid, NULL, type, number, &result));
    return result;
}

/* The figures of one process; false: it has gone meanwhile. */
static int look_at(LUID luid, const LOOK* all, PROCESS* process) {
    OPENWDDM_OPENPROCESS open = {.ProcessId = process->id, .DesiredAccess = PROCESS_QUERY_INFORMATION};
    if (!NT_SUCCESS(OpenWddmOpenProcess(&open))) {
        return 0;
    }
    process->program = (OPENWDDM_QUERYPROCESS){.hProcess = open.hProcess};
    int there = NT_SUCCESS(OpenWddmQueryProcess(&process->program));
    D3DKMT_QUERYSTATISTICS_RESULT result;
    for (UINT at = 0; there && at < all->segments; at++) {
        there = NT_SUCCESS(ask(luid, open.hProcess, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, at, &result));
        process->committed[at] = result.ProcessSegmentInformation.BytesCommitted;
    }
    for (UINT group = 0; there && group < 2; group++) {
        there = NT_SUCCESS(ask(luid, open.hProcess, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, group, &result));
        process->usage[group] = result.ProcessSegmentGroupInformation.Usage;
    }
    for (UINT node = 0; there && node < all->nodes; node++) {
        there = NT_SUCCESS(ask(luid, open.hProcess, D3DKMT_QUERYSTATISTICS_PROCESS_NODE, node, &result));
        process->running[node] = result.ProcessNodeInformation.RunningTime.QuadPart;
    }
    OPENWDDM_CLOSEHANDLE close = {.hObject = open.hProcess};
    OK(OpenWddmCloseHandle(&close));
    return there;
}

/* Whether the processes' bytes are the segments' and the groups'. A program that shares memory with another would be counted for both. */
static int agrees(const LOOK* look) {
    for (UINT at = 0; at < look->segments; at++) {
        uint64_t sum = 0;
        for (size_t process = 0; process < look->processes; process++) {
            sum += look->process[process].committed[at];
        }
        if (sum != look->segment[at].BytesCommitted) {
            return 0;
        }
    }
    for (UINT group = 0; group < 2; group++) {
        uint64_t sum = 0;
        for (size_t process = 0; process < look->processes; process++) {
            sum += look->process[process].usage[group];
        }
        if (sum != look->group[group].AllocatedBytes) {
            return 0;
        }
    }
    return 1;
}

static int look_once(LUID luid, D3DKMT_HANDLE adapter, LOOK* look) {
    *look = (LOOK){0};
    D3DKMT_QUERYCLOCKCALIBRATION clock = {.hAdapter = adapter};
    OK(D3DKMTQueryClockCalibration(&clock));
    look->cpu_ns = clock.ClockData.CpuClockCounter;
    D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION all = figures(luid, D3DKMT_QUERYSTATISTICS_ADAPTER, 0).AdapterInformation;
    CHECK(all.NbSegments <= SEGMENTS && all.NodeCount <= NODES);
    look->segments = all.NbSegments;
    look->nodes = all.NodeCount;
    for (UINT node = 0; node < look->nodes; node++) {
        look->running[node] =
            figures(luid, D3DKMT_QUERYSTATISTICS_NODE, node).NodeInformation.GlobalInformation.RunningTime.QuadPart;
    }
    for (UINT at = 0; at < look->segments; at++) {
        look->segment[at] = figures(luid, D3DKMT_QUERYSTATISTICS_SEGMENT, at).SegmentInformation;
    }
    for (UINT group = 0; group < 2; group++) {
        look->group[group] =
            figures(luid, D3DKMT_QUERYSTATISTICS_SEGMENT_GROUP_USAGE, group << 16).SegmentGroupUsageInformation;
    }
    ULONG ids[PROCESSES];
    D3DKMT_ENUMPROCESSES processes = {.AdapterLuid = luid, .pBuffer = ids, .BufferCount = PROCESSES};
    OK(D3DKMTEnumProcesses(&processes));
    look->processes = processes.BufferCount;
    for (size_t at = 0; at < look->processes; at++) {
        look->process[at].id = ids[at];
        if (!look_at(luid, look, &look->process[at])) {
            return 0;
        }
    }
    return agrees(look);
}

static void look_at_all(LUID luid, D3DKMT_HANDLE adapter, LOOK* look) {
    int tries = 0;
    while (!look_once(luid, adapter, look)) {
        CHECK(++tries < TRIES);
    }
}

/* A name comes from another program: it must not speak to the terminal. */
static void print_name(const BYTE* name) {
    printf("%s", name[0] == 0 ? "?" : "");
    for (; *name != 0; name++) {
        putchar(*name < 0x20 || *name == 0x7f ? '?' : *name);
    }
}

static double percent(int64_t before, int64_t after, const LOOK* first, const LOOK* second) {
    /* Running times are in units of 100 ns. */
    return second->cpu_ns == first->cpu_ns ? 0
                                           : 100.0 * 100.0 * (double)(after - before) / (double)(second->cpu_ns - first->cpu_ns);
}

static void print_process(const PROCESS* process, const LOOK* first, const LOOK* second) {
    printf("process %" PRIu32 " pid %" PRIu32 " ", process->id, process->program.SystemProcessId);
    print_name(process->program.Name);
    printf(": local %" PRIu64 " KiB, non-local %" PRIu64 " KiB", process->usage[0] >> 10, process->usage[1] >> 10);
    for (size_t at = 0; at < first->processes; at++) {
        const PROCESS* before = &first->process[at];
        for (UINT node = 0; before->id == process->id && node < second->nodes; node++) {
            CHECK(process->running[node] >= before->running[node]);
            printf(", node %u %.1f%%", node, percent(before->running[node], process->running[node], first, second));
        }
    }
    putchar('\n');
}

static NTSTATUS question(D3DKMT_HANDLE adapter, KMTQUERYADAPTERINFOTYPE type, void* answer, UINT size) {
    D3DKMT_QUERYADAPTERINFO query = {
        .hAdapter = adapter, .Type = type, .pPrivateDriverData = answer, .PrivateDriverDataSize = size};
    return D3DKMTQueryAdapterInfo(&query);
}

static void monitor(const D3DKMT_ADAPTERINFO* adapter) {
    static LOOK first, second;
    D3DKMT_DRIVERVERSION level = 0;
    OK(question(adapter->hAdapter, KMTQAITYPE_DRIVERVERSION, &level, sizeof level));
    D3DKMT_ADAPTER_PERFDATA perf = {0};
    OK(question(adapter->hAdapter, KMTQAITYPE_ADAPTERPERFDATA, &perf, sizeof perf));
    look_at_all(adapter->AdapterLuid, adapter->hAdapter, &first);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    look_at_all(adapter->AdapterLuid, adapter->hAdapter, &second);

    printf("adapter level %d, %" PRIu64 " KiB over its link, memory at %" PRIu64 " Hz, %u W\n", level,
           perf.PCIEBandwidth >> 10, perf.MemoryFrequency, perf.Power / 10);
    uint64_t dedicated = 0;
    for (UINT at = 0; at < second.segments; at++) {
        const D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION* segment = &second.segment[at];
        /* What a segment is, is told in another place from WDDM 3.1 on; the older place stays. */
        int system = level >= KMT_DRIVERVERSION_WDDM_3_1 ? segment->SegmentProperties.SystemMemory : segment->Aperture != 0;
        CHECK(system == (segment->Aperture != 0));
        CHECK(level >= KMT_DRIVERVERSION_WDDM_3_1 || segment->SegmentProperties.Value == 0);
        CHECK(segment->BytesResident <= segment->BytesCommitted);
        dedicated += system ? 0 : segment->CommitLimit;
        printf("segment %u %s: %" PRIu64 " of %" PRIu64 " KiB committed, %" PRIu64 " resident\n", at,
               system ? "system" : "memory", segment->BytesCommitted >> 10, segment->CommitLimit >> 10,
               segment->BytesResident >> 10);
    }
    for (UINT node = 0; node < second.nodes; node++) {
        D3DKMT_NODE_PERFDATA clock = {.NodeOrdinal = node};
        OK(question(adapter->hAdapter, KMTQAITYPE_NODEPERFDATA, &clock, sizeof clock));
        CHECK(second.running[node] >= first.running[node]);
        printf("node %u: %.1f%% at %" PRIu64 " Hz\n", node,
               percent(first.running[node], second.running[node], &first, &second), clock.Frequency);
    }
    for (size_t at = 0; at < second.processes; at++) {
        print_process(&second.process[at], &first, &second);
    }
    printf("%zu processes, %" PRIu64 " KiB dedicated, the sums agree\n", second.processes, dedicated >> 10);
}

int main(void) {
    D3DKMT_ENUMADAPTERS list = {0};
    OK(D3DKMTEnumAdapters(&list));
    for (ULONG at = 0; at < list.NumAdapters; at++) {
        monitor(&list.Adapters[at]);
    }
    return 0;
}
