//! The answers.

mod device_state;
mod fence;

pub use device_state::{DeviceFault, DeviceState, PresentState};
pub use fence::{CreatedFence, NativeFenceLogDetail};

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use wddm_types::{
    Blame, GpuVa, Luid, NtStatus, PciFunction, ProcessId, RawHandle, SegmentId, VidPnSourceId, VidPnTargetId,
    WordAddress,
};

use crate::allocation::{CreatedAllocations, CreatedSection, OpenedResource, ResidencyStatus, ResourceInfo};
use crate::call::QueueFlags;
use crate::mapped::{Mapped, MappingId};
use crate::statistics::{AdapterStatistics, ClockCalibration, ProcessIdentity, VideoMemoryInfo};

/// The answer of a call that succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Done; nothing to say.
    Done,
    /// Adapters with their names.
    Adapters(Vec<(Luid, String)>),
    /// A new handle.
    Handle(RawHandle),
    /// A synchronization object without a word in memory.
    SyncObject(crate::CreatedSyncObject),
    /// A context whose buffers are patched.
    Context(crate::CreatedContext),
    /// Of Render, Present and SubmitCommand: how many of the context's buffers are queued and not done.
    Queued(u32),
    /// New allocations.
    Allocations(CreatedAllocations),
    /// A shared resource that was opened.
    OpenedResource(OpenedResource),
    /// About a shared resource.
    ResourceInfo(ResourceInfo),
    /// An NT handle.
    NtHandle(u64),
    /// Memory of the caller.
    Section(CreatedSection),
    /// Bytes of allocations, in request order.
    AllocationSizes(Vec<u64>),
    /// Whether something is in use.
    InUse(bool),
    /// Priorities in request order.
    Priorities(Vec<u32>),
    /// Where allocations are, in request order.
    ResidencyStatuses(Vec<ResidencyStatus>),
    /// About an adapter.
    AdapterInfo(AdapterInfo),
    /// About a feature.
    Feature(FeatureResult),
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
    /// Of SetQueuedLimit's GET form: flips of the device that may be queued when Present returns.
    QueuedLimit(u32),
    /// Of the first form of ReclaimAllocations, in request order: whether the content is lost. Empty if the caller did not ask.
    Discarded(Vec<bool>),
    /// Of ReclaimAllocations2, in request order; the value as in `MappedVa`.
    Reclaimed {
        /// The state of each.
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
    /// A doorbell is connected.
    DoorbellConnected {
        /// `CONNECTED_NOTIFY_KMD`.
        notify: bool,
        /// Where the queue logs from now on.
        logs: NativeFenceLogDetail,
    },
    /// Where a queue logs.
    NativeFenceLogs(NativeFenceLogDetail),
    /// A fence.
    Fence(CreatedFence),
    /// A monitored fence.
    MonitoredFence(crate::CreatedMonitoredFence),
    /// A priority of a context, as it was set.
    ContextPriority(i32),
    /// The priority class of the process.
    PriorityClass(u32),
    /// Processes with a device on an adapter.
    Processes(Vec<ProcessId>),
    /// What the operating system says of a process, if the embedding program has said it.
    ProcessIdentity(Option<ProcessIdentity>),
    /// Bytes of a process's offered content whose backing store the kernel can give up now.
    DecommittableBytes(u64),
    /// All figures of an adapter.
    Statistics(Box<AdapterStatistics>),
    /// The clocks of a node and of the kernel.
    ClockCalibration(ClockCalibration),
    /// A keyed mutex that the caller has created.
    KeyedMutex(crate::CreatedKeyedMutex),
    /// One that the caller has now.
    AcquiredKeyedMutex(crate::AcquiredKeyedMutex),
    /// The fault that a device was lost for; none: it lives, or was lost for something else.
    DeviceFault(Option<DeviceFault>),
    /// Presents of a device.
    PresentState(PresentState),
    /// The data of a private call, as the driver has left them.
    Escaped(Vec<u8>),
}

