/* Surfaces that go to a display or to another surface: the owner of a display sets a mode, flips behind a packet context and behind a hardware
 * queue, waits for vertical blanks; a blt copies a surface, or parts of it. A present with anything about windows is refused. */
#include "steps.h"

enum { WIDTH = 64, HEIGHT = 16, BYTES = WIDTH * 4 * HEIGHT, GPU_BYTES = 64 << 10 };

/* A primary; where share is asked for, in a resource that has a global handle. */
static D3DKMT_HANDLE create_primary(D3DKMT_HANDLE device, const D3DKMT_CREATEPAGINGQUEUE* paging, D3DKMT_HANDLE* share) {
    SOFTGPU_DETAILED_ALLOCATION data = softgpu_detailed_allocation(LOCAL, CPU_VISIBLE | ACCESSED_PHYSICALLY, BYTES);
    data.details.display_width = WIDTH;
    data.details.display_height = HEIGHT;
    D3DDDI_ALLOCATIONINFO2 info = {
        .pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data, .Flags = {.Primary = 1}};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    create.Flags.CreateResource = create.Flags.CreateShared = share != NULL;
    OK(D3DKMTCreateAllocation2(&create));
    if (share != NULL) {
        *share = create.hGlobalShare;
    }
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = paging->hPagingQueue, .NumAllocations = 1, .AllocationList = &info.hAllocation};
    CHECK(NT_SUCCESS(D3DKMTMakeResident(&resident)));
    wait_for(device, paging->hSyncObject, resident.PagingFenceValue);
    return info.hAllocation;
}

static D3DKMT_PRESENT flip(D3DKMT_HANDLE context, D3DKMT_HANDLE primary) {
    D3DKMT_PRESENT present = {
        .hContext = context, .hSource = primary, .FlipInterval = D3DDDI_FLIPINTERVAL_ONE, .Flags = {.Flip = 1}};
    return present;
}

static void refusals(const D3DKMT_PRESENT* good) {
    D3DKMT_PRESENT wrong = *good;
    wrong.hWindow = &wrong;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTPresent(&wrong));
    wrong = *good;
    RECT part = {.right = 4, .bottom = 4};
    wrong.SubRectCnt = 1;
    wrong.pSrcSubRects = &part;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTPresent(&wrong));
    wrong = *good;
    wrong.BroadcastContextCount = 1;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTPresent(&wrong));
    wrong = *good;
    wrong.PrivateDriverDataSize = 8;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTPresent(&wrong));
    wrong = *good;
    wrong.Flags.SrcRectValid = 1;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTPresent(&wrong));
    wrong = *good;
    wrong.Flags.Value |= 1u << 31;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTPresent(&wrong));
    wrong = *good;
    wrong.Flags.Value = 0;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTPresent(&wrong));
    wrong = *good;
    wrong.FlipInterval = 9;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTPresent(&wrong));
}

/* The mode that the display has. */
static D3DKMT_DISPLAYMODE current_mode(D3DKMT_HANDLE adapter) {
    D3DKMT_CURRENTDISPLAYMODE current = {.VidPnSourceId = 0};
    D3DKMT_QUERYADAPTERINFO query = {.hAdapter = adapter,
                                     .Type = KMTQAITYPE_CURRENTDISPLAYMODE,
                                     .pPrivateDriverData = &current,
                                     .PrivateDriverDataSize = sizeof current};
    OK(D3DKMTQueryAdapterInfo(&query));
    current.VidPnSourceId = 9;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTQueryAdapterInfo(&query));
    return current.DisplayMode;
}

