//! Presents, the modes and vertical blanks of displays, and owners of displays with flags (memory §5.7, sync §4.6).

use crate::display::D3DKMT_SETVIDPNSOURCEOWNER;
use crate::layout::layout;
use crate::number::*;

layout! {
    structure RECT { 16;
        0 left: LONG,
        4 top: LONG,
        8 right: LONG,
        12 bottom: LONG,
    }

    number D3DDDI_FLIPINTERVAL_TYPE { INT;
        D3DDDI_FLIPINTERVAL_IMMEDIATE = 0,
        D3DDDI_FLIPINTERVAL_ONE = 1,
        D3DDDI_FLIPINTERVAL_TWO = 2,
        D3DDDI_FLIPINTERVAL_THREE = 3,
        D3DDDI_FLIPINTERVAL_FOUR = 4,
        D3DDDI_FLIPINTERVAL_IMMEDIATE_ALLOW_TEARING = 5,
    }

    number D3DKMT_PRESENT_MODEL { INT;
        D3DKMT_PM_UNINITIALIZED = 0,
        D3DKMT_PM_REDIRECTED_GDI = 1,
        D3DKMT_PM_REDIRECTED_FLIP = 2,
        D3DKMT_PM_REDIRECTED_BLT = 3,
        D3DKMT_PM_REDIRECTED_VISTABLT = 4,
        D3DKMT_PM_SCREENCAPTUREFENCE = 5,
        D3DKMT_PM_REDIRECTED_GDI_SYSMEM = 6,
        D3DKMT_PM_REDIRECTED_COMPOSITION = 7,
        D3DKMT_PM_SURFACECOMPLETE = 8,
        D3DKMT_PM_FLIPMANAGER = 9,
    }

    flags D3DKMT_PRESENTFLAGS { UINT;
        0 1 Blt,
        1 1 ColorFill,
        2 1 Flip,
        3 1 FlipDoNotFlip,
        4 1 FlipDoNotWait,
        5 1 FlipRestart,
        6 1 DstRectValid,
        7 1 SrcRectValid,
        8 1 RestrictVidPnSource,
        9 1 SrcColorKey,
        10 1 DstColorKey,
        11 1 LinearToSrgb,
        12 1 PresentCountValid,
        13 1 Rotate,
        14 1 PresentToBitmap,
        15 1 RedirectedFlip,
        16 1 RedirectedBlt,
        17 1 FlipStereo,
        18 1 FlipStereoTemporaryMono,
        19 1 FlipStereoPreferRight,
        20 1 BltStereoUseRight,
        21 1 PresentHistoryTokenOnly,
        22 1 PresentRegionsValid,
        23 1 PresentDDA,
        24 1 ProtectedContentBlankedOut,
        25 1 RemoteSession,
        26 1 CrossAdapter,
        27 1 DurationValid,
        28 1 PresentIndirect,
        29 1 PresentHMD,
    }

    /// The token itself is the compositor's: here it is so many bytes.
    structure D3DKMT_PRESENTHISTORYTOKEN { 1080;
        0 Model: D3DKMT_PRESENT_MODEL,
        4 TokenSize: UINT,
        8 CompositionBindingId: UINT64,
        16 Token: [UINT64; 133],
    }

    alternative D3DKMT_PRESENT_BY { 4;
        hDevice: D3DKMT_HANDLE,
        hContext: D3DKMT_HANDLE,
    }

    alternative D3DKMT_PRESENT_INDIRECT { 4;
        hAdapter: D3DKMT_HANDLE,
        hIndirectContext: D3DKMT_HANDLE,
    }

    structure D3DKMT_PRESENT { 1496;
        0 Anonymous1: D3DKMT_PRESENT_BY,
        8 hWindow: HANDLE,
        16 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
        20 hSource: D3DKMT_HANDLE,
        24 hDestination: D3DKMT_HANDLE,
        28 Color: UINT,
        32 DstRect: RECT,
        48 SrcRect: RECT,
        64 SubRectCnt: UINT,
        72 pSrcSubRects: *const RECT,
        80 PresentCount: UINT,
        84 FlipInterval: D3DDDI_FLIPINTERVAL_TYPE,
        88 Flags: D3DKMT_PRESENTFLAGS,
        92 BroadcastContextCount: ULONG,
        96 BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT],
        352 PresentLimitSemaphore: HANDLE,
        360 PresentHistoryToken: D3DKMT_PRESENTHISTORYTOKEN,
        1440 pPresentRegions: *mut VOID,
        1448 Anonymous2: D3DKMT_PRESENT_INDIRECT,
        1452 Duration: UINT,
        1456 BroadcastSrcAllocation: *mut D3DKMT_HANDLE,
        1464 BroadcastDstAllocation: *mut D3DKMT_HANDLE,
        1472 PrivateDriverDataSize: UINT,
        1480 pPrivateDriverData: *mut VOID,
        1488 bOptimizeForComposition: BOOLEAN,
    }

    structure D3DKMT_SUBMITPRESENTTOHWQUEUE { 1504;
        0 hHwQueues: *mut D3DKMT_HANDLE,
        8 PrivatePresentData: D3DKMT_PRESENT,
    }

    number D3DKMT_QUEUEDLIMIT_TYPE { INT;
        D3DKMT_SET_QUEUEDLIMIT_PRESENT = 1,
        D3DKMT_GET_QUEUEDLIMIT_PRESENT = 2,
    }

    structure D3DKMT_SETQUEUEDLIMIT_FLIP { 8;
        0 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
        4 QueuedPendingFlipLimit: UINT,
    }

    alternative D3DKMT_SETQUEUEDLIMIT_LIMIT { 8;
        QueuedPresentLimit: UINT,
        Anonymous: D3DKMT_SETQUEUEDLIMIT_FLIP,
    }

    structure D3DKMT_SETQUEUEDLIMIT { 16;
        0 hDevice: D3DKMT_HANDLE,
        4 Type: D3DKMT_QUEUEDLIMIT_TYPE,
        8 Anonymous: D3DKMT_SETQUEUEDLIMIT_LIMIT,
    }

    number D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING { INT;
        D3DDDI_VSSLO_UNINITIALIZED = 0,
        D3DDDI_VSSLO_PROGRESSIVE = 1,
        D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST = 2,
        D3DDDI_VSSLO_INTERLACED_LOWERFIELDFIRST = 3,
        D3DDDI_VSSLO_OTHER = 255,
    }

    number D3DDDI_ROTATION { INT;
        D3DDDI_ROTATION_IDENTITY = 1,
        D3DDDI_ROTATION_90 = 2,
        D3DDDI_ROTATION_180 = 3,
        D3DDDI_ROTATION_270 = 4,
    }

    structure D3DKMT_SETDISPLAYMODE_FLAGS { 8;
        0 PreserveVidPn: BOOLEAN,
        4 Reserved: UINT,
    }

    structure D3DKMT_SETDISPLAYMODE { 28;
        0 hDevice: D3DKMT_HANDLE,
        4 hPrimaryAllocation: D3DKMT_HANDLE,
        8 ScanLineOrdering: D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING,
        12 DisplayOrientation: D3DDDI_ROTATION,
        16 PrivateDriverFormatAttribute: UINT,
        20 Flags: D3DKMT_SETDISPLAYMODE_FLAGS,
    }

    structure D3DKMT_WAITFORVERTICALBLANKEVENT { 12;
        0 hAdapter: D3DKMT_HANDLE,
        4 hDevice: D3DKMT_HANDLE,
        8 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    }

    structure D3DKMT_WAITFORVERTICALBLANKEVENT2 { 80;
        0 hAdapter: D3DKMT_HANDLE,
        4 hDevice: D3DKMT_HANDLE,
        8 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
        12 NumObjects: UINT,
        16 ObjectHandleArray: [HANDLE; 8],
    }

    flags D3DKMT_VIDPNSOURCEOWNER_FLAGS { UINT;
        0 1 AllowOutputDuplication,
        1 1 DisableDWMVirtualMode,
        2 1 UseNtHandles,
    }

    structure D3DKMT_SETVIDPNSOURCEOWNER1 { 40;
        0 Version0: D3DKMT_SETVIDPNSOURCEOWNER,
        32 Flags: D3DKMT_VIDPNSOURCEOWNER_FLAGS,
    }

    structure D3DKMT_SETVIDPNSOURCEOWNER2 { 48;
        0 Version1: D3DKMT_SETVIDPNSOURCEOWNER1,
        40 pVidPnSourceNtHandles: *const HANDLE,
    }
}
