//! Hardware queues, submission (sync §2.5, §3.11); their contexts are `context`, their doorbells `doorbell`.

mod context;
mod doorbell;
mod feed;
mod signal;

pub use doorbell::{DoorbellUse, DoorbellWords, Doorbells, Lent as LentToDoorbells, doorbell_status};
pub use feed::Feed;

use std::collections::BTreeSet;

use ddi::{
    CreateHwQueue, DriverStatus, FeatureId, HwQueueFlags, KmdQueue, OsQueue, ProgressFence, SubmitCommandToHwQueue,
};
use events::Event;
use gpu_fence::WaitMode;
use kmt_calls::{DeviceState, QueueFlags, Refusal};
use vidsch::{Packet, QueueKind, Step, SubmitError};
use wddm_types::{GpuVa, NodeId, ProcessId};

use crate::adapter::{Adapter, Payload};
use crate::due::Waiter;
use crate::effect::Cx;
use crate::fence_log::Logs;
use crate::number::{ContextNumber, QueueNumber};
use crate::object::{Context, Queue};
use crate::packet::check_private_data;
use crate::refusal::{from_driver, invalid, no_memory, not_supported, removed};
use crate::scheduling::AnyContext;
use crate::scheduling_log::SchedulingLogs;
use crate::store::ObjectNumber;
use crate::sync::Fed;
use crate::tally::Fate;

/// A command buffer of a queue that the kernel feeds.
#[derive(Clone, Debug)]
pub struct Command {
    pub progress_value: u64,
    pub buffer: GpuVa,
    pub buffer_bytes: u32,
    /// The user-mode driver's private data.
    pub private_data: Vec<u8>,
}

impl Adapter {
    /// `D3DKMTCreateHwQueue` with its native progress fence.
    // spec: sync §3.11, sync §2.5
    pub fn create_queue(
        &mut self,
        cx: &mut Cx<'_>,
        context: ContextNumber,
        flags: QueueFlags,
        private_data: &mut [u8],
    ) -> Result<QueueNumber, Refusal> {
        let Context { device, node, kmd: kmd_context, .. } = self.contexts[context];
        let user_mode = self.is_fed_in_user_mode(node, flags)?;
        let process = self.owners.process_of(device);
        let progress = self.create_progress_fence(cx, device, process)?;
        self.sync.forbid_signals(progress);
        let slot = self.sync.fence(progress).slot;
        let fence = self.sync.fence(progress).kmd.expect("hardware queues go with native fences");
        let number = self.queues.next_number();
        let create = CreateHwQueue {
            context: kmd_context,
            queue: OsQueue(number.raw()),
            flags: HwQueueFlags::from_bits_truncate(flags.bits()) | HwQueueFlags::NATIVE_PROGRESS_FENCE,
            progress: ProgressFence { fence, current_va: slot.current_va, monitored_va: slot.monitored_va },
            private_data,
        };
        let kmd = match self.create_queue_in_driver(cx, create) {
            Ok(kmd) => kmd,
            Err(status) => {
                self.destroy_fence(cx, progress);
                return Err(from_driver(status));
            }
        };
        // spec: sync §3.14: none where the kernel sees every wait and signal by itself
        let logs = match user_mode.then(|| self.make_logs(cx, process, kmd)).transpose() {
            Ok(logs) => logs,
            Err(refusal) => {
                self.destroy_queue_in_driver(cx, kmd);
                self.destroy_fence(cx, progress);
                return Err(refusal);
            }
        };
        let kind = if user_mode { QueueKind::User } else { QueueKind::Kernel };
        let in_flight_max = self.driver.node(node).max_in_flight_buffers;
        let vidsch = self.open_scheduled(process, node, kind, in_flight_max.into());
        let queue = Queue {
            context,
            device,
            kmd,
            vidsch,
            progress,
            user_mode,
            doorbell: None,
            logs: Logs::new(logs),
            feed: Feed::default(),
            no_timeout: flags.contains(QueueFlags::DISABLE_GPU_TIMEOUT),
            no_broadcast_signal: flags.contains(QueueFlags::NO_BROADCAST_SIGNAL),
            counted_ns: self.hardware_count(cx, kmd),
        };
        assert_eq!(self.queues.insert(queue), number);
        self.contexts[context].queues.insert(number);
        self.devices[device].queues.insert(number);
        if self.is_suspended(device) {
            self.vidsch.queues.suspend(vidsch);
        }
        let (queue, fence) = (number.raw(), progress.raw());
        cx.emit(self.index, Event::QueueCreated { queue, node: node.0, user_mode, process: process.0, fence });
        Ok(number)
    }

