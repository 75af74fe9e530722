/* A program waits until a device is idle, marks a device as in error, and asks on which adapter a shared resource is. */
#include <pthread.h>
#include <time.h>

#include "steps.h"

enum { BYTES = 64 << 10 };

static D3DKMT_HANDLE monitored(D3DKMT_HANDLE device) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
    OK(D3DKMTCreateSynchronizationObject2(&create));
    return create.hSyncObject;
}

/* A context waits for the fence, and fills a surface behind it. */
static SURFACE fill_behind(D3DKMT_HANDLE device, D3DKMT_HANDLE fence) {
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SURFACE target = create_surface(device, &paging, LOCAL, BYTES), commands = create_surface(device, &paging, SYSTEM, BYTES);
    uint64_t* words = lock_surface(device, commands);
    UINT length = (UINT)((char*)softgpu_fill(words, target.va, BYTES, 0x5a5a5a5a) - (char*)words);
    unlock_surface(device, commands);
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&context));
    uint64_t one = 1;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait = {
        .hContext = context.hContext, .ObjectCount = 1, .ObjectHandleArray = &fence, .MonitoredFenceValueArray = &one};
    OK(D3DKMTWaitForSynchronizationObjectFromGpu(&wait));
    D3DKMT_SUBMITCOMMAND submit = {
        .Commands = commands.va,
        .CommandLength = length,
        .BroadcastContextCount = 1,
        .BroadcastContext = {context.hContext},
    };
    OK(D3DKMTSubmitCommand(&submit));
    return target;
}

typedef struct {
    D3DKMT_HANDLE device, fence;
    volatile int is_signalled;
} LATER;

static void* signal_later(void* argument) {
    LATER* later = argument;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    uint64_t one = 1;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {
        .hDevice = later->device, .ObjectCount = 1, .ObjectHandleArray = &later->fence, .FenceValueArray = &one};
    later->is_signalled = 1;
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&signal));
    return NULL;
}

/* The context is done with its fill when the wait returns, and had to wait for a fence that a thread signals. */
static void becomes_idle(D3DKMT_HANDLE device) {
    D3DKMT_WAITFORIDLE idle = {.hDevice = device};
    OK(D3DKMTWaitForIdle(&idle));
    LATER later = {.device = device, .fence = monitored(device)};
    SURFACE target = fill_behind(device, later.fence);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, signal_later, &later) == 0);
    OK(D3DKMTWaitForIdle(&idle));
    CHECK(later.is_signalled);
    CHECK(lock_surface(device, target)[BYTES / 8 - 1] == 0x5a5a5a5a5a5a5a5a);
    unlock_surface(device, target);
    CHECK(pthread_join(thread, NULL) == 0);
    idle.hDevice = 0;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTWaitForIdle(&idle));
}

static void* mark(void* argument) {
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    OK(D3DKMTMarkDeviceAsError(argument));
    return NULL;
}

/* The device is lost for every call but those that ask why, and a wait for it ends. */
static void in_error(D3DKMT_HANDLE adapter) {
    D3DKMT_HANDLE device = create_device(adapter), sound = create_device(adapter);
    D3DKMT_MARKDEVICEASERROR error = {.hDevice = device, .Reason = 5};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTMarkDeviceAsError(&error));
    D3DKMT_GETDEVICESTATE state = {.hDevice = device, .StateType = D3DKMT_DEVICESTATE_EXECUTION};
    OK(D3DKMTGetDeviceState(&state));
    CHECK(state.ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);

    fill_behind(device, monitored(device));
    error.Reason = D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, mark, &error) == 0);
    D3DKMT_WAITFORIDLE idle = {.hDevice = device};
    EXPECT(STATUS_DEVICE_REMOVED, D3DKMTWaitForIdle(&idle));
    CHECK(pthread_join(thread, NULL) == 0);

    OK(D3DKMTGetDeviceState(&state));
    CHECK(state.ExecutionState == D3DKMT_DEVICEEXECUTION_STOPPED);
    EXPECT(STATUS_DEVICE_REMOVED, D3DKMTMarkDeviceAsError(&error));
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    EXPECT(STATUS_DEVICE_REMOVED, D3DKMTCreateContextVirtual(&context));
    D3DKMT_CREATECONTEXTVIRTUAL other = {.hDevice = sound, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&other));
}

