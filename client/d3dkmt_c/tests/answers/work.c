/* Contexts and what waits for them: the engine of a node is 0 or the bit of the only one; NullRendering is queued and done, and its commands
 * are not looked at; a wait that NoWait forbids sets its event, and so does a context that goes before it has come to it. */
#include <time.h>

#include "steps.h"

static HANDLE new_event(void) {
    OPENWDDM_CREATEEVENT create = {0};
    OK(OpenWddmCreateEvent(&create));
    return create.hEvent;
}

static NTSTATUS is_set(HANDLE event) {
    OPENWDDM_WAITEVENT look = {.hEvent = event};
    return OpenWddmWaitEvent(&look);
}

static D3DKMT_CREATESYNCHRONIZATIONOBJECT2 monitored(D3DKMT_HANDLE device, int no_wait) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {
        .hDevice = device,
        .Info = {.Type = D3DDDI_MONITORED_FENCE, .Flags = {.NoGPUAccess = no_wait, .NoWait = no_wait}},
    };
    OK(D3DKMTCreateSynchronizationObject2(&create));
    return create;
}

static uint64_t value_of(const D3DKMT_CREATESYNCHRONIZATIONOBJECT2* fence) {
    return *(const volatile uint64_t*)fence->Info.MonitoredFence.FenceValueCPUVirtualAddress;
}

static D3DKMT_HANDLE context(D3DKMT_HANDLE device, UINT affinity, UINT flags) {
    D3DKMT_CREATECONTEXTVIRTUAL create = {.hDevice = device, .EngineAffinity = affinity, .Flags = {.Value = flags}};
    OK(D3DKMTCreateContextVirtual(&create));
    return create.hContext;
}

static void affinities(D3DKMT_HANDLE device) {
    for (UINT affinity = 0; affinity < 4; affinity++) {
        NTSTATUS wanted = affinity < 2 ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
        D3DKMT_CREATECONTEXT patched = {.hDevice = device, .EngineAffinity = affinity};
        EXPECT(wanted, D3DKMTCreateContext(&patched));
        D3DKMT_CREATECONTEXTVIRTUAL virtual = {.hDevice = device, .EngineAffinity = affinity};
        EXPECT(wanted, D3DKMTCreateContextVirtual(&virtual));
    }
    /* Only a fence that the GPU accesses needs its affinity and its padding. */
    for (UINT for_gpu = 0; for_gpu < 2; for_gpu++) {
        for (UINT padded = 0; padded < 2; padded++) {
            D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {
                .hDevice = device,
                .Info = {.Type = D3DDDI_MONITORED_FENCE, .Flags = {.NoGPUAccess = !for_gpu},
                         .MonitoredFence = {.EngineAffinity = padded ? 1 : 2, .Padding = padded ? 7 : 0}}};
            EXPECT(for_gpu ? STATUS_INVALID_PARAMETER : STATUS_SUCCESS, D3DKMTCreateSynchronizationObject2(&create));
        }
    }
}

