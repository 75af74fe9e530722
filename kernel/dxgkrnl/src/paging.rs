//! The paging ring: paging work of the memory manager becomes paging buffers of the driver (memory §3, §1.11).
//!
//! Each adapter has one hardware queue for paging, fed by the kernel. Work is carried out strictly in the order in which
//! the memory manager decided it: that is what lets it hand out frames again before the hardware has left them. A work
//! that must wait for GPU work stands in the scheduler's queue behind a wait packet; once it may start, the driver builds
//! its operations into paging buffers, the last of which signals the paging queue's fence.
//!
//! Where the ring is in its life its queue at the scheduler says (`vidsch::QueueState`): it waits for a packet's points, or is suspended
//! while devices quiesce for the work at its head.
//!
//! Actions that need the hardware past all work queued so far (giving pages back, answering a call that needs its mappings) are
//! *deferred* to the current end of the ring.

mod buffer;
mod deferred;
mod lost;
mod mapping;
mod moves;
mod operation;
mod packets;
mod parts;
mod pool;
mod relocation;
mod rotation;
mod scratch;
mod stillness;
mod work;

use std::collections::VecDeque;

use ddi::{CreateHwQueue, HwQueueFlags, KmdContext, KmdDevice, KmdQueue, OsQueue, PagingBufferInfo, ProgressFence};
use events::Event;
use gpu_fence::{FenceId, WaitMode};
use vidmm::WindowPages;
use vidsch::{QueueId, QueueKind, Step};
use wddm_types::{FencePoint, NodeId, ProcessId};

use crate::adapter::{Adapter, Payload};
use crate::due::{RingWait, Waiter};
use crate::machine::Cx;
use crate::number::FenceNumber;
use crate::object::PagingQueueNumber;
use crate::paging::deferred::DeferredActions;
pub use crate::paging::deferred::{Deferred, RingNeeds};
pub use crate::paging::moves::Residence;
pub use crate::paging::packets::{PacketRing, Ready};
use crate::paging::pool::Buffer;
pub use crate::paging::relocation::Relocation;
use crate::paging::scratch::Scratch;
pub use crate::paging::scratch::{Borrowed, FreeSlot, Shown};
use crate::paging::stillness::Stillnesses;
use crate::paging::work::{QueuedWork, Submitted};
use crate::start::StartError;
use crate::store::ObjectNumber;

/// The paging ring of one adapter.
pub struct PagingRing {
    pub device: KmdDevice,
    pub context: KmdContext,
    /// Its buffers have addresses in the paging process, and reach memory by those.
    pub has_addresses: bool,
    queue: Option<RingQueue>,
    buffers: Vec<Buffer>,
    next_buffer: usize,
    /// Works whose turn has come and which are not built to their end, oldest first.
    building: VecDeque<QueuedWork>,
    /// Works that stand behind a wait in the scheduler.
    held: VecDeque<QueuedWork>,
    /// Works built, by the progress value that completes them.
    submitted: VecDeque<Submitted>,
    deferred: DeferredActions,
    last_queued: u64,
    /// The memory manager's number of the last of its works that was queued.
    last_serial: u64,
    last_done: u64,
    last_paging_queue: Option<PagingQueueNumber>,
    progress_value: u64,
    /// The kernel builds nothing before the ring's progress reaches this: an allocation is to come to rest, or the scratch area is taken.
    hold_until: u64,
    scratch: Scratch,
    /// Quiesced processes, by the work that needs it.
    stillnesses: Stillnesses,
    /// The driver takes aperture maps as device pages (`MapAperture2Supported`).
    device_pages: bool,
    /// A wait for the ring's own progress is registered.
    waiting_progress: bool,
    /// Locked content at the head.
    stage: rotation::Stage,
    /// Buffers of a ring of packets that wait for their node.
    ready: VecDeque<packets::Ready>,
    /// Windows that locked content has left because the hardware was lost.
    lost_windows: Vec<WindowPages>,
}

struct RingQueue {
    /// The hardware queue; `None`: paging buffers are packets of the ring's context.
    kmd: Option<KmdQueue>,
    vidsch: QueueId,
    progress: FenceNumber,
    /// As in [`crate::object::Queue::counted_ns`].
    counted_ns: Option<u64>,
}

