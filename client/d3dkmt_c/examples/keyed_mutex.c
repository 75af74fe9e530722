/* A keyed mutex, which hands a number on between two threads, and between two processes where OPENWDDM_SOCKET names a kernel. A wait
 * that takes too long, an owner that goes, the data that the runtime keeps with it, and the set in which it goes round with its
 * resource. */
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

#include "steps.h"

extern char** environ;

enum { ROUNDS = 200 };

static NTSTATUS acquire_within(D3DKMT_HANDLE mutex, uint64_t key, LARGE_INTEGER* timeout, uint64_t* fence_value) {
    D3DKMT_ACQUIREKEYEDMUTEX acquire = {.hKeyedMutex = mutex, .Key = key, .pTimeout = timeout, .FenceValue = 0xdead};
    NTSTATUS status = D3DKMTAcquireKeyedMutex(&acquire);
    *fence_value = acquire.FenceValue;
    return status;
}

static uint64_t acquire(D3DKMT_HANDLE mutex, uint64_t key) {
    uint64_t fence_value;
    OK(acquire_within(mutex, key, NULL, &fence_value));
    return fence_value;
}

static void release(D3DKMT_HANDLE mutex, uint64_t key, uint64_t fence_value) {
    D3DKMT_RELEASEKEYEDMUTEX release = {.hKeyedMutex = mutex, .Key = key, .FenceValue = fence_value};
    OK(D3DKMTReleaseKeyedMutex(&release));
}

static D3DKMT_HANDLE open(D3DKMT_HANDLE global) {
    D3DKMT_OPENKEYEDMUTEX open = {.hSharedHandle = global};
    OK(D3DKMTOpenKeyedMutex(&open));
    return open.hKeyedMutex;
}

static void destroy(D3DKMT_HANDLE mutex) {
    D3DKMT_DESTROYKEYEDMUTEX destroy = {.hKeyedMutex = mutex};
    OK(D3DKMTDestroyKeyedMutex(&destroy));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroyKeyedMutex(&destroy));
}

/* The mutex guards this number. */
static uint64_t number;

/* Takes each odd turn through a handle of its own. */
static void* odd_turns(void* global) {
    D3DKMT_HANDLE mutex = open((D3DKMT_HANDLE)(uintptr_t)global);
    for (uint64_t turn = 1; turn < ROUNDS; turn += 2) {
        CHECK(acquire(mutex, turn) == number);
        number++;
        release(mutex, turn + 1, number);
    }
    destroy(mutex);
    return NULL;
}

static void two_threads(void) {
    D3DKMT_CREATEKEYEDMUTEX create = {.InitialValue = 0};
    OK(D3DKMTCreateKeyedMutex(&create));
    CHECK((create.hSharedHandle & 0x3f) == 2 && (create.hKeyedMutex & 0x3f) == 0);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, odd_turns, (void*)(uintptr_t)create.hSharedHandle) == 0);
    for (uint64_t turn = 0; turn < ROUNDS; turn += 2) {
        CHECK(acquire(create.hKeyedMutex, turn) == number);
        number++;
        release(create.hKeyedMutex, turn + 1, number);
    }
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(acquire(create.hKeyedMutex, ROUNDS) == ROUNDS && number == ROUNDS);
    destroy(create.hKeyedMutex);
    /* The global handle has gone with the last. */
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenKeyedMutex(&(D3DKMT_OPENKEYEDMUTEX){.hSharedHandle = create.hSharedHandle}));
}

