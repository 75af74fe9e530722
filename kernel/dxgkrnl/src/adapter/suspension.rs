//! Quiesced devices, as drivers and waiters see it (sync §4.1, memory §8.6); `vidsch::Suspensions` has the rules, and their drawing. The
//! code that needs a device quiesced (memory it loses, page tables that change, power) says why, and gets a point of the kernel's own
//! fence after which nothing executes for it. Other modules decide whether a device must quiesce.
//!
//! Here the driver is asked to suspend and resume contexts, its acknowledgements are measured, and the fence is signalled. So paging work
//! that stands behind a suspension waits for it like for any other point, and the ring stays one queue.

use std::collections::BTreeSet;

use ddi::{OsContext, SuspendStatus};
use events::Event;
use gpu_fence::FenceId;
use vidmm::{AllocationId, UsedContent};
use vidsch::{NeverAsked, QueueId, QueueState, Suspend, SuspendReasons, SuspensionNumber};
use wddm_types::{FencePoint, ProcessId};

use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::due::{DriverRefusal, RefusedWork, Verdict};
use crate::effect::Cx;
use crate::number::{ContextNumber, DeviceNumber, PagingWorkNumber};
use crate::queue::Context;
use crate::scheduling::{Leaving, Suspendable};
use crate::store::ObjectNumber;
use crate::sync::WaitsOf;

impl Adapter {
    /// Whether a device is kept off the hardware: it executes nothing, or is asked to leave.
    pub(super) fn is_suspended(&self, device: DeviceNumber) -> bool {
        self.vidsch.suspensions.is_suspended(Suspendable::Device(device))
    }

    /// Takes a device's contexts off the hardware. Answers with the point after which nothing executes for it; `None` when that holds
    /// now. Work that it is given meanwhile is kept.
    // spec: sync §4.1, memory §8.6
    pub(super) fn suspend_device(
        &mut self,
        cx: &mut Cx<'_>,
        number: DeviceNumber,
        reason: SuspendReasons,
    ) -> Option<FencePoint<FenceId>> {
        let device = Suspendable::Device(number);
        if !self.owners.is_active(number) || self.life.has_stopped() {
            self.vidsch.suspensions.quiesce(device, reason);
            return self.vidsch.suspensions.point_of(device);
        }
        let value = match self.vidsch.suspensions.suspend(device, reason) {
            Suspend::AlreadyQuiesced => return None,
            Suspend::Pending(point) => return Some(point),
            Suspend::Issue(value) => value,
        };
        let made = self.need_suspension_fence(cx);
        self.heed(cx, made)?;
        cx.emit(self.index, Event::DeviceSuspended { device: number.raw(), reasons: reason.bits() });
        let mut waiting = self.suspend_contexts(cx, number, value);
        waiting.extend(self.packets_running(number));
        let no_timeout = self.queues.of_device(number).any(|(_, queue)| queue.no_timeout)
            || self.packets.of_device(number).any(|context| self.packets[context].no_timeout);
        self.vidsch.suspensions.issued(value, device, waiting, no_timeout);
        self.advance_suspensions(cx);
        self.vidsch.suspensions.point_of(device)
    }

    /// Has the driver suspend the hardware contexts of a device. Answers with those that acknowledge later.
    fn suspend_contexts(&mut self, cx: &Cx<'_>, device: DeviceNumber, value: SuspensionNumber) -> BTreeSet<Leaving> {
        let mut waiting = BTreeSet::new();
        for context in self.queues.contexts_of(device).collect::<Vec<_>>() {
            for queue in &self.queues[context].queues {
                self.vidsch.queues.suspend(self.queues[*queue].vidsch);
            }
            if self.suspend_context(cx, context, value) == SuspendStatus::Pending {
                waiting.insert(Leaving::Hardware(context));
            }
        }
        waiting
    }

