//! Private calls to a driver.

use crate::layout::layout;
use crate::number::*;

layout! {
    number D3DKMT_ESCAPETYPE { INT;
        D3DKMT_ESCAPE_DRIVERPRIVATE = 0: "taken: the data go to the kernel-mode driver, and its answer comes back",
        D3DKMT_ESCAPE_VIDMM = 1: "refused: the memory manager's tests",
        D3DKMT_ESCAPE_TDRDBGCTRL = 2: "refused: control of timeouts for debuggers",
        D3DKMT_ESCAPE_VIDSCH = 3: "refused: the scheduler's tests",
        D3DKMT_ESCAPE_DEVICE = 4: "refused: a device's tests",
        D3DKMT_ESCAPE_DMM = 5: "refused: the display mode manager's tests",
        D3DKMT_ESCAPE_DEBUG_SNAPSHOT = 6: "refused: a snapshot for debuggers",
        D3DKMT_ESCAPE_DRT_TEST = 8: "refused: tests of a build",
        D3DKMT_ESCAPE_DIAGNOSTICS = 9: "refused: diagnostics",
        D3DKMT_ESCAPE_OUTPUTDUPL_SNAPSHOT = 10: "refused: a snapshot of output duplication",
        D3DKMT_ESCAPE_OUTPUTDUPL_DIAGNOSTICS = 11: "refused: diagnostics of output duplication",
        D3DKMT_ESCAPE_BDD_PNP = 12: "refused: arrival of the basic display driver",
        D3DKMT_ESCAPE_BDD_FALLBACK = 13: "refused: a change to the basic display driver",
        D3DKMT_ESCAPE_ACTIVATE_SPECIFIC_DIAG = 14: "refused: one diagnostic, switched on",
        D3DKMT_ESCAPE_MODES_PRUNED_OUT = 15: "refused: the modes that were left out",
        D3DKMT_ESCAPE_WHQL_INFO = 16: "refused: what certification asks",
        D3DKMT_ESCAPE_BRIGHTNESS = 17: "refused: the brightness of a panel",
        D3DKMT_ESCAPE_EDID_CACHE = 18: "refused: descriptions of monitors that were kept",
        D3DKMT_ESCAPE_MIRACAST_DISPLAY_REQUEST = 20: "refused: a wireless display",
        D3DKMT_ESCAPE_HISTORY_BUFFER_STATUS = 21: "refused: the state of history buffers",
        D3DKMT_ESCAPE_MIRACAST_ADAPTER_DIAG_INFO = 23: "refused: diagnostics of wireless displays",
        D3DKMT_ESCAPE_FORCE_BDDFALLBACK_HEADLESS = 24: "refused: a change to the basic display driver without a display",
        D3DKMT_ESCAPE_REQUEST_MACHINE_CRASH = 25: "refused: a crash of the machine",
        D3DKMT_ESCAPE_SOFTGPU_ENABLE_DISABLE_HMD = 27: "refused: a headset of Windows's own software GPU",
        D3DKMT_ESCAPE_PROCESS_VERIFIER_OPTION = 28: "refused: what the verifier does in a process",
        D3DKMT_ESCAPE_ADAPTER_VERIFIER_OPTION = 29: "refused: what the verifier does at an adapter",
        D3DKMT_ESCAPE_IDD_REQUEST = 30: "refused: a request to an indirect display",
        D3DKMT_ESCAPE_DOD_SET_DIRTYRECT_MODE = 31: "refused: dirty rectangles of display-only drivers",
        D3DKMT_ESCAPE_LOG_CODEPOINT_PACKET = 32: "refused: an entry in a log of code points",
        D3DKMT_ESCAPE_LOG_USERMODE_DAIG_PACKET = 33: "refused: an entry of a program in the diagnostics' log",
        D3DKMT_ESCAPE_GET_EXTERNAL_DIAGNOSTICS = 34: "refused: diagnostics of other parts",
        D3DKMT_ESCAPE_GET_DISPLAY_CONFIGURATIONS = 36: "refused: the arrangements of displays",
        D3DKMT_ESCAPE_QUERY_IOMMU_STATUS = 37: "refused: the state of the IOMMU",
        D3DKMT_ESCAPE_CCD_DATABASE = 38: "refused: the store of arrangements of displays",
        D3DKMT_ESCAPE_QUERY_DMA_REMAPPING_STATUS = 39: "refused: whether the adapter's DMA is remapped",
        D3DKMT_ESCAPE_WIN32K_HIP_DEVICE_INFO = 1024: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_QUERY_CD_ROTATION_BLOCK = 1025: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_DPI_INFO = 1026: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_PRESENTER_VIEW_INFO = 1027: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_SYSTEM_DPI = 1028: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_BDD_FALLBACK = 1029: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_DDA_TEST_CTL = 1030: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_USER_DETECTED_BLACK_SCREEN = 1031: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_DISPBROKER_TEST = 1035: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_COLOR_PROFILE_INFO = 1036: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_SET_DIMMED_STATE = 1037: "refused: the window manager's",
        D3DKMT_ESCAPE_WIN32K_SPECIALIZED_DISPLAY_TEST = 1038: "refused: the window manager's",
    }

    flags D3DDDI_ESCAPEFLAGS { UINT;
        0 1 HardwareAccess = "flag: the driver may ask its device for the answer",
        1 1 DeviceStatusQuery = "flag: STATUS_NOT_SUPPORTED",
        2 1 ChangeFrameLatency = "flag: STATUS_NOT_SUPPORTED",
        3 1 NoAdapterSynchronization = "flag: STATUS_NOT_SUPPORTED",
        5 1 VirtualMachineData = "flag: STATUS_NOT_SUPPORTED",
        6 1 DriverKnownEscape = "flag: STATUS_NOT_SUPPORTED",
        7 1 DriverCommonEscape = "flag: STATUS_NOT_SUPPORTED",
    }

    structure D3DKMT_ESCAPE { 32;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 hDevice: D3DKMT_HANDLE = "in, optional: a device of the adapter; 0: none",
        8 Type: D3DKMT_ESCAPETYPE = "in: D3DKMT_ESCAPE_DRIVERPRIVATE; the other types are STATUS_NOT_SUPPORTED",
        12 Flags: D3DDDI_ESCAPEFLAGS = "in: bits of D3DDDI_ESCAPEFLAGS",
        16 pPrivateDriverData: *mut VOID = "in, out: the driver's question, and in its place the answer of the same length (SOFTGPU_QUESTION)",
        24 PrivateDriverDataSize: UINT = "in: bytes at pPrivateDriverData, at most 65536",
        28 hContext: D3DKMT_HANDLE = "in, optional: a context of hDevice; 0: none",
    }
}
