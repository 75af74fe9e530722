//! Native fences (sync §2.1).

use crate::layout::layout;
use crate::number::*;
use crate::sync_object::D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS;

layout! {
    number D3DDDI_NATIVEFENCE_TYPE { INT;
        D3DDDI_NATIVEFENCE_TYPE_DEFAULT = 0: "CPU and GPU both signal it and wait for it",
        D3DDDI_NATIVEFENCE_TYPE_INTRA_GPU = 1: "engines of one GPU signal it and wait for it; the CPU has no access",
    }

    // spec: sync §2.1
    structure D3DDDI_NATIVEFENCEMAPPING { 56;
        0 CurrentValueCpuVa: *mut VOID = "out: the value, 64 bits, for reading only; NULL: the CPU does not reach it",
        8 CurrentValueGpuVa: D3DGPU_VIRTUAL_ADDRESS = "out: GPU address of the value",
        16 MonitoredValueGpuVa: D3DGPU_VIRTUAL_ADDRESS = "out: GPU address of the value that the kernel waits for: a signal interrupts if it exceeds it",
        24 Reserved: [BYTE; 32] = "in: 0",
    }

    structure D3DDDI_NATIVEFENCEINFO { 112;
        0 InitialFenceValue: UINT64 = "in: the value at the start",
        8 EngineAffinity: UINT = "in: bit 0: the fence has a GPU address; 0: likewise",
        12 Type: D3DDDI_NATIVEFENCE_TYPE = "in: D3DDDI_NATIVEFENCE_TYPE_DEFAULT or _INTRA_GPU",
        16 Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS = "in: bits of D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS",
        24 NativeFenceMapping: D3DDDI_NATIVEFENCEMAPPING = "out: the addresses of the fence's words",
        80 Reserved: [BYTE; 28] = "in: 0",
    }

    flags D3DKMT_CREATENATIVEFENCE_FLAGS { UINT;
        0 32 Reserved = "flag: 0",
    }

    structure D3DKMT_CREATENATIVEFENCE { 216;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hSyncObject: D3DKMT_HANDLE = "out: the fence",
        8 PrivateDriverData: [BYTE; D3DDDI_NATIVE_FENCE_PDD_SIZE] = "in, out: bytes of the driver; the software GPU's reads none",
        72 Info: D3DDDI_NATIVEFENCEINFO = "in, out: the fence",
        184 Flags: D3DKMT_CREATENATIVEFENCE_FLAGS = "in: 0",
        188 Reserved: [BYTE; 28] = "in: 0",
    }

    // spec: sync §2.1: the form of the 24H2 kit, of which nothing behind the mapping is looked at
    structure D3DKMT_OPENNATIVEFENCEFROMNTHANDLE { 112;
        0 hNtHandle: HANDLE = "in: an NT handle of the fence",
        8 hDevice: D3DKMT_HANDLE = "in: the device that opens the fence",
        12 EngineAffinity: UINT = "in: bit 0: the fence has a GPU address; 0: likewise",
        16 Flags: D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS = "in: bits of D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS about this device",
        20 hSyncObject: D3DKMT_HANDLE = "out: the fence in this device",
        24 NativeFenceMapping: D3DDDI_NATIVEFENCEMAPPING = "out: the addresses of the fence's words",
        80 Reserved: [BYTE; 32] = "unread: the published forms differ here",
    }
}
