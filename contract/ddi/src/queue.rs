//! Devices, contexts and hardware queues between kernel and driver (sync §2.5), and the handles of everything that belongs to them.

use wddm_types::{GpuVa, NodeId, Pasid, SegmentSet};

use crate::fence::KmdGlobalFence;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $($(#[$doc])* #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)] pub struct $name(pub u64);)*
    };
}

handles! {
    /// The kernel's handle of a process (`hDxgkProcess`).
    OsProcess,
    /// The driver's handle of a process (`hKmdProcess`).
    KmdProcess,
    /// The driver's handle of a device.
    KmdDevice,
    /// The kernel's handle of a context.
    OsContext,
    /// The driver's handle of a context.
    KmdContext,
    /// The kernel's handle of a hardware queue.
    OsQueue,
    /// The driver's handle of a hardware queue.
    KmdQueue,
    /// The kernel's handle of a doorbell.
    OsDoorbell,
    /// The driver's handle of a doorbell.
    KmdDoorbell,
}

/// `DXGKARG_CREATEPROCESS` (memory §7.1).
#[derive(Clone, Copy, Debug)]
pub struct CreateProcess<'a> {
    /// The kernel's handle.
    pub process: OsProcess,
    /// The paging process.
    pub system: bool,
    /// `pPasid`, `NumPasid` of them: the process at the IOMMU of each physical adapter. None but on an adapter of the IoMmu
    /// model, where contexts of the process run in these address spaces (memory §4.1).
    pub pasids: &'a [Pasid],
}

/// `DXGKARG_CREATEDEVICE` (memory §7.1).
#[derive(Clone, Copy, Debug)]
pub struct CreateDevice {
    /// The process that owns the device.
    pub process: KmdProcess,
    /// The kernel's own device for paging.
    pub system: bool,
    /// `Pasid` of the process; `None` but in the IoMmu model (memory §4.1).
    pub pasid: Option<Pasid>,
}

/// `DXGK_DEVICEINFO` (memory §7.1), the driver's answer to CreateDevice: DMA buffers and lists of the device's contexts that say nothing
/// of their own ([`crate::ContextInfo::default`]). The default says that the device has none: then each patched context names its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Bytes of a DMA buffer.
    pub dma_buffer_bytes: u32,
    /// Aperture segments in which DMA buffers are shown; empty: contiguous, locked system memory, read at its physical address. A
    /// memory segment fails the creation of the device.
    pub dma_buffer_segment_set: SegmentSet,
    /// Private bytes that go with each DMA buffer.
    pub dma_buffer_private_data_bytes: u32,
    /// Entries of an allocation list.
    pub allocation_list_entries: u32,
    /// Entries of a patch-location list.
    pub patch_location_list_entries: u32,
}

/// `DXGKARG_CREATECONTEXT` for hardware scheduling (`DxgkDdiCreateHwContext`).
#[derive(Clone, Copy, Debug)]
pub struct CreateHwContext<'a> {
    /// The device.
    pub device: KmdDevice,
    /// The kernel's handle.
    pub context: OsContext,
    /// The node that the context runs on.
    pub node: NodeId,
    /// The kernel's own context for paging (`SystemContext`).
    pub system: bool,
    /// From the user-mode driver; untrusted.
    pub private_data: &'a [u8],
}

bitflags::bitflags! {
    /// `D3DDDI_CREATEHWQUEUEFLAGS` (sync §2.5).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HwQueueFlags: u32 {
        /// No timeout detection.
        const DISABLE_GPU_TIMEOUT = 1 << 0;
        /// No part in broadcast signals.
        const NO_BROADCAST_SIGNAL = 1 << 1;
        /// Not blocked by broadcast waits.
        const NO_BROADCAST_WAIT = 1 << 2;
        /// System use.
        const NO_KMD_ACCESS = 1 << 3;
        /// Submits by ring and doorbell; kernel-mode submission is forbidden.
        const USER_MODE_SUBMISSION = 1 << 4;
        /// Set by the kernel: the progress fence is native.
        const NATIVE_PROGRESS_FENCE = 1 << 5;
        /// Kernel-mode testing.
        const TEST_QUEUE = 1 << 6;
    }
}

/// A queue's progress fence as the driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressFence {
    /// The driver's own handle of the native fence.
    pub fence: KmdGlobalFence,
    /// CurrentValue in the queue's space.
    pub current_va: GpuVa,
    /// MonitoredValue in the queue's space.
    pub monitored_va: GpuVa,
}

/// `DXGKARG_CREATEHWQUEUE`.
#[derive(Debug)]
pub struct CreateHwQueue<'a> {
    /// The context.
    pub context: KmdContext,
    /// The kernel's handle.
    pub queue: OsQueue,
    /// Flags of the queue.
    pub flags: HwQueueFlags,
    /// The native progress fence.
    pub progress: ProgressFence,
    /// From the user-mode driver, and back to it; untrusted. Empty for the kernel's own.
    pub private_data: &'a mut [u8],
}

/// `DXGKARG_SUBMITCOMMANDTOHWQUEUE`.
#[derive(Clone, Copy, Debug)]
pub struct SubmitCommandToHwQueue<'a> {
    /// The queue.
    pub queue: KmdQueue,
    /// The value that the queue's progress fence has when the buffer is done.
    pub progress_value: u64,
    /// The commands' address in the queue's space.
    pub buffer: GpuVa,
    /// Their bytes.
    pub buffer_bytes: u32,
    /// `pDmaBufferPrivateData`: the driver's, from building a paging buffer; of a user's buffer the user-mode driver's, untrusted.
    pub private_data: &'a [u8],
    /// A paging buffer.
    pub paging: bool,
}

/// The answer of `DxgkDdiSuspendContext` (sync §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspendStatus {
    /// `STATUS_SUCCESS`: nothing executes for the context.
    Suspended,
    /// `STATUS_PENDING`: an interrupt will say so.
    Pending,
}