    /// A queue of the scheduler whose engine time counts as the process's.
    pub fn open_scheduled(
        &mut self,
        process: ProcessId,
        node: NodeId,
        kind: QueueKind,
        in_flight_max: u32,
    ) -> vidsch::QueueId {
        let queue = self.vidsch.queues.create_queue(node, kind, in_flight_max);
        self.vidsch.queues.count_for(queue, process.0);
        queue
    }

    fn create_queue_in_driver(&mut self, cx: &Cx<'_>, create: CreateHwQueue<'_>) -> Result<KmdQueue, DriverStatus> {
        let (driver, mut host) = self.driver.with_host(cx);
        driver.hardware_queues().expect("checked at adapter start").create_hw_queue(&mut host, create)
    }

    fn destroy_queue_in_driver(&mut self, cx: &Cx<'_>, queue: KmdQueue) {
        let (driver, mut host) = self.driver.with_host(cx);
        driver.hardware_queues().expect("checked at adapter start").destroy_hw_queue(&mut host, queue);
    }

    /// Whether the process itself feeds a queue with these flags, by its doorbell.
    fn is_fed_in_user_mode(&self, node: NodeId, flags: QueueFlags) -> Result<bool, Refusal> {
        let broadcasts = QueueFlags::NO_BROADCAST_SIGNAL | QueueFlags::NO_BROADCAST_WAIT;
        let known = QueueFlags::DISABLE_GPU_TIMEOUT | QueueFlags::USER_MODE_SUBMISSION | broadcasts;
        if !known.contains(flags) {
            return Err(invalid(format!(
                "queue flags {:#x} are reserved or set by the kernel",
                flags.difference(known).bits()
            )));
        }
        let user_mode = flags.contains(QueueFlags::USER_MODE_SUBMISSION);
        let offered = self.driver.node(node).user_mode_submission;
        if user_mode && !(offered && self.driver.has_feature(FeatureId::USER_MODE_SUBMISSION)) {
            return Err(not_supported("user-mode submission is not enabled on this node"));
        }
        Ok(user_mode)
    }

    /// `D3DKMTDestroyHwQueue`: when the driver returns, the hardware executes nothing for it any more.
    pub fn destroy_queue(&mut self, cx: &mut Cx<'_>, number: QueueNumber) {
        if let Some(doorbell) = self.queues[number].doorbell {
            self.destroy_doorbell(cx, doorbell);
        }
        self.charge_queue(cx, number);
        let queue = self.queues.remove(number).expect("a queue is destroyed once");
        self.destroy_queue_in_driver(cx, queue.kmd);
        // The driver names it in no interrupt any more: the kernel looks for the signals of its end.
        if self.driver.names_signaled_fences() {
            self.look_at_processes(cx, &BTreeSet::from([self.owners.process_of(queue.device)]));
        }
        let process = self.owners.process_of(queue.device);
        queue.logs.into_all().for_each(|logs| self.end_logs(cx, process, logs));
        // Work that never started is dropped with the queue.
        let dropped = self.vidsch.queues.destroy_queue(queue.vidsch);
        self.drop_parts(cx, dropped);
        self.vidsch.ranks.waits_no_more(queue.vidsch);
        self.displays.forget_queue(number);
        self.lend_logs(cx, SchedulingLogs::read);
        self.contexts[queue.context].queues.remove(&number);
        self.devices[queue.device].queues.remove(&number);
        // Paging work may stand behind the progress fence: it is reached for ever now, and goes when the ring has passed.
        self.signal_always(cx, queue.progress);
        self.defer_fence(queue.progress);
        cx.emit(self.index, Event::QueueDestroyed { queue: number.raw() });
    }

