//! `DxgkDdiBuildPagingBuffer`: VidMm's requests to a driver about memory (memory §3).

use wddm_types::{GpuVa, PhysicalAddress, SegmentId};

use crate::allocation::KmdAllocation;
use crate::gpu_va::{PageTableUpdateMode, Pte};
use crate::queue::{KmdContext, KmdDevice, KmdProcess};
use crate::transfer::{
    Adl, AllocNotice, CopyEntries, FenceResidency, Mdl, TransferEnd, TransferFlags, VirtualDirection,
    VirtualTransferFlags,
};

/// `DXGK_BUILDPAGINGBUFFER_OPERATION` with its arguments (memory §3.3, §3.4). The numbers are the operations'.
///
/// 19 (MAP_MMU), 20 (UNMAP_MMU) and 21 (NOTIFY_RESIDENCY2) are not here: only a header declares them, and no document tells their meaning
/// (memory §10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingOp<'a> {
    /// 0: copies between system memory and a segment, or between segments.
    Transfer {
        /// The allocation whose content it is; `None` is a raw copy.
        allocation: Option<KmdAllocation>,
        /// Byte offset of this sub-transfer; added to a segment end, never to an MDL.
        transfer_offset: u64,
        /// Bytes; 0 after a reset: the content is lost.
        size_bytes: u64,
        /// The end that is read.
        source: TransferEnd<'a>,
        /// The end that is written.
        destination: TransferEnd<'a>,
        /// Flags of the transfer.
        flags: TransferFlags,
        /// First page of the MDL for this sub-transfer.
        mdl_offset: u64,
    },
    /// 1: fills with a 32-bit pattern.
    Fill {
        /// The allocation whose content it becomes; `None`: memory of no allocation yet, or of the kernel's own.
        allocation: Option<KmdAllocation>,
        /// Bytes to fill.
        size_bytes: u64,
        /// The pattern.
        pattern: u32,
        /// The segment.
        segment: SegmentId,
        /// GPU address.
        address: u64,
    },
    /// 2: the allocation leaves this place without being copied.
    DiscardContent {
        /// The allocation whose content is given up.
        allocation: KmdAllocation,
        /// The allocation is known to be idle.
        allocation_is_idle: bool,
        /// The segment.
        segment: SegmentId,
        /// GPU address.
        address: u64,
    },
    /// 3: reads 1 to 8 bytes for coherency; the value does not matter.
    ReadPhysical {
        /// The segment.
        segment: SegmentId,
        /// GPU address.
        address: u64,
    },
    /// 4: writes 1 to 8 bytes for coherency; the value does not matter.
    WritePhysical {
        /// The segment.
        segment: SegmentId,
        /// GPU address.
        address: u64,
    },
    /// 5: redirects aperture pages to system pages: page `offset_in_pages + i` to MDL page `mdl_offset + i`.
    MapApertureSegment {
        /// The device whose allocation it is; the kernel chooses if it is shared. `None` for a primary or a DMA buffer.
        device: Option<KmdDevice>,
        /// `None` for a DMA buffer.
        allocation: Option<KmdAllocation>,
        /// The aperture.
        segment: SegmentId,
        /// First aperture page.
        offset_in_pages: u64,
        /// How many.
        number_of_pages: u64,
        /// The system pages.
        mdl: Mdl<'a>,
        /// First page of the MDL.
        mdl_offset: u64,
        /// Cacheable pages into a coherent aperture.
        cache_coherent: bool,
    },
    /// 6: redirects aperture pages to the dummy page, access left enabled.
    UnmapApertureSegment {
        /// As in the map.
        device: Option<KmdDevice>,
        /// `None` for a DMA buffer.
        allocation: Option<KmdAllocation>,
        /// The aperture.
        segment: SegmentId,
        /// First aperture page.
        offset_in_pages: u64,
        /// How many.
        number_of_pages: u64,
        /// System physical address of the dummy page.
        dummy_page: u64,
    },
    /// 7: as 0, for an allocation locked with UseAlternateVA: the bytes in system memory stand in the order in which the
    /// CPU saw them.
    SpecialLockTransfer {
        /// The allocation whose content it is.
        allocation: KmdAllocation,
        /// As in a transfer.
        transfer_offset: u64,
        /// Bytes to copy.
        size_bytes: u64,
        /// The end that is read.
        source: TransferEnd<'a>,
        /// The end that is written.
        destination: TransferEnd<'a>,
        /// Flags of the transfer.
        flags: TransferFlags,
        /// First page of the MDL for this sub-transfer.
        mdl_offset: u64,
        /// The range through which the CPU sees it.
        swizzling_range: u32,
        /// The private data with which the range was acquired.
        swizzling_range_data: u32,
    },
    /// 8: copies by addresses of the paging process.
    VirtualTransfer {
        /// The allocation whose content it is; `None`: as it lies.
        allocation: Option<KmdAllocation>,
        /// Where the range lies in the allocation; *not* to be added to the addresses.
        allocation_offset: u64,
        /// Bytes to copy.
        size_bytes: u64,
        /// The address to read.
        source: GpuVa,
        /// The address to write.
        destination: GpuVa,
        /// Address of the source's page table; NULL without `SourcePageTableVaInTransfer`.
        source_page_table: GpuVa,
        /// Address of the destination's; likewise.
        destination_page_table: GpuVa,
        /// The direction of the copy.
        direction: VirtualDirection,
        /// Page sizes.
        flags: VirtualTransferFlags,
    },
    /// 9: fills by an address of the paging process.
    VirtualFill {
        /// The allocation whose content it becomes; `None`: the pages are free and are cleared ahead.
        allocation: Option<KmdAllocation>,
        /// Where the range lies in the allocation; *not* to be added to the address.
        allocation_offset: u64,
        /// Bytes to fill.
        size_bytes: u64,
        /// The 32-bit pattern.
        pattern: u32,
        /// The address to write.
        destination: GpuVa,
    },
    /// 10: first content of a context allocation, kept by the kernel afterwards.
    InitContextResource {
        /// The driver's own handle of it.
        allocation: KmdAllocation,
        /// Where it is.
        destination: TransferEnd<'a>,
        /// System physical address at which the CPU writes it, for all its life: only if it was created CpuVisible and
        /// Protected, for aperture segments only.
        cpu_address: Option<u64>,
        /// Its address in the paging process; NULL if it has none.
        va: GpuVa,
    },
    /// 11: writes page-table entries.
    UpdatePageTable {
        /// The allocation behind the entries; `None` for tables and the kernel's own pages.
        allocation: Option<KmdAllocation>,
        /// Offset in it of the first page; pages follow one another in the allocation.
        allocation_offset: u64,
        /// From MapGpuVirtualAddress; 0 for levels above the leaf.
        driver_protection: u64,
        /// The table is about to be evicted (`NotifyEviction`).
        notify_eviction: bool,
        /// The leaf table's entries stand for 64 KB each. Start, count and addresses count in 4 KB all the same, in whole
        /// groups of 16: the driver uses every sixteenth entry.
        use_64kb_pages: bool,
        /// The pages hold native fences.
        native_fence: bool,
        /// The second half of the first entry, which names a leaf table of 64-KB entries (`pPageTableEntries64KB`): only with
        /// DualPteSupported, and at level 1 only. `first` names that of 4-KB entries then, or a large page.
        first_64kb: Option<Pte>,
        /// Address of the table in the paging process, in mode GPU_VIRTUAL; else NULL.
        table_va: GpuVa,
        /// Level, leaf = 0.
        level: u32,
        /// The table.
        table: PhysicalAddress,
        /// First entry.
        start_index: u32,
        /// How many.
        count: u32,
        /// The first entry. Without `repeat` each next one names the next 4-KB page (the pages are consecutive).
        first: Pte,
        /// All entries are the same.
        repeat: bool,
        /// First initialisation after the table became resident.
        initial: bool,
        /// The process whose space it is.
        process: KmdProcess,
        /// How the table is written.
        mode: PageTableUpdateMode,
        /// Address translated by the first entry.
        first_va: GpuVa,
    },
    /// 12: forgets translations. Start = end = 0: the whole space.
    FlushTlb {
        /// Root of the space.
        root: PhysicalAddress,
        /// The process whose space it is.
        process: KmdProcess,
        /// First address.
        start: GpuVa,
        /// Last address.
        end: GpuVa,
    },
    /// 13: a driver asked for its context allocation to be changed (`DxgkCbUpdateContextAllocation`).
    UpdateContextAllocation {
        /// The allocation, mapped in the paging process for this operation.
        va: GpuVa,
        /// Its bytes.
        size_bytes: u64,
        /// The driver's private data, unread by the kernel.
        private_data: &'a [u8],
    },
    /// 14: copies entries from table to table (tiles on a companion context).
    CopyPageTableEntries {
        /// The entries to copy.
        ranges: &'a [CopyEntries],
    },
    /// 15: an ExplicitResidencyNotification allocation came or goes; once per change. It came: its fills and transfers
    /// are built, the GPU may not have finished them. It goes: before the outgoing transfer.
    NotifyResidency {
        /// The allocation.
        allocation: KmdAllocation,
        /// Where it is; (0, 0) when it goes.
        address: PhysicalAddress,
        /// Whether it came.
        resident: bool,
    },
    /// 16: puts a signal of a fence into the buffer.
    SignalMonitoredFence {
        /// CurrentValue in the paging process.
        current: GpuVa,
        /// MonitoredValue in the paging process; NULL for a monitored fence.
        monitored: GpuVa,
        /// The value.
        value: u64,
    },
    /// 17: as 5 with a list of device pages, for drivers with `MapAperture2Supported`.
    MapApertureSegment2 {
        /// As in operation 5.
        device: Option<KmdDevice>,
        /// `None` for a DMA buffer.
        allocation: Option<KmdAllocation>,
        /// The aperture.
        segment: SegmentId,
        /// First aperture page.
        offset_in_pages: u64,
        /// How many.
        number_of_pages: u64,
        /// The pages.
        adl: Adl<'a>,
        /// First page of it.
        adl_offset: u64,
        /// Cacheable pages into a coherent aperture.
        cache_coherent: bool,
        /// System physical address at which the CPU sees the first page, for allocations with `MapApertureCpuVisible`;
        /// valid until the unmap.
        cpu_visible_address: Option<u64>,
    },
    /// 18: storage of native fences moved.
    NotifyFenceResidency {
        /// Which, and where they are now.
        fences: &'a [FenceResidency],
    },
    /// 22: an allocation with NotifyEviction or NotifyIoMmuUnmap is about to go, range by range.
    NotifyAlloc {
        /// The allocation.
        allocation: KmdAllocation,
        /// The process in whose address space it is; `None` for an eviction.
        process: Option<KmdProcess>,
        /// The reason of the notice.
        notice: AllocNotice,
        /// Offset of the range in the allocation.
        offset_bytes: u64,
        /// Bytes of the range.
        size_bytes: u64,
        /// GPU address of the range: mapped for this buffer only.
        va: GpuVa,
    },
}

