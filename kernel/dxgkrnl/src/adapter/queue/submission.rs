//! Work that processes have the kernel feed hardware queues (sync §3.11): accepted, held behind waits and for room, started, finished.
//! `queue::Feed` counts it, `vidsch` holds its packets.

use ddi::{DriverStatus, SubmitCommandToHwQueue};
use events::Event;
use gpu_fence::{FenceId, WaitMode};
use kmt_calls::Refusal;
use vidsch::{Packet, Powered, Step};

use crate::adapter::Adapter;
use crate::driver::EntryPoints;
use crate::due::{DriverRefusal, RefusedWork, Verdict, Waiter};
use crate::effect::Cx;
use crate::number::{DeviceNumber, QueueNumber};
use crate::packet::check_private_data;
use crate::queue::{Command, refused};
use crate::scheduling::{AnyContext, Payload};
use crate::store::ObjectNumber;
use crate::sync::Fed;
use crate::tally::Fate;

impl Adapter {
    /// `D3DKMTSubmitCommandToHwQueue`.
    // spec: sync §3.11, sync §5
    pub fn submit_command(
        &mut self,
        cx: &mut Cx<'_>,
        number: QueueNumber,
        command: Command,
        primaries: Vec<vidmm::AllocationId>,
    ) -> Result<(), Refusal> {
        let progress_value = command.progress_value;
        self.queues[number].feed.check(progress_value)?;
        command.check_place()?;
        let hardware = self.driver.call(cx).hardware_queues().expect("checked at adapter start");
        check_private_data(&command.private_data, hardware.submission_data_bytes())?;
        self.queue_writes(self.queues[number].vidsch, primaries).map_err(refused)?;
        self.submit_packet(number, Packet::Work(Payload::Command(command)))?;
        self.queues.feed(number).submit(progress_value);
        self.pump_queue(cx, number);
        Ok(())
    }

    pub(super) fn submit_packet(
        &mut self,
        number: QueueNumber,
        packet: Packet<Payload, FenceId>,
    ) -> Result<(), Refusal> {
        self.vidsch.queues.submit(self.queues[number].vidsch, packet).map_err(refused)
    }

    /// A wait of a kernel-mode queue is over.
    pub(in crate::adapter) fn queue_released(&mut self, cx: &mut Cx<'_>, number: QueueNumber, packet: bool) {
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
            self.queues.feed(number).watched();
        }
        self.pump_queue(cx, number);
    }

    /// Starts what is due on the device's queues: they stand still while a refusal for the device is not judged.
    pub(in crate::adapter) fn pump_queues_of(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        for context in self.queues.contexts_of(device).collect::<Vec<_>>() {
            for queue in self.queues[context].queues.clone() {
                self.pump_queue(cx, queue);
            }
        }
    }

    /// Starts what is due on a kernel-mode queue.
    // spec: sync §3.8, sync §4.1
    pub(in crate::adapter) fn pump_queue(&mut self, cx: &mut Cx<'_>, number: QueueNumber) {
        self.reap_queue(cx, number);
        while !self.life.has_stopped() && !self.due.awaits_judgement(self.queues[number].device) {
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
        let powered = self.raise_engine(cx, self.queues.node_of(number));
        let Command { progress_value, buffer, buffer_bytes, private_data } = &command;
        let submit = SubmitCommandToHwQueue {
            queue: self.queues[number].kmd,
            progress_value: *progress_value,
            buffer: *buffer,
            buffer_bytes: *buffer_bytes,
            private_data,
            paging: false,
        };
        if let Err(status) = hand_over(self.driver.call(cx), submit, powered) {
            return self.command_refused(number, command, status);
        }
        let progress_value = command.progress_value;
        self.queues.feed(number).start(progress_value);
        self.queue_counts(number, Fate::Submitted, 1);
        cx.emit(self.index, Event::Submitted { queue: number.raw(), progress_value });
    }

    /// The driver has not taken a command buffer. It stands in front of its queue again until the refusal is judged.
    fn command_refused(&mut self, number: QueueNumber, command: Command, status: DriverStatus) {
        let (device, vidsch) = (self.queues[number].device, self.queues[number].vidsch);
        self.vidsch.queues.preempted(vidsch, Payload::Command(command));
        let verdict = Verdict::Lose(format!("the driver refused a command buffer: {status}"));
        let (work, node) = (RefusedWork::Command(number), self.queues.node_of(number));
        self.due.refused(DriverRefusal::new(work, Some(device), [node], verdict));
    }

    /// Tells the scheduler which of the queue's buffers the hardware has finished.
    fn reap_queue(&mut self, cx: &Cx<'_>, number: QueueNumber) {
        let current = self.sync.current_value(cx.memory, self.queues[number].progress);
        let finished = self.queues.feed(number).finish(current);
        if finished > 0 {
            self.vidsch.queues.completed(self.queues[number].vidsch, finished);
            self.queue_counts(number, Fate::Completed, finished.into());
        }
    }

    /// Buffers of a queue came further.
    fn queue_counts(&mut self, number: QueueNumber, fate: Fate, buffers: u64) {
        let (node, process) = (self.queues.node_of(number), self.owners.process_of(self.queues[number].device));
        self.tally.count_buffers(node, process, fate, buffers);
    }

    /// When packets are held for room on the hardware, asks to be told when the oldest buffer is finished.
    fn watch_queue(&mut self, cx: &mut Cx<'_>, number: QueueNumber) {
        if self.life.has_stopped() || self.vidsch.queues.held(self.queues[number].vidsch) == 0 {
            return;
        }
        let Some(oldest) = self.queues.feed(number).watch() else { return };
        let point = [self.sync.point(self.queues[number].progress, oldest)];
        let waiter = || Waiter::Queue { queue: number, packet: false };
        if self.begin_wait(cx, &point, WaitMode::All, waiter()) {
            self.due.wait_ended(waiter());
        }
    }
}

/// The driver gets a command buffer for one of its queues.
fn hand_over(
    driver: EntryPoints<'_>,
    submit: SubmitCommandToHwQueue<'_>,
    _powered: Powered,
) -> Result<(), DriverStatus> {
    driver.hardware_queues().expect("checked at adapter start").submit_command_to_hw_queue(submit)
}