    /// `D3DKMTSubmitCommandToHwQueue`.
    // spec: sync §3.11, sync §5
    pub fn submit_command(
        &mut self,
        cx: &mut Cx<'_>,
        number: QueueNumber,
        command: Command,
        primaries: Vec<vidmm::AllocationId>,
    ) -> Result<(), Refusal> {
        let Command { progress_value, buffer, buffer_bytes, ref private_data } = command;
        self.queues[number].feed.check(progress_value)?;
        if buffer.is_null() || buffer_bytes == 0 || !buffer_bytes.is_multiple_of(8) || !buffer.0.is_multiple_of(8) {
            return Err(invalid(
                "a command buffer lies at a nonzero multiple of 8 and has a nonzero multiple of 8 bytes",
            ));
        }
        let hardware = self.driver.call(cx).hardware_queues().expect("checked at adapter start");
        check_private_data(private_data, hardware.submission_data_bytes())?;
        self.queue_writes(self.queues[number].vidsch, primaries).map_err(refused)?;
        self.submit_packet(number, Packet::Work(Payload::Command(command)))?;
        self.queues[number].feed.submit(progress_value);
        self.pump_queue(cx, number);
        Ok(())
    }

    fn submit_packet(
        &mut self,
        number: QueueNumber,
        packet: Packet<Payload, gpu_fence::FenceId>,
    ) -> Result<(), Refusal> {
        self.vidsch.queues.submit(self.queues[number].vidsch, packet).map_err(refused)
    }

    /// A wait of a kernel-mode queue is over.
    pub fn queue_released(&mut self, cx: &mut Cx<'_>, number: QueueNumber, packet: bool) {
        // A queue that was destroyed while it waited has nothing to go on with.
        let Some(queue) = self.queues.get(number) else { return };
        if !self.owners.is_active(queue.device) {
            return;
        }
        if packet {
            self.vidsch.queues.waited(queue.vidsch);
            let awaited = self.waits_no_more(queue.vidsch);
            cx.emit(self.index, Event::QueueReleased { queue: number.raw() });
            self.sync.tell_waited(cx, Fed::Queue(number), awaited);
        } else {
            self.queues[number].feed.watched();
        }
        self.pump_queue(cx, number);
    }

    /// Starts what is due on a kernel-mode queue.
    // spec: sync §3.8, sync §4.1
    pub fn pump_queue(&mut self, cx: &mut Cx<'_>, number: QueueNumber) {
        self.reap_queue(cx, number);
        while !self.life.has_stopped() {
            let vidsch = self.queues[number].vidsch;
            match self.vidsch.queues.next(vidsch) {
                Some(Step::Wait(points)) => {
                    let points = self.sync.live_points(points);
                    let first = points.first().map(|point| (self.sync.number_of(point.fence), point.value));
                    let waiter = Waiter::Queue { queue: number, packet: true };
                    if points.is_empty() || self.begin_wait(cx, &points, WaitMode::All, waiter) {
                        self.vidsch.queues.waited(vidsch);
                        self.reap_queue(cx, number);
                        self.sync.tell_waited(cx, Fed::Queue(number), points);
                    } else {
                        self.note_wait(vidsch, AnyContext::Hardware(self.queues[number].context), &points);
                        let (fence, value) = first.expect("a wait that holds has a point");
                        cx.emit(self.index, Event::QueueHeld { queue: number.raw(), fence: fence.raw(), value });
                        return;
                    }
                }
                Some(Step::Start(Payload::Command(command))) => self.start_command(cx, number, command),
                Some(Step::Start(
                    Payload::Paging(_)
                    | Payload::Suspend(..)
                    | Payload::Quiesce(_)
                    | Payload::IdleSpaces(..)
                    | Payload::Packet(_)
                    | Payload::Software(_),
                )) => unreachable!("paging work goes to the paging queue"),
                Some(Step::Software(Payload::Software(packet))) => self.queue_software_turn(cx, number, packet),
                Some(Step::Software(_)) => unreachable!("nothing else is the kernel's own here"),
                Some(Step::Signal(points)) => {
                    for point in self.sync.live_points(points) {
                        let fence = self.sync.number_of(point.fence);
                        self.signal_fence(cx, fence, point.value);
                    }
                }
                None => break,
            }
        }
        self.watch_queue(cx, number);
    }

