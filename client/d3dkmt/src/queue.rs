//! Contexts and hardware queues: submission by the kernel, or by ring and doorbell.

use std::sync::Arc;

use kmt_calls::{
    Call, DisplayCall, NativeFenceLogDetail, QueueCall, QueueFlags, QueuedFence, Refusal, Reply, SignalFlags,
};
use kmt_link::{Doorbell, Link};
use shared_words::ReadOnlyWord;
use wddm_types::{GpuVa, NtStatus, RawHandle};

use crate::allocation::Allocation;
use crate::fence::Fence;
use crate::{Owned, expect_reply};

/// A hardware context (`D3DKMTCreateHwContext`).
pub struct HwContext {
    pub(crate) owned: Owned,
}

impl HwContext {
    pub(crate) fn new(link: Arc<dyn Link>, handle: RawHandle) -> HwContext {
        HwContext {
            owned: Owned { link, handle, destroy: |context| Call::Queue(QueueCall::DestroyHwContext { context }) },
        }
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }

    /// A queue that the kernel submits to.
    ///
    /// # Errors
    /// When the device is in error or out of queues.
    pub fn create_kernel_queue(&self) -> Result<KernelQueue, Refusal> {
        let (owned, progress) = self.create_queue(QueueFlags::empty())?;
        Ok(KernelQueue { owned, progress })
    }

    /// A queue that this process feeds itself: its ring is the allocation `ring`, mapped at `ring_va` and resident.
    ///
    /// # Errors
    /// When the node has no user-mode submission, or the ring is no ring.
    pub fn create_user_queue(&self, ring: &Allocation, ring_va: GpuVa) -> Result<UserQueue, Refusal> {
        let (owned, progress) = self.create_queue(QueueFlags::USER_MODE_SUBMISSION)?;
        let link = Arc::clone(&self.owned.link);
        let call = QueueCall::CreateDoorbell {
            queue: owned.handle,
            ring: ring.handle(),
            ring_va,
            private_data: vec![0; QUEUE_NUMBER_BYTES],
        };
        let created = expect_reply!(link.call(Call::Queue(call))?, Reply::Doorbell(created) => created);
        let destroy = |doorbell| Call::Queue(QueueCall::DestroyDoorbell { doorbell });
        let doorbell_handle = Owned { link: Arc::clone(&link), handle: created.doorbell, destroy };
        let logs = connect(&link, created.doorbell)?;
        let doorbell = Doorbell::new(link.as_ref(), created.address, created.last_queued).ok_or(Refusal {
            status: NtStatus::DEVICE_REMOVED,
            blame: wddm_types::Blame::Driver,
            reason: "the kernel took the doorbell back before the queue was complete: its device was lost".into(),
            bytes_to_trim: 0,
        })?;
        let status = self.owned.link.read_only(created.status);
        // The software GPU's driver begins the queue's blob with its number on the device; 0 without one.
        let device_queue = created.private_data.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        Ok(UserQueue { doorbell, progress, logs, status, device_queue, doorbell_handle, owned })
    }

    fn create_queue(&self, flags: QueueFlags) -> Result<(Owned, Fence), Refusal> {
        let link = Arc::clone(&self.owned.link);
        let call =
            Call::Queue(QueueCall::CreateHwQueue { context: self.owned.handle, flags, private_data: Vec::new() });
        let created = expect_reply!(link.call(call)?, Reply::HwQueue(created) => created);
        let progress = Fence::borrowed(Arc::clone(&link), created.progress);
        Ok((
            Owned { link, handle: created.queue, destroy: |queue| Call::Queue(QueueCall::DestroyHwQueue { queue }) },
            progress,
        ))
    }
}

/// A hardware queue with kernel-mode submission.
pub struct KernelQueue {
    owned: Owned,
    progress: Fence,
}

impl KernelQueue {
    /// `D3DKMTSubmitCommandToHwQueue`: runs the buffer, then the progress fence has `progress_value`.
    ///
    /// # Errors
    /// When the value does not rise or the device is in error.
    pub fn submit(&self, buffer: GpuVa, buffer_bytes: u32, progress_value: u64) -> Result<(), Refusal> {
        self.submit_writing(buffer, buffer_bytes, progress_value, Vec::new())
    }

    /// The same with the primaries that the buffer writes, 16 at most.
    ///
    /// # Errors
    /// When there are more, or one is no allocation of the device.
    pub fn submit_writing(
        &self,
        buffer: GpuVa,
        buffer_bytes: u32,
        progress_value: u64,
        written_primaries: Vec<RawHandle>,
    ) -> Result<(), Refusal> {
        let queue = self.owned.handle;
        let call = Call::Queue(QueueCall::SubmitCommandToHwQueue {
            queue,
            progress_value,
            buffer,
            buffer_bytes,
            written_primaries,
            private_data: Vec::new(),
        });
        self.owned.link.call(call).map(drop)
    }

    /// Buffers that are submitted later start only when the fence has the value.
    ///
    /// # Errors
    /// When the handle is wrong.
    pub fn submit_wait(&self, fence: &Fence, value: u64) -> Result<(), Refusal> {
        let call = Call::Queue(QueueCall::SubmitWaitForSyncObjectsToHwQueue {
            queue: self.owned.handle,
            points: vec![(fence.handle(), value)],
        });
        self.owned.link.call(call).map(drop)
    }

