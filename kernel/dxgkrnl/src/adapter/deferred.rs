//! Actions that need the hardware past all paging work queued so far, carried out: the parts of the adapter end what they have had until
//! then. `paging` has the actions in their order, and says which is due.

use gpu_fence::WaitMode;
use kmt_calls::Reply;
use vidmm::SpaceId;
use wddm_types::{GpuVa, PageRun, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::due::{RingWait, Waiter};
use crate::effect::{Answer, Cx, Effect, Token};
use crate::number::{CrossFenceNumber, DeviceNumber, FenceNumber, PagingQueueNumber, PagingWorkNumber, SectionNumber};
use crate::paging::{Deferred, RingNeeds};

impl Adapter {
    /// Answers when the ring has got past everything queued so far: at once when it has already.
    pub fn after_ring(&mut self, cx: &mut Cx<'_>, token: Token, reply: Reply) -> Answer {
        self.reap_paging(cx);
        if self.memory.ring.is_idle() {
            return Answer::Done(Ok(reply));
        }
        self.memory.ring.defer(Deferred::Answer(token, Box::new(reply)));
        Answer::Later(token)
    }

    /// Gives the kernel's pages back when the ring has got past everything queued so far.
    pub(super) fn defer_pages(&mut self, run: PageRun) {
        self.memory.ring.defer(Deferred::Pages(run));
    }

    /// Nothing reaches the word of a cross-adapter fence any more when the ring has got past everything queued so far.
    pub(super) fn defer_common_use(&mut self, cross: CrossFenceNumber) {
        self.memory.ring.defer(Deferred::CommonUse(cross));
    }

    /// Takes pages of the kernel's own out of the paging process when the ring has got past everything queued so far.
    pub(super) fn defer_system_mapping(&mut self, va: GpuVa, count: Pages) {
        self.memory.ring.defer(Deferred::SystemMapping(va, count));
    }

    /// Forgets an address space and the driver's process when the ring has got past everything queued so far.
    pub(super) fn defer_space(&mut self, space: SpaceId, process: ddi::KmdProcess) {
        self.memory.ring.defer(Deferred::Space(space));
        self.memory.ring.defer(Deferred::Process(process));
    }

    /// Destroys a fence when the ring has got past everything queued so far.
    pub(super) fn defer_fence(&mut self, fence: FenceNumber) {
        self.sync.doom(fence);
        self.memory.ring.defer(Deferred::Fence(fence));
    }

    /// Looks at a fence when the ring has got past what takes it out of a process's reach: until then the process's queues signal it, and
    /// neither what it has open nor a name in its logs says so.
    // spec: sync §3.4, sync §3.15
    pub(super) fn look_behind_ring(&mut self, fence: FenceNumber) {
        self.memory.ring.defer(Deferred::UnreachedFence(fence));
    }

    /// Forgets a paging queue when the ring has got past everything queued so far.
    pub(super) fn defer_paging_queue(&mut self, queue: PagingQueueNumber) {
        self.memory.paging_queues.doom(queue);
        self.memory.ring.defer(Deferred::PagingQueue(queue));
    }

    /// Lets a device run again when the ring has brought its content back.
    pub(super) fn defer_resume(&mut self, device: DeviceNumber, decided_ns: u64) {
        self.memory.ring.defer(Deferred::Resume(device, decided_ns));
    }

    /// A device must quiesce for the work of this number: cancels a turn that it was to have before and that has not begun.
    pub(super) fn cancel_resume(&mut self, device: DeviceNumber, before: PagingWorkNumber) {
        for _ in 0..self.memory.ring.cancel_turns(device, before) {
            self.packets_turn_over(device, false);
        }
    }

    /// Lets devices go on that were quiesced for moves within a segment, when the ring has got past them.
    pub(super) fn defer_relocated(&mut self, devices: Vec<DeviceNumber>) {
        self.memory.ring.defer(Deferred::Relocated(devices));
    }

    /// Tells the hardware again what it knows of fences by their place, when the ring has got past their move.
    pub(super) fn defer_words_moved(&mut self, storage: vidmm::AllocationId) {
        self.memory.ring.defer(Deferred::WordsMoved(storage));
    }

    /// Lets processes go on that the work of this number quiesces, when the ring has got past everything queued so far.
    pub(super) fn defer_stillness_over(&mut self, number: PagingWorkNumber) {
        self.memory.ring.defer(Deferred::StillnessOver(number));
    }

    /// Maintains the CPU's caches when the ring has written an allocation's backing store.
    pub(super) fn defer_maintenance(&mut self, allocation: vidmm::AllocationId) {
        self.memory.ring.defer(Deferred::Lines(allocation));
    }

    /// Takes a system copy as what the CPU is shown, when the ring has brought it up to date.
    pub(super) fn defer_copy(&mut self, allocation: vidmm::AllocationId) {
        self.memory.ring.defer(Deferred::Copy(allocation));
    }

    /// Answers an unlock when the ring has got past everything queued so far.
    pub(super) fn defer_unlocked(&mut self, token: Token) {
        self.memory.ring.defer(Deferred::Unlocked(token));
    }

    /// Lets an allocation's section go when the ring has got past everything queued so far.
    pub(super) fn defer_section(&mut self, section: SectionNumber) {
        self.memory.ring.defer(Deferred::Section(section));
    }

    /// Answers a call that was promised an answer when the ring has got past everything queued so far.
    pub(super) fn answer_after_ring(&mut self, token: Token, reply: Reply) {
        self.memory.ring.defer(Deferred::Answer(token, Box::new(reply)));
    }

    /// Signals a fence when the ring has got past everything queued so far.
    pub(super) fn defer_signal(&mut self, fence: FenceNumber, value: u64) {
        self.memory.ring.defer(Deferred::Signal { fence, value });
    }

    /// Switches the device off when the ring has got past everything queued so far.
    pub(super) fn defer_power_down(&mut self, token: Token, state: ddi::PowerState) {
        self.memory.ring.defer(Deferred::PowerDown(token, state));
    }

    /// Stops the adapter (PnP) when the ring has got past everything queued so far.
    pub(super) fn defer_stop(&mut self, token: Token) {
        self.memory.ring.defer(Deferred::Stop(token));
    }

    /// Carries out the actions that are due.
    pub(super) fn run_deferred(&mut self, cx: &mut Cx<'_>) {
        let shown = self.memory.ring.shown();
        while let Some(deferred) = self.memory.ring.next_due(shown, self.life.has_stopped()) {
            match deferred {
                Deferred::Pages(run) => self.driver.pages().give_back(cx.platform(self.index).clients(), run),
                Deferred::Returns => {}
                Deferred::CommonUse(cross) => self.sync.common_use_ends(cross),
                Deferred::SystemMapping(va, count) => {
                    let space = self.owners.space_of(ProcessId::SYSTEM);
                    self.unmap_pages(cx, space, va, count);
                }
                Deferred::Space(space) => {
                    self.memory.spaces.remove(&space);
                    self.memory.pasids.leave(cx.platform(self.index).io_mmu(), space);
                }
                Deferred::Process(process) => self.driver.call(cx).destroy_process(process),
                Deferred::Fence(fence) => self.destroy_fence(cx, fence),
                Deferred::UnreachedFence(fence) => self.look_at_unreached(cx, fence),
                Deferred::PagingQueue(queue) => self.memory.paging_queues.forget(queue),
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
    }

    /// Registers a wait for the ring's progress when the kernel needs to be told: for a buffer to be reused, a deferred answer, or what a
    /// process that has gone has left.
    pub(super) fn watch_progress(&mut self, cx: &mut Cx<'_>) {
        if self.life.has_stopped() {
            return;
        }
        let Some(progress) = self.memory.ring.unwatched() else { return };
        let Some(value) = self.memory.ring.progress_to_watch(&self.ring_needs()) else { return };
        let point = [self.sync.point(progress, value)];
        if self.begin_wait(cx, &point, WaitMode::All, Waiter::Ring(RingWait::Progress)) {
            self.due.wait_ended(Waiter::Ring(RingWait::Progress));
        }
        self.memory.ring.is_watched(true);
    }

    /// What others wait for at the ring.
    pub(super) fn ring_needs(&self) -> RingNeeds {
        RingNeeds {
            kept: self.memory.paging_queues.first_kept(self.memory.ring.done()),
            packets: self.packet_needs().next().map(|(_, need)| need),
            displays: self.display_need(),
            builds: self.may_build_buffers(),
        }
    }
}
