//! Paging work without progress (sync §4.4); `vidsch::Timeouts` has the rule. The kernel takes the ring off the engine by suspending a
//! hardware queue or by preempting packets. A ring that does not leave is hung, its engine is reset, and because that loses paging work,
//! so is the adapter.

use ddi::SuspendStatus;
use events::PreemptedFor;
use vidsch::{Hung, Passed, RingStep, Suspend, SuspendReasons, SuspensionNumber};

use crate::adapter::Adapter;
use crate::due::{DriverRefusal, RefusedWork, Verdict};
use crate::effect::Cx;
use crate::scheduling::{Leaving, Suspendable};

impl Adapter {
    /// The progress of a ring that has the hardware to itself.
    // spec: sync §4.4
    pub(super) fn ring_runs(&self, cx: &Cx<'_>) -> Option<u64> {
        let (reached, _) = self.ring_reach(cx).filter(|(reached, last)| reached < last)?;
        let node = self.driver.paging_node();
        (self.memory.ring.kmd_queue().is_some() || self.is_paging_in_front(node)).then_some(reached)
    }

    /// Looks at the ring. While its engine is about to be reset it is suspended, or asked to be.
    pub(super) fn look_at_ring(&mut self, cx: &mut Cx<'_>, passed: Passed) {
        let node = self.driver.paging_node();
        if self.vidsch.timeouts.is_preparing(node) {
            return;
        }
        let (reached, owes_answer) = (self.ring_runs(cx), self.ring_owes_answer());
        let by_packets = self.memory.ring.kmd_queue().is_none();
        match self.vidsch.timeouts.ring(passed, reached, owes_answer, by_packets) {
            RingStep::Nothing => {}
            RingStep::TakeOff => self.take_ring_off(cx),
            RingStep::Preempt => self.preempt_for(cx, node, PreemptedFor::Timeout),
            RingStep::Hung => self.engine_hung(cx, node, Hung::Packets),
        }
    }

    /// Whether the ring was asked to leave the engine and has not said that it has.
    fn ring_owes_answer(&self) -> bool {
        match self.memory.ring.kmd_queue() {
            Some(_) => self.vidsch.suspensions.awaits(Suspendable::Ring),
            None => self.owes_preemption(self.driver.paging_node()),
        }
    }

    /// Has a ring with a hardware queue leave the hardware, unless it is asked to already.
    pub(super) fn take_ring_off(&mut self, cx: &mut Cx<'_>) {
        let Suspend::Issue(number) = self.vidsch.suspensions.suspend(Suspendable::Ring, SuspendReasons::TIMEOUT) else {
            return;
        };
        let made = self.need_suspension_fence(cx);
        if self.heed(cx, made).is_none() {
            self.vidsch.suspensions.drop_reasons(Suspendable::Ring);
            return;
        }
        let status = self.suspend_ring(cx, number);
        let waits = (status == SuspendStatus::Pending).then_some(Leaving::Ring);
        self.vidsch.suspensions.issued(number, Suspendable::Ring, waits.into_iter().collect(), false);
        self.advance_suspensions(cx);
        self.resume_ring(cx);
    }

    /// Asks the driver for that. A suspension that it refuses counts as pending until the refusal is judged.
    fn suspend_ring(&mut self, cx: &Cx<'_>, number: SuspensionNumber) -> SuspendStatus {
        let hardware = self.driver.call(cx).hardware_queues().expect("the ring has a hardware queue");
        hardware.suspend_context(self.memory.ring.context(), number.raw()).unwrap_or_else(|status| {
            let verdict = Verdict::Stop(format!("SuspendContext of the paging context failed: {status}"));
            self.due.refused(DriverRefusal::new(RefusedWork::Paging, None, [], verdict));
            SuspendStatus::Pending
        })
    }

    /// A ring that was asked and has left the hardware goes on.
    pub(super) fn resume_ring(&mut self, cx: &Cx<'_>) {
        let kept = self.vidsch.timeouts.is_preparing(self.driver.paging_node())
            || self.vidsch.suspensions.awaits(Suspendable::Ring);
        if kept || !self.vidsch.suspensions.resume(Suspendable::Ring, SuspendReasons::TIMEOUT) {
            return;
        }
        let context = self.memory.ring.context();
        if let Some(hardware) = self.driver.call(cx).hardware_queues() {
            hardware.resume_context(context);
        }
    }

    /// The ring has not left the hardware in time.
    // spec: sync §4.1, sync §4.4
    pub(super) fn ring_hung(&mut self, cx: &mut Cx<'_>) {
        let node = self.driver.paging_node();
        if !self.life.has_stopped() && self.vidsch.suspensions.awaits(Suspendable::Ring) {
            self.engine_hung(cx, node, Hung::Context(Leaving::Ring));
        }
    }

    /// The ring begins anew: the old one is not waited for.
    pub(in crate::adapter) fn ring_unwatched(&mut self, cx: &mut Cx<'_>) {
        self.vidsch.suspensions.drop_reasons(Suspendable::Ring);
        self.forget_suspension(cx, Leaving::Ring);
    }
}
