//! The memory manager's use of time: devices that take turns because their lists do not fit together, trims, budgets that change, work
//! ahead of need (memory §5.4, §5.5, §8.2, §8.6). `turns` has the times, `notification` the registrations, `vidmm`
//! decides; the adapter asks it at these times, and has the scheduler, the ring and the processes carry the decision out.

use events::Event;
use gpu_fence::FenceId;
use kmt_calls::{Notification, NotificationKind, TrimFlags};
use vidmm::{DeviceId, NextResume, ProcessPriority, Promotion, SegmentGroup};
use vidsch::SuspendReasons;
use wddm_types::{FencePoint, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::effect::{Cx, Effect};
use crate::notification::RegistrationKind;
use crate::number::{DeviceNumber, PagingWorkNumber};
use crate::owners::ProcessFacts;
use crate::process::Terms;
use crate::store::ObjectNumber;

/// Most pages of one work ahead: later work waits no longer than for these.
const AHEAD_MAX: Pages = Pages(4096);
/// Most works that are queued ahead in one turn of the machine.
const WORKS_MAX: usize = 16;
/// Most works ahead that the ring is not past: behind those the works of lists wait.
const UNFINISHED_MAX: usize = 64;

impl Adapter {
    /// A process shares memory on these terms.
    // spec: memory §5.5
    pub fn apply_terms(&mut self, cx: &mut Cx<'_>, process: ProcessId, terms: Terms) {
        let Some(ProcessFacts { space, .. }) = self.owners.facts_of_process(process) else { return };
        let ranks_otherwise = self.owners.set_class(process, terms.class);
        self.vidmm.set_process_priority(space, priority_of(terms));
        self.vidmm.set_budget(space, SegmentGroup::Local, terms.budget_bytes);
        if ranks_otherwise {
            self.tell_ranks(cx, process, terms.class);
        }
    }

    /// When [`Adapter::timer`] is to be called next. `calls_wait`: calls of processes wait until adapters have less paging work outstanding.
    pub fn deadline_ns(&self, calls_wait: bool) -> Option<u64> {
        if self.life.has_stopped() {
            return None;
        }
        let group = self.vidsch.timeouts.group_deadline_ns();
        if !self.life.keeps_time() {
            return group;
        }
        let (timeouts, gives_way) = (self.vidsch.timeouts.deadline_ns(), self.gives_way_ns(calls_wait));
        // No device has a turn on the way down.
        let turns = [self.memory.turns.deadline_ns(), self.vidsch.nodes.deadline_ns()];
        let turns = turns.into_iter().filter(|_| self.life.is_awake()).flatten();
        [gives_way, timeouts, group].into_iter().flatten().chain(turns).min()
    }

    /// Time has come for what is done by the clock. `calls_wait`: as for [`Adapter::deadline_ns`].
    pub fn timer(&mut self, cx: &mut Cx<'_>, calls_wait: bool) {
        if self.life.is_awake() {
            self.memory.turns.time_has_passed();
            self.ask_for_trims(cx);
        }
        if self.life.keeps_time() {
            self.clear_the_way(cx, calls_wait);
            self.look_for_hangs(cx);
        }
    }

    /// Gives turns to suspended devices, tells of budgets, works ahead. After every turn of the machine.
    pub(super) fn take_turns(&mut self, cx: &mut Cx<'_>) {
        if !self.life.is_awake() {
            return;
        }
        if self.memory.turns.begin() {
            self.vidmm.forget_turn();
        }
        if self.vidmm.any_withholds() {
            self.list_withheld(cx);
        }
        // The next turn is decided when the last one has begun: else the decisions would run away from the hardware.
        while self.vidmm.any_suspended() && !self.memory.ring.turn_outstanding() {
            self.note_idle_devices(cx);
            match self.vidmm.next_to_resume_if_new(cx.now_ns) {
                NextResume::Resume(device) => self.give_turn(cx, device),
                NextResume::Withdraw(device) => {
                    let work = self.vidmm.withdraw_suspended(device);
                    self.queue_work(cx, ProcessId::SYSTEM, None, work, Vec::new());
                }
                NextResume::At(then) => {
                    self.memory.turns.decide_at(cx.now_ns, then);
                    break;
                }
                NextResume::NoDevice => {
                    self.memory.turns.decide_later(cx.now_ns);
                    break;
                }
            }
        }
        self.tell_budgets(cx);
        // Trims go to registrations, and for a reason that the memory manager has.
        let trims = self.memory.registrations.any(RegistrationKind::Trim) && self.vidmm.trim_pending();
        self.memory.turns.arm_trims(cx.now_ns, trims);
        self.work_ahead(cx);
        self.promote(cx);
    }

    /// Devices that withhold content list it again when their earlier work uses no other any more.
    // spec: memory §8.6
    fn list_withheld(&mut self, cx: &mut Cx<'_>) {
        for device in self.vidmm.withholding() {
            self.settle_postponed(cx, device);
            if let Some(work) = self.vidmm.list_withheld(device) {
                self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
            }
            if self.vidmm.withholds(device) {
                // No interrupt says when the device's work has got that far.
                self.memory.turns.decide_later(cx.now_ns);
            }
        }
    }

    /// Gives the copy engine what can be done ahead of need (memory §8.3). What an idle ring may do waits until it is idle. What the planner wants
    /// stands behind what was decided before, so behind the work of the list that was just made resident: it is copied while that operation runs.
    fn work_ahead(&mut self, cx: &mut Cx<'_>) {
        let (sync, memory) = (&self.sync, cx.memory);
        if self.memory.ring.is_idle()
            && let Some(work) = self.vidmm.idle_work(AHEAD_MAX.0, &|point| sync.is_past(memory, point))
        {
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        }
        if !self.vidmm.plans_ahead() {
            return;
        }
        for _ in 0..WORKS_MAX {
            if self.memory.turns.ahead_of(self.memory.ring.done()) >= UNFINISHED_MAX {
                return;
            }
            let (sync, memory) = (&self.sync, cx.memory);
            // A fence that has gone holds no work back.
            let Some(work) = self.vidmm.work_ahead(AHEAD_MAX.0, &|point| sync.is_past(memory, point)) else { return };
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
            self.memory.turns.works_ahead(self.memory.ring.queued());
        }
    }

    /// Lets content move to where it would rather be, while nothing else moves. Devices that list it are quiesced meanwhile, and go on at
    /// once; one that is never idle is quiesced when the content has waited long enough.
    // spec: memory §8.1
    fn promote(&mut self, cx: &mut Cx<'_>) {
        self.memory.turns.content_stays();
        if !self.vidmm.may_promote() {
            return;
        }
        if self.memory.ring.is_idle() {
            self.note_idle_devices(cx);
            self.vidmm.set_time(cx.now_ns);
            match self.vidmm.promote(AHEAD_MAX.0) {
                Promotion::Nothing => return,
                Promotion::Later => {}
                Promotion::Work(work) => {
                    self.queue_work(cx, ProcessId::SYSTEM, None, Some(*work), Vec::new());
                }
            }
        }
        // The ring does not say when it has nothing left to do, nor a doorbell when its work is over.
        self.memory.turns.promote_again(cx.now_ns);
    }

    /// Suspends devices whose content the work of this number needs; a device that is gone already needs no suspension. Answers with the
    /// points to wait for until they are quiesced.
    pub(super) fn suspend_for_residency(
        &mut self,
        cx: &mut Cx<'_>,
        work: PagingWorkNumber,
        devices: &[DeviceId],
    ) -> Vec<FencePoint<FenceId>> {
        let numbers: Vec<_> = devices.iter().filter_map(|device| self.owners.device_of(*device)).collect();
        let suspend = |number: DeviceNumber| {
            // The ring is built ahead of the hardware: a turn that was given behind an earlier suspension may not have begun.
            self.cancel_resume(number, work);
            self.suspend_device(cx, number, SuspendReasons::RESIDENCY)
        };
        numbers.into_iter().filter_map(suspend).collect()
    }

    /// Says which devices have nothing to run, and which of their last uses are over while they are quiesced. True when one
    /// has become idle.
    pub(super) fn note_idle_devices(&mut self, cx: &Cx<'_>) -> bool {
        if self.vidmm.plans_ahead() {
            // How long a device has nothing to run counts there.
            self.vidmm.set_time(cx.now_ns);
        }
        let mut changed = false;
        let devices: Vec<(DeviceNumber, DeviceId)> =
            self.owners.devices().map(|(number, _)| (number, self.owners.vidmm_of(number))).collect();
        for (number, vidmm) in devices {
            let idle = self.has_nothing_to_run(cx, number);
            changed |= idle;
            self.vidmm.set_device_idle(vidmm, idle);
            if self.brings_nothing_in(vidmm) {
                self.settle_postponed(cx, vidmm);
            }
        }
        changed
    }

    /// Takes off a quiesced device's list what it evicted and none of its queued work uses any more.
    // spec: memory §5.3
    pub(super) fn settle_postponed(&mut self, cx: &Cx<'_>, device: DeviceId) {
        let (sync, memory) = (&self.sync, cx.memory);
        // A fence that has gone holds no work back.
        self.vidmm.settle_postponed(device, |point| sync.is_past(memory, point));
    }

    fn has_nothing_to_run(&self, cx: &Cx<'_>, device: DeviceNumber) -> bool {
        !self.has_waiting_renders(device)
            && !self.has_promised(device)
            && !self.displays.want(device)
            && self.queues.of_device(device).all(|(_, queue)| {
                let last = self.doorbells.queued(cx.memory, queue.doorbell).unwrap_or(queue.feed.submitted());
                self.vidsch.queues.held(queue.vidsch) == 0 && last <= self.sync.current_value(cx.memory, queue.progress)
            })
            && self.packets.of_device(device).all(|context| {
                let known = &self.packets[context];
                self.vidsch.queues.held(known.vidsch) == 0
                    && self.packets.last_submitted(context) <= self.sync.current_value(cx.memory, known.progress)
            })
    }

    /// A device's content is back: it runs, at least for so long that bringing it back was worth it.
    pub(super) fn begin_turn(&mut self, cx: &mut Cx<'_>, number: DeviceNumber, decided_ns: u64) {
        if let Some(facts) = self.owners.facts_of(number) {
            let switch_ns = self.memory.ring.working_ns(cx.now_ns).saturating_sub(decided_ns);
            self.vidmm.turn_began(facts.vidmm, cx.now_ns, switch_ns);
        }
        self.resume_device(cx, number, SuspendReasons::RESIDENCY);
    }

    fn give_turn(&mut self, cx: &mut Cx<'_>, device: DeviceId) {
        let Some(number) = self.owners.device_of(device) else {
            unreachable!("a device that waits for its turn exists")
        };
        let process = self.owners.process_of(number);
        // PANIC: the plan was just made for the same state.
        let work = self.vidmm.resume(device).expect("it fits, as was just found");
        self.packets_turn_decided(number);
        self.queue_any(cx, process, work);
        self.keep_promises(cx, number);
        self.defer_resume(number, self.memory.ring.working_ns(cx.now_ns));
    }

    /// Sends periodic trims and trims to the budget to the registrations of devices.
    // spec: memory §5.4
    fn ask_for_trims(&mut self, cx: &mut Cx<'_>) {
        for request in self.vidmm.trim_requests(cx.now_ns) {
            let Some(number) = self.owners.device_of(request.device) else { continue };
            let mut flags = TrimFlags::empty();
            flags.set(TrimFlags::PERIODIC_TRIM, request.flags.periodic);
            flags.set(TrimFlags::RESTART_PERIODIC_TRIM, request.flags.restart_periodic);
            flags.set(TrimFlags::TRIM_TO_BUDGET, request.flags.to_budget);
            self.tally.trim_asked_for();
            cx.emit(
                self.index,
                Event::TrimRequested { device: number.raw(), flags: flags.bits(), bytes: request.bytes },
            );
            let kind = NotificationKind::Trim { flags, bytes_to_trim: request.bytes };
            self.notify(cx, number, RegistrationKind::Trim, kind);
        }
    }

    // spec: memory §5.5
    fn tell_budgets(&mut self, cx: &mut Cx<'_>) {
        if !self.memory.registrations.any(RegistrationKind::Budget) {
            return;
        }
        for change in self.vidmm.budget_changes() {
            let local = change.group == SegmentGroup::Local;
            let Some(process) = self.owners.process_in(change.space) else { continue };
            cx.emit(self.index, Event::BudgetChanged { process: process.0, local, bytes: change.budget_bytes });
            for device in self.devices_of_process(process) {
                let kind = NotificationKind::BudgetChanged { local, budget_bytes: change.budget_bytes };
                self.notify(cx, device, RegistrationKind::Budget, kind);
            }
        }
    }

    /// Notifies every registration of this kind on a device.
    fn notify(&self, cx: &mut Cx<'_>, device: DeviceNumber, kind: RegistrationKind, what: NotificationKind) {
        let process = self.owners.process_of(device);
        for registration in self.memory.registrations.handles_of(device, kind) {
            cx.effects.push(Effect::Notify { process, notification: Notification { registration, kind: what } });
        }
    }
}

/// How well a process on these terms is protected.
pub(super) fn priority_of(terms: Terms) -> ProcessPriority {
    match terms.class {
        0 | 1 => ProcessPriority::Background,
        2 | 3 => ProcessPriority::Normal,
        _ => ProcessPriority::Foreground,
    }
}
