//! GPU virtual addresses (memory §4.8).

use crate::layout::layout;
use crate::number::*;

layout! {
    flags D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE { UINT64;
        0 1 Write,
        1 1 Execute,
        2 1 Zero,
        3 1 NoAccess,
        4 1 SystemUseOnly,
    }

    // spec: memory §4.8
    structure D3DDDI_MAPGPUVIRTUALADDRESS { 104;
        0 hPagingQueue: D3DKMT_HANDLE,
        8 BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
        16 MinimumAddress: D3DGPU_VIRTUAL_ADDRESS,
        24 MaximumAddress: D3DGPU_VIRTUAL_ADDRESS,
        32 hAllocation: D3DKMT_HANDLE,
        40 OffsetInPages: D3DGPU_SIZE_T,
        48 SizeInPages: D3DGPU_SIZE_T,
        56 Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
        64 DriverProtection: UINT64,
        72 Reserved0: UINT,
        80 Reserved1: UINT64,
        88 VirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
        96 PagingFenceValue: UINT64,
    }

    number D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE { INT;
        D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS = 0,
        D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO = 1,
        D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_COMMIT = 2,
    }

    alternative D3DDDI_RESERVEGPUVIRTUALADDRESS_OWNER { 4;
        hPagingQueue: D3DKMT_HANDLE,
        hAdapter: D3DKMT_HANDLE,
    }

    alternative D3DDDI_RESERVEGPUVIRTUALADDRESS_TYPE { 4;
        ReservationType: D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE,
        Reserved0: UINT,
    }

    alternative D3DDDI_RESERVEGPUVIRTUALADDRESS_PROTECTION { 8;
        DriverProtection: UINT64,
        Reserved1: UINT64,
    }

    alternative D3DDDI_RESERVEGPUVIRTUALADDRESS_VALUE { 8;
        PagingFenceValue: UINT64,
        Reserved2: UINT64,
    }

    structure D3DDDI_RESERVEGPUVIRTUALADDRESS { 72;
        0 Anonymous1: D3DDDI_RESERVEGPUVIRTUALADDRESS_OWNER,
        8 BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
        16 MinimumAddress: D3DGPU_VIRTUAL_ADDRESS,
        24 MaximumAddress: D3DGPU_VIRTUAL_ADDRESS,
        32 Size: D3DGPU_SIZE_T,
        40 Anonymous2: D3DDDI_RESERVEGPUVIRTUALADDRESS_TYPE,
        48 Anonymous3: D3DDDI_RESERVEGPUVIRTUALADDRESS_PROTECTION,
        56 VirtualAddress: D3DGPU_VIRTUAL_ADDRESS,
        64 Anonymous4: D3DDDI_RESERVEGPUVIRTUALADDRESS_VALUE,
    }

    structure D3DKMT_FREEGPUVIRTUALADDRESS { 24;
        0 hAdapter: D3DKMT_HANDLE,
        8 BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
        16 Size: D3DGPU_SIZE_T,
    }

    number D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE { INT;
        D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP = 0,
        D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP = 1,
        D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY = 2,
        D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT = 3,
    }

    structure D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_ARM { 40;
        0 BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
        8 SizeInBytes: D3DGPU_SIZE_T,
        16 hAllocation: D3DKMT_HANDLE,
        24 AllocationOffsetInBytes: D3DGPU_SIZE_T,
        32 AllocationSizeInBytes: D3DGPU_SIZE_T,
    }

    structure D3DDDI_UPDATEGPUVIRTUALADDRESS_MAPPROTECT_ARM { 56;
        0 BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
        8 SizeInBytes: D3DGPU_SIZE_T,
        16 hAllocation: D3DKMT_HANDLE,
        24 AllocationOffsetInBytes: D3DGPU_SIZE_T,
        32 AllocationSizeInBytes: D3DGPU_SIZE_T,
        40 Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
        48 DriverProtection: UINT64,
    }

    structure D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP_ARM { 24;
        0 BaseAddress: D3DGPU_VIRTUAL_ADDRESS,
        8 SizeInBytes: D3DGPU_SIZE_T,
        16 Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE,
    }

    structure D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY_ARM { 24;
        0 SourceAddress: D3DGPU_VIRTUAL_ADDRESS,
        8 SizeInBytes: D3DGPU_SIZE_T,
        16 DestAddress: D3DGPU_VIRTUAL_ADDRESS,
    }

    alternative D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_ARM { 56;
        Map: D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_ARM,
        MapProtect: D3DDDI_UPDATEGPUVIRTUALADDRESS_MAPPROTECT_ARM,
        Unmap: D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP_ARM,
        Copy: D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY_ARM,
    }

    structure D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION { 64;
        0 OperationType: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE,
        8 Anonymous: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_ARM,
    }

    flags D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS { UINT;
        0 1 DoNotWait,
    }

    structure D3DKMT_UPDATEGPUVIRTUALADDRESS { 56;
        0 hDevice: D3DKMT_HANDLE,
        4 hContext: D3DKMT_HANDLE,
        8 hFenceObject: D3DKMT_HANDLE,
        12 NumOperations: UINT,
        16 Operations: *mut D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION,
        24 Reserved0: SIZE_T,
        32 Reserved1: UINT64,
        40 FenceValue: UINT64,
        48 Flags: D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS,
    }
}
