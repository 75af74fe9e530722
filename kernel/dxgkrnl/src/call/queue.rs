//! Calls on hardware contexts, their queues and doorbells (sync §3).

use kmt_calls::{CreatedDoorbell, CreatedHwQueue, QueueCall, QueueFlags, Refusal, Reply};
use wddm_types::{AdapterIndex, GpuVa, NodeId, RawHandle};

use crate::adapter::NewDoorbell;
use crate::call::sync::broadcast;
use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::number::QueueNumber;
use crate::object::Object;
use crate::queue::{Command, DoorbellWords};
use crate::refusal::invalid;
use crate::sync::PointUse;

impl Turn<'_> {
    pub(super) fn on_queue(&mut self, cx: &mut Cx<'_>, call: QueueCall) -> Result<Answer, Refusal> {
        match call {
            QueueCall::CreateHwContext { device, node, private_data } => {
                self.create_hw_context(cx, device, (node, &private_data))
            }
            QueueCall::DestroyHwContext { context } => self.destroy_hw_context(cx, context),
            QueueCall::CreateHwQueue { context, flags, private_data } => {
                self.create_hw_queue(cx, context, (flags, private_data))
            }
            QueueCall::DestroyHwQueue { queue } => self.destroy_hw_queue(cx, queue),
            QueueCall::CreateDoorbell { queue, ring, ring_va, private_data } => {
                self.create_doorbell(cx, queue, (ring, ring_va, private_data))
            }
            QueueCall::ConnectDoorbell { doorbell } => {
                let (index, number) = self.doorbell(doorbell)?;
                self.about = Some(index);
                self.adapters[index].connect_and_wake(cx, self.token, number)
            }
            QueueCall::DestroyDoorbell { doorbell } => {
                let (index, number) = self.doorbell(doorbell)?;
                self.about = Some(index);
                self.adapters[index].destroy_doorbell(cx, number);
                self.process.handles.remove(doorbell);
                done(Reply::Done)
            }
            QueueCall::NotifyWorkSubmission { doorbell } => {
                let (index, number) = self.doorbell(doorbell)?;
                let queue = self.adapters[index].queue_of_doorbell(number);
                self.alive(index, self.adapters[index].device_of_queue(queue))?;
                self.adapters[index].notify_work_submission(cx, queue);
                done(Reply::Done)
            }
            QueueCall::SubmitCommandToHwQueue {
                queue,
                progress_value,
                buffer,
                buffer_bytes,
                written_primaries,
                private_data,
            } => {
                let command = Command { progress_value, buffer, buffer_bytes, private_data };
                self.submit_command(cx, queue, command, &written_primaries)
            }
            QueueCall::GetNativeFenceLogDetail { queue } => self.logs_of(queue),
            QueueCall::SubmitWaitForSyncObjectsToHwQueue { queue, points } => {
                let (index, number) = self.live_queue(queue)?;
                let points = self.points(cx, index, &points, PointUse::GpuWait)?;
                self.adapters[index].submit_wait(cx, number, &points)?;
                done(Reply::Done)
            }
            QueueCall::SubmitSignalSyncObjectsToHwQueue { queues, points, flags } => {
                let (index, numbers) = self.broadcast_queues(&queues)?;
                let points = self.points(cx, index, &points, PointUse::GpuSignal)?;
                self.adapters[index].submit_signal(cx, &numbers, points, flags)?;
                done(Reply::Done)
            }
        }
    }

    fn create_hw_context(
        &mut self,
        cx: &mut Cx<'_>,
        device: RawHandle,
        (node, private_data): (NodeId, &[u8]),
    ) -> Result<Answer, Refusal> {
        let (index, device) = self.live_device(device)?;
        let number = self.adapters[index].create_context(cx, device, node, private_data)?;
        let handle = self.name(Object::Context(index, number))?;
        let adapter = &mut self.adapters[index];
        // The allocations that the driver made for the context are there before the process uses it.
        if adapter.has_driver_allocations(number) {
            Ok(adapter.after_ring(cx, self.token, Reply::Handle(handle)))
        } else {
            done(Reply::Handle(handle))
        }
    }

    /// Destroys a context with its queues, and forgets the handles of all that goes with it.
    fn destroy_hw_context(&mut self, cx: &mut Cx<'_>, context: RawHandle) -> Result<Answer, Refusal> {
        let (index, number) = self.context(context)?;
        self.about = Some(index);
        let named = self.adapters[index].named_of_context(number);
        self.adapters[index].destroy_context(cx, number);
        self.forget_all(named);
        done(Reply::Done)
    }

    /// A queue with its progress fence, which has a handle of its own.
    fn create_hw_queue(
        &mut self,
        cx: &mut Cx<'_>,
        context: RawHandle,
        (flags, mut private_data): (QueueFlags, Vec<u8>),
    ) -> Result<Answer, Refusal> {
        let (index, number) = self.context(context)?;
        self.alive(index, self.adapters[index].device_of_hw_context(number))?;
        let queue = self.adapters[index].create_queue(cx, number, flags, &mut private_data)?;
        let adapter = &self.adapters[index];
        let (open, logs) = (adapter.progress_open(queue), adapter.logs_of(queue));
        let (queue, fence_handle) = (self.name(Object::Queue(index, queue))?, self.name(Object::Fence(index, open))?);
        let progress = self.adapters[index].created_fence(open, fence_handle, Default::default());
        let flags = flags | QueueFlags::NATIVE_PROGRESS_FENCE;
        let made = CreatedHwQueue { queue, flags, progress, logs, private_data };
        self.when_mapped(cx, index, Reply::HwQueue(made))
    }

    /// Destroys a queue with its doorbell and its progress fence, and forgets their handles.
    fn destroy_hw_queue(&mut self, cx: &mut Cx<'_>, queue: RawHandle) -> Result<Answer, Refusal> {
        let (index, number) = self.queue(queue)?;
        self.about = Some(index);
        let named = self.adapters[index].named_of_queue(number);
        self.adapters[index].destroy_queue(cx, number);
        self.forget_all(named);
        done(Reply::Done)
    }

    /// Where a queue logs now.
    // spec: sync §2.1
    fn logs_of(&self, queue: RawHandle) -> Result<Answer, Refusal> {
        let (index, number) = self.queue(queue)?;
        let logs = self.adapters[index].logs_of(number);
        let logs =
            logs.ok_or_else(|| invalid(format!("the kernel feeds queue {queue}, which has no logs of its own")))?;
        done(Reply::NativeFenceLogs(logs))
    }

    fn create_doorbell(
        &mut self,
        cx: &mut Cx<'_>,
        queue: RawHandle,
        (ring, ring_va, private_data): (RawHandle, GpuVa, Vec<u8>),
    ) -> Result<Answer, Refusal> {
        let (index, number) = self.queue(queue)?;
        self.alive(index, self.adapters[index].device_of_queue(number))?;
        let ring = self.allocation(index, ring)?;
        let new = NewDoorbell { queue: number, ring, ring_va, private_data };
        let made = self.adapters[index].create_doorbell(cx, new)?;
        let doorbell = self.name(Object::Doorbell(index, made.number))?;
        let DoorbellWords { address, last_queued, status } = made.words;
        done(Reply::Doorbell(CreatedDoorbell {
            doorbell,
            address,
            last_queued,
            status,
            private_data: made.private_data,
        }))
    }

    fn submit_command(
        &mut self,
        cx: &mut Cx<'_>,
        queue: RawHandle,
        command: Command,
        written_primaries: &[RawHandle],
    ) -> Result<Answer, Refusal> {
        let (index, number) = self.live_queue(queue)?;
        // spec: memory §10.1, row 31: accepted; nothing else of lists is left here
        let device = self.adapters[index].device_of_queue(number);
        let primaries = self.primaries(index, device, written_primaries)?;
        self.adapters[index].submit_command(cx, number, command, primaries)?;
        done(Reply::Done)
    }

    /// The queues of a signal, all of one adapter, none twice.
    // spec: sync §2.4
    fn broadcast_queues(&mut self, list: &[RawHandle]) -> Result<(AdapterIndex, Vec<QueueNumber>), Refusal> {
        broadcast(list, "queue", |handle| self.live_queue(handle))
    }
}