impl PagingOp<'_> {
    /// `DXGK_BUILDPAGINGBUFFER_OPERATION` as a number.
    pub fn number(&self) -> u32 {
        match self {
            PagingOp::Transfer { .. } => 0,
            PagingOp::Fill { .. } => 1,
            PagingOp::DiscardContent { .. } => 2,
            PagingOp::ReadPhysical { .. } => 3,
            PagingOp::WritePhysical { .. } => 4,
            PagingOp::MapApertureSegment { .. } => 5,
            PagingOp::UnmapApertureSegment { .. } => 6,
            PagingOp::SpecialLockTransfer { .. } => 7,
            PagingOp::VirtualTransfer { .. } => 8,
            PagingOp::VirtualFill { .. } => 9,
            PagingOp::InitContextResource { .. } => 10,
            PagingOp::UpdatePageTable { .. } => 11,
            PagingOp::FlushTlb { .. } => 12,
            PagingOp::UpdateContextAllocation { .. } => 13,
            PagingOp::CopyPageTableEntries { .. } => 14,
            PagingOp::NotifyResidency { .. } => 15,
            PagingOp::SignalMonitoredFence { .. } => 16,
            PagingOp::MapApertureSegment2 { .. } => 17,
            PagingOp::NotifyFenceResidency { .. } => 18,
            PagingOp::NotifyAlloc { .. } => 22,
        }
    }

    /// Whether the driver may answer ALLOCATION_BUSY, and whether it was told already that the allocation is idle
    /// (memory §3.2).
    pub fn may_be_busy(&self) -> Option<bool> {
        match self {
            PagingOp::Transfer { flags, .. } | PagingOp::SpecialLockTransfer { flags, .. } => {
                Some(flags.contains(TransferFlags::ALLOCATION_IS_IDLE))
            }
            PagingOp::DiscardContent { allocation_is_idle, .. } => Some(*allocation_is_idle),
            _ => None,
        }
    }
}

