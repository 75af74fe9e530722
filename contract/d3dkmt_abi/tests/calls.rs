//! The layouts of presents, priorities and other calls against those that `windows-sys` has published.

#[macro_use]
mod comparison;

use d3dkmt_abi as ours;
use windows_sys::Wdk::Graphics::Direct3D as published;

#[rustfmt::skip]
#[test]
fn calls_are_laid_out_as_published() {
    same_layout! {
        D3DDDI_UPDATEALLOCPROPERTY { hPagingQueue hAllocation SupportedSegmentSet PreferredSegment Flags PagingFenceValue
            Anonymous },
        D3DKMT_BUDGETCHANGENOTIFICATION { Context Budget },
        D3DKMT_CHECKSHAREDRESOURCEACCESS { hResource ClientPid },
        D3DKMT_CREATESYNCFILE { hDevice hMonitoredFence FenceValue hSyncFile },
        D3DKMT_FLUSHHEAPTRANSITIONS { hAdapter },
        D3DKMT_GETALLOCATIONPRIORITY { hDevice hResource phAllocationList AllocationCount pPriorities },
        D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY { hContext Priority },
        D3DKMT_GETCONTEXTSCHEDULINGPRIORITY { hContext Priority },
        D3DKMT_GETSHAREDPRIMARYHANDLE { hAdapter VidPnSourceId hSharedPrimary },
        D3DKMT_GETSHAREDRESOURCEADAPTERLUID { hGlobalShare hNtHandle AdapterLuid },
        D3DKMT_MARKDEVICEASERROR { hDevice Reason },
        D3DKMT_PRESENT { Anonymous1 hWindow VidPnSourceId hSource hDestination Color DstRect SrcRect SubRectCnt
            pSrcSubRects PresentCount FlipInterval Flags BroadcastContextCount BroadcastContext PresentLimitSemaphore
            PresentHistoryToken pPresentRegions Anonymous2 Duration BroadcastSrcAllocation BroadcastDstAllocation
            PrivateDriverDataSize pPrivateDriverData bOptimizeForComposition },
        D3DKMT_PRESENTHISTORYTOKEN { Model TokenSize CompositionBindingId Token },
        D3DKMT_QUERYPROCESSOFFERINFO { cbSize hProcess DecommitUniqueness DecommittableBytes },
        D3DKMT_RECLAIMALLOCATIONS { hDevice pResources HandleList pDiscarded NumAllocations },
        D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY { hContext Priority },
        D3DKMT_SETDISPLAYMODE { hDevice hPrimaryAllocation ScanLineOrdering DisplayOrientation
            PrivateDriverFormatAttribute Flags },
        D3DKMT_SETQUEUEDLIMIT { hDevice Type Anonymous },
        D3DKMT_SETSTABLEPOWERSTATE { hAdapter Enabled },
        D3DKMT_SETVIDPNSOURCEOWNER1 { Version0 Flags },
        D3DKMT_SETVIDPNSOURCEOWNER2 { Version1 pVidPnSourceNtHandles },
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 { hContext ObjectCount ObjectHandleArray Flags BroadcastContextCount
            BroadcastContext Anonymous },
        D3DKMT_SUBMITPRESENTTOHWQUEUE { hHwQueues PrivatePresentData },
        D3DKMT_WAITFORIDLE { hDevice },
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 { hContext ObjectCount ObjectHandleArray Anonymous },
        D3DKMT_WAITFORVERTICALBLANKEVENT { hAdapter hDevice VidPnSourceId },
        D3DKMT_WAITFORVERTICALBLANKEVENT2 { hAdapter hDevice VidPnSourceId NumObjects ObjectHandleArray },
    }
}

#[rustfmt::skip]
#[test]
fn their_numbers_are_the_published_ones() {
    same_number! {
        D3DDDI_FLIPINTERVAL_IMMEDIATE D3DDDI_FLIPINTERVAL_ONE D3DDDI_FLIPINTERVAL_TWO D3DDDI_FLIPINTERVAL_THREE
        D3DDDI_FLIPINTERVAL_FOUR D3DDDI_FLIPINTERVAL_IMMEDIATE_ALLOW_TEARING D3DKMT_PM_UNINITIALIZED
        D3DKMT_PM_REDIRECTED_GDI D3DKMT_PM_REDIRECTED_FLIP D3DKMT_PM_REDIRECTED_BLT D3DKMT_PM_REDIRECTED_VISTABLT
        D3DKMT_PM_SCREENCAPTUREFENCE D3DKMT_PM_REDIRECTED_GDI_SYSMEM D3DKMT_PM_REDIRECTED_COMPOSITION
        D3DKMT_PM_SURFACECOMPLETE D3DKMT_PM_FLIPMANAGER D3DKMT_SET_QUEUEDLIMIT_PRESENT D3DKMT_GET_QUEUEDLIMIT_PRESENT
        D3DDDI_VSSLO_UNINITIALIZED D3DDDI_VSSLO_PROGRESSIVE D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST
        D3DDDI_VSSLO_INTERLACED_LOWERFIELDFIRST D3DDDI_VSSLO_OTHER D3DDDI_ROTATION_IDENTITY D3DDDI_ROTATION_90
        D3DDDI_ROTATION_180 D3DDDI_ROTATION_270 D3DKMT_SCHEDULINGPRIORITYCLASS_IDLE
        D3DKMT_SCHEDULINGPRIORITYCLASS_BELOW_NORMAL D3DKMT_SCHEDULINGPRIORITYCLASS_NORMAL
        D3DKMT_SCHEDULINGPRIORITYCLASS_ABOVE_NORMAL D3DKMT_SCHEDULINGPRIORITYCLASS_HIGH
        D3DKMT_SCHEDULINGPRIORITYCLASS_REALTIME D3DKMT_DEVICE_ERROR_REASON_GENERIC
        D3DKMT_DEVICE_ERROR_REASON_DRIVER_ERROR
    }
}