/* A display begins in its preferred mode; the list has that one, and rises. */
static void modes(D3DKMT_HANDLE adapter) {
    D3DKMT_DISPLAYMODE first = current_mode(adapter);
    CHECK(first.Width == 1920 && first.Height == 1080 && first.Format == D3DDDIFMT_X8R8G8B8);
    CHECK(first.IntegerRefreshRate == 60 && first.ScanLineOrdering == D3DDDI_VSSLO_PROGRESSIVE);
    D3DKMT_GETDISPLAYMODELIST list = {.hAdapter = adapter};
    OK(D3DKMTGetDisplayModeList(&list));
    D3DKMT_DISPLAYMODE found[32];
    UINT count = list.ModeCount;
    CHECK(count > 1 && count <= 32);
    list.pModeList = found;
    list.ModeCount = count - 1;
    EXPECT(STATUS_BUFFER_TOO_SMALL, D3DKMTGetDisplayModeList(&list));
    CHECK(list.ModeCount == count);
    OK(D3DKMTGetDisplayModeList(&list));
    CHECK(list.ModeCount == count && found[count - 1].Width == 1920 && found[count - 1].Flags.PreferredTiming);
    for (UINT at = 1; at < count; at++) {
        CHECK(found[at - 1].Width <= found[at].Width && !found[at - 1].Flags.PreferredTiming);
    }
    list.VidPnSourceId = 9;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetDisplayModeList(&list));
    list.VidPnSourceId = 0;
    list.hAdapter = 0;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetDisplayModeList(&list));
}

static void shown(D3DKMT_HANDLE adapter, D3DKMT_HANDLE device, D3DKMT_HANDLE context,
                  const D3DKMT_CREATEPAGINGQUEUE* paging) {
    D3DKMT_HANDLE share = 0;
    D3DKMT_HANDLE first = create_primary(device, paging, &share), second = create_primary(device, paging, NULL);
    D3DKMT_SETQUEUEDLIMIT limit = {.hDevice = device, .Type = D3DKMT_SET_QUEUEDLIMIT_PRESENT, .QueuedPresentLimit = 2};
    OK(D3DKMTSetQueuedLimit(&limit));
    limit.QueuedPresentLimit = 17;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSetQueuedLimit(&limit));
    limit.Type = D3DKMT_GET_QUEUEDLIMIT_PRESENT;
    OK(D3DKMTSetQueuedLimit(&limit));
    CHECK(limit.QueuedPresentLimit == 2);
    limit.Type = D3DKMT_SET_QUEUEDLIMIT_PRESENT;
    limit.QueuedPresentLimit = 0;
    OK(D3DKMTSetQueuedLimit(&limit));
    limit.Type = D3DKMT_GET_QUEUEDLIMIT_PRESENT;
    OK(D3DKMTSetQueuedLimit(&limit));
    CHECK(limit.QueuedPresentLimit == 3);
    limit.Type = D3DKMT_SET_QUEUEDLIMIT_PRESENT;
    limit.QueuedPresentLimit = 2;
    OK(D3DKMTSetQueuedLimit(&limit));
    limit.Type = 3;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSetQueuedLimit(&limit));

    D3DKMT_SETDISPLAYMODE mode = {.hDevice = device, .hPrimaryAllocation = first};
    EXPECT(STATUS_ACCESS_DENIED, D3DKMTSetDisplayMode(&mode));
    CHECK(D3DKMTCheckExclusiveOwnership() == 0);
    D3DKMT_VIDPNSOURCEOWNER_TYPE exclusive = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE;
    D3DDDI_VIDEO_PRESENT_SOURCE_ID source = 0;
    D3DKMT_SETVIDPNSOURCEOWNER2 own = {
        .Version1 = {
            .Version0 = {.hDevice = device, .pType = &exclusive, .pVidPnSourceId = &source, .VidPnSourceCount = 1},
            .Flags = {.UseNtHandles = 1},
        },
    };
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTSetVidPnSourceOwner2(&own));
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTSetVidPnSourceOwner1(&own.Version1));
    own.Version1.Flags.Value = 0;
    OK(D3DKMTSetVidPnSourceOwner2(&own));
    CHECK(D3DKMTCheckExclusiveOwnership() == 1);
    mode.DisplayOrientation = D3DDDI_ROTATION_90;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTSetDisplayMode(&mode));
    mode.DisplayOrientation = D3DDDI_ROTATION_IDENTITY;
    mode.ScanLineOrdering = D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTSetDisplayMode(&mode));
    mode.ScanLineOrdering = D3DDDI_VSSLO_PROGRESSIVE;
    D3DKMT_GETSHAREDPRIMARYHANDLE primary = {.hAdapter = adapter, .hSharedPrimary = 77};
    OK(D3DKMTGetSharedPrimaryHandle(&primary));
    CHECK(primary.hSharedPrimary == 0 && share != 0);
    modes(adapter);
    OK(D3DKMTSetDisplayMode(&mode));
    D3DKMT_DISPLAYMODE small = current_mode(adapter);
    CHECK(small.Width == WIDTH && small.Height == HEIGHT && !small.Flags.PreferredTiming);
    OK(D3DKMTGetSharedPrimaryHandle(&primary));
    CHECK(primary.hSharedPrimary == share);
    primary.VidPnSourceId = 9;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTGetSharedPrimaryHandle(&primary));

    D3DKMT_GETDEVICESTATE before = {.hDevice = device, .StateType = D3DKMT_DEVICESTATE_PRESENT};
    OK(D3DKMTGetDeviceState(&before));
    D3DKMT_PRESENT present = flip(context, second);
    refusals(&present);
    OK(D3DKMTPresent(&present));
    D3DKMT_WAITFORVERTICALBLANKEVENT blank = {.hAdapter = adapter, .hDevice = device};
    D3DKMT_WAITFORVERTICALBLANKEVENT2 next = {.hAdapter = adapter, .hDevice = device};
    D3DKMT_GETDEVICESTATE state = before;
    while (state.PresentState.PresentStats.PresentCount == before.PresentState.PresentStats.PresentCount) {
        OK(D3DKMTWaitForVerticalBlankEvent(&blank));
        OK(D3DKMTWaitForVerticalBlankEvent2(&next));
        OK(D3DKMTGetDeviceState(&state));
    }
    next.NumObjects = 1;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTWaitForVerticalBlankEvent2(&next));
    next.NumObjects = 0;
    next.hDevice = 0;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTWaitForVerticalBlankEvent2(&next));
    next.hDevice = device;
    next.hAdapter = 0;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTWaitForVerticalBlankEvent2(&next));
    blank.hAdapter = device;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTWaitForVerticalBlankEvent(&blank));
    blank.hAdapter = adapter;
    blank.VidPnSourceId = 9;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTWaitForVerticalBlankEvent(&blank));
    blank.VidPnSourceId = 0;
    blank.hDevice = 0;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTWaitForVerticalBlankEvent(&blank));

    D3DKMT_CREATEHWCONTEXT hardware = {.hDevice = device, .EngineAffinity = 1};
    if (!NT_SUCCESS(D3DKMTCreateHwContext(&hardware))) {
        return;
    }
    D3DKMT_CREATEHWQUEUE queue = {.hHwContext = hardware.hHwContext};
    OK(D3DKMTCreateHwQueue(&queue));
    before = state;
    D3DKMT_SUBMITPRESENTTOHWQUEUE submit = {.hHwQueues = &queue.hHwQueue, .PrivatePresentData = flip(0, first)};
    OK(D3DKMTSubmitPresentToHwQueue(&submit));
    while (state.PresentState.PresentStats.PresentCount == before.PresentState.PresentStats.PresentCount) {
        OK(D3DKMTGetDeviceState(&state));
    }
    submit.PrivatePresentData.Flags.Value = 1;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTSubmitPresentToHwQueue(&submit));
    submit.PrivatePresentData.Flags.Value = 4;
    submit.hHwQueues = NULL;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTSubmitPresentToHwQueue(&submit));
}

