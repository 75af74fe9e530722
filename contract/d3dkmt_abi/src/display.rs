//! Ownership of video present sources, and adapters by the names that a window system has for them.

use crate::layout::layout;
use crate::number::*;

layout! {
    number D3DKMT_VIDPNSOURCEOWNER_TYPE { INT;
        D3DKMT_VIDPNSOURCEOWNER_UNOWNED = 0,
        D3DKMT_VIDPNSOURCEOWNER_SHARED = 1,
        D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE = 2,
        D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVEGDI = 3,
        D3DKMT_VIDPNSOURCEOWNER_EMULATED = 4,
    }

    structure D3DKMT_SETVIDPNSOURCEOWNER { 32;
        0 hDevice: D3DKMT_HANDLE,
        8 pType: *const D3DKMT_VIDPNSOURCEOWNER_TYPE,
        16 pVidPnSourceId: *const D3DDDI_VIDEO_PRESENT_SOURCE_ID,
        24 VidPnSourceCount: UINT,
    }

    structure D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP { 8;
        0 hAdapter: D3DKMT_HANDLE,
        4 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    }

    structure D3DKMT_OPENADAPTERFROMDEVICENAME { 24;
        0 pDeviceName: *const WCHAR,
        8 hAdapter: D3DKMT_HANDLE,
        12 AdapterLuid: LUID,
    }

    structure D3DKMT_OPENADAPTERFROMHDC { 24;
        0 hDc: HANDLE,
        8 hAdapter: D3DKMT_HANDLE,
        12 AdapterLuid: LUID,
        20 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    }

    structure D3DKMT_CHECKOCCLUSION { 8;
        0 hWindow: HANDLE,
    }
}
