//! The memory manager's use of time: devices that take turns because their lists do not fit together, trims, budgets that change, work
//! ahead while the copy engine is idle (memory §5.4, §5.5, §8.2, §8.6). `vidmm` decides; this file asks it at the right moments and has
//! it carried out.

use events::Event;
use gpu_fence::FenceId;
use kmt_calls::{NotificationKind, TrimFlags};
use vidmm::{DeviceId, NextResume, ProcessPriority, Promotion, SegmentGroup};
use vidsch::SuspendReasons;
use wddm_types::{FencePoint, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::notification::RegistrationKind;
use crate::object::{DeviceNumber, Terms};
use crate::owners::ProcessFacts;
use crate::store::ObjectNumber;

/// How often the kernel looks for changes that no call or interrupt tells of: a suspended device that got work by doorbell, a process
/// that is still over its budget.
const LOOK_AGAIN_NS: u64 = 20_000_000;
/// How often the kernel looks whether content can move to where it would rather be.
const PROMOTE_AGAIN_NS: u64 = 100_000_000;
/// Most pages of one work ahead: later work waits no longer than for these.
const AHEAD_MAX: Pages = Pages(4096);

/// When to look at each again.
#[derive(Default)]
pub struct Turns {
    /// When to decide the next turn.
    resume_ns: Option<u64>,
    /// When to ask for trims.
    trim_ns: Option<u64>,
    /// When content may next move to where it would rather be.
    promote_ns: Option<u64>,
    /// Nothing has happened in this turn of the machine but that time has passed.
    by_clock: bool,
}

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

    /// When [`Adapter::timer`] is to be called next.
    pub fn deadline_ns(&self) -> Option<u64> {
        if self.life.has_stopped() {
            return None;
        }
        let group = self.vidsch.timeouts.group_deadline_ns();
        if !self.life.is_awake() {
            return group;
        }
        let (timeouts, packets) = (self.vidsch.timeouts.deadline_ns(), self.vidsch.nodes.deadline_ns());
        [self.turns.resume_ns, self.turns.trim_ns, self.turns.promote_ns, timeouts, packets, group]
            .into_iter()
            .flatten()
            .min()
    }

    /// Time has come for what is done by the clock.
    pub fn timer(&mut self, cx: &mut Cx<'_>) {
        if self.life.is_awake() {
            self.turns.by_clock = true;
            self.ask_for_trims(cx);
            self.look_for_hangs(cx);
        }
    }

    /// Gives turns to suspended devices, tells of budgets, works ahead. After every turn of the machine.
    pub fn take_turns(&mut self, cx: &mut Cx<'_>) {
        if !self.life.is_awake() {
            return;
        }
        if !std::mem::take(&mut self.turns.by_clock) {
            self.vidmm.forget_turn();
        }
        self.turns.resume_ns = None;
        // The next turn is decided when the last one has begun: else the decisions would run away from the hardware.
        while self.vidmm.any_suspended() && !self.turn_outstanding() {
            self.note_idle_devices(cx);
            match self.vidmm.next_to_resume_if_new(cx.now_ns) {
                NextResume::Resume(device) => self.give_turn(cx, device),
                NextResume::Withdraw(device) => {
                    let work = self.vidmm.withdraw_suspended(device);
                    self.queue_work(cx, ProcessId::SYSTEM, None, work, Vec::new());
                }
                NextResume::At(then) => {
                    self.turns.resume_ns = Some(then.min(cx.now_ns + LOOK_AGAIN_NS).max(cx.now_ns + 1));
                    break;
                }
                NextResume::NoDevice => {
                    self.turns.resume_ns = Some(cx.now_ns + LOOK_AGAIN_NS);
                    break;
                }
            }
        }
        self.tell_budgets(cx);
        self.arm_trims(cx);
        if self.ring.is_idle()
            && let Some(work) = self.vidmm.idle_work(AHEAD_MAX.0)
        {
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        }
        self.promote(cx);
    }

    /// Lets content move to where it would rather be, while nothing else moves. Devices that list it are quiesced meanwhile, and go on at
    /// once; one that is never idle is quiesced when the content has waited long enough.
    // spec: memory §8.1
    fn promote(&mut self, cx: &mut Cx<'_>) {
        self.turns.promote_ns = None;
        if !self.vidmm.may_promote() {
            return;
        }
        if self.ring.is_idle() {
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
        self.turns.promote_ns = Some(cx.now_ns + PROMOTE_AGAIN_NS);
    }

    /// Suspends devices whose content the work of this number needs; a device that is gone already needs no suspension. Answers with the
    /// points to wait for until they are quiesced.
    pub fn suspend_for_residency(
        &mut self,
        cx: &mut Cx<'_>,
        work: u64,
        devices: &[DeviceId],
    ) -> Vec<FencePoint<FenceId>> {
        let numbers: Vec<_> = devices.iter().filter_map(|device| self.device_number(*device)).collect();
        let suspend = |number: DeviceNumber| {
            // The ring is built ahead of the hardware: a turn that was given behind an earlier suspension may not have begun.
            self.cancel_resume(number, work);
            self.suspend_device(cx, number, SuspendReasons::RESIDENCY)
        };
        numbers.into_iter().filter_map(suspend).collect()
    }

    /// Says which devices have nothing to run, and which of their last uses are over while they are quiesced. True when one
    /// has become idle.
    pub fn note_idle_devices(&mut self, cx: &Cx<'_>) -> bool {
        let mut changed = false;
        let devices: Vec<(DeviceNumber, DeviceId)> =
            self.owners.devices().map(|(number, _)| (number, self.owners.vidmm_of(number))).collect();
        for (number, vidmm) in devices {
            let idle = self.has_nothing_to_run(cx, number);
            changed |= idle;
            self.vidmm.set_device_idle(vidmm, idle);
            if self.vidmm.is_suspended(vidmm) {
                let (sync, memory) = (&self.sync, cx.memory);
                // A fence that has gone holds no work back.
                self.vidmm.settle_postponed(vidmm, |point| sync.is_past(memory, point));
            }
        }
        changed
    }

    fn has_nothing_to_run(&self, cx: &Cx<'_>, device: DeviceNumber) -> bool {
        !self.has_waiting_renders(device)
            && !self.has_promised(device)
            && !self.displays.want(device)
            && self.devices[device].queues.iter().map(|number| &self.queues[*number]).all(|queue| {
                let last = self.doorbells.queued(cx.memory, queue.doorbell).unwrap_or(queue.feed.submitted());
                self.vidsch.queues.held(queue.vidsch) == 0 && last <= self.sync.current_value(cx.memory, queue.progress)
            })
            && self.devices[device].packet_contexts.iter().all(|context| {
                let known = &self.packets[*context];
                self.vidsch.queues.held(known.vidsch) == 0
                    && self.packets.last_submitted(*context) <= self.sync.current_value(cx.memory, known.progress)
            })
    }

    /// A device's content is back: it runs, at least for so long that bringing it back was worth it.
    pub fn begin_turn(&mut self, cx: &mut Cx<'_>, number: DeviceNumber, decided_ns: u64) {
        if let Some(facts) = self.owners.facts_of(number) {
            let switch_ns = cx.now_ns.saturating_sub(decided_ns);
            self.vidmm.turn_began(facts.vidmm, cx.now_ns, switch_ns);
        }
        self.resume_device(cx, number, SuspendReasons::RESIDENCY);
    }

    fn give_turn(&mut self, cx: &mut Cx<'_>, device: DeviceId) {
        let Some(number) = self.device_number(device) else { unreachable!("a device that waits for its turn exists") };
        let process = self.owners.process_of(number);
        // PANIC: the plan was just made for the same state.
        let work = self.vidmm.resume(device).expect("it fits, as was just found");
        self.packets_turn_decided(number);
        self.queue_any(cx, process, work);
        self.keep_promises(cx, number);
        self.defer_resume(number, cx.now_ns);
    }

    /// Sends periodic trims and trims to the budget to the registrations of devices.
    // spec: memory §5.4
    fn ask_for_trims(&mut self, cx: &mut Cx<'_>) {
        for request in self.vidmm.trim_requests(cx.now_ns) {
            let Some(number) = self.device_number(request.device) else { continue };
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

    /// Arms the trims while a device is registered for them and there is a reason.
    fn arm_trims(&mut self, cx: &mut Cx<'_>) {
        let listens = self.registrations.any(RegistrationKind::Trim);
        if !listens || !self.vidmm.trim_pending() {
            self.turns.trim_ns = None;
        } else if self.turns.trim_ns.is_none_or(|at| at <= cx.now_ns) {
            self.turns.trim_ns = Some(cx.now_ns + LOOK_AGAIN_NS);
        }
    }

    // spec: memory §5.5
    fn tell_budgets(&mut self, cx: &mut Cx<'_>) {
        if !self.registrations.any(RegistrationKind::Budget) {
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

    fn device_number(&self, device: DeviceId) -> Option<DeviceNumber> {
        self.owners.device_of(device)
    }
}

/// How well a process on these terms is protected.
pub fn priority_of(terms: Terms) -> ProcessPriority {
    match terms.class {
        0 | 1 => ProcessPriority::Background,
        2 | 3 => ProcessPriority::Normal,
        _ => ProcessPriority::Foreground,
    }
}
