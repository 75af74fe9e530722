//! GPU virtual memory as a driver describes it (memory §4).

use wddm_types::{GpuVa, PhysicalAddress, SegmentId};

use crate::queue::OsProcess;

bitflags::bitflags! {
    /// Bits of `DXGK_GPUMMUCAPS` (memory §4.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GpuMmuFlags: u32 {
        /// Entries can be read-only.
        const READ_ONLY_MEMORY_SUPPORTED = 1 << 0;
        /// Entries can forbid execution.
        const NO_EXECUTE_MEMORY_SUPPORTED = 1 << 1;
        /// Entries can read as zero.
        const ZERO_IN_PTE_SUPPORTED = 1 << 2;
        /// Every entry is to be invalidated before a table is freed.
        const EXPLICIT_PAGE_TABLE_INVALIDATION = 1 << 3;
        /// Entries can snoop.
        const CACHE_COHERENT_MEMORY_SUPPORTED = 1 << 4;
        /// Contexts of the space are suspended during changes.
        const PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE = 1 << 5;
        /// Large pages above the leaf.
        const LARGE_PAGE_SUPPORTED = 1 << 6;
        /// Two leaf tables per entry.
        const DUAL_PTE_SUPPORTED = 1 << 7;
        /// A large page may begin at any page of memory.
        const ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS = 1 << 8;
        /// 64-KB pages in system memory.
        const SYS_MEM_64KB_PAGE_SUPPORTED = 1 << 9;
        /// The TLB does not remember invalid entries: no flush from invalid to valid.
        const INVALID_TLB_ENTRIES_NOT_CACHED = 1 << 10;
        /// Large pages in system memory.
        const SYS_MEM_LARGE_PAGE_SUPPORTED = 1 << 11;
        /// Page tables are cached.
        const CACHED_PAGE_TABLES = 1 << 12;
    }
}

bitflags::bitflags! {
    /// `DXGK_GPUMMUCAPS.LegacyBehaviors` (memory §4.2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LegacyBehaviors: u32 {
        /// [`VirtualTransfer`](crate::PagingOp::VirtualTransfer) tells the addresses of the page tables behind its two ends.
        const SOURCE_PAGE_TABLE_VA_IN_TRANSFER = 1 << 0;
    }
}

/// How page tables are written (`DXGK_PAGETABLEUPDATEMODE`, memory §4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageTableUpdateMode {
    /// By the CPU.
    CpuVirtual,
    /// By the GPU through virtual addresses.
    GpuVirtual,
    /// By the GPU through physical addresses.
    #[default]
    GpuPhysical,
}

/// `DXGK_GPUMMUCAPS` (memory §4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuMmuCaps {
    /// Capability bits.
    pub flags: GpuMmuFlags,
    /// How tables of processes are written; those of the paging process always by the CPU.
    pub update_mode: PageTableUpdateMode,
    /// Width of a virtual address.
    pub virtual_address_bits: u32,
    /// 2 to 6.
    pub page_table_levels: u32,
    /// `LeafPageTableSizeFor64KPagesInBytes`: bytes of a leaf table whose entries stand for 64 KB each, a multiple of 4096;
    /// 0: there are none, and every leaf entry stands for 4 KB.
    pub leaf_table_64kb_bytes: u32,
    /// `LegacyBehaviors`.
    pub legacy: LegacyBehaviors,
}

/// `DXGK_PAGE_TABLE_LEVEL_DESC` (memory §4.3) of one level; level 0 is the leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageTableLevelDesc {
    /// Entries = 2^n; each leaf entry covers 4 KB.
    pub index_bits: u32,
    /// Where the tables live.
    pub segment: SegmentId,
    /// Where those of the paging process live.
    pub paging_process_segment: SegmentId,
    /// Bytes of a table.
    pub size_bytes: u32,
    /// Its alignment.
    pub alignment_bytes: u32,
}

/// The answer of `DxgkDdiGetRootPageTableSize` (memory §4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootPageTableSize {
    /// Entries that such a root has: as many as were asked for, or more.
    pub entries: u32,
    /// Its bytes: whole pages of the segment where it lives.
    pub bytes: u64,
}

bitflags::bitflags! {
    /// Flags of `DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE` (memory §4.6).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ReserveGpuVaRangeFlags: u32 {
        /// User mode may map there; the range stays the driver's.
        const ALLOW_USER_MODE_MAPPING = 1 << 0;
        /// Unknown bits are kept, so that they can be refused.
        const _ = !0;
    }
}

/// `DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE` (memory §4.6), of the process that is being created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveGpuVaRange {
    /// The process whose addresses they are.
    pub process: OsProcess,
    /// Bytes, a multiple of what a leaf table translates.
    pub size_bytes: u64,
    /// Alignment in bytes, a power of two; 0: that of a leaf table's first address, which there is in any case.
    pub alignment_bytes: u32,
    /// Exactly here; NULL: the kernel chooses.
    pub base: GpuVa,
    /// Flags of the call.
    pub flags: ReserveGpuVaRangeFlags,
}

bitflags::bitflags! {
    /// Flags of `DXGK_PTE` (memory §4.4).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PteFlags: u32 {
        /// Without it an access faults.
        const VALID = 1 << 0;
        /// With VALID: reads 0, drops writes.
        const ZERO = 1 << 1;
        /// Accesses are snooped.
        const CACHE_COHERENT = 1 << 2;
        /// No writes.
        const READ_ONLY = 1 << 3;
        /// No execution.
        const NO_EXECUTE = 1 << 4;
        /// Above the leaf: it names memory of the size that the lower table would cover.
        const LARGE_PAGE = 1 << 10;
        /// `PageTablePageSize` 1, in level 1 only: the leaf table below has entries of 64 KB.
        const LEAF_64KB = 1 << 17;
    }
}

/// `DXGK_PTE` (memory §4.4): page of a segment, or of system memory when the segment is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pte {
    /// Bits of the entry.
    pub flags: PteFlags,
    /// Page (or lower table), low 12 bits of the offset zero.
    pub address: PhysicalAddress,
}

impl Pte {
    /// Nothing there.
    pub const INVALID: Pte =
        Pte { flags: PteFlags::empty(), address: PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 } };
}
