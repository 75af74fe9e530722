//! Turns by forecast: processes whose lists fit together, while the content that they use in a turn does not (policy,
//! [`Eviction::Planner`](crate::Eviction)).
//!
//! A list names what one operation needs. Where two processes' operations alternate and only one of the processes fits, each operation takes what the
//! other process needs next, and copies are all that happens. So one process has its *turn*, and a list of another one suspends its device
//! (memory §8.6): it stands in the line, first in, first out, and the machinery of turns brings it back when the turn is over, when
//! the holder has nothing left to run, or when both fit.
//!
//! What holds: only a process that fits alone takes turns, and only with one that fits alone; a holder that is idle, suspended or gone holds up
//! no process; the planner never says who is next, the line does. A turn lasts some times as long as bringing all of the process's
//! content, so most of the time goes into work, and at most a fixed number of quanta beyond what its list alone is worth. Its end is set when
//! it begins: no device that the process makes or resumes meanwhile moves it.

use foresight::{Event, Turn};

use crate::paging::Batch;
use crate::slab::{DeviceId, Key as _, SpaceId};
use crate::vidmm::VidMm;

impl<F: Copy + Eq> VidMm<F> {
    /// Whether a running device's list has to wait for its process's turn.
    pub(crate) fn stands_back(&self, device: DeviceId) -> bool {
        self.takes_turns() && self.holder_beside(self.devices[device].space()).is_some()
    }

    /// A running device's list was taken, and did not stand back: its process has its turn from now on, unless one that has something to run
    /// has it already.
    pub(crate) fn claim_turn(&mut self, device: DeviceId) {
        let then = self.busy_since_ns();
        let is_busy = |holder| self.devices.busy_of(holder, then).next().is_some();
        if self.takes_turns() && !self.devices.holder().is_some_and(is_busy) {
            self.give_turn(self.devices[device].space(), false);
        }
    }

    /// When the turn ends that a suspended device has to wait for; `None`: it waits for none.
    pub(crate) fn turn_before(&self, device: DeviceId) -> Option<u64> {
        if !self.foreseen.is_on() {
            return None;
        }
        self.holder_beside(self.devices[device].space())?;
        let end = self.devices.turn_end_ns();
        (end > self.clock.now_ns()).then_some(end)
    }

    /// A device has its turn: the process that had it before, and does not fit beside it, stands in line.
    pub(crate) fn end_turn_for(&mut self, device: DeviceId, batch: &mut Batch<F>) {
        if !self.foreseen.is_on() {
            return;
        }
        let listed = self.devices[device].list().map(|id| self.allocations[id].pages).sum();
        self.devices.count_turn_pages(device, listed);
        let space = self.devices[device].space();
        let before = self.holder_beside(space);
        if let Some(before) = before {
            let busy: Vec<DeviceId> =
                self.devices.busy_of(before, self.busy_since_ns()).map(|(device, _)| device).collect();
            for device in busy {
                self.suspend_now(device, batch);
            }
        }
        if self.devices.holder() != Some(space) {
            self.give_turn(space, true);
        }
    }

    /// How long a turn lasts that is worth its switch, where bringing the device's list took so long: some times as long as bringing all of
    /// its process's content, and where that is only inferred from the list, at most [`TURN_QUANTA_MAX`].
    pub(crate) fn worth_ns(&self, device: DeviceId, switch_ns: u64) -> u64 {
        let worth_ns = switch_ns.saturating_mul(self.policy.turn_worth);
        let listed = self.devices[device].turn_pages();
        let footprint = self.foreseen.footprint(self.process_number(device));
        if !self.foreseen.is_on() || listed == 0 || footprint <= listed {
            return worth_ns;
        }
        let whole_ns = u128::from(worth_ns) * u128::from(footprint) / u128::from(listed);
        let most_ns = self.policy.residency_quantum_ns.saturating_mul(TURN_QUANTA_MAX);
        u64::try_from(whole_ns).unwrap_or(u64::MAX).min(most_ns).max(worth_ns)
    }

    /// A process has its turn from now on: the planner hears so, and takes the others' content first.
    fn give_turn(&mut self, space: SpaceId, awaits_content: bool) {
        let before = self.devices.holder();
        let end_ns = self.clock.now_ns().saturating_add(self.policy.residency_quantum_ns);
        self.devices.hold(space, end_ns, awaits_content);
        if before == Some(space) {
            return;
        }
        let next = [Turn { process: space.parts().0, from_ns: 0, for_ns: 0 }];
        for segment in self.foreseen.planned().iter() {
            self.foreseen.hear(segment, Event::Order { next: &next });
            self.rank_changed(segment);
        }
    }

    /// Whether processes whose lists fit take turns at all.
    fn takes_turns(&self) -> bool {
        self.foreseen.is_on() && self.policy.suspend_others
    }

    /// A process that had something to run at this time or later keeps its turn: between two steps it has nothing for a moment.
    fn busy_since_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.policy.residency_quantum_ns)
    }

    /// The process that has its turn, if it is another one that has something to run, and the two fit one at a time.
    fn holder_beside(&self, space: SpaceId) -> Option<SpaceId> {
        let holder = self.devices.holder().filter(|holder| *holder != space)?;
        self.devices.busy_of(holder, self.busy_since_ns()).next()?;
        let fit_one_at_a_time = self.foreseen.fit_one_at_a_time(space.parts().0, holder.parts().0);
        fit_one_at_a_time.then_some(holder)
    }
}

/// Quanta that a turn lasts at most by what its process's content takes to come: a list may name next to nothing, and wait for long.
const TURN_QUANTA_MAX: u64 = 50;
