/* Private data of the user-mode driver go to its kernel-mode driver with contexts and submissions, as many as that says it takes. */
#include "steps.h"

enum { MOST = 16384, PATCHED_MOST = 1024 };

int main(void) {
    const char* submission = getenv("SUBMISSION");
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    static char data[1 << 20];
    if (submission != NULL && !strcmp(submission, "patched")) {
        D3DKMT_CREATECONTEXT context = {.hDevice = device, .EngineAffinity = 1};
        OK(D3DKMTCreateContext(&context));
        uint64_t* words = context.pCommandBuffer;
        words[0] = 0x00 | (uint64_t)1 << 8;
        D3DKMT_RENDER render = {.hContext = context.hContext, .CommandLength = 8, .pPrivateDriverData = data};
        render.PrivateDriverDataSize = sizeof data;
        EXPECT(STATUS_INVALID_PARAMETER, D3DKMTRender(&render));
        render.PrivateDriverDataSize = PATCHED_MOST;
        OK(D3DKMTRender(&render));
        puts("handed on");
        return 0;
    }
    SURFACE commands = create_surface(device, &paging, SYSTEM, 4096);
    SURFACE target = create_surface(device, &paging, SYSTEM, 4096);
    uint64_t* words = lock_surface(device, commands);
    uint64_t* end = softgpu_fill(words, target.va, 4096, 7);
    UINT length = (UINT)((end - words) * sizeof *words);
    unlock_surface(device, commands);

    D3DKMT_CREATECONTEXTVIRTUAL context = {
        .hDevice = device, .EngineAffinity = 1, .pPrivateDriverData = data, .PrivateDriverDataSize = 1 << 16};
    OK(D3DKMTCreateContextVirtual(&context));
    D3DKMT_SUBMITCOMMAND submit = {
        .Commands = commands.va, .CommandLength = length, .BroadcastContextCount = 1, .BroadcastContext = {context.hContext},
        .pPrivateDriverData = data, .PrivateDriverDataSize = sizeof data,
    };
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSubmitCommand(&submit));
    submit.PrivateDriverDataSize = MOST;
    OK(D3DKMTSubmitCommand(&submit));

    D3DKMT_CREATEHWCONTEXT hw_context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateHwContext(&hw_context));
    D3DKMT_CREATEHWQUEUE queue = {.hHwContext = hw_context.hHwContext};
    OK(D3DKMTCreateHwQueue(&queue));
    D3DKMT_SUBMITCOMMANDTOHWQUEUE to_queue = {
        .hHwQueue = queue.hHwQueue, .HwQueueProgressFenceId = 1, .CommandBuffer = commands.va, .CommandLength = length,
        .pPrivateDriverData = data, .PrivateDriverDataSize = MOST + 1,
    };
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSubmitCommandToHwQueue(&to_queue));
    to_queue.PrivateDriverDataSize = MOST;
    OK(D3DKMTSubmitCommandToHwQueue(&to_queue));
    wait_for(device, queue.hHwQueueProgressFence, 1);
    puts("handed on");
    return 0;
}