    /// Has the driver suspend a hardware context. One that it refuses counts as pending until the refusal is judged.
    fn suspend_context(&mut self, cx: &Cx<'_>, context: ContextNumber, value: SuspensionNumber) -> SuspendStatus {
        let Context { kmd, node, device, .. } = self.queues[context];
        let hardware = self.driver.call(cx).hardware_queues().expect("checked at adapter start");
        hardware.suspend_context(kmd, value.raw()).unwrap_or_else(|status| {
            let verdict = Verdict::Stop(format!("SuspendContext failed: {status}"));
            let work = RefusedWork::Suspension(context, value);
            self.due.refused(DriverRefusal::new(work, Some(device), [node], verdict));
            SuspendStatus::Pending
        })
    }

    /// The fault of another device explains that the driver refused this.
    pub(super) fn suspend_context_again(&mut self, cx: &mut Cx<'_>, number: ContextNumber, value: SuspensionNumber) {
        let Some(context) = self.queues.context(number) else { return };
        if self.is_suspended(context.device) && self.suspend_context(cx, number, value) == SuspendStatus::Suspended {
            self.forget_suspension(cx, Leaving::Hardware(number));
        }
    }

    /// Makes the fence of suspensions before the first one needs it.
    ///
    /// # Errors
    /// There is none, and the adapter cannot go on without it.
    pub(super) fn need_suspension_fence(&mut self, cx: &mut Cx<'_>) -> Result<(), Breach> {
        if self.vidsch.suspensions.has_fence() {
            return Ok(());
        }
        let fence = self
            .create_fence(cx, None, ProcessId::SYSTEM, 0)
            .map_err(|refusal| Breach(format!("no fence for suspensions: {}", refusal.reason)))?;
        let named = self.sync.fence(fence).waits;
        self.vidsch.suspensions.signal_on(named);
        Ok(())
    }

    /// Takes a reason away; with the last one the contexts go on. Paging work that needed the device quiesced must have completed.
    pub(super) fn resume_device(&mut self, cx: &mut Cx<'_>, number: DeviceNumber, reason: SuspendReasons) {
        if self.owners.facts_of(number).is_some() && reason == SuspendReasons::RESIDENCY {
            self.packets_turn_over(number, true);
        }
        let goes_on = self.vidsch.suspensions.resume(Suspendable::Device(number), reason);
        if !goes_on || !self.owners.is_active(number) || self.life.has_stopped() {
            return;
        }
        cx.emit(self.index, Event::DeviceResumed { device: number.raw() });
        self.forget_suspension_of(cx, number);
        for context in self.queues.contexts_of(number).collect::<Vec<_>>() {
            let kmd = self.queues[context].kmd;
            self.driver.call(cx).hardware_queues().expect("checked at adapter start").resume_context(kmd);
            for queue in self.queues[context].queues.clone() {
                self.vidsch.queues.resume(self.queues[queue].vidsch);
                self.pump_queue(cx, queue);
            }
        }
    }

    /// Suspends a context that is created on a quiesced device. A refusal is judged as one of the device's work: the fault of another device
    /// may explain it.
    pub(super) fn suspend_newcomer(&mut self, cx: &Cx<'_>, number: ContextNumber) {
        let Context { kmd, node, device, .. } = self.queues[number];
        if !self.is_suspended(device) {
            return;
        }
        let hardware = self.driver.call(cx).hardware_queues().expect("checked at adapter start");
        let value = self.vidsch.suspensions.last_number();
        // It has no queue yet, so there is nothing to wait for.
        if let Err(status) = hardware.suspend_context(kmd, value.raw()) {
            let verdict = Verdict::Lose(format!("SuspendContext failed for a new context: {status}"));
            self.due.refused(DriverRefusal::new(RefusedWork::Suspension(number, value), Some(device), [node], verdict));
        }
    }

    /// The driver acknowledges the suspension that it was asked for with this value.
    // spec: sync §4.1
    pub(super) fn context_suspended(
        &mut self,
        cx: &mut Cx<'_>,
        OsContext(context): OsContext,
        value: u64,
    ) -> Result<(), Breach> {
        if context >= self.queues.next_context().raw() {
            return Err(Breach(format!("a suspension of context {context} was acknowledged; there never was one")));
        }
        // Its driver knows the ring as the context 0.
        let left = if context == 0 { Leaving::Ring } else { Leaving::Hardware(ContextNumber::from_raw(context)) };
        if let Err(NeverAsked) = self.vidsch.suspensions.acknowledged(left, value) {
            // Bug check 0x119, parameter 0x11.
            return Err(Breach(format!("suspension {value} was acknowledged and never asked for")));
        }
        self.advance_suspensions(cx);
        self.resume_suspended_by_timeout(cx);
        Ok(())
    }

