//! The arguments of paging operations that have a shape of their own: page lists, ends and flags of transfers, ranges of
//! entries, fence storage (memory §3.4). No operation stands here: those are in `paging`.

use wddm_types::{GpuVa, PageRun, PhysicalAddress, SegmentId, WordAddress};

use crate::fence::OsGlobalFence;

/// A list of system pages (MDL) as runs of consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mdl<'a> {
    /// The pages in order.
    pub runs: &'a [PageRun],
}

/// `DXGK_ADL` (memory §3.4, operation 17): system pages as the device sees them. Either form may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adl<'a> {
    /// `Contiguous`: base page number and how many.
    Contiguous(PageRun),
    /// One page number for each page.
    Pages(&'a [u64]),
}

impl Adl<'_> {
    /// How many pages it names.
    pub fn page_count(&self) -> u64 {
        match self {
            Adl::Contiguous(run) => run.count.0,
            Adl::Pages(pages) => pages.len() as u64,
        }
    }

    /// The number of its page `index`.
    pub fn page(&self, index: u64) -> Option<u64> {
        match self {
            Adl::Contiguous(run) => (index < run.count.0).then(|| run.first + index),
            Adl::Pages(pages) => pages.get(usize::try_from(index).ok()?).copied(),
        }
    }
}

/// One end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferEnd<'a> {
    /// In a segment: `SegmentAddress`, the GPU address (base + offset) of the allocation's pages; the driver adds
    /// TransferOffset (memory §10.2).
    Segment {
        /// The segment.
        segment: SegmentId,
        /// GPU address.
        address: u64,
    },
    /// In system memory: the pages from `mdl_offset` of the operation on.
    Mdl(Mdl<'a>),
}

bitflags::bitflags! {
    /// Flags of a transfer (memory §3.4).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TransferFlags: u32 {
        /// The content is linear at the source and is to be swizzled.
        const SWIZZLE = 1 << 0;
        /// The content is swizzled at the source and is to be linear.
        const UNSWIZZLE = 1 << 1;
        /// The allocation is known to be idle.
        const ALLOCATION_IS_IDLE = 1 << 2;
        /// First sub-transfer.
        const TRANSFER_START = 1 << 3;
        /// Last sub-transfer.
        const TRANSFER_END = 1 << 4;
    }
}

bitflags::bitflags! {
    /// Flags of a virtual transfer (memory §3.4, operation 8).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct VirtualTransferFlags: u32 {
        /// The source is mapped by 64-KB pages.
        const SRC_64KB_PAGES = 1 << 0;
        /// The destination is.
        const DST_64KB_PAGES = 1 << 1;
    }
}

/// `TransferDirection` of a virtual transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualDirection {
    /// 0: memory segment to system memory.
    LocalToSystem,
    /// 1: system memory to memory segment.
    SystemToLocal,
    /// 2: within memory segments.
    LocalToLocal,
}

/// One range of operation 14. Both tables are mapped in the paging process's space, 64-KB aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEntries {
    /// How many entries.
    pub count: u32,
    /// Address of the table that is read.
    pub source_table: GpuVa,
    /// Address of the table that is written.
    pub target_table: GpuVa,
    /// First entry read.
    pub source_start: u32,
    /// First entry written.
    pub target_start: u32,
}

/// One fence of operation 18: where its words lie now. [H]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceResidency {
    /// The kernel's handle.
    pub fence: OsGlobalFence,
    /// Where CurrentValue lies.
    pub current: PhysicalAddress,
    /// Where MonitoredValue lies.
    pub monitored: PhysicalAddress,
    /// CurrentValue for the CPU.
    pub current_word: WordAddress,
    /// MonitoredValue for the CPU.
    pub monitored_word: WordAddress,
}

/// Why an allocation is about to leave (operation 22). The two exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocNotice {
    /// It is evicted from an aperture or from system memory; the address is the paging process's.
    Eviction,
    /// It is unmapped from the IOMMU; the address is the process's.
    IoMmuUnmap,
}
