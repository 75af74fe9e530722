/* The library tells a fault of the GPU: its kind and address by the state PAGE_FAULT, the reason of the loss of the device by every
 * refusal behind it (the caller of this program looks for that). As long as a device lives, each kind of state has an answer. */
#include "steps.h"

enum { BYTES = 1 << 16, INVALID_INSTRUCTION = 1 << 1, WRITE = 1 };

typedef struct {
    D3DKMT_HANDLE device;
    D3DKMT_CREATEPAGINGQUEUE paging;
    SURFACE target, commands;
} WORK;

static NTSTATUS ask(D3DKMT_HANDLE device, D3DKMT_DEVICESTATE_TYPE kind, D3DKMT_GETDEVICESTATE* state) {
    memset(state, 0x5a, sizeof *state);
    state->hDevice = device;
    state->StateType = kind;
    if (kind != D3DKMT_DEVICESTATE_EXECUTION && kind != D3DKMT_DEVICESTATE_PAGE_FAULT) {
        state->PresentState.VidPnSourceId = 0;
    }
    return D3DKMTGetDeviceState(state);
}

static void lives(D3DKMT_HANDLE device) {
    D3DKMT_GETDEVICESTATE state;
    for (int kind = D3DKMT_DEVICESTATE_EXECUTION; kind <= D3DKMT_DEVICESTATE_PRESENT_QUEUE; kind++) {
        OK(ask(device, kind, &state));
    }
    CHECK(state.PresentQueueState.bQueuedPresentLimitReached == 0);
    OK(ask(device, D3DKMT_DEVICESTATE_PAGE_FAULT, &state));
    CHECK(state.PageFaultState.FaultedVirtualAddress == 0 && state.PageFaultState.FaultErrorCode == 0);
    OK(ask(device, D3DKMT_DEVICESTATE_PRESENT, &state));
    CHECK(state.PresentState.PresentStats.PresentCount == 0 && state.PresentState.PresentStats.SyncQPCTime.QuadPart == 0);
    EXPECT(STATUS_INVALID_PARAMETER, ask(device, 0, &state));
    EXPECT(STATUS_INVALID_PARAMETER, ask(device, 7, &state));
    CHECK(state.PresentState.PresentStats.SyncQPCTime.QuadPart == 0x5a5a5a5a5a5a5a5a);
}

static WORK begin(D3DKMT_HANDLE adapter) {
    WORK work = {.device = create_device(adapter)};
    work.paging = create_paging_queue(work.device);
    work.target = create_surface(work.device, &work.paging, SYSTEM, BYTES);
    work.commands = create_surface(work.device, &work.paging, SYSTEM, BYTES);
    lives(work.device);
    return work;
}

/* Submits what stands in the commands, and waits until the device is lost. */
static void submit(WORK work, UINT length) {
    D3DKMT_HANDLE fence;
    D3DKMT_CREATEHWCONTEXT hw_context = {.hDevice = work.device};
    NTSTATUS status = D3DKMTCreateHwContext(&hw_context);
    if (NT_SUCCESS(status)) {
        D3DKMT_CREATEHWQUEUE queue = {.hHwContext = hw_context.hHwContext};
        OK(D3DKMTCreateHwQueue(&queue));
        D3DKMT_SUBMITCOMMANDTOHWQUEUE command = {
            .hHwQueue = queue.hHwQueue,
            .HwQueueProgressFenceId = 1,
            .CommandBuffer = work.commands.va,
            .CommandLength = length,
        };
        OK(D3DKMTSubmitCommandToHwQueue(&command));
        fence = queue.hHwQueueProgressFence;
    } else {
        D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = work.device};
        OK(D3DKMTCreateContextVirtual(&context));
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = work.device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
        OK(D3DKMTCreateSynchronizationObject2(&create));
        fence = create.hSyncObject;
        D3DKMT_SUBMITCOMMAND command = {
            .Commands = work.commands.va,
            .CommandLength = length,
            .BroadcastContextCount = 1,
            .BroadcastContext = {context.hContext},
        };
        OK(D3DKMTSubmitCommand(&command));
    }
    uint64_t one = 1;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
        .hDevice = work.device,
        .ObjectCount = 1,
        .ObjectHandleArray = &fence,
        .FenceValueArray = &one,
    };
    EXPECT(STATUS_DEVICE_REMOVED, D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
}

/* It is in state 7; where and what. Everything else is refused. */
static D3DKMT_DEVICEPAGEFAULT_STATE lost(WORK work) {
    D3DKMT_GETDEVICESTATE state;
    OK(ask(work.device, D3DKMT_DEVICESTATE_EXECUTION, &state));
    CHECK(state.ExecutionState == D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    EXPECT(STATUS_DEVICE_REMOVED, ask(work.device, D3DKMT_DEVICESTATE_PRESENT, &state));
    D3DKMT_CREATEHWCONTEXT context = {.hDevice = work.device};
    EXPECT(STATUS_DEVICE_REMOVED, D3DKMTCreateHwContext(&context));
    OK(ask(work.device, D3DKMT_DEVICESTATE_PAGE_FAULT, &state));
    D3DKMT_DESTROYDEVICE destroy = {.hDevice = work.device};
    OK(D3DKMTDestroyDevice(&destroy));
    return state.PageFaultState;
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();

    WORK unknown = begin(adapter);
    uint64_t* words = lock_surface(unknown.device, unknown.commands);
    words[0] = 0xfe | 1 << 8;
    unlock_surface(unknown.device, unknown.commands);
    submit(unknown, 8);
    D3DKMT_DEVICEPAGEFAULT_STATE fault = lost(unknown);
    CHECK(fault.FaultErrorCode == INVALID_INSTRUCTION && fault.FaultedVirtualAddress == unknown.commands.va);

    /* Behind the end, and nowhere at all. */
    for (int nowhere = 0; nowhere < 2; nowhere++) {
        WORK beyond = begin(adapter);
        uint64_t first = nowhere ? beyond.target.va + ((uint64_t)1 << 36) : beyond.target.va;
        words = lock_surface(beyond.device, beyond.commands);
        uint64_t* end = softgpu_fill(words, first, 64 * BYTES, 0x12345678);
        UINT length = (UINT)((end - words) * sizeof *words);
        unlock_surface(beyond.device, beyond.commands);
        submit(beyond, length);
        fault = lost(beyond);
        /* Where there is no memory this hardware tells no kind of access. */
        CHECK(fault.FaultErrorCode == 0 && fault.PageFaultFlags == 0);
        CHECK(fault.FaultedVirtualAddress >= first + (nowhere ? 0 : BYTES));
        CHECK(fault.FaultedVirtualAddress < first + 64 * BYTES);
    }

    WORK reader = begin(adapter);
    D3DDDI_MAPGPUVIRTUALADDRESS map = {.hPagingQueue = reader.paging.hPagingQueue, .hAllocation = reader.target.handle, .SizeInPages = BYTES / 4096};
    NTSTATUS status = D3DKMTMapGpuVirtualAddress(&map);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    wait_for(reader.device, reader.paging.hSyncObject, map.PagingFenceValue);
    words = lock_surface(reader.device, reader.commands);
    UINT length = (UINT)((softgpu_fill(words, map.VirtualAddress, BYTES, 0) - words) * sizeof *words);
    unlock_surface(reader.device, reader.commands);
    submit(reader, length);
    fault = lost(reader);
    CHECK(fault.FaultErrorCode == 0 && fault.PageFaultFlags == WRITE && fault.FaultedVirtualAddress == map.VirtualAddress);
    puts("told apart");
    return 0;
}
