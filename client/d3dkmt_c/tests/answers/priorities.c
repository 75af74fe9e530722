/* Priorities that a program sets and is told again: of contexts of either kind, of the process, of allocations. An allocation's properties
 * change; the first form of a reclaim has no fence; a program hears of its budgets. */
#include "steps.h"

enum { BYTES = 1 << 20 };

static void of_context(D3DKMT_HANDLE context) {
    D3DKMT_GETCONTEXTSCHEDULINGPRIORITY told = {.hContext = context, .Priority = 77};
    OK(D3DKMTGetContextSchedulingPriority(&told));
    CHECK(told.Priority == 0);
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY set = {.hContext = context, .Priority = -3};
    OK(D3DKMTSetContextSchedulingPriority(&set));
    OK(D3DKMTGetContextSchedulingPriority(&told));
    CHECK(told.Priority == -3);
    set.Priority = 8;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSetContextSchedulingPriority(&set));

    D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY among = {.hContext = context, .Priority = 5};
    OK(D3DKMTSetContextInProcessSchedulingPriority(&among));
    D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY own = {.hContext = context};
    OK(D3DKMTGetContextInProcessSchedulingPriority(&own));
    CHECK(own.Priority == 5);
    among.Priority = -8;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSetContextInProcessSchedulingPriority(&among));
    own.hContext = 0;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetContextInProcessSchedulingPriority(&own));
    CHECK(own.Priority == 5);
}

static void of_process(D3DKMT_HANDLE device) {
    HANDLE processes[] = {NULL, (HANDLE)(intptr_t)-1};
    for (int nth = 0; nth < 2; nth++) {
        D3DKMT_SCHEDULINGPRIORITYCLASS class = 77;
        OK(D3DKMTGetProcessSchedulingPriorityClass(processes[nth], &class));
        CHECK(class == D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL);
        OK(D3DKMTSetProcessSchedulingPriorityClass(processes[nth], D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE));
        OK(D3DKMTGetProcessSchedulingPriorityClass(processes[nth], &class));
        CHECK(class == D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE);
        OK(D3DKMTSetProcessSchedulingPriorityClass(processes[nth], D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL));
    }
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSetProcessSchedulingPriorityClass(NULL, 6));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSetProcessSchedulingPriorityClass(NULL, -1));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetProcessSchedulingPriorityClass(NULL, NULL));
    D3DKMT_SCHEDULINGPRIORITYCLASS class = 77;
    CHECK(!NT_SUCCESS(D3DKMTGetProcessSchedulingPriorityClass((HANDLE)(uintptr_t)device, &class)));
    CHECK(class == 77);
}

static void of_allocation(D3DKMT_HANDLE device, SURFACE surface, const D3DKMT_CREATEPAGINGQUEUE* paging) {
    UINT priority = D3DKMT_OFFER_PRIORITY_AUTO, high = 0xa0000000;
    D3DKMT_SETALLOCATIONPRIORITY set = {
        .hDevice = device, .phAllocationList = &surface.handle, .AllocationCount = 1, .pPriorities = &high};
    OK(D3DKMTSetAllocationPriority(&set));
    D3DKMT_GETALLOCATIONPRIORITY get = {
        .hDevice = device, .phAllocationList = &surface.handle, .AllocationCount = 1, .pPriorities = &priority};
    OK(D3DKMTGetAllocationPriority(&get));
    CHECK(priority == high);
    get.pPriorities = NULL;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetAllocationPriority(&get));

    D3DDDI_UPDATEALLOCPROPERTY update = {
        .hPagingQueue = paging->hPagingQueue,
        .hAllocation = surface.handle,
        .PreferredSegment = {.SegmentId0 = 1},
        .SetPreferredSegment = 1,
        .PagingFenceValue = 77,
    };
    NTSTATUS status = D3DKMTUpdateAllocationProperty(&update);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    CHECK((status == STATUS_PENDING) == (update.PagingFenceValue != 0));
    wait_for(device, paging->hSyncObject, update.PagingFenceValue);
    update.PropertyMaskValue = 1u << 9;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTUpdateAllocationProperty(&update));
}

static void reclaimed(D3DKMT_HANDLE device, SURFACE surface) {
    D3DKMT_OFFERALLOCATIONS offer = {
        .hDevice = device, .HandleList = &surface.handle, .NumAllocations = 1, .Priority = D3DKMT_OFFER_PRIORITY_HIGH};
    OK(D3DKMTOfferAllocations(&offer));
    BOOL discarded = 77;
    D3DKMT_RECLAIMALLOCATIONS reclaim = {
        .hDevice = device, .HandleList = &surface.handle, .NumAllocations = 1, .pDiscarded = &discarded};
    OK(D3DKMTReclaimAllocations(&reclaim));
    CHECK(discarded == 0);
    /* The allocation can be locked at once. */
    CHECK(lock_surface(device, surface)[7] == 0x777);
    unlock_surface(device, surface);
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTReclaimAllocations(&reclaim));
}

static void on_budget(D3DKMT_BUDGETCHANGENOTIFICATION* notification) {
    (void)notification;
}

static void on_trim(D3DKMT_TRIMNOTIFICATION* notification) {
    (void)notification;
}

/* Each kind of registration ends by the function of its own kind. */
static void budgets(D3DKMT_HANDLE device) {
    D3DKMT_REGISTERBUDGETCHANGENOTIFICATION budget = {.hDevice = device};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTRegisterBudgetChangeNotification(&budget));
    budget.Callback = on_budget;
    OK(D3DKMTRegisterBudgetChangeNotification(&budget));
    D3DKMT_REGISTERTRIMNOTIFICATION trim = {.hDevice = device, .Callback = on_trim};
    OK(D3DKMTRegisterTrimNotification(&trim));
    D3DKMT_UNREGISTERTRIMNOTIFICATION as_trim = {.Handle = budget.Handle};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTUnregisterTrimNotification(&as_trim));
    D3DKMT_UNREGISTERBUDGETCHANGENOTIFICATION end = {.Handle = trim.Handle};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTUnregisterBudgetChangeNotification(&end));
    end.Handle = budget.Handle;
    OK(D3DKMTUnregisterBudgetChangeNotification(&end));
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTUnregisterBudgetChangeNotification(&end));
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    D3DKMT_CREATECONTEXTVIRTUAL packets = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&packets));
    of_context(packets.hContext);
    D3DKMT_CREATEHWCONTEXT hardware = {.hDevice = device, .EngineAffinity = 1};
    if (NT_SUCCESS(D3DKMTCreateHwContext(&hardware))) {
        of_context(hardware.hHwContext);
    }
    of_process(device);
    SURFACE surface = create_surface(device, &paging, LOCAL_THEN_SYSTEM, BYTES);
    lock_surface(device, surface)[7] = 0x777;
    unlock_surface(device, surface);
    of_allocation(device, surface, &paging);
    reclaimed(device, surface);
    budgets(device);
    puts("told again");
    return 0;
}
