/* A program that uses the first adapter until its input ends: 4 MiB of local memory that stay, an engine that fills them again and again. */
#include <poll.h>
#include <unistd.h>

#include "steps.h"

enum { BYTES = 4 << 20, FILLS = 50 };

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE target = create_surface(device, &paging, LOCAL, BYTES);
    SURFACE commands = create_surface(device, &paging, SYSTEM, 4096);
    uint64_t* words = lock_surface(device, commands);
    uint64_t* end = words;
    for (int fill = 0; fill < FILLS; fill++) {
        end = softgpu_fill(end, target.va, BYTES, 7);
    }
    UINT length = (UINT)((end - words) * sizeof *words);
    unlock_surface(device, commands);
    D3DKMT_CREATEHWCONTEXT context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateHwContext(&context));
    D3DKMT_CREATEHWQUEUE queue = {.hHwContext = context.hHwContext};
    OK(D3DKMTCreateHwQueue(&queue));
    printf("busy\n");
    fflush(stdout);
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    for (uint64_t value = 1; poll(&input, 1, 0) == 0; value++) {
        D3DKMT_SUBMITCOMMANDTOHWQUEUE submit = {
            .hHwQueue = queue.hHwQueue,
            .HwQueueProgressFenceId = value,
            .CommandBuffer = commands.va,
            .CommandLength = length,
        };
        OK(D3DKMTSubmitCommandToHwQueue(&submit));
        wait_for(device, queue.hHwQueueProgressFence, value);
    }
    return 0;
}
