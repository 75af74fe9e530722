/* Events that the program itself sets: between its threads, and beside what a fence sets. */
#include <pthread.h>

#include "steps.h"

static HANDLE create(BOOL manual_reset) {
    OPENWDDM_CREATEEVENT create = {.bManualReset = manual_reset};
    OK(OpenWddmCreateEvent(&create));
    return create.hEvent;
}

static void set(HANDLE event) {
    OPENWDDM_SETEVENT set = {.hEvent = event};
    OK(OpenWddmSetEvent(&set));
}

static NTSTATUS look(HANDLE event) {
    OPENWDDM_WAITEVENT wait = {.hEvent = event};
    return OpenWddmWaitEvent(&wait);
}

static void wait(HANDLE event) {
    OPENWDDM_WAITEVENT wait = {.hEvent = event, .bBlock = 1};
    OK(OpenWddmWaitEvent(&wait));
}

typedef struct {
    HANDLE ping, pong;
    int heard;
} GAME;

static void* answers(void* argument) {
    GAME* game = argument;
    for (int round = 0; round < 100; round++) {
        wait(game->ping);
        game->heard++;
        set(game->pong);
    }
    return NULL;
}

int main(void) {
    /* One wait takes it, however often it was set; by hand it is set until it is reset. */
    HANDLE once = create(0), by_hand = create(1);
    EXPECT(STATUS_TIMEOUT, look(once));
    set(once);
    set(once);
    OK(look(once));
    EXPECT(STATUS_TIMEOUT, look(once));
    set(by_hand);
    OK(look(by_hand));
    wait(by_hand);
    OPENWDDM_RESETEVENT reset = {.hEvent = by_hand};
    OK(OpenWddmResetEvent(&reset));
    EXPECT(STATUS_TIMEOUT, look(by_hand));

    GAME game = {.ping = create(0), .pong = create(0)};
    pthread_t other;
    CHECK(pthread_create(&other, NULL, answers, &game) == 0);
    for (int round = 0; round < 100; round++) {
        CHECK(game.heard == round);
        set(game.ping);
        wait(game.pong);
    }
    CHECK(pthread_join(other, NULL) == 0 && game.heard == 100);

    /* A fence sets what the program sets, too: both are heard. */
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
    OK(D3DKMTCreateSynchronizationObject2(&fence));
    uint64_t value = 1;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU reaches = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &fence.hSyncObject,
        .FenceValueArray = &value,
        .hAsyncEvent = once,
    };
    OK(D3DKMTWaitForSynchronizationObjectFromCpu(&reaches));
    EXPECT(STATUS_TIMEOUT, look(once));
    set(once);
    wait(once);
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &fence.hSyncObject,
        .FenceValueArray = &value,
    };
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&signal));
    wait(once);

    OPENWDDM_CLOSEHANDLE close = {.hObject = once};
    OK(OpenWddmCloseHandle(&close));
    EXPECT(STATUS_INVALID_HANDLE, OpenWddmSetEvent(&(OPENWDDM_SETEVENT){.hEvent = once}));
    EXPECT(STATUS_INVALID_HANDLE, OpenWddmSetEvent(&(OPENWDDM_SETEVENT){.hEvent = NULL}));
    puts("set by hand and by a fence");
    return 0;
}