impl PagingRing {
    /// A ring that is not started yet.
    pub fn new(device: KmdDevice, context: KmdContext, has_addresses: bool) -> PagingRing {
        PagingRing {
            device,
            context,
            has_addresses,
            queue: None,
            buffers: Vec::new(),
            next_buffer: 0,
            building: VecDeque::new(),
            held: VecDeque::new(),
            submitted: VecDeque::new(),
            deferred: DeferredActions::default(),
            last_queued: 0,
            last_serial: 0,
            last_done: 0,
            last_paging_queue: None,
            progress_value: 0,
            hold_until: 0,
            scratch: Scratch::default(),
            stillnesses: Stillnesses::default(),
            device_pages: false,
            waiting_progress: false,
            stage: rotation::Stage::None,
            ready: VecDeque::new(),
            lost_windows: Vec::new(),
        }
    }

    /// The adapter has stopped: nothing more is built.
    pub fn abandon(&mut self) {
        self.building.clear();
        self.held.clear();
        self.ready.clear();
    }

    /// The progress at which the next buffer may be built.
    fn next_value(&self) -> u64 {
        self.buffers[self.next_buffer].busy_until.max(self.hold_until)
    }

    /// The driver's handle of the paging queue.
    pub fn kmd_queue(&self) -> Option<KmdQueue> {
        self.queue.as_ref().and_then(|queue| queue.kmd)
    }

    /// The hardware's count of its running time at the last charge; `None`: it does not count.
    pub fn counted_ns(&self) -> Option<u64> {
        self.queue.as_ref().and_then(|queue| queue.counted_ns)
    }

    /// It has been charged until this count.
    pub fn note_counted(&mut self, counted_ns: u64) {
        self.queue.as_mut().expect("what was counted has a queue").counted_ns = Some(counted_ns);
    }

    /// The fence of its progress, unless a wait for it is registered, or the ring has not started.
    pub fn unwatched(&self) -> Option<FenceNumber> {
        self.queue.as_ref().filter(|_| !self.waiting_progress).map(|queue| queue.progress)
    }

    /// A wait for its progress is registered.
    pub fn is_watched(&mut self) {
        self.waiting_progress = true;
    }

    /// The fence of its progress; `None`: the ring has not started.
    pub fn progress_fence(&self) -> Option<FenceNumber> {
        self.queue.as_ref().map(|queue| queue.progress)
    }

    /// Whether the hardware has got past everything queued, and what it has moved is shown.
    pub fn is_idle(&self) -> bool {
        self.last_done == self.last_queued && !self.shows()
    }

    /// How far the hardware has got.
    pub fn done(&self) -> u64 {
        self.last_done
    }

    /// The last work queued.
    pub fn queued(&self) -> u64 {
        self.last_queued
    }

    /// Works that the hardware has not got past.
    pub fn outstanding(&self) -> u64 {
        self.last_queued - self.last_done
    }
}

impl Adapter {
    /// Creates the paging hardware queue and its buffers.
    // spec: memory §1.11, memory §4.7
    pub fn start_ring(&mut self, cx: &mut Cx<'_>, node: NodeId, info: PagingBufferInfo) -> Result<(), StartError> {
        self.ring.device_pages = self.driver.has_map_aperture2();
        let progress = self
            .create_fence(cx, None, ProcessId::SYSTEM, 0)
            .map_err(|_| StartError::Memory("the paging ring's fence"))?;
        let kmd = self.create_ring_queue(cx, progress)?;
        let vidsch = self.vidsch.queues.create_queue(node, QueueKind::System, 0);
        let counted_ns = kmd.and_then(|kmd| self.hardware_count(cx, kmd));
        self.ring.queue = Some(RingQueue { kmd, vidsch, progress, counted_ns });
        let in_flight = u32::from(self.driver.node(node).max_in_flight_buffers);
        let count = if in_flight == 0 { self.config.paging_buffers } else { self.config.paging_buffers.min(in_flight) };
        for _ in 0..count.max(1) {
            self.add_paging_buffer(cx, info)?;
        }
        Ok(())
    }