    /// `D3DKMTSubmitPresentToHwQueue` with Flags.Flip: when everything submitted before has finished, the primary is shown on its source, as
    /// [`crate::VirtualContext::flip`] does it.
    ///
    /// # Errors
    /// Those of that call.
    pub fn flip(&self, primary: &Allocation, interval: u32) -> Result<u32, Refusal> {
        let (queue, primary) = (self.owned.handle, primary.handle());
        let call = Call::Display(DisplayCall::FlipOnHwQueue { queue, primary, interval });
        Ok(expect_reply!(self.owned.link.call(call)?, Reply::Queued(queued) => queued))
    }

    /// The fence gets the value when everything submitted before has finished.
    ///
    /// # Errors
    /// When the handle is wrong.
    pub fn submit_signal(&self, fence: &Fence, value: u64) -> Result<(), Refusal> {
        self.submit_signals(&[], &[(fence, value)], SignalFlags::empty())
    }

    /// The fences get their values when everything submitted before has finished on this queue and on the others; with
    /// `SIGNAL_AT_SUBMISSION`, when it has been handed to the hardware.
    ///
    /// # Errors
    /// When a handle is wrong, a queue is named twice or is of another adapter, or a flag means nothing here.
    pub fn submit_signals(
        &self,
        others: &[&KernelQueue],
        points: &[(&Fence, u64)],
        flags: SignalFlags,
    ) -> Result<(), Refusal> {
        let queues = std::iter::once(self).chain(others.iter().copied()).map(KernelQueue::handle).collect();
        let points = points.iter().map(|(fence, value)| (fence.handle(), *value)).collect();
        let call = Call::Queue(QueueCall::SubmitSignalSyncObjectsToHwQueue { queues, points, flags });
        self.owned.link.call(call).map(drop)
    }

    /// The progress fence.
    pub fn progress(&self) -> &Fence {
        &self.progress
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }
}

/// Private data of a doorbell in which the driver says how its device numbers the queue.
const QUEUE_NUMBER_BYTES: usize = 8;
/// `D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY` (sync §2.9).
const DISCONNECTED_RETRY: u64 = 2;
/// `D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT`.
const DISCONNECTED_ABORT: u64 = 3;

/// Connects a doorbell: where its queue logs.
fn connect(link: &Arc<dyn Link>, doorbell: RawHandle) -> Result<NativeFenceLogDetail, Refusal> {
    let call = Call::Queue(QueueCall::ConnectDoorbell { doorbell });
    Ok(expect_reply!(link.call(call)?, Reply::DoorbellConnected { logs, .. } => logs))
}

/// A hardware queue with user-mode submission: its owner writes the ring and rings the doorbell.
pub struct UserQueue {
    doorbell: Doorbell,
    progress: Fence,
    logs: NativeFenceLogDetail,
    /// Doorbell status.
    status: ReadOnlyWord,
    device_queue: u32,
    // Dropped before the queue: the order in which the kernel wants them to go.
    doorbell_handle: Owned,
    owned: Owned,
}

impl UserQueue {
    /// Publishes ring content up to `write_pointer`; the last of it brings the progress fence to `last_queued_value`.
    pub fn ring(&self, last_queued_value: u64, write_pointer: u64) {
        self.doorbell.ring(last_queued_value, write_pointer);
    }

    /// The progress fence.
    pub fn progress(&self) -> &Fence {
        &self.progress
    }

    /// Whether the kernel has disconnected the doorbell, which is to be connected again ([`UserQueue::reconnect`]): asked after each
    /// ring.
    // spec: sync §3.17
    pub fn is_disconnected(&self) -> bool {
        self.status.load() == DISCONNECTED_RETRY
    }

    /// Whether the queue's device is lost: its doorbell will never be connected again.
    // spec: sync §3.17
    pub fn is_aborted(&self) -> bool {
        self.status.load() == DISCONNECTED_ABORT
    }

    /// `D3DKMTConnectDoorbell` once more. The caller repeats rings of the meantime; the queue's logs may be others now.
    ///
    /// # Errors
    /// When the device is lost.
    // spec: sync §3.17, sync §6 C3
    pub fn reconnect(&mut self) -> Result<(), Refusal> {
        let link = Arc::clone(&self.owned.link);
        self.logs = connect(&link, self.doorbell_handle.handle)?;
        Ok(())
    }

    /// Where its waits and signals are logged: each of its commands that waits for a native fence or signals one names an entry there.
    // spec: sync §2.9, sync §6 C3
    pub fn logs(&self) -> NativeFenceLogDetail {
        self.logs
    }

    /// Whether a tool wants to hear what is submitted here ([`UserQueue::fences_queued`]).
    pub fn traces_fences(&self) -> bool {
        self.owned.link.traces_fences()
    }

    /// These waits and signals are in what is submitted next: tools are told, with the time, and when they were recorded.
    // spec: sync §3.14
    pub fn fences_queued(&self, queued: &[QueuedFence]) {
        self.owned.link.fences_queued(self.owned.handle, queued);
    }

    /// The queue's number on its device, as a logic analyser shows it.
    pub fn device_queue(&self) -> u32 {
        self.device_queue
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }
}
