//! `DxgkDdiBuildPagingBuffer`: what VidMm asks a driver to do with memory (memory §3).

use wddm_types::{GpuVa, PageRun, PhysicalAddress, SegmentId};

use crate::allocation::KmdAllocation;
use crate::gpu_va::{PageTableUpdateMode, Pte};
use crate::queue::KmdProcess;

/// A list of system pages (MDL) as runs of consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mdl<'a> {
    /// The pages in order.
    pub runs: &'a [PageRun],
}

/// One end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferEnd<'a> {
    /// In a segment: `SegmentAddress`, the GPU address (base + offset) of the allocation's pages; the driver adds
    /// TransferOffset (memory §10.2).
    Segment {
        /// Which.
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
        /// The allocation is known to be idle.
        const ALLOCATION_IS_IDLE = 1 << 2;
        /// First sub-transfer.
        const TRANSFER_START = 1 << 3;
        /// Last sub-transfer.
        const TRANSFER_END = 1 << 4;
    }
}

/// `DXGK_BUILDPAGINGBUFFER_OPERATION` with its arguments (memory §3.3, §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingOp<'a> {
    /// 0: copies between system memory and a segment, or between segments.
    Transfer {
        /// Whose content; `None` is a raw copy.
        allocation: Option<KmdAllocation>,
        /// Byte offset of this sub-transfer; added to a segment end, never to an MDL.
        transfer_offset: u64,
        /// Bytes; 0 after a reset: the content is lost.
        size_bytes: u64,
        /// From.
        source: TransferEnd<'a>,
        /// To.
        destination: TransferEnd<'a>,
        /// Flags.
        flags: TransferFlags,
        /// First page of the MDL for this sub-transfer.
        mdl_offset: u64,
    },
    /// 1: fills with a 32-bit pattern.
    Fill {
        /// Whose content.
        allocation: Option<KmdAllocation>,
        /// Bytes.
        size_bytes: u64,
        /// The pattern.
        pattern: u32,
        /// Which segment.
        segment: SegmentId,
        /// GPU address.
        address: u64,
    },
    /// 5: redirects aperture pages to system pages.
    MapApertureSegment {
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
    /// 11: writes page-table entries.
    UpdatePageTable {
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
        /// Whose space.
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
        /// Whose space.
        process: KmdProcess,
        /// First address.
        start: GpuVa,
        /// Last address.
        end: GpuVa,
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
}

/// `DXGKARG_BUILDPAGINGBUFFER` (memory §3.1).
#[derive(Debug)]
pub struct BuildPagingBuffer<'a> {
    /// The free part of the paging buffer as 64-bit words. Empty when the operation must be done at once by the CPU.
    pub buffer: &'a mut [u64],
    /// Out: words written from the start of `buffer`.
    pub written: usize,
    /// The operation.
    pub operation: PagingOp<'a>,
    /// 0 on the first call of an operation, then owned by the driver.
    pub multipass_offset: u64,
    /// GPU address of `buffer` in the paging process.
    pub buffer_va: GpuVa,
    /// Do it now by the CPU; there is no buffer (`pDmaBuffer` NULL).
    pub immediate: bool,
}

/// What a driver may answer besides success (memory §3.2). Anything else stops the adapter.
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
