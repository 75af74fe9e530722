/* The program hands work to an engine by itself: commands in a ring of its own, and a store at the doorbell. It makes a call only to
 * wake an engine that sleeps, and to sleep until the work is done. The formats of the ring, of the doorbell's page and of the driver's
 * data of a queue are the software GPU's (openwddm/softgpu.h). */
#include <pthread.h>
#include <time.h>

#include "steps.h"

enum { RING_BYTES = 4096, BYTES = 1 << 12, ROUNDS = 300 };

static D3DKMT_CREATE_DOORBELL doorbell;
static uint64_t connects, wakes;

static void store(void* word, uint64_t value) { __atomic_store_n((uint64_t*)word, value, __ATOMIC_RELEASE); }

static uint64_t load(const void* word) { return __atomic_load_n((const uint64_t*)word, __ATOMIC_ACQUIRE); }

/* Publishes the ring up to the write pointer; the last of it brings the progress fence to the value. */
static void ring_doorbell(uint64_t value, uint64_t write_pointer) {
    store(doorbell.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress, value);
    for (;;) {
        store(doorbell.DoorbellCPUVirtualAddress, write_pointer);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        uint64_t asleep = load((const char*)doorbell.DoorbellCPUVirtualAddress + SOFTGPU_DOORBELL_ASLEEP);
        /* The status is read behind the ring. */
        uint64_t status = load(doorbell.DoorbellStatusCPUVirtualAddress);
        if (status == D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY) {
            D3DKMT_CONNECT_DOORBELL connect = {.hDoorbell = doorbell.hDoorbell};
            OK(D3DKMTConnectDoorbell(&connect));
            connects++;
            continue;
        }
        CHECK(status == D3DDDI_DOORBELLSTATUS_CONNECTED || status == D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD);
        if (asleep || status == D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD) {
            D3DKMT_NOTIFY_WORK_SUBMISSION notify = {.hDoorbell = doorbell.hDoorbell};
            OK(D3DKMTNotifyWorkSubmission(&notify));
            wakes++;
        }
        return;
    }
}

/* An engine that has had nothing to do sleeps, or has lost its power and the doorbell with it. */
static void wait_until_the_engine_sleeps(void) {
    const char* page = doorbell.DoorbellCPUVirtualAddress;
    struct timespec pause = {.tv_nsec = 1000 * 1000};
    for (int waited_ms = 0; !load(page + SOFTGPU_DOORBELL_ASLEEP); waited_ms++) {
        if (load(doorbell.DoorbellStatusCPUVirtualAddress) == D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY) {
            return;
        }
        CHECK(waited_ms < 60 * 1000);
        nanosleep(&pause, NULL);
    }
}

/* A thread that waits for the progress fence. */
typedef struct {
    pthread_t thread;
    D3DKMT_HANDLE device, fence;
    uint64_t value;
} SLEEPER;

