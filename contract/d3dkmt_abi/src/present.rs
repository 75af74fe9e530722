//! Presents, the modes and vertical blanks of displays, and owners of displays with flags (memory §5.7, sync §4.6).

use crate::display::D3DKMT_SETVIDPNSOURCEOWNER;
use crate::format::D3DDDIFORMAT;
use crate::layout::layout;
use crate::number::*;

layout! {
    structure RECT { 16;
        0 left: LONG = "in: the first column",
        4 top: LONG = "in: the first row",
        8 right: LONG = "in: the column behind the last",
        12 bottom: LONG = "in: the row behind the last",
    }

    number D3DDDI_FLIPINTERVAL_TYPE { INT;
        D3DDDI_FLIPINTERVAL_IMMEDIATE = 0: "shown at once; the display must be able to",
        D3DDDI_FLIPINTERVAL_ONE = 1: "shown at least 1 vertical blank behind the flip before it",
        D3DDDI_FLIPINTERVAL_TWO = 2: "shown at least 2 vertical blanks behind the flip before it",
        D3DDDI_FLIPINTERVAL_THREE = 3: "shown at least 3 vertical blanks behind the flip before it",
        D3DDDI_FLIPINTERVAL_FOUR = 4: "shown at least 4 vertical blanks behind the flip before it",
        D3DDDI_FLIPINTERVAL_IMMEDIATE_ALLOW_TEARING = 5: "refused: the largest interval is FOUR",
    }

    number D3DKMT_PRESENT_MODEL { INT;
        D3DKMT_PM_UNINITIALIZED = 0: "no model: the only one that a present here may have",
        D3DKMT_PM_REDIRECTED_GDI = 1: "refused: a compositor's, and there is none",
        D3DKMT_PM_REDIRECTED_FLIP = 2: "refused: a compositor's, and there is none",
        D3DKMT_PM_REDIRECTED_BLT = 3: "refused: a compositor's, and there is none",
        D3DKMT_PM_REDIRECTED_VISTABLT = 4: "refused: a compositor's, and there is none",
        D3DKMT_PM_SCREENCAPTUREFENCE = 5: "refused: a compositor's, and there is none",
        D3DKMT_PM_REDIRECTED_GDI_SYSMEM = 6: "refused: a compositor's, and there is none",
        D3DKMT_PM_REDIRECTED_COMPOSITION = 7: "refused: a compositor's, and there is none",
        D3DKMT_PM_SURFACECOMPLETE = 8: "refused: a compositor's, and there is none",
        D3DKMT_PM_FLIPMANAGER = 9: "refused: a compositor's, and there is none",
    }

    flags D3DKMT_PRESENTFLAGS { UINT;
        0 1 Blt = "flag: hSource is copied to hDestination",
        1 1 ColorFill = "flag: STATUS_NOT_SUPPORTED",
        2 1 Flip = "flag: the display of hSource shows it",
        3 1 FlipDoNotFlip = "flag: STATUS_NOT_SUPPORTED",
        4 1 FlipDoNotWait = "flag: STATUS_NOT_SUPPORTED",
        5 1 FlipRestart = "flag: STATUS_NOT_SUPPORTED",
        6 1 DstRectValid = "flag: with Blt and SrcRectValid: DstRect is the part that is written",
        7 1 SrcRectValid = "flag: with Blt and DstRectValid: SrcRect is the part that is copied",
        8 1 RestrictVidPnSource = "flag: STATUS_NOT_SUPPORTED",
        9 1 SrcColorKey = "flag: STATUS_NOT_SUPPORTED",
        10 1 DstColorKey = "flag: STATUS_NOT_SUPPORTED",
        11 1 LinearToSrgb = "flag: STATUS_NOT_SUPPORTED",
        12 1 PresentCountValid = "flag: STATUS_NOT_SUPPORTED",
        13 1 Rotate = "flag: STATUS_NOT_SUPPORTED",
        14 1 PresentToBitmap = "flag: STATUS_NOT_SUPPORTED",
        15 1 RedirectedFlip = "flag: STATUS_NOT_SUPPORTED",
        16 1 RedirectedBlt = "flag: STATUS_NOT_SUPPORTED",
        17 1 FlipStereo = "flag: STATUS_NOT_SUPPORTED",
        18 1 FlipStereoTemporaryMono = "flag: STATUS_NOT_SUPPORTED",
        19 1 FlipStereoPreferRight = "flag: STATUS_NOT_SUPPORTED",
        20 1 BltStereoUseRight = "flag: STATUS_NOT_SUPPORTED",
        21 1 PresentHistoryTokenOnly = "flag: STATUS_NOT_SUPPORTED",
        22 1 PresentRegionsValid = "flag: STATUS_NOT_SUPPORTED",
        23 1 PresentDDA = "flag: STATUS_NOT_SUPPORTED",
        24 1 ProtectedContentBlankedOut = "flag: STATUS_NOT_SUPPORTED",
        25 1 RemoteSession = "flag: STATUS_NOT_SUPPORTED",
        26 1 CrossAdapter = "flag: STATUS_NOT_SUPPORTED",
        27 1 DurationValid = "flag: STATUS_NOT_SUPPORTED",
        28 1 PresentIndirect = "flag: STATUS_NOT_SUPPORTED",
        29 1 PresentHMD = "flag: STATUS_NOT_SUPPORTED",
    }

    /// The token itself is the compositor's: here it is so many bytes.
    structure D3DKMT_PRESENTHISTORYTOKEN { 1080;
        0 Model: D3DKMT_PRESENT_MODEL = "in: D3DKMT_PM_UNINITIALIZED: the kernel has no compositor",
        4 TokenSize: UINT = "unread: there is no token",
        8 CompositionBindingId: UINT64 = "unread: there is no token",
        16 Token: [UINT64; 133] = "unread: there is no token",
    }

    alternative D3DKMT_PRESENT_BY { 4;
        hDevice: D3DKMT_HANDLE = "in: no use of its own: the union is read as hContext",
        hContext: D3DKMT_HANDLE = "in: the packet context behind whose work the present comes",
    }

    alternative D3DKMT_PRESENT_INDIRECT { 4;
        hAdapter: D3DKMT_HANDLE = "unread: of indirect displays, whose flag is refused",
        hIndirectContext: D3DKMT_HANDLE = "unread: of indirect displays, whose flag is refused",
    }

    structure D3DKMT_PRESENT { 1496;
        0 Anonymous1: D3DKMT_PRESENT_BY,
        8 hWindow: HANDLE = "in: NULL: the kernel has no window system",
        16 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "unread: a primary is of one display",
        20 hSource: D3DKMT_HANDLE = "in: the primary that is shown, or the allocation that is copied",
        24 hDestination: D3DKMT_HANDLE = "in: with Blt: the allocation that is copied to",
        28 Color: UINT = "unread: of color fills, whose flag is refused",
        32 DstRect: RECT = "in: with its flag: the part that is written, as large as SrcRect",
        48 SrcRect: RECT = "in: with its flag: the part that is copied",
        64 SubRectCnt: UINT = "in: entries of pSrcSubRects; 0: SrcRect whole",
        72 pSrcSubRects: *const RECT = "in: parts of SrcRect that are copied alone, in the source's texels",
        80 PresentCount: UINT = "unread: its flag is refused",
        84 FlipInterval: D3DDDI_FLIPINTERVAL_TYPE = "in: with Flip: vertical blanks to the next flip, D3DDDI_FLIPINTERVAL_...",
        88 Flags: D3DKMT_PRESENTFLAGS = "in: D3DKMT_PRESENTFLAGS: Flip or Blt alone",
        92 BroadcastContextCount: ULONG = "in: 0: a present runs on one context",
        96 BroadcastContext: [D3DKMT_HANDLE; D3DDDI_MAX_BROADCAST_CONTEXT] = "unread: BroadcastContextCount is 0",
        352 PresentLimitSemaphore: HANDLE = "in: NULL: D3DKMTSetQueuedLimit bounds the flips",
        360 PresentHistoryToken: D3DKMT_PRESENTHISTORYTOKEN = "in: a token whose Model is D3DKMT_PM_UNINITIALIZED",
        1440 pPresentRegions: *mut VOID = "in: NULL: there is no compositor",
        1448 Anonymous2: D3DKMT_PRESENT_INDIRECT,
        1452 Duration: UINT = "unread: its flag is refused",
        1456 BroadcastSrcAllocation: *mut D3DKMT_HANDLE = "unread: BroadcastContextCount is 0",
        1464 BroadcastDstAllocation: *mut D3DKMT_HANDLE = "unread: BroadcastContextCount is 0",
        1472 PrivateDriverDataSize: UINT = "in: 0",
        1480 pPrivateDriverData: *mut VOID = "unread: PrivateDriverDataSize is 0",
        1488 bOptimizeForComposition: BOOLEAN = "unread: the kernel has no compositor",
    }

    structure D3DKMT_SUBMITPRESENTTOHWQUEUE { 1504;
        0 hHwQueues: *mut D3DKMT_HANDLE = "in: an array whose first entry is the queue behind whose work the display shows the surface",
        8 PrivatePresentData: D3DKMT_PRESENT = "in: the present, a flip",
    }

    number D3DKMT_QUEUEDLIMIT_TYPE { INT;
        D3DKMT_SET_QUEUEDLIMIT_PRESENT = 1: "taken: the most presents that the device may have queued",
        D3DKMT_GET_QUEUEDLIMIT_PRESENT = 2: "asks for the limit",
    }

    structure D3DKMT_SETQUEUEDLIMIT_FLIP { 8;
        0 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "unread: a device has one limit for all displays",
        4 QueuedPendingFlipLimit: UINT = "unread: a device has one limit for all displays",
    }

    alternative D3DKMT_SETQUEUEDLIMIT_LIMIT { 8;
        QueuedPresentLimit: UINT = "in, out: flips that may wait at once; in 0: as many as at first; out of the GET form",
        Anonymous: D3DKMT_SETQUEUEDLIMIT_FLIP,
    }

    structure D3DKMT_SETQUEUEDLIMIT { 16;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 Type: D3DKMT_QUEUEDLIMIT_TYPE = "in: D3DKMT_SET_QUEUEDLIMIT_PRESENT or D3DKMT_GET_QUEUEDLIMIT_PRESENT",
        8 Anonymous: D3DKMT_SETQUEUEDLIMIT_LIMIT,
    }

    number D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING { INT;
        D3DDDI_VSSLO_UNINITIALIZED = 0: "the order of lines is not said",
        D3DDDI_VSSLO_PROGRESSIVE = 1: "line by line",
        D3DDDI_VSSLO_INTERLACED_UPPERFIELDFIRST = 2: "refused: no display here interlaces",
        D3DDDI_VSSLO_INTERLACED_LOWERFIELDFIRST = 3: "refused: no display here interlaces",
        D3DDDI_VSSLO_OTHER = 255: "refused: no display here has another order",
    }

    number D3DDDI_ROTATION { INT;
        D3DDDI_ROTATION_IDENTITY = 1: "not turned",
        D3DDDI_ROTATION_90 = 2: "refused: no display here turns",
        D3DDDI_ROTATION_180 = 3: "refused: no display here turns",
        D3DDDI_ROTATION_270 = 4: "refused: no display here turns",
    }

    structure D3DKMT_SETDISPLAYMODE_FLAGS { 8;
        0 PreserveVidPn: BOOLEAN = "in: FALSE",
        4 Reserved: UINT = "in: 0",
    }

    structure D3DKMT_SETDISPLAYMODE { 28;
        0 hDevice: D3DKMT_HANDLE = "in: the device that owns the display",
        4 hPrimaryAllocation: D3DKMT_HANDLE = "in: a primary, whose size the mode gets, and which the display shows",
        8 ScanLineOrdering: D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING = "in: D3DDDI_VSSLO_PROGRESSIVE or _UNINITIALIZED",
        12 DisplayOrientation: D3DDDI_ROTATION = "in: D3DDDI_ROTATION_IDENTITY or 0",
        16 PrivateDriverFormatAttribute: UINT = "in: 0",
        20 Flags: D3DKMT_SETDISPLAYMODE_FLAGS = "in: 0",
    }

    structure D3DDDI_RATIONAL { 8;
        0 Numerator: UINT = "out: the number above the line",
        4 Denominator: UINT = "out: the number below it, never 0",
    }

    flags D3DKMDT_DISPLAYMODE_FLAGS { UINT;
        0 1 ValidatedAgainstMonitorCaps = "flag: the monitor shows the mode; set of each",
        1 1 RoundedFakeMode = "flag: never set",
        2 4 ModePruningReason = "flag: never set",
        6 1 Stereo = "flag: never set",
        7 1 AdvancedScanCapable = "flag: never set",
        8 1 PreferredTiming = "flag: the mode that the monitor prefers",
        9 1 PhysicalModeSupported = "flag: never set",
    }

    structure D3DKMT_DISPLAYMODE { 40;
        0 Width: UINT = "out: texels of a row",
        4 Height: UINT = "out: rows",
        8 Format: D3DDDIFORMAT = "out: the format of a primary",
        12 IntegerRefreshRate: UINT = "out: vertical blanks a second, rounded",
        16 RefreshRate: D3DDDI_RATIONAL = "out: vertical blanks a second",
        24 ScanLineOrdering: D3DDDI_VIDEO_SIGNAL_SCANLINE_ORDERING = "out: D3DDDI_VSSLO_PROGRESSIVE",
        28 DisplayOrientation: D3DDDI_ROTATION = "out: D3DDDI_ROTATION_IDENTITY",
        32 DisplayFixedOutput: UINT = "out: 0: a mode is shown as large as it is",
        36 Flags: D3DKMDT_DISPLAYMODE_FLAGS = "out: what the monitor says of the mode",
    }

    structure D3DKMT_GETDISPLAYMODELIST { 24;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display",
        8 pModeList: *mut D3DKMT_DISPLAYMODE = "in, optional: place for ModeCount modes, rising by size",
        16 ModeCount: UINT = "in, out: entries of pModeList; out the number of modes, also with STATUS_BUFFER_TOO_SMALL",
    }

    structure D3DKMT_CURRENTDISPLAYMODE { 44;
        0 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display",
        4 DisplayMode: D3DKMT_DISPLAYMODE = "out: its mode",
    }

    structure D3DKMT_WAITFORVERTICALBLANKEVENT { 12;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 hDevice: D3DKMT_HANDLE = "in: a device of the adapter; 0 is STATUS_NOT_SUPPORTED",
        8 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display",
    }

    structure D3DKMT_WAITFORVERTICALBLANKEVENT2 { 80;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 hDevice: D3DKMT_HANDLE = "in: a device of the adapter; 0 is STATUS_NOT_SUPPORTED",
        8 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display",
        12 NumObjects: UINT = "in: 0: the call waits for the vertical blank alone",
        16 ObjectHandleArray: [HANDLE; 8] = "unread: NumObjects is 0",
    }

    flags D3DKMT_VIDPNSOURCEOWNER_FLAGS { UINT;
        0 1 AllowOutputDuplication = "flag: has no effect: the kernel has no compositor",
        1 1 DisableDWMVirtualMode = "flag: has no effect: the kernel has no compositor",
        2 1 UseNtHandles = "flag: STATUS_NOT_SUPPORTED: displays go by their numbers",
    }

    structure D3DKMT_SETVIDPNSOURCEOWNER1 { 40;
        0 Version0: D3DKMT_SETVIDPNSOURCEOWNER = "in: the first form",
        32 Flags: D3DKMT_VIDPNSOURCEOWNER_FLAGS = "in: bits of D3DKMT_VIDPNSOURCEOWNER_FLAGS",
    }

    structure D3DKMT_SETVIDPNSOURCEOWNER2 { 48;
        0 Version1: D3DKMT_SETVIDPNSOURCEOWNER1 = "in: the second form",
        40 pVidPnSourceNtHandles: *const HANDLE = "in: NULL: displays go by their numbers",
    }
}
