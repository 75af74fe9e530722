//! Ownership of video present sources, and adapters by the names that a window system has for them.

use crate::layout::layout;
use crate::number::*;

layout! {
    number D3DKMT_VIDPNSOURCEOWNER_TYPE { INT;
        D3DKMT_VIDPNSOURCEOWNER_UNOWNED = 0: "the device gives the source back",
        D3DKMT_VIDPNSOURCEOWNER_SHARED = 1: "refused: a source has one owner, or none",
        D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE = 2: "the device owns the source alone",
        D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVEGDI = 3: "refused: a source has one owner, or none",
        D3DKMT_VIDPNSOURCEOWNER_EMULATED = 4: "refused: a source has one owner, or none",
    }

    structure D3DKMT_SETVIDPNSOURCEOWNER { 32;
        0 hDevice: D3DKMT_HANDLE = "in: the device that is to own the displays",
        8 pType: *const D3DKMT_VIDPNSOURCEOWNER_TYPE = "in: an array: D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE or _UNOWNED for each display",
        16 pVidPnSourceId: *const D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: an array: the displays",
        24 VidPnSourceCount: UINT = "in: entries of both arrays; 0: the device gives up all displays",
    }

    structure D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP { 8;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display; STATUS_GRAPHICS_PRESENT_OCCLUDED if a device owns it",
    }

    structure D3DKMT_GETSHAREDPRIMARYHANDLE { 12;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        4 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "in: the display",
        8 hSharedPrimary: D3DKMT_HANDLE = "out: the global handle of the display's shared primary, for D3DKMTOpenResource2; 0: it has none now",
    }

    structure D3DKMT_OPENADAPTERFROMDEVICENAME { 24;
        0 pDeviceName: *const WCHAR = "in: a name that ends with 0; each is refused, because no adapter stands on a bus of the machine",
        8 hAdapter: D3DKMT_HANDLE = "out: never written",
        12 AdapterLuid: LUID = "out: never written",
    }

    structure D3DKMT_OPENADAPTERFROMHDC { 24;
        0 hDc: HANDLE = "in: each is refused, because the kernel has no window system",
        8 hAdapter: D3DKMT_HANDLE = "out: never written",
        12 AdapterLuid: LUID = "out: never written",
        20 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "out: never written",
    }

    structure D3DKMT_CHECKOCCLUSION { 8;
        0 hWindow: HANDLE = "in: each is refused, because the kernel has no window system",
    }
}
