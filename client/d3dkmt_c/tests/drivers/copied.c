/* Content that a program writes, the GPU copies, and the program reads back. The source stays locked from the first copy to the second, which has other
 * words: its stores are between two submissions, and no call tells of them. The copies go to a hardware queue where the adapter has them, else to a packet
 * context. */
#include "steps.h"

enum { BYTES = 1 << 16, WORDS = BYTES / 8, COPIES = 2 };

static uint64_t word_of(uint64_t copy, uint64_t index) {
    return copy * 0x9e3779b97f4a7c15u + index;
}

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE source = create_surface(device, &paging, SYSTEM, BYTES);
    SURFACE target = create_surface(device, &paging, LOCAL, BYTES);
    SURFACE commands = create_surface(device, &paging, SYSTEM, 4096);

    uint64_t* words = lock_surface(device, commands);
    UINT length = (UINT)((softgpu_copy(words, source.va, target.va, BYTES) - words) * sizeof *words);
    unlock_surface(device, commands);

    D3DKMT_CREATEHWCONTEXT hw_context = {.hDevice = device, .EngineAffinity = 1};
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 done = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
    D3DKMT_CREATEHWQUEUE queue = {0};
    NTSTATUS status = D3DKMTCreateHwContext(&hw_context);
    if (NT_SUCCESS(status)) {
        queue.hHwContext = hw_context.hHwContext;
        OK(D3DKMTCreateHwQueue(&queue));
    } else {
        EXPECT(STATUS_NOT_SUPPORTED, status);
        OK(D3DKMTCreateContextVirtual(&context));
        OK(D3DKMTCreateSynchronizationObject2(&done));
    }

    uint64_t* written = lock_surface(device, source);
    for (uint64_t copy = 1; copy <= COPIES; copy++) {
        for (uint64_t index = 0; index < WORDS; index++) {
            written[index] = word_of(copy, index);
        }
        if (queue.hHwQueue != 0) {
            D3DKMT_SUBMITCOMMANDTOHWQUEUE submit = {
                .hHwQueue = queue.hHwQueue,
                .HwQueueProgressFenceId = copy,
                .CommandBuffer = commands.va,
                .CommandLength = length,
            };
            OK(D3DKMTSubmitCommandToHwQueue(&submit));
            wait_for(device, queue.hHwQueueProgressFence, copy);
        } else {
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
                .ObjectHandleArray = &done.hSyncObject,
                .MonitoredFenceValueArray = &copy,
            };
            OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
            wait_for(device, done.hSyncObject, copy);
        }
        const uint64_t* read = lock_surface(device, target);
        for (uint64_t index = 0; index < WORDS; index++) {
            CHECK(read[index] == word_of(copy, index));
        }
        unlock_surface(device, target);
    }
    unlock_surface(device, source);
    return 0;
}
