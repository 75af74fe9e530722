//! How a decision of the memory manager, or a wish of the kernel's own, becomes a work of the ring: its pages are cleared, its moves are
//! told, its paging queue promises a value, and the scheduler gets it behind what it waits for.

use events::{Event, Stillness};
use gpu_fence::FenceId;
use vidmm::{AllocationId, Move, MoveKind, Operation, SpaceId, Work};
use vidsch::Packet;
use wddm_types::{PAGE_BYTES, PageRun, ProcessId};

use crate::adapter::Adapter;
use crate::allocations::Gone;
use crate::effect::Cx;
use crate::number::{DeviceNumber, PagingQueueNumber, PagingWorkNumber};
use crate::paging::{MediumChange, NewWork, causes, empty_work, part_that_leaves};
use crate::scheduling::Payload;
use crate::store::ObjectNumber;

/// What stands still from the first part of a work to the last.
#[derive(Default)]
struct Stopped {
    /// The parts that quiesce processes whose page tables change.
    for_tables: Vec<PagingWorkNumber>,
    /// Devices that quiesce because content of their lists moves.
    for_content: Vec<DeviceNumber>,
}

impl Adapter {
    /// Queues a work for a process, if there is any. Moves without work are reported either way.
    pub(super) fn queue_any(&mut self, cx: &mut Cx<'_>, process: ProcessId, work: Option<Work<FenceId>>) {
        match work {
            Some(work) => {
                self.queue_work(cx, process, None, Some(work), Vec::new());
            }
            None => self.emit_untold(cx, process, self.memory.ring.next_serial()),
        }
    }

    /// Queues paging work that completes the next value of a paging queue's fence. Answers with the value.
    pub(super) fn queue_for(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        paging_queue: PagingQueueNumber,
        work: Option<Work<FenceId>>,
    ) -> u64 {
        self.queue_work(cx, process, Some(paging_queue), work, Vec::new());
        let value = self.memory.paging_queues.last_value(paging_queue);
        debug_assert_ne!(value, 0, "0 says that everything is there now, and is never promised");
        value
    }

    /// Queues paging work. `paging_queue` is whose fence it completes.
    pub(super) fn queue_work(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        paging_queue: Option<PagingQueueNumber>,
        work: Option<Work<FenceId>>,
        destroys: Vec<Gone>,
    ) {
        let mut work = work.unwrap_or_else(empty_work);
        work.accept();
        self.revoke_returned(cx);
        let zero = self.backings_used(cx, &work.moves);
        let idle_spaces = causes(&work);
        let mut stopped = Stopped::default();
        while let Some(leaving) = part_that_leaves(&mut work) {
            let idle_spaces = causes(&leaving);
            self.queue_part(cx, process, None, (leaving, idle_spaces), (&[], Vec::new()), &mut stopped);
        }
        self.queue_part(cx, process, paging_queue, (work, idle_spaces), (&zero, destroys), &mut stopped);
        // From the first part to the last: what the work makes invalid in one part may become valid in another.
        for number in stopped.for_tables {
            self.defer_stillness_over(number);
        }
        if !stopped.for_content.is_empty() {
            self.defer_relocated(stopped.for_content);
        }
    }

    /// Queues a part of a work. `zero`: pages that were cleared just now.
    fn queue_part(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        paging_queue: Option<PagingQueueNumber>,
        (mut work, idle_spaces): (Work<FenceId>, Vec<(SpaceId, Stillness)>),
        (zero, destroys): (&[PageRun], Vec<Gone>),
        stopped: &mut Stopped,
    ) {
        // Reports earlier moves before it. The kernel's own works have no serial.
        self.emit_untold(cx, process, if work.serial == 0 { self.memory.ring.next_serial() } else { work.serial });
        self.memory.ring.serial_queued(work.serial);
        self.make_memory_ready(cx, &mut work, zero);
        let turns = self.bind_rotations(cx, work.rotations);
        let relocation = self.bind_relocation(&work.quiesced, &work.moves);
        let number = self.memory.ring.next_work();
        let completes = paging_queue.and_then(|queue| self.promise_value(queue, number, &turns));
        self.memory.ring.works_for(paging_queue);
        let moved_bytes = self.emit_moves(cx, Some(number), process, &work.moves);
        self.emit_table_moves(cx, number, &work.tables);
        self.emit_conversions(cx, number, &work.conversions);
        let written_back = self.maintain_moves(cx, &work.moves);
        let after: Vec<_> = self.sync.live_points(work.after);
        let after = self.unreached(cx, after);
        self.emit_queued(cx, number, (paging_queue, completes), moved_bytes, after.len());
        let storages: Vec<_> = work.operations.iter().filter_map(moved_storage).collect();
        let quiesced = relocation.devices.clone();
        let (serial, operations) = (work.serial, work.operations.into());
        let new = NewWork { serial, operations, completes, destroys, turns, relocation, used: work.used, process };
        self.memory.ring.hold(number, new, self.owners.space_of(ProcessId::SYSTEM));
        for allocation in written_back {
            self.defer_maintenance(allocation);
        }
        if !after.is_empty() {
            self.submit_to_ring(Packet::Wait(after));
        }
        if !work.suspends.is_empty() {
            self.submit_to_ring(Packet::Work(Payload::Suspend(number, work.suspends)));
        }
        if !quiesced.is_empty() {
            self.submit_to_ring(Packet::Work(Payload::Quiesce(number)));
        }
        if !idle_spaces.is_empty() {
            self.submit_to_ring(Packet::Work(Payload::IdleSpaces(number, idle_spaces)));
            stopped.for_tables.push(number);
        }
        self.submit_to_ring(Packet::Work(Payload::Paging(number)));
        // Work that waits by the words goes on behind it.
        for storage in storages {
            self.defer_words_moved(storage);
        }
        stopped.for_content.extend(quiesced);
    }

