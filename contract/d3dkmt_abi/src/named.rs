//! Structures with names in them, whose size is another in each flavour.

use crate::layout::layout;
use crate::number::*;

#[cfg(not(feature = "wsl"))]
layout! {
    structure D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME { 80;
        0 DeviceName: [WCHAR; 32] = "in: \\\\.\\DISPLAY and a number from 1, ended by 0: displays are counted over all adapters",
        64 hAdapter: D3DKMT_HANDLE = "out: the adapter of the display, opened",
        68 AdapterLuid: LUID = "out: the adapter's id",
        76 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "out: the display's number on its adapter",
    }

    structure D3DKMT_ADAPTERREGISTRYINFO { 2080;
        0 AdapterString: [WCHAR; 260] = "out: the adapter's name, ended by 0",
        520 BiosString: [WCHAR; 260] = "out: empty",
        1040 DacType: [WCHAR; 260] = "out: empty",
        1560 ChipType: [WCHAR; 260] = "out: empty",
    }

    number DXGK_ENGINE_TYPE { INT;
        DXGK_ENGINE_TYPE_OTHER = 0: "any other engine; the only kind in answers here",
        DXGK_ENGINE_TYPE_3D = 1: "an engine that draws",
        DXGK_ENGINE_TYPE_VIDEO_DECODE = 2: "an engine that decodes video",
        DXGK_ENGINE_TYPE_VIDEO_ENCODE = 3: "an engine that encodes video",
        DXGK_ENGINE_TYPE_VIDEO_PROCESSING = 4: "an engine that changes video pictures",
        DXGK_ENGINE_TYPE_SCENE_ASSEMBLY = 5: "an engine that puts scenes together",
        DXGK_ENGINE_TYPE_COPY = 6: "an engine that copies",
        DXGK_ENGINE_TYPE_OVERLAY = 7: "an engine of overlays",
        DXGK_ENGINE_TYPE_CRYPTO = 8: "an engine that encrypts",
    }

    flags DXGK_NODEMETADATA_FLAGS { UINT;
        0 1 ContextSchedulingSupported = "flag, out: never set",
    }

    packed DXGK_NODEMETADATA { 74;
        0 EngineType: DXGK_ENGINE_TYPE = "out: DXGK_ENGINE_TYPE_OTHER: no driver says the kind",
        4 FriendlyName: [WCHAR; 32] = "out: the node's name, ended by 0",
        68 Flags: DXGK_NODEMETADATA_FLAGS = "out: 0",
        72 GpuMmuSupported: BOOLEAN = "out: TRUE: the node translates GPU virtual addresses",
        73 IoMmuSupported: BOOLEAN = "out: TRUE: the node uses CPU addresses of processes",
    }

    packed D3DKMT_NODEMETADATA { 78;
        0 NodeOrdinalAndAdapterIndex: UINT = "in: the node from 0 in the lower half; the upper half is 0",
        4 NodeData: DXGK_NODEMETADATA = "out: the answer",
    }
}

#[cfg(feature = "wsl")]
layout! {
    structure D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME { 144;
        0 DeviceName: [WCHAR; 32] = "in: \\\\.\\DISPLAY and a number from 1, ended by 0: displays are counted over all adapters",
        128 hAdapter: D3DKMT_HANDLE = "out: the adapter of the display, opened",
        132 AdapterLuid: LUID = "out: the adapter's id",
        140 VidPnSourceId: D3DDDI_VIDEO_PRESENT_SOURCE_ID = "out: the display's number on its adapter",
    }

    structure D3DKMT_ADAPTERREGISTRYINFO { 4160;
        0 AdapterString: [WCHAR; 260] = "out: the adapter's name, ended by 0",
        1040 BiosString: [WCHAR; 260] = "out: empty",
        2080 DacType: [WCHAR; 260] = "out: empty",
        3120 ChipType: [WCHAR; 260] = "out: empty",
    }

    number DXGK_ENGINE_TYPE { INT;
        DXGK_ENGINE_TYPE_OTHER = 0: "any other engine; the only kind in answers here",
        DXGK_ENGINE_TYPE_3D = 1: "an engine that draws",
        DXGK_ENGINE_TYPE_VIDEO_DECODE = 2: "an engine that decodes video",
        DXGK_ENGINE_TYPE_VIDEO_ENCODE = 3: "an engine that encodes video",
        DXGK_ENGINE_TYPE_VIDEO_PROCESSING = 4: "an engine that changes video pictures",
        DXGK_ENGINE_TYPE_SCENE_ASSEMBLY = 5: "an engine that puts scenes together",
        DXGK_ENGINE_TYPE_COPY = 6: "an engine that copies",
        DXGK_ENGINE_TYPE_OVERLAY = 7: "an engine of overlays",
        DXGK_ENGINE_TYPE_CRYPTO = 8: "an engine that encrypts",
    }

    flags DXGK_NODEMETADATA_FLAGS { UINT;
        0 1 ContextSchedulingSupported = "flag, out: never set",
    }

    packed DXGK_NODEMETADATA { 138;
        0 EngineType: DXGK_ENGINE_TYPE = "out: DXGK_ENGINE_TYPE_OTHER: no driver says the kind",
        4 FriendlyName: [WCHAR; 32] = "out: the node's name, ended by 0",
        132 Flags: DXGK_NODEMETADATA_FLAGS = "out: 0",
        136 GpuMmuSupported: BOOLEAN = "out: TRUE: the node translates GPU virtual addresses",
        137 IoMmuSupported: BOOLEAN = "out: TRUE: the node uses CPU addresses of processes",
    }

    packed D3DKMT_NODEMETADATA { 142;
        0 NodeOrdinalAndAdapterIndex: UINT = "in: the node from 0 in the lower half; the upper half is 0",
        4 NodeData: DXGK_NODEMETADATA = "out: the answer",
    }
}