static void of_resource(D3DKMT_HANDLE device) {
    D3DKMT_ENUMADAPTERS list;
    OK(D3DKMTEnumAdapters(&list));
    SOFTGPU_ALLOCATION data = softgpu_allocation(SYSTEM, CPU_VISIBLE, BYTES);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info, .Flags = {.CreateResource = 1, .CreateShared = 1}};
    OK(D3DKMTCreateAllocation2(&create));
    D3DKMT_GETSHAREDRESOURCEADAPTERLUID where = {.hGlobalShare = create.hGlobalShare};
    OK(D3DKMTGetSharedResourceAdapterLuid(&where));
    CHECK(where.AdapterLuid.LowPart == list.Adapters[0].AdapterLuid.LowPart);
    CHECK(where.AdapterLuid.HighPart == list.Adapters[0].AdapterLuid.HighPart);

    D3DDDI_ALLOCATIONINFO2 again = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    create = (D3DKMT_CREATEALLOCATION){
        .hDevice = device,
        .NumAllocations = 1,
        .pAllocationInfo2 = &again,
        .Flags = {.CreateResource = 1, .CreateShared = 1, .NtSecuritySharing = 1},
    };
    OK(D3DKMTCreateAllocation2(&create));
    /* This process has it; a process that the kernel does not know is refused, and so is a handle of no resource. */
    ULONG ids[8];
    D3DKMT_ENUMPROCESSES processes = {.AdapterLuid = where.AdapterLuid, .pBuffer = ids, .BufferCount = 8};
    OK(D3DKMTEnumProcesses(&processes));
    CHECK(processes.BufferCount >= 1);
    D3DKMT_CHECKSHAREDRESOURCEACCESS access = {.hResource = create.hResource, .ClientPid = ids[0]};
    D3DKMT_CHECKSHAREDRESOURCEACCESS unknown = {.hResource = create.hResource, .ClientPid = 4711};
    D3DKMT_CHECKSHAREDRESOURCEACCESS wrong = {.hResource = device, .ClientPid = ids[0]};
    OK(D3DKMTCheckSharedResourceAccess(&access));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCheckSharedResourceAccess(&unknown));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTCheckSharedResourceAccess(&wrong));
    D3DKMT_GETSHAREDRESOURCEADAPTERLUID by_handle = {0};
    OK(D3DKMTShareObjects(1, &create.hResource, NULL, D3DDDI_SYNC_OBJECT_ALL_ACCESS, &by_handle.hNtHandle));
    OK(D3DKMTGetSharedResourceAdapterLuid(&by_handle));
    CHECK(by_handle.AdapterLuid.LowPart == where.AdapterLuid.LowPart);
    by_handle.hGlobalShare = where.hGlobalShare;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetSharedResourceAdapterLuid(&by_handle));
    where.hGlobalShare = device;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetSharedResourceAdapterLuid(&where));
}

/* An allocation on its way into memory is there when the flush returns: the fence's word says so without a wait. */
static void arrives(D3DKMT_HANDLE adapter, D3DKMT_HANDLE device) {
    enum { LARGE = 8 << 20 };
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    SOFTGPU_ALLOCATION data = softgpu_allocation(LOCAL, CPU_VISIBLE, LARGE);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    OK(D3DKMTCreateAllocation2(&create));
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = paging.hPagingQueue, .NumAllocations = 1, .AllocationList = &info.hAllocation};
    EXPECT(STATUS_PENDING, D3DKMTMakeResident(&resident));
    D3DKMT_FLUSHHEAPTRANSITIONS flush = {.hAdapter = adapter};
    OK(D3DKMTFlushHeapTransitions(&flush));
    CHECK(*(const volatile uint64_t*)paging.FenceValueCPUVirtualAddress >= resident.PagingFenceValue);
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    becomes_idle(device);
    arrives(adapter, device);
    of_resource(device);
    in_error(adapter);
    puts("idle, in error, and found");
    return 0;
}
