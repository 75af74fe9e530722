//! Calls on synchronization objects, by CPU threads and by contexts; hardware queues have theirs in `queue` (sync §2).

use serde::{Deserialize, Serialize};
use wddm_types::RawHandle;

use crate::call::{SignalFlags, WaitFlags};
use crate::sync_object::{NativeFenceRequest, OpenSyncObjectRequest, SyncObjectRequest};

/// A call on a synchronization object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncCall {
    /// `D3DKMTCreateNativeFence` → `Fence`.
    CreateNativeFence {
        /// The device.
        device: RawHandle,
        /// The kind and initial value.
        request: NativeFenceRequest,
    },
    /// `D3DKMTCreateSynchronizationObject2` → `MonitoredFence`, or `SyncObject` for the types without a word in memory.
    CreateSynchronizationObject2 {
        /// The device.
        device: RawHandle,
        /// The kind and initial value.
        request: SyncObjectRequest,
    },
    /// `D3DKMTOpenNativeFenceFromNtHandle` → `Fence`.
    OpenNativeFenceFromNtHandle {
        /// For which device.
        device: RawHandle,
        /// Which, and for what.
        request: OpenSyncObjectRequest,
    },
    /// `D3DKMTOpenSynchronizationObject` → `Handle`: of the types without a word in memory, for the process.
    OpenSynchronizationObject {
        /// `hSharedHandle`, the global handle.
        shared: RawHandle,
    },
    /// `D3DKMTOpenSyncObjectFromNtHandle` → `Handle`: of the same, for the process.
    OpenSyncObjectFromNtHandle {
        /// The NT handle.
        handle: u64,
    },
    /// `D3DKMTOpenSyncObjectFromNtHandle2` → `MonitoredFence`; of a native fence `Fence`, without an address of MonitoredValue; of the
    /// types without a word in memory `Handle`.
    OpenSyncObjectFromNtHandle2 {
        /// For which device.
        device: RawHandle,
        /// Which, and for what.
        request: OpenSyncObjectRequest,
    },
    /// `D3DKMTDestroySynchronizationObject`: the last of a shared one destroys it.
    DestroySynchronizationObject {
        /// The object, of any type.
        fence: RawHandle,
    },
    /// `D3DKMTWaitForSynchronizationObjectFromCpu`: answers when satisfied, or at once with an event.
    WaitForSynchronizationObjectFromCpu {
        /// The device.
        device: RawHandle,
        /// Fences and values.
        points: Vec<(RawHandle, u64)>,
        /// `hAsyncEvent`: set once, when satisfied; [`RawHandle::NONE`]: the call blocks.
        async_event: RawHandle,
        /// Flags of the wait.
        flags: WaitFlags,
    },
    /// `D3DKMTSignalSynchronizationObjectFromCpu`.
    SignalSynchronizationObjectFromCpu {
        /// The device.
        device: RawHandle,
        /// Fences and values.
        points: Vec<(RawHandle, u64)>,
        /// Flags: a rewind.
        flags: SignalFlags,
    },
    /// `D3DKMTWaitForSynchronizationObjectFromGpu`: later work of the context waits.
    WaitForSynchronizationObjectFromGpu {
        /// The context.
        context: RawHandle,
        /// Objects and values; those of type `D3DDDI_FENCE` have one value in common.
        points: Vec<(RawHandle, u64)>,
    },
    /// `D3DKMTSignalSynchronizationObjectFromGpu`: when what the context was given before is done.
    SignalSynchronizationObjectFromGpu {
        /// The context.
        context: RawHandle,
        /// Objects and values.
        points: Vec<(RawHandle, u64)>,
    },
    /// `D3DKMTSignalSynchronizationObjectFromGpu2`: when all these contexts have come to this point.
    SignalSynchronizationObjectFromGpu2 {
        /// `BroadcastContextArray`, 64 at most.
        contexts: Vec<RawHandle>,
        /// Objects and values; none with ENQUEUE_CPU_EVENT.
        points: Vec<(RawHandle, u64)>,
        /// `CpuEventHandle`, with ENQUEUE_CPU_EVENT; else [`RawHandle::NONE`].
        event: RawHandle,
        /// Flags of the signal.
        flags: SignalFlags,
    },
    /// `D3DKMTWaitForSynchronizationObject2`: of mutexes, semaphores and packet fences. The first version of the call is this
    /// one with value 0.
    WaitForSynchronizationObject2 {
        /// The context.
        context: RawHandle,
        /// All of these.
        objects: Vec<RawHandle>,
        /// `FenceValue`, for the fences among them.
        fence_value: u64,
    },
    /// `D3DKMTSignalSynchronizationObject2`: of the same and of CPU notifications.
    SignalSynchronizationObject2 {
        /// `hContext`.
        context: RawHandle,
        /// All of these; none with ENQUEUE_CPU_EVENT.
        objects: Vec<RawHandle>,
        /// `BroadcastContext`: these contexts besides, 64 at most.
        broadcast: Vec<RawHandle>,
        /// `FenceValue`, for the fences among the objects.
        fence_value: u64,
        /// `CpuEventHandle`, with ENQUEUE_CPU_EVENT.
        event: RawHandle,
        /// Flags of the signal.
        flags: SignalFlags,
    },
}

impl SyncCall {
    /// The name of the `D3DKMT` function, without its prefix.
    pub const fn name(&self) -> &'static str {
        match self {
            SyncCall::CreateNativeFence { .. } => "CreateNativeFence",
            SyncCall::CreateSynchronizationObject2 { .. } => "CreateSynchronizationObject2",
            SyncCall::OpenNativeFenceFromNtHandle { .. } => "OpenNativeFenceFromNtHandle",
            SyncCall::OpenSynchronizationObject { .. } => "OpenSynchronizationObject",
            SyncCall::OpenSyncObjectFromNtHandle { .. } => "OpenSyncObjectFromNtHandle",
            SyncCall::OpenSyncObjectFromNtHandle2 { .. } => "OpenSyncObjectFromNtHandle2",
            SyncCall::DestroySynchronizationObject { .. } => "DestroySynchronizationObject",
            SyncCall::WaitForSynchronizationObjectFromCpu { .. } => "WaitForSynchronizationObjectFromCpu",
            SyncCall::SignalSynchronizationObjectFromCpu { .. } => "SignalSynchronizationObjectFromCpu",
            SyncCall::WaitForSynchronizationObjectFromGpu { .. } => "WaitForSynchronizationObjectFromGpu",
            SyncCall::SignalSynchronizationObjectFromGpu { .. } => "SignalSynchronizationObjectFromGpu",
            SyncCall::SignalSynchronizationObjectFromGpu2 { .. } => "SignalSynchronizationObjectFromGpu2",
            SyncCall::WaitForSynchronizationObject2 { .. } => "WaitForSynchronizationObject2",
            SyncCall::SignalSynchronizationObject2 { .. } => "SignalSynchronizationObject2",
        }
    }
}
