//! Native fences between kernel and driver (sync §2.6).

use std::sync::atomic::AtomicU64;

use wddm_types::GpuVa;

use crate::allocation::AllocationInfo;
use crate::queue::KmdDevice;

/// Bytes of a native fence's private data (`D3DDDI_NATIVE_FENCE_PDD_SIZE`).
pub const PRIVATE_DATA_BYTES: usize = 64;

/// The kernel's handle of a fence on an adapter, which interrupts report (sync §2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsGlobalFence(pub u64);
/// The kernel's handle of one process's open of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsLocalFence(pub u64);
/// The driver's handle of a fence on an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KmdGlobalFence(pub u64);
/// The driver's handle of one process's open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KmdLocalFence(pub u64);

/// `D3DDDI_NATIVEFENCE_TYPE` (sync §1.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FenceType {
    /// CPU and GPU both signal it and wait for it. CurrentValue lies in system memory; MonitoredValue too, or in local memory where the
    /// driver wants it there (sync §1.4).
    #[default]
    Default,
    /// Engine to engine on one GPU; no CPU access.
    IntraGpu,
}

/// `DXGK_NATIVE_FENCE_CAPS` (sync §2.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NativeFenceCaps {
    /// Bytes between monitored values packed in a page; 0 means 8.
    pub monitored_value_stride: u32,
    /// Both words are also mapped in the paging process, for the CMP.
    pub map_to_gpu_system_process: bool,
    /// First address at which words may be mapped, in processes and in the paging process; NULL: no bound.
    pub minimum_address: GpuVa,
    /// The address behind the last such; NULL: no bound.
    pub maximum_address: GpuVa,
}

/// `DXGKARG_CREATENATIVEFENCE` (sync §2.6).
#[derive(Debug)]
pub struct CreateNativeFence<'a> {
    /// The kernel's handle; keep it, interrupts report it.
    pub fence: OsGlobalFence,
    /// The type of the fence.
    pub fence_type: FenceType,
    /// CurrentValue in the paging process; NULL without MapToGpuSystemProcess.
    pub current_system_va: GpuVa,
    /// MonitoredValue in the paging process.
    pub monitored_system_va: GpuVa,
    /// From and back to the user-mode driver.
    pub private_data: &'a mut [u8; PRIVATE_DATA_BYTES],
}

/// `DXGKARG_OPENNATIVEFENCE` (sync §2.6).
#[derive(Debug)]
pub struct OpenNativeFence<'a> {
    /// The driver's global handle.
    pub global: KmdGlobalFence,
    /// The kernel's local handle.
    pub local: OsLocalFence,
    /// The driver's device.
    pub device: KmdDevice,
    /// CurrentValue in the process's space; in the IoMmu model its CPU address (sync §1.5).
    pub current_va: GpuVa,
    /// MonitoredValue in the process's space.
    pub monitored_va: GpuVa,
    /// From and back to the user-mode driver.
    pub private_data: &'a mut [u8; PRIVATE_DATA_BYTES],
}

/// One element of `DXGKARG_UPDATEMONITOREDVALUES`. The kernel's address of the word is lent for the call.
#[derive(Clone, Copy, Debug)]
pub struct MonitoredUpdate<'a> {
    /// The fence whose MonitoredValue changes.
    pub fence: KmdGlobalFence,
    /// The new MonitoredValue.
    pub value: u64,
    /// The word of MonitoredValue. The kernel sends no update for a fence without CPU access: no CPU waiter can need it.
    pub monitored: &'a AtomicU64,
}

/// One element of `DXGKARG_UPDATECURRENTVALUESFROMCPU`.
#[derive(Clone, Copy, Debug)]
pub struct CurrentUpdate<'a> {
    /// The fence whose CurrentValue changes.
    pub fence: KmdGlobalFence,
    /// The new CurrentValue.
    pub value: u64,
    /// Where it lies; `None`: the CPU does not reach it (INTRA_GPU), and the driver has its hardware write it.
    pub current: Option<&'a AtomicU64>,
}

bitflags::bitflags! {
    /// `DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS` (sync §2.6).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct UpdateCurrentFlags: u32 {
        /// The fence is satisfied for ever (sync §3.16).
        const ALWAYS_SIGNALED = 1 << 0;
        /// The value is written already: only look at the run lists again.
        const NOTIFICATION_ONLY = 1 << 1;
    }
}

/// `FenceStorageValueType` (sync §2.6): which of a fence's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FenceValueType {
    /// The words of CurrentValue.
    Current = 0,
    /// The words of MonitoredValue.
    Monitored = 1,
}

/// `D3DKMDT_FENCESTORAGESURFACEDATA` (sync §2.6): where a driver wants the words of a kind of fence to lie.
#[derive(Clone, Copy, Debug)]
pub struct FenceStorageSurface {
    /// The kind of words.
    pub value_type: FenceValueType,
    /// Of which fences.
    pub fence_type: FenceType,
    /// In: the size. Out: SupportedWriteSegmentSet, EvictionSegmentSet, PreferredSegment, alignment; and CpuVisible where the CPU
    /// is to reach it.
    pub info: AllocationInfo,
}