    fn start_command(&mut self, cx: &mut Cx<'_>, number: QueueNumber, command: Command) {
        self.raise_engine(cx, self.contexts[self.queues[number].context].node);
        let Command { progress_value, buffer, buffer_bytes, private_data } = &command;
        let submit = SubmitCommandToHwQueue {
            queue: self.queues[number].kmd,
            progress_value: *progress_value,
            buffer: *buffer,
            buffer_bytes: *buffer_bytes,
            private_data,
            paging: false,
        };
        let hardware = self.driver.call(cx).hardware_queues().expect("checked at adapter start");
        if let Err(status) = hardware.submit_command_to_hw_queue(submit) {
            let device = self.queues[number].device;
            self.fail_device(
                cx,
                device,
                DeviceState::ErrorDmaFault,
                format!("the driver refused a command buffer: {status}"),
            );
            return;
        }
        self.queues[number].feed.start(submit.progress_value);
        self.queue_counts(number, Fate::Submitted, 1);
        cx.emit(self.index, Event::Submitted { queue: number.raw(), progress_value: submit.progress_value });
    }

    /// Tells the scheduler which of the queue's buffers the hardware has finished.
    fn reap_queue(&mut self, cx: &Cx<'_>, number: QueueNumber) {
        let current = self.sync.current_value(cx.memory, self.queues[number].progress);
        let queue = &mut self.queues[number];
        let (finished, vidsch) = (queue.feed.finish(current), queue.vidsch);
        if finished > 0 {
            self.vidsch.queues.completed(vidsch, finished);
            self.queue_counts(number, Fate::Completed, finished.into());
        }
    }

    /// Buffers of a queue came further.
    fn queue_counts(&mut self, number: QueueNumber, fate: Fate, buffers: u64) {
        let queue = &self.queues[number];
        let (node, process) = (self.contexts[queue.context].node, self.owners.process_of(queue.device));
        self.tally.count_buffers(node, process, fate, buffers);
    }

    /// When packets are held for room on the hardware, asks to be told when the oldest buffer is finished.
    fn watch_queue(&mut self, cx: &mut Cx<'_>, number: QueueNumber) {
        let queue = &mut self.queues[number];
        if self.life.has_stopped() || self.vidsch.queues.held(queue.vidsch) == 0 {
            return;
        }
        let (progress, watched) = (queue.progress, queue.feed.watch());
        let Some(oldest) = watched else { return };
        let point = [self.sync.point(progress, oldest)];
        let waiter = || Waiter::Queue { queue: number, packet: false };
        if self.begin_wait(cx, &point, WaitMode::All, waiter()) {
            self.due.wait_ended(waiter());
        }
    }
}

/// Why a queue takes no more.
pub fn refused(error: SubmitError) -> Refusal {
    match error {
        SubmitError::UserQueue => invalid("kernel-mode submission on a queue with user-mode submission"),
        SubmitError::TooMany => no_memory("the queue holds as many packets as it may"),
        SubmitError::Stopped => removed("the queue has stopped"),
    }
}
