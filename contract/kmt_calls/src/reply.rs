//! The answers.

use std::borrow::Cow;

use wddm_types::{Blame, CpuRun, GpuVa, Luid, NtStatus, RawHandle, SegmentId, WordAddress};

use crate::allocation::{CreatedAllocations, CreatedSection, OpenedResource, ResidencyStatus, ResourceInfo};
use crate::call::QueueFlags;

/// What a call answers when it succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done; nothing to say.
    Done,
    /// Adapters with their names.
    Adapters(Vec<(Luid, String)>),
    /// A new handle.
    Handle(RawHandle),
    /// A context whose buffers are patched.
    Context(crate::CreatedContext),
    /// Of Render, Present and SubmitCommand: how many of the context's buffers are queued and not done.
    Queued(u32),
    /// New allocations.
    Allocations(CreatedAllocations),
    /// A resource that somebody shared.
    OpenedResource(OpenedResource),
    /// About a shared resource.
    ResourceInfo(ResourceInfo),
    /// An NT handle.
    NtHandle(u64),
    /// Memory of the caller.
    Section(CreatedSection),
    /// Priorities in request order.
    Priorities(Vec<u32>),
    /// Where allocations are, in request order.
    ResidencyStatuses(Vec<ResidencyStatus>),
    /// About an adapter.
    AdapterInfo(AdapterInfo),
    /// About a budget group.
    VideoMemoryInfo(VideoMemoryInfo),
    /// A device's state.
    DeviceState(DeviceState),
    /// A paging queue.
    PagingQueue(CreatedPagingQueue),
    /// A mapping: its address and the paging-fence value that makes it usable (0: now).
    MappedVa {
        /// First address.
        va: GpuVa,
        /// Value of the paging fence; 0 = already complete.
        paging_fence_value: u64,
    },
    /// Of MakeResident.
    Residency(Residency),
    /// Of Evict: bytes over budget, 0 = within.
    BytesToTrim(u64),
    /// Of ReclaimAllocations2, in request order; the value as in `MappedVa`.
    Reclaimed {
        /// What is left of each.
        results: Vec<ReclaimResult>,
        /// Value of the paging fence; 0 = already complete.
        paging_fence_value: u64,
    },
    /// Memory that the caller may touch.
    Mapped(Mapped),
    /// Of the legacy Lock: the handle to use from now on (another one after a rename, memory §6.5) and the memory.
    Locked {
        /// Always to be read again.
        allocation: RawHandle,
        /// The memory.
        mapped: Mapped,
    },
    /// A hardware queue.
    HwQueue(CreatedHwQueue),
    /// A doorbell.
    Doorbell(CreatedDoorbell),
    /// A connected doorbell's byte offset in the adapter's doorbell page.
    DoorbellOffset {
        /// Offset.
        offset: u64,
        /// `CONNECTED_NOTIFY_KMD`.
        notify: bool,
    },
    /// A fence.
    Fence(CreatedFence),
}

/// Why a call is refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status that the C interface returns.
    pub status: NtStatus,
    /// Whose fault.
    pub blame: Blame,
    /// What was wrong, for people.
    pub reason: Cow<'static, str>,
    /// With NO_MEMORY from MakeResident: bytes to trim before a retry.
    pub bytes_to_trim: u64,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status, self.reason)?;
        if self.bytes_to_trim != 0 {
            write!(f, " ({} bytes to trim)", self.bytes_to_trim)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// What QueryAdapterInfo tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Segments in id order.
    pub segments: Vec<SegmentInfo>,
    /// Names of the nodes by ordinal.
    pub nodes: Vec<String>,
    /// Its engines translate GPU virtual addresses; without, their contexts are patched (memory §5.6).
    pub gpu_virtual_addresses: bool,
    /// `NativeGpuFenceSupported` (sync §2.1).
    pub native_gpu_fence: bool,
    /// Feature USER_MODE_SUBMISSION is on.
    pub user_mode_submission: bool,
    /// The GPU snoops the CPU's caches: InvalidateCache has nothing to do (memory §6.7).
    pub io_coherent: bool,
}

/// One segment as user mode sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its id.
    pub id: SegmentId,
    /// An aperture, else memory.
    pub aperture: bool,
    /// Bytes that allocations can have.
    pub size_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

/// `D3DKMT_QUERYVIDEOMEMORYINFO` (memory §5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VideoMemoryInfo {
    /// Budget in bytes.
    pub budget_bytes: u64,
    /// Usage in bytes.
    pub current_usage_bytes: u64,
    /// What the process has reserved.
    pub current_reservation_bytes: u64,
    /// What it could reserve at most.
    pub available_for_reservation_bytes: u64,
}

/// `D3DDDI_RECLAIM_RESULT` (memory §5.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimResult {
    /// 0: the content is as it was.
    Ok,
    /// 1: the content is gone, the memory is there.
    Discarded,
    /// 2: there was no memory for it; it stays offered.
    NotCommitted,
}

/// `D3DKMT_DEVICEEXECUTION_*` (memory §5.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// 1.
    Active,
    /// 4: its adapter was stopped (PnP).
    Stopped,
    /// 5: MustSucceed failed.
    ErrorOutOfMemory,
    /// 6: a reference to non-resident memory.
    ErrorDmaFault,
    /// 7: a GPU virtual address faulted.
    ErrorDmaPageFault,
}

/// Of CreatePagingQueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedPagingQueue {
    /// The queue.
    pub queue: RawHandle,
    /// Its fence.
    pub fence: CreatedFence,
}

/// A fence as its creator sees it (`D3DDDI_NATIVEFENCEMAPPING`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedFence {
    /// The handle.
    pub fence: RawHandle,
    /// CurrentValue, to be mapped read-only.
    pub current: WordAddress,
    /// CurrentValue for the GPU: read/write.
    pub current_va: GpuVa,
    /// MonitoredValue for the GPU: read-only.
    pub monitored_va: GpuVa,
}

/// Of CreateHwQueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedHwQueue {
    /// The queue.
    pub queue: RawHandle,
    /// Flags as the kernel completed them.
    pub flags: QueueFlags,
    /// The progress fence.
    pub progress: CreatedFence,
}

/// Of CreateDoorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatedDoorbell {
    /// The doorbell.
    pub doorbell: RawHandle,
    /// `HwQueueProgressFenceLastQueuedValue`: the caller writes it before each ring.
    pub last_queued: WordAddress,
    /// Doorbell status, to be mapped read-only.
    pub status: WordAddress,
}

/// Of MakeResident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// `STATUS_SUCCESS`: all resident now.
    Resident,
    /// `STATUS_PENDING`: counts are raised; wait for the value before GPU use.
    Pending {
        /// Value of the paging fence.
        paging_fence_value: u64,
    },
}

/// Names a locked allocation's place in its process: its address, which stays the same while the content moves
/// (memory §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappingId(pub u64);

/// What a lock gives its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The mapping, the same for all nested locks of an allocation.
    pub mapping: MappingId,
    /// Where the bytes lay when the lock was decided, in their order. They may move; the mapping follows.
    pub runs: Vec<CpuRun>,
    /// Bytes.
    pub size_bytes: u64,
}
