//! GPU virtual addresses (memory §4.8).

use crate::layout::layout;
use crate::number::*;

layout! {
    flags D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE { UINT64;
        0 1 Write = "flag: engines may store; they may always read",
        1 1 Execute = "flag: engines may execute",
        2 1 Zero = "flag: reads give 0 and stores are dropped; without an allocation",
        3 1 NoAccess = "flag: each access is a fault; without an allocation",
        4 1 SystemUseOnly = "flag: refused: not for user mode",
    }

    // spec: memory §4.8
    structure D3DDDI_MAPGPUVIRTUALADDRESS { 104;
        0 hPagingQueue: D3DKMT_HANDLE = "in: the paging queue",
        8 BaseAddress: D3DGPU_VIRTUAL_ADDRESS = "in, optional: the address, a multiple of 4096; 0: the kernel chooses",
        16 MinimumAddress: D3DGPU_VIRTUAL_ADDRESS = "in: the lowest address that the kernel may choose, if BaseAddress is 0",
        24 MaximumAddress: D3DGPU_VIRTUAL_ADDRESS = "in: the bound of what the kernel may choose, if BaseAddress is 0; 0: none",
        32 hAllocation: D3DKMT_HANDLE = "in, optional: the allocation; 0 with Zero or NoAccess alone",
        40 OffsetInPages: D3DGPU_SIZE_T = "in: first page of the allocation, in pages of 4096 bytes",
        48 SizeInPages: D3DGPU_SIZE_T = "in: pages of 4096 bytes",
        56 Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE = "in: bits of D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE",
        64 DriverProtection: UINT64 = "in: bits for the driver's page-table entries",
        72 Reserved0: UINT = "in: 0",
        80 Reserved1: UINT64 = "in: 0",
        88 VirtualAddress: D3DGPU_VIRTUAL_ADDRESS = "out: the address",
        96 PagingFenceValue: UINT64 = "out: the paging queue's value to wait for with STATUS_PENDING; else 0",
    }

    number D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE { INT;
        D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS = 0: "an access to the range loses the device",
        D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO = 1: "reads of the range give 0, writes are dropped",
        D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_COMMIT = 2: "refused: the system's own",
    }

    alternative D3DDDI_RESERVEGPUVIRTUALADDRESS_OWNER { 4;
        hPagingQueue: D3DKMT_HANDLE = "in: a paging queue or an adapter: either names the address space",
        hAdapter: D3DKMT_HANDLE = "in: a paging queue or an adapter: either names the address space",
    }

    alternative D3DDDI_RESERVEGPUVIRTUALADDRESS_TYPE { 4;
        ReservationType: D3DDDIGPUVIRTUALADDRESS_RESERVATION_TYPE = "in: what an access finds where nothing is mapped, in the older form",
        Reserved0: UINT = "in: the same number",
    }

    alternative D3DDDI_RESERVEGPUVIRTUALADDRESS_PROTECTION { 8;
        DriverProtection: UINT64 = "in: bits for the driver's page-table entries",
        Reserved1: UINT64 = "in: the same number",
    }

    alternative D3DDDI_RESERVEGPUVIRTUALADDRESS_VALUE { 8;
        PagingFenceValue: UINT64 = "out: the paging queue's value to wait for with STATUS_PENDING; else 0",
        Reserved2: UINT64 = "out: the same number",
    }

    structure D3DDDI_RESERVEGPUVIRTUALADDRESS { 72;
        0 Anonymous1: D3DDDI_RESERVEGPUVIRTUALADDRESS_OWNER,
        8 BaseAddress: D3DGPU_VIRTUAL_ADDRESS = "in, optional: the address, a multiple of 65536; 0: the kernel chooses",
        16 MinimumAddress: D3DGPU_VIRTUAL_ADDRESS = "in: the lowest address that the kernel may choose, if BaseAddress is 0",
        24 MaximumAddress: D3DGPU_VIRTUAL_ADDRESS = "in: the bound of what the kernel may choose, if BaseAddress is 0; 0: none",
        32 Size: D3DGPU_SIZE_T = "in: bytes, a multiple of 65536",
        40 Anonymous2: D3DDDI_RESERVEGPUVIRTUALADDRESS_TYPE,
        48 Anonymous3: D3DDDI_RESERVEGPUVIRTUALADDRESS_PROTECTION,
        56 VirtualAddress: D3DGPU_VIRTUAL_ADDRESS = "out: the address",
        64 Anonymous4: D3DDDI_RESERVEGPUVIRTUALADDRESS_VALUE,
    }

    structure D3DKMT_FREEGPUVIRTUALADDRESS { 24;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        8 BaseAddress: D3DGPU_VIRTUAL_ADDRESS = "in: the first address of the range",
        16 Size: D3DGPU_SIZE_T = "in: bytes of the range, a multiple of 4096",
    }

    number D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE { INT;
        D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP = 0: "the range leads to an allocation from now on",
        D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP = 1: "the range leads to no allocation from now on",
        D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY = 2: "the range leads where another range leads",
        D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT = 3: "as MAP, with a protection",
    }

    structure D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_ARM { 40;
        0 BaseAddress: D3DGPU_VIRTUAL_ADDRESS = "in: the first address, inside one reservation",
        8 SizeInBytes: D3DGPU_SIZE_T = "in: bytes that are mapped",
        16 hAllocation: D3DKMT_HANDLE = "in: the allocation",
        24 AllocationOffsetInBytes: D3DGPU_SIZE_T = "in: first byte of the allocation",
        32 AllocationSizeInBytes: D3DGPU_SIZE_T = "in: bytes of the allocation that repeat over the range; 0: as SizeInBytes",
    }

    structure D3DDDI_UPDATEGPUVIRTUALADDRESS_MAPPROTECT_ARM { 56;
        0 BaseAddress: D3DGPU_VIRTUAL_ADDRESS = "in: the first address, inside one reservation",
        8 SizeInBytes: D3DGPU_SIZE_T = "in: bytes that are mapped",
        16 hAllocation: D3DKMT_HANDLE = "in: the allocation",
        24 AllocationOffsetInBytes: D3DGPU_SIZE_T = "in: first byte of the allocation",
        32 AllocationSizeInBytes: D3DGPU_SIZE_T = "in: bytes of the allocation that repeat over the range; 0: as SizeInBytes",
        40 Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE = "in: bits of D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE",
        48 DriverProtection: UINT64 = "in: bits for the driver's page-table entries",
    }

    structure D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP_ARM { 24;
        0 BaseAddress: D3DGPU_VIRTUAL_ADDRESS = "in: the first address, inside one reservation",
        8 SizeInBytes: D3DGPU_SIZE_T = "in: bytes that are unmapped",
        16 Protection: D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE = "in: Zero or NoAccess: what an access finds from then on",
    }

    structure D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY_ARM { 24;
        0 SourceAddress: D3DGPU_VIRTUAL_ADDRESS = "in: the first address whose mappings are copied",
        8 SizeInBytes: D3DGPU_SIZE_T = "in: bytes of the range",
        16 DestAddress: D3DGPU_VIRTUAL_ADDRESS = "in: the first address that gets them; the ranges may overlap",
    }

    alternative D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_ARM { 56;
        Map: D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_ARM = "in: of D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP",
        MapProtect: D3DDDI_UPDATEGPUVIRTUALADDRESS_MAPPROTECT_ARM = "in: of D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT",
        Unmap: D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP_ARM = "in: of D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP",
        Copy: D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY_ARM = "in: of D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY",
    }

    structure D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION { 64;
        0 OperationType: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE = "in: the operation, which is also the union's arm",
        8 Anonymous: D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_ARM,
    }

    flags D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS { UINT;
        0 1 DoNotWait = "flag: the operations do not wait for the fence",
    }

    structure D3DKMT_UPDATEGPUVIRTUALADDRESS { 56;
        0 hDevice: D3DKMT_HANDLE = "in: the device",
        4 hContext: D3DKMT_HANDLE = "in: the context in whose order the operations come",
        8 hFenceObject: D3DKMT_HANDLE = "in: the fence",
        12 NumOperations: UINT = "in: entries of Operations",
        16 Operations: *mut D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION = "in: an array: the operations, in their order",
        24 Reserved0: SIZE_T = "in: 0",
        32 Reserved1: UINT64 = "in: 0",
        40 FenceValue: UINT64 = "in: the value that is waited for; the operations then bring the fence to one more",
        48 Flags: D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS = "in: bits of D3DKMT_UPDATEGPUVIRTUALADDRESS_FLAGS",
    }
}