/* A word of a surface's content: two texels, the first in an even column. */
static uint64_t* texels(uint64_t* content, UINT column, UINT row) {
    return content + (row * WIDTH + column) / 2;
}

/* Rectangles of a blt: a part, and parts of a part. */
static void parts(D3DKMT_HANDLE device, D3DKMT_HANDLE context, const D3DKMT_CREATEPAGINGQUEUE* paging,
                  D3DKMT_HANDLE done) {
    SURFACE from = {.handle = create_primary(device, paging, NULL)}, to = {.handle = create_primary(device, paging, NULL)};
    uint64_t* content = lock_surface(device, from);
    for (UINT row = 0; row < HEIGHT; row++) {
        for (UINT column = 0; column < WIDTH; column += 2) {
            *texels(content, column, row) = row * 100 + column + 1;
        }
    }
    unlock_surface(device, from);
    D3DKMT_PRESENT blt = {.hContext = context,
                          .hSource = from.handle,
                          .hDestination = to.handle,
                          .SrcRect = {.left = 2, .top = 1, .right = 6, .bottom = 4},
                          .DstRect = {.left = 10, .top = 5, .right = 14, .bottom = 8},
                          .Flags = {.Blt = 1, .SrcRectValid = 1, .DstRectValid = 1}};
    OK(D3DKMTPresent(&blt));
    RECT corner = {.left = 60, .top = 15, .right = 62, .bottom = 16};
    D3DKMT_PRESENT whole = blt;
    whole.SrcRect = whole.DstRect = (RECT){.right = WIDTH, .bottom = HEIGHT};
    whole.SubRectCnt = 1;
    whole.pSrcSubRects = &corner;
    OK(D3DKMTPresent(&whole));
    D3DKMT_PRESENT wrong = whole;
    wrong.SrcRect.right = 32;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTPresent(&wrong)); /* a stretch */
    wrong.DstRect.right = 32;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTPresent(&wrong)); /* the corner is no part of SrcRect */
    wrong = blt;
    wrong.Flags.DstRectValid = 0;
    EXPECT(STATUS_NOT_SUPPORTED, D3DKMTPresent(&wrong));
    wrong = blt;
    wrong.SrcRect.left = wrong.SrcRect.right;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTPresent(&wrong));
    wrong = blt;
    wrong.SrcRect.left = -2;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTPresent(&wrong));
    wrong = blt;
    wrong.DstRect = (RECT){.left = 10, .top = 15, .right = 14, .bottom = 18};
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTPresent(&wrong)); /* beyond the surface */
    uint64_t value = 2;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {
        .hContext = context, .ObjectCount = 1, .ObjectHandleArray = &done, .MonitoredFenceValueArray = &value};
    OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
    wait_for(device, done, value);
    content = lock_surface(device, to);
    for (UINT row = 0; row < HEIGHT; row++) {
        for (UINT column = 0; column < WIDTH; column += 2) {
            int part = row >= 5 && row < 8 && column >= 10 && column < 14;
            uint64_t right = part ? (row - 4) * 100 + column - 8 + 1 : row == 15 && column == 60 ? 1561 : 0;
            CHECK(*texels(content, column, row) == right);
        }
    }
    unlock_surface(device, to);
}

