//! The calls about queues.

use super::*;

impl Process {
    pub(super) fn queue_call(&mut self, op: &Op) -> Call {
        match op {
            Op::Context { queue } => {
                let node = NodeId(self.queues[*queue].node);
                Call::Queue(QueueCall::CreateHwContext { device: self.device, node, private_data: Vec::new() })
            }
            Op::Queue { queue } => {
                let queue = &self.queues[*queue];
                let flags = if queue.user { QueueFlags::USER_MODE_SUBMISSION } else { QueueFlags::empty() };
                Call::Queue(QueueCall::CreateHwQueue { context: queue.context, flags, private_data: Vec::new() })
            }
            Op::Doorbell { queue } => {
                let ring = self.surface(self.queues[*queue].memory);
                let ring_va = ring.va.expect("a ring is mapped").va;
                Call::Queue(QueueCall::CreateDoorbell {
                    queue: self.queues[*queue].handle,
                    ring: ring.handle,
                    ring_va,
                    private_data: Vec::new(),
                })
            }
            Op::Connect { queue } => {
                let bell = self.queues[*queue].bell.as_ref().expect("it was made");
                Call::Queue(QueueCall::ConnectDoorbell { doorbell: bell.handle })
            }
            Op::DestroyQueue { queue } => {
                let reached = self.queues[*queue].progress.map_or(0, |progress| self.read(progress.made.current));
                self.queues[*queue].reached = reached;
                Call::Queue(QueueCall::DestroyHwQueue { queue: self.queues[*queue].handle })
            }
            Op::KernelWait { queue, points } => Call::Queue(QueueCall::SubmitWaitForSyncObjectsToHwQueue {
                queue: self.queues[*queue].handle,
                points: plain(points),
            }),
            Op::KernelCommand { queue, value, buffer, bytes } => {
                let queue = self.queues[*queue].handle;
                Call::Queue(QueueCall::SubmitCommandToHwQueue {
                    queue,
                    progress_value: *value,
                    buffer: *buffer,
                    buffer_bytes: *bytes,
                    written_primaries: Vec::new(),
                    private_data: Vec::new(),
                })
            }
            Op::KernelSignal { queue, points } => Call::Queue(QueueCall::SubmitSignalSyncObjectsToHwQueue {
                queues: vec![self.queues[*queue].handle],
                points: plain(points),
                flags: kmt_calls::SignalFlags::empty(),
            }),
            other => unreachable!("{other:?} is handled before"),
        }
    }
}
