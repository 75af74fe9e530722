//! Calls on hardware contexts, hardware queues and doorbells (sync §3).

use serde::{Deserialize, Serialize};
use wddm_types::{GpuVa, NodeId, RawHandle};

use crate::call::{QueueFlags, SignalFlags};

/// A call on a hardware context, a queue of one, or its doorbell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueCall {
    /// `D3DKMTCreateHwContext` → `Handle`.
    CreateHwContext {
        /// The device.
        device: RawHandle,
        /// The node that the context runs on.
        node: NodeId,
        /// For the driver.
        private_data: Vec<u8>,
    },
    /// `D3DKMTDestroyHwContext`.
    DestroyHwContext {
        /// The context; its queues go too.
        context: RawHandle,
    },
    /// `D3DKMTCreateHwQueue` → `HwQueue`.
    CreateHwQueue {
        /// The context.
        context: RawHandle,
        /// Flags of the queue.
        flags: QueueFlags,
        /// For the driver, and back from it.
        private_data: Vec<u8>,
    },
    /// `D3DKMTDestroyHwQueue`.
    DestroyHwQueue {
        /// The queue.
        queue: RawHandle,
    },
    /// `D3DKMTGetNativeFenceLogDetail` → `NativeFenceLogs`: where a queue that its process feeds logs now.
    GetNativeFenceLogDetail {
        /// The queue.
        queue: RawHandle,
    },
    /// `D3DKMTSubmitCommandToHwQueue`.
    SubmitCommandToHwQueue {
        /// The queue; not one with user-mode submission.
        queue: RawHandle,
        /// The progress value that the buffer completes; strictly rising.
        progress_value: u64,
        /// The commands.
        buffer: GpuVa,
        /// Their bytes.
        buffer_bytes: u32,
        /// `WrittenPrimaries`: primaries that they write, 16 at most. There are no other lists here.
        written_primaries: Vec<RawHandle>,
        /// `pPrivateDriverData`: for the driver, as much as it takes with a buffer of a hardware queue.
        private_data: Vec<u8>,
    },
    /// `D3DKMTSubmitWaitForSyncObjectsToHwQueue`.
    SubmitWaitForSyncObjectsToHwQueue {
        /// The queue.
        queue: RawHandle,
        /// Fences and values; all must be reached.
        points: Vec<(RawHandle, u64)>,
    },
    /// `D3DKMTSubmitSignalSyncObjectsToHwQueue`: signalled when all the queues have come so far.
    SubmitSignalSyncObjectsToHwQueue {
        /// The queues, all of one adapter.
        queues: Vec<RawHandle>,
        /// Fences and values.
        points: Vec<(RawHandle, u64)>,
        /// `D3DDDICB_SIGNALFLAGS`.
        flags: SignalFlags,
    },
    /// `D3DKMTCreateDoorbell` → `Doorbell`.
    CreateDoorbell {
        /// A queue with user-mode submission.
        queue: RawHandle,
        /// The ring buffer: an allocation, mapped at `ring_va`, resident.
        ring: RawHandle,
        /// Where it is mapped; null: where all of it is, as `D3DKMT_CREATE_DOORBELL` has it.
        ring_va: GpuVa,
        /// For the driver, 16 bytes at most; the answer has as many.
        private_data: Vec<u8>,
    },
    /// `D3DKMTConnectDoorbell` → `DoorbellConnected`.
    ConnectDoorbell {
        /// The doorbell.
        doorbell: RawHandle,
    },
    /// `D3DKMTDestroyDoorbell`.
    DestroyDoorbell {
        /// The doorbell.
        doorbell: RawHandle,
    },
    /// `D3DKMTNotifyWorkSubmission`.
    NotifyWorkSubmission {
        /// The doorbell.
        doorbell: RawHandle,
    },
}

impl QueueCall {
    /// The name of the `D3DKMT` function, without its prefix.
    pub const fn name(&self) -> &'static str {
        match self {
            QueueCall::CreateHwContext { .. } => "CreateHwContext",
            QueueCall::DestroyHwContext { .. } => "DestroyHwContext",
            QueueCall::CreateHwQueue { .. } => "CreateHwQueue",
            QueueCall::DestroyHwQueue { .. } => "DestroyHwQueue",
            QueueCall::GetNativeFenceLogDetail { .. } => "GetNativeFenceLogDetail",
            QueueCall::SubmitCommandToHwQueue { .. } => "SubmitCommandToHwQueue",
            QueueCall::SubmitWaitForSyncObjectsToHwQueue { .. } => "SubmitWaitForSyncObjectsToHwQueue",
            QueueCall::SubmitSignalSyncObjectsToHwQueue { .. } => "SubmitSignalSyncObjectsToHwQueue",
            QueueCall::CreateDoorbell { .. } => "CreateDoorbell",
            QueueCall::ConnectDoorbell { .. } => "ConnectDoorbell",
            QueueCall::DestroyDoorbell { .. } => "DestroyDoorbell",
            QueueCall::NotifyWorkSubmission { .. } => "NotifyWorkSubmission",
        }
    }
}
