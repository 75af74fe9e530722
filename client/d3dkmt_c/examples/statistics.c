/* Reads the figures of the first adapter: its processes, the work that its nodes have done, where memory is; and a node's clock beside
 * the CPU's. Every process may read them. */
#include <inttypes.h>
#include <time.h>

#include "steps.h"

enum { BYTES = 4 << 20 };

static D3DKMT_QUERYSTATISTICS_RESULT query(LUID luid, HANDLE process, D3DKMT_QUERYSTATISTICS_TYPE type, UINT number) {
    D3DKMT_QUERYSTATISTICS query = {.Type = type, .AdapterLuid = luid, .hProcess = process};
    /* All questions that have a number have it in the same place. */
    query.QueryNode.NodeId = number;
    OK(D3DKMTQueryStatistics(&query));
    return query.QueryResult;
}

/* One buffer on a packet context or a hardware queue, done when this returns. */
static void work(D3DKMT_HANDLE device, D3DGPU_VIRTUAL_ADDRESS commands, UINT length) {
    D3DKMT_CREATEHWCONTEXT context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateHwContext(&context));
    D3DKMT_CREATEHWQUEUE queue = {.hHwContext = context.hHwContext};
    OK(D3DKMTCreateHwQueue(&queue));
    D3DKMT_SUBMITCOMMANDTOHWQUEUE submit = {
        .hHwQueue = queue.hHwQueue,
        .HwQueueProgressFenceId = 1,
        .CommandBuffer = commands,
        .CommandLength = length,
    };
    OK(D3DKMTSubmitCommandToHwQueue(&submit));
    wait_for(device, queue.hHwQueueProgressFence, 1);
}

static DXGK_GPUCLOCKDATA clocks(D3DKMT_HANDLE adapter) {
    D3DKMT_QUERYCLOCKCALIBRATION calibration = {.hAdapter = adapter};
    OK(D3DKMTQueryClockCalibration(&calibration));
    return calibration.ClockData;
}