static void* sleep_until(void* argument) {
    const SLEEPER* sleeper = argument;
    wait_for(sleeper->device, sleeper->fence, sleeper->value);
    return NULL;
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE target = create_surface(device, &paging, SYSTEM, BYTES);
    SURFACE ring = create_surface(device, &paging, SYSTEM, RING_BYTES);

    D3DKMT_CREATEHWCONTEXT context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateHwContext(&context));
    SOFTGPU_QUEUE of_driver = softgpu_queue();
    D3DKMT_CREATEHWQUEUE queue = {
        .hHwContext = context.hHwContext,
        .Flags = {.UserModeSubmission = 1},
        .pPrivateDriverData = &of_driver,
        .PrivateDriverDataSize = sizeof of_driver,
    };
    of_driver.reserved = 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateHwQueue(&queue));
    of_driver.reserved = 0;
    OK(D3DKMTCreateHwQueue(&queue));
    CHECK(of_driver.progress_monitored_va != 0);
    CHECK(of_driver.progress_monitored_va != queue.HwQueueProgressFenceGPUVirtualAddress);
    const void* progress = queue.HwQueueProgressFenceCPUVirtualAddress;
    D3DKMT_GETNATIVEFENCELOGDETAIL logs = {.hHwQueue = queue.hHwQueue, .Flags = {.Value = 1}};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetNativeFenceLogDetail(&logs));
    logs.Flags.Value = 0;
    OK(D3DKMTGetNativeFenceLogDetail(&logs));
    CHECK(logs.WaitLogNumberOfEntries != 0 && logs.SignalLogNumberOfEntries != 0);
    CHECK(logs.WaitLogGpuBaseAddress != 0 && logs.SignalLogGpuBaseAddress > logs.WaitLogGpuBaseAddress);
    logs.hHwQueue = device;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetNativeFenceLogDetail(&logs));
    /* Engines without work keep their power, and give it back. */
    D3DKMT_SETSTABLEPOWERSTATE stable = {.hAdapter = adapter, .Enabled = 1};
    OK(D3DKMTSetStablePowerState(&stable));
    stable.Enabled = 0;
    OK(D3DKMTSetStablePowerState(&stable));
    stable.hAdapter = device;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSetStablePowerState(&stable));

    doorbell.hHwQueue = queue.hHwQueue;
    doorbell.hRingBuffer = ring.handle;
    doorbell.Flags.ResizeRingBufferOperation = 1;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTCreateDoorbell(&doorbell));
    doorbell.Flags.Value = 0;
    doorbell.hRingBuffer = queue.hHwQueue;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateDoorbell(&doorbell));
    doorbell.hRingBuffer = ring.handle;
    doorbell.PrivateDriverDataSize = 8;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateDoorbell(&doorbell));
    doorbell.PrivateDriverDataSize = 0;
    OK(D3DKMTCreateDoorbell(&doorbell));
    CHECK(load(doorbell.DoorbellStatusCPUVirtualAddress) == D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY);
    const void* address = doorbell.DoorbellCPUVirtualAddress;
    /* A queue has one. */
    D3DKMT_CREATE_DOORBELL second = doorbell;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateDoorbell(&second));

    uint64_t* words = lock_surface(device, ring);
    uint64_t written = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t commands[8];
        uint64_t* end = softgpu_fill(commands, target.va, BYTES, (uint32_t)round);
        /* The progress fence: the GPU interrupts if the program sleeps by then. */
        uint64_t va = queue.HwQueueProgressFenceGPUVirtualAddress;
        end = softgpu_signal(end, va, of_driver.progress_monitored_va, round);
        for (const uint64_t* word = commands; word < end; word++) {
            words[written % RING_BYTES / 8] = *word;
            written += 8;
        }
        /* Every second time it is asleep before the work is there, on another thread. */
        int before = round % 2 == 0;
        SLEEPER sleeper = {.device = device, .fence = queue.hHwQueueProgressFence, .value = round};
        if (before) {
            CHECK(pthread_create(&sleeper.thread, NULL, sleep_until, &sleeper) == 0);
        }
        ring_doorbell(round, written);
        if (before) {
            CHECK(pthread_join(sleeper.thread, NULL) == 0);
        } else {
            wait_for(device, queue.hHwQueueProgressFence, round);
        }
        CHECK(load(progress) >= round);
        if (round % 100 == 0) {
            wait_until_the_engine_sleeps();
        }
    }
    unlock_surface(device, ring);
    CHECK(doorbell.DoorbellCPUVirtualAddress == address);
    CHECK(connects >= 1 && connects + wakes >= 3 && load(progress) == ROUNDS);
    words = lock_surface(device, target);
    CHECK(words[0] == (ROUNDS | (uint64_t)ROUNDS << 32) && words[BYTES / 8 - 1] == words[0]);
    unlock_surface(device, target);

    D3DKMT_DESTROY_DOORBELL destroy = {.hDoorbell = doorbell.hDoorbell};
    OK(D3DKMTDestroyDoorbell(&destroy));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroyDoorbell(&destroy));
    D3DKMT_CONNECT_DOORBELL connect = {.hDoorbell = destroy.hDoorbell};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTConnectDoorbell(&connect));
    D3DKMT_GETDEVICESTATE state = {.hDevice = device, .StateType = D3DKMT_DEVICESTATE_EXECUTION};
    OK(D3DKMTGetDeviceState(&state));
    CHECK(state.ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
    puts("rang and woke");
    return 0;
}
