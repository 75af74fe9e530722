//! Structures with names in them, whose size is another in each flavour.

use crate::layout::layout;
use crate::number::*;

#[cfg(not(feature = "wsl"))]
layout! {
    structure D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME { 80;
        0 DeviceName: [WCHAR; 32],
        64 hAdapter: D3DKMT_HANDLE,
        68 AdapterLuid: LUID,
        76 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    }

    structure D3DKMT_ADAPTERREGISTRYINFO { 2080;
        0 AdapterString: [WCHAR; 260],
        520 BiosString: [WCHAR; 260],
        1040 DacType: [WCHAR; 260],
        1560 ChipType: [WCHAR; 260],
    }

    number DXGK_ENGINE_TYPE { INT;
        DXGK_ENGINE_TYPE_OTHER = 0,
        DXGK_ENGINE_TYPE_3D = 1,
        DXGK_ENGINE_TYPE_VIDEO_DECODE = 2,
        DXGK_ENGINE_TYPE_VIDEO_ENCODE = 3,
        DXGK_ENGINE_TYPE_VIDEO_PROCESSING = 4,
        DXGK_ENGINE_TYPE_SCENE_ASSEMBLY = 5,
        DXGK_ENGINE_TYPE_COPY = 6,
        DXGK_ENGINE_TYPE_OVERLAY = 7,
        DXGK_ENGINE_TYPE_CRYPTO = 8,
    }

    flags DXGK_NODEMETADATA_FLAGS { UINT;
        0 1 ContextSchedulingSupported,
    }

    packed DXGK_NODEMETADATA { 74;
        0 EngineType: DXGK_ENGINE_TYPE,
        4 FriendlyName: [WCHAR; 32],
        68 Flags: DXGK_NODEMETADATA_FLAGS,
        72 GpuMmuSupported: BOOLEAN,
        73 IoMmuSupported: BOOLEAN,
    }

    packed D3DKMT_NODEMETADATA { 78;
        0 NodeOrdinalAndAdapterIndex: UINT,
        4 NodeData: DXGK_NODEMETADATA,
    }
}

#[cfg(feature = "wsl")]
layout! {
    structure D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME { 144;
        0 DeviceName: [WCHAR; 32],
        128 hAdapter: D3DKMT_HANDLE,
        132 AdapterLuid: LUID,
        140 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID,
    }

    structure D3DKMT_ADAPTERREGISTRYINFO { 4160;
        0 AdapterString: [WCHAR; 260],
        1040 BiosString: [WCHAR; 260],
        2080 DacType: [WCHAR; 260],
        3120 ChipType: [WCHAR; 260],
    }

    number DXGK_ENGINE_TYPE { INT;
        DXGK_ENGINE_TYPE_OTHER = 0,
        DXGK_ENGINE_TYPE_3D = 1,
        DXGK_ENGINE_TYPE_VIDEO_DECODE = 2,
        DXGK_ENGINE_TYPE_VIDEO_ENCODE = 3,
        DXGK_ENGINE_TYPE_VIDEO_PROCESSING = 4,
        DXGK_ENGINE_TYPE_SCENE_ASSEMBLY = 5,
        DXGK_ENGINE_TYPE_COPY = 6,
        DXGK_ENGINE_TYPE_OVERLAY = 7,
        DXGK_ENGINE_TYPE_CRYPTO = 8,
    }

    flags DXGK_NODEMETADATA_FLAGS { UINT;
        0 1 ContextSchedulingSupported,
    }

    packed DXGK_NODEMETADATA { 138;
        0 EngineType: DXGK_ENGINE_TYPE,
        4 FriendlyName: [WCHAR; 32],
        132 Flags: DXGK_NODEMETADATA_FLAGS,
        136 GpuMmuSupported: BOOLEAN,
        137 IoMmuSupported: BOOLEAN,
    }

    packed D3DKMT_NODEMETADATA { 142;
        0 NodeOrdinalAndAdapterIndex: UINT,
        4 NodeData: DXGK_NODEMETADATA,
    }
}
