//! The paging ring among the other parts: it starts with its queue, fence and buffers; the scheduler gives its packets out, and the
//! hardware's progress, a fence, says which works are done. `paging` has the works in their order.

use ddi::{CreateHwQueue, HwQueueFlags, KmdQueue, OsQueue, PagingBufferInfo, ProgressFence};
use events::Event;
use gpu_fence::{FenceId, WaitMode};
use vidsch::{QueueId, QueueKind, Step};
use wddm_types::{FencePoint, GpuVa, NodeId, PAGE_BYTES, Pages, ProcessId, SegmentId};

use crate::adapter::Adapter;
use crate::due::{RingWait, Waiter};
use crate::effect::Cx;
use crate::number::FenceNumber;
use crate::paging::{NewBuffer, PacketRing, RingQueue};
use crate::scheduling::Payload;
use crate::start::StartError;
use crate::store::ObjectNumber;

impl Adapter {
    /// Creates the paging hardware queue and its buffers.
    // spec: memory §1.11, memory §4.7
    pub(super) fn start_ring(
        &mut self,
        cx: &mut Cx<'_>,
        node: NodeId,
        info: PagingBufferInfo,
    ) -> Result<(), StartError> {
        self.memory.ring.take_device_pages(self.driver.has_map_aperture2());
        let progress = self
            .create_fence(cx, None, ProcessId::SYSTEM, 0)
            .map_err(|_| StartError::Memory("the paging ring's fence"))?;
        let kmd = self.create_ring_queue(cx, progress)?;
        let vidsch = self.vidsch.queues.create_queue(node, QueueKind::System, 0);
        let counted_ns = kmd.and_then(|kmd| self.hardware_count(cx, kmd));
        self.memory.ring.begins(RingQueue { kmd, vidsch, progress, counted_ns });
        let in_flight = u32::from(self.driver.node(node).max_in_flight_buffers);
        let count = if in_flight == 0 { self.config.paging_buffers } else { self.config.paging_buffers.min(in_flight) };
        for _ in 0..count.max(1) {
            self.add_paging_buffer(cx, info)?;
        }
        Ok(())
    }

    /// The hardware queue of a ring that has one.
    pub(super) fn create_ring_queue(
        &mut self,
        cx: &Cx<'_>,
        progress: FenceNumber,
    ) -> Result<Option<KmdQueue>, StartError> {
        if PacketRing::is_used(self.driver.facets()) {
            return Ok(None);
        }
        let slot = self.sync.fence(progress).slot;
        let fence = self.sync.fence(progress).kmd.expect("hardware queues go with native fences");
        let create = CreateHwQueue {
            context: self.memory.ring.context(),
            queue: OsQueue(0),
            flags: HwQueueFlags::NATIVE_PROGRESS_FENCE,
            progress: ProgressFence { fence, current_va: slot.current_va, monitored_va: slot.monitored_va },
            private_data: &mut [],
        };
        let (driver, mut host) = self.driver.with_host(cx);
        let hardware = driver.hardware_queues().expect("checked at adapter start");
        Ok(Some(hardware.create_hw_queue(&mut host, create)?))
    }

    /// Whether the ring gives the hardware anything. A device without power gets nothing: works stand until it wakes.
    pub(super) fn may_pump(&self) -> bool {
        !self.life.has_stopped() && !self.life.is_off()
    }

    /// Whether the driver is asked for paging buffers: not before a reset that is due, and not before a refusal of paging is judged.
    pub(super) fn may_build_buffers(&self) -> bool {
        self.may_pump() && !self.life.is_reset_due() && !self.due.paging_awaits_judgement()
    }

    /// Whether works are queued that the hardware will still get past.
    pub(super) fn carries_out_more(&self) -> bool {
        !self.life.has_stopped() && !self.memory.ring.is_idle()
    }

    /// Lets everything go on that the ring can: held packets, buffers to be built, waits to be registered.
    pub(super) fn pump_paging(&mut self, cx: &mut Cx<'_>) {
        let Some(vidsch) = self.memory.ring.queue_id() else { return };
        while self.may_pump() {
            match self.vidsch.queues.next(vidsch) {
                Some(Step::Wait(points)) => {
                    self.wait_for_uses(cx, vidsch, points);
                }
                Some(Step::Start(Payload::Paging(number))) => {
                    self.memory.ring.work_starts(number);
                }
                Some(Step::Start(Payload::Suspend(number, devices))) => {
                    self.vidsch.queues.completed(vidsch, 1);
                    let points = self.suspend_for_residency(cx, number, &devices);
                    self.quiesce_for_sleep(cx, number);
                    self.wait_for_suspensions(cx, vidsch, &points);
                }
                Some(Step::Start(Payload::IdleSpaces(number, spaces))) => {
                    self.vidsch.queues.completed(vidsch, 1);
                    let points = self.idle_spaces(cx, number, spaces);
                    self.wait_for_suspensions(cx, vidsch, &points);
                }
                Some(Step::Start(Payload::Quiesce(number))) => {
                    self.vidsch.queues.completed(vidsch, 1);
                    let points = self.quiesce_relocated(cx, number);
                    self.wait_for_suspensions(cx, vidsch, &points);
                }
                Some(
                    Step::Start(Payload::Command(_) | Payload::Packet(_) | Payload::Software(_))
                    | Step::Signal(_)
                    | Step::Software(_),
                ) => {
                    unreachable!("the paging queue carries paging work only")
                }
                None => break,
            }
        }
        // Most turns find the ring so.
        if self.memory.ring.is_at_rest() {
            return;
        }
        let built = self.build_buffers(cx).and_then(|()| self.clear_slots(cx));
        self.heed(cx, built);
        self.run_deferred(cx);
        self.watch_progress(cx);
    }