    /// Nothing stands any more in pages, windows and ranges that the work needs. `zero`: pages that were cleared just now.
    fn make_memory_ready(&mut self, cx: &mut Cx<'_>, work: &mut Work<FenceId>, zero: &[PageRun]) {
        let within = |run: &PageRun| zero.iter().any(|zero| zero.first <= run.first && run.end() <= zero.end());
        work.clear.retain(|run| !within(run));
        self.clear_pages(cx, &work.clear);
        for pages in &work.unmap {
            self.unmap_window(cx, pages);
        }
        self.release_ranges(cx, &work.ranges);
    }

    /// A paging queue promises the next value of its fence, behind a work. `None`: the hardware does not signal it.
    fn promise_value(
        &mut self,
        queue: PagingQueueNumber,
        number: PagingWorkNumber,
        turns: &[MediumChange],
    ) -> Option<(PagingQueueNumber, u64)> {
        let (value, at_once) = self.memory.paging_queues.promise(queue, self.memory.ring.place());
        let promise = at_once.then_some((queue, value))?;
        let sees = self.owners.process_of(self.memory.paging_queues.device_of(queue));
        let shown_later = turns.iter().any(|turn| turn.shows_to(sees));
        self.memory.paging_queues.hardware_keeps(promise, number, shown_later).then_some(promise)
    }

    /// The CPU's caches hold nothing of content that moves. The allocations whose backing stores the hardware writes: lines of these may come
    /// back until it has.
    fn maintain_moves(&mut self, cx: &Cx<'_>, moves: &[Move]) -> Vec<AllocationId> {
        let mut written_back = Vec::new();
        for moved in moves.iter().filter(|moved| !moved.kind.is_quiet()) {
            self.maintain_for_move(cx, moved.allocation);
            if moved.kind == MoveKind::PageOut && cx.platform(self.index).cpu_cache().is_some() {
                written_back.push(moved.allocation);
            }
        }
        written_back
    }

    fn emit_queued(
        &self,
        cx: &mut Cx<'_>,
        number: PagingWorkNumber,
        (paging_queue, completes): (Option<PagingQueueNumber>, Option<(PagingQueueNumber, u64)>),
        (in_bytes, out_bytes): (u64, u64),
        points: usize,
    ) {
        let fence = |queue| self.memory.paging_queues.fence_of(queue).raw();
        let (fence, value) = completes.map_or((0, 0), |(queue, value)| (fence(queue), value));
        let paging_queue = paging_queue.map_or(0, ObjectNumber::raw);
        // CAST: a work waits for at most one point a queue.
        let held_for = points as u32;
        let work = number.raw();
        let queued = Event::PagingQueued { work, paging_queue, fence, value, in_bytes, out_bytes, held_for };
        cx.emit(self.index, queued);
    }

    fn submit_to_ring(&mut self, packet: Packet<Payload, FenceId>) {
        let queue = self.memory.ring.queue_id().expect("the ring runs");
        // PANIC: the ring's queue is the kernel's own, which refuses nothing as long as it has not failed.
        let submitted = self.vidsch.queues.submit(queue, packet);
        submitted.unwrap_or_else(|error| panic!("the paging ring refused a packet: {error:?}"));
    }

    /// Fills pages that the GPU is about to see for the first time, so that no process reads another owner's bytes.
    pub(super) fn clear_pages(&mut self, cx: &Cx<'_>, runs: &[PageRun]) {
        self.revoke_returned(cx);
        self.zero(cx, runs);
    }

    /// The same, behind [`Adapter::revoke_returned`].
    pub(super) fn zero(&self, cx: &Cx<'_>, runs: &[PageRun]) {
        if self.config.clear_pages {
            for run in runs {
                cx.memory.fill(run.first * PAGE_BYTES, run.count.bytes(), 0);
            }
        }
    }

    /// Queues operations of the kernel's own for a process, such as the tables of its address space.
    pub(super) fn queue_operations(&mut self, cx: &mut Cx<'_>, process: ProcessId, operations: Vec<Operation>) {
        if !operations.is_empty() {
            self.queue_work(cx, process, None, Some(Work { operations, ..empty_work() }), Vec::new());
        }
    }

    /// The value of a paging queue's fence after which everything decided so far for it is there, or `None` when it is
    /// now. Work of other queues may stand before it in the ring: then an empty work marks this queue's place.
    pub(super) fn paging_value_now(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        paging_queue: PagingQueueNumber,
    ) -> Option<u64> {
        self.queue_any(cx, process, None);
        self.reap_paging(cx);
        if self.memory.paging_queues.awaits_turn(paging_queue) {
            return Some(self.memory.paging_queues.last_value(paging_queue));
        }
        if self.memory.ring.is_idle() {
            return None;
        }
        if self.memory.ring.last_is_for(paging_queue) {
            return Some(self.memory.paging_queues.last_value(paging_queue));
        }
        Some(self.queue_for(cx, process, paging_queue, None))
    }
}

/// Storage of fences that is somewhere else behind an operation.
fn moved_storage(operation: &Operation) -> Option<AllocationId> {
    match operation {
        Operation::NotifyFenceResidency { storage, .. } => Some(*storage),
        _ => None,
    }
}
