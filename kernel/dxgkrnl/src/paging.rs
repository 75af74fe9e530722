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
//!
//! What holds between its fields, which [`PagingRing::check`] checks:
//! - works are numbered as they are queued, and keep that order: with the hardware, being built, behind a wait; the hardware is past those
//!   up to `last_done`, and none is queued behind `last_queued`;
//! - the progress that completes a work, or that a buffer is busy until, was given to the hardware: `progress_value` has come to it;
//! - buffers that wait for their node stand in the order of what they complete;
//! - a buffer that is not under construction has its content;
//! - deferred actions stand in the order of the works before them; those that are awaited, and the turns among them, are counted.

mod buffer;
mod check;
mod deferred;
mod holds;
mod lost;
mod operation;
mod packets;
mod parts;
mod pool;
mod question;
mod relocation;
mod rotation;
mod scratch;
mod spare;
mod stillness;
mod uses;
mod work;

use std::collections::{BTreeSet, VecDeque};

use ddi::{KmdContext, KmdDevice, KmdQueue};
use vidmm::WindowPages;
use vidsch::QueueId;

use crate::number::{FenceNumber, PagingQueueNumber, PagingWorkNumber};
pub use crate::paging::buffer::{Filled, Filling};
use crate::paging::deferred::DeferredActions;
pub use crate::paging::deferred::{Deferred, RingNeed, RingNeeds};
pub use crate::paging::lost::GivenUp;
pub use crate::paging::operation::Names;
pub use crate::paging::packets::{PacketRing, Ready};
pub use crate::paging::parts::{empty_work, part_that_leaves};
use crate::paging::pool::Buffer;
pub use crate::paging::pool::NewBuffer;
pub use crate::paging::question::Question;
pub use crate::paging::relocation::{Binding, Relocation};
pub use crate::paging::rotation::{Awaited, Due, Head, MediumChange, Unanswered, Written};
use crate::paging::scratch::Scratch;
pub use crate::paging::scratch::{Borrowed, FreeSlot, Shown};
use crate::paging::stillness::Stillnesses;
pub use crate::paging::stillness::causes;
use crate::paging::work::QueuedWork;
pub use crate::paging::work::{NewWork, Submitted};
use crate::store::ObjectNumber;

/// The paging ring of one adapter.
pub struct PagingRing {
    device: KmdDevice,
    context: KmdContext,
    /// Its buffers have addresses in the paging process, and reach memory by those.
    has_addresses: bool,
    queue: Option<RingQueue>,
    buffers: Vec<Buffer>,
    next_buffer: usize,
    /// Works whose turn has come and which are not built to their end, oldest first.
    building: VecDeque<QueuedWork>,
    /// Works that stand behind a wait in the scheduler.
    held: VecDeque<QueuedWork>,
    /// Works among the two above that were queued with entries of the paging process to write.
    entry_works: BTreeSet<PagingWorkNumber>,
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
    /// The uses that the work at the head waits for.
    uses: Option<uses::UseWait>,
    /// For so long have works waited for uses until their devices gave way.
    gave_way_ns: u64,
    /// Windows that locked content has left because the hardware was lost.
    lost_windows: Vec<WindowPages>,
}

/// The queue of a ring.
pub struct RingQueue {
    /// The hardware queue; `None`: paging buffers are packets of the ring's context.
    pub kmd: Option<KmdQueue>,
    /// At the scheduler.
    pub vidsch: QueueId,
    /// The hardware signals it for each buffer.
    pub progress: FenceNumber,
    /// As in [`crate::queue::Queue::counted_ns`].
    pub counted_ns: Option<u64>,
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
            entry_works: BTreeSet::new(),
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
            uses: None,
            gave_way_ns: 0,
            lost_windows: Vec::new(),
        }
    }

    /// The driver's device of the paging process.
    pub fn device(&self) -> KmdDevice {
        self.device
    }

    /// The driver's context of the paging process.
    pub fn context(&self) -> KmdContext {
        self.context
    }

    /// Whether its buffers reach memory by addresses of the paging process.
    pub fn has_addresses(&self) -> bool {
        self.has_addresses
    }

    /// The adapter has stopped: nothing more is built.
    pub fn abandon(&mut self) {
        self.building.clear();
        self.held.clear();
        self.entry_works.clear();
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

    /// Whether a wait for its progress is registered.
    pub fn is_watched(&mut self, watched: bool) {
        self.waiting_progress = watched;
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
        debug_assert!(self.last_done <= self.last_queued, "{} is done of {}", self.last_done, self.last_queued);
        self.last_queued - self.last_done
    }

    /// Whether the driver takes aperture maps as device pages (`MapAperture2Supported`). The first operations come before the ring's queue.
    pub fn take_device_pages(&mut self, device_pages: bool) {
        self.device_pages = device_pages;
    }

    /// The ring begins, or begins anew, with this queue.
    pub fn begins(&mut self, queue: RingQueue) {
        debug_assert!(
            self.submitted.is_empty() && self.building.is_empty(),
            "a queue that goes leaves no work that is begun"
        );
        self.queue = Some(queue);
    }

    /// Its queue at the scheduler; `None`: the ring has not started.
    pub fn queue_id(&self) -> Option<QueueId> {
        self.queue.as_ref().map(|queue| queue.vidsch)
    }

    /// The progress that the last buffer completes which the hardware was given.
    pub fn progress_value(&self) -> u64 {
        self.progress_value
    }

    /// The turn of a work has come: its buffers may be built.
    pub fn work_starts(&mut self, number: PagingWorkNumber) {
        let work = self.held.pop_front().expect("started works are held in order");
        assert_eq!(work.number, number, "the scheduler keeps the order of paging work");
        debug_assert!(
            self.building.back().is_none_or(|before| before.number < number),
            "works are built in their order: {number:?}"
        );
        self.building.push_back(work);
    }

    /// Whether no work is with the hardware or to be built: then the ring makes no progress that the kernel could wait for.
    pub fn owes_no_progress(&self) -> bool {
        self.submitted.is_empty() && self.building.is_empty()
    }

    /// Whether works are with the hardware.
    pub fn has_submitted(&self) -> bool {
        !self.submitted.is_empty()
    }

    /// The oldest work, if the hardware has finished it.
    #[must_use = "the work is over"]
    pub fn finish(&mut self, reached: u64) -> Option<Submitted> {
        let work = self.submitted.pop_front_if(|work| work.progress_value <= reached)?;
        debug_assert!(
            (self.last_done + 1..=self.last_queued).contains(&work.number.raw()),
            "works end in their order: {:?} behind {}",
            work.number,
            self.last_done
        );
        self.last_done = work.number.raw();
        Some(work)
    }
}