    /// A context has gone: no suspension waits for it any more.
    pub(super) fn forget_suspension(&mut self, cx: &mut Cx<'_>, context: Leaving) {
        self.vidsch.suspensions.forget(context);
        self.advance_suspensions(cx);
        self.resume_suspended_by_timeout(cx);
    }

    /// A device is lost or goes on: no suspension waits for its contexts any more.
    pub(super) fn forget_suspension_of(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        self.vidsch.suspensions.forget_device(Suspendable::Device(device));
        self.advance_suspensions(cx);
    }

    /// Signals what is acknowledged.
    pub(super) fn advance_suspensions(&mut self, cx: &mut Cx<'_>) {
        if let Some(point) = self.vidsch.suspensions.take_reached() {
            self.signal_fence(cx, self.sync.number_of(point.fence), point.value);
        }
    }
}

/// Devices that give way: the ring has waited for their uses for as long as it may, and another process waits for the ring. A use may stand
/// behind a fence that its own client alone signals, or run without end, and no other process waits for that client.
impl Adapter {
    /// When devices give way whose uses hold the ring; `None`: none does. `calls_wait`: calls wait until adapters have less paging work outstanding.
    pub(super) fn gives_way_ns(&self, calls_wait: bool) -> Option<u64> {
        // Most turns find the ring so.
        if !self.memory.ring.waits_for_any_use() {
            return None;
        }
        let processes = self.owners.processes().filter(|(process, _)| *process != ProcessId::SYSTEM);
        // The computer waits for a sleep, also where there is one process.
        let is_alone = self.life.is_awake() && processes.take(2).count() < 2;
        // A turn stands behind one that the ring has not begun.
        let in_line = self.vidmm.line().filter_map(|device| self.owners.device_of(device));
        let packets = self.packet_needs().map(|(device, _)| device);
        let done = self.memory.ring.done();
        let values = self.memory.paging_queues.first_kept_of_each().filter(|(_, work)| work.raw() > done);
        let devices = in_line.chain(packets).chain(values.map(|(device, _)| device));
        let devices = devices.chain(self.memory.ring.waiting_devices());
        let beside = devices.filter_map(|device| Some(self.owners.facts_of(device)?.process));
        // Works of the kernel, answers and displays are for any process, or for the one that there is.
        let any = || {
            let any = calls_wait || self.memory.ring.has_waiters() || self.display_need().is_some();
            any.then_some(ProcessId::SYSTEM)
        };
        let waiting = self.memory.ring.held_processes().chain(beside).chain(std::iter::once_with(any).flatten());
        self.memory.ring.gives_way_ns(waiting.filter(|process| !is_alone || *process != ProcessId::SYSTEM))
    }

    /// Has the devices give way whose uses hold the ring, if it is time.
    // spec: memory §8.6, memory §10.1
    pub(super) fn clear_the_way(&mut self, cx: &mut Cx<'_>, calls_wait: bool) {
        let Some(vidsch) = self.memory.ring.queue_id() else { return };
        let due = self.gives_way_ns(calls_wait).is_some_and(|at| at <= cx.now_ns);
        if !due || self.vidsch.queues.state(vidsch) != QueueState::Waiting {
            return;
        }
        let points = self.sync.live_points(self.memory.ring.uses().to_vec());
        let points = self.unreached(cx, points);
        let ran_ns = self.running_ns_of(cx, &points);
        if self.memory.ring.waits_for_running(cx.now_ns, ran_ns) {
            return;
        }
        let devices: BTreeSet<DeviceNumber> = points.iter().filter_map(|point| self.device_of_use(point)).collect();
        let mut quiet = Vec::new();
        let mut gone = BTreeSet::new();
        for device in devices {
            if self.give_way(cx, vidsch, device) {
                gone.insert(device);
                quiet.extend(self.suspend_device(cx, device, SuspendReasons::RESIDENCY));
            }
        }
        if gone.is_empty() {
            return self.memory.ring.way_refused();
        }
        let left = points.into_iter().filter(|point| self.device_of_use(point).is_none_or(|of| !gone.contains(&of)));
        let left: Vec<FencePoint<FenceId>> = left.collect();
        self.end_idle_waits(cx, WaitsOf::Ring);
        self.memory.ring.is_watched(false);
        self.memory.ring.way_given(cx.now_ns);
        self.wait_for_uses(cx, vidsch, left);
        self.wait_for_suspensions(cx, vidsch, &quiet);
        self.pump_paging(cx);
    }