impl Reply {
    /// The words in system memory that the answer names: a host that carries the answer to another process gives that process their
    /// pages.
    pub fn words(&self) -> Vec<WordAddress> {
        let fence = |fence: &CreatedFence| (fence.current != CreatedFence::NO_CPU_ADDRESS).then_some(fence.current);
        match self {
            Reply::PagingQueue(queue) => fence(&queue.fence).into_iter().collect(),
            Reply::HwQueue(queue) => fence(&queue.progress).into_iter().collect(),
            Reply::Fence(created) => fence(created).into_iter().collect(),
            Reply::MonitoredFence(created) => vec![created.value],
            Reply::Doorbell(doorbell) => vec![doorbell.last_queued, doorbell.status],
            _ => Vec::new(),
        }
    }

    /// The mapping that the answer names.
    pub fn mapping(&self) -> Option<MappingId> {
        match self {
            Reply::Mapped(mapped) | Reply::Locked { mapped, .. } => Some(mapped.mapping),
            Reply::Section(created) => Some(created.mapped.mapping),
            _ => None,
        }
    }
}

/// Why a call is refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The status that the C interface returns.
    pub status: NtStatus,
    /// The party at fault.
    pub blame: Blame,
    /// The reason, for people.
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

/// The answer of QueryAdapterInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterInfo {
    /// By which every process names it.
    pub luid: Luid,
    /// For people.
    pub name: String,
    /// What the bus says of it.
    pub pci: PciFunction,
    /// The driver's interface version (`DXGKDDI_INTERFACE_VERSION`).
    pub ddi_version: u32,
    /// Its engines update 64 bits at once.
    pub atomics_64_bit: bool,
    /// Segments in id order.
    pub segments: Vec<SegmentInfo>,
    /// Names of the nodes by ordinal.
    pub nodes: Vec<String>,
    /// Its engines translate GPU virtual addresses; without, their contexts are patched (memory §5.6).
    pub gpu_virtual_addresses: bool,
    /// `D3DKMT_GPUMMU_CAPS`: bits that programs know of these addresses, and how wide they are; 0 bits without any.
    pub gpu_mmu: (u32, u32),
    /// Allocations can be shared with other adapters (`SupportCrossAdapterResource`).
    pub cross_adapter_resources: bool,
    /// Its engines use the CPU's addresses of a process (the IoMmu model, memory §4.1): allocations have their addresses from
    /// their creation on, and there are no calls about them.
    pub cpu_addresses: bool,
    /// `KMTQAITYPE_WDDM_3_0_CAPS`.
    pub wddm_3_0_caps: Wddm30Caps,
    /// `KMTQAITYPE_WDDM_3_1_CAPS`.
    pub wddm_3_1_caps: Wddm31Caps,
    /// How each node signals monitored fences, and with that what its user-mode driver emits.
    pub monitored_fence_signals: Vec<MonitoredFenceSignal>,
    /// Feature USER_MODE_SUBMISSION is on.
    pub user_mode_submission: bool,
    /// How finely packets can be preempted, as `D3DKMDT_GRAPHICS_PREEMPTION_GRANULARITY` and for compute; 0: not at all (sync §4.3).
    pub preemption: (u32, u32),
    /// The GPU snoops the CPU's caches: InvalidateCache has nothing to do (memory §6.7).
    pub io_coherent: bool,
    /// Its displays by the number of their sources; none: it only renders.
    pub displays: Vec<DisplayInfo>,
}

/// A display of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisplayInfo {
    /// The video present source, on which primaries are shown.
    pub source: VidPnSourceId,
    /// Where it is plugged in.
    pub target: VidPnTargetId,
    /// Nanoseconds from one vertical blank to the next.
    pub refresh_ns: u64,
    /// The mode that the source has: that of the primary that it shows, else the preferred one.
    pub current: DisplayMode,
    /// The mode that the monitor prefers.
    pub preferred: DisplayMode,
}

/// The mode of a display, as far as a primary gives it (`D3DKMDT_VIDPN_SOURCE_MODE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DisplayMode {
    /// Texels of a row.
    pub width: u32,
    /// Rows of the display.
    pub height: u32,
    /// `D3DDDIFORMAT` of a texel.
    pub format: u32,
}

