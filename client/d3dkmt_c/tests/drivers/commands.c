/* Commands whose numbers are known: three buffers with two fills and a copy each, then one with a fill where nothing is mapped. They go to a
 * hardware queue where the adapter has them, else to a packet context. */
#include "steps.h"

#include <unistd.h>

enum { BYTES = 1 << 16, BUFFERS = 3 };

static D3DKMT_HANDLE device, queue, context;

static void submit(D3DGPU_VIRTUAL_ADDRESS at, UINT length, uint64_t value) {
    if (queue != 0) {
        D3DKMT_SUBMITCOMMANDTOHWQUEUE submit = {
            .hHwQueue = queue, .HwQueueProgressFenceId = value, .CommandBuffer = at, .CommandLength = length};
        OK(D3DKMTSubmitCommandToHwQueue(&submit));
        return;
    }
    D3DKMT_SUBMITCOMMAND submit = {
        .Commands = at, .CommandLength = length, .BroadcastContextCount = 1, .BroadcastContext = {context}};
    OK(D3DKMTSubmitCommand(&submit));
}

int main(void) {
    device = create_device(first_adapter());
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE one = create_surface(device, &paging, LOCAL, BYTES);
    SURFACE other = create_surface(device, &paging, LOCAL, BYTES);
    SURFACE commands = create_surface(device, &paging, SYSTEM, 4096);

    uint64_t* words = lock_surface(device, commands);
    uint64_t* end = softgpu_fill(words, one.va, BYTES, 1);
    end = softgpu_copy(end, one.va, other.va, BYTES);
    end = softgpu_fill(end, one.va, BYTES, 2);
    UINT good = (UINT)((end - words) * sizeof *words);
    uint64_t* last = softgpu_fill(end, other.va + (1ull << 36), BYTES, 3);
    UINT bad = (UINT)((last - end) * sizeof *words);
    unlock_surface(device, commands);

    D3DKMT_CREATEHWCONTEXT hw_context = {.hDevice = device, .EngineAffinity = 1};
    NTSTATUS status = D3DKMTCreateHwContext(&hw_context);
    D3DKMT_HANDLE fence;
    if (NT_SUCCESS(status)) {
        D3DKMT_CREATEHWQUEUE create = {.hHwContext = hw_context.hHwContext};
        OK(D3DKMTCreateHwQueue(&create));
        queue = create.hHwQueue;
        fence = create.hHwQueueProgressFence;
    } else {
        EXPECT(STATUS_NOT_SUPPORTED, status);
        D3DKMT_CREATECONTEXTVIRTUAL create = {.hDevice = device, .EngineAffinity = 1};
        OK(D3DKMTCreateContextVirtual(&create));
        context = create.hContext;
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 done = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
        OK(D3DKMTCreateSynchronizationObject2(&done));
        fence = done.hSyncObject;
    }
    for (uint64_t value = 1; value <= BUFFERS; value++) {
        submit(commands.va, good, value);
        if (queue == 0) {
            D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {
                .hContext = context, .ObjectCount = 1, .ObjectHandleArray = &fence, .MonitoredFenceValueArray = &value};
            OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
        }
        wait_for(device, fence, value);
    }
    submit(commands.va + good, bad, BUFFERS + 1);
    D3DKMT_GETDEVICESTATE state = {.hDevice = device, .StateType = D3DKMT_DEVICESTATE_EXECUTION};
    do {
        usleep(1000);
        OK(D3DKMTGetDeviceState(&state));
    } while (state.ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
    puts(queue != 0 ? "hardware queue" : "packet context");
    return 0;
}
