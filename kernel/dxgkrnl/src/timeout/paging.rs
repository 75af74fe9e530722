//! Paging work without progress. The kernel watches it as all work: after the delay it takes the ring off the engine, by suspending a
//! hardware queue or by preempting packets. A ring that does not leave is hung, its engine is reset, and because that loses paging work,
//! so is the adapter (sync §4.4).
//!
//! A ring never waits on the hardware: its waits are over before it is handed over. The kernel leaves a ring alone that has left the
//! engine and makes no progress all the same, until a process calls: its buffer is long, or its driver reports work that it does not do.

use ddi::SuspendStatus;
use events::PreemptedFor;
use vidsch::{Suspend, SuspendReasons, SuspensionNumber};

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::suspension::{Leaving, Suspendable};
use crate::timeout::Hung;

/// The state of the watch over the ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingWatch {
    /// The progress at which it stands, and how long it has.
    reached: Option<u64>,
    still_ns: u64,
    asked: Asked,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    No,
    /// It has not left the engine yet.
    Waits {
        /// For so long, as the looks count it; of a hardware queue the suspension itself is watched.
        ns: u64,
    },
    /// It has left the engine, and made no progress since.
    InVain,
}

impl RingWatch {
    /// A process has called: the kernel may repeat a request that was in vain.
    pub fn begins_anew(&mut self) {
        if self.asked == Asked::InVain {
            *self = RingWatch::default();
        }
    }
}

impl Adapter {
    /// Whether the kernel is to look at the ring.
    pub(super) fn is_ring_watched(&self) -> bool {
        self.timeouts.ring.asked != Asked::InVain && self.ring_runs().is_some()
    }

    /// The progress of a ring that has the hardware to itself.
    // spec: sync §4.4
    fn ring_runs(&self) -> Option<u64> {
        let (reached, _) = self.ring_reach().filter(|(reached, last)| reached < last)?;
        let node = self.driver.paging_node();
        (self.ring.kmd_queue().is_some() || self.is_paging_in_front(node)).then_some(reached)
    }

    pub(super) fn look_at_ring(&mut self, cx: &mut Cx<'_>, passed_ns: u64, delay_ns: u64) {
        // While its engine is about to be reset the ring is suspended, or asked to be.
        if self.timeouts.is_preparing(self.paging_node().0.into()) {
            return;
        }
        let reached = self.ring_runs();
        if reached.is_none() || reached != self.timeouts.ring.reached {
            // The answer to what was asked still counts for the next one.
            let asked = match self.timeouts.ring.asked {
                Asked::Waits { ns } if self.ring_owes_answer() => Asked::Waits { ns },
                _ => Asked::No,
            };
            self.timeouts.ring = RingWatch { reached, still_ns: 0, asked };
            return;
        }
        self.timeouts.ring.still_ns += passed_ns;
        match self.timeouts.ring.asked {
            Asked::No if self.timeouts.ring.still_ns >= delay_ns => self.ask_ring(cx),
            Asked::Waits { ns } if self.ring_owes_answer() => {
                self.timeouts.ring.asked = Asked::Waits { ns: ns + passed_ns };
                if self.ring.kmd_queue().is_none() && ns + passed_ns >= delay_ns {
                    self.timeouts.ring.asked = Asked::InVain;
                    self.engine_hung(cx, self.driver.paging_node(), Hung::Packets);
                }
            }
            Asked::Waits { .. } => self.timeouts.ring.asked = Asked::InVain,
            Asked::No | Asked::InVain => {}
        }
    }

    /// Whether the ring was asked to leave the engine and has not said that it has.
    fn ring_owes_answer(&self) -> bool {
        match self.ring.kmd_queue() {
            Some(_) => self.vidsch.suspensions.awaits(Suspendable::Ring),
            None => self.owes_preemption(self.driver.paging_node()),
        }
    }

    fn ask_ring(&mut self, cx: &mut Cx<'_>) {
        self.timeouts.ring.asked = Asked::Waits { ns: 0 };
        if self.ring.kmd_queue().is_none() {
            self.preempt_for(cx, self.driver.paging_node(), PreemptedFor::Timeout);
            return;
        }
        self.take_ring_off(cx);
    }

    /// Has a ring with a hardware queue leave the hardware, unless it is asked to already.
    pub(super) fn take_ring_off(&mut self, cx: &mut Cx<'_>) {
        let Suspend::Issue(number) = self.vidsch.suspensions.suspend(Suspendable::Ring, SuspendReasons::TIMEOUT) else {
            return;
        };
        let Some(status) = self.suspend_ring(cx, number) else {
            self.vidsch.suspensions.drop_reasons(Suspendable::Ring);
            return;
        };
        let waits = (status == SuspendStatus::Pending).then_some(Leaving::Ring);
        self.vidsch.suspensions.issued(number, Suspendable::Ring, waits.into_iter().collect(), false);
        self.advance_suspensions(cx);
        self.resume_ring();
    }

    /// Asks the driver for that; `None`: the adapter stops.
    fn suspend_ring(&mut self, cx: &mut Cx<'_>, number: SuspensionNumber) -> Option<SuspendStatus> {
        self.need_suspension_fence(cx)?;
        let hardware = self.driver.hardware_queues().expect("the ring has a hardware queue");
        match hardware.suspend_context(self.ring.context, number.raw()) {
            Ok(status) => Some(status),
            Err(status) => {
                self.stop(cx, format!("SuspendContext of the paging context failed: {status}"));
                None
            }
        }
    }

    /// A ring that was asked and has left the hardware goes on.
    pub(super) fn resume_ring(&mut self) {
        let kept = self.timeouts.is_preparing(self.paging_node().0.into())
            || self.vidsch.suspensions.awaits(Suspendable::Ring);
        if kept || !self.vidsch.suspensions.resume(Suspendable::Ring, SuspendReasons::TIMEOUT) {
            return;
        }
        let context = self.ring.context;
        if let Some(hardware) = self.driver.hardware_queues() {
            hardware.resume_context(context);
        }
    }

    /// The ring has not left the hardware in time.
    // spec: sync §4.1, sync §4.4
    pub(super) fn ring_hung(&mut self, cx: &mut Cx<'_>) {
        let node = self.driver.paging_node();
        if self.stopped.is_none() && self.vidsch.suspensions.awaits(Suspendable::Ring) {
            self.engine_hung(cx, node, Hung::Context(Leaving::Ring));
        }
    }

    /// The ring begins anew: the kernel drops the requests to the old one.
    pub fn ring_unwatched(&mut self, cx: &mut Cx<'_>) {
        self.timeouts.ring = RingWatch::default();
        self.vidsch.suspensions.drop_reasons(Suspendable::Ring);
        self.forget_suspension(cx, Leaving::Ring);
    }
}