bitflags::bitflags! {
    /// `D3DKMT_WDDM_3_0_CAPS` (sync §2.1). Bit 3, DisplayableSupported, is of a kind of surface that this kernel has not.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Wddm30Caps: u32 {
        /// `HwFlipQueueSupportState` STABLE, in bits 0 and 1: its driver has a flip queue; 0: it has none. Drivers that say so in two ways
        /// (sync §2.10, DriverSupportState) are older than feature queries.
        const HW_FLIP_QUEUE_STABLE = 2;
        /// `HwFlipQueueEnabled`: flips are queued there.
        const HW_FLIP_QUEUE_ENABLED = 1 << 2;
    }

    /// `D3DKMT_WDDM_3_1_CAPS` (sync §2.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Wddm31Caps: u32 {
        /// `NativeGpuFenceSupported`.
        const NATIVE_GPU_FENCE_SUPPORTED = 1 << 0;
    }
}

/// `DXGK_ISFEATUREENABLED_RESULT` (sync §2.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureResult {
    /// The version negotiated; 0 when off.
    pub version: u16,
    /// Whether the feature is on.
    pub enabled: bool,
    /// The kernel knows the id.
    pub known: bool,
    /// The driver supports it.
    pub supported_by_driver: bool,
    /// On this machine.
    pub supported_on_current_config: bool,
}

/// How a node's engines signal monitored fences (sync §3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MonitoredFenceSignal {
    /// They cannot: a software packet does (`SignalSynchronizationObjectFromGpu`).
    Packet,
    /// By a store to the fence's address. They do not interrupt: the kernel looks at each completed command buffer.
    Basic,
    /// By a store to the fence's address that always interrupts.
    Advanced,
}

/// One segment as user mode sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    /// Its id.
    pub id: SegmentId,
    /// An aperture, else memory.
    pub aperture: bool,
    /// The bits of its flags (`DXGK_SEGMENTFLAGS`, memory §1.5) as the driver said them.
    pub flags: u32,
    /// Whether it counts in the budget of the local group, else of the other one.
    pub local: bool,
    /// Most bytes that are mapped at once; of memory its size.
    pub commit_limit_bytes: u64,
    /// Bytes that allocations can have.
    pub size_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

/// `D3DDDI_RECLAIM_RESULT` (memory §5.9), the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ReclaimResult {
    /// 0: the content is as it was.
    Ok,
    /// 1: the content is gone, the memory is there.
    Discarded,
    /// 2: there was no memory for it; it stays offered.
    NotCommitted,
}

/// Of CreatePagingQueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedPagingQueue {
    /// The queue.
    pub queue: RawHandle,
    /// Its fence.
    pub fence: CreatedFence,
}

/// Of CreateHwQueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedHwQueue {
    /// The queue.
    pub queue: RawHandle,
    /// Flags as the kernel completed them.
    pub flags: QueueFlags,
    /// The progress fence.
    pub progress: CreatedFence,
    /// Where its waits and signals are logged; `None` if the kernel feeds it (sync §3.14).
    pub logs: Option<NativeFenceLogDetail>,
    /// The driver's answer.
    pub private_data: Vec<u8>,
}

/// Of CreateDoorbell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedDoorbell {
    /// The doorbell.
    pub doorbell: RawHandle,
    /// `DoorbellCPUVirtualAddress`.
    pub address: DoorbellAddress,
    /// `HwQueueProgressFenceLastQueuedValue`: the caller writes it before each ring.
    pub last_queued: WordAddress,
    /// Doorbell status, to be mapped read-only.
    pub status: WordAddress,
    /// The driver's answer.
    pub private_data: Vec<u8>,
}

/// Names a doorbell's place in its process: its address, which stays the same as long as the doorbell lives, connected or not
/// (sync §2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DoorbellAddress(pub u64);

/// Of MakeResident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Residency {
    /// `STATUS_SUCCESS`: all resident now.
    Resident,
    /// `STATUS_PENDING`: counts are raised; wait for the value before GPU use.
    Pending {
        /// Value of the paging fence.
        paging_fence_value: u64,
        /// The place in the call's list of an allocation that a lock keeps out of its segments: the value comes after the unlock.
        locked: Option<u32>,
    },
}