    /// The hardware queue of a ring that has one.
    fn create_ring_queue(&mut self, cx: &Cx<'_>, progress: FenceNumber) -> Result<Option<KmdQueue>, StartError> {
        if PacketRing::is_used(self.driver.facets()) {
            return Ok(None);
        }
        let slot = self.sync.fence(progress).slot;
        let fence = self.sync.fence(progress).kmd.expect("hardware queues go with native fences");
        let create = CreateHwQueue {
            context: self.ring.context,
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
    fn may_pump(&self) -> bool {
        !self.life.has_stopped() && !self.life.is_off()
    }

    /// Whether works are queued that the hardware will still get past.
    pub fn carries_out_more(&self) -> bool {
        !self.life.has_stopped() && !self.ring.is_idle()
    }

    /// Lets everything go on that the ring can: held packets, buffers to be built, waits to be registered.
    pub fn pump_paging(&mut self, cx: &mut Cx<'_>) {
        let Some(queue) = &self.ring.queue else { return };
        let vidsch = queue.vidsch;
        while self.may_pump() {
            match self.vidsch.queues.next(vidsch) {
                Some(Step::Wait(points)) => {
                    let points = self.sync.live_points(points);
                    if points.is_empty() || self.begin_wait(cx, &points, WaitMode::All, Waiter::Ring(RingWait::Packet))
                    {
                        self.vidsch.queues.waited(vidsch);
                    }
                }
                Some(Step::Start(Payload::Paging(number))) => {
                    let work = self.ring.held.pop_front().expect("started works are held in order");
                    assert_eq!(work.number, number.raw(), "the scheduler keeps the order of paging work");
                    self.ring.building.push_back(work);
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
        let built = self.build_buffers(cx).and_then(|()| self.clear_slots(cx));
        self.heed(cx, built);
        self.run_deferred(cx);
        self.watch_progress(cx);
    }

    /// Devices must quiesce before the work at the head: the ring's queue gives nothing out until they have.
    fn wait_for_suspensions(&mut self, cx: &mut Cx<'_>, vidsch: QueueId, points: &[FencePoint<FenceId>]) {
        let waiter = Waiter::Ring(RingWait::Suspension);
        if !points.is_empty() && !self.begin_wait(cx, points, WaitMode::All, waiter) {
            self.vidsch.queues.suspend(vidsch);
        }
    }

    /// A wait of the ring is over.
    pub fn ring_released(&mut self, cx: &mut Cx<'_>, wait: RingWait) {
        let queue = self.ring.queue.as_ref().expect("a ring that waits was started").vidsch;
        match wait {
            RingWait::Packet => self.vidsch.queues.waited(queue),
            RingWait::Suspension => self.vidsch.queues.resume(queue),
            RingWait::Progress => self.ring.waiting_progress = false,
        }
        self.pump_paging(cx);
    }

    /// Whether the hardware has paging work that is not done, noted or not.
    pub fn is_paging(&self, cx: &Cx<'_>) -> bool {
        self.ring_reach(cx).is_some_and(|(reached, last)| reached < last)
    }

    /// How far the hardware has got with the ring, and how far it is to get.
    pub fn ring_reach(&self, cx: &Cx<'_>) -> Option<(u64, u64)> {
        let queue = self.ring.queue.as_ref()?;
        Some((self.sync.current_value(cx.memory, queue.progress), self.ring.progress_value))
    }

    /// Notes which works the hardware has finished.
    pub fn reap_paging(&mut self, cx: &mut Cx<'_>) {
        let Some(queue) = &self.ring.queue else { return };
        if self.ring.submitted.is_empty() {
            return;
        }
        let (vidsch, reached) = (queue.vidsch, self.sync.current_value(cx.memory, queue.progress));
        while self.ring.submitted.front().is_some_and(|work| work.progress_value <= reached) {
            let work = self.ring.submitted.pop_front().expect("just seen");
            self.ring.last_done = work.number;
            self.vidsch.queues.completed(vidsch, 1);
            if work.serial != 0 {
                self.vidmm.completed(work.serial);
            }
            cx.emit(self.index, Event::PagingCompleted { work: work.number });
            if let Some((queue, value)) = work.completes {
                self.signal_paging_queue(cx, queue, value);
            }
            self.rotation_done(cx, work.number);
        }
        self.send_pending_remap_signals(cx);
    }

    /// Points whose fences have not reached them.
    pub fn unreached(&self, cx: &Cx<'_>, points: Vec<FencePoint<FenceId>>) -> Vec<FencePoint<FenceId>> {
        let reached = |point: &FencePoint<FenceId>| {
            self.sync.current_value(cx.memory, self.sync.number_of(point.fence)) >= point.value
        };
        points.into_iter().filter(|point| !reached(point)).collect()
    }
}