static double seconds(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void times(void) {
    D3DKMT_CREATEKEYEDMUTEX create = {.InitialValue = 1};
    OK(D3DKMTCreateKeyedMutex(&create));
    D3DKMT_HANDLE mutex = create.hKeyedMutex;
    uint64_t fence_value;
    /* Only a wait that took one time for another lasts two minutes. Not at all; 30 ms from now; a time of the year 1970, which has come; one that is 30 ms away. */
    LONGLONG since_1601 = ((LONGLONG)time(NULL) + 11644473600) * 10000000;
    struct { LONGLONG timeout; double least; } cases[] = {{0, 0}, {-300000, 0.03}, {116444736000000000, 0}, {since_1601 - 1, 0}};
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        double began = seconds();
        LARGE_INTEGER timeout = {.QuadPart = cases[index].timeout};
        EXPECT(STATUS_TIMEOUT, acquire_within(mutex, 2, &timeout, &fence_value));
        CHECK(fence_value == 0);
        CHECK(seconds() - began >= cases[index].least && seconds() - began < 120);
    }
    CHECK(acquire(mutex, 1) == 0);
    D3DKMT_HANDLE other = open(create.hSharedHandle);
    D3DKMT_RELEASEKEYEDMUTEX theirs = {.hKeyedMutex = other, .Key = 1};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTReleaseKeyedMutex(&theirs));
    /* The owner destroys its handle while it has the mutex: the mutex is abandoned. */
    destroy(mutex);
    EXPECT(STATUS_ABANDONED, acquire_within(other, 1, NULL, &fence_value));
    CHECK(fence_value == 0);
    EXPECT(STATUS_ABANDONED, D3DKMTReleaseKeyedMutex(&theirs));
    destroy(other);
}

static void runtime_data(void) {
    char data[] = {1, 2, 3, 4, 5, 6}, room[64];
    D3DKMT_CREATEKEYEDMUTEX2 create = {.pPrivateRuntimeData = data, .PrivateRuntimeDataSize = sizeof data};
    OK(D3DKMTCreateKeyedMutex2(&create));
    D3DKMT_OPENKEYEDMUTEX2 by_size = {.hSharedHandle = create.hSharedHandle, .PrivateRuntimeDataSize = sizeof data};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenKeyedMutex2(&by_size));
    by_size.pPrivateRuntimeData = room;
    memset(room, 'x', sizeof room);
    for (UINT size = 1; size <= sizeof room; size++) {
        by_size.PrivateRuntimeDataSize = size;
        NTSTATUS wanted = size == sizeof data ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
        EXPECT(wanted, D3DKMTOpenKeyedMutex2(&by_size));
    }
    CHECK(room[0] == 'x' && room[5] == 'x');
    destroy(by_size.hKeyedMutex);
    destroy(open(create.hSharedHandle));
    /* A releasing owner may leave other data, of the same size. */
    CHECK(acquire(create.hKeyedMutex, 0) == 0);
    char others[] = {6, 5, 4, 3, 2, 1};
    D3DKMT_RELEASEKEYEDMUTEX2 release = {.hKeyedMutex = create.hKeyedMutex, .Key = 7, .FenceValue = 8, .pPrivateRuntimeData = others};
    release.PrivateRuntimeDataSize = 5;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTReleaseKeyedMutex2(&release));
    release.PrivateRuntimeDataSize = sizeof others;
    OK(D3DKMTReleaseKeyedMutex2(&release));
    D3DKMT_ACQUIREKEYEDMUTEX2 acquire = {.hKeyedMutex = create.hKeyedMutex, .Key = 7, .pPrivateRuntimeData = room, .PrivateRuntimeDataSize = sizeof others};
    OK(D3DKMTAcquireKeyedMutex2(&acquire));
    CHECK(acquire.FenceValue == 8 && memcmp(room, others, sizeof others) == 0);
    destroy(create.hKeyedMutex);
    create.Flags.Value = 2;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCreateKeyedMutex2(&create));
}