    /// The work at the head begins when these uses are over.
    pub(super) fn wait_for_uses(&mut self, cx: &mut Cx<'_>, vidsch: QueueId, points: Vec<FencePoint<FenceId>>) {
        let points = self.sync.live_points(points);
        if points.is_empty() || self.begin_wait(cx, &points, WaitMode::All, Waiter::Ring(RingWait::Packet)) {
            return self.vidsch.queues.waited(vidsch);
        }
        let users = points.iter().filter_map(|point| self.device_of_use(point));
        let users = users.map(|device| self.owners.process_of(device)).collect();
        self.memory.ring.waits_for_uses(cx.now_ns, points, users);
    }

    /// Devices must quiesce before the work at the head: the ring's queue gives nothing out until they have.
    pub(super) fn wait_for_suspensions(&mut self, cx: &mut Cx<'_>, vidsch: QueueId, points: &[FencePoint<FenceId>]) {
        let waiter = Waiter::Ring(RingWait::Suspension);
        if !points.is_empty() && !self.begin_wait(cx, points, WaitMode::All, waiter) {
            self.vidsch.queues.suspend(vidsch);
        }
    }

    /// A wait of the ring is over.
    pub(super) fn ring_released(&mut self, cx: &mut Cx<'_>, wait: RingWait) {
        let queue = self.memory.ring.queue_id().expect("a ring that waits was started");
        match wait {
            RingWait::Packet => {
                self.memory.ring.uses_over();
                self.vidsch.queues.waited(queue);
            }
            RingWait::Suspension => self.vidsch.queues.resume(queue),
            RingWait::Progress => self.memory.ring.is_watched(false),
        }
        self.pump_paging(cx);
    }

    /// The ring of packets has got so far: the kernel signals its progress.
    pub(super) fn ring_reaches(&mut self, cx: &mut Cx<'_>, value: u64) {
        let progress = self.memory.ring.progress_fence().expect("the ring runs");
        self.signal_fence(cx, progress, value);
        self.reap_paging(cx);
    }

    /// Whether the hardware has paging work that is not done, noted or not.
    pub(super) fn is_paging(&self, cx: &Cx<'_>) -> bool {
        self.ring_reach(cx).is_some_and(|(reached, last)| reached < last)
    }

    /// How far the hardware has got with the ring, and how far it is to get.
    pub(super) fn ring_reach(&self, cx: &Cx<'_>) -> Option<(u64, u64)> {
        let progress = self.memory.ring.progress_fence()?;
        Some((self.sync.current_value(cx.memory, progress), self.memory.ring.progress_value()))
    }

    /// Notes which works the hardware has finished.
    pub(super) fn reap_paging(&mut self, cx: &mut Cx<'_>) {
        let (Some(vidsch), Some(progress)) = (self.memory.ring.queue_id(), self.memory.ring.progress_fence()) else {
            return;
        };
        if !self.memory.ring.has_submitted() {
            return;
        }
        let reached = self.sync.current_value(cx.memory, progress);
        while let Some(work) = self.memory.ring.finish(reached) {
            self.vidsch.queues.completed(vidsch, 1);
            if work.serial != 0 {
                self.vidmm.completed(work.serial);
            }
            cx.emit(self.index, Event::PagingCompleted { work: work.number.raw() });
            if let Some((queue, value)) = work.completes {
                self.signal_paging_queue(cx, queue, value);
            }
            self.rotation_done(cx, work.number);
        }
        self.send_pending_remap_signals(cx);
    }

    /// Points whose fences have not reached them.
    pub(super) fn unreached(&self, cx: &Cx<'_>, points: Vec<FencePoint<FenceId>>) -> Vec<FencePoint<FenceId>> {
        let reached = |point: &FencePoint<FenceId>| {
            self.sync.current_value(cx.memory, self.sync.number_of(point.fence)) >= point.value
        };
        points.into_iter().filter(|point| !reached(point)).collect()
    }

    /// Makes a paging buffer and shows it to the GPU.
    fn add_paging_buffer(&mut self, cx: &mut Cx<'_>, info: PagingBufferInfo) -> Result<(), StartError> {
        let pages = Pages::holding(u64::from(info.size_bytes));
        let run = self.driver.pages().take(pages).ok_or(StartError::Memory("paging buffers"))?;
        let address = run.first * PAGE_BYTES;
        let (mut shown, mut place) = (None, (SegmentId::SYSTEM, address));
        if !info.segment.is_system() {
            let (at, map) = self
                .vidmm
                .aperture_map_system(info.segment, run)
                .map_err(|_| StartError::Memory("aperture space of paging buffers"))?;
            place = (at.segment, self.vidmm.address_of(at.segment, at.offset / PAGE_BYTES));
            shown = Some(map.clone());
            self.execute_now(cx, vec![map]).map_err(|()| StartError::Rule("an aperture map by the CPU failed"))?;
        }
        let va = if !self.memory.ring.has_addresses() {
            GpuVa::NULL
        } else {
            let space = self.owners.space_of(ProcessId::SYSTEM);
            self.map_pages(cx, space, run, false).map_err(|_| StartError::Memory("addresses of paging buffers"))?
        };
        self.memory.ring.add_buffer(NewBuffer {
            shown,
            place,
            va,
            run,
            private_bytes: info.private_data_bytes as usize,
        });
        Ok(())
    }

    /// Shows the paging buffers through the aperture again, which has lost them.
    pub(super) fn show_buffers_again(&mut self, cx: &Cx<'_>) -> Result<(), ()> {
        self.execute_now(cx, self.memory.ring.buffer_maps())
    }
}