static void copied(D3DKMT_HANDLE device, D3DKMT_HANDLE context, const D3DKMT_CREATEPAGINGQUEUE* paging) {
    SURFACE from = create_surface(device, paging, LOCAL, GPU_BYTES), to = create_surface(device, paging, LOCAL, GPU_BYTES);
    lock_surface(device, from)[9] = 0x999;
    unlock_surface(device, from);
    D3DKMT_PRESENT blt = {
        .hContext = context, .hSource = from.handle, .hDestination = to.handle, .Flags = {.Blt = 1}};
    OK(D3DKMTPresent(&blt));
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 done = {.hDevice = device, .Info = {.Type = D3DDDI_MONITORED_FENCE}};
    OK(D3DKMTCreateSynchronizationObject2(&done));
    uint64_t value = 1;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {
        .hContext = context, .ObjectCount = 1, .ObjectHandleArray = &done.hSyncObject, .MonitoredFenceValueArray = &value};
    OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
    wait_for(device, done.hSyncObject, value);
    CHECK(lock_surface(device, to)[9] == 0x999);
    unlock_surface(device, to);
    parts(device, context, paging, done.hSyncObject);
}

int main(void) {
    D3DKMT_HANDLE adapter = first_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATEPAGINGQUEUE paging = create_paging_queue(device);
    D3DKMT_CREATECONTEXTVIRTUAL packets = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&packets));
    copied(device, packets.hContext, &paging);
    D3DKMT_FLUSHHEAPTRANSITIONS flush = {.hAdapter = adapter};
    OK(D3DKMTFlushHeapTransitions(&flush));
    shown(adapter, device, packets.hContext, &paging);
    CHECK(D3DKMTCheckExclusiveOwnership() == 1);
    CHECK(!NT_SUCCESS(D3DKMTReleaseProcessVidPnSourceOwners((HANDLE)(uintptr_t)device)));
    CHECK(D3DKMTCheckExclusiveOwnership() == 1);
    OK(D3DKMTReleaseProcessVidPnSourceOwners(NULL));
    CHECK(D3DKMTCheckExclusiveOwnership() == 0);
    flush.hAdapter = device;
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTFlushHeapTransitions(&flush));
    puts("shown and copied");
    return 0;
}