int main(void) {
    D3DKMT_ENUMADAPTERS list = {0};
    OK(D3DKMTEnumAdapters(&list));
    LUID luid = list.Adapters[0].AdapterLuid;
    D3DKMT_HANDLE adapter = list.Adapters[0].hAdapter;

    /* No process has a device yet; the kernel may still be ending one that has gone. */
    D3DKMT_ENUMPROCESSES processes = {.AdapterLuid = luid};
    OK(D3DKMTEnumProcesses(&processes));
    for (int tries = 0; tries < 12000 && processes.BufferCount != 0; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        OK(D3DKMTEnumProcesses(&processes));
    }
    CHECK(processes.BufferCount == 0);
    D3DKMT_HANDLE device = create_device(adapter);
    ULONG id = 0;
    processes.pBuffer = &id;
    EXPECT(STATUS_BUFFER_TOO_SMALL, D3DKMTEnumProcesses(&processes));
    CHECK(id == 0 && processes.BufferCount == 1);
    OK(D3DKMTEnumProcesses(&processes));
    CHECK(id != 0 && processes.BufferCount == 1);

    DXGK_GPUCLOCKDATA before = clocks(adapter);
    CHECK(before.GpuFrequency != 0);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE target = create_surface(device, &paging, LOCAL, BYTES);
    SURFACE commands = create_surface(device, &paging, SYSTEM, 4096);
    uint64_t* words = lock_surface(device, commands);
    uint64_t* end = words;
    /* Long enough that the kernel sees it run. */
    for (int fill = 0; fill < 100; fill++) {
        end = softgpu_fill(end, target.va, BYTES, 7);
    }
    UINT length = (UINT)((end - words) * sizeof *words);
    unlock_surface(device, commands);
    work(device, commands.va, length);
    DXGK_GPUCLOCKDATA after = clocks(adapter);
    CHECK(after.GpuClockCounter > before.GpuClockCounter && after.CpuClockCounter > before.CpuClockCounter);

    D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION all = query(luid, NULL, D3DKMT_QUERYSTATISTICS_ADAPTER, 0).AdapterInformation;
    CHECK(all.NbSegments >= 1 && all.NodeCount >= 1 && all.VidPnSourceCount == list.Adapters[0].NumOfSources);
    CHECK(all.PagingTransfer.BytesFilled >= BYTES && all.TdrDetectedCount == 0);
    CHECK(all.Flags.NumberOfMemoryGroups == 2 && all.Flags.SupportsDemotion);

    /* The same process by NULL and by a handle. */
    OPENWDDM_OPENPROCESS open = {.ProcessId = id, .DesiredAccess = PROCESS_QUERY_INFORMATION};
    OK(OpenWddmOpenProcess(&open));
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION mine =
        query(luid, NULL, D3DKMT_QUERYSTATISTICS_PROCESS_NODE, 0).ProcessNodeInformation;
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION named =
        query(luid, open.hProcess, D3DKMT_QUERYSTATISTICS_PROCESS_NODE, 0).ProcessNodeInformation;
    D3DKMT_QUERYSTATISTICS_NODE_INFORMATION node = query(luid, NULL, D3DKMT_QUERYSTATISTICS_NODE, 0).NodeInformation;
    CHECK(mine.RunningTime.QuadPart > 0 && mine.RunningTime.QuadPart == named.RunningTime.QuadPart);
    CHECK(node.GlobalInformation.RunningTime.QuadPart >= mine.RunningTime.QuadPart);
    CHECK(mine.PacketStatistics.DmaPacket[D3DKMT_ClientRenderBuffer].PacketSubmited == 1);
    /* The engine says that it is done before the kernel counts it. */
    CHECK(mine.PacketStatistics.DmaPacket[D3DKMT_ClientRenderBuffer].PacketCompleted <= 1);

    uint64_t committed = 0, of_mine = 0, resident = 0;
    for (UINT index = 0; index < all.NbSegments; index++) {
        D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION segment =
            query(luid, NULL, D3DKMT_QUERYSTATISTICS_SEGMENT, index).SegmentInformation;
        CHECK(segment.BytesResident <= segment.BytesCommitted);
        committed += segment.BytesCommitted;
        resident += segment.BytesResident;
        of_mine += query(luid, NULL, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, index).ProcessSegmentInformation.BytesCommitted;
    }
    CHECK(committed >= of_mine && of_mine >= BYTES && resident >= BYTES);
    D3DKMT_QUERYVIDEOMEMORYINFO memory = {.hAdapter = adapter};
    OK(D3DKMTQueryVideoMemoryInfo(&memory));
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION group =
        query(luid, NULL, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL)
            .ProcessSegmentGroupInformation;
    CHECK(group.Usage == memory.CurrentUsage && group.Budget == memory.Budget && group.Requested == group.Usage);

    /* Numbers of no node, segment, process or adapter, and an access that no program may have. */
    D3DKMT_QUERYSTATISTICS wrong = {.Type = D3DKMT_QUERYSTATISTICS_NODE, .AdapterLuid = luid};
    wrong.QueryNode.NodeId = all.NodeCount;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryStatistics(&wrong));
    wrong.Type = D3DKMT_QUERYSTATISTICS_SEGMENT;
    wrong.QuerySegment.SegmentId = all.NbSegments;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryStatistics(&wrong));
    wrong.Type = D3DKMT_QUERYSTATISTICS_NODE2;
    wrong.QueryNode2.PhysicalAdapterIndex = 1;
    wrong.QueryNode2.NodeOrdinal = 0;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryStatistics(&wrong));
    wrong.Type = D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER;
    wrong.QueryPhysAdapter.PhysicalAdapterIndex = 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryStatistics(&wrong));
    wrong.Type = 4711;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryStatistics(&wrong));
    wrong.Type = D3DKMT_QUERYSTATISTICS_PROCESS;
    wrong.hProcess = (HANDLE)(uintptr_t)0x1234567;
    EXPECT(STATUS_INVALID_HANDLE, D3DKMTQueryStatistics(&wrong));
    wrong = (D3DKMT_QUERYSTATISTICS){.AdapterLuid = {.LowPart = luid.LowPart + 100}};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryStatistics(&wrong));
    /* A process sets its own figures. */
    OPENWDDM_OPENPROCESS own = {.ProcessId = id, .DesiredAccess = PROCESS_QUERY_INFORMATION | PROCESS_SET_INFORMATION};
    OK(OpenWddmOpenProcess(&own));
    D3DKMT_CHANGEVIDEOMEMORYRESERVATION reserve = {.hProcess = open.hProcess, .hAdapter = adapter, .Reservation = BYTES};
    EXPECT(STATUS_ACCESS_DENIED, D3DKMTChangeVideoMemoryReservation(&reserve));
    reserve.hProcess = own.hProcess;
    OK(D3DKMTChangeVideoMemoryReservation(&reserve));
    own.DesiredAccess = 0x1000;
    EXPECT(STATUS_ACCESS_DENIED, OpenWddmOpenProcess(&own));
    OPENWDDM_CLOSEHANDLE close_own = {.hObject = own.hProcess};
    OK(OpenWddmCloseHandle(&close_own));
    open = (OPENWDDM_OPENPROCESS){.ProcessId = 4711, .DesiredAccess = PROCESS_QUERY_INFORMATION, .hProcess = open.hProcess};
    EXPECT(STATUS_INVALID_PARAMETER, OpenWddmOpenProcess(&open));
    D3DKMT_QUERYCLOCKCALIBRATION calibration = {.hAdapter = adapter, .NodeOrdinal = all.NodeCount};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryClockCalibration(&calibration));
    calibration = (D3DKMT_QUERYCLOCKCALIBRATION){.hAdapter = adapter, .PhysicalAdapterIndex = 1};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryClockCalibration(&calibration));
    OPENWDDM_CLOSEHANDLE close = {.hObject = open.hProcess};
    OK(OpenWddmCloseHandle(&close));

    printf("process %" PRIu32 ": node 0 ran %" PRId64 " us for it, %" PRIu64 " MiB are committed\n", id,
           mine.RunningTime.QuadPart / 10, of_mine >> 20);
    return 0;
}
