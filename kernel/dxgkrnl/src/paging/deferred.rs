//! Actions that need the hardware past all paging work queued so far: giving pages back, ending objects that queued work still names,
//! answering calls that need their mappings.
//!
//! The kernel asks to be told that the hardware is there only when a call or a device waits for an action. It carries the rest out with
//! the next turn of any process, for an interrupt costs more than a page that is free a little later. A process that has gone makes no
//! turn any more: the kernel watches the ring until it is past everything that such processes have left ([`Adapter::clear_behind`]).

use gpu_fence::WaitMode;
use kmt_calls::Reply;
use vidmm::SpaceId;
use wddm_types::{GpuVa, PageRun, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::due::{RingWait, Waiter};
use crate::machine::{Answer, Cx, Effect, Token};
use crate::number::FenceNumber;
use crate::object::{DeviceNumber, PagingQueueNumber};
use crate::packet::RingNeed;

/// One thing that waits for the ring.
pub(super) enum Deferred {
    Pages(PageRun),
    SystemMapping(GpuVa, Pages),
    /// The word of a cross-adapter fence is not reached any more.
    CommonUse(u64),
    Space(SpaceId),
    Process(ddi::KmdProcess),
    Fence(FenceNumber),
    /// A process does not reach a fence any more that others have.
    UnreachedFence(FenceNumber),
    PagingQueue(PagingQueueNumber),
    /// A device whose turn begins, and when that was decided.
    Resume(DeviceNumber, u64),
    Section(u64),
    /// The system copy of an allocation is up to date.
    Copy(vidmm::AllocationId),
    /// Lines of an allocation whose backing store the hardware writes.
    Lines(vidmm::AllocationId),
    Signal {
        fence: FenceNumber,
        value: u64,
    },
    PowerDown(Token, ddi::PowerState),
    /// Stop the adapter and answer.
    Stop(Token),
    Answer(Token, Box<Reply>),
    /// An unlocked allocation is where it was: the kernel answers whatever has become of the adapter (memory §8.6).
    Unlocked(Token),
    /// Nothing: calls wait for pages that come free here.
    Returns,
    /// Storage of fences that is somewhere else.
    WordsMoved(vidmm::AllocationId),
    /// Devices that were quiesced while content moved.
    Relocated(Vec<DeviceNumber>),
    /// Processes that were quiesced for the work of this number.
    StillnessOver(u64),
}

impl Deferred {
    /// Whether a call or a device waits until it is carried out. The rest is done with the next turn that comes along.
    fn is_awaited(&self) -> bool {
        matches!(
            self,
            Deferred::Answer(..)
                | Deferred::Unlocked(_)
                | Deferred::Returns
                | Deferred::Resume(..)
                | Deferred::Relocated(_)
                | Deferred::StillnessOver(_)
                | Deferred::Signal { .. }
                | Deferred::UnreachedFence(_)
                | Deferred::CommonUse(_)
                | Deferred::PowerDown(..)
                | Deferred::Stop(..)
        )
    }
}

impl Adapter {
    /// Answers when the ring has got past everything queued so far: at once when it has already.
    pub fn after_ring(&mut self, cx: &mut Cx<'_>, token: Token, reply: Reply) -> Answer {
        self.reap_paging(cx);
        if self.ring.is_idle() {
            return Answer::Done(Ok(reply));
        }
        self.defer(Deferred::Answer(token, Box::new(reply)));
        Answer::Later(token)
    }

    /// Gives the kernel's pages back when the ring has got past everything queued so far.
    pub fn defer_pages(&mut self, run: PageRun) {
        self.defer(Deferred::Pages(run));
    }

    /// Nothing reaches the word of a cross-adapter fence any more when the ring has got past everything queued so far.
    pub fn defer_common_use(&mut self, cross: u64) {
        self.defer(Deferred::CommonUse(cross));
    }

    /// Takes pages of the kernel's own out of the paging process when the ring has got past everything queued so far.
    pub fn defer_system_mapping(&mut self, va: GpuVa, count: Pages) {
        self.defer(Deferred::SystemMapping(va, count));
    }

    /// Forgets an address space and the driver's process when the ring has got past everything queued so far.
    pub fn defer_space(&mut self, space: SpaceId, process: ddi::KmdProcess) {
        self.defer(Deferred::Space(space));
        self.defer(Deferred::Process(process));
    }

    /// Destroys a fence when the ring has got past everything queued so far.
    pub fn defer_fence(&mut self, fence: FenceNumber) {
        self.sync.doom(fence);
        self.defer(Deferred::Fence(fence));
    }

    /// Looks at a fence when the ring has got past what takes it out of a process's reach: until then the process's queues signal it, and
    /// neither what it has open nor a name in its logs says so.
    // spec: sync §3.4, sync §3.15
    pub fn look_behind_ring(&mut self, fence: FenceNumber) {
        self.defer(Deferred::UnreachedFence(fence));
    }

    /// Forgets a paging queue when the ring has got past everything queued so far.
    pub fn defer_paging_queue(&mut self, queue: PagingQueueNumber) {
        self.paging_queues.doom(queue);
        self.defer(Deferred::PagingQueue(queue));
    }

    /// Lets a device run again when the ring has brought its content back.
    pub fn defer_resume(&mut self, device: DeviceNumber, decided_ns: u64) {
        self.defer(Deferred::Resume(device, decided_ns));
    }

    /// A device must quiesce for the work of this number: cancels a turn that it was to have before and that has not begun.
    pub fn cancel_resume(&mut self, device: DeviceNumber, before: u64) {
        let cancelled = |what: &Deferred| matches!(what, Deferred::Resume(resumed, _) if *resumed == device);
        if self.ring.turns == 0 {
            return;
        }
        let known = self.ring.deferred.len();
        self.ring.deferred.retain(|(number, what)| *number >= before || !cancelled(what));
        self.ring.turns -= known - self.ring.deferred.len();
        let awaited = self.ring.deferred.iter().filter(|(_, what)| what.is_awaited());
        self.ring.awaited = awaited.map(|(number, _)| *number).collect();
        for _ in self.ring.deferred.len()..known {
            self.packets_turn_over(device, false);
        }
    }

    /// Whether a device's turn has been decided and has not begun.
    pub fn turn_outstanding(&self) -> bool {
        self.ring.turns > 0
    }

    /// Lets devices go on that were quiesced for moves within a segment, when the ring has got past them.
    pub(super) fn defer_relocated(&mut self, devices: Vec<DeviceNumber>) {
        self.defer(Deferred::Relocated(devices));
    }

    /// Tells the hardware again what it knows of fences by their place, when the ring has got past their move.
    pub fn defer_words_moved(&mut self, storage: vidmm::AllocationId) {
        self.defer(Deferred::WordsMoved(storage));
    }

    /// Lets processes go on that are quiesced for the work just queued, when the ring has got past it.
    pub(super) fn defer_stillness_over(&mut self) {
        self.defer(Deferred::StillnessOver(self.ring.last_queued));
    }

    /// Maintains the CPU's caches when the ring has written an allocation's backing store.
    pub fn defer_maintenance(&mut self, allocation: vidmm::AllocationId) {
        self.defer(Deferred::Lines(allocation));
    }

    /// Takes a system copy as what the CPU is shown, when the ring has brought it up to date.
    pub fn defer_copy(&mut self, allocation: vidmm::AllocationId) {
        self.defer(Deferred::Copy(allocation));
    }

    /// Answers an unlock when the ring has got past everything queued so far.
    pub fn defer_unlocked(&mut self, token: Token) {
        self.defer(Deferred::Unlocked(token));
    }

    /// Lets an allocation's section go when the ring has got past everything queued so far.
    pub fn defer_section(&mut self, section: u64) {
        self.defer(Deferred::Section(section));
    }

    /// Answers a call that was promised an answer when the ring has got past everything queued so far.
    pub fn answer_after_ring(&mut self, token: Token, reply: Reply) {
        self.defer(Deferred::Answer(token, Box::new(reply)));
    }

    /// Signals a fence when the ring has got past everything queued so far.
    pub fn defer_signal(&mut self, fence: FenceNumber, value: u64) {
        self.defer(Deferred::Signal { fence, value });
    }

    /// Switches the device off when the ring has got past everything queued so far.
    pub fn defer_power_down(&mut self, token: Token, state: ddi::PowerState) {
        self.defer(Deferred::PowerDown(token, state));
    }

    /// Stops the adapter (PnP) when the ring has got past everything queued so far.
    pub fn defer_stop(&mut self, token: Token) {
        self.defer(Deferred::Stop(token));
    }

    /// The sections that allocations are to leave when the ring has got so far.
    pub fn leaving_sections(&self) -> impl Iterator<Item = u64> {
        let section = |(_, what): &(u64, Deferred)| match what {
            Deferred::Section(section) => Some(*section),
            _ => None,
        };
        self.ring.deferred.iter().filter_map(section)
    }

    /// Has the kernel hear when the ring has got past everything queued so far: calls wait for pages that it frees.
    pub fn watch_returns(&mut self) {
        if !self.ring.is_idle() && self.ring.returns_watched < self.ring.last_queued {
            self.ring.returns_watched = self.ring.last_queued;
            self.defer(Deferred::Returns);
        }
    }

    /// A process has gone: the kernel carries out what is deferred until now, and what comes of it, when the hardware has got past it,
    /// without waiting for a call.
    pub fn clear_behind(&mut self) {
        if !self.ring.deferred.is_empty() {
            self.ring.leaving = self.ring.last_queued;
        }
    }

    fn defer(&mut self, what: Deferred) {
        self.ring.turns += usize::from(matches!(what, Deferred::Resume(..)));
        self.ring.awaited.extend(what.is_awaited().then_some(self.ring.last_queued));
        self.ring.deferred.push_back((self.ring.last_queued, what));
        if self.ring.clears {
            self.ring.leaving = self.ring.last_queued;
        }
    }

    pub(super) fn run_deferred(&mut self, cx: &mut Cx<'_>) {
        // The process sees what a work has moved before anything goes on behind the work.
        let shown = self.ring.last_done.saturating_sub(u64::from(self.ring.shows()));
        while let Some((number, _)) = self.ring.deferred.front() {
            if *number > shown && !self.life.has_stopped() {
                break;
            }
            let (number, deferred) = self.ring.deferred.pop_front().expect("just seen");
            self.ring.turns -= usize::from(matches!(deferred, Deferred::Resume(..)));
            if deferred.is_awaited() {
                self.ring.awaited.pop_front();
            }
            self.ring.clears = number <= self.ring.leaving;
            match deferred {
                Deferred::Pages(run) => self.driver.pages().give_back(cx.platform(self.index).clients(), run),
                Deferred::Returns => {}
                Deferred::CommonUse(cross) => self.sync.common_use_ends(cross),
                Deferred::SystemMapping(va, count) => {
                    let space = self.owners.space_of(ProcessId::SYSTEM);
                    self.unmap_pages(cx, space, va, count);
                }
                Deferred::Space(space) => {
                    self.spaces.remove(&space);
                    self.pasids.leave(cx.platform(self.index).io_mmu(), space);
                }
                Deferred::Process(process) => self.driver.call(cx).destroy_process(process),
                Deferred::Fence(fence) => self.destroy_fence(cx, fence),
                Deferred::UnreachedFence(fence) => self.look_at_unreached(cx, fence),
                Deferred::PagingQueue(queue) => self.paging_queues.forget(queue),
                Deferred::Resume(device, decided_ns) => self.begin_turn(cx, device, decided_ns),
                Deferred::WordsMoved(storage) => self.words_have_moved(cx, storage),
                Deferred::Relocated(devices) => self.relocated(cx, devices),
                Deferred::StillnessOver(work) => self.stillness_over(cx, work),
                Deferred::Lines(allocation) => self.maintain_for_move(cx, allocation),
                Deferred::Copy(allocation) => self.note_copy(cx, allocation),
                Deferred::Unlocked(token) => cx.effects.push(Effect::Answer { token, result: Ok(Reply::Done) }),
                Deferred::Section(section) => self.due.section_left(section),
                Deferred::Signal { fence, value } => {
                    if self.sync.fence_if_there(fence).is_some() {
                        self.signal_fence(cx, fence, value);
                    }
                }
                // Work that a process has caused meanwhile by ending something is carried out first.
                Deferred::PowerDown(token, state) if self.carries_out_more() => self.defer_power_down(token, state),
                Deferred::PowerDown(token, state) => self.switch_off(cx, token, state),
                Deferred::Stop(token) if self.carries_out_more() => self.defer_stop(token),
                Deferred::Stop(token) => self.memory_left(cx, token),
                Deferred::Answer(token, reply) => {
                    let result = self.life.running().map(|()| *reply);
                    cx.effects.push(Effect::Answer { token, result });
                }
            }
        }
        self.ring.clears = false;
    }

    /// Registers a wait for the ring's progress when the kernel needs to be told: for a buffer to be reused, a deferred answer, or what a
    /// process that has gone has left.
    pub fn watch_progress(&mut self, cx: &mut Cx<'_>) {
        if self.ring.waiting_progress || self.life.has_stopped() {
            return;
        }
        let Some(queue) = &self.ring.queue else { return };
        let progress = queue.progress;
        let answer_value = self.ring.awaited.front().copied().and_then(|wanted| {
            self.ring.submitted.iter().find(|work| work.number >= wanted).map(|work| work.progress_value)
        });
        // Half of the buffers at once: the hardware has the other half to go on with, and the CPU is woken seldom.
        let count = self.ring.buffers.len();
        let middle = (self.ring.next_buffer + (count - 1) / 2) % count;
        // A ring that stands around locked content waits for that, not for buffers.
        let builds = !self.ring.building.is_empty() && !self.ring.stands();
        let buffer_value = builds.then(|| self.ring.buffers[middle].busy_until.max(self.ring.hold_until));
        // The kernel goes on with these itself.
        let noted = self.ring.moving().into_iter().chain(self.paging_queues.first_kept(self.ring.last_done)).min();
        let noted_value = noted.and_then(|wanted| {
            self.ring.submitted.iter().find(|work| work.number >= wanted).map(|work| work.progress_value)
        });
        let packet_value = self.ring_need().and_then(|need| {
            let past = |work: &&super::Submitted| match need {
                RingNeed::Number(number) => work.number >= number,
                RingNeed::Serial(serial) => work.serial >= serial,
            };
            self.ring.submitted.iter().find(past).map(|work| work.progress_value)
        });
        let display_value = self.display_need().and_then(|serial| {
            self.ring.submitted.iter().find(|work| work.serial >= serial).map(|work| work.progress_value)
        });
        let behind = self.ring.deferred.partition_point(|(number, _)| *number <= self.ring.leaving);
        let left = behind.checked_sub(1).and_then(|last| self.ring.deferred.get(last));
        let left_value = left.and_then(|(wanted, _)| {
            self.ring.submitted.iter().find(|work| work.number >= *wanted).map(|work| work.progress_value)
        });
        let values = [answer_value, buffer_value, noted_value, packet_value, display_value, left_value];
        let Some(value) = values.into_iter().flatten().min() else {
            return;
        };
        let point = [self.sync.point(progress, value)];
        if self.begin_wait(cx, &point, WaitMode::All, Waiter::Ring(RingWait::Progress)) {
            self.due.wait_ended(Waiter::Ring(RingWait::Progress));
        }
        self.ring.waiting_progress = true;
    }
}