/* Behind submissions that lead nowhere the context's signal comes, and the device is sound. */
static void null_rendering(D3DKMT_HANDLE device) {
    enum { NULL_RENDERING = 1 };
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 done = monitored(device, 0);
    for (uint64_t round = 1; round <= 2; round++) {
        /* The flag of the context, or of each submission. */
        int of_context = round == 1;
        D3DKMT_HANDLE null = context(device, 1, of_context ? NULL_RENDERING : 0);
        for (int nth = 0; nth < 3; nth++) {
            D3DKMT_SUBMITCOMMAND submit = {
                .Commands = 0x7fff0000,
                .CommandLength = 64,
                .Flags = {.NullRendering = !of_context},
                .BroadcastContextCount = 1,
                .BroadcastContext = {null},
            };
            OK(D3DKMTSubmitCommand(&submit));
        }
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {
            .hContext = null,
            .ObjectCount = 1,
            .ObjectHandleArray = &done.hSyncObject,
            .MonitoredFenceValueArray = &round,
        };
        OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
        wait_for(device, done.hSyncObject, round);
    }
    D3DKMT_CREATECONTEXT patched = {.hDevice = device, .EngineAffinity = 1, .Flags = {.NullRendering = 1}};
    OK(D3DKMTCreateContext(&patched));
    /* A word that is no command. */
    *(uint64_t*)patched.pCommandBuffer = ~(uint64_t)0;
    D3DKMT_RENDER render = {.hContext = patched.hContext, .CommandLength = 8};
    OK(D3DKMTRender(&render));
    /* Without commands it swaps the buffers. */
    D3DKMT_CREATECONTEXT plain = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContext(&plain));
    render = (D3DKMT_RENDER){.hContext = plain.hContext, .QueuedBufferCount = 7};
    OK(D3DKMTRender(&render));
    CHECK(render.pNewCommandBuffer == plain.pCommandBuffer && render.pNewAllocationList == plain.pAllocationList);
    CHECK(render.NewCommandBufferSize == plain.CommandBufferSize && render.QueuedBufferCount == 0);
    render.PatchLocationCount = 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTRender(&render));
    D3DKMT_GETDEVICESTATE state = {.hDevice = device, .StateType = D3DKMT_DEVICESTATE_EXECUTION};
    OK(D3DKMTGetDeviceState(&state));
    CHECK(state.ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
}

static void refused_waits(D3DKMT_HANDLE device) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 free = monitored(device, 0), forbidden = monitored(device, 1);
    D3DKMT_HANDLE fences[] = {free.hSyncObject, forbidden.hSyncObject};
    UINT64 values[] = {1, 1};
    for (UINT first = 0; first < 2; first++) {
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
            .hDevice = device,
            .ObjectCount = 2 - first,
            .ObjectHandleArray = fences + first,
            .FenceValueArray = values + first,
            .hAsyncEvent = new_event(),
        };
        EXPECT(STATUS_ACCESS_DENIED, D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
        OK(is_set(wait.hAsyncEvent));
        EXPECT(STATUS_TIMEOUT, is_set(wait.hAsyncEvent));
    }
    CHECK(value_of(&free) == 0 && value_of(&forbidden) == 0);
    /* A call that is wrong in another way sets nothing. */
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wrong = {.hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &device, .FenceValueArray = values, .hAsyncEvent = new_event()};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTWaitForSynchronizationObjectFromCpu(&wrong));
    EXPECT(STATUS_TIMEOUT, is_set(wrong.hAsyncEvent));
}

static void cancelled_events(D3DKMT_HANDLE device) {
    D3DKMT_HANDLE contexts[] = {context(device, 1, 0), context(device, 0, 0)};
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 gate = monitored(device, 0);
    UINT64 never = 1;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait = {
        .hContext = contexts[0],
        .ObjectCount = 1,
        .ObjectHandleArray = &gate.hSyncObject,
        .MonitoredFenceValueArray = &never,
    };
    OK(D3DKMTWaitForSynchronizationObjectFromGpu(&wait));
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 notify = {
        .Flags = {.EnqueueCpuEvent = 1},
        .BroadcastContextCount = 2,
        .BroadcastContextArray = contexts,
        .CpuEventHandle = new_event(),
    };
    OK(D3DKMTSignalSynchronizationObjectFromGpu2(&notify));
    EXPECT(STATUS_TIMEOUT, is_set(notify.CpuEventHandle));
    for (int index = 0; index < 2; index++) {
        D3DKMT_DESTROYCONTEXT destroy = {.hContext = contexts[index]};
        OK(D3DKMTDestroyContext(&destroy));
    }
    /* In the other flavour another thread sets it; a thread that slept for one that is never set would never say so. */
    NTSTATUS set = STATUS_TIMEOUT;
    for (int tries = 0; tries < 12000 && set == STATUS_TIMEOUT; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        set = is_set(notify.CpuEventHandle);
    }
    OK(set);
    CHECK(value_of(&gate) == 0);
}

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    affinities(device);
    null_rendering(device);
    refused_waits(device);
    cancelled_events(device);
    puts("queued and told");
    return 0;
}
