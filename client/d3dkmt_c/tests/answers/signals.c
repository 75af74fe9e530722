/* Signals and waits of contexts on objects without a word in memory, with a value for fences and with an event; and a fence's value as an
 * event of its own. */
#include "steps.h"

static D3DKMT_HANDLE object(D3DKMT_HANDLE device, D3DDDI_SYNCHRONIZATIONOBJECT_TYPE type) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device, .Info = {.Type = type}};
    OK(D3DKMTCreateSynchronizationObject2(&create));
    return create.hSyncObject;
}

static D3DKMT_HANDLE context(D3DKMT_HANDLE device) {
    D3DKMT_CREATECONTEXTVIRTUAL create = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&create));
    return create.hContext;
}

static NTSTATUS look(HANDLE event, int block) {
    OPENWDDM_WAITEVENT wait = {.hEvent = event, .bBlock = block};
    return OpenWddmWaitEvent(&wait);
}

/* A context waits for a fence's value; a signal of another context lets it go on. */
static void between_contexts(D3DKMT_HANDLE device) {
    D3DKMT_HANDLE first = context(device), second = context(device);
    D3DKMT_HANDLE fence = object(device, D3DDDI_FENCE), done = object(device, D3DDDI_MONITORED_FENCE);
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 wait = {
        .hContext = second, .ObjectCount = 1, .ObjectHandleArray = {fence}, .Fence = {.FenceValue = 5}};
    OK(D3DKMTWaitForSynchronizationObject2(&wait));
    uint64_t one = 1;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU behind = {
        .hContext = second, .ObjectCount = 1, .ObjectHandleArray = &done, .MonitoredFenceValueArray = &one};
    OK(D3DKMTSignalSynchronizationObjectFromGpu(&behind));

    D3DKMT_CREATESYNCFILE file = {.hDevice = device, .hMonitoredFence = done, .FenceValue = 1};
    OK(D3DKMTCreateSyncFile(&file));
    HANDLE reached = (HANDLE)(uintptr_t)file.hSyncFile;
    EXPECT(STATUS_TIMEOUT, look(reached, 0));

    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 signal = {
        .hContext = first, .ObjectCount = 1, .ObjectHandleArray = {fence}, .Fence = {.FenceValue = 4}};
    OK(D3DKMTSignalSynchronizationObject2(&signal));
    /* The value is too small: an event behind that signal is set, and the other context waits still. */
    OPENWDDM_CREATEEVENT event = {.bManualReset = 1};
    OK(OpenWddmCreateEvent(&event));
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 tell = {
        .hContext = first, .Flags = {.EnqueueCpuEvent = 1}, .CpuEventHandle = event.hEvent};
    OK(D3DKMTSignalSynchronizationObject2(&tell));
    OK(look(event.hEvent, 1));
    EXPECT(STATUS_TIMEOUT, look(reached, 0));
    signal.Fence.FenceValue = 5;
    OK(D3DKMTSignalSynchronizationObject2(&signal));
    OK(look(reached, 1));
    wait_for(device, done, 1);
    OPENWDDM_CLOSEHANDLE close = {.hObject = reached};
    OK(OpenWddmCloseHandle(&close));

    wait.ObjectCount = 33;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTWaitForSynchronizationObject2(&wait));
    signal.ObjectCount = 33;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSignalSynchronizationObject2(&signal));
    signal.ObjectCount = 1;
    signal.BroadcastContextCount = 65;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSignalSynchronizationObject2(&signal));
    file.hMonitoredFence = 0;
    file.hSyncFile = 77;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateSyncFile(&file));
    CHECK(file.hSyncFile == 77);
}

/* A broadcast: the object is signalled when all contexts have come so far, and a wait behind it ends. */
static void broadcast(D3DKMT_HANDLE device) {
    D3DKMT_HANDLE first = context(device), second = context(device);
    D3DKMT_HANDLE fence = object(device, D3DDDI_FENCE), done = object(device, D3DDDI_MONITORED_FENCE);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 signal = {
        .hContext = first,
        .ObjectCount = 1,
        .ObjectHandleArray = {fence},
        .BroadcastContextCount = 1,
        .BroadcastContext = {second},
        .Fence = {.FenceValue = 3},
    };
    OK(D3DKMTSignalSynchronizationObject2(&signal));
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 wait = {
        .hContext = first, .ObjectCount = 1, .ObjectHandleArray = {fence}, .Fence = {.FenceValue = 3}};
    OK(D3DKMTWaitForSynchronizationObject2(&wait));
    uint64_t one = 1;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU behind = {
        .hContext = first, .ObjectCount = 1, .ObjectHandleArray = &done, .MonitoredFenceValueArray = &one};
    OK(D3DKMTSignalSynchronizationObjectFromGpu(&behind));
    wait_for(device, done, 1);
}

int main(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    between_contexts(device);
    broadcast(device);
    puts("signalled");
    return 0;
}
