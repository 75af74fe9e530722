//! Native fences (sync §2.1).

use crate::layout::layout;
use crate::number::*;
use crate::sync_object::D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS;

layout! {
    number D3DDDI_NATIVEFENCE_TYPE { INT;
        D3DDDI_NATIVEFENCE_TYPE_DEFAULT = 0,
        D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU = 1,
    }

    // spec: sync §2.1
    structure D3DDDI_NATIVEFENCEMAPPING { 56;
        0 CurrentValueCpuVa: *mut VOID,
        8 CurrentValueGpuVa: D3DGPU_VIRTUAL_ADDRESS,
        16 MonitoredValueGpuVa: D3DGPU_VIRTUAL_ADDRESS,
        24 Reserved: [BYTE; 32],
    }

    structure D3DDDI_NATIVEFENCEINFO { 112;
        0 InitialFenceValue: UINT64,
        8 EngineAffinity: UINT,
        12 Type: D3DDDI_NATIVEFENCE_TYPE,
        16 Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
        24 NativeFenceMapping: D3DDDI_NATIVEFENCEMAPPING,
        80 Reserved: [BYTE; 28],
    }

    flags D3DKMT_CREATENATIVEFENCE_FLAGS { UINT;
        0 32 Reserved,
    }

    structure D3DKMT_CREATENATIVEFENCE { 216;
        0 hDevice: D3DKMT_HANDLE,
        4 hSyncObject: D3DKMT_HANDLE,
        8 PrivateDriverData: [BYTE; D3DDDI_NATIVE_FENCE_PDD_SIZE],
        72 Info: D3DDDI_NATIVEFENCEINFO,
        184 Flags: D3DKMT_CREATENATIVEFENCE_FLAGS,
        188 Reserved: [BYTE; 28],
    }

    // spec: sync §2.1: the form of the 24H2 kit, of which nothing behind the mapping is looked at
    structure D3DKMT_OPENNATIVEFENCEFROMNTHANDLE { 112;
        0 hNtHandle: HANDLE,
        8 hDevice: D3DKMT_HANDLE,
        12 EngineAffinity: UINT,
        16 Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS,
        20 hSyncObject: D3DKMT_HANDLE,
        24 NativeFenceMapping: D3DDDI_NATIVEFENCEMAPPING,
        80 Reserved: [BYTE; 32],
    }
}