    /// Takes a device's uses out of the ring's way: the memory manager lets it stand in line, and gives its content back with its turn. False:
    /// it cannot.
    fn give_way(&mut self, cx: &mut Cx<'_>, vidsch: QueueId, device: DeviceNumber) -> bool {
        let Ok(points) = self.queued_work(cx, device) else { return false };
        let portions = self.packets.of_device(device).filter_map(|context| self.packets[context].portions);
        let fences = points.iter().map(|point| self.sync.number_of(point.fence)).chain(portions);
        let reached: Vec<FencePoint<FenceId>> =
            fences.map(|fence| self.sync.point(fence, self.sync.current_value(cx.memory, fence))).collect();
        let is_of = |point: &FencePoint<FenceId>| {
            reached.iter().any(|reached| reached.fence == point.fence && reached.value < point.value)
        };
        let used: Vec<(u64, &UsedContent<FenceId>)> = self.memory.ring.used_content().collect();
        let of_device = used.iter().filter(|(_, used)| used.until.iter().any(is_of));
        let saved: BTreeSet<AllocationId> = of_device.map(|(_, used)| used.allocation).collect();
        let owner = self.owners.vidmm_of(device);
        if !self.vidmm.give_way(owner, is_of, &used) {
            return false;
        }
        if self.vidmm.withholds(owner) {
            self.withhold_values(device);
            self.packets_withheld(device);
        }
        let drops = self.memory.ring.used_content().filter(|(_, used)| used.drops_content());
        let dropped: BTreeSet<AllocationId> = drops.map(|(_, used)| used.allocation).collect();
        for &id in saved.intersection(&dropped) {
            let _ = self.backing_used(cx, id);
        }
        let vidmm = &mut self.vidmm;
        self.memory.ring.save_first(is_of, |used| vidmm.rescue(used));
        self.vidsch.queues.wait_no_more(vidsch, is_of);
        // A turn that is on its way behind these works would let it run without its content.
        let next = PagingWorkNumber::from_raw(self.memory.ring.queued() + 1);
        self.cancel_resume(device, next);
        true
    }

    /// How long the hardware has run the work that ends with these points. It grows while a packet context has its node.
    pub(super) fn running_ns_of(&mut self, cx: &Cx<'_>, points: &[FencePoint<FenceId>]) -> u64 {
        let of: Vec<_> = points.iter().filter_map(|point| self.sync.number_if_there(point.fence)).collect();
        let queues = self.queues.iter().filter(|(_, queue)| of.contains(&queue.progress));
        let queues: Vec<_> = queues.map(|(_, queue)| queue.kmd).collect();
        let counted = queues.into_iter().filter_map(|queue| self.hardware_count(cx, queue)).sum::<u64>();
        let contexts = self.packets.contexts().filter(|(_, known)| known.fences().any(|fence| of.contains(&fence)));
        let runs = |node, context| self.vidsch.nodes.holder(node) == Some(context);
        let running = contexts.filter(|(context, known)| runs(known.node, *context)).count() as u64;
        counted + running * cx.now_ns
    }

    /// The device whose queued work ends with a point; `None`: the kernel's own, or it has gone.
    pub(super) fn device_of_use(&self, point: &FencePoint<FenceId>) -> Option<DeviceNumber> {
        let fence = self.sync.number_if_there(point.fence)?;
        let queue = self.queues.iter().find(|(_, queue)| queue.progress == fence);
        let of_queue = queue.map(|(_, queue)| self.queues[queue.context].device);
        let packets = || self.packets.contexts().find(|(_, known)| known.fences().any(|known| known == fence));
        of_queue.or_else(|| packets().map(|(_, known)| known.device))
    }
}