/// `DXGKARG_BUILDPAGINGBUFFER` (memory §3.1).
#[derive(Debug)]
pub struct BuildPagingBuffer<'a> {
    /// The free part of the paging buffer as 64-bit words. Empty when the operation must be done at once by the CPU.
    pub buffer: &'a mut [u64],
    /// Out: words written from the start of `buffer`.
    pub written: usize,
    /// The free part of the buffer's private data (`pDmaBufferPrivateData`): zeroed once when the buffer was created, then
    /// the driver's. Empty when the operation must be done at once by the CPU.
    pub private_data: &'a mut [u8],
    /// Out: bytes of `private_data` that are taken from its start; the next operation of this buffer gets those behind.
    pub private_written: usize,
    /// The operation.
    pub operation: PagingOp<'a>,
    /// 0 on the first call of an operation, then owned by the driver.
    pub multipass_offset: u64,
    /// GPU address of `buffer` in the paging process.
    pub buffer_va: GpuVa,
    /// Do it now by the CPU; there is no buffer (`pDmaBuffer` NULL).
    pub immediate: bool,
    /// The paging context (`hSystemContext`).
    pub system_context: KmdContext,
    /// Bytes from the start of the paging buffer to `buffer` (`DmaBufferWriteOffset`).
    pub write_offset: u32,
}

/// The statuses of a driver besides success (memory §3.2). Any other stops the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagingStatus {
    /// `STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER`: submit what is there, call again with a new buffer and the same
    /// `multipass_offset`.
    #[error("the paging buffer is full")]
    InsufficientDmaBuffer,
    /// `STATUS_GRAPHICS_ALLOCATION_BUSY`: wait until the allocation is idle, call again saying so.
    #[error("the allocation is busy")]
    AllocationBusy,
    /// Another failure: the driver is not allowed one.
    #[error("the driver failed a paging operation: {0}")]
    Fatal(&'static str),
}
