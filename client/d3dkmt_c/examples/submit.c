/* Work on the GPU, and a monitored fence that tells when it is done: by a hardware queue where the adapter has them, else by a packet
 * context. The CPU waits for the fence in three ways: by a call that blocks, by an event, and by a look at its word. */
#include "steps.h"

enum { BYTES = 1 << 16, WORDS = BYTES / 8 };

static D3DKMT_HANDLE create_event(void) {
    OPENWDDM_CREATEEVENT create = {.bManualReset = 1};
    OK(OpenWddmCreateEvent(&create));
    return (D3DKMT_HANDLE)(uintptr_t)create.hEvent;
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE target = create_surface(device, &paging, LOCAL, BYTES);
    SURFACE commands = create_surface(device, &paging, SYSTEM, 4096);

    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {
        .hDevice = device,
        .Info = {.Type = D3DDDI_MONITORED_FENCE, .MonitoredFence = {.InitialFenceValue = 5}},
    };
    OK(D3DKMTCreateSynchronizationObject2(&create));
    D3DKMT_HANDLE fence = create.hSyncObject;
    const volatile uint64_t* word = create.Info.MonitoredFence.FenceValueCPUVirtualAddress;
    CHECK(*word == 5 && create.Info.MonitoredFence.FenceValueGPUVirtualAddress != 0);

    uint64_t* words = lock_surface(device, commands);
    uint64_t* end = softgpu_fill(words, target.va, BYTES, 0xc0ffee00);
    UINT length = (UINT)((end - words) * sizeof *words);
    unlock_surface(device, commands);

    /* An event that is set when the fence has the value; nothing waits in the call. */
    uint64_t value = 6;
    HANDLE event = (HANDLE)(uintptr_t)create_event();
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &fence,
        .FenceValueArray = &value,
        .hAsyncEvent = event,
    };
    OK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
    OPENWDDM_WAITEVENT look = {.hEvent = event};
    EXPECT(STATUS_TIMEOUT, OpenWddmWaitEvent(&look));

    D3DKMT_CREATEHWCONTEXT hw_context = {.hDevice = device, .EngineAffinity = 1};
    NTSTATUS status = D3DKMTCreateHwContext(&hw_context);
    if (NT_SUCCESS(status)) {
        D3DKMT_CREATEHWQUEUE queue = {.hHwContext = hw_context.hHwContext};
        OK(D3DKMTCreateHwQueue(&queue));
        CHECK(*(const volatile uint64_t*)queue.HwQueueProgressFenceCPUVirtualAddress == 0);
        D3DKMT_SUBMITCOMMANDTOHWQUEUE submit = {
            .hHwQueue = queue.hHwQueue,
            .HwQueueProgressFenceId = 1,
            .CommandBuffer = commands.va,
            .CommandLength = length,
        };
        OK(D3DKMTSubmitCommandToHwQueue(&submit));
        /* Progress only rises. */
        EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSubmitCommandToHwQueue(&submit));
        D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE signal = {
            .BroadcastHwQueueCount = 1,
            .BroadcastHwQueueArray = &queue.hHwQueue,
            .ObjectCount = 1,
            .ObjectHandleArray = &fence,
            .FenceValueArray = &value,
        };
        OK(D3DKMTSubmitSignalSyncObjectsToHwQueue(&signal));
        wait_for(device, queue.hHwQueueProgressFence, 1);
        CHECK(*(const volatile uint64_t*)queue.HwQueueProgressFenceCPUVirtualAddress == 1);
        puts("hardware queue");
    } else {
        EXPECT(STATUS_NOT_SUPPORTED, status);
        D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
        OK(D3DKMTCreateContextVirtual(&context));
        D3DKMT_SUBMITCOMMAND submit = {
            .Commands = commands.va,
            .CommandLength = length,
            .BroadcastContextCount = 1,
            .BroadcastContext = {context.hContext},
        };
        OK(D3DKMTSubmitCommand(&submit));
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {
            .hContext = context.hContext,
            .ObjectCount = 1,
            .ObjectHandleArray = &fence,
            .MonitoredFenceValueArray = &value,
        };
        OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
        puts("packet context");
    }

    wait_for(device, fence, value);
    CHECK(*word == value);
    look.bBlock = 1;
    OK(OpenWddmWaitEvent(&look));

    words = lock_surface(device, target);
    for (uint64_t index = 0; index < WORDS; index++) {
        CHECK(words[index] == 0xc0ffee00c0ffee00u);
    }
    unlock_surface(device, target);

    /* The CPU signals: forwards always, backwards only where that is said. */
    value = 9;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU by_cpu = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &fence,
        .FenceValueArray = &value,
    };
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&by_cpu));
    CHECK(*word == 9);
    value = 7;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSignalSynchronizationObjectFromCpu(&by_cpu));
    CHECK(*word == 9);
    by_cpu.Flags.AllowFenceRewind = 1;
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&by_cpu));
    CHECK(*word == 7);

    OPENWDDM_CLOSEHANDLE close = {.hObject = event};
    OK(OpenWddmCloseHandle(&close));
    EXPECT(STATUS_INVALID_HANDLE, OpenWddmCloseHandle(&close));
    D3DKMT_GETDEVICESTATE state = {.hDevice = device, .StateType = D3DKMT_DEVICESTATE_EXECUTION};
    OK(D3DKMTGetDeviceState(&state));
    CHECK(state.ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
    return 0;
}