/* With its resource and a synchronization object it goes round by one NT handle. */
static void shared_set(void) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    D3DKMT_CREATEALLOCATION resource = {.hDevice = device, .Flags = {.CreateResource = 1, .CreateShared = 1, .NtSecuritySharing = 1}};
    OK(D3DKMTCreateAllocation2(&resource));
    char data[] = "kept with it";
    D3DKMT_CREATEKEYEDMUTEX2 mutex = {.pPrivateRuntimeData = data, .PrivateRuntimeDataSize = sizeof data, .Flags = {.NtSecuritySharing = 1}};
    OK(D3DKMTCreateKeyedMutex2(&mutex));
    CHECK(mutex.hSharedHandle == 0);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 sync = {
        .hDevice = device,
        .Info = {.Type = D3DDDI_SYNCHRONIZATION_MUTEX, .Flags = {.Shared = 1, .NtSecuritySharing = 1}},
    };
    OK(D3DKMTCreateSynchronizationObject2(&sync));
    D3DKMT_HANDLE objects[] = {resource.hResource, mutex.hKeyedMutex, sync.hSyncObject};
    HANDLE shared = NULL;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTShareObjects(1, objects + 1, NULL, STANDARD_RIGHTS_READ, &shared));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTShareObjects(2, objects, NULL, STANDARD_RIGHTS_READ, &shared));
    OK(D3DKMTShareObjects(3, objects, NULL, STANDARD_RIGHTS_READ, &shared));
    char room[sizeof data];
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = {.hDevice = device, .hNtHandle = shared, .pKeyedMutexPrivateRuntimeData = room};
    open.KeyedMutexPrivateRuntimeDataSize = sizeof room - 1;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTOpenResourceFromNtHandle(&open));
    open.KeyedMutexPrivateRuntimeDataSize = sizeof room;
    memset(room, 'x', sizeof room);
    OK(D3DKMTOpenResourceFromNtHandle(&open));
    /* The opener's data are for a mutex that has none yet; nothing is written there. */
    CHECK(room[0] == 'x');
    CHECK(open.hResource != 0 && open.hSyncObject != 0 && open.hKeyedMutex != mutex.hKeyedMutex);
    CHECK(acquire(mutex.hKeyedMutex, 0) == 0);
    release(mutex.hKeyedMutex, 1, 5);
    CHECK(acquire(open.hKeyedMutex, 1) == 5);
    /* The open goes with its device, and with it the owner of the mutex. */
    D3DKMT_DESTROYDEVICE gone = {.hDevice = device};
    OK(D3DKMTDestroyDevice(&gone));
    uint64_t fence_value;
    EXPECT(STATUS_ABANDONED, acquire_within(mutex.hKeyedMutex, 1, NULL, &fence_value));
    destroy(mutex.hKeyedMutex);
    OPENWDDM_CLOSEHANDLE close = {.hObject = shared};
    OK(OpenWddmCloseHandle(&close));
}

/* The second process: it takes the odd turns, and goes with the mutex in its hand. */
static int second(const char* global) {
    D3DKMT_HANDLE mutex = open((D3DKMT_HANDLE)strtoul(global, NULL, 16));
    for (uint64_t turn = 1; turn < ROUNDS; turn += 2) {
        CHECK(acquire(mutex, turn) == turn);
        release(mutex, turn + 1, turn + 1);
    }
    acquire(mutex, 1000);
    return 0;
}

static void two_processes(char* program) {
    D3DKMT_CREATEKEYEDMUTEX create = {.InitialValue = 0};
    OK(D3DKMTCreateKeyedMutex(&create));
    char global[16];
    snprintf(global, sizeof global, "%x", create.hSharedHandle);
    char* words[] = {program, global, NULL};
    pid_t child = 0;
    CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ) == 0);
    uint64_t fence_value;
    LARGE_INTEGER a_minute = {.QuadPart = -600000000};
    for (uint64_t turn = 0; turn < ROUNDS; turn += 2) {
        OK(acquire_within(create.hKeyedMutex, turn, &a_minute, &fence_value));
        CHECK(fence_value == turn);
        release(create.hKeyedMutex, turn + 1, turn + 1);
    }
    OK(acquire_within(create.hKeyedMutex, ROUNDS, &a_minute, &fence_value));
    release(create.hKeyedMutex, 1000, 0);
    /* A waiting call is told that the mutex has gone. */
    EXPECT(STATUS_ABANDONED, acquire_within(create.hKeyedMutex, 1001, &a_minute, &fence_value));
    CHECK(fence_value == 0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    destroy(create.hKeyedMutex);
}

int main(int count, char** arguments) {
    if (count == 2) {
        return second(arguments[1]);
    }
    two_threads();
    times();
    runtime_data();
    shared_set();
    if (getenv("OPENWDDM_SOCKET") != NULL) {
        two_processes(arguments[0]);
        puts("handed on between threads and processes");
    } else {
        puts("handed on between threads");
    }
    return 0;
}
